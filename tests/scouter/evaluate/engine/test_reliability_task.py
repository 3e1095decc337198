"""ReliabilityTask: the tools that have to be called, from spans and contexts."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scouter.client.expectation import carry
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_tasks import WireProfileError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.expected_doubts import doubts
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.task import parse_task, parse_tasks
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import TRACE
from tests.scouter.model.genai.test_acts import made
from tests.support.examples import examples


def tool(number: int, name: str, call_id: str | None = None) -> Span:
    """The span of a call; later ones have larger numbers."""
    at = (number * 10, number * 10 + 5)
    given: dict[str, Any] = {} if call_id is None else {"call": call_id}
    return made(number, "tool", name, at=at, **given)


def run(
    task: ReliabilityTask, spans: Sequence[Span], context: object = None, lost: str = ""
) -> EvalTaskResult:
    tree = SpanTree(spans, lost=lost) if spans else None
    record = EvalRecord(context or {}, trace_id=TRACE)
    return evaluate_record(compile_plan([task]), record, tree).tasks[0]


# By hand, in the words of the documentation of Upsonic's evaluator.
MISSING, UNEXPECTED = "Missing expected tool calls: ", "Unexpected tools were called: "
OUT_OF_ORDER: Final = "Tools were not called in the expected order."
ALL_PASSED: Final = "All reliability checks passed."
CASES: Final[list[tuple[str, str, dict[str, Any], str]]] = [
    ("ab", "ba", {}, ALL_PASSED),
    ("ab", "ba", {"order_matters": True}, OUT_OF_ORDER),
    ("ab", "acb", {"order_matters": True}, ALL_PASSED),
    ("ab", "acb", {"exact_match": True}, f"{UNEXPECTED}c."),
    ("ab", "abb", {"exact_match": True}, f"{UNEXPECTED}b."),
    ("aa", "a", {}, f"{MISSING}a."),
    ("ab", "c", {"order_matters": True, "exact_match": True},
     f"{MISSING}a, b. {OUT_OF_ORDER} {UNEXPECTED}c."),
]  # fmt: skip


@pytest.mark.parametrize(("expected", "called", "rules", "message"), CASES)
def test_spans_and_contexts_give_the_same(
    expected: str, called: str, rules: dict[str, Any], message: str
) -> None:
    spans = [tool(number, name) for number, name in enumerate(called, start=1)]
    context = {"made": [{"tool_name": name} for name in called]}
    for task in (
        ReliabilityTask("t", list(expected), **rules),
        ReliabilityTask("t", list(expected), predicted="made", **rules),
    ):
        result = run(task, spans, context)
        assert result.score == (message == ALL_PASSED)
        assert result.passed == (message == ALL_PASSED)
        wanted = "reliability: Equals 1 holds" if result.passed else "reliability is 0.0, expected"
        assert result.message.startswith(wanted)
        assert result.message.endswith(f"; {message}")


def test_a_call_reported_twice_counts_once() -> None:
    """By its span, and by the message of the model that requested it."""
    part: dict[str, Any] = {"type": "tool_call", "id": "c1", "name": "a", "arguments": {}}
    said = json.dumps([{"role": "assistant", "parts": [part]}])
    model = made(1, "model", "m", at=(1, 9), output_messages=said, finish=("tool_calls",))
    once = ReliabilityTask("t", ["a"], exact_match=True)
    assert run(once, [model, tool(2, "a", "c1")]).passed
    twice = [model, tool(2, "a", "c1"), tool(3, "a", "c2")]
    assert run(once, twice).message.endswith(f"{UNEXPECTED}a.")


def test_calls_of_a_session() -> None:
    task = ReliabilityTask("t", ["a", "b"], scope="session")
    spans = [made(1, "tool", "a"), made(2, "tool", "b")]
    dataset = EvalDataset([EvalRecord({}, session_id="s", trace_id=TRACE)], [task], spans)
    assert dataset.evaluate().sessions[0].tasks[0].passed


def test_what_gives_no_score() -> None:
    assert run(ReliabilityTask("t", ["a"]), []).reason == "no_spans"
    assert run(ReliabilityTask("t", ["a"], predicted="gone"), []).reason == "missing_path"
    found = run(ReliabilityTask("t", ["a"], predicted="made"), [], {"made": [{"name": "a"}]})
    assert (found.reason, found.score) == ("type", None)
    assert "'tool_name' must be a text" in found.message


names = st.lists(st.sampled_from("abc"), max_size=4)
rules = st.fixed_dictionaries({"order_matters": st.booleans(), "exact_match": st.booleans()})


@settings(max_examples=examples(150))
@given(st.data(), names.filter(bool), names.filter(bool), rules, st.sampled_from([0, 1]))
def test_no_outcome_that_more_spans_turn(
    data: st.DataObject,
    wanted: list[str],
    called: list[str],
    rules: dict[str, Any],
    expected: int,
) -> None:
    spans = [tool(number, name) for number, name in enumerate(called, start=1)]
    seen = [each for each in spans if data.draw(st.booleans())] or spans[:1]
    task = ReliabilityTask("t", wanted, operator="Equals", expected_value=expected, **rules)
    found = run(task, seen, lost="a span was refused")
    if found.outcome == "errored":
        assert found.reason == "incomplete"
    else:
        assert found.outcome == run(task, spans).outcome


def test_what_more_spans_cannot_turn_stands() -> None:
    seen = [tool(1, "a"), tool(2, "b")]
    for is_ordered in (False, True):
        task = ReliabilityTask("t", ["a", "b"], order_matters=is_ordered)
        assert run(task, seen, lost="lost").passed
    exact = ReliabilityTask("t", ["a", "b"], exact_match=True)
    assert run(exact, seen, lost="lost").reason == "incomplete"


def test_calls_that_nobody_tells_of() -> None:
    """A model requested a call that is not known: what is here may not be all."""
    silent = [
        made(number, "model", "m", at=(number * 10, number * 10 + 9), finish=("tool_calls",))
        for number in (1, 2)
    ]
    spans = [*silent, tool(3, "b")]
    assert run(ReliabilityTask("t", ["b"]), spans).passed
    assert run(ReliabilityTask("t", ["c"]), spans).reason == "not_told"
    assert run(ReliabilityTask("t", ["b"], exact_match=True), spans).reason == "not_told"
    plain = [tool(3, "b"), made(1, "model", "m", at=(10, 19))]
    record = EvalRecord({}, trace_id=TRACE)
    silenced = EvalDataset([record], [ReliabilityTask("t", ["c"])], plain, calls_told_by="nobody")
    assert silenced.evaluate().records[0].tasks[0].reason == "not_told"
    assert run(ReliabilityTask("t", ["c"], calls_told_by="spans"), plain).score == 0


def test_files() -> None:
    fields = {"id": "t", "expected_tool_calls": ["a"], "exact_match": True}
    task = parse_task({"task_type": "Reliability", **fields})
    assert task == ReliabilityTask("t", ["a"], exact_match=True)
    assert parse_tasks({"reliability": [fields]}) == (task,)
    assert parse_task(task.model_dump(mode="json")) == task
    with pytest.raises(ValidationError, match="at least 1 item"):
        parse_task({"task_type": "Reliability", "id": "t", "expected_tool_calls": []})


def test_expected_values_that_tell_nothing() -> None:
    never = ReliabilityTask("t", ["a"], operator="Equals", expected_value=2)
    [(_, doubt)] = doubts([never])
    assert "never passes" in doubt
    assert not list(doubts([ReliabilityTask("t", ["a"])]))


def test_profiles_of_strangers() -> None:
    def wire(count: int) -> bytes:
        task = {"id": "t", "task_type": "Reliability", "expected_tool_calls": ["a"] * count}
        return json.dumps({"alias": "a", "tasks": [task]}).encode()

    assert read_wire_profile(wire(1_000)).tasks
    with pytest.raises(WireProfileError, match="at most 1,000 reference calls"):
        read_wire_profile(wire(1_001))


def test_tasks_of_a_profile_in_scenarios() -> None:
    tasks = [ReliabilityTask("own", ["a"]), ReliabilityTask("in_record", ["a"], predicted="made")]
    assert carry(tasks, ["own", "in_record"], {}, None) == tasks[:1]
