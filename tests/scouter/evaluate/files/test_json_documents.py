"""Texts that are broken somewhere, and what is read of them."""

from typing import Any

import pytest

from scouter.evaluate.files.json_documents import json_documents

A, B, C = {"a": 1}, {"b": 2}, {"c": 3}


@pytest.mark.parametrize(
    ("text", "values", "breaks"),
    [
        pytest.param('[{"a": 1}, {"b": 2}]', [[A, B]], [], id="whole"),
        pytest.param('[{"a": 1}, {"b": 2}, {"c', [[A, B]], [1], id="cut-in-an-item"),
        pytest.param('[{"a": 1}, {"b": 2}', [[A, B]], [1], id="cut-behind-an-item"),
        pytest.param('[{"a": 1}, {"b": x}, {"c": 3}]', [[A, C]], [1], id="bad-item"),
        pytest.param('[x, {"a": 1},, {"c": 3}]', [[A, C]], [1, 1], id="no-values"),
        pytest.param('[{"a": 1}, {"b": "\\q},["}, {"c": 3}]', [[A, C]], [1], id="bad-escape"),
        pytest.param('[{"a": 1}, {"b": [}}, {"c": 3}]', [[A]], [1], id="brackets-do-not-match"),
        pytest.param('[{"a": 1}, {"b": "]}, {"c": 3}]', [[A]], [1], id="quote-is-missing"),
        pytest.param('[{"a": 1}, {"b": 2},]', [[A, B]], [], id="a-comma-too-many"),
        pytest.param('[{"a": 1} {"b": 2}]', [[A, B]], [], id="a-comma-too-few"),
        pytest.param('[{"a": 1}; {"b": 2}]', [[A]], [1], id="another-sign"),
        pytest.param(
            '[\n{"a": 1},\n{"b": "},\n{"c": 3}\n]\n{"a": 1}', [[A, C], A], [3],
            id="an-item-a-line",
        ),
        pytest.param(
            '[\n  {\n    "b": {\n  },\n  {\n    "c": 3\n  }\n]', [[C]], [5], id="indented"
        ),
        pytest.param(
            '[\n  {\n    "c": 3\n  },\n  {\n    "b": [\n  }\n]\n{"a": 1}', [[C], A], [7],
            id="indented-bad-end",
        ),
        pytest.param(
            '{"data": [{"a": 1}, {"b": x}], "meta": 1}', [{"data": [A], "meta": 1}], [1],
            id="bad-item-of-an-answer",
        ),
        pytest.param(
            '{"meta": 1, "data": [{"a": 1}], "next": "', [{"data": [A]}], [1], id="cut-answer"
        ),
        pytest.param(
            '{"eval": {"a": 1}, "status": "x", "samples": [{"a": 1}, {"b',
            [{"eval": A, "samples": [A]}], [1, 1], id="cut-log",
        ),
        pytest.param('[\n{"a": 1},\n', [[A]], [1], id="cut-behind-a-line"),
        pytest.param('{"data": [\n{"a": 1}\n],\n"x', [{"data": [A]}], [4], id="cut-behind-a-list"),
        pytest.param('{"steps": [{"a": 1}, {"b', [], [1], id="an-item-is-no-part-of-one"),
        pytest.param('{"data": [{"a": 1},\n{"b": 2}', [{"data": [A]}, B], [1], id="cut-line"),
        pytest.param('{"data":\n{"b": 2}', [B], [1], id="cut-line-in-a-key"),
        pytest.param('{"a": 1}\nx\n{"b": 2}{"c": 3}', [A, B, C], [2], id="texts"),
        pytest.param("[" * 100_000, [], [1], id="deep"),
    ],
)  # fmt: skip
def test_whole_items_are_read(text: str, values: list[Any], breaks: list[int]) -> None:
    """Whole items are there once, and each break has its line."""
    found = list(json_documents(text))
    assert [each for _, each in found if not isinstance(each, Exception)] == values
    assert [line for line, each in found if isinstance(each, Exception)] == breaks


def test_what_was_not_read_is_said() -> None:
    """The break and the part that it took are both named."""
    [(line, fault), (_, read)] = json_documents('[{"a": 1},\n {"b": 2,\n "c": x}]')
    assert (line, read) == (3, [A])
    assert str(fault) == (
        "Expecting value (column 7); not read: the object that begins on line 2, column 2"
    )
