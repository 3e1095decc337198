"""Trajectories as plain data: lists of calls, read into one form."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.files.json_text import load_strictly
from scouter.evaluate.operators.show import kind_of
from scouter.model.agent_work import ToolCall
from scouter.model.json_value import parse_if_json, to_json_value

MAX_CALLS: Final = 10_000
"""Most calls of one trajectory."""
MAX_SIDE_BY_SIDE: Final = 64
"""Calls of one step of a reference."""

_FORM: Final = 'expected a list of calls such as {"tool_name": "search", "tool_input": {"q": "x"}}'


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a trajectory."""

    name: str
    arguments: JsonValue
    """Usually an object; an empty one where nothing was reported."""
    step: int
    """Calls of one step run side by side; steps are counted from 0."""

    def plain(self) -> dict[str, JsonValue]:
        """The call as plain data, as it can be read again."""
        return {"tool_name": self.name, "tool_input": self.arguments}


def read_trajectory(
    value: object,
    what: str = "trajectory",
    *,
    is_wire: bool = False,
    most_side_by_side: int = MAX_CALLS,
) -> tuple[Call, ...]:
    """Read a trajectory.

    Args:
        value: A list of calls, or its JSON text. A call is an object with `tool_name` and
            `tool_input` (an object, or its JSON text; nothing is an empty one), or a `ToolCall`;
            other keys of the object are ignored. A list among the calls is a step: its calls run
            side by side. So are `ToolCall`s of one step, wherever they stand.
        what: The trajectory's name in messages.
        is_wire: True reads as Vertex's client does: `tool_input` must be there, a text stays a
            text, and `ToolCall`s have no steps.
        most_side_by_side: Calls of one step.

    Raises:
        DataError: None of these, more than `MAX_CALLS` calls, or too many in one step; names
            the call.

    Cost: linear in the size of the calls.
    """
    items = _items(value, what)
    calls: list[Call] = []
    groups = _steps(items) if is_wire else _joined_steps(_steps(items))
    for step, (place, group) in enumerate(groups):
        if len(group) > most_side_by_side:
            raise DataError(
                f"{what}[{place}]: {len(group):,} calls side by side; at most "
                f"{most_side_by_side:,} are compared"
            )
        for at, item in enumerate(group):
            where = f"{what}[{place}]" if len(group) == 1 else f"{what}[{place}][{at}]"
            calls.append(_call(item, where, step, is_wire))
        if len(calls) > MAX_CALLS:
            raise DataError(f"{what}: more than {MAX_CALLS:,} calls; at most so many are compared")
    return tuple(calls)


def read_reference(value: object, what: str, *, is_wire: bool = False) -> tuple[Call, ...]:
    """Read the calls that are expected; see `read_trajectory`.

    Raises:
        DataError: The same, and more than `MAX_SIDE_BY_SIDE` calls in one step.
    """
    return read_trajectory(value, what, is_wire=is_wire, most_side_by_side=MAX_SIDE_BY_SIDE)


def _items(value: object, what: str) -> Sequence[object]:
    if isinstance(value, str):
        try:
            value = load_strictly(value)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{what}: the text is no JSON: {error}; {_FORM}") from error
    if not isinstance(value, list | tuple | Mapping):
        value = to_json_value(value)  # an array or a column of some library
    if not isinstance(value, list | tuple):
        kind = "an object" if isinstance(value, Mapping) else kind_of(cast("JsonValue", value))
        raise DataError(f"{what}: got {kind}; {_FORM}")
    return cast("Sequence[object]", value)


def _steps(items: Sequence[object]) -> Iterator[tuple[int, Sequence[object]]]:
    for place, item in enumerate(items):
        is_step = isinstance(item, list | tuple)
        yield place, cast("Sequence[object]", item) if is_step else (item,)


def _joined_steps(
    groups: Iterable[tuple[int, Sequence[object]]],
) -> Iterator[tuple[int, Sequence[object]]]:
    """Put calls together that say that they are of one step, where the first of them stands."""
    found: list[tuple[int, Sequence[object]]] = []
    by_step: dict[int, list[object]] = {}
    for place, group in groups:
        step = _stated_step(group)
        if step is None:
            found.append((place, group))
        elif step in by_step:
            by_step[step] += group
        else:
            by_step[step] = [*group]
            found.append((place, by_step[step]))
    yield from found


def _stated_step(group: Sequence[object]) -> int | None:
    """The step that a call says it is of; None where it stands in a list, or says none."""
    alone = group[0] if len(group) == 1 else None
    return alone.step if isinstance(alone, ToolCall | Call) else None


def _call(item: object, where: str, step: int, is_wire: bool) -> Call:
    if isinstance(item, Call):
        return Call(item.name, item.arguments, step)
    if isinstance(item, ToolCall):
        return Call(item.name, _arguments(item.arguments), step)
    if not isinstance(item, Mapping):
        item = to_json_value(item)
        if not isinstance(item, dict):
            raise DataError(f"{where}: got {kind_of(item)}; {_FORM}")
    fields = cast("Mapping[str, object]", item)
    name = fields.get("tool_name")
    if not isinstance(name, str):
        there = ", ".join(map(repr, fields)) or "none"
        raise DataError(f"{where}: 'tool_name' must be a text; its keys are {there}")
    if is_wire:
        if "tool_input" not in fields:
            raise DataError(f"{where}: no 'tool_input', which Vertex's client requires")
        return Call(name, to_json_value(fields["tool_input"]), step)
    return Call(name, _arguments(to_json_value(fields.get("tool_input"))), step)


def _arguments(value: JsonValue) -> JsonValue:
    if value is None or value == "":  # some models write nothing for no arguments
        return {}
    parsed = parse_if_json(value)
    return parsed if isinstance(parsed, dict) else value
