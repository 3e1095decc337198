"""The matches of agentevals: two lists of messages, by layout or as sets of calls."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.trajectory.matching import MAX_COMPARISONS, maximum_matching
from scouter.evaluate.trajectory.rules import (
    ArgumentMode,
    ArgumentRules,
    agreement,
    json_key,
    python_key,
)
from scouter.model.json_value import to_json_value

PlainCall: TypeAlias = dict[str, JsonValue]

_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
"""LangChain's words for OpenAI's."""
_FORM: Final = "expected a list of messages with a role, or an object with 'messages'"


@dataclass(frozen=True, slots=True)
class Said:
    """Role and tool calls of one message."""

    role: str
    calls: tuple[PlainCall, ...]


def trajectory_from_messages(messages: object) -> list[JsonValue]:
    """Read the calls that chat messages ask for.

    Args:
        messages: A list of OpenAI's messages (`tool_calls` with `function`) or of LangChain's
            (objects, or with `name` and `args`), one message, or an object with `messages`.

    Returns:
        The calls as plain data. Those of one message run side by side: where there are several
        they stand in a list of their own, as a step.

    Raises:
        DataError: Not messages, or arguments that are no JSON object; names the message.
    """
    steps: list[JsonValue] = []
    for said in read_messages(messages, "messages"):
        calls: list[JsonValue] = list(said.calls)
        if calls:
            steps.append(calls[0] if len(calls) == 1 else calls)
    return steps


def read_messages(messages: object, what: str) -> list[Said]:
    """Read roles and calls of messages; see `trajectory_from_messages`.

    Args:
        messages: The same.
        what: Their name in errors.
    """
    if isinstance(messages, Mapping):
        fields = cast("Mapping[str, object]", messages)
        if "role" not in fields and "messages" not in fields:
            raise DataError(f"{what}: an object with {', '.join(fields) or 'no key'}; {_FORM}")
        messages = [fields] if "role" in fields else fields["messages"]
    if isinstance(messages, str) or not isinstance(messages, Iterable):
        raise DataError(f"{what}: got {type(messages).__name__}; {_FORM}")
    found = enumerate(cast("Iterable[object]", messages))
    return [_read(message, f"{what}[{at}]") for at, message in found]


def _read(message: object, where: str) -> Said:
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, object]", message)
        role, calls = fields.get("role") or fields.get("type"), fields.get("tool_calls")
    else:  # a message of LangChain's
        role, calls = getattr(message, "type", None), getattr(message, "tool_calls", None)
    if not isinstance(role, str):
        raise DataError(f"{where}: no role; {_FORM}")
    if not isinstance(calls, Sequence | None) or isinstance(calls, str):
        raise DataError(f"{where}: tool_calls is no list")
    found = cast("Sequence[object]", calls or ())
    read = [_call(each, f"{where}.tool_calls[{at}]") for at, each in enumerate(found)]
    return Said(_ROLES.get(role, role), tuple(read))


def _call(value: object, where: str) -> PlainCall:
    call = to_json_value(value)
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise DataError(f"{where}: no call; expected an object with function.name")
    given = function.get("args") if "args" in function else function.get("arguments")
    if isinstance(given, str):
        try:
            given = cast("JsonValue", json.loads(given))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: the arguments are no JSON: {error}") from error
    if given is not None and not isinstance(given, dict):
        raise DataError(f"{where}: the arguments are no object")
    return {"tool_name": function["name"], "tool_input": given or {}}


MatchMode: TypeAlias = Literal["strict", "unordered", "subset", "superset"]
Compat: TypeAlias = Literal["sound", "agentevals-0.0.9"]
Override: TypeAlias = ArgumentMode | Sequence[str] | Callable[[JsonValue, JsonValue], object]
"""Rule by which the arguments of one tool are compared: a mode, keys, or a function.

