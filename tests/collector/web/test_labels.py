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
    """The outcome is hidden until it is requested; a letter in the notes is no key."""
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


def test_a_label_is_found_and_changed_with_its_note(labelled: tuple[Service, str]) -> None:
    """Blind in the queue, from a person's own list; not blind on the view of the record."""
    service, url = labelled
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&rater=eve")
        page.get_by_label("Notes").fill("why")
        page.keyboard.press("Enter")
        page.keyboard.press("g")
        page.get_by_role("link", name="1 labelled by eve").click()
        page.get_by_role("link", name="Change").click()
        page.get_by_text("You said good").wait_for()
        assert page.get_by_label("Notes").input_value() == "why"
        page.get_by_role("button", name="Bad").click()
        page.get_by_role("heading", name="Labels by eve").wait_for()
        (found,) = service.get("/api/v1/labels", rater="eve")["items"]
        assert (found["label"], found["notes"], found["is_blind"]) == (False, "why", True)
        page.locator("th[scope=row]").get_by_role("link").click()
        assert page.get_by_label("Your name").input_value() == "eve"
        assert page.get_by_label("Task").input_value() == "right"
        assert page.get_by_label("Notes").input_value() == "why"
        page.get_by_role("button", name="Good").click()
        page.locator("#labels").get_by_text("right, says eve").wait_for()
        page.get_by_role("link", name="Back to labelling right as eve").click()
        page.get_by_text("1 labelled by eve").wait_for()
        assert seen.problems == []
    (found,) = service.get("/api/v1/labels", rater="eve")["items"]
    assert (found["label"], found["notes"], found["is_blind"]) == (True, "why", False)


def test_a_note_is_stored_until_its_label(labelled: tuple[Service, str]) -> None:
    """Through a skip, and through the outcome; whoever has seen that does not label blind."""
    service, url = labelled
    with browser_page(url) as (page, seen):
        page.goto(f"{QUEUE}&rater=ned")
        page.get_by_label("Notes").fill("half")
        page.keyboard.press("Escape")
        page.keyboard.press("s")
        page.wait_for_url("**offset=1*")
        assert page.get_by_label("Notes").input_value() == ""
        page.get_by_role("link", name="from the first").click()
        page.wait_for_url(lambda at: "offset" not in at)
        page.get_by_role("link", name="Reveal outcome").click()
        page.get_by_role("region", name="Outcome").wait_for()
        page.get_by_role("link", name="Hide outcome").click()
        page.get_by_role("region", name="Outcome").wait_for(state="detached")
        page.get_by_text("Marked as not blind").wait_for()
        page.wait_for_function("document.querySelector('[name=notes]').value === 'half'")
        page.get_by_role("button", name="Good").click()
        page.get_by_text("1 labelled by ned").wait_for()
        page.get_by_role("button", name="Take back").click()
        page.get_by_text("0 labelled by ned").wait_for()
        page.wait_for_function("document.querySelector('[name=notes]').value === 'half'")
        page.get_by_text("Marked as not blind").wait_for()
        page.get_by_role("button", name="Good").click()
        page.get_by_text("1 labelled by ned").wait_for()
        assert seen.problems == []
    (found,) = service.get("/api/v1/labels", rater="ned")["items"]
    assert (found["notes"], found["is_blind"]) == ("half", False)


def test_the_browser_knows_the_name(labelled: tuple[Service, str]) -> None:
    """It is requested once, and suggested to others; a link with another name changes nothing."""
    _, url = labelled
    with browser_page(url) as (page, seen):
        page.goto(QUEUE)
        page.get_by_label("Your name").fill("Zoë Ö")
        page.get_by_role("button", name="Begin").click()
        page.get_by_text("Labelling as Zoë Ö").wait_for()
        page.keyboard.press("g")
        page.get_by_text("1 labelled by Zoë Ö").wait_for()
        page.goto(f"{QUEUE}&rater=ada")
        page.get_by_text("Labelling as ada").wait_for()
        page.goto("/labels")
        page.get_by_role("heading", name="Newest labels by Zoë Ö").wait_for()
        page.get_by_role("link", name="Label right").click()
        page.get_by_role("link", name="not you?").click()
        assert page.get_by_label("Your name").input_value() == ""
        assert page.locator("datalist option[value='Zoë Ö']").count() == 1
        assert seen.problems == []


