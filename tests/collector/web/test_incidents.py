"""A version that fell: its alerts stand together, with the tasks that fell and what errored."""

import asyncio
import re
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from collector.web.incidents import incidents_of, named
from collector.web.overview import overview
from collector.web.period import USUAL, Traffic, Window, split_of
from collector.web.source import Source
from collector.web.task import marks_of, task_view
from scouter.client.models.alerts import DriftAlert
from scouter.client.models.comparison import SetupItem, VersionItem
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.collector.api.test_comparison import send_version
from tests.collector.conftest import Service, save_answers
from tests.collector.web.test_views import view
from tests.support.answers import answer
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.processes import wait_until
from tests.support.served import serve

Fell = tuple[Service, str]


@pytest.fixture(scope="module")
def fell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fell]:
    """All 12 of version 1.0 passed; of 2.0, 3 of 12 passed, 5 failed and 4 errored."""
    folder = tmp_path_factory.mktemp("incident")
    profile = AgentEvalProfile.from_file(save_answers(folder))
    spans = TraceAssertion.trace_span_count()  # which tell the version
    traced = TraceAssertionTask("has_spans", spans, 0, ComparisonOperator.GreaterThan)
    both = AgentEvalProfile([*profile.tasks, traced], profile.config, alias="answers")
    service = Service(folder, profile=[str(both.save_to_json(folder / "both.json"))])
    send_version(service, "1.0", [42] * 12)
    service.wait_for(12)
    send_version(service, "2.0", [42] * 3 + [41] * 5 + [None] * 4)
    service.wait_for(24)

    def counted() -> list[Any]:
        found = service.get("/api/v1/alerts")["drift"]
        return [each for each in found if each["fell"] and each["fell"][0]["now"]["errored"] == 4]

    wait_until(lambda: any(each["condition"] for each in counted()), what="the condition holds")
    with serve(service.collector.app) as url:
        yield service, url
    service.stop()


def words(text: str) -> str:
    """What a person reads of a view."""
    return " ".join(
        re.sub(r"<[^>]*>", "", text.replace("</td>", " ").replace("</th>", " ")).split()
    )


def test_a_condition_tells_what_fell_and_how_it_stands_now(fell: Fell) -> None:
    """Of the last 20 records 8 of version 1.0 and 3 of 2.0 passed."""
    service, _ = fell
    (alert,) = [each for each in service.get("/api/v1/alerts")["drift"] if each["condition"]]
    assert [(each["task"], each["now"]["passed"]) for each in alert["fell"]] == [
        ("", 3), ("right", 3),
    ]  # fmt: skip
    assert alert["fell"][0]["before"] == {
        "version": "1.0", "passed": 12, "failed": 0, "errored": 0, "pass_rate": 1.0,
    }  # fmt: skip
    assert (alert["now"]["records"], alert["now"]["failed"]) == (20, 9)
    assert alert["now"]["message"] == "11 of the last 20 records passed"
    overview = words(view(service, "/"))
    assert "3 of 12 records passed in version 2.0 (5 failed, 4 errored)" in overview
    assert "12 of 12 in version 1.0 before" in overview
    assert "Tasks that fell: right 100% → 25% (5 failed, 4 errored)" in overview
    assert "now 11 of the last 20 passed" in overview
    assert "3 of 12 in 2.0, 100% in 1.0 before" in overview
    shown = words(view(service, f"/alerts/{alert['alert_id']}"))
    assert "right 100% 12 of 12 25% 3 of 12 5 4" in shown
    assert "now 11 of the last 20 passed" in shown


def test_a_profile_shows_the_failures_of_all_its_tasks(fell: Fell) -> None:
    """From its alert that is one click; each group says its share since the version that fell."""
    service, url = fell
    (alert,) = [each for each in service.get("/api/v1/alerts")["drift"] if each["condition"]]
    with browser_page(url) as (page, seen):
        page.goto(f"/alerts/{alert['alert_id']}")
        page.get_by_role("link", name="Kinds of failure of each task").click()
        page.get_by_text("5 of the 9 that did not pass since version 2.0 began").wait_for()
        assert page.get_by_text("4 of the 9 that did not pass since version 2.0 began").is_visible()
        assert page.get_by_role("heading", name="answers", exact=True).is_visible()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    assert service.http.get("/profile?profile=none").status_code == 404


