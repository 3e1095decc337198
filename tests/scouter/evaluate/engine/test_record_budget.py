"""Bounds of all tasks of one record together, with any profile and context."""

import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scouter.evaluate import steps as meter
from scouter.evaluate.engine.batch import evaluate_batch, evaluate_in_turn
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.prompt_text import fill
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.steps import (
    MAX_RECORD_BYTES,
    MAX_RECORD_STEPS,
    ManyRecords,
    OneRecord,
    RecordMeter,
    SpentTogether,
    charge,
    charge_done,
    steps_left,
    weight,
)
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord
from tests.support.examples import examples

_MEBI = 2**20


def told(result: RecordResult) -> list[tuple[Outcome, Reason | None]]:
    return [(task.outcome, task.reason) for task in result.tasks]


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that were in use at the worst moment, beside those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_texts_that_templates_make_are_bounded_over_all_tasks() -> None:
    """Each makes 6 MiB of 2 MiB: ten fit into 64 MiB, and so does the small one behind the rest."""
    tasks: list[Task] = [
        AssertionTask(f"t{at}", "a", "${a}${a}${a}", Op.Contains) for at in range(256)
    ]
    plan = compile_plan([*tasks, AssertionTask("small", "b", "${b}${b}", Op.Contains)])
    record = EvalRecord({"a": "x" * (2 * _MEBI), "b": "yy"})
    found: list[RecordResult] = []

    peak = peak_of(lambda: found.extend(evaluate_batch(plan, [record], {})))

    limited = (Outcome.ERRORED, Reason.LIMIT)
    failed = (Outcome.FAILED, None)
    assert told(found[0]) == [failed] * 10 + [limited] * 246 + [failed]
    assert f"{MAX_RECORD_BYTES:,} bytes" in found[0].tasks[200].message
    assert peak < 80 * _MEBI


def test_a_list_of_one_large_text_a_thousand_times_is_neither_copied_nor_written() -> None:
    """Written out it has 2 GB; compared, shown and kept it is the same text each time."""
    plan = compile_plan([AssertionTask("t", "a", ["${a}"] * 1_000, Op.Equals)])
    record = EvalRecord({"a": "x" * (2 * _MEBI)})
    found: list[str] = []

    peak = peak_of(lambda: found.append(evaluate_record(plan, record).tasks[0].message))

    assert "… (2097152 characters), expected Equals [" in found[0]
    assert len(found[0]) < 500
    assert peak < _MEBI


def test_wide_characters_count_as_what_they_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """One character of four bytes makes all of a text as wide."""
    monkeypatch.setattr(meter, "MAX_RECORD_BYTES", 3_000)
    plan = compile_plan([AssertionTask("t", "a", "${a}🚀", Op.Contains)])
    narrow = compile_plan([AssertionTask("t", "a", "${a}!", Op.Contains)])
    record = EvalRecord({"a": "x" * 1_000})

    assert told(evaluate_record(plan, record)) == [(Outcome.ERRORED, Reason.LIMIT)]
    assert told(evaluate_record(narrow, record)) == [(Outcome.FAILED, None)]


def test_what_is_refused_takes_nothing_so_that_smaller_tasks_are_judged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """4,000 items of which a key is read cost 1,000 steps, 4 of them one."""
    monkeypatch.setattr(meter, "MAX_RECORD_STEPS", 2_500)
    large = [AssertionTask(f"t{at}", "a[*].n", True, Op.IsArray) for at in range(5)]
    small = [AssertionTask(f"s{at}", "b[*].n", True, Op.IsArray) for at in range(5)]
    record = EvalRecord({"a": [{"n": 1}] * 4_000, "b": [{"n": 1}] * 4})

    result = evaluate_record(compile_plan([*large, *small]), record)

    passed, limited = (Outcome.PASSED, None), (Outcome.ERRORED, Reason.LIMIT)
    assert told(result) == [passed] * 2 + [limited] * 3 + [passed] * 5
    assert "2,500 steps" in result.tasks[3].message


PATHS = ("a[*]", "a[0:]", "a[*].n", "a[*][*]", "a[*].n[*]", "[*][*]", "$..n", "$.a[?@.n == 1]")


@pytest.mark.parametrize("path", PATHS)
def test_every_path_into_a_list_takes_steps_and_memory(path: str) -> None:
    value: Any = {"a": [{"n": [1]} if at % 2 else {"n": 1} for at in range(4_000)]}
    with (record := OneRecord()):
        Path(path.replace("a[*].n[*]", "a[1:4000:2].n[*]")).get(value)
        assert MAX_RECORD_STEPS - record.steps_left >= 4_000 // 16
        assert MAX_RECORD_BYTES - record.bytes_left >= 8 * (2_000 if "==" in path else 4_000) // 2


