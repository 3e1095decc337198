"""Another version of a profile judges what is stored; what it flips, a brute force says, too."""

import time
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.metrics import TotalName
from collector.store.evaluation_queries import EvaluationQuery
from collector.worker.reevaluate import Reevaluated, Reevaluator
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import SPACE, span
from tests.support.examples import examples
from tests.support.processes import wait_until

STEPS: Final = TraceAssertion.span_count(SpanFilter.by_name("step"))


def profile(threshold: int, *, steps: int | None = None, new: bool = False) -> AgentEvalProfile:
    """`above` passes for an answer above a threshold; another version has further tasks."""
    tasks: list[Any] = [AssertionTask("above", "answer", threshold, "GreaterThan")]
    if steps is not None:
        tasks.append(TraceAssertionTask("steps", STEPS, steps, "Equals"))
    if new:
        tasks.append(AssertionTask("even", "even", True, "Equals"))
    return AgentEvalProfile(tasks, alias="answers")


def trace(number: int) -> str:
    return f"{number + 1:032x}"


@pytest.fixture
def service(start: Start, tmp_path: Path) -> Service:
    """Ten records with the answers 0 to 9, and as many spans named `step`; above 4 is right."""
    file = profile(4, steps=3).save_to_json(tmp_path / "profile.json")
    service = start(profile=[str(file)])
    for n in range(10):
        spans = [span(k, trace_id=trace(n), name="step") for k in range(1, n + 1)]
        if spans:
            post_spans(service, *spans)
    service.send(
        *(
            {"uid": f"u{n}", "profile": "answers", "trace_id": trace(n),
             "context": {"answer": n, "even": n % 2 == 0}}
            for n in range(10)
        )
    )  # fmt: skip
    service.wait_for(10)
    return service


def post_spans(service: Service, *spans: Any) -> None:
    answer = service.http.post(
        "/v1/traces",
        content=encode_request(spans).SerializeToString(),
        headers={"Content-Type": "application/x-protobuf"},
    )
    assert answer.status_code == 200


def register(service: Service, found: AgentEvalProfile) -> str:
    return service.collector.registry.register(SPACE, found, activate=False).uid


def reevaluate(service: Service, uid: str, **body: Any) -> list[Any]:
    """All pages of three evaluations each."""
    pages: list[Any] = []
    cursor = None
    while True:
        sent = {"profile": uid, "limit": 3, "cursor": cursor, **body}
        answer = service.http.post("/api/v1/reevaluations", json=sent)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json())
        cursor = pages[-1]["next_cursor"]
        if cursor is None:
            return pages


def outcomes(service: Service) -> dict[str, dict[str, str]]:
    return {
        item["uid"]: {task["task_id"]: task["outcome"] for task in item["tasks"]}
        for item in service.get("/api/v1/evaluations", limit=1000)["items"]
    }


def changes(pages: list[Any]) -> dict[str, set[tuple[str, str, str]]]:
    return {
        item["uid"]: {(each["task_id"], each["before"], each["after"]) for each in item["tasks"]}
        for page in pages
        for item in page["items"]
    }


def counts(pages: list[Any], key: str) -> dict[str, dict[str, int]]:
    """New or removed tasks of all pages, with how often they ended how."""
    found: dict[str, dict[str, int]] = {}
    for page in pages:
        for item in page[key]:
            sums = found.setdefault(item["task_id"], {})
            for outcome, number in item["outcomes"].items():
                sums[outcome] = sums.get(outcome, 0) + number
    return found


def test_the_same_profile_flips_nothing(service: Service) -> None:
    before = service.get("/api/v1/evaluations", limit=1000)
    (active,) = service.get("/api/v1/profiles")["items"]
    pages = reevaluate(service, active["uid"], dry_run=False)
    assert [(page["checked"], page["flipped"], page["stored"]) for page in pages] == [
        (3, 0, 0), (3, 0, 0), (3, 0, 0), (1, 0, 0),
    ]  # fmt: skip
    assert service.get("/api/v1/evaluations", limit=1000) == before


