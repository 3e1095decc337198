"""The page in a real browser."""

from pathlib import Path

from playwright.sync_api import Page

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from tests.collector.conftest import Start
from tests.collector.web.conftest import HOSTILE, Shown, trace_of
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.served import serve


def test_everybody_can_read_the_views(shown: Shown) -> None:
    looked_at = ["/records/u1", f"/traces/{trace_of(1)}?span={1:016x}"]
    with browser_page(shown.url, width=PHONE_PX, height=844) as (page, _):
        for address in [*shown.addresses[:19], *looked_at]:
            assert_everybody_can_read(page, address)


def test_counts_come_after_the_list_or_by_a_link(shown: Shown) -> None:
    with browser_page(shown.url) as (page, seen):
        page.goto("/evaluations")
        counts = page.get_by_role("complementary", name="Counts")
        counts.get_by_text("Outcome of the record").wait_for()
        counts.get_by_role("link", name="passed").click()
        page.wait_for_url("**/evaluations?outcome=passed")
        assert page.locator("tbody tr").count() == 1
        page.goto("/traces?min_duration_ms=x")
        assert seen.problems, "the refusal is a view of its own"
        assert page.locator("header").count() == 1


def test_keys_alone_lead_from_the_overview_to_a_span(shown: Shown) -> None:
    with browser_page(shown.url) as (page, _):
        page.goto("/")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        _tab_to(page, "right")
        page.keyboard.press("Enter")
        page.wait_for_url("**/task?*")
        _tab_to(page, "trace")
        page.keyboard.press("Enter")
        page.wait_for_url("**/traces/*")
        page.locator(".waterfall[data-ready]").wait_for()
        page.get_by_role("tree").focus()
        page.keyboard.press("Enter")
        page.locator("#detail h2").wait_for()


def test_new_results_appear_without_a_reload(shown: Shown) -> None:
    """A focus that the user has moved stays."""
    with browser_page(shown.url) as (page, seen):
        page.clock.install()
        page.goto("/")
        link = page.get_by_role("link", name="right", exact=True)
        link.focus()
        row = page.locator("tr", has=link)
        count = int(row.locator("td").nth(2).inner_text())
        assert count == len(HOSTILE) + 2
        shown.service.send({"uid": "new", "profile": "answers", "context": {"answer": 42}})
        shown.service.wait_for(len(HOSTILE) + 3)
        with page.expect_response(lambda answer: answer.request.resource_type in ("fetch", "xhr")):
            page.clock.run_for(10_500)
        page.wait_for_function(
            "n => [...document.querySelectorAll('td')].some(e => e.textContent === n)",
            arg=str(count + 1),
        )
        assert page.evaluate("document.activeElement.textContent") == "right"
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_a_reader_signs_in_and_out(start: Start, tmp_path: Path) -> None:
    _, token = TokenFile(tmp_path / "data").create("", [Scope.READ], "default")
    service = start()
    with serve(service.collector.app) as url, browser_page(url) as (page, seen):
        page.goto("/health")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Health").wait_for()
        page.get_by_role("button", name="Sign out").click()
        page.get_by_label("Token").wait_for()
        assert seen.problems == []


def _tab_to(page: Page, text: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == text:
            return
    raise AssertionError(f"no {text!r} within 60 steps")
