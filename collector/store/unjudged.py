"""Lists of what has no evaluation by a profile: traces, records that waited for it, sessions."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from collector.store.letters import UNKNOWN_PROFILE
from collector.store.reads import Reads
from collector.store.records import SESSION


class Unjudged(IntEnum):
    """Kinds of items that may have no evaluation, in the order in which they get one."""

    TRACES = 0
    """Without a record for the alias."""
    RECORDS = 1
    """Put aside as nobody knew their profile."""
    SESSIONS = 2
    """With records, of which the session itself has no evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedQuery:
    """Filter of what has no evaluation."""

    space: str
    alias: str
    names: Sequence[str]
    """All that a record may name the profile by, the alias among them."""
    since_ns: int = 0
    """Traces that began, and records that were made, then or later."""
    place: tuple[int, int] = (Unjudged.TRACES, 0)
    """Begin with this kind, at this time."""
    limit: int = 100
    """About so many; all of one time are together."""


class UnjudgedItem(NamedTuple):
    """One of them."""

    at_ns: int
    """Begin of the trace since the query's time, creation of the record or of the first one."""
    id: str
    """Trace id, uid of the record, or id of the session."""
    seq: int
    """Last commit with a span of the trace."""
    received_ns: int
    """Arrival of the last span or record."""
    letter_id: str
    """Of the record."""


_PAGE: Final = """
    SELECT at_ns, id, seq, received_ns, letter_id FROM t
    WHERE at_ns >= $4::BIGINT AND at_ns <= coalesce(
        (SELECT at_ns FROM t WHERE at_ns >= $4::BIGINT ORDER BY at_ns LIMIT 1 OFFSET $5::BIGINT),
        9223372036854775807)
    ORDER BY at_ns, id
"""
_OF_PROFILE: Final = """
    NOT starts_with(r.uid, 'score:')
    AND (r.alias = $6 OR (r.alias = '' AND r.profile_ref = ANY($3::TEXT[])))
"""
"""SQL for the records of a profile, those among them of which nobody knew it; scores are none."""
_TRACES: Final = f"""
    WITH t AS MATERIALIZED (
        SELECT min(s.start_ns) AS at_ns, s.trace_id AS id, max(s.seq) AS seq,
            max(s.received_ns) AS received_ns, '' AS letter_id
        FROM spans s
        WHERE s.space = $1 AND s.start_ns >= $2::BIGINT AND s.is_event = 0 AND NOT EXISTS (
            SELECT 1 FROM records r
            WHERE r.space = $1 AND r.trace_id = s.trace_id AND {_OF_PROFILE})
        GROUP BY s.trace_id
    ) {_PAGE}
"""
_RECORDS: Final = f"""
    WITH t AS MATERIALIZED (
        SELECT r.created_ns AS at_ns, r.uid AS id, r.seq, r.received_ns, l.letter_id
        FROM records r JOIN dead_letters l ON l.space = r.space AND l.uid = r.uid
            AND l.was_accepted = 1 AND l.reason = '{UNKNOWN_PROFILE}'
        WHERE r.space = $1 AND r.created_ns >= $2::BIGINT AND r.profile_ref = ANY($3::TEXT[])
    ) {_PAGE}
"""
_SESSIONS: Final = f"""
    WITH t AS MATERIALIZED (
        SELECT min(r.created_ns) AS at_ns, {SESSION} AS id, max(r.seq) AS seq,
            max(r.received_ns) AS received_ns, '' AS letter_id
        FROM records r
        WHERE r.space = $1 AND r.created_ns >= $2::BIGINT
          AND {_OF_PROFILE}
          AND {SESSION} NOT IN (
            SELECT e.session_id FROM evaluations e
            WHERE e.space = $1 AND e.scope = 'session' AND e.alias = $6)
        GROUP BY {SESSION}
    ) {_PAGE}
"""


class UnjudgedReads(Reads):
    """Reads of what has no evaluation."""

    def unjudged(self, query: UnjudgedQuery) -> list[UnjudgedItem]:
        """One kind of it, the oldest first.

        Cost: a scan of the spans, or records, since the query's time.
        """
        kind, from_ns = query.place
        given = [query.space, query.since_ns, list(query.names), from_ns, query.limit - 1]
        match Unjudged(kind):
            case Unjudged.TRACES:
                rows = self.read(_TRACES, [*given, query.alias])
            case Unjudged.RECORDS:
                rows = self.read(_RECORDS, given)
            case Unjudged.SESSIONS:
                rows = self.read(_SESSIONS, [*given, query.alias])
        return [UnjudgedItem(*row) for row in rows]
