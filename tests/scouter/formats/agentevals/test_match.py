"""The matches of messages against what agentevals 0.0.9 and openevals 0.2.2 answered."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from scouter.errors import ConfigError, DataError
from scouter.evaluate.trajectory.comparison import trajectory_exact_match
from scouter.formats.agentevals.match import Compat, match_messages, trajectory_from_messages
from tests.support.vectors import load_vectors, print_counts

_OPEN: Final = frozenset({"ae_override_empty_list", "ae_superset_greedy_fail", "ae_bool_vs_int"})
"""Defects that openevals shares with agentevals: an empty override, greed, True for 1."""


def _vectors(kind: str) -> list[dict[str, Any]]:
    return [each for each in load_vectors("trajectory.json") if each["kind"] == kind]


def _match(case: Mapping[str, Any], compat: Compat) -> bool | str:
    try:
        return match_messages(
            case["outputs"], case["reference_outputs"], **case["config"], compat=compat
        )
    except DataError:
        return "raises JSONDecodeError"


def test_messages_as_agentevals() -> None:
    cases = _vectors("agentevals_messages")
    for case in cases:
        assert _match(case, "agentevals-0.0.9") == case["agentevals"], case["name"]
    print_counts("agentevals_messages", (case["config"]["trajectory_match_mode"] for case in cases))
    assert cases


def test_messages_soundly() -> None:
    """As openevals, which mended the sides of the arguments."""
    cases = [case for case in _vectors("agentevals_messages") if case["name"] not in _OPEN]
    for case in cases:
        assert _match(case, "sound") == case["openevals"], case["name"]
    print_counts("agentevals_messages, sound", ("openevals" for _ in cases))


def _messages(calls: Sequence[Mapping[str, Any]], *, in_one: bool = False) -> list[Any]:
    """A trajectory as messages, one for each call."""
    made: list[Any] = []
    for call in calls:
        given = call.get("tool_input", {})
        text = given if isinstance(given, str) else json.dumps(given)
        made.append({"function": {"name": call["tool_name"], "arguments": text}})
    groups = [made] if in_one else [[each] for each in made]
    return [{"role": "assistant", "content": "", "tool_calls": group} for group in groups]


@pytest.mark.parametrize("compat", ["agentevals-0.0.9", "sound"])
def test_trajectories_by_every_mode(compat: Compat) -> None:
    counted: list[str] = []
    for case in _vectors("trajectory"):
        expected = dict(case["agentevals"])
        if compat == "sound":
            if "bool" in case["name"]:
                continue  # True is 1 there
            expected |= case["openevals_differs"]
        if not all(isinstance(c.get("tool_name"), str) for c in case["predicted"] or ()):
            continue  # no message can say that
        for name, result in expected.items():
            if not isinstance(result, bool):
                continue  # it raised
            mode, args, *layout = name.split("/")
            pair = (_messages(case[s], in_one=bool(layout)) for s in ("predicted", "reference"))
            found = match_messages(
                *pair,
                trajectory_match_mode=mode,  # pyright: ignore[reportArgumentType] - of the file
                tool_args_match_mode=args,  # pyright: ignore[reportArgumentType]
                compat=compat,
            )
            assert found == result, (case["name"], name)
            counted.append(name)
    print_counts(f"agentevals of trajectories, {compat}", counted)
    assert counted


class _AIMessage:
    """As LangChain's: its calls have `name` and `args`."""

    type = "ai"

    def __init__(self, *calls: Mapping[str, Any]) -> None:
        self.content = ""
        self.tool_calls = [{"id": "1", "type": "tool_call", **call} for call in calls]


def test_messages_of_langchain_and_openai_are_one() -> None:
    ours = [_AIMessage({"name": "a", "args": {"x": 1}})]
    theirs = {"messages": _messages([{"tool_name": "a", "tool_input": {"x": 1.0}}])}
    assert match_messages(ours, theirs)
    assert trajectory_from_messages(ours) == [{"tool_name": "a", "tool_input": {"x": 1}}]
    typed = [{"type": "ai", "tool_calls": [{"name": "a", "args": {"x": 1}}]}]
    assert match_messages(typed, theirs)


def test_calls_of_one_message_are_a_step() -> None:
    messages = [
        {"role": "user", "content": "go"},
        *_messages([{"tool_name": "a"}, {"tool_name": "b"}], in_one=True),
        {"role": "tool", "content": "done"},
        *_messages([{"tool_name": "c"}]),
    ]
    reference = trajectory_from_messages(messages)
    assert [isinstance(step, list) for step in reference] == [True, False]
    predicted = [{"tool_name": name} for name in "bac"]
    assert trajectory_exact_match(predicted, reference) == 1
    assert trajectory_exact_match(predicted[::-1], reference) == 0


def test_a_function_compares_the_arguments() -> None:
    pair = [_messages([{"tool_name": "a", "tool_input": {"x": x}}]) for x in ("Go ", "go")]

    def alike(called: Any, expected: Any) -> bool:
        return called["x"].strip().lower() == expected["x"]

    assert match_messages(*pair, tool_args_match_overrides={"a": alike})
    assert not match_messages(*pair)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trajectory_match_mode": "in_order"}, "no mode is called 'in_order'"),
        ({"tool_args_match_mode": "some"}, "tool_args_match_mode: no mode is called 'some'"),
        ({"tool_args_match_overrides": {"a": "some"}}, "overrides.'a'.: no mode"),
        ({"tool_args_match_overrides": {"a": []}}, "expected a mode, keys or a function"),
    ],
)
def test_options_that_are_wrong(options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        match_messages([], [], **options)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("text", "outputs: got str"),
        ({"role_": "user"}, "outputs: an object with role_"),
        ([{"content": "x"}], r"outputs\[0\]: no role"),
        ([{"role": "assistant", "tool_calls": "x"}], "tool_calls is no list"),
        ([{"role": "assistant", "tool_calls": [{"id": "1"}]}], r"tool_calls\[0\]: no call"),
        (
            [{"role": "a", "tool_calls": [{"function": {"name": "a", "arguments": "[1]"}}]}],
            "no object",
        ),
    ],
)
def test_what_is_no_message(messages: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        match_messages(messages, [])


def test_keys_that_count_must_be_there() -> None:
    """For agentevals it is equal that neither has one."""
    pair = [_messages([{"tool_name": "a", "tool_input": {"x": x}}]) for x in (1, 2)]
    options: dict[str, Any] = {"tool_args_match_overrides": {"a": ["k"]}}
    assert not match_messages(*pair, **options)
    assert match_messages(*pair, **options, compat="agentevals-0.0.9")
