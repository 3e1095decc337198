"""Journeys as documented: order, strategies, parallel calls, and a reason for each wrong call."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.evaluate.judge.port import JudgeRequest
from scouter.testing import ScriptedJudge
from tests.support.journeys import (
    ANSWER,
    ASSIGNMENT,
    GOOD,
    SCHEDULE,
    calls,
    hr,
    one_tool,
    says,
    user,
)

TABLE = Path(__file__).parents[3] / "cases" / "journey_arguments.txt"
ROWS = [
    [cell.strip() for cell in line.split("|")]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
]


def down(texts: list[str]) -> list[list[float]]:
    raise RuntimeError("the embedder is down")


def agrees(request: JudgeRequest) -> JsonValue:
    return {"verdict": True, "reason": ""}


def denies(request: JudgeRequest) -> JsonValue:
    return {"verdict": False, "reason": ""}


def broke(request: JudgeRequest) -> JsonValue:
    raise RuntimeError("no credit")


def unit(texts: list[str]) -> list[list[float]]:
    """Vectors of one direction for texts that hold `off`, of another for the rest."""
    return [[1.0, 0.0] if "off" in text else [0.0, 1.0] for text in texts]


@pytest.mark.parametrize("compat", ["sound", "wxo-1.6.9"])
def test_the_documents_example_succeeds(compat: Any) -> None:
    result = evaluate_journey(hr(), GOOD, compat=compat)
    assert (result.success, result.completion, result.precision, result.recall) == (True, 1, 1, 1)
    assert (result.parameter_f1, result.text_match) == (1.0, "Summary Matched")
    assert result.wrong_calls == ()


@pytest.mark.parametrize("compat", ["sound", "wxo-1.6.9"])
def test_swapped_calls_break_the_named_edge(compat: Any) -> None:
    swapped = [GOOD[0], GOOD[2], GOOD[1], GOOD[3]]
    result = evaluate_journey(hr(), swapped, compat=compat)
    assert (result.success, result.completion) == (False, 1.0)
    edge = ("get_assignment_id_hr_agent-1", "get_timeoff_schedule_hr_agent-1")
    assert result.broken_edges == (edge,)
    assert all(repr(name) in result.message for name in edge)


def test_a_summary_before_the_work_is_none() -> None:
    early = [GOOD[0], says(ANSWER), GOOD[1], GOOD[2]]
    assert evaluate_journey(hr(), early).success is False
    assert evaluate_journey(hr(), early, compat="wxo-1.6.9").success is True
    assert evaluate_journey(hr(), [*early, says(ANSWER)]).success is True


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_strategies(row: list[str]) -> None:
    """Each row of tests/cases/journey_arguments.txt."""
    strategy, expected, actual, matched, without_fuzzy = row
    args = {} if actual == "-" else {"x": json.loads(actual)}
    dataset = one_tool(
        {"x": json.loads(expected)}, {} if strategy == "default" else {"x": strategy}
    )
    for is_enabled, verdict in ((True, matched), (False, without_fuzzy)):
        result = evaluate_journey(
            dataset, [calls(("t", args))], embedder=down, similarity_threshold=0.8,
            enable_fuzzy_matching=is_enabled,
        )  # fmt: skip
        assert result.success is (verdict == "yes"), result.message


@pytest.mark.parametrize(
    ("judge", "embedder", "link", "matched"),
    [
        (agrees, down, "judge", True),
        (denies, unit, "judge", False),
        (None, unit, "embedding", True),
        (None, down, "token_ratio", True),
    ],
)
def test_the_chain_names_the_link_that_decides(
    judge: Any, embedder: Any, link: str, matched: bool
) -> None:
    dataset = one_tool({"x": "time off schedule information"}, {"x": "fuzzy"})
    result = evaluate_journey(
        dataset, [calls(("t", {"x": "time off schedule"}))], judge=judge, embedder=embedder
    )
    assert (result.success, result.links) == (matched, (link,))


def test_a_judge_that_raises_hands_on_to_the_next_link() -> None:
    dataset = one_tool({"x": "time off"}, {"x": "fuzzy"})
    message = [calls(("t", {"x": "off time"}))]
    by_cosine = evaluate_journey(dataset, message, judge=broke, embedder=unit)
    assert (by_cosine.success, by_cosine.links) == (True, ("embedding",))
    assert any("no credit" in text for text in by_cosine.problems)
    by_ratio = evaluate_journey(dataset, message, judge=broke, embedder=down)
    assert by_ratio.links == ("token_ratio",)
    assert any("the embedder is down" in text for text in by_ratio.problems)


def test_fuzzy_values_are_compared_on_the_ordinary_install() -> None:
    """By their tokens, where there is neither judge nor embedder; that is no problem."""
    dataset = one_tool({"x": "time off request"}, {"x": "fuzzy"})
    result = evaluate_journey(dataset, [calls(("t", {"x": "request time off"}))])
    assert (result.success, result.links, result.problems) == (True, ("token_ratio",), ())


def test_what_the_chain_measured_is_reported() -> None:
    """The vectors stand at right angles, so that nothing is alike."""
    dataset = one_tool({"x": "time off"}, {"x": "fuzzy"})
    result = evaluate_journey(dataset, [calls(("t", {"x": "rain"}))], embedder=unit)
    assert result.message.endswith('x "rain" in place of "time off" (alike 0.00 by embedding)')
    reason = result.reasons[0] or {}
    parameters: Any = reason["parameters"]
    assert (parameters[0]["link"], parameters[0]["similarity"]) == ("embedding", 0.0)


def test_the_nearest_text_is_reported() -> None:
    goal = {"type": "text", "name": "g", "response": "You have time off.", "keywords": ["you"]}
    dataset: dict[str, Any] = {"story": "s", "goals": {"g": []}, "goal_details": [goal]}
    messages = [says("It rains."), says("Are you there?"), user("yes")]
    far = evaluate_journey(dataset, messages, embedder=unit)
    assert far.message == (
        "goal 'g' is not met: no message of the agent says 'You have time off.'; the nearest is "
        "message 1, alike 0.00 by embedding"
    )
    near = evaluate_journey(dataset, [*messages, says("You are off.")], embedder=unit)
    assert (near.success, near.goals[0].message) == (True, 3)
    assert (near.goals[0].link, near.goals[0].similarity) == ("embedding", 1.0)
    judged = evaluate_journey(dataset, messages, judge=denies)
    assert judged.message.endswith("the nearest is message 1, not alike by judge")


def test_parallel_calls_of_one_message_all_count() -> None:
    result = evaluate_journey(hr(), [GOOD[0], calls(ASSIGNMENT, SCHEDULE), says(ANSWER)])
    assert (result.success, result.recall) == (True, 1.0)
    backwards = evaluate_journey(hr(), [GOOD[0], calls(SCHEDULE, ASSIGNMENT), says(ANSWER)])
    assert (backwards.success, backwards.recall) == (False, 1.0)


def test_the_assignment_is_the_largest_one() -> None:
    """Greedily the first call would take the goal that only the second call can meet."""
    goals = [
        {"type": "tool_call", "name": name, "tool_name": "t", "args": args}
        for name, args in (("g1", {"x": 1}), ("g2", {"x": 1, "y": 2}))
    ]
    order: dict[str, list[str]] = {"g1": [], "g2": []}
    dataset = {"story": "s", "goals": order, "goal_details": goals}
    made = [calls(("t", {"x": 1, "y": 2})), calls(("t", {"x": 1}))]
    result = evaluate_journey(dataset, made)
    assert [(goal.name, goal.message) for goal in result.goals] == [("g1", 1), ("g2", 0)]
    assert evaluate_journey(dataset, made, compat="wxo-1.6.9").recall == 0.5


def test_each_wrong_call_has_a_reason() -> None:
    wrong = ("get_timeoff_schedule_hr_agent", {**SCHEDULE[1], "end_date": "2025-02-28"})
    result = evaluate_journey(
        hr(),
        [GOOD[0], GOOD[1], GOOD[1], calls(wrong), calls(("weather", {})), GOOD[2], GOOD[3]],
    )
    assert result.success is True
    assert [(call.message, call.reason) for call in result.wrong_calls] == [
        (2, "repeated call"), (3, "incorrect parameter"), (4, "irrelevant tool call"),
    ]  # fmt: skip
    assert '"2025-02-28" in place of "2025-01-30"' in result.wrong_calls[1].detail
    assert (result.precision, result.recall) == (2 / 5, 1.0)
    assert [reason and reason["reason"] for reason in result.reasons] == [
        None, None, "repeated call", "incorrect parameter", "irrelevant tool call", None, None,
    ]  # fmt: skip


def test_texts_steps_and_times_by_hand() -> None:
    """Of two texts that are wanted one is said; tools' responses are no time of the agent."""
    wanted = {"type": "text", "name": "more", "keywords": ["never"]}
    dataset = hr(goal_details=[*hr()["goal_details"], wanted], goals={**hr()["goals"], "more": []})
    messages: list[dict[str, Any]] = [
        user("hi"),
        {**calls(ASSIGNMENT), "response_time": 1.0},
        {"role": "assistant", "type": "tool_response", "content": "ok", "response_time": 9.0},
        {**calls(SCHEDULE), "response_time": 2.0},
        {**says(ANSWER), "response_time": 4.5},
    ]
    metrics = evaluate_journey(dataset, messages).metrics
    assert {name: metrics[name] for name in (
        "total_steps", "llm_steps", "average_agent_response_time", "keyword_match",
        "semantic_match", "text_match", "journey_completion",
    )} == {
        "total_steps": 5, "llm_steps": 3, "average_agent_response_time": 2.5,
        "keyword_match": True, "semantic_match": True, "text_match": 0, "journey_completion": 0.75,
    }  # fmt: skip


