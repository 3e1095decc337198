"""Files that people write: JSON, JSON lines and YAML, read so that an error names its line."""

import difflib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from scouter.errors import FileFormatError
from scouter.evaluate.yaml_text import line_of as yaml_line
from scouter.evaluate.yaml_text import parse as yaml_parse

Loc: TypeAlias = tuple[str | int, ...]
"""The way to a value inside a document: keys and indexes."""

Model = TypeVar("Model", bound=BaseModel)

MAX_BYTES: Final = 256 * 1024 * 1024

_SPACE: Final = re.compile(r"[ \t\r\n]*")


def _no_line(loc: Loc) -> int | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One parsed value and the places that its parts came from."""

    path: str
    value: JsonValue
    find_line: Callable[[Loc], int | None] = field(default=_no_line, repr=False)
    line: int | None = None
    """Set where the whole document stands on one line, as in JSON lines."""

    def line_of(self, loc: Loc = ()) -> int | None:
        """Line of the value at a place, or of the nearest one above it that exists."""
        return self.line if self.line is not None else self.find_line(loc)

    def error(self, problem: str, loc: Loc = (), expected: str | None = None) -> FileFormatError:
        """Make the one error that says what is wrong here and where."""
        line = self.line_of(loc)
        if self.line is not None:
            problem = f"Parse error on line {self.line}: {problem}"
        return FileFormatError(self.path, problem, line, dotted(loc) or None, expected)

    def wrap(
        self, error: ValueError, loc: Loc = (), model: type[BaseModel] | None = None
    ) -> FileFormatError:
        """Turn what a model said about the value at `loc` into an error with file and line.

        Args:
            error: From pydantic, or a `ConfigError`.
            loc: Where in the document the validated value stands.
            model: What it was validated against, to name the fields there are.
        """
        if isinstance(error, FileFormatError):
            return error
        if not isinstance(error, ValidationError):
            return self.error(str(error), loc)
        inner, problem, expected = first_problem(error, model)
        return self.error(problem, self._existing(loc, inner), expected)

    def _existing(self, loc: Loc, inner: Loc) -> Loc:
        """Drop the parts of a pydantic location that name types and not keys."""
        value: Any = self.value
        for part in loc:
            value = value[part]
        found: list[str | int] = list(loc)
        for position, part in enumerate(inner):
            if isinstance(value, list) and isinstance(part, int):
                value = cast(list[Any], value)[part]
            elif isinstance(value, dict) and part in value:
                value = cast(dict[Any, Any], value)[part]
            elif position < len(inner) - 1:
                continue
            found.append(part)
        return tuple(found)


def dotted(loc: Loc) -> str:
    """Write a place as `scenarios[2].tasks[0].operator`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read_document(path: str | Path) -> Document:
    """Read one `.json`, `.yaml` or `.yml` file.

    YAML follows the 1.2 core schema: only `true` and `false` are booleans, dates stay text and
    keys are always text, so that a file means the same in JSON and in YAML.

    Raises:
        FileFormatError: No such file, another extension, not UTF-8, empty, malformed, too large.

    Cost: linear; errors cost a second pass, to find the line.
    """
    extension = check_extension(path, (".json", ".yaml", ".yml"))
    text = read_text(path)
    if not text.strip():
        raise FileFormatError(str(path), "the file is empty", expected="a list or an object")
    if extension == ".json":
        return parse_json(str(path), text)
    return parse_yaml(str(path), text)


def read_json_lines(path: str | Path) -> Iterator[Document]:
    """Read a `.jsonl` file, one document per line that is not blank.

    Raises:
        FileFormatError: As in `read_document`; names the line.
    """
    check_extension(path, (".jsonl",))
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield parse_json(str(path), line, number)


def load_model(path: str | Path, model: type[Model]) -> Model:
    """Read one `.json`, `.yaml` or `.yml` file as a model.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
    """
    document = read_document(path)
    try:
        return model.model_validate(document.value)
    except ValueError as error:
        raise document.wrap(error, model=model) from error


