"""Rows that are turns: the agent gets them as one conversation."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from scouter.errors import ConfigError
from scouter.formats.adk import read_eval_set
from scouter.formats.vertex.cases import conversations_of
from scouter.formats.vertex.eval_task import EvalTask
from scouter.formats.vertex.result import EvalResult
from scouter.tracing import get_tracer


def turns(*prompts: str, eval_id: str = "talk", **columns: Any) -> list[dict[str, Any]]:
    return [
        {"eval_id": eval_id, "turn": at, "prompt": prompt, "reference": prompt.upper(), **columns}
        for at, prompt in enumerate(prompts)
    ]


def played(**columns: Any) -> dict[str, Any]:
    return {"eval_id": "p", "turn": 0, "prompt": "one", "conversation_plan": "w", **columns}


def run(rows: list[dict[str, Any]], agent: object, **options: Any) -> EvalResult:
    return EvalTask(rows, ["exact_match"]).evaluate(agent, **options)


def column(result: EvalResult, name: str) -> list[Any]:
    return [row[name] for row in result.rows]


def tool(name: str, **arguments: object) -> None:
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.tool.call.result": "ok",
    }
    with get_tracer("agent").start_as_current_span(f"execute_tool {name}", attributes=attributes):
        pass


class Counting:
    """Has a memory of its own in each conversation."""

    def __init__(self, session: str) -> None:
        self.session, self.heard = session, list[str]()

    def __call__(self, message: str) -> str:
        self.heard.append(message)
        return f"{self.session} {len(self.heard)}"


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_conversation_is_led_as_one(concurrency: int) -> None:
    """Kind: each turn put alone. Two conversations hear nothing of each other."""
    seen: list[tuple[str, str, list[Any]]] = []

    def agent(message: str, session: str, history: list[Any]) -> str:
        seen.append((message, session, history))
        return message.upper()

    rows = turns("a", "b", "c") + turns("d", "e", eval_id="other")
    result = run(rows, agent, concurrency=concurrency)
    assert column(result, "exact_match/score") == [1.0] * 5
    heard = {message: (session, [each["content"] for each in history])
             for message, session, history in seen}  # fmt: skip
    assert heard["c"][1] == ["a", "A", "b", "B"]
    assert heard["e"][1] == ["d", "D"]
    assert len({session for session, _ in heard.values()}) == 2


async def in_loop(message: str, history: list[Any]) -> dict[str, Any]:
    return {"response": f"{message.upper()}", "predicted_trajectory": [], "n": len(history)}


@pytest.mark.parametrize("agent", [in_loop], ids=["async, with an object for an answer"])
def test_every_kind_of_agent(agent: Any) -> None:
    """The history holds what was said of an answer that is an object."""
    result = run(turns("a", "b"), agent)
    assert column(result, "exact_match/score") == [1.0, 1.0]
    assert column(result, "n") == [0, 2]


def test_a_class_has_an_instance_for_each_conversation() -> None:
    result = run(turns("a", "b") + turns("c", eval_id="other"), Counting)
    first, second, other = (each.split() for each in column(result, "response"))
    assert (first[1], second[1], other[1]) == ("1", "2", "1")
    assert first[0] == second[0] != other[0]


def test_calls_are_read_from_the_spans_of_each_turn() -> None:
    """An agent that only answers is judged by its spans; one without spans tells of no call."""

    def traced(message: str) -> str:
        with get_tracer("agent").start_as_current_span("invoke_agent desk"):
            if message != "nothing":
                tool("look", q=message)
        return message

    names = ["trajectory_exact_match"]
    rows = turns("a", "b")
    for row in rows:
        row["reference_trajectory"] = [{"tool_name": "look", "tool_input": {"q": row["prompt"]}}]
    result = EvalTask(rows, names).evaluate(traced)
    assert column(result, "trajectory_exact_match/score") == [1.0, 1.0]
    silent = EvalTask(rows, names).evaluate(echo)
    assert silent.summary_metrics["trajectory_exact_match/n_error"] == 2


def test_after_a_failure_no_turn_runs() -> None:
    messages: list[str] = []

    def agent(message: str) -> str:
        messages.append(message)
        if message == "b":
            raise LookupError("no order")
        return message.upper()

    result = run(turns("a", "b", "c") + turns("d", eval_id="other"), agent)
    assert column(result, "failure") == [0, 1, 1, 0]
    faults = column(result, "failure_explanation")
    assert "LookupError: no order" in faults[1]
    assert faults[2] == "not called: an earlier turn failed"
    assert sorted(messages) == ["a", "b", "d"]
    assert column(result, "exact_match/score") == [1.0, None, None, 1.0]


def write(folder: Path, *cases: dict[str, Any]) -> Path:
    path = folder / "home.evalset.json"
    path.write_text(json.dumps({"eval_set_id": "home", "eval_cases": cases}), encoding="utf-8")
    return path


IMAGE = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
CASE: dict[str, Any] = {
    "eval_id": "lights",
    "session_input": {"app_name": "home", "user_id": "u-1", "state": {"city": "Oslo"}},
    "conversation": [
        {"user_content": {"parts": [{"text": "look"}, IMAGE]}},
        {"user_content": {"parts": [{"text": "again"}]}},
    ],
}


def test_state_and_images_reach_the_agent(tmp_path: Path) -> None:
    """By name; the state is one for the conversation, and the file's stays as it is."""
    seen: list[Any] = []

    def agent(message: str, state: dict[str, Any], user_id: str, app_name: str,
              attachments: list[Any]) -> str:  # fmt: skip
        seen.append((message, dict(state), user_id, app_name, attachments))
        state["seen"] = message
        return message

    rows = read_eval_set(write(tmp_path, CASE))
    task = EvalTask(rows, [len_of_prompt])
    for _ in range(2):
        task.evaluate(agent)
    first = ("look", {"city": "Oslo"}, "u-1", "home", [IMAGE])
    assert seen == [first, ("again", {"city": "Oslo", "seen": "look"}, "u-1", "home", [])] * 2


