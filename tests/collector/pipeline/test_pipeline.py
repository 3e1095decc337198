"""From commit to evaluation, in one process: who judges, what waits, what survives a restart."""

import json
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.items.traces import trace_of
from collector.pipeline import pipeline as pipeline_module
from collector.pipeline import work as work_module
from collector.pipeline.evaluate import commit as evaluations_module
from collector.pipeline.evaluate import decide as decide_module
from collector.pipeline.join import read_back as read_back_module
from collector.pipeline.join.input_clock import Via
from collector.storage.duckdb.store import DuckDBStore
from collector.store.letters import LetterQuery
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import (
    PROCESS_ID,
    PROCESS_SPAN_COUNT,
    QUEUE_EVENT,
    QUEUE_RECORD,
)
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Resource, Span, SpanEvent
from tests.collector.conftest import Service, Start
from tests.collector.pipeline.process_support import Process
from tests.contracts.store_data import SPACE, TRACE, record, span
from tests.support.processes import wait_until


def send_spans(service: Service, *spans: Span) -> None:
    data = encode_request(spans).SerializeToString()
    headers = {"Content-Type": "application/x-protobuf"}
    assert service.http.post("/v1/traces", content=data, headers=headers).status_code == 200


def ours(
    number: int, parent: int | None = None, *, count: int = 0, remote: bool = False, **fields: Any
) -> Span:
    return span(
        number,
        name="step" if parent else "root",
        parent_span_id=f"{parent:016x}" if parent else None,
        parent_is_remote=remote,
        attributes={PROCESS_SPAN_COUNT: count} if count else {},
        resource=Resource(attributes={PROCESS_ID: "p", "service.version": "1.2"}),
        **fields,
    )


SPANS = (ours(1, count=3), ours(2, 1), ours(3, 1))
RECORD = {"uid": "u1", "profile": "traced", "trace_id": TRACE}


def only(service: Service) -> dict[str, Any]:
    service.wait_for(1)
    (item,) = service.get("/api/v1/evaluations")["items"]
    return item


@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_record_is_judged_with_its_whole_trace(start: Start, traced: Path, when: str) -> None:
    service = start(profile=[str(traced)], quiet_s="1h", deadline_s="1h")
    if when == "before":
        service.send(RECORD)
    send_spans(service, *SPANS[1:])
    if when == "between":
        service.send(RECORD)
    send_spans(service, SPANS[0])
    if when == "after":
        service.send(RECORD)
    item = only(service)
    assert (item["outcome"], item["completeness"]) == ("passed", "complete")
    assert item["tasks"][0]["actual"] == 2


def test_the_service_is_that_of_the_span_that_emitted_the_record(
    start: Start, traced: Path
) -> None:
    """The root belongs to a gateway; the record's event is on a span of the agent behind it."""
    event = SpanEvent(name=QUEUE_EVENT, time_ns=1, attributes={QUEUE_RECORD: "u1"})
    gateway = Resource(attributes={"service.name": "gateway", "service.version": "9"})
    agent = Resource(
        attributes={"service.name": "agent", "service.version": "2", "deployment.environment": "qa"}
    )
    service = start(profile=[str(traced)])
    send_spans(
        service,
        span(1, resource=gateway),
        span(2, parent_span_id=f"{1:016x}", resource=agent, events=(event,)),
    )
    service.send(RECORD)
    item = only(service)
    named = (item["service_name"], item["service_version"], item["environment"])
    assert named == ("agent", "2", "qa")


def test_a_trace_that_stays_open_is_judged_when_it_is_quiet(start: Start, traced: Path) -> None:
    service = start(profile=[str(traced)])
    send_spans(service, ours(2, 1, remote=True))
    service.send(RECORD)
    item = only(service)
    assert (item["completeness"], item["missing_parents"]) == ("quiet", 1)
    assert (item["outcome"], item["tasks"][0]["actual"]) == ("failed", 1)
    line = 'scouter_join_wait_seconds_count{completeness="quiet"}'
    assert service.sample(line) == 1


