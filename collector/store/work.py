"""Reads of the worker: what is stored already, and what its join needs."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from collector.split import split
from collector.store.bodies import best_spans, trace_hash
from collector.store.commit import RecordId, SpanId, letter_id, text_hash
from collector.store.json_text import dump_json
from collector.store.letters import DeadLetter
from collector.store.reads import (
    LAST,
    MOST_SPAN_BYTES,
    MOST_SPANS,
    ROW_BY_ROW,
    Change,
    Connection,
    Reads,
    TooLargeError,
    runs,
)
from collector.store.records import RECORD_COLUMNS, record_row, undecided
from collector.store.rows import RecordRow, SettledRecord, TraceKey
from collector.store.span_rows import SpanKey, TracePlace
from scouter.model.log_event import RESULT_EVENT, is_evidence
from scouter.model.span import Span

_PLACES: Final = """
    SELECT DISTINCT seq, trace_hash FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND trace_hash = ANY($3::BIGINT[])
"""
_SIZES: Final = """
    SELECT trace_id, seq, spans, size_bytes FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND trace_hash = ANY($4::BIGINT[])
"""
_BODIES: Final = f"""
    SELECT trace_id, body FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND trace_hash = ANY($4::BIGINT[])
      AND {ROW_BY_ROW.format("size_bytes")}
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
_AT: Final = """
    FROM records r WHERE r.seq BETWEEN $1 AND $2 AND r.space = $3 AND r.uid = ANY($4::TEXT[])
"""
_RECORDS: Final = f"""
    SELECT {RECORD_COLUMNS}, r.context {_AT} AND {ROW_BY_ROW.format("r.context_bytes")}
"""
_OUTLINES: Final = f"SELECT {RECORD_COLUMNS} {_AT}"
_CONTEXTS: Final = f"SELECT r.uid, r.context_bytes {_AT}"
_STARTED: Final = """
    SELECT b.space, b.uid, count(*) FROM begun b
    WHERE b.seq >= $1
      AND NOT EXISTS (
        SELECT 1 FROM evaluations e
        WHERE e.seq > b.seq AND e.space = b.space AND e.record_uid = b.uid)
      AND NOT EXISTS (
        SELECT 1 FROM dead_letters l
        WHERE l.seq > b.seq AND l.was_accepted = 1 AND l.space = b.space AND l.uid = b.uid)
    GROUP BY b.space, b.uid
"""
_WAITING: Final = f"""
    SELECT {RECORD_COLUMNS} FROM records r WHERE {undecided("$1")}
    ORDER BY r.seq, r.received_ns, r.uid
"""
_SINCE: Final = f"""
    SELECT space, trace_id, count(*), max(seq) FROM spans
    WHERE seq >= $1 AND NOT (is_event = 1 AND name = '{RESULT_EVENT}')
    GROUP BY space, trace_id
"""
_EVALUATED: Final = """
    SELECT record_uid, trace_id, input_seq FROM (
        SELECT DISTINCT ON (e.record_uid)
            e.record_uid, e.trace_id, e.input_seq, e.reads_spans, e.evaluated_ns
        FROM evaluations e JOIN unnest($2::TEXT[]) AS t(id) ON e.trace_id = t.id
        WHERE e.space = $1 AND e.scope = 'record' AND e.evaluated_ns >= $3
        ORDER BY e.record_uid, e.revision DESC
    ) AS latest
    WHERE reads_spans = 1
    ORDER BY record_uid
"""
_LETTERS: Final = "SELECT letter_id FROM dead_letters WHERE letter_id = ANY($1::TEXT[])"
_FIRST: Final = "SELECT min(seq) FROM bodies WHERE trace_hash = ANY($1::BIGINT[])"
_REPLACED: Final = """
    DELETE FROM spans
    WHERE seq >= $1 AND seq < $2 AND space = $3
      AND trace_id = ANY($4::TEXT[]) AND trace_id || span_id = ANY($5::TEXT[])
"""

_SETTLED: Final = """
    UPDATE records SET {column} = k.value
    FROM (
        SELECT ($3::TEXT[])[i] AS uid, ($4::{kind}[])[i] AS value
        FROM generate_series(1, $5::INTEGER) AS g(i)
    ) AS k
    WHERE records.space = $1 AND records.seq >= $2 AND records.uid = k.uid
"""
"""DuckDB and PostgreSQL differ in how they unnest two lists beside each other."""


class RecentTrace(NamedTuple):
    """Spans of a trace that came from some commit on."""

    spans: int
    last_seq: int
    """The last commit with some."""


class _Body(NamedTuple):
    """Spans of a trace that came in one commit."""

    seq: int
    spans: int
    size_bytes: int


