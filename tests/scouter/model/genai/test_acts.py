"""One act, several spans: the rules as cases, and the laws behind them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import AgentWork
from scouter.model.genai.acts import contradict
from scouter.model.genai.calls import read_calls
from scouter.model.genai.facts import Kind
from scouter.model.genai.names import bare_model, bare_name, is_called
from scouter.model.genai.work import acts_of, agent_work
from scouter.model.span import Resource, Span, StatusCode
from tests.support.act_traces import doubled, made, traces
from tests.support.components import ROOT
from tests.support.examples import examples

CASES: Final = (ROOT / "tests" / "cases" / "acts.txt").read_text(encoding="utf-8")
LINE: Final = re.compile(
    r"(?P<id>\d+)(<(?P<parent>\d+))?\s+(?P<start>\d+)-(?P<end>\d+)\s+(?P<scope>\w+)\s+"
    r"(?P<kind>\w+)\s+(?P<name>[\w.-]+)(\s+id=(?P<call>\w+))?(\s+args=(?P<args>\{.*?\}))?"
    r"(\s+tokens=(?P<input>\d+)/(?P<output>\d+))?(?P<error>\s+error)?"
)


def cases() -> Iterator[tuple[str, list[Span], str]]:
    name, spans = "", list[Span]()
    for line in CASES.splitlines():
        if line.startswith("case: "):
            name, spans = line.removeprefix("case: "), []
        elif line.startswith("acts: "):
            yield name, spans, line.removeprefix("acts: ")
        elif line and not line.startswith("#"):
            found = LINE.fullmatch(line)
            assert found, line
            field: Mapping[str, str | None] = found.groupdict()
            one = made(
                int(field["id"] or 0),
                field["kind"] or "",
                field["name"] or "",
                int(field["parent"]) if field["parent"] else None,
                (int(field["start"] or 0), int(field["end"] or 0)),
                field["scope"] or "",
                call=field["call"],
                args=field["args"],
                input=int(field["input"]) if field["input"] else None,
                output=int(field["output"]) if field["output"] else None,
            )
            spans.append(replace(one, status=StatusCode.ERROR) if field["error"] else one)


def groups(spans: list[Span]) -> str:
    """The acts as the cases write them."""
    found = [act for act in acts_of(SpanTree(spans).spans) if act.facts.kind is not Kind.AGENT]
    return ", ".join("+".join(str(int(each.span_id, 16)) for each in act.spans) for act in found)


@pytest.mark.parametrize(
    ("spans", "expected"), [pytest.param(spans, acts, id=name) for name, spans, acts in cases()]
)
def test_the_cases(spans: list[Span], expected: str) -> None:
    assert groups(spans) == expected
    assert groups(spans[::-1]) == expected


def test_a_merged_act_takes_what_each_span_tells() -> None:
    outer = made(1, "tool", "mcp__travel__book", at=(0, 50), scope="agent", call="c1")
    inner = made(2, "tool", "book", 1, (1, 49), "server", args='{"city": "Rome"}')
    failed = replace(inner, status=StatusCode.ERROR, status_message="no such city")
    (call,) = agent_work([outer, failed]).tool_calls
    assert (call.name, call.call_id, call.arguments, call.error) == (
        "mcp__travel__book",
        "c1",
        {"city": "Rome"},
        "no such city",
    )
    assert call.span_ids == (outer.span_id, inner.span_id)


def test_of_tokens_the_inner_span_is_believed() -> None:
    outer = made(1, "model", "m", at=(0, 50), input=10, output=4)
    inner = made(2, "model", "m", 1, (1, 49), "sdk", input=12)
    work = agent_work([outer, inner])
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == (12, 4, 16)


def test_a_span_of_merged_tools_is_no_call() -> None:
    merged = made(1, "tool", "(merged tools)")
    (act,) = acts_of([merged])
    facts = replace(act.facts, is_merged=True)
    assert read_calls([replace(act, facts=facts)], []).calls == ()


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("mcp__travel__get_weather", "get_weather"),
        ("mcp__a__b__c", "b__c"),
        ("Tools-get_weather", "get_weather"),
        ("get_weather.__call__", "get_weather"),
        ("get-weather", "get-weather"),
        ("mcp__", "mcp__"),
        (".__call__", ".__call__"),
        ("", ""),
    ],
)
def test_bare_names(name: str, bare: str) -> None:
    assert bare_name(name) == bare
    assert is_called(name, name)
    assert is_called(name, bare)
    assert not is_called(name, "other")


def test_the_clock_of_another_process_may_be_wrong() -> None:
    """The parent says enough of a server of MCP whose times lie elsewhere."""
    client = made(1, "tool", "book", at=(100, 150))
    server = made(2, "tool", "book", 1, (900, 940), "server")
    elsewhere = replace(server, resource=Resource(attributes={"service.name": "mcp"}))
    assert len(agent_work([client, elsewhere]).tool_calls) == 1
    assert len(agent_work([client, server]).tool_calls) == 2


@pytest.mark.parametrize(
    ("left", "right", "is_so"),
    [
        ("openai/gpt-4o", "gpt-4o-2024-08-06", True),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", "claude-3-5-sonnet", True),
        ("models/gemini-2.5-flash", "gemini-2.5-flash-preview-05-20", True),
        ("gpt-4o", "gpt-4o-mini", False),
        ("claude-sonnet-4-5", "claude-sonnet-4", False),
        ("llama3.1:8b", "llama3.1:70b", False),
        ("m" * 201, "M" * 201, False),
    ],
)
def test_names_of_one_model(left: str, right: str, is_so: bool) -> None:
    assert (bare_model(left) == bare_model(right)) is is_so


def test_a_long_name_takes_no_time() -> None:
    assert bare_model("-123" * 250_000) == "-123" * 250_000


@pytest.mark.parametrize(
    ("left", "right", "is_so"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1}, {"b": 2}, False),
        ({"a": "2"}, {"a": 2}, False),
        ("x", "y", True),
        ("x", {"a": 1}, False),
        (None, {"a": 1}, False),
    ],
)
def test_contradictions(left: object, right: object, is_so: bool) -> None:
    assert contradict(left, right) is is_so  # type: ignore[arg-type]


def asking(id: int, call_id: str, name: str = "find") -> str:
    part = {"type": "tool_call", "name": name, "id": call_id, "arguments": {"q": id}}
    return json.dumps([{"role": "assistant", "parts": [part]}])


def test_an_answer_that_two_instrumentors_tell_asks_once() -> None:
    """Neither tells tokens, so that the spans stay two; the second call of the model asks anew."""
    spans = [
        made(1, "model", "m", at=(0, 9), scope="a", output_messages=asking(1, "c1")),
        made(2, "model", "m", at=(1, 8), scope="b", output_messages=asking(1, "c1")),
        made(3, "model", "m", at=(20, 29), scope="a", output_messages=asking(1, "c1")),
        made(4, "model", "m", at=(21, 28), scope="b", output_messages=asking(1, "")),
    ]
    assert len(agent_work(spans).tool_calls) == 2
    assert len(agent_work(spans[::2]).tool_calls) == 2


def test_a_call_that_the_next_input_repeats_under_another_id() -> None:
    """OpenAI's Responses have an id for the item and one for the call."""
    question = {"role": "user", "content": "Weather?"}
    part = {"type": "tool_call", "name": "find", "id": "fc_1", "arguments": {"q": 1}}
    result = {"type": "tool_call_response", "id": "call_1", "response": "sunny"}
    larger = [
        question,
        {"role": "assistant", "parts": [part]},
        {"role": "tool", "parts": [result]},
    ]
    spans = [
        made(
            1, "model", "m", at=(0, 9),
            input_messages=json.dumps([question]), output_messages=asking(1, "call_1"),
        ),
        made(2, "model", "m", at=(20, 29), input_messages=json.dumps(larger)),
    ]  # fmt: skip
    (call,) = agent_work(spans).tool_calls
    assert (call.call_id, call.arguments) == ("call_1", {"q": 1})


# --- laws -----------------------------------------------------------------------------------------


def counts(work: AgentWork) -> tuple[object, ...]:
    return (
        len(work.tool_calls),
        sum(bool(call.error) for call in work.tool_calls),
        work.input_tokens,
        work.output_tokens,
        work.total_tokens,
    )


@given(traces(), st.data())
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_another_layer_changes_no_count(spans: list[Span], data: st.DataObject) -> None:
    more = doubled(data, spans)
    assert counts(agent_work(SpanTree(more).spans)) == counts(agent_work(SpanTree(spans).spans))


@given(traces(), st.data())
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_order_of_spans_does_not_matter(spans: list[Span], data: st.DataObject) -> None:
    more = doubled(data, spans)
    shuffled = data.draw(st.permutations(more))
    assert agent_work(SpanTree(shuffled).spans) == agent_work(SpanTree(more).spans)