The keys must be there and equal; `p.q` is the key `q` inside of `p`. The function takes the called
and the expected arguments.
"""

_Fits: TypeAlias = Callable[[PlainCall, PlainCall], bool]
"""Function that tells whether a call that was made fits an expected one."""
_Compare: TypeAlias = Callable[[JsonValue, JsonValue], bool]

_MODES: Final = ("exact", "ignore", "subset", "superset")


def match_messages(
    outputs: object,
    reference_outputs: object,
    *,
    trajectory_match_mode: MatchMode = "strict",
    tool_args_match_mode: ArgumentMode = "exact",
    tool_args_match_overrides: Mapping[str, Override] | None = None,
    compat: Compat = "sound",
) -> bool:
    """Tell whether a conversation has the calls of another, as agentevals' match evaluator does.

    Args:
        outputs: The agent's messages, in any form that `trajectory_from_messages` reads.
        reference_outputs: Those that were expected.
        trajectory_match_mode: `strict`: as many messages, each of the same role and with the same
            calls, in any order within a message; `unordered`: the same calls; `subset`: no call
            that was not expected; `superset`: every expected call. Texts are never compared.
        tool_args_match_mode: `exact`, `ignore`, `subset` (of the call's arguments each is
            expected) or `superset` (each expected one is there); of keys of the first level.
        tool_args_match_overrides: Other comparisons for some tools, by name.
        compat: `sound` finds every assignment that there is. `agentevals-0.0.9` takes the first
            call that fits, turns the sides of the arguments around in `subset` and `unordered`,
            and holds True to be 1 and null to be an absent key.

    Raises:
        ConfigError: An unknown mode, or an override that is none.
        DataError: Not messages; names the message. Or too many calls.

    Cost: the calls of one side times those of the other.
    """
    called = read_messages(outputs, "outputs")
    expected = read_messages(reference_outputs, "reference_outputs")
    is_sound = compat == "sound"
    fits = _fits(tool_args_match_mode, tool_args_match_overrides or {}, is_sound)
    place = _has_room_for_all if is_sound else _fill_greedily
    if trajectory_match_mode == "strict":
        return len(called) == len(expected) and all(
            _same_message(*pair, fits, place) for pair in zip(called, expected, strict=True)
        )
    left = [call for said in called for call in said.calls]
    right = [call for said in expected for call in said.calls]

    def has_expected() -> bool:
        return place(right, left, lambda taker, giver: fits(giver, taker))

    def has_no_other() -> bool:
        turned: _Fits = fits if is_sound else lambda taker, giver: fits(giver, taker)
        return place(left, right, turned)

    match trajectory_match_mode:
        case "superset":
            return has_expected()
        case "subset":
            return has_no_other()
        case "unordered":
            return len(left) == len(right) and has_expected() and has_no_other()
        case _:
            raise ConfigError(
                f"trajectory_match_mode: no mode is called {trajectory_match_mode!r}; expected "
                "strict, unordered, subset or superset"
            )


def _same_message(
    called: Said,
    expected: Said,
    fits: _Fits,
    place: Callable[[Sequence[PlainCall], Sequence[PlainCall], _Fits], bool],
) -> bool:
    return (
        called.role == expected.role
        and len(called.calls) == len(expected.calls)
        and place(called.calls, expected.calls, fits)
    )


def _has_room_for_all(
    takers: Sequence[PlainCall], givers: Sequence[PlainCall], fits: _Fits
) -> bool:
    """Tell whether each taker can have a giver of its own."""
    if len(takers) > len(givers):
        return False
    if len(takers) * len(givers) > MAX_COMPARISONS:
        raise DataError(
            f"{len(takers):,} by {len(givers):,} calls take more than {MAX_COMPARISONS:,} "
            "comparisons"
        )
    edges = [[at for at, giver in enumerate(givers) if fits(taker, giver)] for taker in takers]
    return -1 not in maximum_matching(edges)


def _fill_greedily(takers: Sequence[PlainCall], givers: Sequence[PlainCall], fits: _Fits) -> bool:
    """Give each taker the first giver that is left, and never another."""
    left = list(givers)
    for taker in takers:
        at = next((at for at, giver in enumerate(left) if fits(taker, giver)), None)
        if at is None:
            return False
        del left[at]
    return True


def _fits(mode: ArgumentMode, overrides: Mapping[str, Override], is_sound: bool) -> _Fits:
    usual = _by_mode(mode, is_sound, "tool_args_match_mode")
    own = {
        tool: _override(tool, override, is_sound)
        for tool, override in overrides.items()
        if override or is_sound  # agentevals skips what is empty
    }

    def fits(called: PlainCall, expected: PlainCall) -> bool:
        name = called["tool_name"]
        if name != expected["tool_name"]:
            return False
        return own.get(cast("str", name), usual)(called["tool_input"], expected["tool_input"])

    return fits


def _by_mode(mode: object, is_sound: bool, where: str) -> _Compare:
    if mode not in _MODES:
        raise ConfigError(f"{where}: no mode is called {mode!r}; expected {', '.join(_MODES)}")
    rules = ArgumentRules(mode=mode)
    compare = agreement(rules, json_key if is_sound else python_key)
    return lambda called, expected: all(compare(called, expected).values())


def _override(tool: str, override: object, is_sound: bool) -> _Compare:
    where = f"tool_args_match_overrides[{tool!r}]"
    if isinstance(override, str):
        return _by_mode(override, is_sound, where)
    if callable(override):
        return lambda called, expected: bool(override(called, expected))
    if not isinstance(override, Sequence) or not override:
        raise ConfigError(f"{where}: expected a mode, keys or a function, got {override!r}")
    keys = [str(key) for key in cast("Sequence[object]", override)]
    if is_sound:
        return lambda called, expected: all(_has_both(called, expected, key) for key in keys)
    return lambda called, expected: all(
        python_key(_value(called, key)) == python_key(_value(expected, key)) for key in keys
    )


def _has_both(called: JsonValue, expected: JsonValue, path: str) -> bool:
    """Tell whether a path leads to something on both sides, and to the same."""
    for part in path.split("."):
        if not isinstance(called, dict) or not isinstance(expected, dict):
            return False
        if part not in called or part not in expected:
            return False
        called, expected = called[part], expected[part]
    return json_key(called) == json_key(expected)


def _value(value: JsonValue, path: str) -> JsonValue:
    """Follow a path of keys to a value; None where it leads nowhere."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value
