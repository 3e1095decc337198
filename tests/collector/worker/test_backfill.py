"""What is stored without an evaluation gets one, marked as a backfill; every number is by hand."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from collector.metrics import TotalName
from collector.store.erase import EraseTarget
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.derived import derived_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.span import Span
from tests.collector.conftest import Service, Start
from tests.collector.worker.test_reevaluate import (
    counts,
    outcomes,
    post_spans,
    reevaluate,
    register,
)
from tests.collector.worker.test_watch import ANSWERED, trace
from tests.contracts.store_data import SPACE
from tests.support.processes import wait_until

DAY_NS: Final = 86_400 * 10**9
TOGETHER: Final = AssertionTask("two", "records", 2, Op.HasLengthEqual, scope="session")
QUICK: Final = {"quiet_s": "10ms", "settle_s": "10ms", "foreign_settle_s": "10ms"}


def watching(*tasks: Any, sample: float = 1.0) -> AgentEvalProfile:
    watch = Watch(match=WatchMatch(service="shop"), sample=sample)
    return AgentEvalProfile(list(tasks) or [ANSWERED], alias="shop", watch=watch)


def moved(spans: tuple[Span, ...], to_ns: int) -> list[Span]:
    """The same spans at another time."""
    return [
        replace(each, start_ns=to_ns + at, end_ns=to_ns + at + 1) for at, each in enumerate(spans)
    ]


def trace_id(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture
def service(start: Start) -> Service:
    """Six traces of the last six days, before any profile; the second and the fourth are wrong.

    The last two are of one conversation.
    """
    service = start(**QUICK)
    now_ns = time.time_ns()
    for n in range(1, 7):
        answer = "soon" if n in (2, 4) else "four days"
        said = trace(trace_id(n), answer, "c" if n > 4 else "")
        post_spans(service, *moved(said, now_ns - (7 - n) * DAY_NS))
    wait_until(lambda: service.get("/api/v1/conservation")["spans"]["stored"] == 24, what="spans")
    return service


def filled(service: Service, uid: str, **body: Any) -> list[Any]:
    return reevaluate(service, uid, missing=True, **body)


def sums(pages: list[Any], *names: str) -> list[int]:
    return [sum(page[name] for page in pages) for name in names]


def evaluations(service: Service) -> list[dict[str, Any]]:
    return service.get("/api/v1/evaluations", limit=1000)["items"]


def test_a_report_counts_and_changes_nothing(service: Service) -> None:
    body = {"profile_body": watching().model_dump(mode="json"), "missing": True, "limit": 500}
    answer = service.http.post("/api/v1/reevaluations", json=body)
    assert answer.status_code == 200, answer.text
    page = answer.json()
    assert (page["checked"], page["stored"]) == (6, 0)
    assert page["new_tasks"] == [
        {"task_id": "answered", "outcomes": {"passed": 4, "failed": 2}},
    ]  # fmt: skip
    assert evaluations(service) == []
    assert service.get("/api/v1/conservation")["records"]["accepted"] == 0


def test_watched_traces_get_a_record_and_an_evaluation_once(service: Service) -> None:
    """In the order of their times, which they bear; a second run finds nothing."""
    uid = register(service, watching())
    pages = filled(service, uid, dry_run=False)
    assert sums(pages, "checked", "stored") == [6, 6]
    assert counts(pages, "new_tasks") == {"answered": {"passed": 4, "failed": 2}}
    items = evaluations(service)
    assert [item["uid"] for item in items][::-1] == [
        derived_uid(trace_id(n), "shop") for n in range(1, 7)
    ]
    assert all(item["is_backfill"] and item["revision"] == 1 for item in items)
    assert all(item["evaluated_at"] == item["created_at"] for item in items)
    shown = service.http.get(f"/records/{items[0]['uid']}").text
    assert "Backfill: evaluated after its time" in shown
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["accepted"], sheet["derived"], sheet["evaluated"], sheet["waiting"]) == (
        6, 6, 6, 0,
    )  # fmt: skip
    assert sums(filled(service, uid, dry_run=False), "checked", "stored") == [0, 0]
    assert sums(reevaluate(service, uid, dry_run=False), "checked", "stored") == [6, 0]
    assert len(evaluations(service)) == 6


def test_a_backfill_is_no_news(service: Service) -> None:
    """Nothing is counted as evaluated now; the charts have it where its records are."""
    uid = register(service, watching())
    assert service.http.post(f"/api/v1/profiles/{uid}/activate").status_code == 200
    filled(service, uid, dry_run=False)
    totals = service.collector.store.totals()
    first = (TotalName.TASKS, TotalName.RECORDS)
    assert not any(n for key, n in totals.items() if key.name in first)
    rates = service.get("/api/v1/tasks", since=f"{time.time() - 3_600:.0f}")["items"]
    assert [item for item in rates if item["total"]] == []
    (rate,) = service.get("/api/v1/tasks", since=f"{time.time() - 3.5 * 86_400:.0f}")["items"]
    assert (rate["passed"], rate["failed"]) == (2, 1)
    watcher = service.collector.watch.watcher
    wait_until(lambda: not watcher.step(), what="all results are taken")
    assert watcher.current_series(SPACE) == []
    service.send({"uid": "now", "profile": uid, "context": {"answer": "four days"},
                  "tags": {"service.name": "shop"}})  # fmt: skip
    service.wait_for(7)
    wait_until(lambda: not watcher.step(), what="it is taken, too")
    (whole,) = [
        each for each in watcher.current_series(SPACE) if each.key.kind == "pass" and each.key.task
    ]
    assert (whole.key.agent.service, whole.units, whole.failed) == ("shop", 1, 0)
    assert watcher.alerts(SPACE) == []


def test_since_and_sample_select(service: Service) -> None:
    """Of the last 3.5 days three; a smaller share has what a collector's has."""
    since = f"{time.time() - 3.5 * 86_400:.0f}"
    uid = register(service, watching())
    assert sums(filled(service, uid, since=since), "checked") == [3]
    half = watching(sample=0.0)
    body = {"profile_body": half.model_dump(mode="json"), "missing": True}
    assert service.http.post("/api/v1/reevaluations", json=body).json()["checked"] == 0


