"""Answers that cite a result: numbers, dates and texts in the forms in which people write them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.responses.citing import Answer
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import span


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("It arrives on 20 May.", {"arrives": "2024-05-20"}),
        ("It arrives May 20th, 2024", {"at": "2024-05-20T10:00:00Z"}),
        ("on the 3rd of June", "2024/06/03"),
        ("am 20.05.2024", "2024-05-20"),
        ("by 05/20/2024", "2024-05-20"),
        ("2024-05-20", "delivery: 20 May"),
        ("It costs 1,200 EUR", {"price": 1200}),
        ("It costs 1.200,50", {"price": 1200.5}),
        ("It costs 1 200.50", {"price": "1,200.50"}),
        ("$1200", ["1,200"]),
        ("85 % are left", {"share": 0.85}),
        ("about -15 degrees", {"t": -15}),
        ("It is 3.5 km", [{"legs": [{"km": 3.5}]}]),
        ("Your order A-7 is on its way", {"id": "A-7"}),
        ("in PARIS!", '{"city": "Paris"}'),
        ("It is on its  way, now", {"status": "on_its way"}),
        ("気温は35度です。", {"temp": 35}),
        ("東京の天気は晴れです。", {"city": "東京"}),
    ],
)
def test_an_answer_cites(answer: str, result: JsonValue) -> None:
    assert Answer.of(answer).cites(result)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("on 21 May", "2024-05-20"),
        ("20 May 2023", "2024-05-20"),
        ("in 2024", "2024-05-20"),
        ("20 Mayors", "2024-05-20"),
        ("You have 1 order", {"count": 1}),
        ("It is 12:30", {"count": 12}),
        ("version 1.2.3", 1.2),
        ("1,300 EUR", {"price": 1200}),
        ("order A-71", {"id": "A-7"}),
        ("Parisian", {"city": "Paris"}),
        ("true", {"found": True, "next": None}),
        ("an", "an"),
        ("", {"city": "Paris"}),
        ("大阪の気温は36度です。", {"city": "東京", "temp": 35}),
        ("city", {"city": ""}),
        ("45.45.2024", "2024-45-45"),
    ],
)
def test_an_answer_does_not_cite(answer: str, result: JsonValue) -> None:
    assert not Answer.of(answer).cites(result)


leaf = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(leaf, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(st.text(), values)
def test_no_text_and_no_result_is_a_fault(text: str, result: JsonValue) -> None:
    assert Answer.of(text).cites(result) in (True, False)


@given(st.integers(10, 10**12))
def test_a_number_cites_itself_however_it_is_written(number: int) -> None:
    for text in (f"{number}", f"{number:,}", f"{number:,}".replace(",", "."), f"{number}.00"):
        assert Answer.of(f"It is {text} in all.").cites({"n": number})


def trace(answer: str, *results: JsonValue, error: str = "") -> list[Span]:
    """An agent with one call of `find` per result (None: not captured), and an answer."""
    message = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
    chat = {
        "gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(message),
        "gen_ai.response.finish_reasons": ("stop",),
    }  # fmt: skip
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    failed = {"error.type": error} if error else {}
    tool_spans = [
        tool | failed if each is None else {**tool, "gen_ai.tool.call.result": json.dumps(each)}
        for each in results
    ]
    return [
        span(1, "run", None, (0, 99), {"gen_ai.operation.name": "invoke_agent"}),
        *(span(at, "find", 1, (at, at + 0.5), each) for at, each in enumerate(tool_spans, 2)),
        span(90, "chat", 1, (90, 98), chat),
    ]


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [
        (trace("It comes on 20 May.", {"x": "2024-01-01"}, {"arrives": "2024-05-20"}), "passed"),
        (trace("It comes soon.", {"arrives": "2024-05-20"}), "failed"),
        (trace("It comes soon.", {"arrives": "2024-05-20"}, None), "errored:not_told"),
        (trace("On 20 May.", {"arrives": "2024-05-20"}, None), "passed"),
        (trace("It comes soon.", {"a": "2024-05-20"}, None, error="Timeout"), "failed"),
        (trace("It comes soon."), "failed"),
    ],
)
def test_an_answer_is_compared_with_every_call(spans: list[Span], outcome: str) -> None:
    for name in (None, "find"):
        task = AgentAssertionTask(
            "t", AgentAssertion.response_cites_result(name), True, "Equals", source="spans"
        )
        found = evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree(spans)).tasks[0]
        assert ":".join(filter(None, (found.outcome, found.reason))) == outcome
