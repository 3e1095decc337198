"""Sources: where an agent has the values from that it gives to tools or puts into its answer.

Sources are what people and instructions said, the definitions of its tools, and the results of
earlier calls. Values are compared as `citing` has it, in whatever form they are written.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.responses.citing import Answer, unsourced_numbers
from scouter.evaluate.responses.read import Reader, tells_arguments, work_of_spans
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import (
    AgentAssertionTask,
    UnsourcedArgumentCountAssertion,
    UnsourcedNumberCountAssertion,
)
from scouter.model.agent_work import ToolCall
from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.genai.wrappers import has_hidden

_MOST: Final = 200_000_000
"""Values of arguments times characters of sources."""


def compile_sourced(task: AgentAssertionTask) -> Reader | None:
    """Prepare reading for a task about sources; None for any other task.

    Raises:
        ConfigError: It reads no spans; no response tells what the agent was given before.
    """
    assertion = task.assertion
    if not isinstance(assertion, UnsourcedArgumentCountAssertion | UnsourcedNumberCountAssertion):
        return None
    if task.source != "spans":
        raise ConfigError("sources are read from spans; say source='spans'")
    if isinstance(assertion, UnsourcedNumberCountAssertion):
        return lambda _, spans, __: _unsourced_numbers(spans)
    keys = None if assertion.keys is None else frozenset(assertion.keys)
    return lambda _, spans, __: _unsourced_arguments(spans, keys)


def argument_values(call: ToolCall) -> Iterator[tuple[str, JsonValue]]:
    """Give the values of a call's arguments at any depth, each with the nearest name above it."""
    waiting: list[tuple[str, JsonValue]] = [("", call.arguments)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((name, each) for each in value)
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            yield name, value


def unsourced_values(spans: SpanTree) -> Iterator[tuple[str, JsonValue, bool]]:
    """Give the values of arguments by name, and whether each lacks a source.

    Raises:
        TaskFault: The values, times the characters that they may be from, are beyond the limit.

    Cost: linear in the texts; of each value, in those that it may be from.
    """
    calls = spans.agent_work.tool_calls
    values = [list(argument_values(call)) for call in calls]
    sources = _given(spans)
    size = sum(len(each.words) for each in (*sources, *_results(calls))) * sum(map(len, values))
    if size > _MOST:
        raise TaskFault(
            Reason.LIMIT, f"values times characters of their sources are {size}, at most {_MOST}"
        )
    for call, given in zip(calls, values, strict=True):
        for name, value in given:
            is_said = not Answer.of(_text(value)).is_empty
            yield name, value, is_said and not any(each.has(value) for each in sources)
        sources += _results([call])


def _unsourced_arguments(spans: SpanTree | None, keys: frozenset[str] | None) -> int:
    calls = work_of_spans(spans).tool_calls
    if spans is None or not all(map(tells_arguments, calls)):
        raise TaskFault(Reason.NOT_TOLD, "the arguments of a call are not reported")
    found = sum(
        is_missing and (keys is None or name in keys)
        for name, _, is_missing in unsourced_values(spans)
    )
    return _known(found, spans)


def _unsourced_numbers(spans: SpanTree | None) -> int:
    work = work_of_spans(spans)
    if spans is None or work.unknown_content:
        raise TaskFault(Reason.NOT_TOLD, f"the answer is not reported: {work.unknown_content}")
    given = [Answer.of(_text(call.arguments)) for call in work.tool_calls]
    sources = _given(spans) + _results(work.tool_calls) + given
    return _known(unsourced_numbers(work.content or "", sources), spans)


def _known(found: int, spans: SpanTree) -> int:
    """Let a number stand if nothing that is not reported could be a source."""
    calls = spans.agent_work.tool_calls
    if found and any(
        not (call.has_result or call.error) or has_hidden(call.result) for call in calls
    ):
        raise TaskFault(Reason.NOT_TOLD, "the result of a call is not reported; it may be a source")
    if found and not spans.given_texts:
        raise TaskFault(Reason.NOT_TOLD, "the question to the agent is not reported")
    return found


def _given(spans: SpanTree) -> list[Answer]:
    texts = spans.given_texts
    return [Answer.of(each) for each in (*texts, *map(_text, tool_definitions(spans.spans)))]


def _results(calls: Sequence[ToolCall]) -> list[Answer]:
    return [Answer.of(_text(call.result)) for call in calls if call.has_result]


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
