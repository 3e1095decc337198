"""All comparisons: a table worked out by hand, and the laws that hold between them."""

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.equality import deep_equal, identity
from scouter.evaluate.operators.show import show
from scouter.evaluate.operators.table import BUILDERS
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.patterns import MAX_TEXT
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

TABLE = Path(__file__).parents[3] / "cases" / "operators.txt"
ROWS = [
    (number, *[column.strip() for column in line.split(" | ")])
    for number, line in enumerate(TABLE.read_text(encoding="utf-8").splitlines(), start=1)
    if line.strip() and not line.startswith("#")
]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_infinity=False, allow_nan=False)
    | st.text(st.characters(exclude_characters="$"), max_size=3)  # no template
)
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def compare(operator: str, value: JsonValue, expected: JsonValue) -> EvalTaskResult:
    """Run one comparison through the whole engine."""
    task = AssertionTask("t", "v", expected, Op(operator))
    return evaluate_record(compile_plan([task]), EvalRecord({"v": value})).tasks[0]


@pytest.mark.parametrize(
    ("operator", "value", "expected", "outcome"),
    [pytest.param(*row[1:], id=f"line{row[0]}-{row[1]}") for row in ROWS],
)
def test_table(operator: str, value: str, expected: str, outcome: str) -> None:
    """Each row of tests/cases/operators.txt."""
    wanted = None if expected == "-" else json.loads(expected)
    if outcome == "refused":
        with pytest.raises(ConfigError, match=f"task 't': expected_value: {operator} expects"):
            compare(operator, json.loads(value), wanted)
        return
    result = compare(operator, json.loads(value), wanted)
    reason = f":{result.reason}" if result.reason else ""

    assert f"{result.outcome}{reason}" == outcome, result.message
    assert result.message


def test_the_table_has_every_operator_passing_and_not_passing() -> None:
    """At least three rows each, among them a pass and something else."""
    count = Counter(row[1] for row in ROWS)
    passed = {row[1] for row in ROWS if row[4] == "passed"}
    other = {row[1] for row in ROWS if row[4] != "passed"}

    assert set(count) == passed == other == set(Op) == set(BUILDERS)
    assert min(count.values()) >= 3


EMPTY: list[tuple[Op, JsonValue]] = [
    *((op, "") for op in (Op.Contains, Op.NotContains, Op.StartsWith, Op.EndsWith)),
    *((op, []) for op in (Op.ContainsAll, Op.ContainsAny, Op.ContainsNone)),
]


@pytest.mark.parametrize(("operator", "empty"), EMPTY)
def test_what_asks_nothing_is_refused(operator: Op, empty: JsonValue, tmp_path: Path) -> None:
    """In a file by the task's place and field; from a template, for that record alone."""
    fields = {"task_type": "Assertion", "id": "t", "context_path": "v", "operator": operator}
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"tasks": [{**fields, "expected_value": empty}]}), "utf-8")
    with pytest.raises(
        ConfigError, match=r"field 'tasks\[0\].expected_value': .*task 't': "
    ) as caught:
        AgentEvalProfile.from_file(file)
    assert f"{operator} expects" in str(caught.value)

    plan = compile_plan([AssertionTask("t", "v", "${wanted}", operator)])
    for value in ("abc", ["abc"], [], ""):
        found = evaluate_record(plan, EvalRecord({"v": value, "wanted": empty})).tasks[0]
        if operator is Op.ContainsAll:  # a record may require nothing
            assert found.outcome is Outcome.PASSED
            continue
        assert (found.outcome, found.reason) == (Outcome.ERRORED, "expected")
    full: JsonValue = "abc" if isinstance(empty, str) else ["abc"]
    found = evaluate_record(plan, EvalRecord({"v": "abc", "wanted": full})).tasks[0]
    assert found.outcome is not Outcome.ERRORED


@given(st.lists(values, max_size=4), st.text("ab", min_size=1, max_size=1))
def test_a_text_is_missing_only_where_it_can_be_seen(items: list[JsonValue], part: str) -> None:
    """Objects and lists inside a list may hold the text: then nobody says that it is not there."""
    is_there, hides = part in items, any(isinstance(item, dict | list) for item in items)
    wanted: dict[Op, JsonValue] = {
        Op.Contains: part, Op.NotContains: part, Op.ContainsAll: [part], Op.ContainsAny: [part],
        Op.ContainsNone: [part],
    }  # fmt: skip
    for operator, expected in wanted.items():
        found = compare(operator, items, expected)
        if not is_there and hides:
            assert (found.outcome, found.reason) == (Outcome.ERRORED, "type")
            assert "name the field" in found.message
        else:
            asks_absence = operator in (Op.NotContains, Op.ContainsNone)
            assert found.passed is (is_there is not asks_absence)


