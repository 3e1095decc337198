"""Conservation: what came in and what became of it, counted from the tables."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from collector.metrics import UNCOUNTED, TotalName
from collector.store.letters import INVALID_EVENT
from collector.store.reads import NO_NEWER, Reads
from collector.store.records import SESSION
from scouter.client.models.operation import (
    ConservationSheet,
    EventStates,
    RecordStates,
    SpanStates,
)

_OF_RECORDS: Final = f"""
    SELECT 'stored' AS name, 'record' AS label, count(*) AS n FROM records WHERE space = $1
    UNION ALL
    SELECT 'decided', 'record',
        (SELECT count(*) FROM evaluations WHERE space = $1 AND revision = 1)
        - (SELECT count(*) FROM evaluations
            WHERE space = $1 AND revision = 1 AND scope = 'session')
    UNION ALL
    SELECT 'skipped', 'record', count(*) FROM evaluations e
    WHERE e.space = $1 AND e.scope = 'record' AND e.outcome = 'skipped' AND {NO_NEWER.format("e")}
    UNION ALL
    SELECT 'letters', 'record', count(*) FROM dead_letters WHERE space = $1 AND was_accepted = 1
    UNION ALL
    SELECT name, label, sum(n)::BIGINT FROM totals
    WHERE task = '' AND (space = $1 OR (space = '' AND name = 'lost')) GROUP BY name, label
"""
_COUNTS: Final = f"""
    {_OF_RECORDS}
    UNION ALL
    SELECT 'stored', CASE is_event WHEN 1 THEN 'event' ELSE 'span' END, count(*) FROM spans
    WHERE space = $1 GROUP BY is_event
    UNION ALL
    SELECT 'reason', reason, count(*) FROM dead_letters WHERE space = $1 GROUP BY reason
    UNION ALL
    SELECT 'letters', 'span', count(*) FROM dead_letters
    WHERE space = $1 AND (kind = 'span' OR reason = 'invalid_span')
"""
_LATE: Final = f"""
    WITH latest AS MATERIALIZED (
        SELECT DISTINCT ON (record_uid) record_uid, trace_id, session_id, scope, input_seq,
            reads_spans
        FROM evaluations WHERE space = $1 ORDER BY record_uid, revision DESC
    ), seen AS (
        SELECT trace_id, input_seq FROM latest WHERE reads_spans = 1 AND trace_id IS NOT NULL
        UNION ALL
        SELECT r.trace_id, e.input_seq FROM latest e
        JOIN evaluations own ON own.space = $1 AND own.record_uid = e.record_uid
          AND own.scope = 'session' AND own.revision = 1
        JOIN records r ON r.space = $1 AND e.session_id = {SESSION}
          AND r.profile_uid IN (own.profile_uid, '') AND r.trace_id IS NOT NULL
        WHERE e.scope = 'session' AND e.reads_spans = 1
    )
    SELECT s.is_event, count(*) FROM spans s JOIN (
        SELECT trace_id, min(input_seq) AS input_seq FROM seen GROUP BY trace_id
    ) of ON of.trace_id = s.trace_id AND s.seq > of.input_seq
    WHERE s.space = $1 GROUP BY s.is_event
"""
"""Records of a session mean the profile of its first evaluation; another version may have made the
later ones."""
_SPANLESS: Final = """
    SELECT count(*) FROM spans e WHERE e.space = $1 AND e.is_event = 1 AND NOT EXISTS (
        SELECT 1 FROM spans s WHERE s.space = $1 AND s.is_event = 0
          AND s.trace_id = e.trace_id AND s.span_id = e.parent_span_id)
"""

_REASON: Final = "reason"
_SLOW_S, _LATE_S = 0.1, 60.0
"""A count of late spans that takes so long holds for so long."""


class ConservationReads(Reads):
    """The sheet that shows that nothing vanished."""

    _late_counts: dict[str, tuple[float, Mapping[int, int]]] | None = None
    """By space until when a count of late spans holds, and the count."""

    def record_sheet(self, space: str) -> RecordStates:
        """The records' part of `conservation`, which looks at no spans."""
        return _records(_counter(self.read(_OF_RECORDS, [space])))

    def shown_conservation(self, space: str) -> ConservationSheet:
        """The sheet for people, as `conservation`; a fleet's may be some time old."""
        return self.conservation(space)

    def shown_record_sheet(self, space: str) -> RecordStates:
        """The records' part of it for people, likewise."""
        return self.record_sheet(space)

    def conservation(self, space: str) -> ConservationSheet:
        """Count states from the tables, beside what was counted at acceptance.

        A span is late while the latest evaluation on a record of its trace, or on that record's
        session, has not seen it: its commit came after that evaluation's `input_seq`.

        Cost: linear in evaluations and spans. The count of late spans takes most of it; where that
        is more than a tenth of a second, it is made once a minute.
        """
        n = _counter(self.read(_COUNTS, [space]))
        late = self._late(space)
        ((spanless,),) = self.read(_SPANLESS, [space]) if n["stored", "event"] else ((0,),)
        return ConservationSheet(
            records=_records(n),
            spans=SpanStates(
                accepted=n[TotalName.SPANS_RECEIVED, ""],
                stored=n["stored", "span"],
                duplicates=n[TotalName.DUPLICATES, "span"],
                late=late.get(0, 0),
                dead_lettered=n["letters", "span"],
                expired=n[TotalName.EXPIRED, "span"],
                erased=n[TotalName.ERASED, "span"],
                lost=n[TotalName.LOST, "span"],
            ),
            events=EventStates(
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

    def _late(self, space: str) -> Mapping[int, int]:
        """Number of late spans (0) and events (1)."""
        known = self._late_counts = self._late_counts or {}
        now = time.monotonic()
        until, found = known.get(space, (now, {}))
        if now >= until:
            began = time.thread_time()  # of a busy machine the clock says nothing
            found = {kind: count for kind, count in self.read(_LATE, [space])}
            is_slow = time.thread_time() - began > _SLOW_S
            known[space] = now + (_LATE_S if is_slow else 0), found
        return found


def _counter(rows: Iterable[Sequence[Any]]) -> Counter[tuple[str, str]]:
    return Counter({(name, label): count for name, label, count in rows})


def _records(n: Counter[tuple[str, str]]) -> RecordStates:
    decided, skipped = n["decided", "record"], n["skipped", "record"]
    letters = n["letters", "record"]
    return RecordStates(
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
    )
