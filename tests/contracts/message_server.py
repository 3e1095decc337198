"""Duties of a collector with any message server; a server's test adds one small class."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scouter.model.otlp import encode_request
from scouter.transport.config import RemoteConfig
from tests.contracts.store_data import span
from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.kill_run import rates_agree, sheet_agrees
from tests.support.processes import wait_until
from tests.support.traced_agent import ALIAS, Moment, helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]


def is_caught_up(collector: CollectorProcess) -> bool:
    """Tell whether a collector knows of no message that it has not stored."""
    return collector.metrics()["scouter_join_input_caught_up"] == 1


class MessageServerContract:
    """Subclass it and say how the server is reached, stopped and looked into."""

    @pytest.fixture
    def running(self) -> Iterator[None] | None:
        """The server, with queues of this test's own."""
        raise NotImplementedError

    @abstractmethod
    def config(self) -> RemoteConfig:
        """Settings of the agent's transport."""

    @abstractmethod
    def flags(self) -> list[str]:
        """The collector's flags for the same server."""

    @abstractmethod
    def put(self, data: bytes, *, is_spans: bool) -> None:
        """Write a message of one's own, which tells of two drops (`full=2`)."""

    @abstractmethod
    def left(self) -> int:
        """Messages on the server that nobody has acknowledged, or at least those to be read."""

    def left_behind(self) -> int:
        """The same once no collector runs: also those that it had in hand."""
        return self.left()

    @abstractmethod
    def restart(self) -> None:
        """Stop the server and start it again with its data."""

    @pytest.fixture
    def collector(
        self, running: None, start_collector: StartCollector, tmp_path: Path
    ) -> CollectorProcess:
        """A collector on the server, with the helper's profile."""
        profile = helper_profile().save_to_json(tmp_path / "helper.json")
        return start_collector("--profile", profile, "--quiet-s", "20s", *self.flags())

    @pytest.fixture(autouse=True)
    def nothing_left(self, collector: CollectorProcess) -> Iterator[None]:
        """However a test goes, everything that was stored is acknowledged."""
        yield
        wait_until(lambda: self.left() == 0, what="every message is read")
        wait_until(lambda: is_caught_up(collector), what="every message is stored")
        assert collector.stop() == 0
        assert self.left_behind() == 0

    def test_a_record_meets_its_own_spans(self, collector: CollectorProcess) -> None:
        with traced_agent(self.config(), helper_profile()) as agent:
            sent = {moment: agent.answer(moment.value, moment=moment) for moment in Moment}
            collector.wait_evaluated(3)
        found = {item["record_id"]: item for item in collector.evaluations()}

        assert {name: item["uid"] for name, item in found.items()} == {
            moment.value: record.uid for moment, record in sent.items()
        }
        assert {item["outcome"] for item in found.values()} == {"passed"}
        assert tasks_by_id(found["after"])["own_search"]["actual"] == "question after"

    def test_a_killed_collector_loses_and_doubles_nothing(
        self, collector: CollectorProcess
    ) -> None:
        """Killed with messages under way, more come meanwhile, then it starts again."""
        cases = [f"case-{n}" for n in range(60)]
        with traced_agent(self.config(), helper_profile()) as agent:
            for begin in range(0, 60, 30):
                agent.answer_all(cases[begin : begin + 15])
                collector.kill()
                agent.answer_all(cases[begin + 15 : begin + 30])
                collector.start()
            collector.wait_evaluated(60)
        found = collector.evaluations()

        assert sorted(item["record_id"] for item in found) == sorted(cases)
        assert {item["outcome"] for item in found} == {"passed"}
        assert sheet_agrees(collector, 60, 240)
        assert rates_agree(collector, found)

    def test_the_server_may_restart(self, collector: CollectorProcess) -> None:
        with traced_agent(self.config(), helper_profile()) as agent:
            agent.answer_all(["one"])
            collector.wait_evaluated(1)
            self.restart()
            agent.answer_all(["two", "three"])
            collector.wait_evaluated(3)

        found = collector.evaluations()
        assert {item["outcome"] for item in found} == {"passed"}
        assert sheet_agrees(collector, 3, 12)
        assert rates_agree(collector, found)

    def test_poison_is_put_aside_and_the_rest_goes_on(self, collector: CollectorProcess) -> None:
        """The clock of the join runs where nothing is left, before and afterwards."""
        wait_until(lambda: is_caught_up(collector), what="an empty server is no lag")
        record: dict[str, Any] = {"uid": "good", "profile": ALIAS, "context": {"answer": "42"}}
        bad = {**record, "uid": "bad", "trace_id": "?"}
        self.put(b"\xff\xff\xff", is_spans=True)
        self.put(b"", is_spans=False)
        self.put(b"{", is_spans=False)
        self.put(encode_request([span(1)]).SerializeToString(), is_spans=True)
        self.put(json.dumps({"records": [bad, record]}).encode(), is_spans=False)
        wait_until(lambda: collector.records()["accepted"] == 1, what="the good record")

        sheet = collector.get("/api/v1/conservation")
        assert sheet["spans"]["stored"] == 1
        assert sheet["dead_letters"] == {"invalid_message": 3, "invalid_record": 1}
        metrics = collector.metrics()
        assert metrics['scouter_queue_dropped_total{reason="full",space="default"}'] == 10
        wait_until(lambda: self.left() == 0, what="every message is acknowledged")
        wait_until(lambda: is_caught_up(collector), what="messages that were read are no lag")
