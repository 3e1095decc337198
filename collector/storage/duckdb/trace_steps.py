"""Tool calls and errors of traces, in the order in which they began."""

from collections import defaultdict
from collections.abc import Collection
from typing import Final

from collector.storage.duckdb.commit_ranges import within
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.usage_acts import KIND
from collector.storage.log.span_codec import IS_SPAN, trace_hash
from collector.store.trace_summaries import Step
from scouter.model.span import StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_MOST: Final = 200
"""Steps of a trace that are read: the first ones."""
_TOOL: Final = f"CASE WHEN {KIND} = 'tool' THEN coalesce(tool_name, '') ELSE '' END"
_IS_ERROR: Final = f"(status = {StatusCode.ERROR.value} OR coalesce(error_type, '') <> '')"


def read_trace_steps(
    stored: StoredSpans, space: str, trace_ids: Collection[str]
) -> dict[str, list[Step]]:
    """Read the first 200 steps of each trace.

    Args:
        stored: The spans.
        space: Whose.
        trace_ids: The traces.

    Cost: a look at the hash of each span in the commits that may hold one of the traces.
    """
    if not trace_ids:
        return {}
    wanted = sorted(trace_ids)
    hashes = list(map(trace_hash, wanted))
    rows = stored.database.read(
        "SELECT trace_id, tool, is_error, coalesce(error_type, ''), end_ns FROM ("
        f" SELECT *, {_TOOL} AS tool, {_IS_ERROR} AS is_error FROM spans"
        f" WHERE {within(stored.traces.stretches(hashes))}"
        " AND trace_hash IN (SELECT unnest(?::BIGINT[]))"
        f" AND trace_id IN (SELECT unnest(?::VARCHAR[])) AND space = ? AND {IS_SPAN}"
        ") WHERE tool <> '' OR is_error QUALIFY row_number() OVER"
        " (PARTITION BY trace_id ORDER BY start_ns, end_ns DESC, span_id) <= ?"
        " ORDER BY trace_id, start_ns, end_ns DESC, span_id",
        [hashes, wanted, space, _MOST],
    )
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for trace_id, *step in rows:
        found[trace_id].append(Step(*step))
    return dict(found)