def test_parameter_f1_counts_every_goal() -> None:
    """Of three arguments one is wrong: 4 / (4 + 0 + 1); the other goal is 1, so the mean is 0.9."""
    wrong = ("get_timeoff_schedule_hr_agent", {**SCHEDULE[1], "end_date": "2025-02-28"})
    result = evaluate_journey(hr(), [GOOD[0], GOOD[1], calls(wrong), GOOD[3]])
    assert result.parameter_f1 == pytest.approx((1 + 0.8 * 0 + 2 * 2 / (2 * 2 + 0 + 1)) / 2)
    unmet = evaluate_journey(hr(), [GOOD[0], GOOD[1], GOOD[3]])
    assert unmet.parameter_f1 == 0.5
    assert unmet.missed_tools == ("get_timeoff_schedule_hr_agent",)


def test_handoffs_are_no_wrong_calls() -> None:
    handoff = calls(("chat_with_collaborator_hr", {"message": "please"}))
    agents = {
        "hr": ["get_assignment_id_hr_agent", "get_timeoff_schedule_hr_agent"],
        "it": ["reset"],
    }
    messages = [GOOD[0], handoff, *GOOD[1:]]
    result = evaluate_journey(hr(), messages, agents=agents)
    assert (result.precision, result.routing_f1) == (1.0, 1.0)
    astray = calls(("it", {}))
    lost = evaluate_journey(hr(), [GOOD[0], handoff, astray, *GOOD[1:]], agents=agents)
    assert lost.routing_f1 == pytest.approx(2 / 3)  # one right, one wrong, none missed
    assert evaluate_journey(hr(), GOOD, agents=agents).routing_f1 is None


