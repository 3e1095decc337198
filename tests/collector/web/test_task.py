"""The view of a task and its alert: the plot, the evidence, and the buttons."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.collector.api.test_drift import fallen
from tests.collector.conftest import Service
from tests.collector.web.test_views import view
from tests.support.browser import browser_page
from tests.support.served import serve

TASK = "/task?profile=answers&task=right&range=1h"
Fell = tuple[Service, str]


@pytest.fixture(scope="module")
def fell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fell]:
    """A collector whose task `right` fell, and its address."""
    folder = tmp_path_factory.mktemp("fell")

    def start(**flags: Any) -> Service:
        return Service(folder, **flags)

    service = fallen(start, folder)
    with serve(service.collector.app) as url:
        yield service, url
    service.stop()


def test_a_fall_is_drawn_with_its_evidence(fell: Fell) -> None:
    _, url = fell
    with browser_page(url) as (page, seen):
        page.goto(TASK)
        page.locator("figure canvas").wait_for()
        assert page.locator("figure > svg").count() == 0, "uPlot stands in its place"
        assert page.get_by_text("a healthy agent fails at most").first.is_visible()
        assert page.get_by_text("behaves otherwise with the same traffic").is_visible()
        over = page.locator(".u-over")
        box = over.bounding_box()
        assert box
        over.hover(position={"x": box["width"] - 5, "y": 20})
        page.locator(".u-legend .u-value", has_text="%").first.wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_without_a_script_the_plot_is_an_svg(fell: Fell) -> None:
    _, url = fell
    with browser_page(url, script=False) as (page, _):
        page.goto(TASK)
        assert page.locator("figure svg .healthy").count() == 1
        assert page.locator("figure svg .mark.alert").count() == 1
        assert page.locator("figure svg circle").count() >= 1


def test_an_alert_is_silenced_by_its_button(fell: Fell) -> None:
    """A browser names the origin of a form; the collector takes its own only."""
    _, url = fell
    with browser_page(url) as (page, seen):
        page.goto("/alerts")
        page.get_by_role("link", name=re.compile("task 'right'")).click()
        page.get_by_role("button", name="Silence").click()
        page.get_by_text("silenced", exact=True).first.wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_an_alert_leads_to_its_records_and_is_acted_upon(fell: Fell) -> None:
    """The last test here: it resolves the alert."""
    service, _ = fell
    overview = view(service, "/")
    found = re.search(r'href="(/alerts/[^"]+)">([^<]*right[^<]*)</a>', overview)
    assert found
    assert "fails more" in found[2]
    assert re.search(rf'>regressed</span>.*?<a href="{found[1]}">alert<', overview, re.S)
    text = view(service, found[1])
    for wanted in ("a healthy agent fails at most", 'href="/records/u', "firing"):
        assert wanted in text, wanted
    assert "behaves otherwise with the same traffic" in text
    assert "more records fail: " in text  # it fell together with the task
    refused = service.http.post(
        f"{found[1]}/silence", data={"seconds": "60"}, headers={"Origin": "https://evil.example"}
    )
    assert refused.status_code == 403
    assert service.http.post(f"{found[1]}/silence", data={"seconds": "x"}).status_code == 400
    assert service.http.post(f"{found[1]}/destroy").status_code == 404
    said = {"note": "looking", "name": "Ada"}
    assert (
        "by <strong>Ada</strong>: looking"
        in service.http.post(f"{found[1]}/acknowledge", data=said).text
    )
    said = {"seconds": "60", "note": "later", "name": "Grace"}
    answer = service.http.post(f"{found[1]}/silence", data=said)
    assert answer.status_code == 200  # after the redirect
    for wanted in ("by <strong>Ada</strong>: looking", "by <strong>Grace</strong>: later"):
        assert wanted in answer.text
    states = {each["state"] for each in service.get("/api/v1/alerts")["drift"]}
    assert states == {"silenced"}, "task and record are one alert"
    answer = service.http.post(f"{found[1]}/resolve", data={"accept": "yes"})
    assert "resolved" in answer.text
    assert "Acknowledge" not in answer.text
