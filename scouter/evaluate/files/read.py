"""Files that people write: JSON, JSON lines and YAML, read so that an error names its place.

The place is the key path of a value, and its line in YAML and JSON lines.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from pydantic import BaseModel, JsonValue, ValidationError

from scouter.errors import FileFormatError
from scouter.evaluate.files.field_errors import (
    Loc,
    existing,
    first_problem,
    place_of_task,
    value_at,
)
from scouter.evaluate.files.json_text import JsonFault
from scouter.evaluate.files.json_text import parse as json_parse

Model = TypeVar("Model", bound=BaseModel)

MAX_BYTES: Final = 256 * 1024 * 1024
"""Largest size of a JSON or JSON lines file, in bytes."""
MAX_YAML_BYTES: Final = 16 * 1024 * 1024
"""Largest size of a YAML file, in bytes; reading takes about a second per megabyte."""

_FOREIGN_MARKS: Final = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


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

    def inside(self, key: str) -> tuple[JsonValue, Loc]:
        """The value under a key, and its place; the whole document where it has none."""
        if isinstance(self.value, dict) and key in self.value:
            return self.value[key], (key,)
        return self.value, ()

    def line_of(self, loc: Loc = ()) -> int | None:
        """Line of the value at a place, or of the nearest one above it that exists."""
        return self.line if self.line is not None else self.find_line(loc)

    def error(self, problem: str, loc: Loc = (), expected: str | None = None) -> FileFormatError:
        """Make the one error that says what is wrong here and where."""
        line = self.line_of(loc)
        if self.line is not None:
            problem = f"Parse error on line {self.line}: {problem}"
        return FileFormatError(self.path, problem, line, dotted(loc) or None, expected)

    def wrap(self, error: ValueError, loc: Loc = (), model: object = None) -> FileFormatError:
        """Turn what a model said about the value at `loc` into an error with file and line.

        Args:
            error: From pydantic, or a `ConfigError`.
            loc: Place of the validated value in the document.
            model: The type it was validated against, to name the fields there are.
        """
        if isinstance(error, FileFormatError):
            return error
        inner, problem, expected = (), str(error), None
        if isinstance(error, ValidationError):
            inner, problem, expected = first_problem(error, model)
        place = (*loc, *existing(value_at(self.value, loc), inner))
        return self.error(problem, place_of_task(self.value, place, problem), expected)


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

    Cost: linear.
    """
    extension = check_extension(path, (".json", ".yaml", ".yml"))
    text = read_text(path, MAX_BYTES if extension == ".json" else MAX_YAML_BYTES)
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


def read_csv(path: str | Path) -> list[dict[str, str]]:
    """Read the rows of a CSV file, each with a text for every column of its header.

    Raises:
        FileFormatError: It cannot be read, is no CSV, or a row has other cells than the header.
    """
    import csv  # few files are of this kind
    import io

    text = read_text(path)
    before = csv.field_size_limit(MAX_BYTES)  # of the whole module; a trajectory may be long
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        found = list(reader)
    except csv.Error as error:
        raise FileFormatError(str(path), f"no CSV: {error}", reader.line_num) from error
    finally:
        csv.field_size_limit(before)
    for at, cells in enumerate(found):
        if None in cells or None in cells.values():
            count = len(reader.fieldnames or ())
            raise FileFormatError(
                str(path), f"row {at + 1} has not {count} cells, as the header has"
            )
    return found


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
    """Parse JSON text; `line` is set where the text is one line of a larger file.

    Raises:
        FileFormatError: Not JSON; names the line, where it is known.
    """
    try:
        value = json_parse(text)
    except JsonFault as fault:
        number = fault.line
        at = Document(path=path, value=None, line=line, find_line=lambda _: number)
        raise at.error(fault.problem, expected="JSON") from fault
    return Document(path=path, value=value, line=line)


def parse_yaml(path: str, text: str) -> Document:
    """Parse one YAML document."""
    from scouter.evaluate.files.yaml_text import line_of, parse  # YAML loads when there is some

    value, root = parse(path, text)
    return Document(path=path, value=value, find_line=lambda loc: line_of(root, loc))


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


def read_text(path: str | Path, limit: int = MAX_BYTES) -> str:
    """Read a file as UTF-8, with or without a byte order mark.

    Args:
        path: The file; anything else that can be read to an end will do, such as a pipe.
        limit: Most bytes that are read.

    Raises:
        FileFormatError: It cannot be read, is larger than `limit` or is not UTF-8.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise FileFormatError(str(path), f"cannot read the file: {words}") from error
    if len(data) > limit:
        expected = f"at most {limit:,} bytes ({limit >> 20} MiB)"
        raise FileFormatError(str(path), "the file is too large", expected=expected)
    for mark, name in _FOREIGN_MARKS.items():
        if data.startswith(mark):
            raise FileFormatError(str(path), f"the file is {name}", 1, expected="UTF-8 text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            str(path), f"byte {data[error.start]:#04x} is not UTF-8", line, expected="UTF-8 text"
        ) from error
