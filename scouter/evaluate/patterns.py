r"""Regular expressions that come from other people: RE2's syntax, linear time.

The syntax is RE2's (https://github.com/google/re2/wiki/Syntax), and so is the meaning: `\d`, `\w`,
`\s` and `\b` are ASCII (write `\pN`, `\pL` for digits and letters of any script), `(?i)` folds
case as Unicode does, `.` is any character but a newline, `^` and `$` are the very beginning and
end of the text unless `(?m)` is set. Look-around, backreferences, atomic groups and possessive
repetition do not exist, as no linear search can have them. A pattern is searched for anywhere.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, Protocol, cast

from scouter.errors import ConfigError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.model.json_value import plain_text

MAX_PATTERN: Final = 4_096
"""Characters of a pattern."""
MAX_PROGRAM: Final = 10_000
"""Instructions that a pattern may become; counted repetition multiplies them."""
MAX_TEXT: Final = 1_000_000
"""Characters of a text that is searched; a longer one is a `TaskFault` (`Reason.LIMIT`)."""
MAX_WORK: Final = 200_000_000
"""Instructions of the pattern times bytes of the text, about a second at the very worst."""
_MAX_MEMORY: Final = 8 << 20

Found = Callable[[str], bool]


class _Searcher(Protocol):
    """Part of a compiled pattern of `re2` that is used here; `re2` has no types of its own."""

    programsize: int

    def search(self, text: bytes) -> object: ...


class Pattern:
    """A compiled pattern; made by `compile_pattern`.

    Safe to use from several threads.
    """

    __slots__ = ("found_in", "size", "text")

    def __init__(self, text: str, found_in: Found, size: int) -> None:
        self.text: str = text
        self.found_in: Found = found_in
        """True if the pattern is somewhere in a text; linear in the text.

        Raises `TaskFault` (`Reason.LIMIT`) beyond `MAX_TEXT` or `MAX_WORK`."""
        self.size: int = size
        """Instructions that the pattern becomes."""

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"


@lru_cache(maxsize=512)
def compile_pattern(text: str, what: str = "pattern") -> Pattern:
    """Compile a regular expression of RE2's syntax.

    Args:
        text: The pattern, at most `MAX_PATTERN` characters.
        what: Name of the pattern in messages.

    Raises:
        ConfigError: Not a pattern; names the fault and a way to mend it.

    Cost: linear in the pattern with its counted repetitions written out.
    """
    if len(text) > MAX_PATTERN:
        raise ConfigError(
            f"{what}: the pattern has {len(text)} characters, at most {MAX_PATTERN} are allowed"
        )
    searcher = _compile(text, what)
    size = searcher.programsize
    if size > MAX_PROGRAM:
        raise ConfigError(
            f"{what} {_short(text)}: it becomes {size} instructions, at most {MAX_PROGRAM} are "
            "allowed; use smaller counts in {…} and fewer of them"
        )
    return Pattern(text, _bounded(searcher, size, what), size)


def _compile(text: str, what: str) -> _Searcher:
    if plain_text(text) is not text:
        raise ConfigError(f"{what} {_short(text)}: it holds half a character (a lone surrogate)")
    import re2  # slow to load, and not every profile has patterns

    options = re2.Options()
    options.log_errors = False  # it would write to stderr
    options.never_capture = True
    options.max_mem = _MAX_MEMORY
    try:
        return cast("_Searcher", re2.compile(text, options))
    except cast("type[Exception]", re2.error) as fault:
        raise ConfigError(f"{what} {_short(text)}: {_advice(text, fault)}") from None


def _bounded(searcher: _Searcher, size: int, what: str) -> Found:
    search, longest = searcher.search, MAX_WORK // size

    def found_in(text: str) -> bool:
        if len(text) > MAX_TEXT:
            raise TaskFault(
                Reason.LIMIT,
                f"{what}: the text has {len(text)} characters, at most {MAX_TEXT} are searched",
            )
        try:
            data = text.encode()
        except UnicodeEncodeError:
            data = plain_text(text).encode()
        if len(data) > longest:
            raise TaskFault(
                Reason.LIMIT,
                f"{what}: the text has {len(data)} bytes; with a pattern of {size} instructions "
                f"at most {longest} are searched",
            )
        return search(data) is not None

    return found_in


def _short(text: str) -> str:
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}…"


_ADVICE: Final = (
    (
        r"\(\?<?[=!]",
        "look-around is not supported, as it cannot be searched in linear time; use a task for "
        "each condition (NotContains, or a pattern of its own)",
    ),
    (
        r"\\\d|\(\?P=|\\k",
        "backreferences are not supported, as they cannot be searched in linear time; write the "
        "alternatives out",
    ),
    (r"\(\?[>(]", "atomic and conditional groups are not supported; use (?:…)"),
    (r"\(\?#", "comments are not supported; leave them out"),
    (r": [*+?]\+|: \{.*\}\+", "possessive repetition is not supported; leave out the + behind"),
    (r"\\Z", r"\Z is not supported; write \z or $ for the end of the text"),
    ("too large|repetition size", "use smaller counts in {…}, and fewer of them"),
)
"""Syntax of other engines, as RE2's error quotes it, and the advice on what to write instead."""


def _advice(text: str, fault: Exception) -> str:
    raw = fault.args[0] if fault.args else b""
    reported = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    if reported.endswith("(?P") and "(?P=" in text:
        reported += "="
    for quoted, advice in _ADVICE:
        if re.search(quoted, reported):
            return f"{advice} ({reported})"
    return f"not a regular expression of RE2's syntax: {reported}"