def test_a_trace_that_lacks_spans_is_judged_at_the_deadline(start: Start, traced: Path) -> None:
    """One step of two is here, and so is no root: the other step may be missing, too."""
    service = start(profile=[str(traced)], deadline_s="1s")
    send_spans(service, ours(2, 1))
    service.send(RECORD)
    item = only(service)
    assert (item["completeness"], item["missing_parents"]) == ("deadline", 1)
    task = item["tasks"][0]
    assert (task["outcome"], task["reason"], task["actual"]) == ("errored", "incomplete", 1)
    assert "the span 0000000000000001, parent of 'step', is not here" in task["message"]


@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_a_refused_span_is_missing_evidence(start: Start, traced: Path, form: str) -> None:
    """Foreign spans, complete by their parents; the third has a time beyond 64 bits."""
    service = start(profile=[str(traced)])
    spans = [
        span(n, name="step", parent_span_id=None if n == 1 else f"{1:016x}", end_ns=end_ns)
        for n, end_ns in ((1, 200), (2, 200), (3, 2**64 - 1))
    ]
    if form == "json":
        sent = service.http.post("/v1/traces", json=spans_to_otlp_json(spans))
    else:
        data = encode_request(spans).SerializeToString()
        headers = {"Content-Type": "application/x-protobuf"}
        sent = service.http.post("/v1/traces", content=data, headers=headers)
    assert sent.status_code == 200
    service.send(RECORD)
    item = only(service)
    task = item["tasks"][0]
    assert (item["completeness"], task["reason"], task["actual"]) == ("complete", "incomplete", 2)
    assert f"a span of the trace {TRACE} was refused (" in task["message"]


def test_a_span_that_is_refused_later_takes_the_pass_back(start: Start, traced: Path) -> None:
    """Two steps of two passed; one more was made, and the collector could not take it."""
    service = start(profile=[str(traced)])
    send_spans(service, *SPANS)
    service.send(RECORD)
    assert only(service)["outcome"] == "passed"
    bad = spans_to_otlp_json([replace(SPANS[2], span_id=f"{4:016x}", end_ns=2**64 - 1)])
    assert service.http.post("/v1/traces", json=bad).status_code == 200
    wait_until(lambda: only(service)["revision"] == 2, what="it is judged again")
    assert only(service)["tasks"][0]["reason"] == "incomplete"


@pytest.mark.parametrize("payload", [b"", b"{", b'{"resourceSpans": 1}', b"\x0a\x05abc"])
def test_of_what_no_trace_can_be_read_from_none_is_told(payload: bytes) -> None:
    assert trace_of(payload) == ""


def test_the_trace_of_a_span_that_cannot_be_parsed() -> None:
    """Its first field says it; a name that is no text comes behind."""
    request = encode_request([span(1, name="n" * 9)]).SerializeToString()
    assert trace_of(request.replace(b"n" * 9, b"\xff" * 9)) == TRACE


def test_later_spans_are_counted_as_late(start: Start, traced: Path) -> None:
    service = start(profile=[str(traced)])
    send_spans(service, *SPANS)
    service.send(RECORD)
    only(service)
    send_spans(service, ours(4, 1))
    assert service.get("/api/v1/conservation")["spans"]["late"] == 1


def test_spans_that_memory_let_go_are_read_back(start: Start, traced: Path) -> None:
    """A hundred spans may stay in memory, a thousand of other traces come in between."""
    service = start(profile=[str(traced)], join_memory_spans=100, quiet_s="1h", deadline_s="1h")
    send_spans(service, *SPANS[1:])
    service.send(RECORD)
    send_spans(service, *(span(1, trace_id=f"{n:032x}") for n in range(1, 1001)))
    send_spans(service, SPANS[0])
    item = only(service)
    assert (item["outcome"], item["completeness"]) == ("passed", "complete")


