"""The view of a trace in a real browser: long ones, its keys, its links, values of any size."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from scouter.model.otlp import encode_request
from scouter.model.span import StatusCode
from tests.collector.conftest import Service, save_answers
from tests.collector.web.conftest import PROTOBUF
from tests.contracts.store_data import span
from tests.support.browser import browser_page
from tests.support.page_story import long_trace
from tests.support.served import serve

SPANS = 12_000
FEWER = 2_500
"""More than the page holds at a time, or shows without a script."""
LONG, MIDDLE, SMALL = "10" * 16, "15" * 16, "20" * 16
TEXT = "word " * 800_000  # four million characters: about what a receiver keeps of one value
ASKED = json.dumps([
    {"role": "user", "parts": [{"type": "text", "content": "Tea?"}]},
    {"role": "assistant", "parts": [
        {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "tea"}}]},
    {"role": "user", "parts": [
        {"type": "tool_call_response", "id": "c1", "response": "green"}]},
])  # fmt: skip
OPEN_MS = 6_000
"""On a busy machine; `tests/bench/page.py` has 1.5 s for 30,000 spans on a quiet one."""
_FIRST_PAINT_MS = "performance.getEntriesByName('first-contentful-paint')[0].startTime"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A collector with traces of 12,000 and 2,500 spans, and a small one with a value of 4 MB."""
    folder = tmp_path_factory.mktemp("trace")
    service = Service(folder, profile=[str(save_answers(folder))])
    try:
        spans = [*long_trace(SPANS, LONG, 10**18), *long_trace(FEWER, MIDDLE, 10**18)]
        spans += [
            span(1, trace_id=SMALL, name="invoke_agent desk", start_ns=10**9, end_ns=5 * 10**9,
                 attributes={"gen_ai.operation.name": "invoke_agent"}),
            span(2, trace_id=SMALL, name="execute_tool search", parent_span_id=f"{1:016x}",
                 start_ns=2 * 10**9, end_ns=3 * 10**9, status=StatusCode.ERROR,
                 attributes={"gen_ai.operation.name": "execute_tool", "big": TEXT, "place/x": "y",
                             "gen_ai.tool.name": "search",
                             "gen_ai.tool.call.arguments": '{"q": "tea"}'}),
            span(3, trace_id=SMALL, name="chat m", parent_span_id=f"{1:016x}",
                 start_ns=4 * 10**9, end_ns=5 * 10**9,
                 attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": ASKED,
                             "gen_ai.output.messages":
                             '[{"role": "assistant", "parts": [{"type": "text", '
                             '"content": "Tea it is."}]}]'}),
        ]  # fmt: skip
        for begin in range(0, len(spans), 5_000):
            data = encode_request(spans[begin : begin + 5_000]).SerializeToString()
            answer = service.http.post("/v1/traces", content=data, headers=PROTOBUF)
            assert answer.is_success, answer.text
        with serve(service.collector.app) as address:
            yield address
    finally:
        service.stop()


def ready(page: Page, address: str) -> None:
    """Open a trace and wait until its script has all rows."""
    page.goto(address)
    page.locator(".waterfall[data-ready]").wait_for()


@pytest.mark.pace
def test_12_000_spans_open_at_once_and_scroll(url: str) -> None:
    """The first rows are there in time; the document never holds more than what is in sight."""
    with browser_page(url) as (page, seen):
        for _ in range(2):  # the first time everything is read from disk
            ready(page, f"/traces/{LONG}")
            page.locator("table.agents").wait_for()
        assert page.evaluate(_FIRST_PAINT_MS) < OPEN_MS
        assert page.get_by_role("treeitem").count() < 80
        worst_ms = page.evaluate("""async () => {
          const list = document.querySelector(".wf-scroll");
          let worst = 0, last = performance.now();
          for (let step = 0; step < 60; step++) {
            list.scrollTop += 5_000;
            await new Promise(requestAnimationFrame);
            worst = Math.max(worst, performance.now() - last);
            last = performance.now();
          }
          return worst;
        }""")
        assert worst_ms < 1_000, "a frame of a scroll through 300,000 pixels"
        assert page.get_by_role("treeitem").count() < 80
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_rows_collapse_and_marks_are_found(url: str) -> None:
    with browser_page(url) as (page, seen):
        ready(page, f"/traces/{MIDDLE}")
        page.get_by_role("button", name="Collapse all").click()
        assert page.locator(".wf-row:visible").count() == 1
        page.get_by_role("button", name="Next mark").click()
        current = page.locator(".wf-row.current")
        assert "bad" in (current.get_attribute("class") or "")
        assert current.get_attribute("aria-level") == "3", "what is above it was opened"
        page.get_by_role("button", name="Expand all").click()
        height = page.evaluate("document.querySelector('.wf-inner').offsetHeight")
        assert height == 26 * FEWER
        assert seen.problems == []


