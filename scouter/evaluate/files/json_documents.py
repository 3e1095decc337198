"""JSON texts of a file, one behind the other; of a broken one all items that are whole.

Lists of traces, spans and scores are read so: each item has its own meaning. What means something
only as a whole, such as a profile, is read by `scouter.evaluate.files.read`.
"""

import json
import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from scouter.errors import DataError

HOLDERS: Final = (
    "data", "rows", "results", "traces", "trace", "observations", "scores", "runs", "spans",
    "annotations", "trajectories", "child_runs",
)  # fmt: skip
"""Keys under which answers of APIs and downloads hold their objects."""
_OPENED: Final = frozenset(
    {*HOLDERS, "samples", "resourceSpans", "scopeSpans", "resourceLogs", "scopeLogs", "logRecords"}
)
"""Those of Inspect's logs and of OTLP as well: what they hold means something without the rest."""
_HEADS: Final = frozenset({"resource", "scope", "eval"})
"""Keys of what is said once for all items beside it."""
_DEEPEST: Final = 8
"""Lists and holders, one in another, that are looked into; the rows of exports as well."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_BETWEEN: Final = re.compile(r"[ \t\n\r,]*")
_TOKEN: Final = re.compile(r'"(?:[^"\\\n]|\\.)*"?|[\[\]{},]|\n[\[{]')
"""Strings and signs of a text; and the beginning of another text."""
_CLOSING: Final = {"[": "]", "{": "}"}
_AND_REST: Final = ", nor what follows it in its list"
_Read: TypeAlias = tuple[object, int | None]
"""A value, and where it ends; None where that is not known."""


def json_documents(text: str) -> Iterator[tuple[int, object]]:
    """Read every JSON text of a file.

    Of a broken one the whole items are read, before the break and behind it: from the next that
    begins a line as the broken one does, else from the comma at which its brackets are closed.
    The next text begins at the beginning of a line.

    Returns:
        The line on which a text begins, and its value; before it for each part that was not read
        the line of the break and a `DataError`.

    Cost: linear in the text, and for each broken part in what is before it.
    """
    line, counted, at = 1, 0, _end(_BETWEEN, text, 0)
    while at < len(text):
        line += text.count("\n", counted, at)
        counted = at
        reader = _Reader(text, at)
        value, end = reader.read(at)
        yield from reader.faults
        if value is not _NOTHING:
            yield line, value
        at = _end(_BETWEEN, text, reader.next_text() if end is None else end)


def _end(spaces: re.Pattern[str], text: str, at: int) -> int:
    found = spaces.match(text, at)
    return at if found is None else found.end()


_NOTHING: Final = object()


class _Reader:
    """Reads a text that may be broken."""

    def __init__(self, text: str, begin: int) -> None:
        self._text, self._begin = text, begin
        self._decode = json.JSONDecoder().raw_decode
        self.faults: list[tuple[int, DataError]] = []
        self._stopped_at = begin
        """Beginning of the last part whose end is not known."""

    def _skip(self, at: int) -> int:
        return _end(_SPACE, self._text, at)

    def _is_next_text(self, at: int) -> bool:
        """Tell whether a line begins as the text did: the text was cut, and this is the next."""
        begins_line = at > self._begin and self._text[at - 1] == "\n"
        return begins_line and self._text[at : at + 1] == self._text[self._begin]

    def next_text(self) -> int:
        """Find the next text behind one without an end; the end of the file if there is none."""
        found = (self._text.find(f"\n{sign}", self._stopped_at) for sign in _CLOSING)
        return min((each for each in found if each >= 0), default=len(self._text))

    def read(self, at: int, depth: int = 0) -> _Read:
        """Read the value that begins somewhere; of a broken one its whole items."""
        try:
            return self._decode(self._text, at)
        except (ValueError, RecursionError) as error:
            first = self._text[at : at + 1]
            if first == "[" and depth < _DEEPEST:
                return self._items(at, depth)
            if first == "{" and depth < _DEEPEST:
                return self._parts(at, depth)
            self._broken(at, error, "the value")
            return _NOTHING, None

    def _items(self, begin: int, depth: int) -> _Read:
        found: list[object] = []
        at = self._skip(begin + 1)
        while (sign := self._text[at : at + 1]) != "]":
            if not sign or self._is_next_text(at):
                self._broken(begin, "the list has no end", "the rest of the list")
                self._stop(at)
                return found or _NOTHING, None
            value, end = self.read(at, depth + 1)
            if value is not _NOTHING:
                found.append(value)
            if end is None and (end := self._next_line(at) or self._behind(at)) is None:
                line, fault = self.faults[-1]
                if not str(fault).endswith(_AND_REST):
                    self.faults[-1] = line, DataError(f"{fault}{_AND_REST}")
                return found or _NOTHING, None
            at = self._skip(end)
            if self._text.startswith(",", at):
                at = self._skip(at + 1)
            elif self._text[at : at + 1] not in ("]", "[", "{", ""):
                self._broken(at, "expected , or ] behind an item", "the rest of the list")
                return found or _NOTHING, None
        return found, at + 1

    def _parts(self, begin: int, depth: int) -> _Read:
        found: dict[str, object] = {}
        at = left = begin
        try:
            while not self._text.startswith("}", at):
                at = left = self._skip(at + 1)
                key, colon = self._decode(self._text, at)
                colon = self._skip(colon)
                if not isinstance(key, str) or not self._text.startswith(":", colon):
                    raise self._error("expected a key and a colon", at)
                at = left = self._skip(colon + 1)
                if self._is_next_text(at):
                    raise self._error("the object has no end", begin)
                value, end = (
                    self.read(at, depth + 1) if key in _OPENED else self._decode(self._text, at)
                )
                if value is not _NOTHING:
                    found[key] = value
                if end is None:
                    break
                at = self._skip(end)
                left = at if key in _OPENED else left
                if self._text[at : at + 1] not in (",", "}"):
                    raise self._error("expected , or } behind a value", at)
            else:
                return found, at + 1
            problem: Exception | str = "an object has no known end"
            is_known = found.keys() <= _OPENED | _HEADS
        except (ValueError, RecursionError) as error:
            problem, is_known = error, False
        opened = sorted(found.keys() & _OPENED)
        if not is_known:
            but = f" (but for {', '.join(opened)})" if opened else ""
            self._broken(begin, problem, f"the object{but}")
        self._stop(left)
        if not opened:
            return _NOTHING, None
        return {key: each for key, each in found.items() if key in _OPENED | _HEADS}, None

    def _stop(self, at: int) -> None:
        before = at - 1 if self._text[at - 1] == "\n" else at  # where the next text may begin
        self._stopped_at = max(self._stopped_at, before)

    def _error(self, problem: str, at: int) -> json.JSONDecodeError:
        return json.JSONDecodeError(problem, self._text, at)

    def _broken(self, begin: int, problem: Exception | str, what: str) -> None:
        """Take down what was not read, with the line of the break."""
        self._stopped_at = max(self._stopped_at, begin)
        line = self._text.count("\n", 0, begin) + 1
        column = begin - self._text.rfind("\n", 0, begin)
        at, words = line, str(problem).partition("; use sys.")[0]
        if isinstance(problem, json.JSONDecodeError):
            at, words = problem.lineno, f"{problem.msg} (column {problem.colno})"
        elif isinstance(problem, RecursionError):
            words = "lists and objects are nested too deeply"
        where = f"{what} that begins on line {line}, column {column}"
        self.faults.append((at, DataError(f"{words}; not read: {where}")))

    def _next_line(self, at: int) -> int | None:
        """Find what begins a line as the part at `at` does; or the end of its list before it."""
        indent = self._text[self._text.rfind("\n", 0, at) + 1 : at]
        if indent.strip():
            return None
        lines = re.compile(rf"\n([ \t]{{0,{len(indent)}}})(\S)")
        for line in lines.finditer(self._text, at):
            is_outer = len(line[1]) < len(indent)
            if line[2] == "]" and (is_outer or self._text[at] != "["):
                return line.start(2)
            if is_outer:
                return None
            if line[2] in _CLOSING:
                return line.start(2)
        return None

    def _behind(self, at: int) -> int | None:
        """Find the comma, or the end of the list, behind a part whose brackets are closed."""
        closing: list[str] = []
        for token in _TOKEN.finditer(self._text, at):
            sign = token[0]
            if sign in _CLOSING:
                closing.append(_CLOSING[sign])
            elif sign[0] == "\n":
                return None
            elif sign == "," and not closing:
                return token.start()
            elif sign in ("]", "}"):
                if not closing:
                    return token.start() if sign == "]" else None
                if closing.pop() != sign:
                    return None
        return None
