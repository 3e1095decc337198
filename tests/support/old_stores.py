"""Stores as older versions of the program wrote them, made of new ones."""

from pathlib import Path

import duckdb

from collector.storage.duckdb.database import FILE_NAME
from collector.storage.duckdb.schema import MIGRATIONS
from collector.storage.log.span_codec import PROMOTED

WITHOUT_TEXTS = next(n for n, sql in enumerate(MIGRATIONS) if "COLUMN IF NOT EXISTS body" in sql)
"""The last version whose verdicts had no text of their own."""
_COLUMNS = {
    "expected": "VARCHAR DEFAULT 'null'", "actual": "VARCHAR DEFAULT 'null'",
    "message": "VARCHAR DEFAULT ''", "operator": "VARCHAR DEFAULT ''",
    "condition": "BOOLEAN DEFAULT false", "stage": "INTEGER DEFAULT 0", "judge_calls": "INTEGER",
    "judge_cached": "INTEGER", "input_tokens": "BIGINT", "output_tokens": "BIGINT",
    "cost_usd": "DOUBLE", "question": "VARCHAR", "answer": "VARCHAR",
}  # fmt: skip

WITHOUT_FACTS = next(n for n, sql in enumerate(MIGRATIONS) if "genai_kind" in sql)
"""The last version whose columns of spans knew OpenTelemetry's attributes only."""

WITHOUT_ARGUMENTS = next(n for n, sql in enumerate(MIGRATIONS) if "arguments_hash" in sql)
"""The last version that knew neither arguments nor finish reasons of spans."""
_OF_CALLS = ("arguments_hash", "finish_reason")


def take_arguments_out(folder: Path) -> None:
    """Give a store the columns of `WITHOUT_ARGUMENTS`."""
    with duckdb.connect(folder / FILE_NAME) as connection:
        for name in _OF_CALLS:
            connection.execute(f"ALTER TABLE spans DROP COLUMN {name}")
        connection.execute("DELETE FROM migrations WHERE version > ?", [WITHOUT_ARGUMENTS])


def take_facts_out(folder: Path) -> None:
    """Give a store, none of whose spans has such an attribute, the columns of `WITHOUT_FACTS`."""
    with duckdb.connect(folder / FILE_NAME) as connection:
        for name in set(PROMOTED) - {"finish_reason"}:
            connection.execute(f"UPDATE spans SET {name} = NULL")  # noqa: S608 a column's name
        connection.execute("UPDATE spans SET is_model_call = false, input_tokens = NULL")
        for name in ("genai_kind", "cached_tokens", "reasoning_tokens", "act_hash", "scope_hash",
                     *_OF_CALLS):  # fmt: skip
            connection.execute(f"ALTER TABLE spans DROP COLUMN {name}")
        connection.execute("DELETE FROM migrations WHERE version > ?", [WITHOUT_FACTS])


def take_texts_out(folder: Path) -> None:
    """Give a store, whose results have nothing but outcomes, the columns of `WITHOUT_TEXTS`."""
    with duckdb.connect(folder / FILE_NAME) as connection:
        connection.execute("CREATE TABLE blocks (seq BIGINT, of_table VARCHAR)")
        connection.execute("ALTER TABLE evaluations DROP COLUMN body")
        for name, kind in _COLUMNS.items():
            connection.execute(f"ALTER TABLE task_results ADD COLUMN {name} {kind}")
        connection.execute("DELETE FROM migrations WHERE version > ?", [WITHOUT_TEXTS])
