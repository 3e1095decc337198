"""Reads of the worker: what is stored already, and what its join needs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from collector.store.bodies import best_spans, trace_hash
from collector.store.commit import RecordId, SpanId, letter_id, text_hash
from collector.store.letters import DeadLetter
from collector.store.reads import Change, Connection, Reads, runs
from collector.store.records import RECORD_COLUMNS, record_row
from collector.store.rows import RecordRow, TraceKey
from collector.store.span_rows import SpanKey, TracePlace
from scouter.model.span import Span

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_GAP: Final = 8
"""Commits between two that are read together."""

_PLACES: Final = """
    SELECT DISTINCT seq, trace_hash FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND trace_hash = ANY($3::BIGINT[])
"""
_BODIES: Final = """
    SELECT trace_id, body FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND trace_hash = ANY($4::BIGINT[])
    ORDER BY seq
"""
_KEYS: Final = """
    SELECT trace_id, span_id, end_ns, size_bytes, checksum FROM spans
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND trace_id = ANY($4::TEXT[])
"""
_DIGESTS: Final = """
    SELECT uid, digest FROM records
    WHERE space = $1 AND uid_hash = ANY($2::BIGINT[]) AND uid = ANY($3::TEXT[])
"""
_RECORDS: Final = f"""
    SELECT {RECORD_COLUMNS}, r.context FROM records r
    WHERE r.seq BETWEEN $1 AND $2 AND r.space = $3 AND r.uid = ANY($4::TEXT[])
"""
_BEGUN: Final = "SELECT space, uid, count(*) FROM begun WHERE seq >= $1 GROUP BY space, uid"
_WAITING: Final = f"""
    SELECT {RECORD_COLUMNS} FROM records r
    WHERE r.seq >= $1
      AND NOT EXISTS (
        SELECT 1 FROM evaluations e
        WHERE e.seq >= $1 AND e.space = r.space AND e.record_uid = r.uid)
      AND NOT EXISTS (
        SELECT 1 FROM dead_letters l
        WHERE l.seq >= $1 AND l.was_accepted = 1 AND l.space = r.space AND l.uid = r.uid)
    ORDER BY r.seq, r.received_ns, r.uid
"""
_SINCE: Final = """
    SELECT space, trace_id, sum(spans)::BIGINT, max(seq) FROM bodies
    WHERE seq >= $1 AND space = ANY($2::TEXT[])
    GROUP BY space, trace_id
"""
_LETTERS: Final = "SELECT letter_id FROM dead_letters WHERE letter_id = ANY($1::TEXT[])"
_FIRST: Final = "SELECT min(seq) FROM bodies WHERE trace_hash = ANY($1::BIGINT[])"
_REPLACED: Final = """
    DELETE FROM spans
    WHERE seq >= $1 AND seq < $2 AND space = $3
      AND trace_id = ANY($4::TEXT[]) AND trace_id || span_id = ANY($5::TEXT[])