def parse_json(path: str, text: str, line: int | None = None) -> Document:
    """Parse JSON text; `line` is set where the text is one line of a larger file."""
    start = Document(path=path, value=None, line=line)
    try:
        value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        lineno = error.lineno
        at = Document(path=path, value=None, line=line, find_line=lambda _: lineno)
        raise at.error(f"{error.msg} (column {error.colno})", expected="JSON") from error
    except RecursionError as error:
        raise start.error("lists and objects are nested too deeply") from error
    except ValueError as error:
        raise start.error(str(error), expected="JSON") from error
    return Document(path=path, value=value, line=line, find_line=lambda loc: _json_line(text, loc))


def parse_yaml(path: str, text: str) -> Document:
    """Parse one YAML document."""
    value, root = yaml_parse(path, text)
    return Document(path=path, value=value, find_line=lambda loc: yaml_line(root, loc))


def first_problem(
    error: ValidationError, model: type[BaseModel] | None = None
) -> tuple[Loc, str, str | None]:
    """Take the first problem of a validation apart: where, what, and what was expected."""
    details = error.errors()[0]
    loc: Loc = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, ValidationError):
        inner, problem, expected = first_problem(cause)
        return (*loc, *inner), problem, expected
    if isinstance(cause, ValueError):
        return loc, str(cause), None
    return loc, *_words(details, model)


def _words(details: ErrorDetails, model: type[BaseModel] | None) -> tuple[str, str | None]:
    loc, message = details["loc"], details["msg"]
    if details["type"] == "missing":
        return "the field is missing", "a value"
    if details["type"] == "extra_forbidden":
        return "unknown field", _known(str(loc[-1]), model if len(loc) == 1 else None)
    if message.startswith("Input should be "):
        return f"{_short(details['input'])} does not fit", message.removeprefix("Input should be ")
    return message, None


def _known(name: str, model: type[BaseModel] | None) -> str | None:
    if model is None:
        return "no such field here"
    fields = list(model.model_fields)
    near = difflib.get_close_matches(name, fields, n=1)
    return (f"{near[0]!r}, or another of " if near else "one of ") + ", ".join(fields)


def _short(value: object, limit: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def check_extension(path: str | Path, allowed: Sequence[str]) -> str:
    """Return the lower-case extension, dot included, of a file that may be read.

    Raises:
        FileFormatError: There is none, or another than those allowed.
    """
    extension = Path(path).suffix.lower()
    if not extension:
        raise FileFormatError(
            str(path), f"Cannot determine file extension for: {path}", expected=_either(allowed)
        )
    if extension not in allowed:
        raise FileFormatError(
            str(path), f"Unsupported extension {extension!r}. Expected {_either(allowed)}"
        )
    return extension


def _either(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{',' if len(words) > 2 else ''} or {words[-1]}"


def read_text(path: str | Path) -> str:
    """Read a file as UTF-8.

    Raises:
        FileFormatError: It cannot be read, is larger than `MAX_BYTES` or is not UTF-8.
    """
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise FileFormatError(
                str(path), f"the file has {size} bytes", expected=f"at most {MAX_BYTES}"
            )
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileFormatError(str(path), f"cannot read the file: {error.strerror}") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            str(path), f"byte {data[error.start]:#04x} is not UTF-8", line, expected="UTF-8 text"
        ) from error


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON value")


def _json_line(text: str, loc: Loc) -> int:
    """Find the line of a value in JSON text that is known to be valid."""
    position = _skip(text, 0)
    for part in loc:
        found = _json_child(text, position, part)
        if found is None:
            break
        position = found
    return text.count("\n", 0, position) + 1


def _json_child(text: str, start: int, part: str | int) -> int | None:
    decode = json.JSONDecoder().raw_decode
    opening = text[start]
    if opening not in "[{" or (opening == "{") != isinstance(part, str):
        return None
    position, index = _skip(text, start + 1), 0
    while text[position] not in "]}":
        key: str | int = index
        if opening == "{":
            key, position = decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        if key == part:
            return position
        _, position = decode(text, position)
        position, index = _skip(text, position), index + 1
        if text[position] == ",":
            position = _skip(text, position + 1)
    return None


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return position if match is None else match.end()


__all__ = (
    "Document",
    "Loc",
    "check_extension",
    "dotted",
    "first_problem",
    "load_model",
    "parse_json",
    "parse_yaml",
    "read_document",
    "read_json_lines",
    "read_text",
)
