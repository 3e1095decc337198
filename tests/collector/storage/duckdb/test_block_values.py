"""Filters of blocks, against DuckDB's own hashing and setting of bits."""

import duckdb
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.storage.duckdb.block_filters import BLOCK, Stretch
from collector.storage.duckdb.block_values import BlockValues

_PARTS = 8
_FILTERS = """
    WITH hashes AS (
        SELECT h - h % 8 + if(is_id, 0, 1 + (h >> 56) % 7) AS h FROM (
            SELECT md5_number_lower(value) AS h, is_id FROM (
                SELECT DISTINCT space || chr(0) || col || chr(0) || value AS value,
                       col IN ('trace_id', 'session') AS is_id
                FROM given WHERE value IS NOT NULL))
    ), sized AS (
        SELECT h % 8 AS part, h, if(h % 8 = 0, {ids}, {others}) AS size FROM hashes
    )
    SELECT part, (bitstring_agg(
        (((h >> 3 & 1073741823) + n * (h >> 33 | 1)) % size)::BIGINT, 0, {last}
    ))::BLOB FROM sized, range(6) r(n) WHERE size = {last} + 1 AND (part = 0) = {are_ids}
    GROUP BY part
"""
COLUMNS = ("trace_id", "session", "name", "status")
VALUES = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=4))
ROWS = st.lists(
    st.tuples(st.sampled_from(["", "default", "ä"]), st.sampled_from(COLUMNS), VALUES), max_size=80
)


def in_sql(rows: list[tuple[str, str, str | None]]) -> list[bytes | None]:
    """The bits of each part; sizes are counted by hand."""
    distinct = {row for row in rows if row[2] is not None}
    ids = sum(row[1] in ("trace_id", "session") for row in distinct)
    others = (len(distinct) - ids) / (_PARTS - 1)
    size = 64
    while size < 24 * ids:
        size *= 2
    other_size = max(64, int(others * 24))
    other_size += -other_size % 8
    found: list[bytes | None] = [None] * _PARTS
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE given (space VARCHAR, col VARCHAR, value VARCHAR)")
        if rows:
            connection.executemany("INSERT INTO given VALUES (?, ?, ?)", rows)
        for are_ids, bits in ((True, size), (False, other_size)):
            sql = _FILTERS.format(
                ids=size if are_ids else 0,
                others=0 if are_ids else other_size,
                last=bits - 1,
                are_ids=are_ids,
            )
            for part, data in connection.execute(sql).fetchall():
                found[part] = data
    return found


@settings(deadline=None, max_examples=60)
@given(rows=ROWS, times=st.lists(st.integers(0, 2**62), min_size=1, max_size=5))
def test_a_filter_is_what_sql_makes_of_the_values(
    rows: list[tuple[str, str, str | None]], times: list[int]
) -> None:
    values = BlockValues()
    for time in times:
        values.see([time])
    for space, column, value in rows:
        values.add(space, column, [value])
    block = values.row(Stretch(3, 7))
    assert block is not None
    assert block[:-_PARTS] == (3, 7, min(times), max(times))
    assert list(block[-_PARTS:]) == in_sql(rows)
    assert len(block) == len(BLOCK)


def test_without_rows_there_is_no_block() -> None:
    assert BlockValues().row(Stretch(1, 2)) is None
