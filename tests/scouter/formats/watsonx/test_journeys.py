"""Journeys run in this process: what leads the user, and what the configuration decides."""

import json
from functools import partial
from typing import Any, Final

import pytest

from scouter.evaluate.journey.case import read_case
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.judge.port import JudgeRequest
from scouter.formats.watsonx.cases import GIVEN, JourneyOrchestrator, scenarios_of
from scouter.formats.watsonx.config import Provider, WatsonxConfig
from scouter.formats.watsonx.result_files import journeys_of
from scouter.replay.named_run import NamedRun, run_named
from scouter.tracing import get_tracer

CHOICE: Final = {
    "role": "assistant", "type": "interaction", "content": "Which one?",
    "interaction": {"payload": {"title": "Choose"}},
}  # fmt: skip


def tool(name: str, **arguments: object) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
    }
    with get_tracer("agent").start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


def agent(message: str) -> object:
    """Asks which room, then books it."""
    if message == "the first":
        tool("book", room=1, note="a quiet room, please")
        return "Booked."
    tool("find")
    return [{"role": "assistant", "content": "There are two."}, CHOICE]


def play(first: str, last: object, history: list[Any]) -> str:
    return f"question {len(history)}" if len(history) else "the first"


def journey(config: dict[str, Any] | None = None, **options: Any) -> JourneyResult:
    """Run the one case that there is, with other fields of the dataset or arguments of the run."""
    compat, judge = options.pop("compat", "sound"), options.pop("judge", None)
    user = options.pop("user", play)
    dataset = {
        "story": "You want the first room.",
        "starting_sentence": "A room, please",
        "goals": {"found": ["asked"], "asked": ["booked"], "booked": ["said"]},
        "goal_details": [
            {"type": "tool_call", "name": "found", "tool_name": "find"},
            {"type": "interaction", "name": "asked",
             "identifier": {"key": "title", "value": "Choose"}},
            {"type": "tool_call", "name": "booked", "tool_name": "book",
             "args": {"room": 1, "note": "a quiet room"}, "arg_matching": {"note": "fuzzy"}},
            {"type": "text", "name": "said", "keywords": ["Booked"]},
            *options.pop("checks", []),
        ],
        "user_prompts": ["the first"],
        **options,
    }  # fmt: skip
    read = WatsonxConfig(test_paths=["x"], **(config or {}))
    cases = [read_case(dataset)]
    model = None if judge is None else Provider(provider="judge", model_id="judge")
    scenarios = scenarios_of(cases, read, compat=compat, judge=model)
    run = NamedRun(
        agent=agent, simulated_user=user, judge=judge, progress=False,
        orchestrator=partial(JourneyOrchestrator, cases), arguments=GIVEN,
    )  # fmt: skip
    (found,) = journeys_of(run_named(scenarios, run), cases, scenarios)
    return found.result


def test_an_interaction_beside_spans_counts() -> None:
    """Spans tell of the calls, the answer of what the agent shows."""
    result = journey()
    assert result.success is True, result.message
    assert [goal.message for goal in result.goals] == [1, 3, 5, 6]


@pytest.mark.parametrize(
    ("config", "success", "links"),
    [
        ({"similarity_threshold": 0.89}, True, ("token_ratio",)),
        ({"similarity_threshold": 0.91}, False, ("token_ratio",)),
        ({}, True, ("token_ratio",)),
        ({"similarity_threshold": 0.0, "enable_fuzzy_matching": False}, False, ()),
    ],
)
def test_the_configuration_of_the_fuzzy_chain(
    config: dict[str, Any], success: bool, links: tuple[str, ...]
) -> None:
    """One text holds the other and is longer by more than half: 0.9 of a whole match."""
    result = journey(config)
    assert (result.success, result.links) == (success, links)


@pytest.mark.parametrize(
    ("case", "config", "turns"),
    [
        ({}, {"max_user_turns": 3}, 3),
        ({"max_user_turns": 2}, {"max_user_turns": 3}, 2),
        ({"max_user_turns": 4}, {"max_user_turns": 3}, 4),
        ({}, {}, 25),
        ({"user_prompts": ["b", "c"]}, {}, 3),
        ({"user_prompts": ["b", "c"], "max_user_turns": 2}, {}, 2),
        ({"user_prompts": []}, {}, 1),
    ],
)
def test_how_often_the_user_speaks(
    case: dict[str, Any], config: dict[str, Any], turns: int
) -> None:
    result = journey(config, **{"user_prompts": None, **case})
    assert sum(message.role == "user" for message in result.messages) == turns


@pytest.mark.parametrize(
    ("first_answer", "options", "success"),
    [
        pytest.param("the first", {}, None, id="went well and never ended"),
        pytest.param("the second", {}, False, id="went wrong and never ended"),
        pytest.param("the first", {"compat": "wxo-1.6.9"}, False, id="as the original takes it"),
        pytest.param("Thanks. END", {"user_prompts": ["the first"]}, True, id="script at its end"),
        pytest.param(
            "", {"user_prompts": ["the first", "b"], "max_user_turns": 2}, None, id="cut script"
        ),
        pytest.param("", {"user_prompts": ["the first", *"aaaa"]}, True, id="script of repeats"),
    ],
)
def test_a_journey_that_never_ended(
    first_answer: str, options: dict[str, Any], success: bool | None
) -> None:
    """Kind: an end that is no end. Out of turns, a failure stands and a success is undecided."""

    def user(first: str, last: object, history: list[Any]) -> str:
        return (
            f"{first_answer}, please" if history and first_answer != "the first" else first_answer
        )

    case: dict[str, Any] = {
        "user_prompts": None,
        "max_user_turns": 3 if "user_prompts" not in options else None,
    }
    result = journey(user=user, **{**case, **options})
    assert result.success is success, result.message
    is_cut = "used up its" in " ".join(result.problems)
    assert is_cut == (success is None or first_answer == "the second" or "compat" in options)


@pytest.mark.parametrize(
    ("said", "turns"),
    [
        ("END", 2), ("I am done. END", 2), ("Thanks!\nEND.", 2), ("Please SEND it", 3),
        ("The END of it comes", 3), ("At the WEEKEND", 3),
    ],
)  # fmt: skip
def test_the_word_that_ends_a_story(said: str, turns: int) -> None:
    """`END` is the last word, and no part of another one."""

    def user(first: str, last: object, history: list[Any]) -> str:
        return said if history else "the first"

    result = journey(user=user, user_prompts=None, max_user_turns=3)
    assert sum(message.role == "user" for message in result.messages) == turns


@pytest.mark.parametrize(("verdict", "success"), [(True, True), (False, False)])
def test_a_statement_about_the_last_answer(verdict: bool, success: bool) -> None:
    statements: list[dict[str, Any]] = []

    def judge(request: JudgeRequest) -> Any:
        said = json.loads(str(request.messages[-1]["content"]))
        if request.task_id != "journey_assert":
            return {"verdict": True, "reason": "the same"}
        statements.append(said)
        return {"verdict": verdict, "reason": "so"}

    check = {
        "type": "assert_llm",
        "kind": "observed",
        "check": "It is booked.",
        "scope": "response",
    }
    result = journey(judge=judge, checks=[check])
    assert (result.success, result.metrics["assert_llm"]) == (success, float(verdict))
    assert result.links == ("judge",)
    assert statements == [{"check": "It is booked.", "context": "Booked.", "kind": "observed"}]
