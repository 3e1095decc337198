"""Hashes of what was erased, so that nothing that comes again brings it back."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from collector.metrics import TotalKey, TotalName
from collector.store.bodies import trace_hash, without_spans
from collector.store.commit import Commit, text_hash
from collector.store.letters import DeadLetter, is_of_spans, letter_keys
from collector.store.span_rows import BodyRow, SpanRow
from collector.store.totals import span_label


class ErasedKind(StrEnum):
    """Kind of thing that was erased."""

    RECORD = "record"
    """A record; the hash is that of its uid."""
    TRACE = "trace"
    """A whole trace: none of its spans is accepted any more."""
    SPAN = "span"
    """One span of a trace that stays."""


class Tombstone(NamedTuple):
    """The mark of something erased."""

    space: str
    kind: ErasedKind
    key_hash: int


def of_record(space: str, uid: str) -> Tombstone:
    """The mark of a record."""
    return Tombstone(space, ErasedKind.RECORD, text_hash(uid))


def of_trace(space: str, trace_id: str) -> Tombstone:
    """The mark of a whole trace."""
    return Tombstone(space, ErasedKind.TRACE, trace_hash(trace_id))


def of_span(space: str, trace_id: str, span_id: str) -> Tombstone:
    """The mark of a span."""
    return Tombstone(space, ErasedKind.SPAN, text_hash(trace_id + span_id))


class Tombstones:
    """All marks, in memory: about 200 bytes each. The thread that writes adds; any thread reads.

    Args:
        known: Those in the store.
    """

    def __init__(self, known: Iterable[Tombstone]) -> None:
        self._known = set(known)

    def add_all(self, tombstones: Iterable[Tombstone]) -> None:
        """Take more of them."""
        self._known.update(tombstones)

    def has_record(self, space: str, uid: str) -> bool:
        """Tell whether a record was erased."""
        return bool(self._known) and of_record(space, uid) in self._known

    def has_span(
        self, space: str, trace_id: str, span_id: str, parent_of_event: str | None = None
    ) -> bool:
        """Tell whether a span was erased; a log event goes with the span that it belongs to.

        Args:
            space: Its space.
            trace_id: Its trace.
            span_id: Its id.
            parent_of_event: Of a log event the span that it belongs to.
        """
        if not self._known:
            return False
        known = self._known
        return (
            of_trace(space, trace_id) in known
            or of_span(space, trace_id, span_id) in known
            or (parent_of_event is not None and of_span(space, trace_id, parent_of_event) in known)
        )

    def sift(self, commit: Commit) -> Commit:
        """Leave out of a commit what was erased, and count it as duplicates: it came before."""
        if not self._known:
            return commit
        gone_spans = [row for row in commit.spans if self._is_gone(row)]
        gone = {
            (row.space, row.uid) for row in commit.records if self.has_record(row.space, row.uid)
        }
        evaluations = [
            row for row in commit.evaluations if not self.has_record(row.space, row.record_uid)
        ]
        gone_letters = [each for each in commit.letters if self._is_of_erased(each)]
        is_whole = not gone_spans and not gone and not gone_letters
        if is_whole and len(evaluations) == len(commit.evaluations):
            return commit
        totals = Counter(commit.totals)
        for space, label in (
            *((row.space, span_label(is_event=row.is_event)) for row in gone_spans),
            *((space, "record") for space, _ in gone),
            *(
                (each.space, "span" if is_of_spans(each) else "record")
                for each in gone_letters
                if not each.was_accepted
            ),
        ):
            totals[TotalKey(TotalName.DUPLICATES, space, label=label)] += 1
        return replace(
            commit,
            spans=[row for row in commit.spans if not self._is_gone(row)],
            bodies=_bodies_without(commit.bodies, gone_spans),
            records=[row for row in commit.records if (row.space, row.uid) not in gone],
            evaluations=evaluations,
            letters=[each for each in commit.letters if each not in gone_letters],
            totals=totals,
        )

    def _is_of_erased(self, letter: DeadLetter) -> bool:
        if letter.was_accepted:
            return self.has_record(letter.space, letter.uid)
        return any(self._has(letter.space, *key) for key in letter_keys(letter))

    def _has(self, space: str, uid: str, trace_id: str, span_id: str) -> bool:
        if uid:
            return self.has_record(space, uid)
        if span_id:
            return of_span(space, trace_id, span_id) in self._known
        return of_trace(space, trace_id) in self._known

    def _is_gone(self, row: SpanRow) -> bool:
        parent = row.parent_span_id if row.is_event else None
        return self.has_span(row.space, row.trace_id, row.span_id, parent)


def _bodies_without(bodies: Sequence[BodyRow], gone: Sequence[SpanRow]) -> list[BodyRow]:
    by_trace: dict[tuple[str, str], set[str]] = {}
    for row in gone:
        by_trace.setdefault((row.space, row.trace_id), set()).add(row.span_id)
    retained: list[BodyRow] = []
    for body in bodies:
        span_ids = by_trace.get((body.space, body.trace_id))
        if span_ids is None:
            retained.append(body)
        elif (rest := without_spans(body.body, span_ids)) is not None:
            retained.append(body._replace(body=rest.message, spans=rest.spans))
    return retained
