"""A conversation: its turns in order, with what was said, called and checked."""

import re
from collections.abc import Iterator

import pytest

from scouter.model.otlp import encode_request
from scouter.model.span import Span, StatusCode
from tests.collector.conftest import Service, save_answers
from tests.collector.web.conftest import PROTOBUF
from tests.support.browser import PHONE_PX, assert_everybody_can_read, browser_page
from tests.support.served import serve

TURNS = 12
CHAT = "/conversations/chat%2F1"


def said(role: str, text: str) -> str:
    return f'[{{"role": "{role}", "content": "{text}"}}]'


def turn(number: int) -> list[Span]:
    """A question, a call of a tool that fails in each third turn, and an answer."""
    trace_id, start = f"{number + 1:032x}", number * 10**10
    model = {
        "gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5,
        "gen_ai.usage.output_tokens": 2,
        "gen_ai.input.messages": said("user", f"Question {number}?"),
        "gen_ai.output.messages": said("assistant", f"Answer {number}."),
    }  # fmt: skip
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"look_{number}"}
    status = StatusCode.ERROR if number % 3 == 2 else StatusCode.UNSET
    return [
        Span(trace_id=trace_id, span_id=f"{1:016x}", name="chat", start_ns=start,
             end_ns=start + 2 * 10**9, attributes=model),
        Span(trace_id=trace_id, span_id=f"{2:016x}", parent_span_id=f"{1:016x}", name="tool",
             start_ns=start + 10**8, end_ns=start + 10**9, attributes=tool, status=status),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """A conversation of twelve turns, of which the third failed; then records without spans."""
    folder = tmp_path_factory.mktemp("chat")
    service = Service(folder, profile=[str(save_answers(folder))])
    for number in range(TURNS):
        data = encode_request(turn(number)).SerializeToString()
        assert service.http.post("/v1/traces", content=data, headers=PROTOBUF).is_success
    service.send(
        *(
            {"uid": f"turn{number}", "profile": "answers", "session_id": "chat/1",
             "trace_id": f"{number + 1:032x}", "created_at": f"2026-11-01T00:00:{number:02}Z",
             "context": {"answer": 41 if number == 2 else 42}}
            for number in range(TURNS)
        ),
        {"uid": "alone", "profile": "answers", "session_id": "spanless",
         "context": {"answer": 42, "words": "of a record alone"}},
        {"uid": "lost", "profile": "answers", "session_id": "spanless", "trace_id": "f" * 32,
         "context": {"answer": 42}},
    )  # fmt: skip
    service.wait_for(TURNS + 2)
    with serve(service.collector.app) as url:
        yield service, url
    service.stop()


def sections(service: Service, address: str) -> list[str]:
    answer = service.http.get(address)
    assert answer.status_code == 200, answer.text
    return re.findall(r'<section class="panel said-turn".*?</section>', answer.text, re.S)


def test_turns_stand_in_order_with_words_calls_and_checks(chat: tuple[Service, str]) -> None:
    service, _ = chat
    first = sections(service, CHAT)
    assert len(first) == 10
    assert [re.findall(r"Question \d+\?|look_\d+|Answer \d+\.", each) for each in first] == [
        [f"Question {number}?", f"look_{number}", f"Answer {number}."] for number in range(10)
    ]
    assert ["right" in each for each in first] == [number == 2 for number in range(10)]
    assert [number for number, each in enumerate(first) if ">failed<" in each] == [2, 5, 8]
    assert [re.findall(r"Question \d+", each) for each in sections(service, f"{CHAT}?page=2")] == [
        ["Question 10"], ["Question 11"],
    ]  # fmt: skip
    whole = service.http.get(CHAT).text
    assert "12 turns, 12 records" in whole
    assert "1 of 12 checks did not pass" in whole
    assert "60 tokens in, 24 out" in whole


def test_checks_of_records_that_are_left_out_are_not_said_to_pass(
    chat: tuple[Service, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve turns the third failed, which is none of the newest five."""
    monkeypatch.setattr("collector.web.record._RECORDS", 5)
    text = chat[0].http.get(CHAT).text
    assert "All 5 checks passed." in text
    assert "Of the newest 5 records; older ones are not counted." in text


@pytest.mark.parametrize("page", ["0", "-1", "x", "999999999", "99", "²"])
def test_any_page_number_shows_turns(chat: tuple[Service, str], page: str) -> None:
    assert sections(chat[0], f"{CHAT}?page={page}")


def test_a_turn_without_spans_says_so_and_shows_its_record(chat: tuple[Service, str]) -> None:
    alone, lost = sections(chat[0], "/conversations/spanless")
    assert "of a record alone" in alone
    assert "No span of trace" not in alone
    assert f"No span of trace {'f' * 32} is stored" in lost
    missing = chat[0].http.get("/conversations/nobody")
    assert missing.status_code == 404
    assert "nobody" in missing.text


def test_a_reader_goes_from_the_list_through_a_turn_to_its_span(chat: tuple[Service, str]) -> None:
    _, url = chat
    with browser_page(url, width=PHONE_PX) as (page, seen):
        page.goto("/conversations")
        page.get_by_role("link", name="chat/1").click()
        page.get_by_role("link", name="Later turns").click()
        page.get_by_role("link", name="look_11").click()
        assert "span=0000000000000002" in page.url
        page.get_by_role("link", name="Conversation", exact=True).click()
        page.get_by_role("heading", name="Conversation chat/1").wait_for()
        assert_everybody_can_read(page, CHAT)
    assert not seen.problems
