"""Sizes that the tasks of a record may make or look at, with any profile and context."""

import json
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.files.json_text import weight
from scouter.evaluate.judge.prompt_text import fill
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths import json_path, templates
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import MAX_CHARACTERS
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord
from tests.support.examples import examples

_MEBI = 2**20


def outcomes(result: RecordResult) -> list[tuple[Outcome, Reason | None]]:
    return [(task.outcome, task.reason) for task in result.tasks]


def peak_of(work: Callable[[], object]) -> int:
    """Bytes that were in use at the worst moment, beside those before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_texts_that_templates_make_are_bounded() -> None:
    """Each would make 6 MiB of 2 MiB; the small ones among them are judged."""
    tasks: list[Task] = [
        AssertionTask(f"t{at}", "a", "${a}${a}${a}", Op.Contains) for at in range(255)
    ]
    plan = compile_plan([*tasks, AssertionTask("small", "b", "${b}${b}", Op.Contains)])
    record = EvalRecord({"a": "x" * (2 * _MEBI), "b": "yy"})
    found: list[RecordResult] = []

    peak = peak_of(lambda: found.append(evaluate_record(plan, record)))

    limited = (Outcome.ERRORED, Reason.LIMIT)
    assert outcomes(found[0]) == [limited] * 255 + [(Outcome.FAILED, None)]
    assert f"{MAX_CHARACTERS:,} characters" in found[0].tasks[200].message
    assert peak < 2 * _MEBI


def test_a_list_of_one_large_text_a_thousand_times_is_neither_copied_nor_written() -> None:
    """Written out it has 2 GB; compared, shown and stored it is the same text each time."""
    plan = compile_plan([AssertionTask("t", "a", ["${a}"] * 1_000, Op.Equals)])
    record = EvalRecord({"a": "x" * (2 * _MEBI)})
    found: list[str] = []

    peak = peak_of(lambda: found.append(evaluate_record(plan, record).tasks[0].message))

    assert "… (2097152 characters), expected Equals [" in found[0]
    assert len(found[0]) < 500
    assert peak < _MEBI


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
    st.integers(0, 40),
    st.integers(0, 20),
)
def test_a_bound_changes_an_outcome_to_nothing_but_errored_limit(
    wanted: list[tuple[str | None, Op, Any]], contexts: list[Any], looks: int, characters: int
) -> None:
    tasks = [
        AssertionTask(f"t{at}", path, expected, operator)
        for at, (path, operator, expected) in enumerate(wanted)
    ]
    plan = compile_plan(tasks)
    records = [EvalRecord(context) for context in contexts]
    free = [outcomes(evaluate_record(plan, record)) for record in records]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_path, "MAX_LOOKS", looks)
        patch.setattr(templates, "MAX_CHARACTERS", characters)
        bound = [outcomes(evaluate_record(plan, record)) for record in records]

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
    assert outcomes(result) == [(Outcome.ERRORED, Reason.LIMIT)]


@pytest.mark.parametrize(
    ("large", "words"),
    [
        ([{"role": "assistant", "content": "hello"}] * 200_000, "more than 500,000 values"),
        (json.dumps([{"n": 1}] * 130_000), "more than 1,000,000 characters of JSON in a text"),
        ([json.dumps(["x" * 1_000])] * 1_000, "more than 1,000,000 characters of JSON in its"),
    ],
    ids=["values", "text", "texts"],
)
def test_a_response_that_is_too_large_is_not_looked_through(large: Any, words: str) -> None:
    tasks = [
        AgentAssertionTask(
            id=f"t{at}", assertion=AgentAssertion.tool_called("x"), operator=Op.Equals,
            expected_value=False, context_path=f"r[{at}]",
        )
        for at in range(2)
    ]  # fmt: skip
    record = EvalRecord({"r": [large, {"role": "assistant", "content": "hello"}]})

    result = evaluate_record(compile_plan(tasks), record)

    assert outcomes(result) == [(Outcome.ERRORED, Reason.LIMIT), (Outcome.PASSED, None)]
    assert words in result.tasks[0].message