class ReadSpans(NamedTuple):
    """The traces that one read was about."""

    found: dict[str, list[Span]]
    """Spans by trace id; a trace without any is left out."""
    left: set[str]
    """Traces that had no room beside the others: to be read another time."""
    too_large: set[str]
    """Traces that are never read; see `MOST_SPANS`."""


class EvaluatedTrace(NamedTuple):
    """A record whose latest evaluation read the spans of its trace."""

    uid: str
    trace_id: str
    input_seq: int
    """The last commit whose spans it has seen."""


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
        maybe = self.maybe("traces", list(set(hashes.values())))
        found: defaultdict[str, dict[str, SpanKey]] = defaultdict(dict)
        if not maybe:
            return found
        places = self.read_for_work(_PLACES, [0, LAST, maybe])
        there = {each for _, each in places}
        wanted = [trace_id for trace_id, number in hashes.items() if number in there]
        for first, last in runs((seq for seq, _ in places)):
            for trace_id, span_id, *key in self.read_for_work(_KEYS, [first, last, space, wanted]):
                found[trace_id][span_id] = SpanKey(*key)
        return found

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """The digests of the stored records among some, by uid."""
        wanted = list(uids)
        maybe = self.maybe("records", [text_hash(uid) for uid in wanted])
        if not maybe:
            return {}
        return dict(self.read_for_work(_DIGESTS, [space, maybe, wanted]))

    def spans_at(
        self,
        space: str,
        traces: Iterable[TracePlace],
        most_spans: int = MOST_SPANS,
        most_bytes: int = MOST_SPAN_BYTES,
    ) -> ReadSpans:
        """The spans of traces, of those with one id the best one; in no order.

        Args:
            space: Their space.
            traces: The traces and the commits that have them.
            most_spans: Spans that are read together; one trace alone may have `MOST_SPANS`.
            most_bytes: Bytes of their messages that are read together.
        """
        places = list(traces)
        found = ReadSpans({}, set(), set())
        sizes = self._body_sizes(space, places)
        wanted: dict[str, list[_Body]] = {}
        for trace_id in (each.trace_id for each in places):
            own = sizes.get(trace_id, [])
            spans, size = _total(own)
            if spans > MOST_SPANS or size > MOST_SPAN_BYTES:
                found.too_large.add(trace_id)
            elif wanted and (spans > most_spans or size > most_bytes):
                found.left.add(trace_id)
            elif own:
                wanted[trace_id] = own
                most_spans, most_bytes = most_spans - spans, most_bytes - size
        found.found.update(self._best_spans(space, wanted))
        return found

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Whole traces by id, without results of evaluators that came as log events.

        A trace without spans is left out.

        Raises:
            TooLargeError: They have more spans than are read at once.
        """
        sizes = self._body_sizes(space, [TracePlace(each) for each in sorted(set(trace_ids))])
        spans, size = _total(chain.from_iterable(sizes.values()))
        if spans > MOST_SPANS or size > MOST_SPAN_BYTES:
            raise TooLargeError(
                f"more than {MOST_SPANS:,} spans, or {MOST_SPAN_BYTES // 2**20} MiB of them, are "
                "not read at once"
            )
        found = self._best_spans(space, sizes)
        evidence = ((trace_id, list(filter(is_evidence, own))) for trace_id, own in found)
        return {trace_id: own for trace_id, own in evidence if own}

    def _body_sizes(self, space: str, places: Sequence[TracePlace]) -> dict[str, list[_Body]]:
        """By trace the bodies that it has."""
        wanted = {each.trace_id for each in places}
        hashes = self.maybe("traces", [trace_hash(each) for each in wanted])
        found: defaultdict[str, list[_Body]] = defaultdict(list)
        if hashes:
            first = min(each.first_seq for each in places)
            last = max(each.last_seq for each in places)
            for trace_id, *body in self.read(_SIZES, [first, last, space, hashes]):
                if trace_id in wanted:  # two may have one hash
                    found[trace_id].append(_Body(*body))
        return found

    def _best_spans(
        self, space: str, traces: Mapping[str, Sequence[_Body]]
    ) -> Iterator[tuple[str, list[Span]]]:
        """The spans of traces whose bodies are known, by trace id."""
        hashes = [trace_hash(each) for each in traces]
        commits = (body.seq for own in traces.values() for body in own)
        bodies: defaultdict[str, list[bytes]] = defaultdict(list)
        for first, last in runs(commits):
            for trace_id, body in self.read(_BODIES, [first, last, space, hashes]):
                if trace_id in traces:
                    bodies[trace_id].append(body)
        return ((trace_id, best_spans(parts)) for trace_id, parts in bodies.items())

    def records_at(
        self, space: str, keys: Iterable[tuple[int, str]], *, has_contexts: bool = True
    ) -> dict[str, RecordRow]:
        """Records by uid; one that is no longer there is left out.

        Args:
            space: Their space.
            keys: For each the commit that accepted it, and its uid.
            has_contexts: False to read all of them but their contexts.

        Raises:
            NoMemoryError: There is no memory for their contexts.
        """
        sql = _RECORDS if has_contexts else _OUTLINES
        uids: defaultdict[int, list[str]] = defaultdict(list)
        for seq, uid in keys:
            uids[seq].append(uid)
        found: dict[str, RecordRow] = {}
        for first, last in runs(uids):
            wanted = [uid for seq, own in uids.items() if first <= seq <= last for uid in own]
            for values in self.read_for_work(sql, [first, last, space, wanted]):
                row = record_row(values)
                found[row.uid] = row
        return found

    def fitting(
        self, space: str, keys: Sequence[tuple[int, str]], most_bytes: int
    ) -> Sequence[tuple[int, str]]:
        """The first of some records whose contexts fit into memory; one at least.

        Args:
            space: Their space.
            keys: As `records_at` takes them.
            most_bytes: Bytes of contexts that are read together.
        """
        sizes: dict[str, int] = {}
        for first, last in runs((seq for seq, _ in keys)):
            wanted = [uid for seq, uid in keys if first <= seq <= last]
            sizes.update(self.read_for_work(_CONTEXTS, [first, last, space, wanted]))
        return next(split(keys, lambda key: (sizes.get(key[1], 0),), (most_bytes,)), ())

    def started(self, low_seq: int) -> Mapping[RecordId, int]:
        """Number of judgements that were started in commits from one on, and have no result.

        By the record or session that they are about; each has the beginnings since its last result.
        """
        return {
            RecordId(space, uid): n for space, uid, n in self.read_for_work(_STARTED, [low_seq])
        }

    def undecided(self, low_seq: int) -> list[RecordRow]:
        """The records from a commit on that nothing was decided about, in order of acceptance.

        Their contexts are left out; `records_at` has them.
        """
        return [record_row(values) for values in self.read_for_work(_WAITING, [low_seq])]

    def traces_since(self, low_seq: int) -> dict[TraceKey, RecentTrace]:
        """The traces with spans from a commit on, whatever was decided about them.

        Other evaluators' results are no such spans: no task reads them.

        Cost: a scan of the commits from there on; no body is read.
        """
        rows = self.read_for_work(_SINCE, [low_seq])
        return {(space, trace_id): RecentTrace(*rest) for space, trace_id, *rest in rows}

    def evaluated_since(
        self, space: str, trace_ids: Iterable[str], since_ns: int
    ) -> list[EvaluatedTrace]:
        """The latest evaluations on records of traces, of those that read spans.

        Args:
            space: Their space.
            trace_ids: The traces.
            since_ns: Evaluations that were made before are left out.

        Cost: a scan of two columns of the evaluations since then.
        """
        values = [space, list(trace_ids), since_ns]
        return [EvaluatedTrace(*row) for row in self.read_for_work(_EVALUATED, values)]

    def decided_until_ns(self) -> int:
        """Time at which the newest evaluation was made; 0 without any."""
        ((found,),) = self.read_for_work("SELECT max(evaluated_ns) FROM evaluations")
        return found or 0

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

    def with_settled(self, settled: Sequence[SettledRecord]) -> list[Change]:
        """The change that writes what traces tell of stored records; none without any."""
        by_space: defaultdict[str, list[SettledRecord]] = defaultdict(list)
        for each in settled:
            by_space[each.space].append(each)
        if not by_space:
            return []

        def change(connection: Connection) -> None:
            for space, rows in by_space.items():
                contexts = [each for each in rows if each.has_context]
                texts = [dump_json(each.context) for each in contexts]
                sizes = [len(text.encode("utf-8", "surrogatepass")) for text in texts]
                for column, kind, own, values in (
                    ("session_id", "TEXT", rows, [each.session_id for each in rows]),
                    ("context", "TEXT", contexts, texts),
                    ("context_bytes", "BIGINT", contexts, sizes),
                ):
                    if own:
                        first = min(each.seq for each in own)
                        uids = [each.uid for each in own]
                        sql = _SETTLED.format(column=column, kind=kind)
                        connection.execute(sql, [space, first, uids, values, len(own)])

        return [change]


def _total(bodies: Iterable[_Body]) -> tuple[int, int]:
    """Spans and bytes of some bodies."""
    every = list(bodies)
    return sum(each.spans for each in every), sum(each.size_bytes for each in every)