def test_each_version_has_a_line_that_ends_now(fell: Fell) -> None:
    service, url = fell
    with browser_page(url, script=False) as (page, _):
        page.goto("/task?profile=answers&task=right")
        assert page.locator("figcaption .key").all_inner_texts() == [
            "● version 2.0", "○ version 1.0",
        ]  # fmt: skip
        xs = [
            float(each.get_attribute("cx") or "nan") for each in page.locator("figure circle").all()
        ]
        assert 0 <= min(xs) <= max(xs) <= 860
        assert page.locator("select[name=version] option").all_inner_texts() == [
            "all", "2.0", "1.0",
        ]  # fmt: skip
    text = words(view(service, "/task?profile=answers&task=right"))
    assert "15 passed, 5 failed, 4 errored" in text


def test_everybody_can_read_what_fell(fell: Fell) -> None:
    service, url = fell
    alerts = service.get("/api/v1/alerts")["drift"]
    with browser_page(url, width=PHONE_PX, height=844) as (page, _):
        for address in (
            "/", "/alerts", f"/alerts/{alerts[0]['alert_id']}", "/profile?profile=answers",
            "/task?profile=answers&task=right",
        ):  # fmt: skip
            assert_everybody_can_read(page, address)


def alert(profile: str, version: str, task: str = "", condition: str = "", since: int = 0) -> Any:
    return answer(
        DriftAlert, profile=profile, service="bot", environment="", version=version, task=task,
        condition=condition, fell=[], together=[], state="firing",
        opened={"since": f"2026-11-26T10:00:0{since}Z"},
        title=f"{profile}: task 'a' fails more in version {version} since 2026-11-26 10:00 UTC",
    )  # fmt: skip


def test_alerts_of_one_version_are_one_incident() -> None:
    """Others of the profile are apart; its condition joins the version that is named first."""
    given = [
        alert("desk", "2", condition="pass rate below 90.0%"),
        alert("desk", "2", "a", since=5),
        alert("desk", "2", since=7),
        alert("desk", "1"),
        alert("shop", "", condition="pass rate below 80.0%"),
    ]
    over = alert("desk", "3").model_copy(update={"state": "resolved"})
    found = incidents_of([over, *given])
    assert [each.is_in("prod") for each in found] == [False, False, True]
    assert [(each.profile, each.version, len(each.alerts)) for each in found] == [
        ("desk", "2", 3), ("desk", "1", 1), ("shop", "", 1),
    ]  # fmt: skip
    assert [each.condition or each.task for each in found[0].alerts] == [
        "", "a", "pass rate below 90.0%",
    ]  # fmt: skip
    assert found[0].since == datetime.fromisoformat("2026-11-26T10:00:00Z")
    assert named(given[1]) == "task 'a' fails more in version 2"


