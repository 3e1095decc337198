"""Sessions in the pipeline: when they are judged, of what, how often, and what that counts.

The quiet period is 60 s, the deadline 3600 s.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from collector.metrics import TotalName
from collector.store import work as store_work
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rates import TaskQuery
from collector.store.rows import EvaluationRow, RecordRow, Scope
from collector.worker import session_reader as session_read
from collector.worker import sessions as session_work
from collector.worker.letters import letter_of_evaluation
from collector.worker.open_trace import JoinTimes
from collector.worker.session import SessionJoin, SessionKey, WholeSession, judge_session
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.engine.sessions import session_uid
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.span import Resource
from tests.collector.conftest import Start
from tests.collector.worker.process_support import TIMES, Process
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

A, B = "a" * 32, "b" * 32
SAID: Final = AssertionTask("said", "records[*].context.answer", [1, 2], "Equals", scope="session")
SPANS: Final = TraceAssertionTask(
    "spans", TraceAssertion.trace_span_count(), 2, "Equals", scope="session"
)
PROFILE: Final = AgentEvalProfile([SAID, SPANS], alias="chat")
"""Nothing of it is about a record."""

Begin = Callable[..., Process]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts processes; the store of the last one is closed."""
    running: list[Process] = []

    def begin_one(profile: AgentEvalProfile | None = PROFILE, **fields: Any) -> Process:
        running.append(Process(tmp_path, profile, **fields))
        return running[-1]

    yield begin_one
    for process in running:
        process.last.close()


def said(process: Process, uid: str, answer: int, **fields: Any) -> RecordRow:
    given: dict[str, Any] = {"session_id": "s", "profile_uid": process.profile_uid} | fields
    return record(uid, context={"answer": answer}, **given)


def session(process: Process, session_id: str = "s") -> EvaluationRow | None:
    return process.evaluations().get(f"session {session_id}")


def actuals(process: Process, session_id: str = "s") -> list[object]:
    found = session(process, session_id)
    assert found is not None
    return [found.revision, *(task.actual for task in found.tasks)]


def test_judged_once_a_quiet_period_after_the_last_arrival(begin: Begin) -> None:
    """Arrivals at 0, 40 and 80 s: the evaluation is made at 140 s."""
    process = begin()
    process.records(said(process, "u2", 2, trace_id=A, created_ns=9))
    process.after(40)
    process.records(said(process, "u1", 1, trace_id=B, tags={"team": "red", "lang": "de"}))
    process.after(40)
    process.spans(span(1, trace_id=A))
    process.after(59)
    assert session(process) is None
    assert process.sessions_waiting == 1
    process.after(1.1)
    found = session(process)
    assert found is not None
    assert [(task.task_id, task.actual) for task in found.tasks] == [("said", [1, 2]), ("spans", 1)]
    assert (found.outcome, found.revision, found.trace_id) == (Outcome.FAILED, 1, None)
    assert (found.record_id, found.created_ns) == ("session s", 5)
    assert found.completeness == "quiet"  # of trace B there is nothing
    assert process.sessions_waiting == 0
    process.after(10_000)
    assert actuals(process) == [1, [1, 2], 1]


def test_what_is_shown_of_a_session(begin: Begin) -> None:
    """Tags that all records have; the service of the first root; complete traces."""
    process = begin()
    process.records(
        said(process, "u1", 1, trace_id=A, tags={"team": "red", "lang": "de", "n": "1"}),
        said(process, "u2", 2, trace_id=B, tags={"team": "red", "lang": "fr"}),
    )
    shop = Resource(attributes={"service.name": "shop", "service.version": "3"})
    process.spans(span(1, trace_id=B, start_ns=5, resource=shop), span(1, trace_id=A))
    process.after(61)
    found = session(process)
    assert found is not None
    assert found.tags == {"team": "red"}
    assert (found.service_name, found.service_version) == ("shop", "3")
    assert (found.completeness, found.outcome) == ("complete", Outcome.PASSED)
    query = EvaluationQuery(space=SPACE, session_id="s")
    assert len(process.store.evaluations(query).items) == 3
    assert process.store.evaluations(EvaluationQuery(space=SPACE, session_id="t")).items == ()


