"""Traces: reads of people."""

from typing import Final

from collector.store.bodies import best_spans, trace_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.reads import Reads, runs
from collector.store.rows import StoredTrace

_GAP: Final = 8
"""Commits between two that are read together."""
_COMMITS: Final = "SELECT DISTINCT seq FROM bodies WHERE trace_hash = $1"
_BODIES: Final = """
    SELECT body FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND trace_hash = $3 AND space = $4 AND trace_id = $5 ORDER BY seq
"""
_EVALUATIONS: Final = """
    SELECT DISTINCT ON (record_uid) seq, ordinal, body FROM evaluations
    WHERE space = $1 AND trace_id = $2
    ORDER BY record_uid, revision DESC
"""


class TraceReads(Reads):
    """Reads of traces."""

    def trace(self, space: str, trace_id: str) -> StoredTrace:
        """A trace, and the latest evaluation on each of its records, newest first."""
        number = trace_hash(trace_id)
        found = [seq for (seq,) in self.read(_COMMITS, [number])]
        bodies = [
            body
            for first, last in runs(found, _GAP)
            for (body,) in self.read(_BODIES, [first, last, number, space, trace_id])
        ]
        evaluations = sorted(self.read(_EVALUATIONS, [space, trace_id]), reverse=True)
        return StoredTrace(
            spans=best_spans(bodies),
            evaluations=tuple(decode_evaluation(body) for *_, body in evaluations),
        )
