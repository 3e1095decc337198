"""Time and tokens of whole traces, a few columns of their spans."""

from collections.abc import Collection

from collector.storage.duckdb.commit_ranges import within
from collector.storage.duckdb.read import StoredSpans
from collector.storage.log.span_codec import IS_SPAN, trace_hash
from collector.store.span_queries import TraceTotals

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608


def read_trace_totals(
    stored: StoredSpans, space: str, trace_ids: Collection[str]
) -> dict[str, TraceTotals]:
    """Traces by id, summed up over all of their spans; a trace without any is left out.

    Cost: a look at the hash of each span in the commits that may hold one of the traces.
    """
    if not trace_ids:
        return {}
    hashes = list(map(trace_hash, trace_ids))
    rows = stored.database.read(
        "SELECT trace_id, min(start_ns), max(end_ns), sum(input_tokens)::BIGINT,"
        " sum(output_tokens)::BIGINT FROM spans"
        " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS trace_hash) k USING (trace_hash)"
        f" WHERE {within(stored.traces.stretches(hashes))} AND space = ? AND {IS_SPAN}"
        " GROUP BY trace_id",
        [hashes, space],
    )
    wanted = set(trace_ids)  # a hash may be another's
    return {row[0]: TraceTotals(*row[1:]) for row in rows if row[0] in wanted}