"""


class RecentTrace(NamedTuple):
    """Spans of a trace that came from some commit on."""

    spans: int
    """How many; a span that a better one replaced counts twice."""
    last_seq: int
    """The last commit with some."""


class WorkReads(Reads):
    """Reads by keys, with the commits that have them first: no other rows are looked at."""

    def stored_spans(
        self, space: str, trace_ids: Iterable[str]
    ) -> Mapping[str, Mapping[str, SpanKey]]:
        """The ranks of the stored spans of traces, by trace id and span id.

        A trace without any is left out.

        Cost: nothing for traces that were never stored; else a scan of the hashes of all traces.
        """
        hashes = {each: trace_hash(each) for each in trace_ids}
        maybe = self.maybe_traces(list(set(hashes.values())))
        found: defaultdict[str, dict[str, SpanKey]] = defaultdict(dict)
        if not maybe:
            return found
        places = self.read_for_work(_PLACES, [0, 2**62, maybe])
        there = {each for _, each in places}
        wanted = [trace_id for trace_id, number in hashes.items() if number in there]
        for first, last in runs((seq for seq, _ in places), _GAP):
            for trace_id, span_id, *key in self.read_for_work(_KEYS, [first, last, space, wanted]):
                found[trace_id][span_id] = SpanKey(*key)
        return found

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """The digests of the stored records among some, by uid."""
        wanted = list(uids)
        maybe = self.maybe_records([text_hash(uid) for uid in wanted])
        if not maybe:
            return {}
        return dict(self.read_for_work(_DIGESTS, [space, maybe, wanted]))

    def spans_of(self, space: str, traces: Iterable[TracePlace]) -> dict[str, list[Span]]:
        """The spans of traces, of those with one id the best one; in no order.

        Args:
            space: Their space.
            traces: The traces and the commits that have them.

        Returns:
            Spans by trace id; a trace without any is left out.
        """
        places = list(traces)
        if not places:
            return {}
        hashes = [trace_hash(each.trace_id) for each in places]
        first = min(each.first_seq for each in places)
        last = max(each.last_seq for each in places)
        found = self.read_for_work(_PLACES, [first, last, hashes])
        wanted = {each.trace_id for each in places}
        bodies: defaultdict[str, list[bytes]] = defaultdict(list)
        for start, end in runs((seq for seq, _ in found), _GAP):
            for trace_id, body in self.read_for_work(_BODIES, [start, end, space, hashes]):
                if trace_id in wanted:
                    bodies[trace_id].append(body)
        return {trace_id: best_spans(parts) for trace_id, parts in bodies.items()}

    def records_at(self, space: str, keys: Iterable[tuple[int, str]]) -> Mapping[str, RecordRow]:
        """Whole records by uid; one that is no longer there is left out.

        Args:
            space: Their space.
            keys: For each the commit that accepted it, and its uid.
        """
        uids: defaultdict[int, list[str]] = defaultdict(list)
        for seq, uid in keys:
            uids[seq].append(uid)
        found: dict[str, RecordRow] = {}
        for first, last in runs(uids, _GAP):
            wanted = [uid for seq, own in uids.items() if first <= seq <= last for uid in own]
            for values in self.read_for_work(_RECORDS, [first, last, space, wanted]):
                row = record_row(values)
                found[row.uid] = row
        return found

    def begun(self, low_seq: int) -> Mapping[RecordId, int]:
        """Number of times that the judgement of records was begun, in commits from one on."""
        return {RecordId(space, uid): n for space, uid, n in self.read_for_work(_BEGUN, [low_seq])}

    def waiting_records(self, low_seq: int) -> list[RecordRow]:
        """The records from a commit on that nothing was decided about, in order of acceptance.

        Their contexts are left out; `records_at` has them.
        """
        return [record_row(values) for values in self.read_for_work(_WAITING, [low_seq])]

    def traces_since(self, low_seq: int, spaces: Iterable[str]) -> dict[TraceKey, RecentTrace]:
        """The traces of some spaces with spans from a commit on, whatever was decided about them.

        Cost: a scan of the commits from there on; no body is read.
        """
        rows = self.read_for_work(_SINCE, [low_seq, list(spaces)])
        return {(space, trace_id): RecentTrace(*rest) for space, trace_id, *rest in rows}

    def new_letters(self, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
        """The letters that are not stored: the same content from the same place is one letter."""
        if not letters:
            return []
        by_id = {letter_id(letter): letter for letter in letters}
        stored = {each for (each,) in self.read_for_work(_LETTERS, [list(by_id)])}
        return [letter for each, letter in by_id.items() if each not in stored]

    def without_replaced(self, replaced: Sequence[SpanId], seq: int) -> list[Change]:
        """The change that takes out spans which better ones replace; none without any.

        Args:
            replaced: Their keys.
            seq: The commit that has the better ones.
        """
        if not replaced:
            return []
        hashes = list({trace_hash(each.trace_id) for each in replaced})
        ((first,),) = self.read_for_work(_FIRST, [hashes])
        by_space: defaultdict[str, list[SpanId]] = defaultdict(list)
        for each in replaced:
            by_space[each.space].append(each)

        def change(connection: Connection) -> None:
            for space, spans in by_space.items():
                traces = [each.trace_id for each in spans]
                keys = [each.trace_id + each.span_id for each in spans]
                connection.execute(_REPLACED, [first or 0, seq, space, traces, keys])

        return [change]
