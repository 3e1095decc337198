"""The pages about operators and paths say what the code does."""

import re
import time
from pathlib import Path as File

import pytest
from pydantic import JsonValue

from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import (
    MAX_CHARACTERS,
    MAX_FORMAT,
    MAX_INSIDE,
    MAX_ITEMS,
    MAX_LIKENESS,
    MAX_MEETINGS,
    MAX_SEARCHED,
    MAX_SIMILAR,
    Comparison,
)
from scouter.evaluate.operators.table import compile_comparison
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.json_path import MAX_LOOKS
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.syntax import MAX_BYTES, MAX_SEGMENTS
from scouter.evaluate.paths.templates import MAX_CHARACTERS as MAX_TEMPLATE
from scouter.evaluate.paths.templates import compile_template
from scouter.evaluate.patterns import (
    MAX_PATTERN,
    MAX_PROGRAM,
    MAX_TEXT,
    MAX_WORK,
)
from scouter.evaluate.responses.parse import MAX_JSON, MAX_VALUES
from scouter.evaluate.schema.keywords import FORMATS
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
COSTS = {
    name: (cost, limit)
    for names, cost, limit in rows("operators")
    for name in re.findall(r"`(\w+)`", names)
}


def test_every_operator_has_its_row() -> None:
    operators = {operator.value for operator in Op}
    assert len(rows("operator")) == len(operators)
    assert operators == set(ROWS) == set(COSTS)
    assert all(cost and limit for cost, limit in COSTS.values())


EXPECTED: dict[str, JsonValue] = {
    "number": 1, "text": "a", "list": ["a"], "any value": 1, "text or item": "a", "pattern": "a",
    "schema": True, "flag": True, "`[lowest, highest]`": [0, 1], "`[value, tolerance]`": [0, 1],
    "`[text, ratio]`": ["a", 0.5],
}  # fmt: skip


@pytest.mark.parametrize("operator", list(Op))
def test_a_row_says_what_the_code_does(operator: Op) -> None:
    passes_if, expected, over_lists = ROWS[operator]
    comparison: Comparison = compile_comparison(operator, EXPECTED[expected])

    assert passes_if
    assert (expected == "flag") is (operator in NEEDS_NO_EXPECTED)
    assert over_lists.startswith("each") is (comparison.item is not None)


WORDS: dict[Op, JsonValue] = {
    Op.Contains: "b", Op.NotContains: "b", Op.ContainsAll: ["b"], Op.ContainsAny: ["b"],
    Op.ContainsNone: ["b"], Op.Matches: "b", Op.MatchesRegex: "b", Op.ContainsWord: "b",
    Op.SimilarityAtLeast: ["b", 0.5],
}  # fmt: skip
LISTED: dict[Op, JsonValue] = {
    **WORDS, Op.Equals: 1, Op.NotEqual: 1, Op.GreaterThan: 1, Op.GreaterThanOrEqual: 1,
    Op.LessThan: 1, Op.LessThanOrEqual: 1, Op.InRange: [0, 1], Op.NotInRange: [0, 1],
    Op.ApproximatelyEquals: [0, 1], Op.WithinAbsoluteTolerance: [0, 1],
    Op.WithinRelativeTolerance: [0, 1], Op.StartsWith: "b", Op.EndsWith: "b", Op.SetEquals: [1],
}  # fmt: skip
COUNTED = ("items", "values inside")
CONTAIN = {Op.ContainsAll, Op.ContainsAny, Op.ContainsNone}
LIMITED = [
    (Op(name), int(number.replace(",", "")), unit)
    for name, (_, limit) in COSTS.items()
    for number, unit in re.findall(r"([\d,]+) ([^;]+)", limit)
]
"""The page's limits; `none` has no number."""


@pytest.fixture(scope="module")
def long_text() -> str:
    return "a" * (MAX_SEARCHED + 1)


def is_limited(comparison: Comparison, value: JsonValue) -> bool:
    try:
        comparison.check(value)
    except TaskFault as fault:
        return fault.reason is Reason.LIMIT
    return False


@pytest.mark.parametrize(("operator", "limit", "unit"), LIMITED)
def test_beyond_its_limit_an_operator_does_not_compare(
    operator: Op, limit: int, unit: str, long_text: str
) -> None:
    """At the stated limit there is an answer, one beyond it there is none."""
    if "times" in unit and operator not in CONTAIN:  # see test_schema, and likeness below
        return
    expected = LISTED.get(operator, True) if unit in COUNTED else WORDS.get(operator, True)
    comparison = compile_comparison(operator, expected)

    def value(size: int) -> JsonValue:
        if unit == "values inside":
            inner: JsonValue = [*[0] * (size - 1)]
            return [inner]
        zeros: list[JsonValue] = [0] * size if unit == "items" else []
        return zeros or long_text[:size]

    assert not is_limited(comparison, value(limit))
    with pytest.raises(TaskFault, match=f"at most {limit}|at most {limit:,}") as caught:
        comparison.check(value(limit + 1))
    assert caught.value.reason is Reason.LIMIT


def test_likeness_to_all_texts_of_a_list_is_bounded() -> None:
    """A text of 10,000 and ten such texts in a list are 1,000,000,000 pairs of characters."""
    comparison = compile_comparison(Op.SimilarityAtLeast, ["ab" * 5_000, 0])
    texts: list[JsonValue] = ["a" * 10_000] * 10
    assert comparison.check(texts)
    with pytest.raises(TaskFault, match="at most 1,000,000,000 are compared") as caught:
        comparison.check([*texts, "a"])
    assert caught.value.reason is Reason.LIMIT


@pytest.mark.pace
def test_operators_without_a_limit_do_little() -> None:
    """The expected value bounds their work, or there is none."""
    zeros: list[JsonValue] = [0] * 1_000
    huge: list[JsonValue] = [zeros] * 3_000
    started = time.process_time()
    for operator in (op for op in Op if COSTS[op][1] == "none"):
        expected: JsonValue = [1] if operator in (Op.DeepEquals, Op.SequenceMatches) else 1
        flag = operator.startswith("Is")
        comparison: Comparison = compile_comparison(operator, True if flag else expected)
        comparison.check(huge if comparison.measure is None else comparison.measure(huge))
    assert time.process_time() - started < 1


def test_the_limits_are_those_of_the_documents() -> None:
    """Changing one is a change of what profiles mean."""
    limits = (MAX_ITEMS, MAX_CHARACTERS, MAX_SEARCHED, MAX_FORMAT, MAX_SIMILAR, MAX_TEXT)
    assert limits == (10**6, 10**7, 10**8, 10**6, 10**4, 10**6)
    assert (MAX_INSIDE, MAX_LIKENESS, MAX_MEETINGS) == (10**6, 10**9, 250_000)


def test_the_numbers_of_the_text() -> None:
    for number in (
        MAX_PATTERN, MAX_PROGRAM, MAX_WORK, MAX_TEXT, MAX_SIMILAR, MAX_MEETINGS,
        MAX_SCHEMA, MAX_JSON, MAX_VALUES,
    ):  # fmt: skip
        assert f"{number:,}" in OPERATORS
    for number in (MAX_BYTES, MAX_SEGMENTS, MAX_LOOKS, MAX_TEMPLATE):
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
