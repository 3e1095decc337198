"""A new store has the tables that the steps make one by one."""

from collections.abc import Sequence

import duckdb
import pytest

from collector.storage.duckdb.arrow import read_schemas
from collector.storage.duckdb.new_tables import statements, tables_after
from collector.storage.duckdb.schema import MIGRATIONS, TABLES


def tables(parts: Sequence[str]) -> list[tuple[str, str]]:
    """Name and definition of each table, columns in their order; none of them may have a row."""
    with duckdb.connect() as connection:
        for each in parts:
            connection.execute(each)
        found = connection.execute("SELECT table_name, sql FROM duckdb_tables() ORDER BY 1")
        made = found.fetchall()
        for name, _ in made:
            assert connection.execute(f"FROM {name}").fetchall() == []
        return made


@pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
def test_the_tables_are_those_of_the_steps(version: int) -> None:
    one_by_one = [each for step in MIGRATIONS[:version] for each in statements(step)]
    assert tables([tables_after(MIGRATIONS[:version])]) == tables(one_by_one)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE again (n INTEGER)",
        "ALTER TABLE spans RENAME COLUMN name TO called",
        "CREATE INDEX named ON spans (name)",
    ],
)
def test_a_statement_of_another_form_is_refused(statement: str) -> None:
    with pytest.raises(ValueError, match="not known"):
        tables_after([*MIGRATIONS, statement])


def test_schemas_are_those_that_duckdb_gives_of_each_table() -> None:
    """A row of each table, with a value in each column, comes back as it was."""
    with duckdb.connect() as connection:
        connection.execute(tables_after(MIGRATIONS))
        connection.execute("CREATE SCHEMA other; CREATE TABLE other.spans (n INTEGER)")
        for table, schema in read_schemas(connection, TABLES).items():
            rows = connection.sql(f"FROM main.{table} LIMIT 0").to_arrow_table().schema
            values = {name: [None] for name in rows.names}
            assert schema.to_table(values).schema == rows  # pyright: ignore[reportAttributeAccessIssue]
