"""The objects of an export's file: JSON, JSON lines, CSV or Parquet, plain, gzip or zstd."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import ast
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from scouter.errors import DataError, FileFormatError
from scouter.evaluate.files.json_documents import HOLDERS, json_documents
from scouter.evaluate.files.read import MAX_BYTES
from scouter.evaluate.spans.files import inflated
from scouter.evaluate.spans.parquet import MAGIC, pyarrow
from scouter.formats.exports.spans import Row, Tell
from scouter.model.json_value import to_json_value

IsRow: TypeAlias = Callable[[Mapping[str, object]], bool]
_BOM: Final = b"\xef\xbb\xbf"
_HALF: Final = re.compile("[\0\udc80-\udcff]")
"""What no text has: a NUL, or a byte that is not UTF-8."""
_DEEPEST: Final = 8
"""Lists and holders, one in another, that are looked into."""


def read_rows(path: Path, is_row: IsRow, tell: Tell) -> Iterator[Row]:
    """Read the objects of a file, in order.

    Args:
        path: The file; its content says the form, and never its name.
        is_row: Tells whether an object is one that a format knows; others are looked into for such
            objects, and given as they are where there are none.
        tell: Takes what cannot be read.
    """
    for line, whole in read_values(path, tell):
        for each in _within(whole, is_row):
            try:
                value = to_json_value(each)
                if not isinstance(value, dict):
                    raise DataError(f"expected an object, not {type(each).__name__}")
                yield Row(value=value, path=str(path), line=line)
            except DataError as error:
                tell(FileFormatError(str(path), str(error), line))


def read_values(path: Path, tell: Tell) -> Iterator[tuple[int | None, object]]:
    """Read the JSON texts or the rows of a file, each with its line; see `read_rows`."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) == MAGIC:
                yield from _of_parquet(path)
                return
            file.seek(0)
            data, problem = inflated(file.read(MAX_BYTES + 1))
    except OSError as error:
        tell(FileFormatError(str(path), f"cannot read the file: {error.strerror or error}"))
        return
    except DataError as error:
        tell(FileFormatError(str(path), str(error)))
        return
    if problem:
        tell(FileFormatError(str(path), problem))
    text = data.removeprefix(_BOM).decode("utf-8", "surrogateescape")
    head = text.partition("\n")[0]
    if not text.strip():
        tell(FileFormatError(str(path), "the file is empty"))
    elif text.lstrip()[:1] not in ("{", "["):
        if "," in head and _HALF.search(head) is None:
            yield from _of_csv(path, text, tell)
        else:
            tell(FileFormatError(str(path), "neither JSON, nor CSV, nor Parquet"))
    else:
        for line, value in json_documents(text):
            if isinstance(value, Exception):
                tell(FileFormatError(str(path), f"not JSON: {value}", line))
            else:
                yield line, value


def _of_csv(path: Path, text: str, tell: Tell) -> Iterator[tuple[int | None, object]]:
    before = csv.field_size_limit(MAX_BYTES)  # of the whole module; an input may be long
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if None in row or None in row.values():
                problem = f"the row has not {len(reader.fieldnames or ())} cells, as the header has"
                tell(FileFormatError(str(path), problem, reader.line_num))
            else:
                yield reader.line_num, {name: _cell(cell) for name, cell in row.items()}
    except csv.Error as error:
        tell(FileFormatError(str(path), f"no CSV: {error}", reader.line_num))
    finally:
        csv.field_size_limit(before)


def _cell(cell: str) -> object:
    """Read a cell: an object as Python prints it, which pandas writes; else the text."""
    if cell.startswith(("{'", "[{'")):
        try:
            return ast.literal_eval(cell)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return cell
    return cell or None


def _of_parquet(path: Path) -> Iterator[tuple[int | None, object]]:
    pa: Any = pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            # What is finer than a microsecond has no object without another package.
            fields = [
                each.with_type(pa.timestamp("us", each.type.tz)) if _is_ns(pa, each.type) else each
                for each in file.schema_arrow
            ]
            for batch in file.iter_batches(batch_size=1000):
                rows = batch.cast(pa.schema(fields), safe=False)
                for row in rows.to_pylist(maps_as_pydicts="lossy"):
                    yield None, row
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"broken Parquet: {error}") from error


def _is_ns(pa: Any, kind: Any) -> bool:  # noqa: ANN401 its types are not complete
    return pa.types.is_timestamp(kind) and kind.unit == "ns"


def _within(value: object, is_row: IsRow, depth: int = 0) -> Iterator[object]:
    """Find the objects in a JSON text: itself, the items of a list, and what these hold."""
    if isinstance(value, list) and depth < _DEEPEST:
        for item in cast("list[object]", value):
            yield from _within(item, is_row, depth + 1)
        return
    if isinstance(value, dict) and depth < _DEEPEST:
        fields = cast("dict[str, object]", value)
        inner = _by_row(fields, is_row)
        is_known = not inner and is_row(fields)
        if is_known:
            yield fields
        for each in inner or (fields.get(name) for name in HOLDERS):
            if _is_list_of_objects(each) or (not is_known and isinstance(each, dict)):
                inner = [each]
                yield from _within(each, is_row, depth + 1)
        if is_known or inner:
            return
    yield value


def _is_list_of_objects(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [None]
    return all(isinstance(each, dict) for each in listed)


def _by_row(value: dict[str, object], is_row: IsRow) -> list[object]:
    """Turn a frame that pandas wrote by column or by index into its rows; none of anything else."""
    columns = {
        name: cast("dict[str, object]", each)
        for name, each in value.items()
        if isinstance(each, dict)
    }
    indexes = {tuple(each) for each in columns.values()}
    if len(columns) == len(value) and any(map(is_row, columns.values())):
        return list(columns.values())
    if len(columns) < 2 or len(columns) < len(value) or len(indexes) != 1:
        return []
    return [{name: column[at] for name, column in columns.items()} for at in indexes.pop()]
