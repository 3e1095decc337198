"""Laws between comparisons."""

import subprocess
import sys
import time
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import (
    MAX_SEARCHED,
)
from scouter.evaluate.operators.equality import deep_equal, identity
from scouter.evaluate.operators.similarity import is_similar, similarity
from scouter.evaluate.operators.table import compile_comparison
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

scalars: st.SearchStrategy[JsonValue] = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "a", "1"])
)
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
lists = st.lists(values, max_size=4)
numbers = st.integers(-100, 100) | st.floats(-100, 100)


def passes(operator: Op, value: JsonValue, expected: JsonValue) -> bool:
    return compile_comparison(operator, expected).check(value)


@given(values, values)
def test_deep_equals_is_an_equality(left: JsonValue, right: JsonValue) -> None:
    assert passes(Op.DeepEquals, left, left)
    assert passes(Op.DeepEquals, left, right) is passes(Op.DeepEquals, right, left)
    assert passes(Op.DeepEquals, left, right) is passes(Op.DeepEquals, [left], [right])
    if not isinstance(left, list):
        assert passes(Op.DeepEquals, left, right) is passes(Op.Equals, left, right)


@given(lists)
def test_identical_arrays_are_equal(items: list[JsonValue]) -> None:
    for operator in (Op.Equals, Op.DeepEquals, Op.SetEquals, Op.SequenceMatches):
        assert passes(operator, items, items)
    assert not items or passes(Op.ContainsAll, items, items)
    assert not passes(Op.NotEqual, items, items)


@given(lists, lists, st.randoms(use_true_random=False))
def test_sets_know_neither_order_nor_number(
    left: list[JsonValue], right: list[JsonValue], random: object
) -> None:
    wanted = all(any(deep_equal(a, b) for b in right) for a in left) and all(
        any(deep_equal(a, b) for b in left) for a in right
    )
    mixed = [*left, *left]
    random.shuffle(mixed)  # type: ignore[attr-defined]

    assert passes(Op.SetEquals, left, right) is wanted
    assert passes(Op.SetEquals, right, left) is wanted
    assert passes(Op.SetEquals, mixed, left)


@given(st.lists(numbers, max_size=4), numbers, numbers)
def test_opposites_of_numbers(items: list[JsonValue], one: float, other: float) -> None:
    """Item by item exactly one of a pair holds; over a list both may fail, never both pass."""
    low, high = min(one, other), max(one, other)
    pairs: list[tuple[Op, Op, JsonValue]] = [
        (Op.InRange, Op.NotInRange, [low, high]),
        (Op.GreaterThan, Op.LessThanOrEqual, one),
        (Op.LessThan, Op.GreaterThanOrEqual, one),
    ]
    for yes, no, expected in pairs:
        for item in items:
            assert passes(yes, item, expected) is not passes(no, item, expected)
        assert not (passes(yes, items, expected) and passes(no, items, expected))
        expects = bool(items) and all(passes(yes, item, expected) for item in items)
        assert passes(yes, items, expected) is expects


@given(numbers, numbers, st.floats(0, 2) | st.integers(0, 2))
def test_tolerances_are_exact_decimals(value: float, target: float, tolerance: float) -> None:
    """Brute force with fractions of the numbers as they are written."""
    v, t, d = Fraction(str(value)), Fraction(str(target)), Fraction(str(tolerance))
    near = abs(v - t) <= d

    assert passes(Op.ApproximatelyEquals, value, [target, tolerance]) is near
    assert passes(Op.WithinAbsoluteTolerance, value, [target, tolerance]) is near
    assert passes(Op.WithinRelativeTolerance, value, [target, tolerance]) is (
        abs(v - t) <= d * abs(t)
    )


def longest_common(left: str, right: str) -> int:
    """The textbook's table."""
    rows = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            rows[i + 1][j + 1] = rows[i][j] + 1 if a == b else max(rows[i][j + 1], rows[i + 1][j])
    return rows[-1][-1]


texts = st.text(alphabet="abcü", max_size=12)


@given(texts, texts, st.floats(0, 1))
def test_similarity_agrees_with_the_table(left: str, right: str, least: float) -> None:
    total = len(left) + len(right)
    wanted = 2 * longest_common(left, right) / total if total else 1.0

    assert similarity(left, right) == similarity(right, left) == wanted
    assert is_similar(left, right, least) is (wanted >= least)


