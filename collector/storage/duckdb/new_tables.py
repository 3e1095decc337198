"""The tables of a new store, made at once: its steps one by one would take six times as long."""

import re
from collections.abc import Iterable
from typing import Final

_CREATE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+) \((.*)\)", re.DOTALL)
_ADD: Final = re.compile(r"ALTER TABLE (\w+) ADD COLUMN IF NOT EXISTS (.+)", re.DOTALL)
_DROP: Final = re.compile(r"ALTER TABLE (\w+) DROP COLUMN IF EXISTS (\w+)")
_DROP_TABLE: Final = re.compile(r"DROP TABLE IF EXISTS (\w+)")
_ROWS: Final = re.compile(r"(INSERT INTO|UPDATE|DELETE FROM) ")
"""Statements that change rows that there are; a new store has none."""


def statements(step: str) -> list[str]:
    """The statements of a step."""
    return [each.strip() for each in step.split(";") if each.strip()]


def tables_after(steps: Iterable[str]) -> str:
    """SQL for the tables that some steps make of an empty store.

    Args:
        steps: Statements of the forms that `schema.MIGRATIONS` has.

    Raises:
        ValueError: A statement has another form.
    """
    tables: dict[str, list[str]] = {}
    for statement in (each for step in steps for each in statements(step)):
        if found := _CREATE.fullmatch(statement):
            columns = [each.strip() for each in found[2].split(",")]
            tables.setdefault(found[1], columns)
        elif found := _ADD.fullmatch(statement):
            tables[found[1]].append(found[2])
        elif found := _DROP.fullmatch(statement):
            table, name = found.groups()
            tables[table] = [each for each in tables[table] if each.split()[0] != name]
        elif found := _DROP_TABLE.fullmatch(statement):
            tables.pop(found[1], None)
        elif not _ROWS.match(statement):
            raise ValueError(f"the tables after this statement are not known: {statement!r}")
    return ";".join(f"CREATE TABLE {name} ({', '.join(all_)})" for name, all_ in tables.items())
