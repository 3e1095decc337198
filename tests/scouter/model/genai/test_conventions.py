"""The tables of conventions, on spans as instrumentations write them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from pydantic import JsonValue

from scouter.model.genai.messages import MessageLog
from scouter.model.genai.reader import read_facts
from scouter.model.genai.work import agent_work
from scouter.model.genai.wrappers import open_arguments, open_result
from scouter.model.span import AttributeValue, Span, SpanEvent
from tests.scouter.evaluate.spans_support import span
from tests.support.conventions_page import PAGE, with_tables

CASES: Final = yaml.safe_load(
    (Path(__file__).parents[3] / "cases" / "conventions.yaml").read_text(encoding="utf-8")
)


def _value(value: JsonValue) -> AttributeValue:
    """A value of YAML as OTLP has it: its arrays are tuples."""
    if isinstance(value, list):
        return tuple(map(_value, value))
    return _attributes(value) if isinstance(value, dict) else value


def _attributes(given: Mapping[str, JsonValue]) -> dict[str, AttributeValue]:
    return {key: _value(item) for key, item in given.items()}


def _spans(case: dict[str, Any]) -> list[Span]:
    return [
        span(
            at + 1,
            given["name"],
            None if at == 0 else 1,
            (at, at + 1),
            _attributes(given["attributes"]),
            events=tuple(
                SpanEvent(name=name, time_ns=at, attributes=_attributes(attributes))
                for name, attributes in given.get("events", ())
            ),
        )
        for at, given in enumerate(case["spans"])
    ]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["case"]) for case in CASES])
def test_what_is_read(case: dict[str, Any]) -> None:
    spans = _spans(case)
    facts, work = read_facts(spans[0]), agent_work(spans)

    for name, wanted in case.get("facts", {}).items():
        assert json.dumps(getattr(facts, name)) == json.dumps(wanted), name
    if "usage" in case:
        counts = {name: getattr(facts.usage, name) for name in type(facts.usage).__slots__}
        assert {name: count for name, count in counts.items() if count is not None} == case["usage"]
    if "asked" in case:
        log = MessageLog()
        log.read(facts.input_messages or ())
        assert log.questions == case["asked"]
    if "calls" in case:
        calls: list[list[JsonValue]] = [
            [call.name, call.arguments, call.result if call.has_result else "none"]
            for call in work.tool_calls
        ]
        assert calls == case["calls"]
    if "error" in case:
        assert work.tool_calls[0].error == case["error"]
    if "unseen" in case:
        assert bool(work.evidence.unseen) == case["unseen"]
    for name, wanted in case.get("work", {}).items():
        assert getattr(work, name) == wanted, name


def test_the_page_shows_the_tables() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == with_tables(page)


WRAPPERS: Final = re.findall(
    r"^\| `(.+?)` \| `(.+?)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)
ARGUMENTS: Final = 4
"""Rows of the page that are arguments; the others are results."""


@pytest.mark.parametrize(
    ("found", "becomes", "is_argument"),
    [(*row, at < ARGUMENTS) for at, row in enumerate(WRAPPERS)],
)
def test_wrappers_of_the_page(found: str, becomes: str, is_argument: bool) -> None:
    """As a text, and as the value that the text is the JSON of."""
    open_value = open_arguments if is_argument else open_result
    assert open_value(found) == json.loads(becomes)
    assert open_value(json.loads(found)) == json.loads(becomes)


def test_the_page_has_wrappers() -> None:
    assert len(WRAPPERS) >= 10


@pytest.mark.parametrize(
    "value",
    [
        {"kwargs": 1},
        {"kwargs": {"a": 1}, "city": "Paris"},
        {"result": 1, "unit": "C"},
        {"content": ["a"], "title": "b"},
        [{"text": "a"}, {"text": "b", "type": "image"}],
        "[not JSON",
        "{'no': python",
        "12",
    ],
)
def test_what_is_no_wrapper_stays(value: JsonValue) -> None:
    assert open_arguments(value) == value
    assert open_result(value) == value