def test_a_session_without_spans_has_the_version_of_its_tags(begin: Begin) -> None:
    """Of records that agree on it; so it has series of its own, as its records have."""
    process = begin()
    tags = {"service.name": "shop", "service.version": "3", "deployment.environment.name": "prod"}
    process.records(
        said(process, "u1", 1, tags=tags), said(process, "u2", 2, tags={**tags, "lang": "fr"})
    )
    process.after(61)
    found = session(process)
    assert found is not None
    assert (found.service_name, found.service_version, found.environment) == ("shop", "3", "prod")


def test_missing_parents_of_all_traces_are_counted(begin: Begin) -> None:
    process = begin()
    process.records(*(said(process, f"u{n}", n, trace_id=each) for n, each in enumerate((A, B))))
    for trace_id in (A, B):
        process.spans(span(2, trace_id=trace_id, parent_span_id=f"{1:016x}"))
    process.after(61)
    found = session(process)
    assert found is not None
    assert (found.completeness, found.missing_parents) == ("quiet", 2)


def test_a_session_that_never_rests_is_judged_at_its_deadline(begin: Begin) -> None:
    """A record every 50 s: judged at 3600 s with the 72 until then, and again when it rests."""
    process = begin()
    for n in range(74):
        process.records(said(process, f"u{n:02}", n))
        process.after(50)
        assert (session(process) is None) == (n < 71)
    assert actuals(process) == [1, list(range(72)), None]
    found = session(process)
    assert found is not None
    assert (found.revision, found.completeness) == (1, "deadline")
    process.after(61)
    found = session(process)
    assert found is not None
    assert (found.revision, found.completeness) == (2, "complete")
    assert found.tasks[0].actual == list(range(74))


def test_no_session_is_quiet_while_the_input_lags(begin: Begin) -> None:
    process = begin()
    process.records(said(process, "u1", 1))
    process.topic(lags=True)
    process.after(1000)
    assert session(process) is None
    process.topic(lags=False)
    process.after(62)
    assert actuals(process)[:2] == [1, [1]]


def test_late_spans_make_one_revision_per_quiet_period(begin: Begin) -> None:
    """No task is about a record, so that only the session can tell that the spans are late."""
    process = begin()
    process.records(said(process, "u1", 1, trace_id=A), said(process, "u2", 2, trace_id=A))
    process.spans(span(1, trace_id=A))
    process.after(61)
    assert actuals(process) == [1, [1, 2], 1]
    assert process.store.conservation(SPACE).spans.late == 0
    for n in range(2, 5):
        process.spans(span(n, trace_id=A))
        process.after(20)
        assert process.store.conservation(SPACE).spans.late == n - 1
        assert actuals(process)[0] == 1
    process.after(45)
    assert actuals(process) == [2, [1, 2], 4]
    assert process.store.conservation(SPACE).spans.late == 0
    process.after(1000)
    assert actuals(process)[0] == 2


def test_spans_of_other_traces_change_nothing(begin: Begin) -> None:
    process = begin()
    process.records(said(process, "u1", 1, trace_id=A))
    process.after(61)
    process.spans(span(1, trace_id=B))
    process.after(1000)
    assert actuals(process)[0] == 1


def test_a_span_after_the_late_window_stays_late(begin: Begin) -> None:
    process = begin(times=JoinTimes(late_window_s=100))
    process.records(said(process, "u1", 1, trace_id=A))
    process.after(61)
    process.after(200)
    process.spans(span(1, trace_id=A))
    process.after(200)
    assert actuals(process)[0] == 1
    assert process.store.conservation(SPACE).spans.late == 1


