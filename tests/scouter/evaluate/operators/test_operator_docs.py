"""The pages about operators and paths say what the code does."""

import re
from pathlib import Path as File

import pytest
from pydantic import JsonValue

from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import COSTS, MAX_MEETINGS, MAX_SIMILAR, Comparison
from scouter.evaluate.operators.table import compile_comparison
from scouter.evaluate.paths.json_path import MAX_LOOKS
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.syntax import MAX_BYTES, MAX_SEGMENTS
from scouter.evaluate.paths.templates import MAX_CHARACTERS, compile_template
from scouter.evaluate.patterns import (
    MAX_PATTERN,
    MAX_PROGRAM,
    MAX_TEXT,
    MAX_WORK,
)
from scouter.evaluate.responses.parse import MAX_JSON, MAX_VALUES
from scouter.evaluate.schema.keywords import FORMATS, MAX_REFERENCES, MAX_UNEVALUATED
from scouter.evaluate.schema.schema import MAX_SCHEMA

DOCS = File(__file__).parents[4] / "docs"
OPERATORS = (DOCS / "operators.md").read_text(encoding="utf-8")
PATHS = (DOCS / "paths.md").read_text(encoding="utf-8")


def rows(first: str) -> list[list[str]]:
    r"""Cells of the tables whose first heading this is; `\|` is a bar inside a cell."""
    found: list[list[str]] = []
    for table in OPERATORS.split(f"\n| {first} |")[1:]:
        lines = table.split("\n\n")[0].splitlines()[2:]
        found += ([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines)
    return found


ROWS = {name.strip("`"): cells for name, *cells in rows("operator")}
COSTS_TOLD = {
    name: (cost, limit)
    for names, cost, limit in rows("operators")
    for name in re.findall(r"`(\w+)`", names)
}


def test_every_operator_has_its_row() -> None:
    operators = {operator.value for operator in Op}
    assert operators == {operator.value for operator in COSTS}
    assert len(rows("operator")) == len(operators)
    assert operators == set(ROWS) == set(COSTS_TOLD)


EXPECTED: dict[str, JsonValue] = {
    "number": 1, "text": "a", "list": ["a"], "any value": 1, "text or item": "a", "pattern": "a",
    "schema": True, "flag": True, "`[lowest, highest]`": [0, 1], "`[value, tolerance]`": [0, 1],
    "`[text, ratio]`": ["a", 0.5],
}  # fmt: skip


@pytest.mark.parametrize("operator", list(Op))
def test_a_row_says_what_the_code_does(operator: Op) -> None:
    passes_if, expected, over_lists = ROWS[operator]
    comparison: Comparison = compile_comparison(operator, EXPECTED[expected])
    limits = "; ".join(f"{number:,} {unit}" for number, unit in COSTS[operator].limits)

    assert passes_if
    assert (expected == "flag") is (operator in NEEDS_NO_EXPECTED)
    assert over_lists.startswith("each") is (comparison.item is not None)
    assert COSTS_TOLD[operator] == (COSTS[operator].cost, limits or "none")


def test_the_numbers_of_the_text() -> None:
    for number in (
        MAX_PATTERN, MAX_PROGRAM, MAX_WORK, MAX_TEXT, MAX_SIMILAR, MAX_MEETINGS,
        MAX_SCHEMA, MAX_UNEVALUATED, MAX_REFERENCES, MAX_JSON, MAX_VALUES,
    ):  # fmt: skip
        assert f"{number:,}" in OPERATORS
    for number in (MAX_BYTES, MAX_SEGMENTS, MAX_LOOKS, MAX_CHARACTERS):
        assert f"{number:,}" in PATHS
    for name in FORMATS:
        assert f"`{name}`" in OPERATORS


def test_every_path_of_the_page_is_one() -> None:
    table = PATHS[PATHS.index("| written") : PATHS.index("* A key of digits")]
    plain = [path for line in table.splitlines()[2:] for path in re.findall(r"`([^`]+)`", line)[:4]]
    jsonpath = [path for path in re.findall(r"`(\$[.\[][^`]+)`", PATHS) if "${" not in path]

    assert len(plain) >= 12
    assert len(jsonpath) >= 3
    for path in (*(p for p in plain if p != "[*]"), *jsonpath):
        assert Path(path).text == path


@pytest.mark.parametrize(
    ("template", "becomes"),
    [
        ("${n}", 5),
        ("${name} has ${n}", "Ada has 5"),
        ("tags: ${tags}", 'tags: ["a"]'),
        (["${name}", {"count": "${n}"}], ["Ada", {"count": 5}]),
        ("$${n}", "${n}"),
        ("${$.items[?@.id == 7].name}", ["x"]),
    ],
)
def test_the_templates_of_the_page(template: object, becomes: object) -> None:
    resolve = compile_template(template)  # type: ignore[arg-type]  # plain JSON
    assert resolve is not None
    scope: dict[str, object] = {"n": 5, "name": "Ada", "tags": ["a"]}
    assert resolve({**scope, "items": [{"id": 7, "name": "x"}, {"id": 8}]}) == becomes  # type: ignore[arg-type]