def test_a_report_says_what_would_flip_and_changes_nothing(service: Service) -> None:
    """Above 6 instead of 4, five spans instead of three: by hand, record by record."""
    before = service.get("/api/v1/evaluations", limit=1000)
    pages = reevaluate(service, register(service, profile(6, steps=5)))
    assert changes(pages) == {
        "u3": {("steps", "passed", "failed")},
        "u5": {("above", "passed", "failed"), ("steps", "failed", "passed")},
        "u6": {("above", "passed", "failed")},
    }
    assert sum(page["checked"] for page in pages) == 10
    assert sum(page["stored"] for page in pages) == 0
    assert service.get("/api/v1/evaluations", limit=1000) == before


def test_new_and_removed_tasks_are_no_flips(service: Service) -> None:
    """Without `steps`, which one record of ten passed, and with `even`, which fails for the odd.

    Above 4 without three steps had failed, or errored without a trace; of 5 to 9, the even ones
    pass now: two evaluations are others, and none for a task that both versions have.
    """
    pages = reevaluate(service, register(service, profile(4, new=True)))
    assert (changes(pages), sum(page["flipped"] for page in pages)) == ({}, 0)
    assert counts(pages, "new_tasks") == {"even": {"passed": 5, "failed": 5}}
    assert counts(pages, "removed_tasks") == {"steps": {"passed": 1, "failed": 8, "errored": 1}}
    assert sum(page["moved"] for page in pages) == 2  # 6 and 8; 0 had failed already


def test_revisions_take_the_place_of_the_evaluations(service: Service) -> None:
    """A version without `steps` and with `even`: rates, counters and sheet all follow."""
    rates = service.get("/api/v1/tasks")["items"]
    assert {(each["task_id"], each["passed"]) for each in rates} == {("above", 5), ("steps", 1)}
    uid = register(service, profile(6, new=True))
    pages = reevaluate(service, uid, dry_run=False)
    assert sum(page["stored"] for page in pages) == 10
    assert outcomes(service) == {
        f"u{n}": {
            "above": "passed" if n > 6 else "failed",
            "even": "passed" if n % 2 == 0 else "failed",
        }
        for n in range(10)
    }
    rates = [each for each in service.get("/api/v1/tasks")["items"] if each["total"]]
    assert {(each["task_id"], each["passed"], each["failed"]) for each in rates} == {
        ("above", 3, 7), ("even", 5, 5),
    }  # fmt: skip
    sheet = service.get("/api/v1/conservation")["records"]
    assert (sheet["accepted"], sheet["evaluated"]) == (10, 10)
    totals = service.collector.store.totals()
    assert {
        (key.task, key.label): n for key, n in totals.items() if key.name is TotalName.REEVALUATIONS
    } == {
        ("above", "passed>failed"): 2,
        ("steps", "passed>none"): 1,
        ("steps", "failed>none"): 8,
        ("steps", "errored>none"): 1,  # the first one has no trace
        ("even", "none>passed"): 5,
        ("even", "none>failed"): 5,
    }
    assert not [key for key in totals if key.name is TotalName.REVISIONS]
    line = 'scouter_evaluations_total{alias="answers",outcome="passed",profile="answers",'
    assert service.sample(f'{line}space="default",task="above"}}') == 5


def revision_of(service: Service, trace_id: str, revision: int) -> Any:
    items = service.get("/api/v1/evaluations", trace_id=trace_id)["items"]
    return next((item for item in items if item["revision"] == revision), None)


def test_a_late_span_is_judged_by_the_version_that_judged_last(service: Service) -> None:
    uid = register(service, profile(4, steps=4))
    reevaluate(service, uid, dry_run=False)
    assert outcomes(service)["u3"]["steps"] == "failed"
    post_spans(service, span(9, trace_id=trace(3), name="step"))
    item = wait_until(lambda: revision_of(service, trace(3), 3), what="the third evaluation")
    assert {task["task_id"]: task["actual"] for task in item["tasks"]}["steps"] == 4
    assert item["outcome"] == "failed"  # 3 is not above 4; four steps are right now
    assert {task["task_id"]: task["outcome"] for task in item["tasks"]}["steps"] == "passed"
    totals = service.collector.store.totals()
    assert not [key for key in totals if key.name is TotalName.REVISIONS]


