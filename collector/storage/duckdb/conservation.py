"""The conservation sheet: what came in, and what became of it, counted from the tables."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from collector.metrics import RECEIVED, UNCOUNTED
from collector.storage.duckdb.database import Reads
from collector.storage.duckdb.read import LATEST, SESSION_TRACES
from collector.storage.duckdb.stored_keys import TRACE_HASH
from collector.storage.duckdb.transaction import one_of_literals
from collector.storage.log.span_codec import EVENT, IS_SPAN, KIND, SPAN
from collector.store.letters import INVALID_EVENT
from collector.store.sheets import Conservation, EventSheet, RecordSheet, SpanSheet

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

_SEEN: Final = f"""
    SELECT space, record_uid, revision, trace_id, input_seq FROM evaluations
    WHERE space = $1 AND reads_spans AND trace_id IS NOT NULL
    UNION ALL
    SELECT e.space, e.record_uid, e.revision, r.trace_id, e.input_seq {SESSION_TRACES}
      AND e.space = $1
"""
"""Every evaluation of a space, with each trace that it has seen, and how far."""
_TRACE_HASH: Final = f"{TRACE_HASH}::BIT::BIGINT"
"""`trace_hash`."""
_OF_RECORDS: Final = f"""
    SELECT 'stored', 'record', count(*) FROM records WHERE space = $1
    UNION ALL
    SELECT 'decided', 'record', count(*) FROM evaluations
        WHERE space = $1 AND scope = 'record' AND revision = 1
    UNION ALL
    SELECT 'skipped', 'record', count(*) FROM evaluations e
        WHERE e.space = $1 AND e.scope = 'record' AND e.outcome = 'skipped' AND {LATEST}
    UNION ALL
    SELECT 'letters', 'record', count(*) FROM dead_letters WHERE space = $1 AND was_accepted
    UNION ALL
    SELECT 'received', name, sum(n)::BIGINT FROM totals
        WHERE space = $1 AND {one_of_literals("name", RECEIVED.values())} GROUP BY name
    UNION ALL
    SELECT name, label, sum(n)::BIGINT FROM totals
        WHERE space = $1 AND name IN
                ('duplicates', 'erased', 'expired', 'lost', 'records_derived', 'superseded')
           OR space = '' AND name = 'lost'
        GROUP BY name, label
"""
"""Read the counts of the sheet of records, and all counts that are kept."""


def read_record_sheet(database: Reads, space: str) -> RecordSheet:
    """The records' part of `read_conservation`.

    Cost: linear in records and evaluations, 5 ns for each.
    """
    return _record_sheet(_counts(database.read(_OF_RECORDS, [space])))


def read_conservation(database: Reads, space: str, *, has_events: bool = True) -> Conservation:
    """Count every state from its table, in one snapshot.

    The counts stand in rows and not in columns: for ten subqueries in one row DuckDB looks for the
    best order, which takes longer than the count.

    The number of waiting records follows from the numbers of first evaluations and dead letters;
    `check` looks for such records one by one.

    Args:
        database: Answers the queries.
        space: Space of the counts.
        has_events: False of a store that was made before there were log events.

    Cost: linear in evaluations and spans: 0.1 s for a million evaluations on as many traces, and
    0.6 s more where spans came behind many of them.
    """
    kind = KIND if has_events else f"'{SPAN}'"
    rows = database.read(
        f"""
        WITH touched AS MATERIALIZED (
            SELECT DISTINCT s.trace_id FROM spans s SEMI JOIN (
                SELECT {_TRACE_HASH} AS trace_hash, input_seq FROM ({_SEEN})
            ) seen ON seen.trace_hash = s.trace_hash AND s.seq > seen.input_seq
            WHERE s.space = $1
        )
        {_OF_RECORDS}
        UNION ALL
        SELECT 'stored', {kind}, count(*) FROM spans WHERE space = $1 GROUP BY ALL
        UNION ALL
        SELECT 'late', {kind}, count(*) FROM spans s JOIN (
                SELECT e.trace_id, min(e.input_seq) AS input_seq FROM ({_SEEN}) e
                SEMI JOIN touched ON touched.trace_id = e.trace_id
                WHERE {LATEST} GROUP BY e.trace_id
            ) seen ON seen.trace_id = s.trace_id AND s.seq > seen.input_seq WHERE s.space = $1
            GROUP BY ALL
        UNION ALL
        SELECT 'letters', 'span', count(*) FROM dead_letters
        WHERE space = $1 AND (kind = 'span' OR reason = 'invalid_span')
        UNION ALL
        SELECT 'letters', 'event', count(*) FROM dead_letters
        WHERE space = $1 AND reason = '{INVALID_EVENT}'
        UNION ALL
        SELECT 'reason', reason, count(*) FROM dead_letters WHERE space = $1 GROUP BY reason
        """,
        [space],
    )
    reasons = {label: n for counted, label, n in rows if counted == "reason"}
    counts = _counts(rows)
    accepted = _accepted_of(counts)
    spans = SpanSheet(
        accepted=accepted["span"],
        stored=counts["stored", "span"],
        duplicates=counts["duplicates", "span"],
        late=counts["late", "span"],
        dead_lettered=counts["letters", "span"],
        expired=counts["expired", "span"],
        erased=counts["erased", "span"],
        lost=counts["lost", "span"],
    )
    events = EventSheet(
        accepted=accepted[EVENT],
        stored=counts["stored", EVENT],
        spanless=_spanless(database, space) if counts["stored", EVENT] else 0,
        duplicates=counts["duplicates", EVENT],
        dead_lettered=counts["letters", EVENT],
        expired=counts["expired", EVENT],
        erased=counts["erased", EVENT],
        lost=counts["lost", EVENT],
    )
    return Conservation(
        records=_record_sheet(counts),
        spans=spans,
        events=events,
        dead_letters=reasons,
        has_uncounted_losses=bool(counts["lost", UNCOUNTED.label]),
    )


def _counts(rows: Iterable[tuple[Any, ...]]) -> Mapping[tuple[str, str], int]:
    """Counts by name and label; those that are not there are zero."""
    return defaultdict(int, {(name, label): n for name, label, n in rows})


def _accepted_of(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    return {kind: counts["received", name.value] for kind, name in RECEIVED.items()}


def _record_sheet(counts: Mapping[tuple[str, str], int]) -> RecordSheet:
    decided, skipped = counts["decided", "record"], counts["skipped", "record"]
    letters = counts["letters", "record"]
    return RecordSheet(
        accepted=_accepted_of(counts)["record"],
        waiting=max(0, counts["stored", "record"] - decided - letters),
        evaluated=decided - skipped,
        skipped=skipped,
        expired=counts["expired", "record"],
        dead_lettered=letters,
        erased=counts["erased", "record"],
        duplicates=counts["duplicates", "record"],
        lost=counts["lost", "record"],
        derived=counts["records_derived", ""],
        superseded=counts["superseded", ""],
    )


def _spanless(database: Reads, space: str) -> int:
    """Count the log events whose span is not stored.

    Cost: linear in spans; eight bytes of memory for each.
    """
    ((found,),) = database.read(
        f"""
        SELECT count(*) FROM (
            SELECT hash(trace_id, parent_span_id) AS key FROM spans WHERE space = $1 AND is_event
        ) e ANTI JOIN (
            SELECT hash(trace_id, span_id) AS key FROM spans WHERE space = $1 AND {IS_SPAN}
        ) s ON s.key = e.key
        """,
        [space],
    )
    return found
