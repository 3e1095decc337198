"""The record: its calls, citations, calibration and buttons, in a real browser."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collector.store.commit import Commit
from collector.store.rows import TaskRow
from collector.web.checks import Marker, citations_of, within
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.scenario import EvalScenarios
from tests.collector.conftest import Service, Start
from tests.collector.web.conftest import HOSTILE
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.judged_desk import ANSWER, judged_desk, profile
from tests.support.served import serve

RECORD = "/records/r%2F1"


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOUSE_KEY", "of-a-test")
        with (
            judged_desk(tmp_path_factory.mktemp("desk")) as service,
            serve(service.collector.app) as url,
        ):
            yield service, url


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ({"reason": 'it says "nine weeks at most" twice'}, ["nine weeks at most"]),
        ({"reason": "“curly one” and «guillemets»"}, ["curly one", "guillemets"]),
        ({"citations": ["nine weeks", "a"]}, ["nine weeks"]),
        ({"evidence": {"quote": "the refund"}}, ["the refund"]),
        ({"reason": 'a "short" one'}, []),
        ({"score": 4, "reason": None}, []),
        (None, []),
        ('plain "quoted text" here', ["quoted text"]),
    ],
)
def test_what_a_judge_may_cite(answer: object, cited: list[str]) -> None:
    assert citations_of(answer) == cited


def test_citations_are_marked_where_they_stand() -> None:
    """The longer one wins where one holds another; each first place has the link's end."""
    marker = Marker(["the refund", "the refund takes weeks"])
    pieces, left_out = marker.pieces("So the refund takes weeks. the refund, again the refund")
    assert left_out == 0
    assert [(each.text, each.number, each.is_first) for each in pieces] == [
        ("So ", None, False), ("the refund takes weeks", 2, True), (". ", None, False),
        ("the refund", 1, True), (", again ", None, False), ("the refund", 1, False),
    ]  # fmt: skip
    plain, _ = Marker([]).pieces({"a": 1})
    assert [each.number for each in plain] == [None]
    assert within({"a": ["the refund"], "b": 1}, ["the refund", "nowhere"]) == ["the refund"]


def test_a_record_shows_citations_calls_and_calibration(desk: tuple[Service, str]) -> None:
    _, url = desk
    with browser_page(url) as (page, seen):
        page.goto(RECORD)
        judge = page.locator("section.task", has_text="truthful")
        judge.get_by_role("link", name="The refund takes nine weeks").click()
        mark = page.locator("mark")
        assert mark.inner_text() == "The refund takes nine weeks"
        assert mark.evaluate("each => each.matches(':target')")
        assert "passes 90.0%" in judge.inner_text()
        assert "fails 80.0%" in judge.inner_text()
        path = page.locator("section.task", has=page.get_by_role("link", name="path", exact=True))
        assert path.locator("tr.new code").first.inner_text() == "ask_colleague"
        assert "other arguments" in path.locator("tr.changed").inner_text()
        assert "Judge, reads answer of the context" in judge.inner_text()
        assert "2 of 5 checks did not pass: 2 failed" in page.locator(".figures").inner_text()
        tools = page.locator("section.task", has=page.get_by_role("link", name="tools", exact=True))
        assert tools.locator("tr.changed").count() == 0
        assert seen.problems == []
        assert page.evaluate("window.violations") == []


def test_hostile_answers_of_a_judge_stay_text(start: Start, answers: Path) -> None:
    """As citations that the record has, so that each is marked; and as names of fields."""
    service = start(profile=[str(answers)])
    texts = [text for text in HOSTILE if text.isprintable() and len(text) >= 6]
    service.send(
        {"uid": "u", "profile": "answers", "context": {"answer": 41, "said": " ".join(texts)}}
    )
    service.wait_for(1)
    store = service.collector.store
    (row,) = store.latest_evaluations([("default", "u")]).values()
    answer: dict[str, Any] = {"citations": list(texts), **{text: text for text in texts}}
    task = TaskRow(
        task_id="j", task_type="LLMJudge", outcome=Outcome.FAILED, actual=1, expected=3,
        message=texts[0], answer=answer,
    )  # fmt: skip
    again = replace(row, revision=2, evaluation_id="again", tasks=(task,))
    store.commit(Commit(evaluations=[again]))
    with serve(service.collector.app) as url, browser_page(url) as (page, seen):
        page.goto("/records/u")
        marks = page.locator("mark").all_text_contents()
        assert set(marks) <= set(texts)
        assert len(marks) > 10
        assert page.locator("main script, main img, main iframe, main style").count() == 0
        for link in page.get_by_role("link", name="“").all()[:5]:
            link.click()
        assert page.evaluate("window.violations") == []
        assert seen.problems == []


def test_the_buttons_of_a_record(desk: tuple[Service, str], tmp_path: Path) -> None:
    service, url = desk
    with browser_page(url) as (page, seen):
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.goto(RECORD)
        with page.expect_download() as started:
            page.get_by_role("link", name="Download as a scenario").click()
        assert started.value.suggested_filename == "scenario-case-1-r-1.yaml"
        page.get_by_text("add it to your scenarios").wait_for()
        started.value.save_as(tmp_path / "scenario.yaml")
        (scenario,) = EvalScenarios.from_path(tmp_path / "scenario.yaml").scenarios
        assert scenario.initial_query == "Where is my money?"
        page.get_by_role("link", name="Copy as JSON").click()
        page.get_by_text("Copied.").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert json.loads(copied)["context"]["answer"] == ANSWER
        assert copied.startswith('{\n  "uid": "r/1"')
        page.get_by_role("button", name="Copy id").click()
        page.get_by_role("button", name="Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == "r/1"
        page.get_by_label("Your name").fill("ada")
        page.locator("select[name=task]").select_option("truthful")
        page.get_by_role("button", name="Bad", exact=True).click()
        page.get_by_text("truthful, says ada").wait_for()
        page.get_by_role("button", name="Take back").click()
        page.get_by_text("Nobody has labelled this record").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
    assert service.get("/api/v1/labels")["items"] == []


def test_everybody_can_read_the_record(desk: tuple[Service, str]) -> None:
    _, url = desk
    with browser_page(url, width=PHONE_PX, height=844) as (page, seen):
        assert_everybody_can_read(page, RECORD)
        assert seen.problems == []


def test_a_record_is_evaluated_again_by_its_button(desk: tuple[Service, str]) -> None:
    """The last test here: another version of the profile lets the judge's score pass."""
    service, url = desk
    with browser_page(url) as (page, seen):
        page.goto(RECORD)
        page.get_by_role("button", name="Evaluate again").click()
        page.get_by_text(re.compile("Evaluated again at .*same results")).wait_for()
        page.wait_for_url(f"**{RECORD}")
        page.reload()
        assert page.get_by_text("Evaluated again").count() == 0
        body = profile(1).model_dump_json()
        media = {"Content-Type": "application/json"}
        answer = service.http.post("/api/v1/profiles?activate=true", content=body, headers=media)
        assert answer.status_code == 201, answer.text
        page.goto(RECORD)
        page.get_by_role("button", name="Evaluate again").click()
        page.get_by_text("1 check ends otherwise now").wait_for()
        assert page.get_by_text("Earlier revisions").is_visible()
        assert seen.problems == []
        refused = service.http.post(
            "/record/again", data={"uid": "r/1"}, headers={"Origin": "https://evil.example"}
        )
        assert refused.status_code == 403
