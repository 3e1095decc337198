"""Two sequences of tool calls side by side."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, TypeAlias

from collector.web.source import Answer

Kind: TypeAlias = Literal["same", "changed", "gone", "new"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """One line: a call of both sequences, or of one of them."""

    kind: Kind
    """`changed` is the same tool with other arguments."""
    before: Answer | None
    after: Answer | None


def align(before: Sequence[Answer], after: Sequence[Answer]) -> list[Aligned]:
    """Lay two sequences of calls side by side, by the tools' names.

    Args:
        before: Each with `name` and `arguments`.
        after: The same.

    Cost: at worst the product of the lengths.
    """
    matcher = SequenceMatcher(None, _names(before), _names(after), autojunk=False)
    lines: list[Aligned] = []
    for operation, begin, end, start, stop in matcher.get_opcodes():
        if operation == "equal":
            lines += map(_pair, before[begin:end], after[start:stop])
        else:
            lines += [Aligned(kind="gone", before=each, after=None) for each in before[begin:end]]
            lines += [Aligned(kind="new", before=None, after=each) for each in after[start:stop]]
    return lines


def _names(calls: Sequence[Answer]) -> list[str]:
    return [str(each["name"]) for each in calls]


def _pair(before: Answer, after: Answer) -> Aligned:
    is_same = before["arguments"] == after["arguments"]
    return Aligned(kind="same" if is_same else "changed", before=before, after=after)


def read_calls(value: object) -> list[Answer] | None:
    """Read a trajectory as results hold it: a list of calls, with steps as lists among them.

    Returns:
        The calls in one row; None if it is no trajectory.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, list) or not value:
        return None
    calls = list(_flat(value))  # pyright: ignore[reportUnknownArgumentType]  # any JSON
    return None if None in calls else [each for each in calls if each is not None]


def _flat(value: Sequence[object]) -> Iterator[Answer | None]:
    for each in value:
        if isinstance(each, list):
            yield from _flat(each)  # pyright: ignore[reportUnknownArgumentType]  # any JSON
        elif isinstance(each, dict) and "tool_name" in each:
            yield {"name": str(each["tool_name"]), "arguments": each.get("tool_input")}  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]  # any JSON
        else:
            yield None
