"""From commit to evaluation, in one process: who judges, what waits, what survives a restart."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.items.traces import trace_of
from collector.store.commit import Commit
from collector.store.file_store import FileStore
from collector.store.letters import LetterQuery
from collector.worker import committer as committer_module
from collector.worker import judge as judge_module
from collector.worker import parts as parts_module
from collector.worker import worker as worker_module
from collector.worker.derive import Deriver
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch
from scouter.errors import ConfigError, TransientError
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
from tests.collector.worker.process_support import Process
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
def test_of_what_no_trace_can_be_read_from_none_is_reported(payload: bytes) -> None:
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
    answer = service.send({"uid": "u1", "profile": "nobody", "context": {}})
    assert answer["accepted"] == 1
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
    service.collector.worker.profiles_changed()
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
        assert service.collector.store.read("SELECT count(*) FROM profiles") == [(1,)]


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
    assert "a record names the profile 'nobody', which is not registered" in caplog.text


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
    judge = judge_module.judge

    def failing(items: Any, *args: Any, **fields: Any) -> Any:
        if any(ready.record.uid == "bad" for ready in items):
            raise ZeroDivisionError("a bug")
        return judge(items, *args, **fields)

    monkeypatch.setattr(judge_module, "judge", failing)
    records = [{"uid": u, "profile": "answers", "context": {"answer": 42}} for u in ("a", "bad")]
    service.send(*records, {"uid": "c", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(2)
    service.wait_for(1, "dead_lettered")
    assert service.get("/api/v1/conservation")["dead_letters"] == {"engine_fault": 1}


@pytest.mark.parametrize("what", ["record", "trace_session"])
def test_a_fault_in_what_a_trace_says_costs_one_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """One that is to be derived, or one that was sent; others are judged in the same turn."""
    count = TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, "Equals")
    watch = Watch() if what == "record" else None
    process = Process(tmp_path, AgentEvalProfile([count], alias="shop", watch=watch))
    owner: Any = Deriver if what == "record" else parts_module
    make = getattr(owner, what)

    def failing(*args: Any, **fields: Any) -> Any:
        if "bad" in repr(args):
            raise ZeroDivisionError("a bug")
        return make(*args, **fields)

    monkeypatch.setattr(owner, what, failing)
    agent = {"gen_ai.operation.name": "invoke_agent"}
    traces = [f"{n:032x}" for n in (0xBAD, 0xC0DE, 0xCAFE)]
    if what == "trace_session":
        process.records(*(
            record(f"of {each}", profile_uid=process.profile_uid, trace_id=each, session_id="")
            for each in traces
        ))  # fmt: skip
    process.spans(*(span(1, trace_id=each, parent_span_id=None, attributes=agent)
                    for each in traces))  # fmt: skip
    process.after(10)
    found = process.evaluations()
    assert {row.trace_id for row in found.values()} == set(traces[1:])
    (stored,) = process.store.dead_letters(LetterQuery(space=SPACE))
    assert (stored.letter.reason, stored.letter.was_accepted) == ("engine_fault", True)
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.evaluated, sheet.dead_lettered, sheet.waiting) == (3, 2, 1, 0)
    process.close()


def test_the_letter_of_a_record_has_its_context(
    tmp_path: Path, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waited for its trace, which is here when the engine fails."""
    process = Process(tmp_path, AgentEvalProfile.from_file(traced))
    context = {"answer": [42]}
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE, context=context))
    process.spans(*SPANS)
    monkeypatch.delattr(judge_module, "judge")
    process.after(2)
    (stored,) = process.store.dead_letters(LetterQuery(space=SPACE))
    letter = stored.letter
    assert (letter.reason, json.loads(letter.payload)["context"]) == ("engine_fault", context)
    process.close()


