"""Conservation: what came in and what became of it, counted from the tables."""

from collections import Counter
from typing import Final

from collector.metrics import UNCOUNTED, TotalName
from collector.store.letters import INVALID_EVENT
from collector.store.reads import Reads
from collector.store.sheets import Conservation, EventSheet, RecordSheet, SpanSheet

_COUNTS: Final = """
    SELECT 'stored' AS name, 'record' AS label, count(*) AS n FROM records WHERE space = $1
    UNION ALL
    SELECT 'decided', 'record', count(*) FROM evaluations
    WHERE space = $1 AND scope = 'record' AND revision = 1
    UNION ALL
    SELECT 'skipped', 'record', count(*) FROM (
        SELECT DISTINCT ON (record_uid) outcome FROM evaluations
        WHERE space = $1 AND scope = 'record' ORDER BY record_uid, revision DESC
    ) e WHERE outcome = 'skipped'
    UNION ALL
    SELECT 'letters', 'record', count(*) FROM dead_letters WHERE space = $1 AND was_accepted = 1
    UNION ALL
    SELECT 'stored', 'span', count(*) FROM spans WHERE space = $1 AND is_event = 0
    UNION ALL
    SELECT 'stored', 'event', count(*) FROM spans WHERE space = $1 AND is_event = 1
    UNION ALL
    SELECT 'reason', reason, count(*) FROM dead_letters WHERE space = $1 GROUP BY reason
    UNION ALL
    SELECT 'letters', 'span', count(*) FROM dead_letters
    WHERE space = $1 AND (kind = 'span' OR reason = 'invalid_span')
    UNION ALL
    SELECT name, label, sum(n)::BIGINT FROM totals
    WHERE task = '' AND (space = $1 OR (space = '' AND name = 'lost')) GROUP BY name, label
"""
_LATE: Final = """
    SELECT s.is_event, count(*) FROM spans s JOIN (
        SELECT trace_id, min(input_seq) AS input_seq FROM (
            SELECT DISTINCT ON (record_uid) trace_id, input_seq, reads_spans FROM evaluations
            WHERE space = $1 ORDER BY record_uid, revision DESC
        ) e WHERE reads_spans = 1 AND trace_id IS NOT NULL GROUP BY trace_id
    ) seen ON seen.trace_id = s.trace_id AND s.seq > seen.input_seq
    WHERE s.space = $1 GROUP BY s.is_event
"""
_SPANLESS: Final = """
    SELECT count(*) FROM spans e WHERE e.space = $1 AND e.is_event = 1 AND NOT EXISTS (
        SELECT 1 FROM spans s WHERE s.space = $1 AND s.is_event = 0
          AND s.trace_id = e.trace_id AND s.span_id = e.parent_span_id)
"""
_REASON: Final = "reason"


class ConservationReads(Reads):
    """The sheet that shows that nothing vanished."""

    def conservation(self, space: str) -> Conservation:
        """Count every state from its table.

        A span is late while the latest evaluation on a record of its trace has not seen it.

        Cost: linear in evaluations and spans.
        """
        n = Counter({(name, label): count for name, label, count in self.read(_COUNTS, [space])})
        late = dict(self.read(_LATE, [space]))
        ((spanless,),) = self.read(_SPANLESS, [space]) if n["stored", "event"] else ((0,),)
        decided, skipped, letters = (
            n["decided", "record"],
            n["skipped", "record"],
            n["letters", "record"],
        )
        return Conservation(
            records=RecordSheet(
                accepted=n[TotalName.RECORDS_RECEIVED, ""],
                waiting=n["stored", "record"] - decided - letters,
                evaluated=decided - skipped,
                skipped=skipped,
                expired=n[TotalName.EXPIRED, "record"],
                dead_lettered=letters,
                erased=n[TotalName.ERASED, "record"],
                duplicates=n[TotalName.DUPLICATES, "record"],
                lost=n[TotalName.LOST, "record"],
                derived=n[TotalName.RECORDS_DERIVED, ""],
                superseded=n[TotalName.SUPERSEDED, ""],
            ),
            spans=SpanSheet(
                accepted=n[TotalName.SPANS_RECEIVED, ""],
                stored=n["stored", "span"],
                duplicates=n[TotalName.DUPLICATES, "span"],
                late=late.get(0, 0),
                dead_lettered=n["letters", "span"],
                expired=n[TotalName.EXPIRED, "span"],
                erased=n[TotalName.ERASED, "span"],
                lost=n[TotalName.LOST, "span"],
            ),
            events=EventSheet(
                accepted=n[TotalName.EVENTS_RECEIVED, ""],
                stored=n["stored", "event"],
                spanless=spanless,
                duplicates=n[TotalName.DUPLICATES, "event"],
                dead_lettered=n[_REASON, INVALID_EVENT],
                expired=n[TotalName.EXPIRED, "event"],
                erased=n[TotalName.ERASED, "event"],
                lost=n[TotalName.LOST, "event"],
            ),
            dead_letters={label: count for (name, label), count in n.items() if name == _REASON},
            has_uncounted_losses=bool(n[TotalName.LOST, UNCOUNTED.label]),
        )
