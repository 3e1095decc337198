"""TrajectoryTask: one outcome from spans and contexts, and none that missing spans could turn."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from scouter.client.expectation import carry
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.drift.wire_tasks import WireProfileError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.expected_doubts import doubts
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.task import parse_task
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.matching import Matcher
from scouter.evaluate.trajectory.rules import AgreesByPath
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import TRACE
from tests.scouter.model.genai.test_acts import made
from tests.support.examples import examples

METRICS: Final = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")


def call(name: str, **given: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given}


def tool(number: int, name: str, **given: Any) -> Span:
    """The span of a call; later ones have larger numbers."""
    at = (number * 10, number * 10 + 5)
    return made(number, "tool", name, at=at, args=json.dumps(given))


def run(
    task: TrajectoryTask, context: object, spans: Sequence[Span] = (), lost: str = ""
) -> EvalTaskResult:
    tree = SpanTree(spans, lost=lost) if spans else None
    record = EvalRecord(context, trace_id=TRACE)
    return evaluate_record(compile_plan([task]), record, tree).tasks[0]


REFERENCE: Final = [call("a", x=1), call("b")]


@pytest.mark.parametrize(
    ("metric", "score"),
    [*zip(METRICS, [0.0, 0.0, 1.0, 2 / 3, 1.0], strict=True)],
)
@pytest.mark.parametrize("prefix", ["", "trajectory_"])
def test_spans_and_contexts_give_the_same(metric: str, score: float, prefix: str) -> None:
    spans = [tool(1, "b"), tool(2, "c"), tool(3, "a", x=1.0)]
    calls = [call("b"), call("c"), call("a", x=1)]
    context = {"want": REFERENCE, "made": {"calls": calls}}
    name = prefix + metric
    for task in (
        TrajectoryTask("t", name, REFERENCE),
        TrajectoryTask("t", name, "want"),
        TrajectoryTask("t", name, "want", predicted="made.calls"),
    ):
        result = run(task, context, spans)
        assert (result.score, result.passed) == (pytest.approx(score), score == 1)
        assert result.actual == result.score


def test_the_message_names_what_differs() -> None:
    result = run(TrajectoryTask("t", "precision", REFERENCE), {}, [tool(1, "a", x=2), tool(2, "b")])
    assert result.message == (
        "trajectory_precision is 0.5, expected Equals 1; 1 of 2 calls were expected, 1 of 2 "
        'expected calls were made; ~ a({"x": 2}), expected {"x": 1} (x)'
    )
    assert result.span_ids == (f"{1:016x}", f"{2:016x}")


@pytest.mark.parametrize(
    ("operator", "expected", "outcome"),
    [
        ("GreaterThanOrEqual", 0.5, "passed"),
        ("GreaterThan", 0.5, "failed"),
        ("Equals", 0.5, "passed"),
    ],
)
def test_the_score_is_compared(operator: str, expected: float, outcome: str) -> None:
    task = TrajectoryTask("t", "recall", REFERENCE, operator=operator, expected_value=expected)
    assert run(task, {}, [tool(1, "b")]).outcome == outcome


def test_one_tool() -> None:
    task = TrajectoryTask("t", "single_tool_use", tool_name="b")
    assert run(task, {}, [tool(1, "b", x=1)]).passed
    assert run(task, {}, [tool(1, "a")]).score == 0


def test_rules_of_a_file() -> None:
    task = parse_task(
        {
            "id": "t",
            "task_type": "Trajectory",
            "metric": "exact_match",
            "reference": [[call("a", x=1), call("b", y="Oslo")]],
            "rules": {"tools": {"a": "ignore", "b": {"keys": {"y": {"fuzzy": 0.8}}}}},
        }
    )
    assert isinstance(task, TrajectoryTask)
    assert run(task, {}, [tool(1, "b", y="Osl"), tool(2, "a")]).passed
    assert parse_task(task.model_dump(mode="json")) == task


FAULTS: Final[list[tuple[TrajectoryTask, Any, str, str]]] = [
    (TrajectoryTask("t", "recall", REFERENCE), {}, "no_spans", "no spans"),
    (TrajectoryTask("t", "recall"), {"made": []}, "missing_path", "expected_trajectory"),
    (TrajectoryTask("t", "recall", predicted="gone"), {}, "missing_path", "gone"),
    (
        TrajectoryTask("t", "recall", "want", predicted="made"),
        {"want": [{}], "made": []},
        "type",
        r"reference_trajectory\[0\]: 'tool_name' must be a text",
    ),
    (
        TrajectoryTask("t", "recall", "want", predicted="made", rules={"empty": "error"}),
        {"want": [], "made": []},
        "type",
        "is empty",
    ),
]


@pytest.mark.parametrize(("task", "context", "reason", "message"), FAULTS)
def test_what_gives_no_score(
    task: TrajectoryTask, context: object, reason: str, message: str
) -> None:
    spans = [] if reason == "no_spans" else [tool(1, "a")]
    result = run(task, context, spans)
    assert (result.outcome, result.reason, result.score) == ("errored", reason, None)
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(result.message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metric": "precise"}, "metric"),
        ({"metric": "single_tool_use"}, "single_tool_use needs one"),
        ({"metric": "recall", "tool_name": "a"}, "no other metric has one"),
        ({"metric": "recall", "rules": {"empty": "skip"}}, "expected score or error"),
        ({"metric": "recall", "reference": [{"name": "a"}]}, "'tool_name' must be a text"),
    ],
)
def test_tasks_that_are_wrong(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse_task({"id": "t", "task_type": "Trajectory", **fields})


# --- what is not known ----------------------------------------------------------------------------

names = st.lists(st.sampled_from("ab"), max_size=4)
compared = st.sampled_from(
    [("Equals", 1), ("Equals", 0), ("GreaterThanOrEqual", 0.5), ("LessThan", 0.5)]
)


@settings(max_examples=examples(150))
@given(
    st.data(), names, names.filter(bool), st.sampled_from([*METRICS, "single_tool_use"]), compared
)
def test_no_outcome_that_more_spans_turn(
    data: st.DataObject,
    wanted: list[str],
    all_calls: list[str],
    metric: str,
    comparison: tuple[str, float],
) -> None:
    spans = [tool(number, name) for number, name in enumerate(all_calls, start=1)]
    seen = [each for each in spans if data.draw(st.booleans())] or spans[:1]
    one = metric == "single_tool_use"
    task = TrajectoryTask(
        "t",
        metric,
        [call(name) for name in wanted],
        tool_name="b" if one else None,
        operator=comparison[0],
        expected_value=comparison[1],
    )
    found = run(task, {}, seen, lost="a span was refused")
    assert found.outcome == "errored" or found.outcome == run(task, {}, spans).outcome
    assert found.outcome != "errored" or found.reason == "incomplete"


@settings(max_examples=examples(150))
@given(
    st.data(),
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 20), st.booleans()), min_size=1, max_size=4
    ),
    names,
)
def test_no_step_that_more_spans_turn(
    data: st.DataObject, made_calls: list[tuple[str, int, bool]], wanted: list[str]
) -> None:
    """Executions that overlap, and models that ask for them one by one, of which some are lost."""
    spans: list[Span] = []
    for number, (name, length, is_requested) in enumerate(made_calls):
        if is_requested:
            parts: list[dict[str, Any]] = [
                {"type": "tool_call", "id": f"c{number}", "name": name, "arguments": {}}
            ]
            message = json.dumps([{"role": "assistant", "parts": parts}])
            at = (number * 10, number * 10 + 1)
            spans.append(made(100 + number, "model", "m", 1, at, output_messages=message))
        at = (number * 10 + 2, number * 10 + 2 + length)
        given_id = {"call": f"c{number}"} if is_requested else {}
        spans.append(made(200 + number, "tool", name, 1, at, args="{}", **given_id))
    seen = [each for each in spans if data.draw(st.booleans())] or spans[:1]
    task = TrajectoryTask("t", "in_order_match", [call(name) for name in wanted])
    found = run(task, {}, seen, lost="a span was refused")
    assert found.outcome == "errored" or found.outcome == run(task, {}, spans).outcome


def test_a_step_that_only_overlapping_tells() -> None:
    """By hand: b began before a, at the same time; two models may have requested them."""
    overlapping = [made(2, "tool", "b", 1, (0, 5)), made(3, "tool", "a", 1, (1, 5), args='{"x":1}')]
    task = TrajectoryTask("t", "in_order_match", REFERENCE)
    assert run(task, {}, overlapping).passed
    assert run(task, {}, overlapping, lost="a span was refused").reason == "incomplete"
    behind = [overlapping[0], made(3, "tool", "a", 1, (5, 9), args='{"x":1}')]
    assert run(task, {}, behind).outcome == "failed"


def test_vertex_knows_no_steps() -> None:
    overlapping = [made(2, "tool", "b", 1, (0, 5)), made(3, "tool", "a", 1, (1, 5), args='{"x":1}')]
    rules = {"compat": "vertex"}
    assert (
        run(TrajectoryTask("t", "in_order_match", REFERENCE, rules=rules), {}, overlapping).score
        == 0
    )
    assert run(TrajectoryTask("t", "recall", REFERENCE, rules=rules), {}, overlapping).score == 1


def test_a_message_that_comes_may_add_an_argument() -> None:
    """The execution reports x alone; the model requested y as well."""
    part = {"type": "tool_call", "name": "a", "arguments": {"x": 1, "y": 2}}
    messages = json.dumps([{"role": "assistant", "parts": [part]}])
    model = made(1, "model", "m", None, (0, 1), output_messages=messages)
    executed = made(2, "tool", "a", None, (2, 3), args='{"x": 1}')
    task = TrajectoryTask("t", "recall", [{"tool_name": "a", "tool_input": {"x": 1}}])
    assert run(task, {}, [model, executed]).score == 0
    assert run(task, {}, [executed], lost="a span was refused").reason == "incomplete"


def test_what_more_spans_cannot_turn_stands() -> None:
    seen = [tool(1, "a", x=1), tool(2, "b")]
    for metric in ("in_order_match", "any_order_match", "recall"):
        for rules in ("superset", "ignore"):
            task = TrajectoryTask("t", metric, REFERENCE, rules={"arguments": rules})
            assert run(task, {}, seen, lost="lost").passed
    for metric in ("exact_match", "precision"):
        assert (
            run(TrajectoryTask("t", metric, REFERENCE), {}, seen, lost="lost").reason
            == "incomplete"
        )


def test_calls_that_nobody_tells_of() -> None:
    """A model requested a call that is not known: what is here may not be all."""
    silent = made(1, "model", "m", at=(10, 19), finish=("tool_calls",))
    spans = [silent, made(2, "model", "m", at=(20, 29), finish=("tool_calls",)), tool(3, "b")]
    wanted = [call("b")]
    assert run(TrajectoryTask("t", "recall", wanted), {}, spans).passed
    found = run(TrajectoryTask("t", "precision", wanted), {}, spans)
    assert (found.outcome, found.reason, found.actual) == ("errored", "not_told", 1.0)
    settled = TrajectoryTask("t", "precision", [call("c")], calls_told_by="spans")
    dataset = EvalDataset(
        [EvalRecord({}, trace_id=TRACE)],
        [TrajectoryTask("t", "precision", wanted)],
        [tool(3, "b"), made(1, "model", "m", at=(10, 19))],
        calls_told_by="nobody",
    )
    assert dataset.evaluate().records[0].tasks[0].reason == "not_told"
    assert run(settled, {}, [tool(3, "b"), made(1, "model", "m", at=(10, 19))]).score == 0


UNTOLD: Final = {
    "left out": None,
    "masked": "[REDACTED]",
    "a masked value": '{"x": "***"}',
    "cut": '{"x": 1, "no',
}


@pytest.mark.parametrize("given", UNTOLD.values(), ids=UNTOLD)
@pytest.mark.parametrize(
    ("metric", "reference", "rules", "ending"),
    [
        pytest.param("exact_match", [call("a", x=1)], {}, "errored:not_told", id="may agree"),
        pytest.param("precision", [call("a", x=1)], {}, "errored:not_told", id="precision"),
        pytest.param("recall", [call("a", x=1)], {}, "errored:not_told", id="recall"),
        pytest.param("in_order_match", [call("a", x=1)], {"arguments": "subset"},
                     "errored:not_told", id="may have one too many"),
        pytest.param("exact_match", [call("a", x=1)], {"arguments": "ignore"}, "passed",
                     id="nobody looks"),
        pytest.param("exact_match", [call("b", x=1)], {}, "failed", id="another tool"),
        pytest.param("exact_match", [call("a", x=1), call("b")], {}, "failed", id="one is missing"),
    ],
)  # fmt: skip
def test_arguments_that_nobody_tells(
    given: str | None, metric: Any, reference: Any, rules: Any, ending: str
) -> None:
    """Kind: what an instrumentor leaves out, masks or cuts is taken for a wrong argument."""
    spans = [made(1, "tool", "a", at=(0, 5), args=given)]
    task = TrajectoryTask("t", metric, reference, rules=rules)

    result = run(task, {}, spans)
    assert ":".join(filter(None, (result.outcome, result.reason))) == ending, result.message


def test_a_call_that_tells_nothing_agrees_with_one_that_expects_nothing() -> None:
    """Many instrumentors leave out what is empty."""
    spans = [made(1, "tool", "a", at=(0, 5))]
    assert run(TrajectoryTask("t", "exact_match", [{"tool_name": "a"}]), {}, spans).passed


@pytest.mark.parametrize(
    "task",
    [
        TrajectoryTask("t", "recall", [call("a")]),
        TrajectoryTask("t", "single_tool_use", tool_name="a"),
        ReliabilityTask("t", ["a"]),
    ],
)
def test_a_tool_that_nobody_names(task: Any) -> None:
    """Kind: a masked name is taken for that of another tool."""
    result = run(task, {}, [made(1, "tool", "[REDACTED]", at=(0, 5))])
    assert (result.outcome, result.reason) == ("errored", "parse")


@pytest.mark.parametrize(
    ("operator", "expected", "doubt"),
    [
        ("Equals", 1, ""),
        ("GreaterThanOrEqual", 0.8, ""),
        ("Equals", 2, "never passes"),
        ("GreaterThanOrEqual", 0, "always passes"),
        ("LessThan", 0, "never passes"),
    ],
)
def test_expected_values_that_tell_nothing(operator: str, expected: float, doubt: str) -> None:
    task = TrajectoryTask("t", "recall", operator=operator, expected_value=expected)
    found = [text for _, text in doubts([task])]
    assert (doubt in found[0]) if doubt else found == []


# --- where tasks come from ------------------------------------------------------------------------


def _wire(reference: list[Any], **rules: Any) -> bytes:
    task = {"id": "t", "task_type": "Trajectory", "metric": "recall", "reference": reference}
    return json.dumps({"alias": "a", "tasks": [{**task, "rules": rules}]}).encode()


@pytest.mark.parametrize(
    ("calls", "rules", "message", "pairs"),
    [
        (1_001, {}, "at most 1,000 reference calls", 0),
        (10_000, {}, "more than 50,000 values", 0),
        (200, {"arguments": "superset"}, "at most 100 assigned calls", 200 * 200),
        (200, {"partial_credit": True}, "at most 100 assigned calls", 200 * 200),
    ],
)
def test_profiles_of_strangers(
    calls: int, rules: dict[str, Any], message: str, pairs: int, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Refused with the limit; a file of one's own runs, and compares no pair of calls twice."""
    reference = [call("a", x=number) for number in range(calls)]
    with pytest.raises(WireProfileError, match=message):
        read_wire_profile(_wire(reference, **rules))
    path = tmp_path / "profile.json"
    path.write_bytes(_wire(reference, **rules))
    tasks = AgentEvalProfile.from_file(path).tasks
    spans = [tool(number, "a", x=calls - number) for number in range(1, calls + 1)]
    compared: list[tuple[int, int]] = []
    agreements = Matcher.agreements

    def counted(matcher: Matcher, predicted: int, expected: int) -> AgreesByPath:
        compared.append((predicted, expected))
        return agreements(matcher, predicted, expected)

    monkeypatch.setattr(Matcher, "agreements", counted)
    (found,) = EvalDataset([EvalRecord({}, trace_id=TRACE)], tasks, spans).evaluate().records
    assert found.tasks[0].score == 1
    assert len(compared) == len(set(compared)) <= pairs


