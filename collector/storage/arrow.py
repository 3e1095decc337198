"""Rows to Arrow tables, in one place because pyarrow comes without types."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportOptionalMemberAccess=false, reportMissingTypeArgument=false

from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa

Schema = Any
"""A `pyarrow.Schema`."""


def read_schema(connection: duckdb.DuckDBPyConnection, table: str) -> Schema:
    """The Arrow schema of a table, as DuckDB itself maps it."""
    return connection.sql(f"FROM {table} LIMIT 0").to_arrow_table().schema


def to_table(schema: Schema, rows: Sequence[Sequence[object]]) -> object:
    """Turn rows into an Arrow table.

    Args:
        schema: The table's columns.
        rows: At least one row; values in the order of the columns.

    Raises:
        pyarrow.ArrowException, UnicodeEncodeError: A value does not fit its column.
    """
    columns = [
        pa.array(values, type=column.type)
        for column, values in zip(schema, zip(*rows, strict=True), strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


ArrowError: type[Exception] = pa.ArrowException