def test_a_plan_without_spans_does_not_wait_for_them(begin: Begin) -> None:
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    process.records(said(process, "u1", 1, trace_id=A))
    process.after(50)
    process.spans(span(1, trace_id=A))
    process.after(11)
    found = session(process)
    assert found is not None
    assert (found.completeness, found.reads_spans) == ("complete", False)
    process.spans(span(2, trace_id=A))
    process.after(1000)
    assert actuals(process) == [1, [1]]


def test_counted_once_whatever_comes_later(begin: Begin) -> None:
    """One session, failed at first, then passed by a second record and a span."""
    process = begin()
    process.records(said(process, "u1", 1, trace_id=A))
    process.spans(span(1, trace_id=A))
    process.after(61)
    process.records(said(process, "u2", 2, trace_id=A))
    process.spans(span(2, trace_id=A))
    process.after(61)
    assert actuals(process) == [2, [1, 2], 2]
    totals = {
        (key.name, key.task, key.label): n
        for key, n in process.store.totals().items()
        if key.name in {TotalName.RECORDS, TotalName.SESSIONS, TotalName.TASKS, TotalName.REVISIONS}
    }
    assert totals == {
        (TotalName.RECORDS, "", "skipped"): 2,
        (TotalName.SESSIONS, "", "failed"): 1,
        (TotalName.TASKS, "said", "failed"): 1,
        (TotalName.TASKS, "spans", "failed"): 1,
        (TotalName.REVISIONS, "said", "failed>passed"): 1,
        (TotalName.REVISIONS, "spans", "failed>passed"): 1,
    }
    counts = {row.task_id: row for row in process.store.task_counts(TaskQuery(space=SPACE))}
    assert {name: (row.passed, row.failed) for name, row in counts.items()} == {
        "said": (1, 0), "spans": (1, 0),
    }  # fmt: skip
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.skipped, sheet.evaluated, sheet.waiting) == (2, 2, 0, 0)
    assert process.measures.sessions_reopened._value.get() == 1  # pyright: ignore[reportPrivateUsage] its test double
    assert process.measures.reopened._value.get() == 0  # pyright: ignore[reportPrivateUsage]


def test_a_record_beside_its_session(begin: Begin) -> None:
    """A record's own task is judged at once, its session when it is quiet."""
    own = AssertionTask("own", "answer", 1, "Equals")
    process = begin(AgentEvalProfile([own, SAID], alias="both"))
    process.records(said(process, "u1", 1), said(process, "u2", 2))
    process.after(1)
    assert {uid: row.outcome.value for uid, row in process.evaluations().items()} == {
        "u1": "passed", "u2": "failed",
    }  # fmt: skip
    process.after(61)
    assert actuals(process) == [1, [1, 2]]
    assert [task.task_id for task in process.evaluations()["u1"].tasks] == ["own"]


@pytest.mark.parametrize("when", ["waiting", "judged"])
def test_a_restart_takes_sessions_up(begin: Begin, when: str) -> None:
    """Its clock starts anew; what came while nobody ran is judged, too, and all of it once."""
    process = begin()
    process.records(said(process, "u1", 1, trace_id=A))
    process.after(61 if when == "judged" else 30)
    process.store.append_records([said(process, "u2", 2, trace_id=B)]).result()
    process = process.restarted(5)
    process.after(59)
    assert (session(process) is None) == (when == "waiting")
    process.after(2)
    assert actuals(process)[:2] == [2 if when == "judged" else 1, [1, 2]]
    process = process.restarted()
    process.after(1000)
    assert actuals(process)[0] == (2 if when == "judged" else 1)
    assert process.total(TotalName.SESSIONS) == 1


def test_a_span_that_came_while_nobody_ran(begin: Begin) -> None:
    process = begin()
    process.records(said(process, "u1", 1, trace_id=A))
    process.after(61)
    process.store.append_spans(SPACE, [span(1, trace_id=A)], 1).result()
    process = process.restarted(5)
    process.after(65)
    assert actuals(process) == [2, [1], 1]
    process.spans(span(2, trace_id=A))
    process.after(65)
    assert actuals(process) == [3, [1], 2]