def test_evaluations_are_offered_again_until_the_store_takes_them(
    start: Start, answers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full for three attempts; nothing is lost and nothing is judged twice."""
    monkeypatch.setattr(committer_module, "RETRY_S", 0.01)
    commit, refusals = FileStore.commit, [1, 2, 3]

    def full(self: FileStore, rows: Commit) -> int:
        if rows.evaluations and refusals:
            refusals.pop()
            raise TransientError("disk full")
        return commit(self, rows)

    monkeypatch.setattr(FileStore, "commit", full)
    service = start(profile=[str(answers)])
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 42}})
    assert only(service)["outcome"] == "passed"
    assert refusals == []


@pytest.mark.parametrize("fault", [TransientError("not now"), RuntimeError("a bug")])
def test_the_store_cannot_be_read_for_a_while(
    start: Start, traced: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """Reading a trace fails twice; the worker asks again by itself, or begins anew."""
    monkeypatch.setattr(committer_module, "RETRY_S", 0.01)
    monkeypatch.setattr(worker_module, "RETRY_S", 0.01)
    service = start(profile=[str(traced)])
    send_spans(service, *SPANS)
    read, failures = service.collector.store.spans_at, [1, 2]

    def failing(*args: Any) -> Any:
        if failures:
            failures.pop()
            raise fault
        return read(*args)

    monkeypatch.setattr(service.collector.store, "spans_at", failing)
    service.send(RECORD)
    item = only(service)
    assert (item["completeness"], item["outcome"], failures) == ("complete", "passed", [])
    assert service.get("/api/v1/conservation")["records"]["evaluated"] == 1


def test_half_a_character_does_not_cost_the_record(start: Start, answers: Path) -> None:
    """The lone surrogate D83D is no text that a column can hold; the record is judged anyway."""
    service = start(profile=[str(answers)])
    body = b'{"records": [{"profile": "answers", "context": {"answer": "\\ud83d"}}]}'
    headers = {"Content-Type": "application/json"}
    answer = service.http.post("/v1/records", content=body, headers=headers)
    assert (answer.status_code, answer.json()["accepted"]) == (200, 1)
    assert only(service)["outcome"] == "failed"


def test_half_a_character_in_a_record_that_waits(start: Start, traced: Path) -> None:
    """It is measured and stored, also at a start, and costs nobody anything."""
    service = start(profile=[str(traced)], quiet_s="1h", deadline_s="1h")
    fields = f'"uid": "u1", "profile": "traced", "trace_id": "{TRACE}"'
    body = f'{{"records": [{{{fields}, "context": {{"a": "\\ud83d"}}}}]}}'
    headers = {"Content-Type": "application/json"}
    assert service.http.post("/v1/records", content=body, headers=headers).json()["accepted"] == 1
    wait_until(lambda: service.collector.worker.waiting == 1, what="a record that waits")
    service.stop()
    service = start(profile=[str(traced)], quiet_s="1h", deadline_s="1h")
    assert service.collector.worker.waiting == 1
    send_spans(service, *SPANS)
    assert only(service)["outcome"] == "passed", only(service)


def test_an_observers_fault_costs_no_evaluation(
    start: Start, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first call fails; the pipeline goes on with the next record."""
    service = start(profile=[str(traced)])
    monitor = service.collector.watch.monitor
    answer: list[str] = []

    def observe(evaluations: Any) -> None:
        answer.extend(each.record_uid for each in evaluations)
        if len(answer) == 1:
            raise RuntimeError("a fault")

    monkeypatch.setattr(monitor, "observe", observe)
    send_spans(service, *SPANS)
    service.send(RECORD)
    service.wait_for(1)
    service.send(RECORD | {"uid": "u2"})
    service.wait_for(2)
    wait_until(lambda: answer == ["u1", "u2"], what="each evaluation reported once")


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
    service.collector.worker.stop()
    send_spans(service, SPANS[2])
    behind = service.http.get("/api/v1/evaluations")
    assert [each["revision"] for each in behind.json()["items"]] == [1]
    service = start(profile=[str(traced)])
    wait_until(lambda: only(service)["revision"] == 2, what="it is judged again")
    assert only(service)["outcome"] == "passed"