LARGE: dict[str, Any] = {
    "equal": [[1, "a"]] * 50_000,
    "texts": ["a"] * 200_000,
    "text": "x" * 2_000_000,
    "objects": [{"k": at} for at in range(50_000)],
}
COSTLY: list[tuple[str, Op, Any]] = [
    ("equal", Op.DeepEquals, "${equal}"),
    ("equal", Op.Equals, "${equal}"),
    ("equal", Op.SequenceMatches, "${equal}"),
    ("equal", Op.SetEquals, "${equal}"),
    ("equal", Op.ContainsAll, "${equal}"),
    ("equal", Op.ContainsAny, "${objects}"),
    ("equal", Op.ContainsNone, "${objects}"),
    ("equal", Op.HasUniqueItems, True),
    ("equal", Op.Contains, [1, "b"]),
    ("texts", Op.Contains, "b"),
    ("texts", Op.NotEqual, "b"),
    ("texts", Op.StartsWith, "a"),
    ("texts", Op.Matches, "^a"),
    ("texts", Op.IsAlphabetic, True),
    ("texts", Op.ContainsWord, "a"),
    ("texts", Op.SimilarityAtLeast, ["a", 0.5]),
    ("text", Op.Contains, "y"),
    ("text", Op.ContainsWord, "y"),
    ("objects", Op.DeepEquals, "${objects}"),
    ("objects[*].k", Op.LessThan, 50_000),
    ("objects[*].k", Op.WithinAbsoluteTolerance, [0, 50_000]),
]


@pytest.mark.parametrize(("path", "operator", "expected"), COSTLY)
def test_every_comparison_of_what_is_large_takes_steps(
    path: str, operator: Op, expected: Any
) -> None:
    """So that no number of tasks can do it without end."""
    task = AssertionTask("t", path, expected, operator)
    plan = compile_plan([task] + [task.model_copy(update={"id": f"t{n}"}) for n in range(3)])
    taken: list[int] = []

    def run(*given: Any) -> object:
        with (record := OneRecord()):
            result = plan.runs[0](*given)
            taken.append(MAX_RECORD_STEPS - record.steps_left)
        return result

    run(LARGE, None, LARGE)

    assert taken[0] >= 500


def test_names_and_keys_as_large_as_a_record_stay_out_of_messages() -> None:
    """256 tasks that said the key would make 256 copies of it."""
    tasks = [AssertionTask(f"t{at}", "nope", 1, Op.Equals) for at in range(256)]
    spread = AssertionTask("spread", "[*].nope", 1, Op.Equals)
    record = EvalRecord({"k" * _MEBI: {"m" * _MEBI: 1}})
    found: list[RecordResult] = []

    peak = peak_of(lambda: found.append(evaluate_record(compile_plan([*tasks, spread]), record)))

    assert all(task.reason is Reason.MISSING_PATH for task in found[0].tasks)
    assert all(len(task.message) < 2_100 for task in found[0].tasks)
    assert peak < 6 * _MEBI


def test_a_chain_tells_its_first_fault_once() -> None:
    """Each with all those before it, 256 tasks said 10 MB."""
    first = AssertionTask(id="t0", context_path="nope", operator=Op.Equals, expected_value=1)
    rest = [
        AssertionTask(
            id=f"t{at}", context_path="a", operator=Op.Equals, expected_value=1,
            depends_on=[f"t{at - 1}"],
        )
        for at in range(1, 256)
    ]  # fmt: skip
    result = evaluate_record(compile_plan([first, *rest]), EvalRecord({"a": 1}))

    assert result.tasks[1].message == (
        "the task 't0' that it depends on errored: path 'nope': no nope at the top level; the "
        "keys there are 'a'"
    )
    assert {task.message for task in result.tasks[2:]} == {result.tasks[1].message}


def test_a_response_that_is_none_is_looked_through_once() -> None:
    """Each of 200 tasks would read 100 kB of JSON in every format."""
    text = json.dumps([{"n": 1}] * 12_500)
    tasks = [
        AgentAssertionTask(
            id=f"t{at}", assertion=AgentAssertion.tool_called("x"), operator=Op.Equals,
            expected_value=True, context_path="a",
        )
        for at in range(200)
    ]  # fmt: skip
    calls = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event == "call"

    plan, record = compile_plan(tasks), EvalRecord({"a": text})
    sys.setprofile(count)
    try:
        result = evaluate_record(plan, record)
    finally:
        sys.setprofile(None)

    assert {task.reason for task in result.tasks} == {Reason.PARSE}
    assert calls < 500_000


