"""Many records at once: the same as one by one, in order, and small."""

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.batch import RecordColumns, evaluate_batch, evaluate_in_turn
from scouter.evaluate.engine.context import are_plain, plain_context
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.json_value import MAX_DEPTH
from scouter.model.record import EvalRecord
from tests.support.examples import examples

FLAT: list[Task] = [
    AssertionTask("whole", None, 0, Op.HasLengthGreaterThan),
    AssertionTask("number", "a.n", 3, Op.GreaterThan),
    AssertionTask("text", "a.t", "x", Op.Contains),
    AssertionTask("pattern", "a.t", r"x+\d?", Op.Matches),
    AssertionTask("length", "a.l", 1, Op.HasLengthGreaterThan),
    AssertionTask("same", "a.n", "${b}", Op.Equals),
    AssertionTask("items", "a.l", 2, Op.LessThan),
    AssertionTask("within", "rows", 2, Op.LessThan, item_context_path="n"),
    AssertionTask("all", "rows[*].n", 2, Op.LessThan),
    AssertionTask("digits", "a.0", 2, Op.LessThan),
    AssertionTask("senseless", "a.n", "many", Op.GreaterThan),
    TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 1, Op.Equals),
]
STAGED: list[Task] = [
    AssertionTask("gate", "a.n", 3, Op.GreaterThan, condition=True),
    AssertionTask("behind", "a.t", "x", Op.Contains, depends_on=["gate"]),
    AssertionTask("beside", "gate", 5, Op.LessThan, depends_on=["gate"]),
]

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


def comparable(result: RecordResult) -> dict[str, JsonValue]:
    """Everything but how long it took."""
    return {**result.to_json(), "duration_ns": 0}


@settings(max_examples=examples(150))
@given(st.lists(context, max_size=40), st.sampled_from([FLAT, STAGED]))
def test_a_batch_is_its_records_one_by_one(contexts: list[object], tasks: list[Task]) -> None:
    plan = compile_plan(tasks)
    records = [EvalRecord(context=each) for each in contexts]

    together = evaluate_batch(plan, records, {})

    assert [comparable(each) for each in together] == [
        comparable(evaluate_record(plan, record)) for record in records
    ]
    assert [comparable(together[at]) for at in range(len(records))] == [
        comparable(each) for each in together
    ]


@settings(max_examples=examples(150))
@given(context)
def test_looking_at_one_value_finds_what_looking_at_many_finds(value: object) -> None:
    try:
        taken_as_it_is = plain_context(EvalRecord(context=value)) is value
    except DataError:
        taken_as_it_is = False

    assert taken_as_it_is == are_plain((value,))


def test_values_at_the_deepest_level() -> None:
    nested: list[list[object]] = [[]]
    for _ in range(MAX_DEPTH + 1):
        nested.append([nested[-1]])
    for levels, value in enumerate(nested, start=1):
        allowed = levels <= MAX_DEPTH
        assert are_plain((value,)) == allowed
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
        [AssertionTask("number", "a.n", 3, Op.GreaterThan)],
    )

    outcomes = [record.outcome for record in data.evaluate().records]

    expected = [Outcome.PASSED if at % 7 > 3 else Outcome.FAILED for at in range(3_000)]
    expected[700] = expected[1_900] = Outcome.ERRORED
    assert outcomes == expected


def test_a_context_without_json_form_hurts_no_other_record() -> None:
    records = [EvalRecord(context={"a": {"n": 5}}), EvalRecord(context={"a": object()})]

    first, second = evaluate_batch(compile_plan([FLAT[1]]), records, {})

    assert first.outcome is Outcome.PASSED
    assert (second.outcome, second.tasks[0].reason) == (Outcome.ERRORED, Reason.TYPE)


def test_values_that_contain_themselves_are_refused() -> None:
    knot: dict[str, object] = {}
    knot["again"] = knot
    twins: list[object] = []
    for _ in range(60):  # 2**60 values, all the same few lists
        twins = [twins, twins]

    result = evaluate_batch(compile_plan([FLAT[0]]), [EvalRecord(context=knot)], {})

    assert result[0].outcome is Outcome.ERRORED
    assert not are_plain((knot,))
    assert not are_plain((twins,))


def test_the_sequence_behaves_as_a_list() -> None:
    plan = compile_plan(STAGED)
    records = [EvalRecord(context={"a": {"n": n, "t": "x"}}, id=str(n)) for n in range(6)]
    columns = evaluate_batch(plan, records, {})
    plain = list(columns)

    assert columns == plain
    assert (len(columns), columns[-1], columns[1:5:2]) == (6, plain[-1], tuple(plain[1:5:2]))
    assert columns != plain[:-1]
    assert plain[2] in columns
    assert columns.index(plain[3]) == 3
    with pytest.raises(IndexError, match="record 6 of 6"):
        _ = columns[6]
    assert columns.counts == {
        Outcome.PASSED: 2 + 2 + 1,  # the gate and what is behind it for 4 and 5, beside for 4
        Outcome.FAILED: 4 + 1,  # the gate for 0 to 3, beside for 5
        Outcome.ERRORED: 0,
        Outcome.SKIPPED: 8,
    }


def test_results_are_small() -> None:
    rng = random.Random(1)
    records = [
        EvalRecord(context={"a": {"n": rng.random() * 6, "t": "x", "l": [1, 2]}}, id=f"r{at}")
        for at in range(2_000)
    ]
    data = EvalDataset(records, FLAT[:5])
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()

    results = data.evaluate()

    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(results.records, RecordColumns)
    assert (after - before) / (2_000 * 5) < 40


@pytest.mark.parametrize("behind", [(), ("t",)], ids=["together", "one by one"])
def test_who_is_late_has_no_trace_looked_at_for_nothing(behind: tuple[str, ...]) -> None:
    """Work that is done and thrown away: a collector asks for the others anew."""
    looked_at: list[str] = []

    class Looked(dict[str, SpanTree]):
        def get(self, key: str, default: object = None) -> Any:
            looked_at.append(key)
            return super().get(key, default)

    trees = Looked({f"{n:032x}": SpanTree() for n in range(1, 101)})
    records = [EvalRecord({}, trace_id=trace) for trace in trees]
    count = TraceAssertion.trace_span_count()
    tasks: list[Task] = [TraceAssertionTask("t", count, 0, Op.Equals)]
    tasks += [TraceAssertionTask("u", count, 0, Op.Equals, depends_on=list(behind))] * len(behind)
    plan = compile_plan(tasks)
    found = list(evaluate_in_turn(plan, records, trees, is_late=lambda: True))
    assert [each.trace_id for each in found] == sorted(trees)[: len(found)]
    assert 1 <= len(found) <= 8
    assert set(looked_at) == {each.trace_id for each in found} or behind
    assert len(list(evaluate_in_turn(plan, records, trees))) == 100