@pytest.mark.parametrize("is_open", [True, False])
def test_traces_are_read_back_a_few_at_a_time(
    is_open: bool, tmp_path: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve traces of three spans, driven out of the memory before their roots: two at a time.

    Or when they are complete; a fourth span then comes to each.
    """
    read: list[int] = []
    spans_of = DuckDBStore.spans_of

    def counted(store: DuckDBStore, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        found = spans_of(store, space, trace_ids)
        read.append(sum(map(len, found.values())))
        return found

    monkeypatch.setattr(DuckDBStore, "spans_of", counted)
    monkeypatch.setattr(read_back_module, "SPANS", 6)
    process = Process(tmp_path, AgentEvalProfile.from_file(traced), memory_spans=10)
    traces = [f"{n:032x}" for n in range(1, 13)]
    uid = process.profile_uid
    process.records(*(record(t, profile_uid=uid, trace_id=t) for t in traces))
    process.after(0)
    first, last = (SPANS[1:], SPANS[0]) if is_open else (SPANS, ours(4, 1))
    process.spans(*(replace(each, trace_id=t) for t in traces for each in first))
    process.spans(*(ours(n, 1, trace_id="f" * 32) for n in range(2, 50)))
    process.spans(*(replace(last, trace_id=t) for t in traces))
    read.clear()
    process.after(2)
    actual = 2 if is_open else 3
    evaluations = process.evaluations()
    assert {uid: row.tasks[0].actual for uid, row in evaluations.items()} == dict.fromkeys(
        traces, actual
    )
    assert (len(read), set(read)) == (6, {6 if is_open else 8})
    process.store.close()


def test_complete_traces_are_judged_before_memory_lets_them_go(
    tmp_path: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four traces the engine fails on the second at first; the third gets a span later."""
    process = Process(tmp_path, AgentEvalProfile.from_file(traced), memory_spans=10)
    traces = [f"{n:032x}" for n in range(1, 5)]
    event = SpanEvent(name=QUEUE_EVENT, time_ns=1, attributes={QUEUE_RECORD: traces[0]})
    resource = Resource(attributes={PROCESS_ID: "p", "service.version": "3"})
    spans = [replace(each, trace_id=t) for t in traces for each in SPANS]
    spans[1] = replace(spans[1], events=(event,), resource=resource)
    uid = process.profile_uid
    process.records(*(record(t, profile_uid=uid, trace_id=t) for t in traces))
    process.spans(*spans)  # ten may stay: the first trace goes
    with monkeypatch.context() as patch:
        patch.delattr(work_module, "judge_early")
        process.spans(*(ours(n, 1, trace_id="e" * 32) for n in range(2, 6)))
    process.spans(*(ours(n, 1, trace_id="f" * 32) for n in range(2, 12)))
    process.spans(replace(ours(4, 1), trace_id=traces[2]))
    read: list[str] = []
    spans_of = DuckDBStore.spans_of

    def noted(store: DuckDBStore, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        found = spans_of(store, space, trace_ids)
        read.extend(found)
        return found

    monkeypatch.setattr(DuckDBStore, "spans_of", noted)
    process.after(2)
    evaluations = process.evaluations()
    assert {uid: row.tasks[0].actual for uid, row in evaluations.items()} == {
        traces[0]: 2, traces[1]: 2, traces[2]: 3, traces[3]: 2,
    }  # fmt: skip
    assert [evaluations[t].service_version for t in traces] == ["3", "1.2", "1.2", "1.2"]
    assert sorted(read) == traces[1:3]
    process.store.close()


def test_waiting_records_are_taken_up_after_a_restart(start: Start, traced: Path) -> None:
    service = start(profile=[str(traced)], quiet_s="60s", deadline_s="60s")
    send_spans(service, *SPANS[1:])
    service.send(RECORD)
    assert service.get("/api/v1/conservation")["records"]["waiting"] == 1
    service = start(profile=[str(traced)], quiet_s="60s", deadline_s="60s")
    wait_until(lambda: service.sample("scouter_records_waiting") == 1, what="it waits again")
    send_spans(service, SPANS[0])
    item = only(service)
    assert (item["outcome"], item["completeness"]) == ("passed", "complete")


# --- profiles ---------------------------------------------------------------------------------


def test_an_unknown_profile_is_a_dead_letter_at_the_deadline(start: Start) -> None:
    service = start(deadline_s="200ms")
    told = service.send({"uid": "u1", "profile": "nobody", "context": {}})
    assert told["accepted"] == 1
    service.wait_for(1, "dead_lettered")
    sheet = service.get("/api/v1/conservation")
    assert sheet["dead_letters"] == {"unknown_profile": 1}
    assert sheet["records"]["accepted"] == sheet["records"]["dead_lettered"] == 1
    assert service.send({"uid": "u1", "profile": "nobody", "context": {}})["duplicates"] == 1


def test_a_profile_that_comes_with_the_next_start_is_waited_for(
    start: Start, answers: Path
) -> None:
    service = start(deadline_s="60s")
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    service = start(profile=[str(answers)], deadline_s="60s")
    assert only(service)["outcome"] == "passed"


def test_a_profile_that_is_registered_meanwhile_is_used(start: Start, answers: Path) -> None:
    service = start(deadline_s="60s")
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    profile = AgentEvalProfile.from_file(answers)
    service.collector.registry.register("default", profile, activate=True)
    service.collector.pipeline.profiles_changed()
    assert only(service)["outcome"] == "passed"


def test_a_record_is_judged_by_the_version_it_was_stamped_with(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    """The alias means the new version; the old digest still means the old one."""
    old = AgentEvalProfile.from_file(answers)
    new = AgentEvalProfile(
        [AssertionTask("right", "answer", 43, ComparisonOperator.Equals)],
        old.config,
        alias="answers",
    )
    start(profile=[str(answers)])
    service = start(profile=[str(new.save_to_json(tmp_path / "new.json"))])
    for ref in (old.digest, new.digest, "answers"):
        service.send({"uid": ref, "profile": ref, "context": {"answer": 42}})
    service.wait_for(3)
    items = {item["uid"]: item for item in service.get("/api/v1/evaluations")["items"]}
    assert {uid: item["outcome"] for uid, item in items.items()} == {
        old.digest: "passed",
        new.digest: "failed",
        "answers": "failed",
    }
    assert items["answers"]["profile_version"] == new.digest
    active = {
        p["profile_version"]: p["is_active"] for p in service.get("/api/v1/profiles")["items"]
    }
    assert active == {old.digest: False, new.digest: True}


def test_the_version_is_the_one_that_was_active_at_acceptance(
    start: Start, traced: Path, tmp_path: Path
) -> None:
    """Accepted by alias under the old version; the new one is active when it is judged."""
    old = AgentEvalProfile.from_file(traced)
    service = start(profile=[str(traced)], quiet_s="60s", deadline_s="60s")
    service.send(RECORD)
    new = AgentEvalProfile([AssertionTask("t", "x", 1, ComparisonOperator.Equals)], alias="traced")
    file = new.save_to_json(tmp_path / "new.json")
    service = start(profile=[str(file)], quiet_s="60s", deadline_s="60s")
    send_spans(service, *SPANS)
    assert only(service)["profile_version"] == old.digest


def test_the_same_profile_again_changes_nothing(start: Start, answers: Path) -> None:
    for _ in range(3):
        service = start(profile=[str(answers), str(answers)])
        database = service.collector.store._database  # pyright: ignore[reportPrivateUsage]
        assert database.read("SELECT count(*) FROM profiles") == [(1,)]


def test_two_profiles_with_one_alias_are_refused(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    other = AgentEvalProfile(
        [AssertionTask("t", "x", 1, ComparisonOperator.Equals)], alias="answers"
    ).save_to_json(tmp_path / "other.json")
    with pytest.raises(ConfigError, match=r"answers\.json and .*other\.json both have the alias"):
        start(profile=[str(answers), str(other)])


def test_one_profile_under_two_aliases_is_refused(start: Start, tmp_path: Path) -> None:
    """Name and tasks are a profile's identity; the second one would take the place of the first."""
    files = [
        AgentEvalProfile(
            [AssertionTask("t", "x", 1, ComparisonOperator.Equals)],
            AgentEvalConfig(name="same"),
            alias=alias,
        ).save_to_json(tmp_path / f"{alias}.json")
        for alias in ("a", "b")
    ]
    with pytest.raises(ConfigError, match="'a' and 'b' have one name 'same'"):
        start(profile=[str(path) for path in files])


def test_an_unknown_profile_is_named(
    start: Start, answers: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = start(profile=[str(answers)], deadline_s="1s")
    with caplog.at_level("WARNING"):
        service.send({"uid": "u", "profile": "nobody"})
        service.wait_for(1, "dead_lettered")
    assert "records name the profile 'nobody', which is not registered" in caplog.text


def test_only_the_active_version_of_a_profile_is_watched(
    start: Start, answers: Path, tmp_path: Path
) -> None:
    """The old version was firing; the new one is healthy, and that is what the alert is about."""
    line = 'scouter_alert_firing{alias="answers",profile="deep-thought",space="default"}'
    service = start(profile=[str(answers)])
    service.send(
        *({"uid": f"a{n}", "profile": "answers", "context": {"answer": 1}} for n in range(20))
    )
    service.wait_for(20)
    wait_until(lambda: service.sample(line) == 1, what="the alert of the old version fires")
    old = AgentEvalProfile.from_file(answers)
    new = AgentEvalProfile(
        [AssertionTask("right", "answer", 43, ComparisonOperator.Equals)], old.config, "answers"
    )
    for _ in range(2):
        service = start(profile=[str(new.save_to_json(tmp_path / "new.json"))])
        assert service.sample(line) == 0
        (alert,) = service.get("/api/v1/alerts")["items"]
        assert (alert["profile_version"], alert["state"]) == (new.digest, "inactive")


# --- faults -----------------------------------------------------------------------------------


def test_a_fault_of_the_engine_costs_one_record(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = start(profile=[str(answers)])
    judge = decide_module.judge

    def failing(items: Any, *args: Any, **fields: Any) -> Any:
        if any(ready.record.uid == "bad" for ready in items):
            raise ZeroDivisionError("a bug")
        return judge(items, *args, **fields)

    monkeypatch.setattr(decide_module, "judge", failing)
    records = [{"uid": u, "profile": "answers", "context": {"answer": 42}} for u in ("a", "bad")]
    service.send(*records, {"uid": "c", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(2)
    service.wait_for(1, "dead_lettered")
    assert service.get("/api/v1/conservation")["dead_letters"] == {"engine_fault": 1}


def test_the_letter_of_a_record_that_was_judged_early_has_its_context(
    tmp_path: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory holds the result in place of the context; then the profile's evaluation fails."""
    process = Process(tmp_path, AgentEvalProfile.from_file(traced), memory_spans=10)
    context = {"answer": [42]}
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE, context=context))
    process.spans(*SPANS)
    process.spans(*(ours(n, 1, trace_id="e" * 32) for n in range(2, 12)))
    monkeypatch.delattr(decide_module, "judge")
    process.after(2)
    (stored,) = process.store.dead_letters(LetterQuery(space=SPACE))
    letter = stored.letter
    assert (letter.reason, json.loads(letter.payload)["context"]) == ("engine_fault", context)
    process.store.close()


def test_evaluations_are_offered_again_until_the_store_takes_them(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for three attempts; nothing is lost and nothing is judged twice."""
    monkeypatch.setattr(evaluations_module, "RETRY_S", 0.01)
    append, refusals = DuckDBStore.append_evaluations, [1, 2, 3]

    def full(self: DuckDBStore, rows: Any) -> "Future[int]":
        if refusals:
            refusals.pop()
            future: Future[int] = Future()
            future.set_exception(TransientError("disk full"))
            return future
        return append(self, rows)

    monkeypatch.setattr(DuckDBStore, "append_evaluations", full)
    service = start(profile=[str(answers)])
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    assert only(service)["outcome"] == "passed"
    assert refusals == []


def test_an_evaluation_that_cannot_be_stored_is_put_aside_alone(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = DuckDBStore.append_evaluations

    def picky(self: DuckDBStore, rows: Any) -> "Future[int]":
        if any(row.record_uid == "bad" for row in rows):
            future: Future[int] = Future()
            future.set_exception(DataError("no column for this"))
            return future
        return append(self, rows)

    monkeypatch.setattr(DuckDBStore, "append_evaluations", picky)
    service = start(profile=[str(answers)])
    service.send(
        *({"uid": u, "profile": "answers", "context": {"answer": 42}} for u in ("a", "bad", "c"))
    )
    service.wait_for(2)
    service.wait_for(1, "dead_lettered")
    sheet = service.get("/api/v1/conservation")
    assert sheet["dead_letters"] == {"unstorable_verdict": 1}
    assert sheet["records"]["waiting"] == 0


def test_the_store_cannot_be_read_for_a_while(
    start: Start, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loading a trace fails twice; the pipeline asks again by itself."""
    monkeypatch.setattr(pipeline_module, "RETRY_S", 0.01)
    service = start(profile=[str(traced)], join_memory_spans=100)
    send_spans(service, *SPANS)
    send_spans(service, *(span(1, trace_id=f"{n:032x}") for n in range(1, 201)))
    read, failures = service.collector.store.spans_of, [1, 2]

    def failing(*args: Any) -> Any:
        if failures:
            failures.pop()
            raise TransientError("not now")
        return read(*args)

    wait_until(lambda: service.collector.pipeline.queued == 0, what="spans are joined")
    monkeypatch.setattr(service.collector.store, "spans_of", failing)
    service.send(RECORD)
    item = only(service)
    assert (item["completeness"], item["outcome"], failures) == ("complete", "passed", [])


def test_half_a_character_does_not_cost_the_record(start: Start, answers: Path) -> None:
    """The lone surrogate D83D is no text that a column can hold; the record is judged anyway."""
    service = start(profile=[str(answers)])
    body = b'{"records": [{"profile": "answers", "context": {"answer": "\\ud83d"}}]}'
    headers = {"Content-Type": "application/json"}
    answer = service.http.post("/v1/records", content=body, headers=headers)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert only(service)["outcome"] == "failed"


def test_half_a_character_in_a_record_that_waits(start: Start, traced: Path) -> None:
    """It is measured and kept, also at a start, and costs nobody anything."""
    service = start(profile=[str(traced)], quiet_s="1h", deadline_s="1h")
    fields = f'"uid": "u1", "profile": "traced", "trace_id": "{TRACE}"'
    body = f'{{"records": [{{{fields}, "context": {{"a": "\\ud83d"}}}}]}}'
    headers = {"Content-Type": "application/json"}
    assert service.http.post("/v1/records", content=body, headers=headers).json()["accepted"] == 1
    wait_until(lambda: service.collector.pipeline.waiting == 1, what="a record that waits")
    service.stop()
    service = start(profile=[str(traced)], quiet_s="1h", deadline_s="1h")
    assert service.collector.pipeline.waiting == 1
    send_spans(service, *SPANS)
    assert only(service)["outcome"] == "passed", only(service)


def test_an_observers_fault_costs_no_evaluation(
    start: Start, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first call fails; the pipeline goes on with the next record."""
    service = start(profile=[str(traced)])
    monitor = service.collector.monitor
    told: list[str] = []

    def observe(evaluations: Any, waits: Any = ()) -> None:
        told.extend(each.record_uid for each in evaluations)
        if len(told) == 1:
            raise RuntimeError("a fault")

    monkeypatch.setattr(monitor, "observe", observe)
    send_spans(service, *SPANS)
    service.send(RECORD)
    service.wait_for(1)
    service.send(RECORD | {"uid": "u2"})
    service.wait_for(2)
    wait_until(lambda: told == ["u1", "u2"], what="each evaluation told of once")


# --- spans after the evaluation ------------------------------------------------------------------


def test_a_late_span_re_opens_the_evaluation(start: Start, traced: Path) -> None:
    """One of two steps is here at the deadline; the other comes, and takes nothing from counts."""
    service = start(profile=[str(traced)], deadline_s="1s")
    send_spans(service, *SPANS[:2])
    service.send(RECORD)
    first = only(service)
    assert (first["completeness"], first["outcome"], first["revision"]) == (
        "deadline", "errored", 1,
    )  # fmt: skip
    send_spans(service, SPANS[2])
    wait_until(lambda: only(service)["revision"] == 2, what="it is judged again")
    again = only(service)
    assert (again["completeness"], again["outcome"]) == ("complete", "passed")
    sheet = service.get("/api/v1/conservation")
    assert sheet["records"]["evaluated"] == 1
    assert sheet["spans"]["late"] == 0
    wait_until(lambda: service.sample("scouter_records_reopened_total") == 1, what="it is counted")
    line = 'scouter_join_wait_seconds_count{completeness="complete"}'
    assert service.sample(line) is None  # waits are those of first evaluations


def test_spans_after_the_late_window_change_nothing(start: Start, traced: Path) -> None:
    service = start(profile=[str(traced)], deadline_s="1s", late_window_s="0s")
    send_spans(service, *SPANS[:2])
    service.send(RECORD)
    assert only(service)["outcome"] == "errored"
    send_spans(service, SPANS[2])
    service.send({"uid": "u2", "profile": "traced", "trace_id": TRACE})
    service.wait_for(2)
    items = {item["uid"]: item for item in service.get("/api/v1/evaluations")["items"]}
    assert [(items[u]["revision"], items[u]["outcome"]) for u in ("u1", "u2")] == [
        (1, "errored"),
        (1, "passed"),
    ]
    assert service.get("/api/v1/conservation")["spans"]["late"] == 1


def test_a_late_span_of_an_earlier_process_re_opens_after_the_restart(
    start: Start, traced: Path
) -> None:
    """It was stored, and the process ended before the record was judged again."""
    service = start(profile=[str(traced)], deadline_s="1s")
    send_spans(service, *SPANS[:2])
    service.send(RECORD)
    only(service)
    service.collector.pipeline.stop()
    send_spans(service, SPANS[2])
    assert only(service)["revision"] == 1
    service = start(profile=[str(traced)])
    wait_until(lambda: only(service)["revision"] == 2, what="it is judged again")
    assert only(service)["outcome"] == "passed"


def test_contexts_beyond_the_bound_are_read_back(start: Start, tmp_path: Path) -> None:
    """A kilobyte may stay in memory; ten records of a kilobyte wait."""
    profile = AgentEvalProfile(
        [
            AssertionTask("right", "answer", 42, ComparisonOperator.Equals),
            TraceAssertionTask("root", TraceAssertion.trace_span_count(), 3, "Equals"),
        ],
        alias="both",
    ).save_to_json(tmp_path / "both.json")
    service = start(profile=[str(profile)], join_memory_bytes=1024, quiet_s="60s", deadline_s="60s")
    filler = {"answer": 42, "text": "x" * 1000}
    service.send(
        *(
            {"uid": f"u{n}", "profile": "both", "trace_id": TRACE, "context": filler}
            for n in range(10)
        )
    )
    send_spans(service, *SPANS)
    service.wait_for(10)
    items = service.get("/api/v1/evaluations")["items"]
    assert {item["outcome"] for item in items} == {"passed"}


def test_nothing_of_a_topic_expires_while_it_lags(start: Start, traced: Path) -> None:
    """It says that it has more; what comes over HTTP is judged once it was quiet for 0.3 s.

    Six of those take longer than the deadline of one second.
    """
    service = start(profile=[str(traced)], deadline_s="1s")
    ingest, inputs = service.collector.ingest, service.collector.pipeline.inputs
    inputs.add("topic")
    ingest.take_spans(SPANS[:1], 1, Via.BROKER).result()
    for future in ingest.take_records([RECORD], "topic", 1, Via.BROKER).futures:
        future.result()
    others = [f"{n:032x}" for n in range(1, 7)]
    for n, trace_id in enumerate(others):
        send_spans(service, replace(SPANS[0], trace_id=trace_id))
        service.send({**RECORD, "uid": f"http-{n}", "trace_id": trace_id})
        service.wait_for(n + 1)
    assert service.sample("scouter_join_input_caught_up") == 0
    assert service.get("/api/v1/conservation")["records"]["waiting"] == 1
    assert service.get("/api/v1/evaluations", trace_id=TRACE)["items"] == []
    ingest.take_spans(SPANS[1:], 1, Via.BROKER).result()
    join = service.collector.pipeline._join  # pyright: ignore[reportPrivateUsage]
    trace = join._traces["default", TRACE]  # pyright: ignore[reportPrivateUsage]
    wait_until(lambda: len(trace.facts) == 3, what="the join has them")
    inputs.remove("topic")
    service.wait_for(7)
    (item,) = service.get("/api/v1/evaluations", trace_id=TRACE)["items"]
    assert (item["outcome"], item["completeness"]) == ("passed", "complete")