def test_a_record_that_asks_a_judge_in_between_has_no_second_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another record, and work for none, may come in between."""
    monkeypatch.setattr(meter, "MAX_RECORD_STEPS", 10)
    one, other = OneRecord(), OneRecord()
    schemas = RecordMeter(5, "too many")
    with one:
        charge(8)
        schemas.restart()
        schemas.spend(4)
        schemas.pause()
    with other:
        charge(9)
        schemas.restart()
        schemas.spend(5)
        schemas.pause()
    charge(9)  # for no record: each stands alone
    charge(9)
    with one:
        assert steps_left() == 2
        with pytest.raises(TaskFault, match="10 steps"):
            charge(3)
        charge(2)
        with pytest.raises(TaskFault):
            charge_done(1)
        schemas.restart()
        with pytest.raises(TaskFault, match="too many"):
            schemas.spend(2)


def test_many_records_have_a_part_of_a_budget_and_are_then_judged_alone() -> None:
    with ManyRecords(), pytest.raises(SpentTogether):
        charge(MAX_RECORD_STEPS // 5 + 1)
    with ManyRecords(), pytest.raises(SpentTogether):
        charge(0, held=MAX_RECORD_BYTES // 5 + 1)
    with ManyRecords(), pytest.raises(SpentTogether):
        charge_done(MAX_RECORD_STEPS)


def test_counting_ends_where_nothing_is_left() -> None:
    shared: Any = [0] * 1_000
    assert weight([shared] * 10) == 10_010
    assert 50 < weight([shared] * 10_000_000, 50) <= 10_000_000


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.sampled_from(["", "a", "ab", "a@b.cd", "1"]),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.sampled_from("abn"), inner),
    max_leaves=12,
)
EXPECTED: st.SearchStrategy[Any] = VALUES | st.sampled_from(
    ["${a}", "${a}x${b}", ["${a}", "${b}"], {"k": "${$..n}"}, "${a[*]}!", "${nope}"]
)
CONTAINMENT = {
    Op.Contains, Op.NotContains, Op.StartsWith, Op.EndsWith, Op.ContainsAll, Op.ContainsAny,
    Op.ContainsNone,
}  # fmt: skip
"""Of nothing they are refused: no plan is built."""
TASKS: st.SearchStrategy[list[tuple[str | None, Op, Any]]] = st.lists(
    st.tuples(
        st.sampled_from([None, "a", "b", "a[*]", "a[*].n", "b[*][*]", "$..n", "$.a[?@.n == $.b]"]),
        st.sampled_from(sorted(set(Op) - {Op.Matches, Op.MatchesRegex, Op.MatchesJsonSchema})),
        EXPECTED,
    ).filter(lambda task: task[2] not in ("", []) or task[1] not in CONTAINMENT),
    min_size=1,
    max_size=8,
)


@settings(max_examples=examples(150))
@given(
    TASKS,
    st.lists(st.fixed_dictionaries({"a": VALUES, "b": VALUES}), min_size=1, max_size=4),
    st.integers(0, 60),
    st.integers(0, 600),
)
def test_a_bound_changes_an_outcome_to_nothing_but_errored_limit(
    wanted: list[tuple[str | None, Op, Any]], contexts: list[Any], steps: int, size: int
) -> None:
    """And records that are judged together come out as each alone."""
    tasks = [
        AssertionTask(f"t{at}", path, expected, operator)
        for at, (path, operator, expected) in enumerate(wanted)
    ]
    plan = compile_plan(tasks)
    records = [EvalRecord(context) for context in contexts]
    free = [told(evaluate_record(plan, record)) for record in records]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meter, "MAX_RECORD_STEPS", steps)
        patch.setattr(meter, "MAX_RECORD_BYTES", size)
        bound = [told(evaluate_record(plan, record)) for record in records]
        assert list(map(told, evaluate_batch(plan, records, {}))) == bound
        assert list(map(told, evaluate_in_turn(plan, records, {}))) == bound

    limited = (Outcome.ERRORED, Reason.LIMIT)
    for before, after in zip(free, bound, strict=True):
        assert all(new in (old, limited) for old, new in zip(before, after, strict=True))


def test_what_paths_make_of_a_small_context_is_not_written_whole() -> None:
    """60 levels around a text of 200 kB: `$..*` finds it 60 times over, 12 MB as JSON."""
    value: Any = "x" * 200_000
    for _ in range(60):
        value = {"a": value}
    path = Path("$..*")

    with pytest.raises(TaskFault, match="more than 10,000,000") as caught:
        fill(path, value, 1_000)
    result = evaluate_record(
        compile_plan([AssertionTask("t", "a", "${$..*}!", Op.NotEqual)]), EvalRecord(value)
    )

    assert caught.value.reason is Reason.LIMIT
    assert told(result) == [(Outcome.ERRORED, Reason.LIMIT)]


def test_a_response_takes_steps_for_what_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused response is counted again for the next task, and that has an end."""
    monkeypatch.setattr(meter, "MAX_RECORD_STEPS", 1_000)
    tasks = [
        AgentAssertionTask(
            id=f"t{at}", assertion=AgentAssertion.tool_called("x"), operator=Op.Equals,
            expected_value=False, context_path=f"r[{at}]",
        )
        for at in range(12)
    ]  # fmt: skip
    answer = {"role": "assistant", "content": "hello"}
    record = EvalRecord({"r": [[answer] * 2_000] * 11 + [[answer]]})

    result = evaluate_record(compile_plan(tasks), record)

    limited = (Outcome.ERRORED, Reason.LIMIT)
    assert told(result) == [limited] * 11 + [(Outcome.PASSED, None)]