def test_a_tool_that_is_called_like_a_handoff_is_a_tool() -> None:
    """Only a known agent is handed over to by the name of a transfer."""
    transfer = calls(("transfer_to_savings", {"amount": 5}))
    messages = [GOOD[0], transfer, *GOOD[1:]]
    result = evaluate_journey(hr(), messages)
    assert (result.precision, result.routing_f1) == (2 / 3, None)
    assert result.wrong_calls[0].reason == "irrelevant tool call"
    known = evaluate_journey(hr(), messages, agents={"savings": []})
    assert (known.precision, known.routing_f1) == (1.0, 0.0)


def with_checks(*texts: str) -> dict[str, Any]:
    dataset = hr()
    for text in texts:
        dataset["goal_details"].append({"type": "assert_llm", "kind": "policy", "check": text})
    return dataset


def test_statements_are_for_a_judge() -> None:
    dataset = with_checks("is polite", "tells no secret")
    judge = ScriptedJudge(
        {
            "journey_assert": [
                {"verdict": True, "reason": "yes"},
                {"verdict": False, "reason": "it does"},
            ]
        }
    )
    result = evaluate_journey(dataset, GOOD, judge=judge)
    assert (result.success, result.completion) == (False, 4 / 5)
    assert result.metrics["assert_llm"] == 0.5
    unheard = evaluate_journey(dataset, GOOD, judge=broke)
    assert (unheard.success, unheard.completion) == (None, None)
    assert unheard.metrics["assert_llm"] is None
    assert "tells no secret (it does)" in result.message
    context = json.loads(judge.requests[0].messages[1]["content"])["context"]
    assert context.startswith("user: I want to know my time off schedule")
    undecided = evaluate_journey(dataset, GOOD)
    assert undecided.success is None
    assert "no judge was given" in undecided.message


def test_the_judge_of_a_text_is_called_only_for_texts_with_the_keywords() -> None:
    judge = ScriptedJudge(lambda _: {"verdict": True, "reason": "same"})
    messages = [*GOOD[:3], says("One moment."), says("You are off on JANUARY 5,  2025, all day.")]
    result = evaluate_journey(hr(), messages, judge=judge)
    assert (result.success, result.goals[2].link) == (True, "judge")
    assert len(judge.requests) == 1


def test_it_works_inside_of_an_event_loop() -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        return unit(texts)

    async def inside() -> bool | None:
        dataset = one_tool({"x": "time off"}, {"x": "fuzzy"})
        return evaluate_journey(dataset, [calls(("t", {"x": "off"}))], embedder=embed).success

    assert asyncio.run(inside()) is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"compat": "wxo"}, "expected sound or wxo-1.6.9"),
        ({"similarity_threshold": 80}, "not in [0, 1]"),
        ({"embedder": 3}, "Invalid embedder type"),
    ],
)
def test_wrong_arguments(arguments: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        evaluate_journey(hr(), GOOD, **arguments)


def test_an_interaction_is_met_once() -> None:
    goals = [
        {"type": "interaction", "name": name, "identifier": {"key": "title", "value": "Choose"}}
        for name in ("first", "second")
    ]
    dataset = {"story": "s", "goals": {"first": ["second"]}, "goal_details": goals}
    shown = {
        "role": "assistant", "type": "interaction", "content": "?",
        "interaction": {"payload": {"title": "Choose"}},
    }  # fmt: skip
    assert evaluate_journey(dataset, [user("hi"), shown]).completion == 0.5
    assert evaluate_journey(dataset, [user("hi"), shown, shown]).success is True
