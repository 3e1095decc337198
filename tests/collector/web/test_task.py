"""The view of a task in a real browser: its plot, its evidence, and the path to a guilty span."""

from pathlib import Path

from tests.collector.api.test_drift import fallen
from tests.collector.conftest import Start
from tests.support.browser import browser_page
from tests.support.served import serve

TASK = "/task?profile=answers&task=right&range=1h"


def test_a_fall_is_drawn_with_its_evidence(start: Start, tmp_path: Path) -> None:
    service = fallen(start, tmp_path)
    with serve(service.collector.app) as url, browser_page(url) as (page, seen):
        page.goto(TASK)
        page.locator("figure canvas").wait_for()
        assert page.locator("figure > svg").count() == 0, "uPlot stands in its place"
        assert page.get_by_text("healthy is at most").is_visible()
        assert page.get_by_role("rowheader", name="tag all=x").is_visible()
        over = page.locator(".u-over")
        box = over.bounding_box()
        assert box
        over.hover(position={"x": box["width"] - 5, "y": 20})
        page.locator(".u-legend .u-value", has_text="%").first.wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_without_a_script_the_plot_is_an_svg(start: Start, tmp_path: Path) -> None:
    service = fallen(start, tmp_path)
    with serve(service.collector.app) as url, browser_page(url, script=False) as (page, _):
        page.goto(TASK)
        assert page.locator("figure svg .healthy").count() == 1
        assert page.locator("figure svg .mark.alert").count() == 1
        assert page.locator("figure svg circle").count() >= 1
