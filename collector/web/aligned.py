"""Two sides of a change, side by side: calls of tools, results of tasks, values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from typing import Final, Literal, TypeAlias, cast

from collector.web.render import text_of
from collector.web.source import Answer

Kind: TypeAlias = Literal["same", "changed", "gone", "new"]
_MOST_VALUES: Final = 200
_SLOWER_MS: Final = 10
_LEVELS: Final = 12
"""Levels of a value that are taken apart; what is deeper is one text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """One line: a call of both sequences, or of one of them."""

    kind: Kind
    """`changed` is the same tool with other arguments."""
    before: Answer | None
    after: Answer | None

    @property
    def is_slower(self) -> bool:
        """True if the call takes more than twice the time of the one before, and 10 ms more."""
        before, after = _took(self.before), _took(self.after)
        if before is None or after is None:
            return False
        return after > max(2 * before, before + _SLOWER_MS)


def _took(call: Answer | None) -> float | None:
    return None if call is None else call["duration_ms"]


def align(before: Sequence[Answer], after: Sequence[Answer]) -> list[Aligned]:
    """Lay two sequences of calls side by side, by the tools' names.

    Args:
        before: Each with `name` and `arguments`, None for any.
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
    is_same = before["arguments"] in (None, after["arguments"])
    return Aligned(kind="same" if is_same else "changed", before=before, after=after)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedTask:
    """One task on both sides; None where a side has no such task."""

    task_id: str
    before: Answer | None
    after: Answer | None

    @property
    def is_changed(self) -> bool:
        """True if it ends otherwise."""
        return _outcome(self.before) != _outcome(self.after)


def align_tasks(before: Sequence[Answer], after: Sequence[Answer]) -> list[AlignedTask]:
    """Lay the results of tasks side by side, those that end otherwise first."""
    sides = [{each["task_id"]: each for each in side} for side in (before, after)]
    lines = [
        AlignedTask(task_id=name, before=sides[0].get(name), after=sides[1].get(name))
        for name in dict.fromkeys([*sides[1], *sides[0]])
    ]
    return sorted(lines, key=lambda line: not line.is_changed)


def _outcome(result: Answer | None) -> str | None:
    return None if result is None else result["outcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlignedValue:
    """One value on both sides, as text; None where a side has none."""

    path: str
    kind: Kind
    before: str | None
    after: str | None


def align_values(before: Answer, after: Answer) -> tuple[list[AlignedValue], int]:
    """Lay two objects side by side, value by value.

    Returns:
        The first 200 values, and how many are left out.
    """
    was, now = (dict(_values(side, "", _LEVELS)) for side in (before, after))
    paths = dict.fromkeys([*was, *now])
    lines = [
        AlignedValue(
            path=path,
            kind=_kind(was.get(path), now.get(path)),
            before=was.get(path),
            after=now.get(path),
        )
        for path in islice(paths, _MOST_VALUES)
    ]
    return lines, len(paths) - len(lines)


def _kind(before: str | None, after: str | None) -> Kind:
    if before is None or after is None:
        return "new" if before is None else "gone"
    return "same" if before == after else "changed"


def _values(value: object, path: str, levels: int) -> Iterator[tuple[str, str]]:
    """The values inside of a value, as texts, with their paths."""
    if levels and isinstance(value, dict) and value:
        for key, each in cast("Mapping[str, object]", value).items():
            yield from _values(each, f"{path}.{key}" if path else key, levels - 1)
    elif levels and isinstance(value, list) and value:
        for at, each in enumerate(cast("list[object]", value)):
            yield from _values(each, f"{path}[{at}]", levels - 1)
    elif path:
        yield path, text_of(cast("object", value))
