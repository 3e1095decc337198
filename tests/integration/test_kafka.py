"""The whole way over a real Kafka broker."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

from scouter.transport.config import KafkaConfig
from tests.bench.kill import over_kafka
from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.components import ROOT
from tests.support.kafka_broker import (
    ExternalBroker,
    KafkaBroker,
    admin,
    create_topics,
    delete_topics,
)
from tests.support.processes import wait_until
from tests.support.traced_agent import Moment, agent_process, helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]
KILLS = 2
"""One of them while it cannot store what it has read."""
ITEMS = 150
_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Topics and consumer group of one test, and the collector that reads them."""

    transport: KafkaConfig
    group: str
    collector: CollectorProcess


@pytest.fixture
def line(
    kafka: KafkaBroker | ExternalBroker, start_collector: StartCollector, tmp_path: Path
) -> Generator[Line]:
    """Topics that no other test uses, and a collector on them."""
    name = f"{tmp_path.parent.name}-{next(_NUMBERS)}"
    transport = KafkaConfig(
        brokers=kafka.bootstrap,
        spans_topic=f"{name}.spans",
        records_topic=f"{name}.records",
    )
    create_topics(kafka.bootstrap, [transport.spans_topic, transport.records_topic])
    profile = helper_profile().save_to_json(tmp_path / "helper.json")
    collector = start_collector(
        "--kafka", kafka.bootstrap, "--kafka-spans-topic", transport.spans_topic,
        "--kafka-records-topic", transport.records_topic, "--kafka-group", name,
        "--profile", profile,
        "--quiet-s", "30s",  # longer than the broker is away in these tests
    )  # fmt: skip
    yield Line(transport=transport, group=name, collector=collector)
    if not kafka.owned:
        collector.close()
        delete_topics(kafka.bootstrap, [transport.spans_topic, transport.records_topic])


def test_a_record_meets_its_own_spans_whenever_it_leaves(line: Line) -> None:
    """Records sent before, between and after their spans get the same evaluation, each once."""
    with traced_agent(line.transport, helper_profile()) as agent:
        sent = {moment: agent.answer(moment.value, moment=moment) for moment in Moment}
        agent.flush()
        line.collector.wait_evaluated(3)
    evaluations = {item["record_id"]: item for item in line.collector.evaluations()}

    assert sorted(evaluations) == ["after", "before", "between"]
    for moment, record in sent.items():
        item = evaluations[moment.value]
        assert (item["uid"], item["trace_id"]) == (record.uid, record.trace_id)
        assert (item["outcome"], item["revision"], item["missing_parents"]) == ("passed", 1, 0)
        assert tasks_by_id(item)["own_search"]["actual"] == f"question {moment.value}"


def test_what_is_read_twice_is_evaluated_once(
    line: Line, kafka: KafkaBroker | ExternalBroker
) -> None:
    """The group loses its offsets, so the collector reads both topics again from the start."""
    cases = [f"case-{n}" for n in range(20)]
    with traced_agent(line.transport, helper_profile()) as agent:
        agent.answer_all(cases)
    collector = line.collector
    collector.wait_evaluated(20)
    first = collector.evaluations()
    assert collector.stop() == 0
    with admin(kafka.bootstrap) as client:
        client.delete_groups([line.group])
    collector.start()

    wait_until(
        lambda: (
            collector.records()["duplicates"] == 20
            and collector.get("/api/v1/conservation")["spans"]["duplicates"] == 80
        ),
        what="20 records and 80 spans are read again",
    )
    records = collector.records()
    assert (records["accepted"], records["evaluated"]) == (20, 20)
    assert collector.evaluations() == first
    assert {item["revision"] for item in first} == {1}


def test_a_restarted_collector_goes_on_where_it_was(line: Line) -> None:
    """Messages wait in the topics while it is away; a clean stop means no second reading."""
    collector = line.collector
    with traced_agent(line.transport, helper_profile()) as agent:
        agent.answer_all(["before-1", "before-2"])
        collector.wait_evaluated(2)
        assert collector.stop() == 0
        agent.answer_all(["away-1", "away-2", "away-3"], good=False)
        collector.start()
        collector.wait_evaluated(5)
    outcomes = {item["record_id"]: item["outcome"] for item in collector.evaluations()}
    records = collector.records()

    assert outcomes == {
        "before-1": "passed", "before-2": "passed",
        "away-1": "failed", "away-2": "failed", "away-3": "failed",
    }  # fmt: skip
    assert (records["accepted"], records["evaluated"], records["duplicates"]) == (5, 5, 0)


@pytest.mark.long  # a broker more; the restart below is the shorter form
def test_a_broker_that_is_away_under_traffic(kafka: KafkaBroker | ExternalBroker) -> None:
    """Records over HTTP are evaluated meanwhile; by default the program's outage lasts 60 s.

    It is a program of its own, as kafka-python leaves sockets of refused connections open.
    """
    assert kafka.bootstrap  # a broker can be had here; the program starts one of its own
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.outage", "--away-s", "5", "--items", "20"],
        cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "away for 5 s" in done.stdout


def test_the_broker_may_restart(line: Line, kafka: KafkaBroker | ExternalBroker) -> None:
    """Agent and collector connect again by themselves; nothing is lost and nothing doubled."""
    if not isinstance(kafka, KafkaBroker):
        pytest.skip("KAFKA_BOOTSTRAP names a broker that is not ours to restart")
    with agent_process(line.transport) as agent:
        agent.answer("one", "two")
        agent.flush()
        line.collector.wait_evaluated(2)
        kafka.stop()
        agent.answer("meanwhile")
        kafka.start()
        agent.answer("later")
        agent.flush()
        line.collector.wait_evaluated(4)
    evaluations = line.collector.evaluations()

    assert sorted(item["record_id"] for item in evaluations) == ["later", "meanwhile", "one", "two"]
    assert {item["outcome"] for item in evaluations} == {"passed"}


def test_kills_lose_and_double_nothing(tmp_path: Path, kafka: KafkaBroker | ExternalBroker) -> None:
    report = over_kafka(tmp_path, kafka.bootstrap, KILLS, ITEMS)
    assert report.items >= ITEMS
    assert report.redelivered > 0, "no kill met a message that was stored, its offset not committed"
    assert report.is_clean, report
