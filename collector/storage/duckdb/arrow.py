"""Rows to Arrow tables, in one place because pyarrow comes without types."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportOptionalMemberAccess=false, reportMissingTypeArgument=false

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

_SEQ = "seq"
_ORDINAL = "ordinal"


class Columns:
    """Rows of a table by column, without what the commit adds: its number, and their positions."""

    def __init__(self, arrays: Mapping[str, Any], rows: int) -> None:
        self._arrays, self.rows = arrays, rows

    def repeat(self, names: Iterable[str], times: Sequence[int]) -> "Columns":
        """Take some columns, with each row so many times as is said for it."""
        positions = (at for at, count in enumerate(times) for _ in range(count))
        places = pa.array(positions, pa.int32(), size=sum(times))
        return Columns({name: self._arrays[name].take(places) for name in names}, len(places))

    def beside(self, others: "Columns") -> "Columns":
        """Put the columns of others beside these; they have as many rows."""
        return Columns({**self._arrays, **others._arrays}, self.rows)

    def array(self, name: str) -> object:
        """A column as Arrow has it."""
        return self._arrays[name]


class Schema:
    """The columns of a table as Arrow knows them.

    Args:
        names: Of its columns, in their order.
        types: Their types in Arrow.
    """

    def __init__(self, names: list[str], types: list[Any]) -> None:
        self._names = names
        self._types = types

    def of_rows(self, rows: Sequence[Sequence[object]]) -> object:
        """Turn rows into an Arrow table; see `to_table`.

        Args:
            rows: At least one row; values in the order of the columns.
        """
        return self.to_table(dict(zip(self._names, zip(*rows, strict=True), strict=True)))

    def to_table(self, values: Mapping[str, Sequence[object]]) -> object:
        """Turn values into an Arrow table.

        Args:
            values: By name of the column, all equally many and at least one.

        Raises:
            pyarrow.ArrowException, UnicodeEncodeError, OverflowError: A value does not fit.
        """
        kinds = zip(self._names, self._types, strict=True)
        return pa.Table.from_arrays(
            [_array(values[name], kind) for name, kind in kinds], self._names
        )

    def columns(self, values: Mapping[str, Sequence[object]]) -> Columns:
        """Turn values into columns.

        Args:
            values: By name of the column, all equally many.

        Raises:
            pyarrow.ArrowException, UnicodeEncodeError, OverflowError: A value does not fit.
        """
        kinds = dict(zip(self._names, self._types, strict=True))
        arrays = {name: pa.array(column, kinds[name]) for name, column in values.items()}
        return Columns(arrays, len(next(iter(arrays.values()))))

    def join(self, parts: Sequence[Columns], seq: int) -> object:
        """Put the rows of a commit into one Arrow table.

        Args:
            parts: At least one row in all; each has every column but those that a commit adds.
            seq: Number of the commit.
        """
        batches: list[Any] = []
        start = 0
        for part in parts:
            arrays = [
                pa.repeat(pa.scalar(seq, kind), part.rows)
                if name == _SEQ
                else pa.array(range(start, start + part.rows), kind)
                if name == _ORDINAL
                else part.array(name)
                for name, kind in zip(self._names, self._types, strict=True)
            ]
            batches.append(pa.RecordBatch.from_arrays(arrays, self._names))
            start += part.rows
        return pa.Table.from_batches(batches)


def read_schemas(connection: duckdb.DuckDBPyConnection, tables: Iterable[str]) -> dict[str, Schema]:
    """Read the columns of tables. DuckDB says itself how its types map: once for each type.

    Args:
        connection: Its database has the tables.
        tables: Their names.
    """
    columns: dict[str, dict[str, str]] = {table: {} for table in tables}
    rows = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE database_name = current_database() AND schema_name = 'main' ORDER BY column_index"
    ).fetchall()
    for table, name, kind in rows:
        if table in columns:
            columns[table][name] = kind
    kinds = sorted({kind for kind_of in columns.values() for kind in kind_of.values()})
    nulls = ", ".join(f'NULL::{kind} AS "{kind}"' for kind in kinds)
    found = connection.sql(f"SELECT {nulls}").to_arrow_table().schema.types
    types = dict(zip(kinds, found, strict=True))
    return {
        table: Schema(list(kind_of), [types[kind] for kind in kind_of.values()])
        for table, kind_of in columns.items()
    }


def _array(values: Sequence[object], kind: Any) -> object:  # noqa: ANN401 pyarrow has no types
    """A column; one that holds the same throughout, as most columns of spans do, is not copied."""
    first = values[0]
    if values[-1] == first and values.count(first) == len(values):
        return pa.repeat(pa.scalar(first, kind), len(values))
    return pa.array(values, kind)


ArrowError: type[Exception] = pa.ArrowException
