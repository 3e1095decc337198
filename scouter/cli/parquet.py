"""JSON lines as a Parquet file.

The lines are kept in a temporary file meanwhile and read twice: what a column holds is known only
when all of it was seen, and there may be more than fits in memory.
"""

import tempfile
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final, cast

from pydantic_core import from_json, to_json

from scouter.errors import ConfigError

_ROWS: Final = 5000
"""Rows in one row group, unless they are long."""
_GROUP_BYTES: Final = 8 * 2**20
"""Size in bytes of the JSON lines of one row group; their objects take several times as much."""
_PLAIN: Final = (bool, int, float, str)
_INT64: Final = range(-(2**63), 2**63)
_EXACT: Final = range(-(2**53), 2**53 + 1)
"""Integers that a 64-bit float holds, each of them."""
_ARROW: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64"}


def write_parquet(parts: Iterable[bytes], file: IO[bytes], folder: Path) -> None:
    """Write JSON lines as Parquet.

    A column of booleans, integers, numbers or texts keeps its type. Any other column is JSON text.
    A column with an integer that its type does not hold is JSON text, too: no integer is rounded.

    Args:
        parts: The lines' bytes, cut anywhere.
        file: The Parquet file.
        folder: Has room for the lines, in a file without a name.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        pa: Any = import_module("pyarrow")  # its types are not complete
        pq: Any = import_module("pyarrow.parquet")
    except ImportError as error:
        raise ConfigError(
            "--format parquet needs pyarrow, which is not installed: pip install pyarrow"
        ) from error

    with tempfile.TemporaryFile(dir=folder) as lines:
        lines.writelines(parts)
        kinds = _kinds(row for group in _groups(lines) for row in group)
        schema = pa.schema([(name, _ARROW.get(kind, "string")) for name, kind in kinds.items()])
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for group in _groups(lines):
                columns = [
                    pa.array(
                        [_cell(row.get(name), kind) for row in group], _ARROW.get(kind, "string")
                    )
                    for name, kind in kinds.items()
                ]
                writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _groups(lines: IO[bytes]) -> Iterator[list[dict[str, object]]]:
    """The rows of the lines, so many together as make a row group."""
    lines.seek(0)
    rows: list[dict[str, object]] = []
    size = 0
    for line in lines:
        rows.append(cast("dict[str, object]", from_json(line)))
        size += len(line)
        if len(rows) == _ROWS or size >= _GROUP_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _kinds(rows: Iterable[dict[str, object]]) -> dict[str, type]:
    """Type of the values of each column; `object` where no plain type holds them all."""
    kinds: dict[str, type] = {}
    wide: set[str] = set()
    for row in rows:
        for name, value in row.items():
            kind = type(value)
            if kind is int and value not in _EXACT:
                wide.add(name)
                kind = int if value in _INT64 else object
            known = kinds.setdefault(name, kind)
            if known is type(None):
                kinds[name] = kind
            elif kind not in (known, type(None)):
                kinds[name] = float if {kind, known} == {int, float} else object
    return {
        name: object if kind not in _PLAIN or (kind is float and name in wide) else kind
        for name, kind in kinds.items()
    }


def _cell(value: object, kind: type) -> object:
    if value is None or kind is not object:
        return value
    return to_json(value).decode()
