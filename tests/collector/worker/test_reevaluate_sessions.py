"""Another version of a profile judges stored sessions; what it flips is worked out by hand."""

from pathlib import Path
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.engine.sessions import session_uid
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.conftest import Service, Start
from tests.collector.worker.test_reevaluate import (
    changes,
    counts,
    post_spans,
    reevaluate,
    register,
)
from tests.contracts.store_data import SPACE, span
from tests.support.processes import wait_until

QUICK: Final = {"session_quiet_s": "200ms"}
ENDED: Final = "records[-1].context.state"


def trace(number: int) -> str:
    return f"{number + 1:032x}"


def profile(turns: int, *, spans: int | None = None, solved: bool = False) -> AgentEvalProfile:
    """`short` passes for a session of fewer turns; another version has further tasks."""
    tasks: list[Any] = [
        AssertionTask("said", "turn", 0, "GreaterThanOrEqual"),
        AssertionTask("short", "records", turns, "HasLengthLessThan", scope="session"),
    ]
    if spans is not None:
        counted = TraceAssertion.trace_span_count()
        tasks.append(TraceAssertionTask("spans", counted, spans, "Equals", scope="session"))
    if solved:
        tasks.append(AssertionTask("solved", ENDED, "solved", "Equals", scope="session"))
    return AgentEvalProfile(tasks, alias="chat")


RECORDS_ONLY: Final = AgentEvalProfile(
    [AssertionTask("said", "turn", 1, "GreaterThanOrEqual")], alias="chat"
)


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:
    """Sessions s1 to s4 of so many records, each with a trace of one span; fewer than 3 is short.

    Those of an even number end solved. Each comes whole: a pause in it would be its end.
    """
    file = profile(3).save_to_json(tmp_path / "profile.json")
    service = start(profile=[str(file)], **QUICK)
    turns = [(n, turn) for n in range(1, 5) for turn in range(n)]
    post_spans(service, *(span(1, trace_id=trace(10 * n + turn)) for n, turn in turns))
    service.send(
        *(
            {"uid": f"u{n}-{turn}", "profile": "chat", "session_id": f"s{n}",
             "trace_id": trace(10 * n + turn), "created_at": f"2026-01-0{turn + 1}T00:00:00Z",
             "context": {"turn": turn,
                         "state": "solved" if turn == n - 1 and n % 2 == 0 else "open"}}
            for n, turn in turns
        )
    )  # fmt: skip
    wait_until(lambda: len(sessions(service)) == 4, what="the evaluations on sessions")
    return service


def items(service: Service) -> dict[str, Any]:
    return {item["uid"]: item for item in service.get("/api/v1/evaluations", limit=1000)["items"]}


def sessions(service: Service) -> dict[str, Any]:
    """By session the tasks and their outcomes, and the revision."""
    return {
        item["session_id"]: {
            "revision": item["revision"],
            **{task["task_id"]: task["outcome"] for task in item["tasks"]},
        }
        for item in items(service).values()
        if item["scope"] == "session"
    }


def flips(service: Service, pages: list[Any]) -> dict[str, set[tuple[str, str, str]]]:
    """By session what changed; that of records is left out."""
    scopes = {item["uid"]: item["scope"] for page in pages for item in page["items"]}
    names = {uid: item["session_id"] for uid, item in items(service).items()}
    found = changes(pages)
    return {names[uid]: found[uid] for uid in found if scopes[uid] == "session"}


def test_the_same_profile_flips_nothing(service: Service) -> None:
    """Ten records and four sessions."""
    before = items(service)
    (active,) = service.get("/api/v1/profiles")["items"]
    pages = reevaluate(service, active["uid"], dry_run=False)
    assert [sum(page[key] for page in pages) for key in ("checked", "flipped", "stored")] == [
        14, 0, 0,
    ]  # fmt: skip
    assert items(service) == before


def test_a_report_says_what_would_flip_and_changes_nothing(service: Service) -> None:
    """Fewer than 2 instead of 3; three spans in all; solved at the end, which is new."""
    before = items(service)
    pages = reevaluate(service, register(service, profile(2, spans=3, solved=True)))
    assert flips(service, pages) == {"s2": {("short", "passed", "failed")}}
    assert counts(pages, "new_tasks") == {
        "spans": {"failed": 3, "passed": 1}, "solved": {"failed": 2, "passed": 2},
    }  # fmt: skip
    assert counts(pages, "removed_tasks") == {}
    assert sum(page["moved"] for page in pages) == 1  # s1 is short as before, and not solved
    assert sum(page["checked"] for page in pages) == 14
    assert items(service) == before
    (page,) = reevaluate(service, register(service, profile(2)), session_id="s2")
    assert (page["checked"], len(page["items"])) == (3, 1)
    flip = page["items"][0]
    assert (flip["record_id"], flip["trace_id"], flip["scope"]) == ("session s2", None, "session")


