"""Plans: what is refused, in which order tasks run, and that errors stay with their task."""

import datetime
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord


def check(id: str, path: str | None, expected: object, operator: Op = Op.Equals, *after: str,
          gate: bool = False) -> AssertionTask:  # fmt: skip
    return AssertionTask(id, path, expected, operator, depends_on=after, condition=gate)


def run(tasks: list[AssertionTask], context: object) -> RecordResult:
    return evaluate_record(compile_plan(tasks), EvalRecord(context))


def outcomes(result: RecordResult) -> dict[str, str]:
    return {t.task_id: f"{t.outcome}:{t.reason}" if t.reason else t.outcome for t in result.tasks}


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ([], "no tasks"),
        ([check("a", "x", 1), check("A", "x", 1)], r"tasks\[1\].*'a'.*tasks\[0\]"),
        ([check("a", "x", 1, Op.Equals, "b")], "'a'.*'b'"),
        ([check("a", "x", 1, Op.Equals, "A")], "'a'.*the task itself"),
        (
            [check("a", "x", 1, Op.Equals, "b"), check("b", "x", 1, Op.Equals, "a")],
            "circle: 'a' → 'b' → 'a'",
        ),
        ([check("a", "x..y", 1)], "'a'.*x..y"),
        ([check("a", "x", "${y")], "'a'.*template"),
        ([check("a", "x", "[", Op.Matches)], "'a'.*regular expression"),
    ],
)
def test_refused_when_built(tasks: list[Task], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        compile_plan(tasks)


def test_a_cycle_behind_other_tasks_is_named_without_them() -> None:
    tasks = [
        check("z", "x", 1, Op.Equals, "b"),
        check("b", "x", 1, Op.Equals, "c"),
        check("c", "x", 1, Op.Equals, "b"),
        check("ok", "x", 1),
    ]
    with pytest.raises(ConfigError, match="circle: 'b' → 'c' → 'b'"):
        compile_plan(tasks)


def test_stages_and_result_order() -> None:
    tasks = [
        check("last", "x", 1, Op.Equals, "mid", "first"),
        check("mid", "x", 1, Op.Equals, "FIRST"),
        check("first", "x", 1),
        check("free", "x", 1),
    ]
    plan = compile_plan(tasks)

    assert plan.stages == (("first", "free"), ("mid",), ("last",))
    result = evaluate_record(plan, EvalRecord({"x": 1}))
    assert [t.task_id for t in result.tasks] == ["last", "mid", "first", "free"]
    assert [t.stage for t in result.tasks] == [2, 1, 0, 0]
    assert result.outcome is Outcome.PASSED


def test_dependents_read_actual_values() -> None:
    tasks = [
        check("total", "order.total", 0, Op.GreaterThan),
        check("length", "order.items", 2, Op.HasLengthEqual),
        check("same", "total", "${order.total}", Op.Equals, "total"),
        check("count", "length", 2, Op.Equals, "length"),
        check("undeclared", "total", 0, Op.GreaterThan),
    ]
    result = run(tasks, {"order": {"total": 7, "items": [1, 2]}})

    assert outcomes(result) == {
        "total": "passed",
        "length": "passed",
        "same": "passed",
        "count": "passed",
        "undeclared": "errored:missing_path",
    }


def test_a_context_that_is_no_object_is_wrapped_for_dependents() -> None:
    tasks = [check("first", None, "hi"), check("then", "context", "${first}", Op.Equals, "first")]
    assert outcomes(run(tasks, "hi")) == {"first": "passed", "then": "passed"}


def test_gates_skip_what_is_behind_them() -> None:
    tasks = [
        check("gate", "kind", "order", gate=True),
        check("a", "total", 5, Op.GreaterThan, "gate"),
        check("b", "total", 5, Op.GreaterThan, "a"),
        check("other", "total", 1, Op.Equals),
    ]
    closed = run(tasks, {"kind": "chat", "total": 9})
    assert outcomes(closed) == {
        "gate": "failed",
        "a": "skipped:gate",
        "b": "skipped:gate",
        "other": "failed",
    }
    assert closed["a"].message.startswith("skipped, as the gate 'gate' did not pass: 'kind' is")
    assert "'a'" in closed["b"].message

    opened = run(tasks, {"kind": "order", "total": 9})
    assert outcomes(opened) == {"gate": "passed", "a": "passed", "b": "passed", "other": "failed"}


def test_an_errored_gate_is_closed_and_an_errored_dependency_errs() -> None:
    tasks = [
        check("gate", "missing", 1, gate=True),
        check("behind", "x", 1, Op.Equals, "gate"),
        check("broken", "missing", 1),
        check("reader", "x", "${broken}", Op.Equals, "broken"),
        check("waiter", "x", 1, Op.Equals, "broken"),
        check("both", "x", 1, Op.Equals, "broken", "gate"),
        check("failed", "x", 2),
        check("after_failed", "failed", 1, Op.Equals, "failed"),
    ]
    result = run(tasks, {"x": 1})
    assert outcomes(result) == {
        "gate": "errored:missing_path",
        "behind": "skipped:gate",
        "broken": "errored:missing_path",
        "reader": "errored:dependency",
        "waiter": "errored:dependency",
        "both": "skipped:gate",
        "failed": "failed",
        "after_failed": "passed",
    }
    assert "no missing at the top level" in result["waiter"].message
    assert result.outcome is Outcome.FAILED


def test_one_tasks_error_touches_no_other() -> None:
    """Every way to err, between two tasks that pass."""
    tasks: list[Task] = [
        check("first", "x", 1),
        check("path", "no.where", 1),
        check("type", "x", 1, Op.HasLengthEqual),
        check("expected", "x", "y", Op.GreaterThan),
        check("template", "x", "${no.where}"),
        TraceAssertionTask("trace", TraceAssertion.trace_span_count(), 1, Op.Equals),
        AgentAssertionTask("agent", AgentAssertion.tool_called("t"), True, Op.Equals),
        AgentAssertionTask(
            "spans", AgentAssertion.tool_called("t"), True, Op.Equals, source="spans"
        ),
        check("last", "x", 1),
    ]
    result = evaluate_record(compile_plan(tasks), EvalRecord({"x": 1}))
    assert outcomes(result) == {
        "first": "passed",
        "path": "errored:missing_path",
        "type": "errored:type",
        "expected": "errored:expected",
        "template": "errored:expected",
        "trace": "errored:no_spans",
        "agent": "errored:parse",
        "spans": "errored:no_spans",
        "last": "passed",
    }
    assert all(task.message for task in result.tasks)


def test_item_context_path() -> None:
    def items(operator: Op, expected: object) -> AssertionTask:
        return AssertionTask("t", "items", expected, operator, item_context_path="price.net")

    context = {"items": [{"price": {"net": 3}}, {"price": {"net": 5}}]}
    passed = run([items(Op.LessThan, 6)], context).tasks[0]
    assert (passed.outcome, passed.actual) == ("passed", [3, 5])
    failed = run([items(Op.LessThan, 5)], context).tasks[0]
    assert failed.message == "'items': item 1 of 2 is 5, expected LessThan 5"
    whole = run([items(Op.HasLengthEqual, 2)], context).tasks[0]
    assert (whole.outcome, whole.actual) == ("passed", 2)
    broken = run([items(Op.LessThan, 6)], {"items": [{"price": 4}]}).tasks[0]
    assert broken.reason is Reason.MISSING_PATH
    empty = run([items(Op.LessThan, 6)], {"items": []}).tasks[0]
    assert empty.outcome is Outcome.FAILED


class _Order(BaseModel):
    total: float
    placed: datetime.date


def test_contexts_are_read_by_the_rule_of_json_values() -> None:
    """Models, dates, tuples, sets and NaN, in a record that was not inserted anywhere."""
    context = {
        "order": _Order(total=2.5, placed=datetime.date(2024, 2, 29)),
        "pair": (1, 2),
        "tags": {"b", "a"},
        "nan": float("nan"),
        "big": 10**30,
    }
    tasks = [
        check("total", "order.total", 2.5),
        check("placed", "order.placed", True, Op.IsIso8601),
        check("pair", "pair", [1, 2]),
        check("tags", "tags", ["a", "b"]),
        check("nan", "nan", None, Op.IsNull),
        check("big", "big", 10**30),
    ]
    record = EvalRecord(context)
    result = evaluate_record(compile_plan(tasks), record)
    assert set(outcomes(result).values()) == {"passed"}
    assert not record.is_frozen
    assert record.context is context  # type: ignore[comparison-overlap]


def test_a_context_without_json_form_errs_every_task() -> None:
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    for context in ({"x": object()}, cycle, {(1, 2): 3}):
        result = run([check("a", "x", 1), check("b", "y", 1)], context)
        assert outcomes(result) == {"a": "errored:type", "b": "errored:type"}
        assert "no JSON form" in result.tasks[0].message


def test_frozen_and_open_records_give_the_same() -> None:
    tasks = [check("a", "x.y[0]", 1), check("b", "x", {"y": [1, 2.0]})]
    record = EvalRecord({"x": {"y": (1, 2)}})
    before = evaluate_record(compile_plan(tasks), record)
    record.freeze()
    after = evaluate_record(compile_plan(tasks), record)
    assert before.tasks == after.tasks


@given(st.integers(0, 2**32), st.lists(st.integers(0, 3), min_size=7, max_size=7))
def test_the_order_of_tasks_changes_no_result(seed: int, values: list[int]) -> None:
    """A random graph over seven tasks, gates among them, given in another order."""
    rng = random.Random(seed)
    tasks: list[AssertionTask] = []
    for at in range(7):
        after = [f"t{i}" for i in range(at) if rng.random() < 0.3]
        path = f"v{at}" if rng.random() < 0.85 else "missing"
        tasks.append(check(f"t{at}", path, 1, Op.GreaterThan, *after, gate=rng.random() < 0.4))
    context = {f"v{at}": value for at, value in enumerate(values)}
    shuffled = rng.sample(tasks, len(tasks))

    one, other = run(tasks, context), run(shuffled, context)

    assert {t.task_id: t for t in one.tasks} == {t.task_id: t for t in other.tasks}
    assert one.outcome is other.outcome


def test_a_fault_of_ours_stays_with_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that nobody thought of becomes that task's result, and names itself."""

    def explode(*_: object) -> bool:
        raise ZeroDivisionError("boom")

    monkeypatch.setattr("scouter.evaluate.operators.values.deep_equal", explode)
    result = run([check("a", "x", [1]), check("b", "x", 1, Op.HasLengthEqual)], {"x": [1]})
    assert outcomes(result) == {"a": "errored:type", "b": "passed"}
    assert result["a"].message == "'x': the task could not be run: ZeroDivisionError: boom"
    assert result["a"].actual == [1]


def test_length_with_a_template_and_a_wrong_expected_value() -> None:
    tasks = [
        check("n", "x", "${n}", Op.HasLengthEqual),
        check("bad", "x", "${name}", Op.HasLengthEqual),
        check("const", "x", "3", Op.HasLengthEqual),
    ]
    result = run(tasks, {"x": [1, 2], "n": 2, "name": "y"})
    assert outcomes(result) == {
        "n": "passed",
        "bad": "errored:expected",
        "const": "errored:expected",
    }
    assert result["n"].actual == 2