def test_keys_of_buttons_work_without_focus(url: str) -> None:
    with browser_page(url) as (page, seen):
        ready(page, f"/traces/{MIDDLE}")
        page.keyboard.press("c")
        assert page.locator(".wf-row:visible").count() == 1
        page.get_by_role("tree").focus()
        page.keyboard.press("n")
        current = page.locator(".wf-row.current")
        assert current.get_attribute("aria-level") == "3"
        first = current.get_attribute("data-row")
        page.get_by_role("tree").blur()
        page.keyboard.press("n")
        assert current.get_attribute("data-row") != first
        assert seen.problems == []


def test_keys_move_open_and_close(url: str) -> None:
    with browser_page(url) as (page, seen):
        ready(page, f"/traces/{SMALL}")
        page.get_by_role("tree").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.locator("#detail h2", has_text="execute_tool search").wait_for()
        assert page.url.endswith(f"?span={2:016x}")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        assert page.locator(".wf-row:visible").count() == 1
        page.keyboard.press("ArrowRight")
        assert page.locator(".wf-row:visible").count() == 3
        page.keyboard.press("n")
        active = page.get_by_role("tree").get_attribute("aria-activedescendant")
        assert "execute_tool search" in page.locator(f"#{active}").inner_text()
        assert seen.problems == []


def test_a_value_of_4_mb_shows_its_beginning(url: str) -> None:
    with browser_page(url) as (page, seen):
        ready(page, f"/traces/{SMALL}")
        page.get_by_role("treeitem", name=re.compile("execute_tool search")).click()
        page.get_by_text("more attributes").click()
        note = page.get_by_text("of 4,000,000 characters")
        note.wait_for()
        assert page.evaluate("document.body.textContent.length") < 20_000
        with page.expect_download() as found:
            page.get_by_role("link", name="Download all").click()
        assert Path(found.value.path()).stat().st_size == len(TEXT)
        assert seen.problems == []


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (f"?span={2:016x}#at/attributes/place~1x", "place/x"),
        (f"?span={3:016x}#at/output_messages/0", "Tea it is."),
    ],
)
def test_links_lead_to_a_value_and_a_message(url: str, link: str, words: str) -> None:
    with browser_page(url) as (page, _):
        ready(page, f"/traces/{SMALL}{link}")
        target = page.locator(":target")
        assert words in target.inner_text()
        expect(target).to_be_in_viewport()
        assert page.locator(".wf-row.selected").count() == 1


def test_messages_stand_as_they_were_said(url: str) -> None:
    """The question comes before the answer; a result tells its tool, which the call names."""
    with browser_page(url, script=False) as (page, _):
        page.goto(f"/traces/{SMALL}?span={3:016x}")
        said = [" ".join(each.split()) for each in page.locator(".turn").all_inner_texts()]
        assert said == [
            "user # Tea?",
            "assistant # calls search q tea",
            "tool result sent as user # result of search green",
            "assistant # Tea it is.",
        ]


def test_an_older_link_opens_its_span(url: str) -> None:
    with browser_page(url) as (page, _):
        ready(page, f"/traces/{SMALL}#s{3:016x}")
        page.locator("#detail h2", has_text="chat m").wait_for()


