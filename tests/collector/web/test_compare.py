"""The comparison in views and in a real browser."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.web.compare import Aligned, align, align_tasks, align_values, bar, reach_of
from scouter.client.models.comparison import ComparedRate, LookedTask
from scouter.client.models.records import ToolCall
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.collector.api.test_comparison import PROTOBUF, push, send_version, trace_id
from tests.collector.conftest import Service, Start, save_answers
from tests.collector.web.conftest import HOSTILE
from tests.support.answers import answer
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page, open_view
from tests.support.replay_results import results, scenario, span
from tests.support.served import serve

IDS = [f"q{number}" for number in range(24)]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Two versions with common ids, of which the second is worse, and two runs."""
    folder = tmp_path_factory.mktemp("compare")
    service = Service(folder, profile=[str(save_answers(folder))])
    send_version(service, "1.0", [42] * 24, ids=IDS, tools=("search", "answer"))
    service.wait_for(24)
    send_version(service, "2.0", [42] * 8 + [41] * 16, ids=IDS, tools=("search", "refund"))
    service.wait_for(48)
    push(service, results([scenario(name, {"right": True}) for name in IDS]), "monday")
    bad = span("look", 1, None, 0, 9)
    push(service, results([scenario(name, {"right": False}, traces=[bad]) for name in IDS]), "pr")
    with serve(service.collector.app) as url:
        yield service, url
    service.stop()


def calls(*names: str) -> list[ToolCall]:
    return [answer(ToolCall, name=name, arguments={}) for name in names]


def test_calls_are_aligned_by_their_tools() -> None:
    """As the longest common subsequence has it; arguments alone make a change."""
    before = [*calls("a", "b"), answer(ToolCall, name="c", arguments={"n": 1})]
    after = [*calls("a", "x"), answer(ToolCall, name="c", arguments={"n": 2}), *calls("d")]
    lines = align(before, after)
    found = [
        (each.kind, each.before and each.before.name, each.after and each.after.name)
        for each in lines
    ]
    assert found == [
        ("same", "a", "a"), ("gone", "b", None), ("new", None, "x"), ("changed", "c", "c"),
        ("new", None, "d"),
    ]  # fmt: skip


def test_values_are_aligned_by_their_paths() -> None:
    """A value that one side lacks differs from null; texts stand as they are."""
    lines, left_out = align_values(
        {"order": {"id": 7, "days": None}, "said": ["a"]}, {"order": {"id": 8}, "said": ["a", "b"]}
    )
    assert [(each.path, each.kind, each.before, each.after) for each in lines] == [
        ("order.id", "changed", "7", "8"), ("order.days", "gone", "null", None),
        ("said[0]", "same", "a", "a"), ("said[1]", "new", None, "b"),
    ]  # fmt: skip
    assert left_out == 0
    many, left_out = align_values({"a": list(range(205))}, {})
    assert (len(many), left_out) == (200, 5)


def test_tasks_that_end_otherwise_come_first() -> None:
    before = [answer(LookedTask, task_id=name, outcome="passed") for name in "abc"]
    ends = {"a": "passed", "c": "errored"}
    after = [answer(LookedTask, task_id=name, outcome=end) for name, end in ends.items()]
    lines = align_tasks(before, after)
    assert [(each.task_id, each.is_changed) for each in lines] == [
        ("c", True), ("b", True), ("a", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "is_slower"),
    [(4, 250, True), (100, 201, True), (100, 200, False), (1, 9, False), (None, 9, False)],
)
def test_a_call_that_takes_twice_the_time_is_slower(
    before: float | None, after: float, is_slower: bool
) -> None:
    sides = [answer(ToolCall, name="a", duration_ms=each) for each in (before, after)]
    line = Aligned(kind="same", before=sides[0], after=sides[1])
    assert line.is_slower is is_slower