def test_revisions_take_the_place_of_the_evaluations(service: Service) -> None:
    """Of s2 two turns are not short any more: 1 of 4 instead of 2; the sheet has records alone."""
    uid = register(service, profile(2))
    pages = reevaluate(service, uid, dry_run=False)
    assert sum(page["stored"] for page in pages) == 14
    assert sessions(service) == {
        f"s{n}": {"revision": 2, "short": "passed" if n < 2 else "failed"} for n in range(1, 5)
    }
    rates = {
        each["task_id"]: (each["passed"], each["failed"])
        for each in service.get("/api/v1/tasks")["items"]
        if each["total"]
    }
    assert rates == {"said": (10, 0), "short": (1, 3)}
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["accepted"], sheet["evaluated"]) == (10, 10)


def test_a_version_that_says_nothing_of_sessions_leaves_their_evaluations(service: Service) -> None:
    pages = reevaluate(service, register(service, RECORDS_ONLY), dry_run=False)
    assert [sum(page[key] for page in pages) for key in ("checked", "stored", "gone")] == [
        10,
        10,
        0,
    ]
    assert {each["revision"] for each in sessions(service).values()} == {1}


def test_what_comes_later_is_judged_by_the_version_that_judged_last(service: Service) -> None:
    """A record, then a span of a trace that the first version did not read; each a revision."""
    reevaluate(service, register(service, profile(3, spans=2)), dry_run=False)
    assert sessions(service)["s1"] == {"revision": 2, "short": "passed", "spans": "failed"}
    service.send({"uid": "new", "profile": "chat", "session_id": "s1", "context": {"turn": 2}})
    wait_until(lambda: sessions(service)["s1"]["revision"] == 3, what="the third evaluation")
    assert sessions(service)["s1"] == {"revision": 3, "short": "passed", "spans": "failed"}
    post_spans(service, span(2, trace_id=trace(10)))
    wait_until(lambda: sessions(service)["s1"]["revision"] == 4, what="the fourth evaluation")
    assert sessions(service)["s1"] == {"revision": 4, "short": "passed", "spans": "passed"}
    wait_until(
        lambda: service.get("/api/v1/conservation")["spans"]["late"] == 0, what="no late span"
    )


def test_spans_that_come_meanwhile_are_not_missed(service: Service) -> None:
    """Between reading and storing; nobody watched the trace, as the first version reads none."""
    collector = service.collector
    judged = type(collector.worker).revise

    def slow(pipeline: Any, revisions: Any) -> Any:
        post_spans(service, span(2, trace_id=trace(10)))
        assert collector.worker.catch_up()
        return judged(pipeline, revisions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(collector.worker), "revise", slow)
        uid = register(service, profile(3, spans=2))
        reevaluate(service, uid, session_id="s1", dry_run=False)
    wait_until(
        lambda: sessions(service)["s1"].get("spans") == "passed", what="the third evaluation"
    )
    assert sessions(service)["s1"]["revision"] == 3


def test_a_late_span_is_late_until_the_last_version_has_seen_it(
    start: Start, tmp_path: Path
) -> None:
    """Both versions read spans: what the sheet and a restart take for late follows the second."""
    file = profile(3, spans=1).save_to_json(tmp_path / "profile.json")
    service = start(profile=[str(file)], **QUICK)
    post_spans(service, span(1, trace_id=trace(1)))
    service.send({"uid": "u", "profile": "chat", "session_id": "s", "trace_id": trace(1),
                  "context": {"turn": 0}})  # fmt: skip
    wait_until(lambda: sessions(service), what="the evaluation")
    reevaluate(service, register(service, profile(3, spans=2)), dry_run=False)
    post_spans(service, span(2, trace_id=trace(1)))
    wait_until(lambda: sessions(service)["s"]["revision"] == 3, what="the third evaluation")
    assert sessions(service)["s"]["spans"] == "passed"
    assert service.get("/api/v1/conservation")["spans"]["late"] == 0
    service.collector.worker.stop()
    post_spans(service, span(3, trace_id=trace(1)))  # nobody reads it
    service = start(profile=[str(file)], **QUICK)
    wait_until(lambda: sessions(service)["s"]["revision"] == 4, what="the fourth evaluation")
    assert sessions(service)["s"]["spans"] == "failed"
    assert service.get("/api/v1/conservation")["spans"]["late"] == 0


def test_a_restart_finds_nothing_that_waits(service: Service, start: Start) -> None:
    """Sessions that the last version evaluated are done, and new ones are evaluated by it, too."""
    reevaluate(service, register(service, profile(2)), dry_run=False)
    service.send({"uid": "new", "profile": "chat", "session_id": "s1", "context": {"turn": 2}})
    wait_until(lambda: sessions(service)["s1"]["revision"] == 3, what="the third evaluation")
    assert sessions(service)["s1"]["short"] == "failed"
    (uid,) = [each["uid"] for each in service.get("/api/v1/profiles")["items"] if each["is_active"]]
    assert service.collector.store.open_sessions([(SPACE, uid)]) == []
    profiles = service.collector.settings.profile
    service = start(profile=list(profiles), **QUICK)
    assert service.collector.store.open_sessions([(SPACE, uid)]) == []
    assert service.sample("scouter_sessions_waiting") == 0
    row = service.collector.store.latest_evaluations([(SPACE, session_uid(uid, "s1"))])
    assert [each.revision for each in row.values()] == [3]