def test_each_profile_and_space_has_its_own_session(begin: Begin) -> None:
    process = begin()
    other = process.register(AgentEvalProfile([SAID], alias="other"))
    foreign = process.registry.register("elsewhere", PROFILE, activate=True).uid
    process.records(
        said(process, "u1", 1),
        said(process, "u2", 2, profile_uid=other),
        said(process, "u3", 3, space="elsewhere", profile_uid=foreign),
        said(process, "u4", 4),
    )
    process.after(61)
    found = process.store.evaluations(EvaluationQuery(space=SPACE, session_id="s")).items
    assert {row.alias: row.tasks[0].actual for row in found if row.scope is Scope.SESSION} == {
        "chat": [1, 4], "other": [2],
    }  # fmt: skip
    (alone,) = process.store.evaluations(
        EvaluationQuery(space="elsewhere", outcome=Outcome.FAILED)
    ).items
    assert alone.tasks[0].actual == [3]


def test_a_record_without_a_session_is_one_of_its_own(begin: Begin) -> None:
    process = begin()
    process.records(said(process, "u1", 1, session_id=""), said(process, "u2", 2, session_id=""))
    process.after(61)
    assert actuals(process, "u1")[1] == [1]
    assert actuals(process, "u2")[1] == [2]


def test_a_profile_that_is_registered_later(begin: Begin) -> None:
    process = begin(None)
    row = record("u1", session_id="s", context={"answer": 1}, profile_ref="chat", profile_uid="")
    process.records(row)
    process.after(100)
    process.register(PROFILE)
    process.profiles_changed()
    process.after(59)
    assert session(process) is None
    process.after(2)
    assert actuals(process)[1] == [1]
    process = process.restarted()
    process.after(100)
    assert actuals(process)[0] == 1  # nothing of it was left waiting


def test_a_record_that_came_before_its_profile_keeps_its_version(begin: Begin) -> None:
    """A second version is activated before its session rests, and again before more of it comes.

    With or without restarts, both records belong to one session of the first version.
    """
    process = begin(None)
    early = {"session_id": "s", "profile_ref": "chat", "profile_uid": ""}
    process.records(record("u1", context={"answer": 1}, **early))
    process.after(5)
    first = process.register(AgentEvalProfile([SAID], alias="chat"))
    process.profiles_changed()
    process.after(1)
    second = process.register(AgentEvalProfile([SAID, SPANS], alias="chat"))
    process.profiles_changed()
    process = process.restarted()
    process.after(100)
    assert actuals(process) == [1, [1]]
    process.records(
        record("u2", context={"answer": 2}, session_id="s", profile_ref=first, profile_uid=first),
        record("u3", context={"answer": 3}, session_id="s", profile_ref="chat", profile_uid=second),
    )
    process.after(100)
    page = process.store.evaluations(EvaluationQuery(space=SPACE, limit=100))
    sessions = {row.profile_uid: row for row in page.items if row.scope is Scope.SESSION}
    said_in = {uid: (row.revision, row.tasks[0].actual) for uid, row in sessions.items()}
    assert said_in == {first: (2, [1, 2]), second: (1, [3])}


def test_the_first_version_judges_a_record_that_waited_for_it(begin: Begin) -> None:
    """Its trace comes after the second one was activated, and after a restart, or two."""
    count = [
        TraceAssertionTask("spans", TraceAssertion.trace_span_count(), n, "Equals") for n in (1, 2)
    ]
    process = begin(None)
    process.records(record("u1", trace_id=A, profile_ref="chat", profile_uid=""))
    process.after(1)
    for task in count:
        process.register(AgentEvalProfile([task], alias="chat"))
    process.profiles_changed()
    process = process.restarted().restarted()
    process.spans(span(1, trace_id=A))
    process.after(100)
    (task,) = process.evaluations()["u1"].tasks
    assert task.expected == 1