def test_what_people_and_check_say_is_listed(start: Start, answers: Path) -> None:
    """Of four records that pass but the last, ada and bob differ on u1 and say bad of u2."""
    service = start(profile=[str(answers)])
    for number, answer in enumerate((42, 42, 42, 41)):
        service.send({"uid": f"u{number}", "profile": "answers", "context": {"answer": answer}})
    service.wait_for(4)
    for rater, letters in (("ada", "GGBB"), ("bob", "GBBB")):
        for number, letter in enumerate(letters):
            body = {
                "uid": f"u{number}", "task_id": "right", "label": letter == "G", "rater": rater,
                "is_blind": number > 0 or rater == "bob", "notes": f"{rater} on u{number}",
            }  # fmt: skip
            assert service.http.post("/api/v1/labels", json=body).is_success
    agreement = service.http.get("/labels/agreement?profile=answers&task=right").text
    for words in (
        "ada and bob agree on 3 of 4.", "The check agrees with most people on 2 of 3.",
        "These are too few to be sure.", "1 left out, as", "1 label was given by people who had",
        "The check and people differ on 1", "bob on u1",
    ):  # fmt: skip
        assert words in agreement, words
    assert "bob on u2" not in agreement
    listed = service.http.get("/labels/records?profile=answers&task=right&standing=bad_passed").text
    assert "1 record: most people say bad, the check passes." in listed
    assert "ada on u2" in listed
    assert "bob on u2" in listed
    mine = service.http.get("/labels/records?profile=answers&task=right&rater=ADA").text
    assert "Labels by ada" in mine
    assert "4 records." in mine
    assert "ada on u2" in mine
    assert "bob on u2" not in mine, "nobody's label is shown before one's own"
    none = service.http.get(f"{QUEUE}&rater=cy&order=disagrees").text
    assert "u2" in none
    none = service.http.get(f"{QUEUE}&rater=ada&order=disagrees").text
    assert "You are through" in none
    form = {"uid": "u0", "task": "", "rater": "ada", "label": "good"}
    assert service.http.post("/labels", data=form).status_code == 400


def test_another_order_has_more(start: Start, answers: Path) -> None:
    service = start(profile=[str(answers)])
    service.send({"uid": "u0", "profile": "answers", "context": {"answer": 42}})
    service.wait_for(1)
    shown = service.http.get(f"{QUEUE}&rater=ada&order=failed").text
    assert "No more in this order" in shown
    assert "1 wait at random" in shown


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
        page.get_by_text("“answer” is 42").wait_for()
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
        page.get_by_text(f"The label of {first} is taken back.").wait_for()
        assert page.get_by_text("Your last").count() == 0
        assert page.get_by_role("region", name="Outcome").count() == 0
        page.keyboard.press("g")
        page.get_by_text("1 labelled by kay").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    found = service.get("/api/v1/labels", rater="kay")["items"]
    assert [(each["uid"], each["label"]) for each in found] == [(first, True)]


@pytest.mark.parametrize(
    ("link", "name"), [("as JSON lines", "labels.jsonl"), ("as CSV", "labels.csv")]
)
def test_labels_are_downloaded_as_a_calibration_reads_them(
    labelled: tuple[Service, str], tmp_path: Path, link: str, name: str
) -> None:
    """In CSV a text that a spreadsheet would take for a formula is quoted."""
    service, url = labelled
    body = {"uid": "u0", "task_id": "right", "label": True, "rater": "bob", "notes": "=1+1"}
    assert service.http.post("/api/v1/labels", json=body).is_success
    with browser_page(url) as (page, _):
        page.goto("/labels/agreement?profile=answers&task=right")
        with page.expect_download() as started:
            page.get_by_role("link", name=link).click()
        started.value.save_as(tmp_path / started.value.suggested_filename)
    read = read_labels(tmp_path / name)
    assert read.problems == ()
    found = {(each.uid, each.label, each.rater): each for _, each in read.labels}
    assert found["u0", True, "bob"].context == {"answer": 42}
    assert found["u0", True, "bob"].notes == {"labels.jsonl": "=1+1", "labels.csv": "'=1+1"}[name]


def test_everybody_can_read_the_views_of_labels(labelled: tuple[Service, str]) -> None:
    _, url = labelled
    with browser_page(url, width=PHONE_PX, height=844) as (page, seen):
        for address in (
            "/labels", QUEUE, f"{QUEUE}&rater=zoe", f"{QUEUE}&rater=zoe&reveal=yes&order=failed",
            f"{QUEUE}&rater=zoe&order=disagrees&offset=9",
            "/labels/agreement?profile=answers&task=right",
            "/labels/records?profile=answers&task=right",
            "/labels/records?profile=answers&task=right&rater=bob",
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