@given(value=values | st.just(math.nan), expected=values)
def test_opposites_are_complements(value: JsonValue, expected: JsonValue) -> None:
    """If one of a pair can decide, the other decides the opposite; they err together."""
    for one, other in (
        (Op.Contains, Op.NotContains),
        (Op.ContainsAny, Op.ContainsNone),
        (Op.IsEmpty, Op.IsNotEmpty),
    ):
        wanted = expected if one not in NEEDS_NO_EXPECTED else True
        if wanted in ("", []):  # see `test_what_asks_nothing_is_refused`
            continue
        left, right = compare(one, value, wanted), compare(other, value, wanted)
        if left.outcome is Outcome.ERRORED:
            assert right.outcome is Outcome.ERRORED
            assert left.reason is right.reason
        else:
            assert left.passed is not right.passed


@given(value=scalars, expected=values)
def test_equal_and_not_equal_of_single_values(value: JsonValue, expected: JsonValue) -> None:
    assert compare(Op.Equals, value, expected).passed is not (
        compare(Op.NotEqual, value, expected).passed
    )


@given(operator=st.sampled_from(sorted(NEEDS_NO_EXPECTED)), value=scalars)
def test_false_asserts_the_opposite(operator: Op, value: JsonValue) -> None:
    yes, no = compare(operator, value, True), compare(operator, value, False)
    if yes.outcome is Outcome.ERRORED:
        assert no.outcome is Outcome.ERRORED
    else:
        assert yes.passed is not no.passed


@given(values)
def test_equality_is_reflexive(value: JsonValue) -> None:
    copy = json.loads(json.dumps(value))
    assert deep_equal(value, value)
    assert deep_equal(value, copy)


@given(values, values)
def test_equality_is_symmetric_and_agrees_with_identity(left: JsonValue, right: JsonValue) -> None:
    assert deep_equal(left, right) is deep_equal(right, left)
    assert deep_equal(left, right) is (identity(left) == identity(right))


@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30), st.integers(0, 10**30))
def test_approximately_is_exact_for_integers(value: int, target: int, tolerance: int) -> None:
    """Brute force with exact integers, far beyond what a float holds."""
    passed = compare(Op.ApproximatelyEquals, value, [target, tolerance]).passed
    assert passed is (abs(value - target) <= tolerance)


@given(st.lists(scalars, max_size=5), st.lists(scalars, min_size=1, max_size=5))
def test_membership_agrees_with_brute_force(
    value: list[JsonValue], wanted: list[JsonValue]
) -> None:
    value, wanted = [v for v in value if v == v], [w for w in wanted if w == w]  # NaN is null
    found = [any(deep_equal(item, want) for item in value) for want in wanted]

    if wanted:
        assert compare(Op.ContainsAll, value, wanted).passed is all(found)
        assert compare(Op.ContainsAny, value, wanted).passed is any(found)
    unique = not any(deep_equal(value[i], value[j]) for i in range(len(value)) for j in range(i))
    assert compare(Op.HasUniqueItems, value, True).passed is unique


def test_huge_integers_do_not_overflow() -> None:
    assert compare(Op.ApproximatelyEquals, 10**400, [1.5, 1]).outcome is Outcome.FAILED
    assert compare(Op.GreaterThan, 10**400, 1.5).passed
    assert compare(Op.InRange, 10**400, [0, 1.5]).outcome is Outcome.FAILED


def test_length_is_shown_as_actual() -> None:
    result = compare(Op.HasLengthGreaterThan, "abc", 5)
    assert result.actual == 3
    assert result.message == "the length of 'v' is 3, expected HasLengthGreaterThan 5"


def test_messages_name_the_item_that_failed() -> None:
    assert compare(Op.LessThan, [1, 9, 2], 5).message == (
        "'v': item 1 of 3 is 9, expected LessThan 5"
    )
    assert "nothing to compare: the list is empty" in compare(Op.LessThan, [], 5).message


def test_long_values_are_cut_in_messages() -> None:
    message = compare(Op.Equals, "x" * 5_000, "y").message
    assert len(message) < 300
    assert "(5000 characters)" in message


def test_a_pattern_that_is_none_is_refused_when_the_plan_is_built() -> None:
    for pattern in ("(", "*a", "x" * 5_000, 5):
        with pytest.raises(ConfigError, match="'t'"):
            compile_plan([AssertionTask("t", "v", pattern, Op.Matches)])


def test_a_text_too_long_to_search_is_errored() -> None:
    result = compare(Op.Matches, "a" * (MAX_TEXT + 1), "a")
    assert (result.outcome, result.reason) == (Outcome.ERRORED, "limit")


def test_a_tuple_or_enum_in_code_becomes_json() -> None:
    assert AssertionTask("t", "v", (1, Op.Equals), Op.Equals).expected_value == [1, "Equals"]


def test_messages_say_where_a_type_is_wrong() -> None:
    assert compare(Op.GreaterThan, "5", 4).message == (
        "'v': GreaterThan compares numbers, found a text: \"5\""
    )
    assert compare(Op.GreaterThan, 5, "4").message == (
        'GreaterThan expects a number, got a text: "4"'
    )


def test_values_too_large_to_show_are_named() -> None:
    assert show(10**5_000) == "a number too large to show"