def elsewhere(view: Coroutine[Any, Any, Any]) -> Any:
    """Collect a view in a thread of its own: in this one the browser's loop may run."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, view).result()


def test_an_environment_shows_its_own_falls() -> None:
    """Production, which has more records, is well; task a fell in staging, task b did not."""
    began = datetime.fromisoformat("2026-11-26T10:00Z")
    fall = alert("desk", "2", "a").model_copy(
        update={"environment": "staging", "kind": "pass", "alert_id": "x", "opened_at": began}
    )
    series = [
        {"profile": "desk", "task": task, "environment": name, "kind": "pass", "records": records,
         "version": "2", "version_before": None, "state": "watched", "healthy": 0.9, "slice": ""}
        for name, records in (("production", 90), ("staging", 40))
        for task in ("a", "b")
    ]  # fmt: skip
    rate = {"profile": "desk", "profile_version": "d", "total": 130, "passed": 130, "line": None}
    answers: dict[str, Any] = {
        "profiles": {
            "items": [{"alias": "desk", "name": "desk", "profile_version": "d", "is_active": True,
                       "tasks": ["a", "b"]}],
        },
        "tasks": {"items": [rate | {"task_id": each} for each in ("a", "b")], "bucket_s": None},
        "tasks/series": {"items": [], "bucket_s": 3600},
        "alerts": {"drift": [fall], "items": [], "trouble": []},
        "alerts/x": dict(fall),
        "drift/series": {"items": series},
        "conservation/records": {"accepted": 130},
        "versions": {"items": []}, "setups": {"items": []},
    }  # fmt: skip

    class Answering(Source):
        def __init__(self) -> None: ...

        async def get(self, model: Any, path: str, **_: object) -> Any:
            return answer(model, **answers[path])

    def window(environment: str) -> Window:
        traffic = Traffic(version="", environment=environment)
        return Window(period=USUAL, traffic=traffic, now_s=NINE)

    def states(environment: str) -> list[str]:
        found = elsewhere(overview(Answering(), window(environment)))
        return [each.state for each in found["profiles"][0].tasks]

    def of_task(task_id: str, environment: str) -> tuple[int, bool]:
        found = elsewhere(task_view(Answering(), "desk", task_id, window(environment)))
        return len(found["incidents"]), found["fall"] is not None

    assert states("") == ["watched", "watched"]
    assert states("staging") == ["regressed", "watched"]
    assert of_task("a", "") == of_task("a", "staging") == (1, True)
    assert of_task("a", "production") == of_task("b", "") == (0, False)


VERSIONS: Any = [
    answer(VersionItem, version=version, first_at=f"2026-11-26T09:{minute}:00Z")
    for version, minute in (("2", "30"), ("1", "00"))
]
NINE = 1_795_683_600
"""2026-11-26 09:00 UTC in seconds since 1970."""


@pytest.mark.parametrize(
    ("versions", "since_s", "moment", "words"),
    [
        pytest.param(VERSIONS, NINE, "09:30:00", "version 2 began", id="its-begin"),
        pytest.param(VERSIONS, NINE + 2_000, "10:00:03", "the fall began", id="older"),
        pytest.param(VERSIONS[:1], NINE, "10:00:03", "the fall began", id="the-first"),
        pytest.param(VERSIONS, NINE + 9_000, "", "", id="all-is-older"),
    ],
)
def test_failures_are_parted_where_the_version_that_fell_began(
    versions: Any, since_s: int, moment: str, words: str
) -> None:
    opened = incidents_of([alert("desk", "2", since=3)])
    found = split_of(opened, versions, since_s)
    at = f"2026-11-26T{moment}.000000Z" if moment else ""
    assert (found["at"], found["words"]) == (at, words)


def test_marks_that_stand_together_are_one() -> None:
    """In a plot of 1,000 s those that are apart by less than 30 s; what is older has no mark."""
    fall = answer(
        DriftAlert,
        opened={"since": "2026-11-26T09:30:10Z"},
        opened_at="2026-11-26T09:35:00Z",
    )
    begin_s = NINE + 1_500
    values = (
        ("fingerprint", "fp_2", "2026-11-26T09:38:00Z", 0.95, True),
        ("fingerprint", "fp_1", "2026-11-26T09:39:00Z", 0.95, False),
        ("prompt", "rare 2", "2026-11-26T09:39:00Z", 0.09, True),
        ("version", "bot 2", "2026-11-26T09:30:00Z", 1.0, True),
    )
    setups = [
        answer(SetupItem, kind=kind, name=name, first_at=at, share=share, is_new=is_new)
        for kind, name, at, share, is_new in values
    ]
    assert marks_of([fall], VERSIONS, setups, begin_s, begin_s + 1_000) == [
        {"at_s": NINE + 1_800, "kind": "change", "label": "version 2, falls"},
        {"at_s": NINE + 2_100, "kind": "alert", "label": "alert"},
        {"at_s": NINE + 2_280, "kind": "change", "label": "fingerprint fp_2 95%"},
    ]
