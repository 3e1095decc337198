"""Contexts as they come: plain ones are read in place, a fault stays with its record."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scouter.errors import DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record, plain_context
from scouter.evaluate.engine.judged import evaluate_records
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.json_value import MAX_DEPTH, to_json_value
from scouter.model.record import EvalRecord
from tests.support.examples import examples

NUMBER = AssertionTask("number", "a.n", 3, Op.GreaterThan)

leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 9),
    st.sampled_from([2**63, -(2**80), 1.5, float("nan"), float("inf"), "x1", "é", "\ud800", ""]),
    st.sampled_from([b"x", (1, 2), {1, 2}, object(), {3: 1, "3": 2}]),
)
inner = st.fixed_dictionaries(
    {},
    optional={
        "n": leaf,
        "t": st.sampled_from(["x", "y", "xx7", 5, None]),
        "l": st.lists(st.integers(0, 3), max_size=3),
        "0": leaf,
    },
)
context = st.fixed_dictionaries(
    {}, optional={"a": inner | leaf, "b": leaf, "rows": st.lists(inner | leaf, max_size=3)}
) | st.lists(inner, max_size=2)


@settings(max_examples=examples(150))
@given(context)
def test_what_is_read_in_place_is_what_a_copy_would_be(value: object) -> None:
    def came_of(work: Callable[[], object]) -> str:
        try:
            return repr(work())
        except DataError as error:
            return str(error)

    read = came_of(lambda: plain_context(EvalRecord(context=value)))
    assert read == came_of(lambda: to_json_value(value))


def test_values_at_the_deepest_level() -> None:
    nested: list[list[object]] = [[]]
    for _ in range(MAX_DEPTH + 1):
        nested.append([nested[-1]])
    for levels, value in enumerate(nested, start=1):
        allowed = levels <= MAX_DEPTH
        if allowed:
            assert plain_context(EvalRecord(context=value)) is value
        else:
            with pytest.raises(DataError, match="levels deep"):
                plain_context(EvalRecord(context=value))


def test_one_fault_in_a_long_stretch() -> None:
    contexts: list[dict[str, object]] = [{"a": {"n": at % 7}} for at in range(3_000)]
    contexts[700] = {"a": {}}
    contexts[1_900] = {"a": {"n": "four"}}
    data = EvalDataset(
        [EvalRecord(context=each) for each in contexts],
        [NUMBER],
    )

    outcomes = [record.outcome for record in data.evaluate().records]

    expected = [Outcome.PASSED if at % 7 > 3 else Outcome.FAILED for at in range(3_000)]
    expected[700] = expected[1_900] = Outcome.ERRORED
    assert outcomes == expected


def test_a_context_without_json_form_hurts_no_other_record() -> None:
    records = [EvalRecord(context={"a": {"n": 5}}), EvalRecord(context={"a": object()})]

    first, second = evaluate_records(compile_plan([NUMBER]), records)

    assert first.outcome is Outcome.PASSED
    assert (second.outcome, second.tasks[0].reason) == (Outcome.ERRORED, Reason.TYPE)


def test_values_that_contain_themselves_are_refused() -> None:
    knot: dict[str, object] = {}
    knot["again"] = knot
    twins: list[object] = []
    for _ in range(60):  # 2**60 values, all the same few lists
        twins = [twins, twins]

    result = evaluate_record(compile_plan([NUMBER]), EvalRecord(context=knot))

    assert result.outcome is Outcome.ERRORED
    with pytest.raises(DataError):
        plain_context(EvalRecord(context=twins))
