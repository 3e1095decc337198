"""Labelling in a real browser: blind, by buttons and by the keys on them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scouter.agent.calibration.labels import read_labels
from tests.collector.conftest import Service, Start, save_answers
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.served import serve

QUEUE = "/labels/queue?profile=answers&task=right"


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Four records, of which two fail."""
    folder = tmp_path_factory.mktemp("labels")
    service = Service(folder, profile=[str(save_answers(folder))])
    for number, answer in enumerate((42, 41, 42, 41)):
        service.send({"uid": f"u{number}", "profile": "answers", "context": {"answer": answer}})
    service.wait_for(4)
    with serve(service.collector.app) as url:
        yield service, url
    service.stop()


def test_a_person_labels_by_keys_and_by_buttons(labelled: tuple[Service, str]) -> None:
    """The outcome is hidden until it is asked for; a letter in the notes is no key."""
    service, url = labelled
    with browser_page(url) as (page, seen):
        page.goto("/labels")
        page.get_by_role("link", name="Label right").click()
        page.get_by_label("Your name").fill("ada")
        page.get_by_role("button", name="Begin").click()
        heading = page.locator("article h2")
        first = heading.inner_text()
        assert page.locator("[aria-label=Outcome]").count() == 0
        page.get_by_label("Notes").fill("good bad skip")
        assert heading.inner_text() == first
        page.get_by_role("button", name="Good G").click()
        page.wait_for_function(
            "t => document.querySelector('article h2').textContent !== t", arg=first
        )
        second = heading.inner_text()
        page.keyboard.press("r")
        page.get_by_role("region", name="Outcome").wait_for()
        assert "'answer' is" in page.get_by_role("region", name="Outcome").inner_text() or (
            "passed" in page.get_by_role("region", name="Outcome").inner_text()
        )
        page.keyboard.press("h")
        page.get_by_role("region", name="Outcome").wait_for(state="detached")
        page.keyboard.press("s")
        page.wait_for_url("**offset=1*")
        assert heading.inner_text() != second
        page.goto(f"{QUEUE}&rater=ada")
        page.keyboard.press("b")
        page.get_by_text("2 labelled by ada, 2 wait").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    found = service.get("/api/v1/labels")["items"]
    assert [(each["uid"], each["label"], each["notes"]) for each in found] == [
        (second, False, ""), (first, True, "good bad skip"),
    ]  # fmt: skip


def test_the_last_label_can_be_changed(labelled: tuple[Service, str]) -> None:
    service, url = labelled
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&rater=eve")
        page.keyboard.press("g")
        page.get_by_text("Your last label").get_by_role("link", name="change it").click()
        assert page.get_by_label("Your name").input_value() == "eve"
        assert page.get_by_label("Task").input_value() == "right"
        page.get_by_role("button", name="Bad").click()
        page.locator("#labels").get_by_text("says eve").wait_for()
        assert page.get_by_label("Task").input_value() == "right"
        assert seen.problems == []
    found = service.get("/api/v1/labels")["items"]
    assert [each["label"] for each in found if each["rater"] == "eve"] == [False]


def test_a_wrong_key_is_taken_back_by_a_key(labelled: tuple[Service, str]) -> None:
    """By the keyboard alone, from the list of tasks on; no outcome is seen on the way."""
    service, url = labelled
    with browser_page(url) as (page, seen):
        page.goto("/labels")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # to the content
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")  # behind the table, which scrolls
        page.keyboard.press("Enter")
        page.get_by_label("Your name").wait_for()
        page.keyboard.type("kay")
        page.keyboard.press("Enter")
        heading = page.locator("article h2")
        first = heading.inner_text()
        page.keyboard.press("b")
        page.get_by_text("1 labelled by kay").wait_for()
        assert heading.inner_text() != first
        page.keyboard.press("u")
        page.get_by_text("0 labelled by kay").wait_for()
        assert heading.inner_text() == first
        assert page.get_by_text("Your last label").count() == 0
        assert page.get_by_role("region", name="Outcome").count() == 0
        page.keyboard.press("g")
        page.get_by_text("1 labelled by kay").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    found = service.get("/api/v1/labels", rater="kay")["items"]
    assert [(each["uid"], each["label"]) for each in found] == [(first, True)]


def test_labels_are_downloaded_as_a_calibration_reads_them(
    labelled: tuple[Service, str], tmp_path: Path
) -> None:
    service, url = labelled
    body = {"uid": "u0", "task_id": "right", "label": True, "rater": "bob"}
    assert service.http.post("/api/v1/labels", json=body).is_success
    with browser_page(url) as (page, _):
        page.goto("/labels/agreement?profile=answers&task=right")
        with page.expect_download() as started:
            page.get_by_role("link", name="Download the labels").click()
        started.value.save_as(tmp_path / "labels.jsonl")
    read = read_labels(tmp_path / "labels.jsonl")
    assert read.problems == ()
    assert ("u0", True, "bob") in {(each.uid, each.label, each.rater) for _, each in read.labels}


def test_everybody_can_read_the_views_of_labels(labelled: tuple[Service, str]) -> None:
    _, url = labelled
    with browser_page(url, width=PHONE_PX, height=844) as (page, seen):
        for address in (
            "/labels", QUEUE, f"{QUEUE}&rater=zoe", f"{QUEUE}&rater=zoe&reveal=yes&order=failed",
            f"{QUEUE}&rater=zoe&order=disagrees&offset=9",
            "/labels/agreement?profile=answers&task=right",
        ):  # fmt: skip
            assert_everybody_can_read(page, address)
        assert seen.problems == []


def test_labels_of_nothing_say_what_to_do(start: Start, answers: Path) -> None:
    assert "Nothing to label yet" in start().http.get("/labels").text
    service = start(profile=[str(answers)])
    assert "Nobody has labelled anything" in service.http.get("/labels").text
    assert "Nothing waits" in service.http.get(f"{QUEUE}&rater=ada").text
    agreement = service.http.get("/labels/agreement?profile=answers&task=right")
    assert "No labels yet" in agreement.text
    assert service.http.get("/labels/queue?profile=answers&task=x&rater=a").status_code == 404
    assert service.http.post("/labels", data={"label": "maybe"}).status_code == 400
    refused = service.http.post(
        "/labels", data={"label": "good"}, headers={"Origin": "https://evil.example"}
    )
    assert refused.status_code == 403


def test_people_beyond_the_pairs_are_counted(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)])
    service.send({"uid": "u0", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1)
    for n in range(22):
        body = {"uid": "u0", "task_id": "right", "label": True, "rater": f"p{n}"}
        assert service.http.post("/api/v1/labels", json=body).is_success
    shown = service.http.get("/labels/agreement?profile=answers&task=right").text
    assert "2 more labelled and are in no pair" in shown
