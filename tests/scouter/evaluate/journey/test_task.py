"""Journeys as tasks: sessions and records, missing evidence, limits of foreign profiles."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.task import Task, parse_task
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import MS, span
from tests.support.journeys import ANSWER, ASSIGNMENT, GOOD, SCHEDULE, hr, one_tool

FIRST, SECOND = f"{1:032x}", f"{2:032x}"


def chat(id: int, text: str, at: tuple[float, float], trace_id: str) -> Span:
    said = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.output.messages": json.dumps(said),
    }
    return span(id, "chat m", 1, at, attributes, trace=trace_id)


def tool(id: int, call: tuple[str, dict[str, Any]], at: tuple[float, float], trace_id: str) -> Span:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call[0],
        "gen_ai.tool.call.arguments": json.dumps(call[1]),
        "gen_ai.tool.call.result": "ok",
    }
    return span(id, f"execute_tool {call[0]}", 1, at, attributes, trace=trace_id)


def conversation(*, is_early: bool = False) -> list[Span]:
    """Two turns: a question back, then both calls and the answer; or the answer first."""
    return [
        span(1, "turn", None, (0, 20), trace=FIRST),
        chat(2, ANSWER if is_early else "Who are you?", (5, 10), FIRST),
        span(1, "turn", None, (100, 200), trace=SECOND),
        tool(2, ASSIGNMENT, (110, 120), SECOND),
        tool(3, SCHEDULE, (130, 140), SECOND),
        chat(4, "Done." if is_early else ANSWER, (150, 160), SECOND),
    ]


RECORDS = [
    EvalRecord({}, session_id="s", trace_id=trace_id, uid=f"u{at}", created_ns=at * MS)
    for at, trace_id in ((0, FIRST), (100, SECOND))
]


def evaluated(tasks: list[Task], spans: list[Span]) -> EvalResults:
    return EvalDataset(RECORDS, tasks, spans).evaluate()


def only(results: EvalResults) -> Any:
    """The result of the one session-scoped task."""
    (session,) = results.sessions
    (task,) = session.tasks
    return task


def test_a_session_is_one_conversation() -> None:
    good = only(evaluated([JourneyTask("j", hr())], conversation()))
    assert (str(good.outcome), good.score) == ("passed", 1.0)
    assert "every goal is met, in order" in good.message
    early = only(evaluated([JourneyTask("j", hr())], conversation(is_early=True)))
    assert (str(early.outcome), early.score) == ("failed", 0.0)
    assert "has to come before 'summarize'" in early.message


@pytest.mark.parametrize(
    ("measure", "score"),
    [("success", 0.0), ("completion", 2 / 3), ("recall", 0.5), ("precision", 0.5),
     ("parameter_f1", 0.9)],
)  # fmt: skip
def test_measures(measure: Any, score: float) -> None:
    """A call has one of three arguments wrong, so 4 / 5 of it is right; the other call is right."""
    wrong = (SCHEDULE[0], {**SCHEDULE[1], "end_date": "2025-02-28"})
    spans = conversation()
    spans[4] = tool(3, wrong, (130, 140), SECOND)
    task = JourneyTask("j", hr(), measure, operator="GreaterThan", expected_value=0.45)
    found = only(evaluated([task], spans))
    assert found.score == pytest.approx(score)
    assert str(found.outcome) == ("passed" if score > 0.45 else "failed")


def test_one_record_and_messages_of_the_context() -> None:
    task = JourneyTask("j", hr(), messages="chat", scope="record")
    context = {"chat": GOOD}
    (result,) = EvalDataset([EvalRecord(context)], [task]).evaluate().records
    assert result.tasks[0].score == 1.0
    (wrong,) = EvalDataset([EvalRecord({"chat": "hi"})], [task]).evaluate().records
    assert (str(wrong.tasks[0].outcome), str(wrong.tasks[0].reason)) == ("errored", "type")
    assert "expected a list of messages" in wrong.tasks[0].message


def test_missing_evidence_is_no_evidence() -> None:
    """A parent that is not here tells of spans that are not; what is met stands, the rest not."""
    lost = [span(9, "part", 77, (141, 142), trace=SECOND)]
    calls_only = one_tool(ASSIGNMENT[1])
    calls_only["goal_details"][0]["tool_name"] = ASSIGNMENT[0]
    stands = only(evaluated([JourneyTask("j", calls_only)], [*conversation(), *lost]))
    assert (str(stands.outcome), stands.score) == ("passed", 1.0)
    unsure = only(evaluated([JourneyTask("j", hr())], [*conversation(), *lost]))
    assert (str(unsure.outcome), str(unsure.reason), unsure.score) == (
        "errored", "incomplete", None,
    )  # fmt: skip
    nothing = only(evaluated([JourneyTask("j", hr())], []))
    assert str(nothing.reason) == "no_spans"


def test_it_asks_no_model() -> None:
    """A fuzzy value is compared by tokens, the same everywhere."""
    dataset = one_tool({"x": "time off schedule information"}, {"x": "fuzzy"})
    spans = [
        span(1, "turn", None, (100, 200), trace=SECOND),
        tool(2, ("t", {"x": "time off schedule"}), (110, 120), SECOND),
        chat(4, "Done.", (150, 160), SECOND),
    ]
    assert only(evaluated([JourneyTask("j", dataset)], spans)).score == 1.0
    strict = JourneyTask("j", dataset, enable_fuzzy_matching=False)
    assert only(evaluated([strict], spans)).score == 0.0
    asked = hr()
    asked["goal_details"].append({"type": "assert_llm", "kind": "policy", "check": "is polite"})
    with pytest.raises(ValidationError, match="use an LLMJudge task"):
        JourneyTask("j", asked)


def test_a_wrong_dataset_is_refused_with_its_place() -> None:
    with pytest.raises(ValidationError, match=r"goals\.summarize: 'x' is no list"):
        JourneyTask("j", hr(goals={**hr()["goals"], "summarize": "x"}))


def test_it_is_read_as_it_is_written() -> None:
    task = JourneyTask("j", hr(), "recall", operator="GreaterThan", expected_value=0.5)
    assert parse_task(task.model_dump(mode="json")) == task


def test_a_scenario_has_it_by_record() -> None:
    with pytest.raises(ConfigError, match="has the scope session"):
        EvalScenario("hi", [JourneyTask("j", hr())])
    assert EvalScenario("hi", [JourneyTask("j", hr(), scope="record")]).has_tasks()


def many_goals(count: int) -> dict[str, Any]:
    goals = [{"type": "tool_call", "name": f"g{n}", "tool_name": "t"} for n in range(count)]
    return {"story": "s", "goals": {f"g{n}": [] for n in range(count)}, "goal_details": goals}


def test_what_a_profile_of_the_network_may_ask() -> None:
    def wire(count: int) -> bytes:
        profile = AgentEvalProfile([JourneyTask("j", many_goals(count))], alias="a")
        return json.dumps(profile.model_dump(mode="json")).encode()

    assert read_wire_profile(wire(200)).alias == "a"
    with pytest.raises(ConfigError, match="at most 200 journey goals"):
        read_wire_profile(wire(201))


def test_a_conversation_beyond_the_limit() -> None:
    spans = [span(1, "turn", None, (100, 200), trace=SECOND)]
    spans += [tool(n, ("t", {}), (110, 120), SECOND) for n in range(2, 110)]
    found = only(evaluated([JourneyTask("j", many_goals(200))], spans))
    assert str(found.reason) == "limit"
    assert "at most 20,000 are compared" in found.message
