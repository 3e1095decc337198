"""Metrics of the collector: each part, with figures of one record and its trace."""

import os
import re
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from collector.judging.judges import JudgeMeasures
from collector.metrics import (
    CollectorMetrics,
    TotalKey,
    TotalName,
    task_label,
    with_few_changes,
)
from scouter.evaluate.outcome import Outcome
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Resource
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.openmetrics import ACCEPT, families_in
from tests.support.processes import wait_until

DOCS = Path(__file__).parents[2] / "docs"


def test_every_part_says_how_it_is(start: Start, traced: Path) -> None:
    """The body of one request of spans, the evaluation on one record, and a broker that is away."""
    service = start(profile=[str(traced)])
    syncs = service.sample("scouter_log_sync_seconds_count") or 0
    inputs = service.collector.brokers
    inputs.add("kafka")
    inputs.report("kafka", 5.0)
    resource = Resource(attributes={PROCESS_ID: "p"})
    root = span(1, name="step", attributes={PROCESS_SPAN_COUNT: 1}, resource=resource)
    body = encode_request([root]).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    assert service.http.post("/v1/traces", content=body, headers=headers).status_code == 200
    received = 'scouter_spans_received_total{space="default"}'
    wait_until(lambda: service.sample(received) == 1, what="a commit without the record")
    service.send({"uid": "u1", "profile": "traced", "trace_id": TRACE})
    service.wait_for(1)

    traces = '{receiver="http",signal="traces"}'
    assert service.sample(f"scouter_ingest_bytes_total{traces}") == len(body)
    assert service.sample(f"scouter_ingest_duration_seconds_count{traces}") == 1
    for line, value in {
        "scouter_ingest_in_flight_bytes": 0,
        "scouter_records_waiting": 0,
        'scouter_join_wait_seconds_count{completeness="complete"}': 1,
        "scouter_evaluation_latency_seconds_count": 1,
        "scouter_log_waiting_bytes": 0,
        "scouter_log_sync_seconds_count": syncs + 2,
    }.items():
        wait_until(lambda: service.sample(line) == value, what=f"{line} {value}")  # noqa: B023
    assert (service.sample("scouter_store_commit_seconds_count") or 0) >= 3
    lag_s = service.sample('scouter_receiver_lag_seconds{receiver="kafka"}')
    assert lag_s is not None
    assert 5 <= lag_s < 60
    memory = service.sample("scouter_process_resident_memory_bytes")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    assert memory == pytest.approx(pages * os.sysconf("SC_PAGE_SIZE"), rel=0.2)


def test_the_table_of_the_page(start: Start) -> None:
    """Every series that is named is shown."""
    text = (DOCS / "operate.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(scouter_[a-z_]+)(?:\{[^`]*)?`", text))
    shown = start().http.get("/metrics").text

    assert "scouter_receiver_lag_seconds" in named
    assert {name for name in named if f"# TYPE {name} " not in shown} == set()


def test_labels_hold_nothing_that_a_sender_wrote(start: Start, traced: Path) -> None:
    """A name of a profile that nobody registered, ids, tags, attributes, and reasons of drops."""
    service = start(profile=[str(traced)], deadline_s="200ms")
    word = "strange"
    record = {
        "uid": f"{word} 1", "profile": word, "record_id": word, "session_id": word,
        "tags": {word: word}, "context": {},
    }  # fmt: skip
    headers = {"scouter-dropped": f"{word}=3, full=2"}
    answer = service.http.post("/v1/records", json={"records": [record]}, headers=headers)
    assert answer.json()["accepted"] == 1
    resource = Resource(attributes={"service.name": word, PROCESS_ID: word})
    body = encode_request([span(1, name=word, resource=resource)]).SerializeToString()
    media = {"Content-Type": "application/x-protobuf"}
    assert service.http.post("/v1/traces", content=body, headers=media).status_code == 200
    assert service.http.post("/v1/records", json={"records": [{"profile": [word]}]}).is_success
    service.wait_for(1, "dead_lettered")

    shown = service.http.get("/metrics").text
    assert word not in shown
    assert 'scouter_dead_letters_total{reason="unknown_profile",space="default"} 1.0' in shown


def test_changes_of_too_many_tasks_are_summed_up() -> None:
    """In the space where there are too many, and of that kind only."""

    def changes(
        space: str, tasks: int, name: TotalName = TotalName.REVISIONS
    ) -> dict[TotalKey, int]:
        return {
            TotalKey(name, space, "p", "a", f"t{n}", label): n
            for n in range(tasks)
            for label in ("passed>failed", "pending>passed")
        }

    few = changes("bank", 2) | changes("shop", 2, TotalName.REEVALUATIONS)
    totals = few | changes("shop", 3) | {TotalKey(TotalName.TASKS, "shop", "p", "a", "t", "x"): 7}
    assert with_few_changes(totals, 6) == totals
    found = dict(with_few_changes(totals, 5))
    for label in ("passed>failed", "pending>passed"):
        key = TotalKey(TotalName.REVISIONS, "shop", "(other)", "(other)", "(other)", label)
        assert found.pop(key) == 0 + 1 + 2
    assert found == few | {TotalKey(TotalName.TASKS, "shop", "p", "a", "t", "x"): 7}