def test_a_session_of_such_records_gets_one_too(service: Service) -> None:
    """Only the last two traces are one conversation; every other record is one of its own."""
    uid = register(service, watching(ANSWERED, TOGETHER))
    pages = filled(service, uid, dry_run=False)
    assert sums(pages, "stored") == [6 + 5]
    found = {
        item["session_id"]: item["tasks"][0]["outcome"]
        for item in evaluations(service) if item["scope"] == "session" and item["is_backfill"]
    }  # fmt: skip
    assert found.pop("c") == "passed"
    assert list(found.values()) == ["failed"] * 4


def test_a_worker_that_finds_such_records_marks_their_sessions(
    service: Service, start: Start
) -> None:
    """As after a crash between their page and that of the sessions."""
    uid = register(service, watching(ANSWERED, TOGETHER))
    body = {"profile": uid, "missing": True, "dry_run": False, "limit": 500}
    assert service.http.post("/api/v1/reevaluations", json=body).json()["stored"] == 6
    again = start(**QUICK, session_quiet_s="100ms")
    wait_until(lambda: len(evaluations(again)) == 6 + 5, what="the sessions are evaluated")
    assert {(each["is_backfill"], each["revision"]) for each in evaluations(again)} == {(True, 1)}
    assert sums(filled(again, uid), "checked") == [0]


def test_a_session_task_that_is_new(start: Start, tmp_path: Path) -> None:
    """Records were evaluated before; their session was not. It is an evaluation of that session."""
    said = AssertionTask("said", "turn", 0, Op.GreaterThanOrEqual)
    before = AgentEvalProfile([said], alias="chat")
    service = start(profile=[str(before.save_to_json(tmp_path / "chat.json"))], **QUICK)
    service.send(
        *({"uid": f"u{n}", "profile": "chat", "session_id": "s", "context": {"turn": n}}
          for n in range(2))
    )  # fmt: skip
    service.wait_for(2)
    uid = register(service, AgentEvalProfile([*before.tasks, TOGETHER], alias="chat"))
    assert sums(reevaluate(service, uid), "checked") == [2]
    wait_until(lambda: sums(filled(service, uid), "checked") == [1], what="it is quiet")
    assert sums(filled(service, uid, dry_run=False), "stored") == [1]
    (session,) = [item for item in evaluations(service) if item["scope"] == "session"]
    assert (session["session_id"], session["is_backfill"]) == ("s", True)
    assert [(task["task_id"], task["outcome"]) for task in session["tasks"]] == [("two", "passed")]
    assert sums(filled(service, uid), "checked") == [0]


def test_records_that_nobody_knew_the_profile_of(start: Start) -> None:
    service = start(deadline_s="200ms", **QUICK)
    service.send(*({"uid": f"u{n}", "profile": "shop", "context": {"answer": "four days"}}
                   for n in range(3)))  # fmt: skip
    service.wait_for(3, "dead_lettered")
    uid = register(service, watching())
    assert sums(filled(service, uid), "checked", "stored") == [3, 0]
    assert sums(filled(service, uid, dry_run=False), "checked", "stored") == [3, 3]
    assert outcomes(service) == {f"u{n}": {"answered": "passed"} for n in range(3)}
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["evaluated"], sheet["dead_lettered"], sheet["waiting"]) == (3, 0, 0)
    assert sums(filled(service, uid, dry_run=False), "checked") == [0]


def test_a_senders_record_is_the_one_of_its_trace(service: Service) -> None:
    """Also one that comes while the page is evaluated."""
    registered = service.collector.registry.register(SPACE, watching(), activate=True)
    service.send({"uid": "sent", "profile": "shop", "trace_id": trace_id(1),
                  "context": {"answer": "four days"}})  # fmt: skip
    service.wait_for(1)
    assert sums(filled(service, registered.uid, dry_run=False), "stored") == [5]
    assert derived_uid(trace_id(1), "shop") not in {item["uid"] for item in evaluations(service)}


def test_what_is_erased_stays_erased(service: Service) -> None:
    service.collector.worker.erase(EraseTarget(space=SPACE, trace_id=trace_id(3))).result(120)
    uid = register(service, watching())
    assert sums(filled(service, uid, dry_run=False), "stored") == [5]


def test_a_trace_that_may_go_on_is_left_out(start: Start) -> None:
    """Its last span came less than the quiet time ago."""
    service = start(quiet_s="1h", settle_s="10ms", foreign_settle_s="10ms")
    post_spans(service, *moved(trace(), time.time_ns()))
    wait_until(lambda: service.get("/api/v1/conservation")["spans"]["stored"] == 4, what="spans")
    uid = register(service, watching())
    assert sums(filled(service, uid), "checked", "still_open") == [0, 1]


def test_other_filters_are_refused(service: Service) -> None:
    uid = register(service, watching())
    for body, message in (
        ({"outcome": "failed"}, "only `since` filters"),
        ({"cursor": "OS4x"}, "cursor"),
    ):
        sent = {"profile": uid, "missing": True, **body}
        answer = service.http.post("/api/v1/reevaluations", json=sent)
        assert (answer.status_code, message in answer.json()["detail"]) == (400, True), answer.text
