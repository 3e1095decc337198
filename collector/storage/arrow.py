"""Rows to Arrow tables, in one place because pyarrow comes without types."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportOptionalMemberAccess=false, reportMissingTypeArgument=false

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa


class Schema:
    """The columns of a table as Arrow knows them.

    Args:
        connection: Where the table is.
        table: Its name; DuckDB says itself how its columns map.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, table: str) -> None:
        schema = connection.sql(f"FROM {table} LIMIT 0").to_arrow_table().schema
        self._names: list[str] = schema.names
        self._types: list[Any] = schema.types

    def to_table(self, rows: Sequence[Sequence[object]]) -> object:
        """Turn rows into an Arrow table.

        Args:
            rows: At least one row; values in the order of the columns.

        Raises:
            pyarrow.ArrowException, UnicodeEncodeError: A value does not fit its column.
        """
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, self._types, strict=True)]
        return pa.Table.from_arrays(arrays, self._names)


ArrowError: type[Exception] = pa.ArrowException
