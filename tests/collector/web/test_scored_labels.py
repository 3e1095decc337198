"""Scores in a real browser: by the keys on the buttons, and in a field where the scale is wide."""

from collections.abc import Iterator

import pytest

from tests.collector.conftest import Service
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.scored_desk import scored_desk
from tests.support.served import serve

QUEUE = "/labels/queue?profile=desk"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Four records with a judge's scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOUSE_KEY", "sk-house")
        with (
            scored_desk(tmp_path_factory.mktemp("desk"), (1, 5, 3, 4)) as service,
            serve(service.collector.app) as url,
        ):
            yield service, url


def scores(service: Service, task: str, rater: str) -> list[tuple[float | None, bool, str]]:
    """Score, label and notes, the first label first."""
    found = service.get("/api/v1/labels", task_id=task, rater=rater)["items"]
    return [(each["score"], each["label"], each["notes"]) for each in found[::-1]]


def test_a_person_scores_by_keys_alone(desk: tuple[Service, str]) -> None:
    """Digits in the notes are no keys, and Enter there decides nothing."""
    service, url = desk
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&task=tone&rater=ada")
        assert page.get_by_role("group", name="Score").get_by_role("button").all_inner_texts() == [
            f"{n} {n}" for n in range(1, 6)
        ]
        assert page.get_by_role("button", name="Good").count() == 0
        first = page.locator("article h2").inner_text()
        page.keyboard.press("n")
        page.keyboard.type("5 of 5, gs")
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        assert page.locator("article h2").inner_text() == first
        page.keyboard.press("2")
        page.get_by_text("1 labelled by ada, 3 wait").wait_for()
        page.keyboard.press("4")
        page.get_by_text("2 labelled by ada, 2 wait").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    assert scores(service, "tone", "ada") == [(2, False, "5 of 5, gs"), (4, True, "")]


def test_a_wide_scale_has_a_field(desk: tuple[Service, str]) -> None:
    service, url = desk
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&task=wide&rater=ada")
        page.keyboard.press("e")
        page.keyboard.type("140")
        page.keyboard.press("Enter")  # the browser says that it is too much
        page.keyboard.press("Control+a")
        page.keyboard.type("62.5")
        page.keyboard.press("Enter")
        page.get_by_text("1 labelled by ada, 3 wait").wait_for()
        assert seen.problems == []
    assert scores(service, "wide", "ada") == [(62.5, True, "")]


def test_a_score_is_changed_on_the_view_of_a_record(desk: tuple[Service, str]) -> None:
    service, url = desk
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&task=tone&rater=eve")
        page.keyboard.press("1")
        page.locator(".last").get_by_text("1", exact=True).wait_for()
        uid = page.locator("button[name=undo]").get_attribute("value")
        page.goto(f"/records/{uid}?rater=eve&task=tone")
        page.locator("#labels").get_by_text("1 tone, says eve").wait_for()
        page.get_by_label("Notes").fill("better")
        page.get_by_label("Notes").press("Enter")
        page.get_by_label("Score").fill("5")
        page.get_by_role("button", name="Give the score").click()
        page.locator("#labels").get_by_text("5 tone, says eve").wait_for()
        assert seen.problems == []
    assert scores(service, "tone", "eve") == [(5, True, "better")]


@pytest.mark.parametrize("said", ["", "nan", "inf", "many", "9"])
def test_a_form_without_a_score_is_refused(desk: tuple[Service, str], said: str) -> None:
    service, _ = desk
    form = {"uid": "u0", "task": "tone", "rater": "zoe", "score": said}
    assert service.http.post("/labels", data=form).status_code == 400
    assert scores(service, "tone", "zoe") == []


def test_everybody_can_read_the_views_of_scores(desk: tuple[Service, str]) -> None:
    service, url = desk
    for rater, score in (("ann", 3), ("bo", 4)):
        body = {"uid": "u2", "task_id": "tone", "score": score, "rater": rater}
        assert service.http.post("/api/v1/labels", json=body).is_success
    with browser_page(url, width=PHONE_PX, height=844) as (page, seen):
        for address in (
            "/labels", f"{QUEUE}&task=tone&rater=zoe",
            f"{QUEUE}&task=wide&rater=zoe&reveal=yes", "/records/u2",
            "/labels/agreement?profile=desk&task=tone",
        ):  # fmt: skip
            assert_everybody_can_read(page, address)
        assert "Krippendorff's alpha of all people" in page.locator("main").inner_text()
        assert seen.problems == []