def test_final_results_have_what_judges_answered_later() -> None:
    """Two at once; of three that waited, two are answered; what changes later is no second one."""

    def key(name: TotalName, label: str) -> TotalKey:
        return TotalKey(name, "s", "p", "a", "t", label)

    totals = {
        key(TotalName.TASKS, "passed"): 2,
        key(TotalName.TASKS, "pending"): 3,
        key(TotalName.REVISIONS, "pending>passed"): 1,
        key(TotalName.REVISIONS, "pending>failed"): 1,
        key(TotalName.REVISIONS, "passed>failed"): 5,
    }
    registry = CollectorMetrics(lambda: totals, lambda: 0).registry
    labels = {"space": "s", "profile": "p", "alias": "a", "task": "t"}
    found = {
        outcome: registry.get_sample_value(
            "scouter_task_results_total", {**labels, "outcome": outcome}
        )
        for outcome in ("passed", "failed", "pending")
    }
    assert found == {"passed": 3, "failed": 1, "pending": None}


def test_models_that_profiles_name_share_a_series_beyond_a_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = CollectorRegistry()
    measures = JudgeMeasures(registry, most_models=2)
    for model in ("a", "b", "c", "d", "a", "c"):
        measures.looked_up("entry", model, was_found=False)
        measures.called("entry", model, "answered", 0.1, None)
    name = "scouter_judge_calls_total"
    labels = {"entry": "entry", "outcome": "answered"}
    found = [registry.get_sample_value(name, labels | {"model": m}) for m in ("a", "b", "(other)")]
    assert found == [2, 1, 3]
    assert registry.get_sample_value(name, labels | {"model": "c"}) is None
    assert len(caplog.records) == 1


def families_of(service: Service) -> dict[str, Metric]:
    """The answer to a scrape in OpenMetrics."""
    answer = service.http.get("/metrics", headers={"Accept": ACCEPT})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    return {each.name: each for each in families_in(answer.text)}


def test_a_count_names_the_trace_that_it_is_about(start: Start, answers: Path) -> None:
    """The latest of each outcome, in OpenMetrics alone; a record without a trace names none."""
    service = start(profile=[str(answers)], deadline_s="100ms")
    first, second, wrong = (f"{n:032x}" for n in (1, 2, 3))
    for trace_id, answer in ((first, 42), (second, 42), (wrong, 41), ("", 42)):
        record = {"profile": "answers", "context": {"answer": answer}}
        service.send({**record, "trace_id": trace_id} if trace_id else record)
        service.wait_for(service.get("/api/v1/conservation")["records"]["accepted"])

    families = families_of(service)
    for name, labels in (
        ("scouter_evaluations", {"task": "right"}),
        ("scouter_task_results", {"task": "right"}),
        ("scouter_records_evaluated", dict[str, str]()),
    ):
        found = {
            each.labels["outcome"]: (each.value, each.exemplar)
            for each in families[name].samples
            if labels.items() <= each.labels.items() and each.value
        }
        assert {outcome: value for outcome, (value, _) in found.items()} == {
            "passed": 3,
            "failed": 1,
        }
        assert found["failed"][1] is not None
        assert found["failed"][1].labels == {"trace_id": wrong}
        assert found["passed"][1] is not None
        assert found["passed"][1].labels == {"trace_id": second}
        assert found["passed"][1].value == 1
        assert 0 <= time.time() - float(found["passed"][1].timestamp or 0) < 60
    waits = [
        each.exemplar
        for each in families["scouter_join_wait_seconds"].samples
        if each.exemplar is not None
    ]
    assert wrong in {each.labels["trace_id"] for each in waits}
    assert all(each.value >= 0 for each in waits)

    plain = service.http.get("/metrics")
    assert plain.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert wrong not in plain.text


def test_every_series_is_in_both_formats(start: Start, answers: Path) -> None:
    """With the same types; OpenMetrics knows a counter by its name without `_total`."""
    service = start(profile=[str(answers)])
    shown = service.http.get("/metrics").text
    plain = dict(re.findall(r"^# TYPE (\S+) (\S+)$", shown, re.MULTILINE))
    found = {
        f"{name}_total" if family.type == "counter" else name: family.type
        for name, family in families_of(service).items()
    }
    assert found == {name: kind for name, kind in plain.items() if not name.endswith("_created")}


@pytest.mark.parametrize("reason", ["sampled", "budget", "not_applicable"])
def test_a_skip_that_is_in_no_rate_has_a_label_of_its_own(reason: str) -> None:
    assert task_label(Outcome.SKIPPED, reason) == reason
    assert task_label(Outcome.SKIPPED, "gate") == "skipped"
    assert task_label(Outcome.ERRORED, reason) == "errored"