def test_a_record_that_got_another_evaluation_meanwhile_keeps_it(service: Service) -> None:
    """The rows were made of what was read before; only those that still follow are stored."""
    collector = service.collector
    store, registry, revise = collector.store, collector.registry, collector.worker.revise
    uid = register(service, profile(6))
    registered = service.collector.registry.get(SPACE, uid)
    assert registered is not None
    reevaluator = Reevaluator(store, registry, revise)
    query = EvaluationQuery(space=SPACE, limit=100)

    class Slow(Reevaluator):
        """Somebody else revises between reading and storing."""

        def _judged(self, registered: Any, part: Any, now_ns: int) -> Any:
            pairs = list(super()._judged(registered, part, now_ns))
            done.append(reevaluator.run(registered, query, now_ns=1, is_dry=False))
            return iter(pairs)

    done: list[Reevaluated] = []
    found = Slow(store, registry, revise).run(registered, query, now_ns=2, is_dry=False)
    assert len(done[0].stored) == 10
    assert not found.stored
    assert {item["revision"] for item in service.get("/api/v1/evaluations")["items"]} == {2}


def test_another_alias_is_left_alone_whatever_its_names(service: Service) -> None:
    """A profile whose name is the other one's alias."""
    body = profile(6).model_dump(mode="json")
    other = AgentEvalProfile.model_validate(
        {**body, "alias": "others", "config": {"name": "answers"}}
    )
    service.collector.registry.register(SPACE, other, activate=True)
    service.send({"uid": "other", "profile": "others", "context": {"answer": 5}})
    service.wait_for(11)
    pages = reevaluate(service, register(service, profile(3)), dry_run=False)
    assert sum(page["checked"] for page in pages) == 10
    (item,) = [e for e in service.get("/api/v1/evaluations")["items"] if e["uid"] == "other"]
    assert (item["revision"], item["profile"]) == (1, "others")


def test_spans_that_come_while_a_version_begins_to_read_them(start: Start, tmp_path: Path) -> None:
    """The first version reads none, so nobody watched the trace; the evaluation is made anew."""
    service = start(profile=[str(profile(0).save_to_json(tmp_path / "p.json"))])
    post_spans(service, span(1, trace_id=trace(1), name="step"))
    service.send({"uid": "u", "profile": "answers", "trace_id": trace(1), "context": {"answer": 1}})
    service.wait_for(1)
    uid = register(service, profile(0, steps=2))
    registered = service.collector.registry.get(SPACE, uid)
    assert registered is not None

    class Slow(Reevaluator):
        """A span comes between reading and storing."""

        def _judged(self, registered: Any, part: Any, now_ns: int) -> Any:
            pairs = list(super()._judged(registered, part, now_ns))
            post_spans(service, span(2, trace_id=trace(1), name="step"))
            assert service.collector.worker.catch_up()
            return iter(pairs)

    query = EvaluationQuery(space=SPACE, limit=100)
    collector = service.collector
    store, registry, revise = collector.store, collector.registry, collector.worker.revise
    found = Slow(store, registry, revise).run(
        registered, query, now_ns=time.time_ns(), is_dry=False
    )
    assert (len(found.stored), found.new) == (1, {"steps": {"failed": 1}})
    item = wait_until(lambda: revision_of(service, trace(1), 3), what="the third evaluation")
    assert item["outcome"] == "passed"


def test_what_was_judged_before_an_erasure_is_not_stored(service: Service) -> None:
    """It may hold a text of the spans that went."""
    collector = service.collector
    store, registry, revise = collector.store, collector.registry, collector.worker.revise
    uid = register(service, profile(6))
    registered = service.collector.registry.get(SPACE, uid)
    assert registered is not None

    class Slow(Reevaluator):
        """A record is erased between reading and storing."""

        def _judged(self, registered: Any, part: Any, now_ns: int) -> Any:
            pairs = list(super()._judged(registered, part, now_ns))
            answer = service.http.post("/api/v1/erase", json={"record_uid": "u9"})
            assert answer.status_code == 200
            return iter(pairs)

    query = EvaluationQuery(space=SPACE, limit=100)
    assert not Slow(store, registry, revise).run(registered, query, now_ns=2, is_dry=False).stored
    again = Reevaluator(store, registry, revise).run(registered, query, now_ns=3, is_dry=False)
    assert (again.checked, len(again.stored)) == (9, 9)