def test_a_constructor_takes_the_state(tmp_path: Path) -> None:
    class Desk:
        def __init__(self, state: dict[str, Any]) -> None:
            self.city = state["city"]

        def __call__(self, message: str, attachments: list[Any]) -> str:
            return f"{self.city} {len(attachments)}"

    result = EvalTask(read_eval_set(write(tmp_path, CASE)), [len_of_prompt]).evaluate(Desk)
    assert column(result, "response") == ["Oslo 1", "Oslo 0"]


def echo(message: str) -> str:
    return message


def len_of_prompt(row: dict[str, Any]) -> int:
    return len(row["prompt"])


def takes_state(message: str, state: Any) -> str:
    raise AssertionError("called, although a part of its case would be lost")


def takes_images(message: str, attachments: Any) -> str:
    raise AssertionError("called, although a part of its case would be lost")


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (takes_images, r"case 'lights' begins with a session state \(city\).*called 'state'"),
        (takes_state, r"turn 0: the user's message has parts.*\(inline_data\).*'attachments'"),
    ],
)
def test_what_an_agent_does_not_take_is_refused(
    tmp_path: Path, agent: Callable[..., str], said: str
) -> None:
    """Kind: a case is put without a part of it, and its score is about another question."""
    task = EvalTask(read_eval_set(write(tmp_path, CASE)), [len_of_prompt])
    with pytest.raises(ConfigError, match=said):
        task.evaluate(agent)


def test_an_empty_state_needs_nothing(tmp_path: Path) -> None:
    case: dict[str, Any] = {**CASE, "session_input": {"app_name": "a", "user_id": "u", "state": {}},
            "conversation": CASE["conversation"][1:]}  # fmt: skip
    result = EvalTask(read_eval_set(write(tmp_path, case)), [len_of_prompt]).evaluate(echo)
    assert column(result, "response") == ["again"]


def more(first: str, answer: str, history: list[Any]) -> str:
    return f"and {len(history)}"


def twice(first: str, answer: str, history: list[Any]) -> str:
    return "two" if not history else "Thanks. </finished>"


def test_a_simulated_user_leads_a_case_with_a_plan() -> None:
    """It has a row for each turn that it came to."""
    result = run([played(reference=None), *turns("x")], str.upper, simulated_user=twice)
    assert column(result, "prompt") == ["one", "two", "x"]
    assert column(result, "response") == ["ONE", "TWO", "X"]
    assert column(result, "turn") == [0, 1, 0]
    assert column(result, "exact_match/score") == [None, None, 1.0]  # nothing is expected of it


def test_a_plan_that_comes_to_no_end_has_no_score() -> None:
    result = EvalTask([played()], [len_of_prompt]).evaluate(str.upper, simulated_user=more)
    assert column(result, "len_of_prompt/score") == [None] * 20
    assert "used up its 20 turns" in column(result, "failure_explanation")[0]


def test_a_plan_needs_somebody_who_plays() -> None:
    with pytest.raises(ConfigError, match=r"nobody plays its user.*--simulated-user"):
        run([played(reference="x")], str.upper)


def test_rows_that_are_no_turns() -> None:
    """A dataset of Vertex stays one of single questions."""
    assert conversations_of([{"prompt": "a"}, {"prompt": "b", "turn": 1}]) == []
    rows = turns("a", "b") + turns("c") + turns("d", eval_id="other")
    found = conversations_of(cast("Any", rows))
    assert [[row["prompt"] for row in each] for each in found] == [["a", "b"], ["c"], ["d"]]
