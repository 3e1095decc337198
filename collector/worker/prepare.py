"""Rows of one commit from the log, and the facts that the join learns once they are stored."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from collector.items.drop_reports import merge_reports
from collector.items.letters import Again
from collector.metrics import UNCOUNTED, TotalKey, TotalName
from collector.store.commit import Commit, SpanId
from collector.store.letters import DeadLetter
from collector.store.rows import RecordRow
from collector.store.span_rows import BodyRow, SpanKey, span_row
from collector.store.store import Store
from collector.store.totals import span_label
from collector.worker.letters import letter_of_conflict
from collector.worker.take import Contents, TakenSpan, trace_body
from scouter.model.log_event import is_log_event
from scouter.model.span import Span
from scouter.transport.drops import Dropped


@dataclass(slots=True, kw_only=True)
class SpaceRows:
    """New rows of one space."""

    spans: list[Span] = field(default_factory=list[Span])
    """Spans that are new, or better than the stored ones; log events included."""
    known: dict[str, int] = field(default_factory=dict[str, int])
    """Traces of spans or records of which the store had spans before, with the bytes of these."""
    records: list[RecordRow] = field(default_factory=list[RecordRow])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """About how many bytes each record has, by uid."""
    ranks: dict[str, dict[str, SpanKey]] = field(default_factory=dict[str, dict[str, SpanKey]])
    """Ranks of the new spans, by trace id and span id."""
    digests: dict[str, str] = field(default_factory=dict[str, str])
    """Digests of the new records, by uid."""
    of_broker: set[str] = field(default_factory=set[str])
    """Traces of which a span or a record came by a broker."""


class Prepared:
    """Entries of the log as rows of one commit. What is known already is left out.

    Only the store says what is known, and the commit before this one where that is on its way.
    """

    def __init__(self) -> None:
        self.by_space: Final[defaultdict[str, SpaceRows]] = defaultdict(SpaceRows)
        self.letters: Final[list[DeadLetter]] = []
        self.drops: Final[defaultdict[str, list[Dropped]]] = defaultdict(list)
        """Reports of what senders dropped, by space."""
        self.again: Final[list[tuple[str, Again]]] = []
        """Spaces and records that are to wait again."""
        self.totals: Final = Counter[TotalKey]()
        """Counts that no row says: duplicates, and losses."""
        self._best: dict[SpanId, tuple[TakenSpan, int]] = {}
        """The best version of each span, and the time at which it was received."""
        self._records: dict[tuple[str, str], tuple[RecordRow, int]] = {}
        """The first record of each uid, and its bytes."""
        self._spans: list[tuple[SpanId, TakenSpan, int]] = []
        self._replaced: list[SpanId] = []

    @property
    def is_empty(self) -> bool:
        """True if nothing came."""
        return not (self._best or self._records or self.by_space or self.letters or self.totals)

    def add(self, contents: Contents) -> int:
        """Add what an entry holds; returns the number of its items."""
        space, received_ns = contents.space, contents.received_ns
        for taken in contents.spans:
            key = SpanId(space, taken.span.trace_id, taken.span.span_id)
            before = self._best.get(key)
            if before is None or taken.key > before[0].key:
                self._best[key] = taken, received_ns
            if before is not None:
                self._again(space, taken.span)
        mean_bytes = contents.size_bytes // max(1, len(contents))
        for row in contents.records:
            first, _ = self._records.setdefault((space, row.uid), (row, mean_bytes))
            if first is not row:
                self._repeated(row, first.digest)
        if contents.is_of_broker:
            of_broker = self.by_space[space].of_broker
            of_broker.update(each.span.trace_id for each in contents.spans)
            of_broker.update(row.trace_id for row in contents.records if row.trace_id)
        self.letters.extend(contents.letters)
        self.again.extend((space, each) for each in contents.again)
        if contents.dropped:
            self.drops[space].append(contents.dropped)
        return len(contents)

    def lose(self, gaps: int) -> None:
        """Count places of the log that could not be read: nobody knows what they had."""
        if gaps:
            self.totals[UNCOUNTED] += gaps

    def settle(self, store: Store, before: "Prepared | None") -> None:
        """Leave out what is known already, once all entries are there.

        Args:
            store: Says what is stored.
            before: The entries before these, if they are on their way into the store.

        Raises:
            TransientError: The store cannot be read now; it may be called again.
        """
        traces: defaultdict[str, set[str]] = defaultdict(set)
        uids: defaultdict[str, list[str]] = defaultdict(list)
        for space, trace_id, _ in self._best:
            traces[space].add(trace_id)
        for (space, uid), (row, _) in self._records.items():
            uids[space].append(uid)
            if row.trace_id is not None:
                traces[space].add(row.trace_id)
        ranks = {space: dict(store.stored_spans(space, ids)) for space, ids in traces.items()}
        digests = {space: dict(store.stored_records(space, ids)) for space, ids in uids.items()}
        if before is not None:
            for space, rows in before.by_space.items():
                known = ranks.setdefault(space, {})
                for trace_id, own in rows.ranks.items():
                    known[trace_id] = {**known.get(trace_id, {}), **own}
                digests[space] = {**digests.get(space, {}), **rows.digests}
        self._settle_spans(ranks)
        self._settle_records(digests)
        for space, ids in traces.items():
            stored = ranks.get(space, {})
            self.by_space[space].known.update({
                trace_id: sum(key.size_bytes for key in stored[trace_id].values())
                for trace_id in ids & stored.keys()
            })  # fmt: skip

    def count_drops(self, store: Store, now_ns: int) -> None:
        """Count what senders dropped.

        Args:
            store: Counts it.
            now_ns: Wall clock.

        Raises:
            TransientError: The store takes nothing now; called again, it goes on.
        """
        for space in list(self.drops):
            store.add_drops(space, merge_reports(self.drops[space]), now_ns)
            del self.drops[space]  # of a sender without a name it would be added twice

    def fill(self, commit: Commit) -> None:
        """Write the rows into a commit. Cost: about 30 µs for a span."""
        by_trace: defaultdict[tuple[str, str], list[TakenSpan]] = defaultdict(list)
        for key, taken, received_ns in self._spans:
            size, checksum = taken.key.size_bytes, taken.key.checksum
            commit.spans.append(
                span_row(
                    taken.span, space=key.space, received_ns=received_ns, size_bytes=size,
                    checksum=checksum,
                )
            )  # fmt: skip
            by_trace[key.space, key.trace_id].append(taken)
        commit.bodies += [
            BodyRow(space, trace_id, len(spans), trace_body(spans))
            for (space, trace_id), spans in by_trace.items()
        ]
        commit.replaced += self._replaced
        commit.records += [row for rows in self.by_space.values() for row in rows.records]
        commit.letters += self.letters
        commit.totals = Counter(commit.totals) + self.totals

    def _settle_spans(self, known: Mapping[str, Mapping[str, Mapping[str, SpanKey]]]) -> None:
        for key, (taken, received_ns) in self._best.items():
            space, trace_id, span_id = key
            stored = known.get(space, {}).get(trace_id, {}).get(span_id)
            if stored is not None:
                self._again(space, taken.span)
                if taken.key <= stored:
                    continue
                self._replaced.append(key)
            rows = self.by_space[space]
            rows.spans.append(taken.span)
            rows.ranks.setdefault(trace_id, {})[span_id] = taken.key
            self._spans.append((key, taken, received_ns))
        self._best.clear()

    def _settle_records(self, known: Mapping[str, Mapping[str, str]]) -> None:
        for (space, uid), (row, size_bytes) in self._records.items():
            digest = known.get(space, {}).get(uid)
            if digest is None:
                rows = self.by_space[space]
                rows.records.append(row)
                rows.digests[uid], rows.sizes[uid] = row.digest, size_bytes
            else:
                self._repeated(row, digest)
        self._records.clear()

    def _again(self, space: str, span: Span) -> None:
        label = span_label(is_event=is_log_event(span))
        self.totals[TotalKey(TotalName.DUPLICATES, space, label=label)] += 1

    def _repeated(self, row: RecordRow, digest: str) -> None:
        """A record whose uid is known: the same one again, or another one."""
        if row.digest == digest:
            self.totals[TotalKey(TotalName.DUPLICATES, row.space, label="record")] += 1
        else:
            self.letters.append(letter_of_conflict(row))