def test_published_similarities() -> None:
    """Pairs whose longest common subsequence the literature gives: MJAU and GTAB."""
    assert similarity("XMJYAUZ", "MZJAWXU") == pytest.approx(2 * 4 / 14)
    assert similarity("AGGTAB", "GXTXAYB") == pytest.approx(2 * 4 / 13)


@pytest.mark.pace
def test_items_that_share_a_hash_are_still_linear() -> None:
    """Multiples of 2**61 - 1 all have Python's hash 0; as they are they would take minutes."""
    items: list[JsonValue] = [n * (2**61 - 1) for n in range(50_000)]
    started = time.perf_counter()

    assert passes(Op.HasUniqueItems, items, True)
    assert passes(Op.SetEquals, items, list(reversed(items)))
    assert passes(Op.ContainsAll, items, items[:100])
    assert time.perf_counter() - started < 10


@given(st.integers(-(2**70), 2**70))
def test_identity_of_numbers(number: int) -> None:
    """A float and an int of one value are one key, at any size."""
    close = float(number)
    assert (identity(number) == identity(close)) is (number == close)
    assert identity(number) != identity(str(number))
    assert identity(number) != identity(hex(number))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Equal", "Equals"),
        ("equals", "Equals"),
        ("not_equal", "NotEqual"),
        ("NotEquals", "NotEqual"),
        ("Regex", "MatchesRegex"),
        ("MatchesSchema", "MatchesJsonSchema"),
        ("greater_than_or_equal", "GreaterThanOrEqual"),
        ("contains", "Contains"),
    ],
)
def test_an_operator_of_another_name(name: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"no operator is named .* did you mean .*\b{meant}\b"):
        Op.named(name)
    with pytest.raises(ValueError, match=rf"did you mean .*\b{meant}\b"):
        AssertionTask("t", "v", 1, name)


def test_an_operator_of_no_name_near() -> None:
    with pytest.raises(ConfigError, match="the operators are Equals, NotEqual"):
        Op.named("frobnicate")
    assert Op.named("Equals") is Op.Equals


def test_a_word_from_a_record_is_literal() -> None:
    task = AssertionTask("t", "v", "${w}", Op.ContainsWord)
    plan = compile_plan([task])
    for word, outcome in ((".*", "failed"), ("a.b", "passed"), ("", "errored")):
        result = evaluate_record(plan, EvalRecord({"v": "x a.b y", "w": word})).tasks[0]
        assert result.outcome == outcome, result.message


@pytest.mark.parametrize(
    ("word", "text", "found"),
    [
        ("cat", "a cat sat", True),
        ("cat", "concatenate cat", True),
        ("cat", "concatenate", False),
        ("größe", "die Größe größer größe", True),
        ("größ", "größe", False),
        ("c++", "I like c++!", True),
        ("a.b", "axb", False),
        ("x", "_x", False),
        ("aa", "aaa aaaa aa", True),
    ],
)
def test_words(word: str, text: str, found: bool) -> None:
    assert passes(Op.ContainsWord, text, word) is found


@pytest.mark.pace
def test_words_that_overlap_themselves_are_bounded() -> None:
    started = time.perf_counter()
    assert not passes(Op.ContainsWord, "a" * 300_000, "aa")
    with pytest.raises(TaskFault, match=f"at most {MAX_SEARCHED:,}") as caught:
        passes(Op.ContainsWord, "a" * 1_000_000, "a" * 1_000)
    assert caught.value.reason is Reason.LIMIT
    assert time.perf_counter() - started < 10


def test_json_of_any_size_of_number_is_json() -> None:
    assert passes(Op.IsJson, "1" * 5_000, True)
    with pytest.raises(TaskFault, match="nested too deeply"):
        passes(Op.IsJson, "[" * 100_000, True)


def test_what_is_slow_to_load_is_loaded_when_it_is_needed() -> None:
    code = (
        "import sys\n"
        "from scouter.evaluate.engine.plan import compile_plan\n"
        "from scouter.evaluate.tasks.assertion import AssertionTask\n"
        "compile_plan([AssertionTask('t', 'a.b[*].c', 1, 'Equals')])\n"
        "print(sorted({'re2', 'jsonschema', 'referencing', 'jsonpath'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