def test_a_pattern_of_a_stranger_is_weighed() -> None:
    with pytest.raises(WireProfileError, match="look-around"):
        read_wire_profile(
            _wire([call("a")], tools={"a": {"keys": {"x": {"pattern": "a"}}}}).replace(
                b'"pattern": "a"', b'"pattern": "(?=a)"'
            )
        )


def test_a_scenario_says_what_it_expects() -> None:
    task = TrajectoryTask("t", "recall")
    plain = EvalScenario("Go", [task])
    scenario = EvalScenario("Go", [task], expected_trajectory=[call("a")])
    assert plain.id == EvalScenario.model_validate(plain.model_dump(exclude={"id"})).id
    assert "expected_trajectory" not in plain.model_dump()
    assert EvalScenario.model_validate_json(scenario.model_dump_json()) == scenario
    assert scenario.id == plain.id  # what is expected can change without being another scenario


def test_tasks_of_a_profile_in_scenarios() -> None:
    """One that reads spans, with its own reference, means the same there; no other does."""
    tasks = [
        TrajectoryTask("own", "recall", REFERENCE),
        TrajectoryTask("of_record", "recall", "want"),
        TrajectoryTask("in_record", "recall", REFERENCE, predicted="made"),
    ]
    assert carry(tasks, ["own", "of_record", "in_record"], {}, None) == tasks[:1]
