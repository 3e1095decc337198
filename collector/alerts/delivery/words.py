"""Texts within the limits of the far sides."""

from bisect import bisect_right
from collections.abc import Callable, Iterable


def cut(text: str, limit: int, size: Callable[[str], int] = len) -> str:
    """Shorten a text at a blank, with an ellipsis.

    Args:
        text: Any.
        limit: Largest size of the result, 1 or more.
        size: Of a text; it never shrinks as the text grows, and is its length or more.

    Returns:
        The text itself where it fits. One long word is cut inside.

    Cost: the size of the text, some times.
    """
    if size(text) <= limit:
        return text
    room = limit - size("…")
    fits = bisect_right(range(min(len(text), limit)), room, key=lambda n: size(text[: n + 1]))
    head = text[:fits]
    if fits < len(text) and not text[fits].isspace():
        before, blank, _ = head.rpartition(" ")
        head = before if blank and 2 * len(before) >= fits else head
    return head.rstrip() + "…"


def fit(lines: Iterable[str], limit: int) -> str:
    """Join as many whole lines as fit, so that no link is cut in two.

    Args:
        lines: The most important one first.
        limit: Largest length of the result.
    """
    found = ""
    for line in lines:
        longer = f"{found}\n{line}" if found else line
        if len(longer) > limit:
            break
        found = longer
    return found