def test_the_last_two_versions_are_chosen(compared: tuple[Service, str]) -> None:
    _, url = compared
    with browser_page(url) as (page, seen):
        page.goto("/")
        page.get_by_role("link", name="Compare with the version before").click()
        assert page.locator("select[name=before]").input_value() == "version:1.0"
        assert page.locator("select[name=after]").input_value() == "version:2.0"
        panel = page.get_by_role("region", name="Decision")
        assert "regressed" in panel.inner_text()
        assert "8 of 24 records passed, 24 of 24 in the baseline" in panel.inner_text()
        change = page.locator("details.change").first
        assert "and 15 more records like it" in change.locator("summary").inner_text()
        assert "right failed" in change.locator("summary").inner_text()
        assert change.locator(".alike li").count() == 15
        assert page.locator("details.change").count() == 1
        assert change.locator("tr.gone code").first.inner_text() == "answer"
        assert change.locator("tr.new code").first.inner_text() == "refund"
        change.locator("thead").first.get_by_role("link", name="record of").last.click()
        page.get_by_role("heading", name=re.compile("Record q")).wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two versions: refunds, of which half pass, are a quarter of the traffic, then three."""
    folder = tmp_path_factory.mktemp("shifted")
    service = Service(folder, profile=[str(save_answers(folder))])
    for version, refunds in (("1.0", 20), ("2.0", 60)):
        resource = Resource(attributes={"service.name": "desk", "service.version": version})
        spans = [
            Span(
                trace_id=trace_id(version, at), span_id=f"{1:016x}", name="call", start_ns=1,
                end_ns=2, resource=resource,
                attributes={
                    "gen_ai.operation.name": "execute_tool",
                    "gen_ai.tool.name": "pay" if at % 3 else "search",
                },
            )
            for at in range(80)
        ]  # fmt: skip
        data = encode_request(spans).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
        service.send(
            *(
                {
                    "uid": f"{version}-{at}", "profile": "answers", "session_id": f"s{at // 2}",
                    "trace_id": trace_id(version, at),
                    "tags": {"kind": "refund" if at < refunds else "other"},
                    "context": {"answer": 41 if at < refunds and at % 4 < 2 else 42},
                }
                for at in range(80)
            )
        )  # fmt: skip
        service.wait_for(80 if version == "1.0" else 160)
    with serve(service.collector.app) as url:
        yield url
    service.stop()


def test_a_fall_is_called_traffic_where_the_traffic_changed(shifted: str) -> None:
    with browser_page(shifted) as (page, seen):
        page.goto("/compare")
        panel = page.get_by_role("region", name="Decision")
        text = panel.inner_text()
        assert "Records passed: 62.5 % now, 87.5 % before" in text
        assert "Still taking traffic: version 1.0 and version 2.0." in text
        assert "because other traffic came" in text
        assert "still coming" in text
        parts = page.get_by_role("region", name="Traffic or behaviour")
        assert "fell" in parts.locator("tr", has_text="traffic").first.inner_text()
        assert "fell" not in parts.locator("tr", has_text="behaviour").inner_text()
        assert page.get_by_text("No tag, tool, model or length fell further").is_visible()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    with browser_page(shifted, width=PHONE_PX, height=844) as (page, seen):
        assert_everybody_can_read(page, "/compare")
        assert seen.problems == []


def test_a_run_is_uploaded_and_compared(compared: tuple[Service, str], tmp_path: Path) -> None:
    """Plain forms: choosing, uploading, removing."""
    _, url = compared
    run = results([scenario(name, {"right": name < "q3"}) for name in IDS])
    file = tmp_path / "tuesday.json"
    file.write_text(run.model_dump_json(), encoding="utf-8")
    with browser_page(url) as (page, seen):
        page.goto("/compare")
        page.get_by_label("Results").set_input_files(file)
        page.get_by_role("button", name="Upload").click()
        row = page.locator("#runs tr", has_text="tuesday")
        row.wait_for()
        assert page.locator("select[name=before]").input_value().startswith("run:")
        row.get_by_role("link", name="against the run before").click()
        panel = page.get_by_role("region", name="Decision")
        assert "no regression seen" in panel.inner_text()
        page.get_by_role("button", name="Remove the run tuesday").click()
        page.wait_for_url("**/compare#runs")
        page.locator("#runs tr", has_text="tuesday").wait_for(state="detached")
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_everybody_can_read_the_comparison(compared: tuple[Service, str]) -> None:
    service, url = compared
    after, before, *_ = (each["run_id"] for each in service.get("/api/v1/runs")["items"])
    with browser_page(url, width=PHONE_PX, height=844) as (page, seen):
        for address in (
            "/compare", "/compare?profile=answers&before=version:2.0&after=before:30d",
            f"/compare?before=run:{before}&after=run:{after}",
        ):  # fmt: skip
            assert_everybody_can_read(page, address)
        assert seen.problems == []


def test_keys_alone_compare_two_periods(compared: tuple[Service, str]) -> None:
    _, url = compared
    with browser_page(url) as (page, _):
        page.goto("/compare")
        page.locator("select[name=after]").focus()
        page.keyboard.type("last hour")
        for _ in range(2):
            page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url("**after=last%3A1h*")
        assert page.get_by_role("region", name="Decision").is_visible()


def test_a_comparison_without_records_says_so(start: Start, answers: Path) -> None:
    service = start()
    assert "Three ways bring something" in service.http.get("/compare").text
    service = start(profile=[str(answers)])
    assert "Nothing to compare yet" in service.http.get("/compare").text
    for address, status in (
        ("/compare?before=run:0&after=run:1", 200),
        ("/compare?profile=answers&before=x&after=last:1h", 400),
        ("/compare?profile=answers&before=last:1h&after=last:9h", 400),
    ):
        assert service.http.get(address).status_code == status, address


def test_what_was_chosen_stays_in_the_links(start: Start, answers: Path) -> None:
    """Swapped sides have each other's times; records that did not pass are those of the sides."""
    service = start(profile=[str(answers)])
    service.send({"uid": "u1", "profile": "answers", "context": {"answer": 1}})
    service.wait_for(1)
    at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    service.send({"uid": "u2", "profile": "answers", "context": {"answer": 1}})
    service.wait_for(2)
    chosen = {"profile": "answers", "before": "last:7d", "after": "last:24h"}
    address = f"/compare?{urlencode({**chosen, 'before_until': at, 'since': at})}"

    def link(address: str, name: str) -> dict[str, str]:
        text = html.unescape(service.http.get(address).text)
        return dict(parse_qsl(re.findall(rf'href="[^"]*\?([^"]*)">{name}<', text)[0]))

    assert link(f"{address}&environment=prod", "Swap sides") == {
        "profile": "answers", "before": "last:24h", "after": "last:7d", "environment": "prod",
        "before_since": at, "until": at,
    }  # fmt: skip
    assert link(address, "now")["since"] == at
    assert link(address, "before")["until"] == at