def test_a_version_that_was_active_no_more_is_not_meant(begin: Begin) -> None:
    """The version that a record means is one that was active when it came, or later."""
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    process.registry.set_active(SPACE, process.profile_uid, is_active=False)
    process.records(said(process, "u1", 1, profile_ref="chat", profile_uid=""))
    process.after(1)
    assert process.worker.waiting == 1
    second = process.register(PROFILE)
    process.profiles_changed()
    process.after(100)
    assert process.evaluations()["u1"].profile_uid == second


def test_a_version_that_came_while_a_record_was_on_its_way_is_meant(begin: Begin) -> None:
    """The receiver did not know it yet, but its commit is the earlier one."""
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    process.records(said(process, "u1", 1, profile_ref="chat", profile_uid=""))
    process.register(PROFILE)
    process.after(100)
    assert process.evaluations()["u1"].profile_uid == process.profile_uid
    assert actuals(process) == [1, [1]]


def test_a_fault_costs_its_session_only(
    begin: Begin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def judged(whole: WholeSession, **more: Any) -> EvaluationRow:
        if whole.due.key.session_id == "bad":
            raise RuntimeError("broken")
        return judge_session(whole, **more)

    monkeypatch.setattr(session_work, "judge_session", judged)
    process = begin()
    process.records(said(process, "u1", 1, session_id="bad"), said(process, "u2", 2))
    process.after(61)
    assert session(process, "bad") is None
    assert actuals(process)[1] == [2]
    assert "session 'bad': the engine failed" in caplog.text
    monkeypatch.undo()
    process = process.restarted()
    process.after(61)
    assert actuals(process, "bad")[:2] == [1, [1]]


def test_what_retention_took_is_not_judged(begin: Begin) -> None:
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    process.records(said(process, "u1", 1))
    process.after(1)
    process.spans(span(1, trace_id=B))  # of the last commit nothing goes
    process.store.remove_before(int(process.now * 1e9) + 1)
    assert process.store.records_of(SPACE, ["u1"]) == []
    process.after(100)
    assert process.sessions_waiting == 0
    assert process.evaluations() == {}


def test_an_evaluation_that_cannot_be_stored_is_no_record_s_state() -> None:
    assert letter_of_evaluation(evaluation("u1"), "").was_accepted
    assert not letter_of_evaluation(
        evaluation(session_uid("p", "s"), scope=Scope.SESSION), ""
    ).was_accepted


def test_many_sessions_are_judged_in_several_steps(begin: Begin) -> None:
    """Judging one takes 0.1 s, a step 0.5 s; more are left, and requested again at once."""
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    process.records(*(said(process, f"u{n}", 1, session_id=f"s{n}") for n in range(20)))
    process.now += 61
    process.tick_s = 0.1
    counts = [0]
    while process.sessions_waiting:
        assert process.worker.turn(0.0)
        counts.append(process.total(TotalName.SESSIONS))
        assert counts[-1] - counts[-2] <= 6
    while process.worker.turn(0.0):  # the last commit is on its way
        pass
    counts.append(process.total(TotalName.SESSIONS))
    assert len(counts) > 4
    assert counts[-1] == 20


def test_a_session_too_large_is_errored_alone(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four records, or 2 kB: s has five, t one of 3 kB, u four small ones."""
    monkeypatch.setattr(session_read, "MOST_RECORDS", 4)
    monkeypatch.setattr(session_read, "MOST_BYTES", 2_000)
    process = begin(AgentEvalProfile([SAID], alias="chat"))
    large = record(
        "t1", context={"answer": "x" * 3_000}, session_id="t", profile_uid=process.profile_uid
    )
    process.records(
        *(said(process, f"s{n}", 1) for n in range(5)),
        large,
        *(said(process, f"u{n}", 1, session_id="u") for n in range(4)),
    )
    process.after(61)
    found = {key: row.tasks[0] for key, row in process.evaluations().items() if row.tasks}
    assert found["session u"].actual == [1, 1, 1, 1]
    for key, why in (("session s", "more than 4 records"), ("session t", "contexts have more")):
        assert (found[key].outcome, found[key].reason) == (Outcome.ERRORED, "limit")
        assert why in found[key].message


def test_sessions_that_fit_alone_are_read_one_after_the_other(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of 1 kB each, of which two never are in memory together."""
    monkeypatch.setattr(session_read, "MOST_BYTES", 1_500)
    read: list[int] = []
    records_of = AppendingStore.records_of

    def noted(store: AppendingStore, space: str, uids: Iterable[str]) -> list[RecordRow]:
        found = records_of(store, space, uids)
        read.append(len(found))
        return found

    process = begin(AgentEvalProfile([SAID], alias="chat"))
    for n in range(3):
        text = {"answer": "x" * 1_000}
        process.records(
            record(f"u{n}", context=text, session_id=f"s{n}", profile_uid=process.profile_uid)
        )
    process.after(1)
    monkeypatch.setattr(AppendingStore, "records_of", noted)
    process.after(60)
    assert read == [1, 1, 1]
    assert process.total(TotalName.SESSIONS) == 3


def test_traces_too_large_make_a_session_errored(
    begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trace A has five spans of at most four, B has two: the sessions are read apart then."""
    monkeypatch.setattr(store_work, "MOST_SPANS", 4)
    process = begin()
    process.records(
        said(process, "u1", 1, trace_id=A), said(process, "u2", 2, trace_id=B, session_id="t")
    )
    process.spans(
        *(span(n, trace_id=A) for n in range(1, 6)), *(span(n, trace_id=B) for n in (8, 9))
    )
    process.after(100)
    large, small = session(process), session(process, "t")
    assert large is not None
    assert small is not None
    assert {(task.outcome, task.reason) for task in large.tasks} == {(Outcome.ERRORED, "limit")}
    assert "traces are too large" in large.tasks[0].message
    assert [task.actual for task in small.tasks] == [[2], 2]


def test_the_join_forgets_what_it_gave_out() -> None:
    join, key = SessionJoin(TIMES), SessionKey(SPACE, "p", "s")
    join.add(key, 0.0, A)
    join.add(key, 10.0, A)
    assert (len(join), key in join, join.next_due()) == (1, True, 60.0)
    assert join.due(60.0) == []
    assert join.next_due() == 70.0
    (due,) = join.due(70.0)
    assert (due.key, due.is_quiet, due.waited_s) == (key, True, 70.0)
    join.spans_came(SPACE, [A], 71.0)
    assert (len(join), key in join, join.next_due(), join.due(10_000.0)) == (0, False, None, [])


def test_the_service_shows_sessions(start: Start, tmp_path: Path) -> None:
    profile = AgentEvalProfile([SAID], alias="chat").save_to_json(tmp_path / "chat.json")
    service = start(profile=[str(profile)], session_quiet_s="200ms")
    labels = '{alias="chat",outcome="passed",profile="chat",space="default"}'
    zero = f"scouter_sessions_evaluated_total{labels}"
    assert service.sample(zero) == 0
    service.send(
        {"uid": "u2", "profile": "chat", "session_id": "s", "created_at": 2,
         "context": {"answer": 2}},
        {"uid": "u1", "profile": "chat", "session_id": "s", "created_at": 1,
         "context": {"answer": 1}},
    )  # fmt: skip

    def found() -> list[dict[str, Any]]:
        items = service.get("/api/v1/evaluations", session_id="s")["items"]
        return [item for item in items if item["scope"] == "session"]

    wait_until(lambda: bool(found()), what="an evaluation on the session")
    (item,) = found()
    assert (item["session_id"], item["record_id"], item["trace_id"]) == ("s", "session s", None)
    assert (item["outcome"], item["tasks"][0]["actual"]) == ("passed", [1, 2])
    assert service.sample(zero) == 1
    assert service.sample("scouter_sessions_waiting") == 0
    (rate,) = service.get("/api/v1/tasks")["items"]
    assert (rate["task_id"], rate["passed"], rate["total"]) == ("said", 1, 1)
    refused = service.http.post(
        "/v1/records", json={"records": [{"uid": item["uid"], "profile": "chat"}]}
    ).json()
    assert "reserved for evaluations on sessions" in str(refused)
