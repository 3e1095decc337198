"""The place at which a search found its text."""

import re
from typing import Final

from scouter.model.struct import struct

_AROUND: Final = 60
_WHERE: Final = 100


@struct
class TextMatch:
    """A text in a value, with the characters around it."""

    where: str
    """Path in the context, key of the attribute, or `name`, `status` or `event` of a span."""
    before: str
    """60 characters at most; begins with `…` where more are left out."""
    text: str
    """As the value writes it; empty in the rare value whose small letters are longer, as of `İ`."""
    after: str
    """Likewise; ends with `…`."""


def text_match(where: str, value: str, text: str) -> TextMatch:
    """Cut a value that has a text, in either case, to what stands around it.

    Args:
        where: Name of the value.
        value: May be long.
        text: Not empty.
    """
    found = re.search(re.escape(text), value, re.IGNORECASE)
    begin, end = (0, 0) if found is None else found.span()
    first, last = max(0, begin - _AROUND), end + _AROUND
    return TextMatch(
        where=where if len(where) <= _WHERE else f"{where[:_WHERE]}…",
        before=("…" if first else "") + value[first:begin],
        text=value[begin:end],
        after=value[end:last] + ("…" if last < len(value) else ""),
    )