def test_an_upload_that_is_no_run_says_what_is_wrong(start: Start) -> None:
    service = start()
    for content, words in ((b"{", "json"), (b"\xff", "utf-8"), (b"{}", "no results of a replay")):
        answer = service.http.post("/runs", files={"file": ("x.json", content)})
        assert answer.status_code == 422
        assert words in answer.text.lower()
    assert service.http.post("/runs", data={"name": "x"}).status_code == 400
    refused = service.http.post(
        "/runs", files={"file": ("x.json", b"{}")}, headers={"Origin": "https://evil.example"}
    )
    assert refused.status_code == 403


def test_a_reader_without_the_scope_uploads_nothing(start: Start, tmp_path: Path) -> None:
    _, reader = TokenFile(tmp_path / "data").create("", [Scope.READ], "default")
    service = start()
    service.http.post("/login", data={"token": reader, "next": "/"})
    run = results([scenario("a", {"right": True})]).model_dump_json().encode()
    answer = service.http.post("/runs", files={"file": ("x.json", run)})
    assert answer.status_code == 403
    assert "needs the scope ingest" in answer.text


def test_hostile_texts_stay_text_in_a_comparison(start: Start, answers: Path) -> None:
    """As ids, versions, answers, names of tools and of runs."""
    service = start(profile=[str(answers)])
    plain = [text for text in HOSTILE if text.isprintable() and len(text.encode()) < 200]
    for version, said in (("1.0", 42), ("2.0", 41)):
        send_version(service, version, [said] * len(plain), ids=plain, tools=tuple(plain))
    service.wait_for(2 * len(plain))
    for at, text in enumerate(plain):
        run = results([scenario(text, {"right": bool(at % 2)}, answer=text)])
        push(service, run, text)
    with serve(service.collector.app) as url, browser_page(url) as (page, seen):
        ids = [each["run_id"] for each in service.get("/api/v1/runs")["items"]]
        for address in (
            "/compare?profile=answers",
            f"/compare?before=run:{ids[0]}&after=run:{ids[1]}",
        ):
            open_view(page, address)
            assert page.evaluate("window.violations") == []
            text = page.locator("#runs").inner_text()
            assert plain[0] in text
        assert page.locator("main script, main img, main iframe").count() == 0
        assert seen.problems == []


def test_a_line_is_as_wide_as_the_widest_interval() -> None:
    """Of 120 units; 0 is in the middle, and a rate without an interval has no line."""
    rates = [
        answer(ComparedRate, lower=lower, difference=difference, upper=upper)
        for lower, difference, upper in (
            (-0.24, -0.125, 0.01), (None, 0.9, None), (-1, 0, 1)
        )
    ]  # fmt: skip
    reach = reach_of(rates[:2])
    assert reach == 25
    assert bar(rates[0], reach) == pytest.approx((2.4, 30, 62.4))
    assert bar(rates[1], reach) is None
    assert reach_of([]) == reach_of(rates[2:]) == 100