def test_filters_and_faults(service: Service) -> None:
    uid = register(service, profile(6, steps=5))
    pages = reevaluate(service, uid, outcome="passed")
    assert sum(page["checked"] for page in pages) == 0  # none has both: above 4 and three steps
    pages = reevaluate(service, uid, trace_id=trace(5).upper())
    assert (sum(page["checked"] for page in pages), changes(pages).keys()) == (1, {"u5"})
    for body, status, text in (
        ({"profile": "nobody"}, 404, "'nobody' is not registered"),
        ({"profile": uid, "limit": 501}, 400, "limit"),
        ({"profile": uid, "dryrun": False}, 400, "dryrun"),
        ({"profile": uid, "since": "yesterday"}, 400, "since: 'yesterday' is no time"),
        ({"profile": uid, "cursor": "x"}, 400, "cursor"),
        ({}, 400, "profile"),
    ):
        answer = service.http.post("/api/v1/reevaluations", json=body)
        assert (answer.status_code, text in answer.json()["detail"]) == (status, True), answer.text


def test_a_name_without_an_active_version(service: Service) -> None:
    """It is registered: the answer says so, and its ways out lead out."""

    def status_and_detail(name: str) -> tuple[int, str]:
        answer = service.http.post("/api/v1/reevaluations", json={"profile": name})
        return answer.status_code, answer.json().get("detail", "")

    tasks = [AssertionTask("above", "answer", 1, "GreaterThan")]
    config = AgentEvalConfig(name="named")
    uid = register(service, AgentEvalProfile(tasks, config, alias="pushed"))
    for name in ("pushed", "named"):
        assert status_and_detail(name) == (
            404,
            f"profile: {name!r} is registered and has no active version; name a version by its uid "
            f"({uid}), or activate one with `scouter profile activate UID`",
        )
    assert status_and_detail(uid)[0] == 200
    service.collector.registry.set_active(SPACE, uid, is_active=True)
    assert status_and_detail("pushed")[0] == 200
    service.collector.registry.set_active(SPACE, uid, is_active=False)
    for threshold in range(2, 6):
        tasks = [AssertionTask("above", "answer", threshold, "GreaterThan")]
        uid = register(service, AgentEvalProfile(tasks, config, alias="pushed"))
    assert f"({uid}, " in status_and_detail("pushed")[1]
    assert " and 2 more), or " in status_and_detail("pushed")[1]


@settings(max_examples=examples(6), deadline=None)
@given(
    answers=st.lists(st.one_of(st.integers(-5, 5), st.none(), st.text(max_size=2)), max_size=20),
    first=st.integers(-5, 5),
    second=st.integers(-5, 5),
)
def test_flips_are_what_a_brute_force_says(
    tmp_path_factory: pytest.TempPathFactory, answers: list[Any], first: int, second: int
) -> None:
    """An answer that is no number makes the task errored under both versions."""
    folder = tmp_path_factory.mktemp("flips")
    service = Service(folder, profile=[str(profile(first).save_to_json(folder / "p.json"))])
    try:
        if answers:
            service.send(
                *(
                    {"uid": f"u{n}", "profile": "answers", "context": {"answer": answer}}
                    for n, answer in enumerate(answers)
                )
            )
            service.wait_for(len(answers))
        pages = reevaluate(service, register(service, profile(second)), dry_run=False)
        expected = {
            f"u{n}"
            for n, answer in enumerate(answers)
            if isinstance(answer, int) and (answer > first) != (answer > second)
        }
        assert changes(pages).keys() == expected
    finally:
        service.stop()
