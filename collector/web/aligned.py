"""Two sequences of tool calls side by side."""

from collections.abc import Sequence
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