@pytest.mark.parametrize("script", [True, False])
def test_a_link_opens_with_its_span_in_sight(url: str, script: bool) -> None:
    with browser_page(url, height=800, script=script) as (page, seen):
        page.goto(f"/traces/{MIDDLE}?span={1_995:016x}")
        if script:
            page.locator(".waterfall[data-ready]").wait_for()
        expect(page.locator(".selected")).to_be_in_viewport()
        assert seen.problems == []


def test_a_link_to_a_span_is_copied(url: str) -> None:
    with browser_page(url) as (page, seen):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        ready(page, f"/traces/{SMALL}?span={3:016x}&show=model")
        page.get_by_role("link", name="Copy link").click()
        page.get_by_text("Copied.").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert copied == f"{url}/traces/{SMALL}?span={3:016x}"
        assert seen.problems == []


def test_a_filter_leaves_what_it_selects(url: str) -> None:
    """Spans 997 and 1,994 have errors; two workers and the lead are above them."""
    with browser_page(url) as (page, _):
        ready(page, f"/traces/{MIDDLE}")
        page.get_by_role("treeitem").nth(2).click()
        page.locator("#detail h2").wait_for()
        page.get_by_label("Filter of spans").fill('{"WithStatus": {"status": "Error"}}')
        was = page.evaluate("scrollY")
        page.get_by_role("button", name="Filter").click()
        page.get_by_text("2 spans match.").wait_for()
        assert page.locator(".wf-row:visible").count() == 5
        assert page.locator(".wf-row.above:visible").count() == 3
        assert page.evaluate("scrollY") == was
        assert "span=" in page.url, "the chosen span stays"
        page.get_by_role("link", name="All", exact=True).click()
        assert page.locator(".wf-row:visible").count() > 20
        page.get_by_label("Filter of spans").fill("{")
        page.get_by_role("button", name="Filter").click()
        assert "filter:" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("script", [True, False])
def test_a_preset_leaves_what_it_names(url: str, script: bool) -> None:
    with browser_page(url, script=script) as (page, _):
        page.goto(f"/traces/{SMALL}?span={3:016x}")
        if script:
            page.locator(".waterfall[data-ready]").wait_for()
        rows = page.get_by_role("treeitem") if script else page.locator("tbody tr[id]")
        for label, names in (
            ("Model calls 1", ["invoke_agent desk", "chat m"]),
            ("Tool calls 1", ["invoke_agent desk", "execute_tool search"]),
            ("Errors 1", ["invoke_agent desk", "execute_tool search"]),
            ("All", ["invoke_agent desk", "execute_tool search", "chat m"]),
        ):
            page.get_by_role("link", name=label, exact=True).click()
            for at, name in enumerate(names):
                expect(rows.filter(visible=True).nth(at)).to_contain_text(name)
            expect(rows.filter(visible=True)).to_have_count(len(names))
            assert page.locator("#detail h2").inner_text() == "chat m"
        page.get_by_role("link", name="Slowest").click()  # 4 s, of them 2 s in other spans
        expect(page.locator("#detail h2")).to_have_text("invoke_agent desk")


def test_buttons_say_what_they_cannot_do(url: str) -> None:
    with browser_page(url) as (page, _):
        ready(page, f"/traces/{SMALL}")
        page.keyboard.press("w")
        page.get_by_text("No wait to shorten").wait_for()
        page.keyboard.press("f")
        page.get_by_text("Time from 1.0 s to 4.0 s.").wait_for()


def test_a_trace_is_readable_without_a_script(url: str) -> None:
    with browser_page(url, script=False) as (page, _):
        page.goto(f"/traces/{SMALL}")
        assert page.locator("table.rows tbody tr").count() == 3
        page.get_by_role("link", name="execute_tool search").click()
        page.locator("#detail h2", has_text="execute_tool search").wait_for()
        page.goto(f"/traces/{MIDDLE}")
        assert page.locator("table.rows tbody tr").count() == 2_000
        page.get_by_role("link", name="Show alone").click()
        assert page.get_by_role("rowheader", name="worker-0").count() == 1
