"""The page in a real browser."""

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from tests.collector.api.test_drift import fallen
from tests.collector.conftest import Start
from tests.collector.web.conftest import HOSTILE, Shown, trace_of
from tests.support.browser import browser_page
from tests.support.served import serve


def test_no_text_of_an_agent_does_anything(shown: Shown) -> None:
    """No dialog, no request to another site, no error, nothing that the policy had to stop."""
    with browser_page(shown.url) as (page, seen):
        for address in shown.addresses:
            page.goto(address)
            if "/traces/" in address:
                page.locator(".waterfall[data-ready]").wait_for()
            for each in page.locator("details").all():
                each.evaluate("each => each.open = true")
            assert page.evaluate("window.violations") == [], address
        assert ["404" in each for each in seen.problems] == [True]  # /records/none is not there


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_views_are_accessible(shown: Shown, dark: bool) -> None:
    plain = [f"/records/u{0}", f"/traces/{trace_of(0)}", f"/traces/{trace_of(0)}?span={1:016x}"]
    with browser_page(shown.url, dark=dark) as (page, _):
        for address in [*shown.addresses[:13], *plain]:
            page.goto(address)
            if "/traces/" in address:
                page.locator(".waterfall[data-ready]").wait_for()
            for each in page.locator("details").all():
                each.evaluate("each => each.open = true")
            found = Axe().run(page)
            assert found.violations_count == 0, (address, found.generate_report())


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


def test_nothing_scrolls_sideways_on_a_phone(shown: Shown) -> None:
    with browser_page(shown.url, width=390, height=844) as (page, _):
        for address in [*shown.addresses[:13], f"/records/u{1}", f"/traces/{trace_of(1)}"]:
            page.goto(address)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= 390, address


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


def test_an_alert_is_silenced_by_its_button(start: Start, tmp_path: Path) -> None:
    """A browser names the origin of a form; the collector takes its own only."""
    service = fallen(start, tmp_path)
    with serve(service.collector.app) as url, browser_page(url) as (page, seen):
        page.goto("/alerts")
        page.get_by_role("link", name=re.compile("task 'right'")).click()
        page.get_by_role("button", name="Silence").click()
        page.get_by_text("silenced", exact=True).first.wait_for()
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
