"""Columns of rows as Arrow tables by the schema; pyarrow has no types."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from collector.store.schema import COLUMNS
from scouter.errors import DataError

_TYPES: Final[Mapping[str, Any]] = {
    "BIGINT": pa.int64(),
    "TEXT": pa.string(),
    "TEXT[]": pa.list_(pa.string()),
    "BYTEA": pa.binary(),
    "DOUBLE PRECISION": pa.float64(),
}


def arrow_table(table: str, seq: int, columns: Sequence[Sequence[Any]], rows: int) -> object:
    """Make an Arrow table of rows.

    Args:
        table: Name of the table that they go into.
        seq: Number of their commit, which is its first column.
        columns: Values of all others, in their order.
        rows: How many they are.

    Raises:
        DataError: A text has half a character, or a number more than 64 bits.
    """
    (_, *rest), names = COLUMNS[table], [name for name, _ in COLUMNS[table]]
    try:
        arrays = [
            pa.array(values, _TYPES[kind]) for values, (_, kind) in zip(columns, rest, strict=True)
        ]
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"a value of {table} cannot be stored: {error}") from error
    return pa.Table.from_arrays([pa.repeat(pa.scalar(seq, pa.int64()), rows), *arrays], names)


def rows_table(table: str, seq: int, rows: Sequence[Sequence[Any]]) -> object:
    """The same of rows, of which there is one at least."""
    return arrow_table(table, seq, list(zip(*rows, strict=True)), len(rows))
