"""Erasing: everything that a target names goes at once; `purge` removes its bytes behind that."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from collector.metrics import TotalKey, TotalName
from collector.store.bodies import compress, decompress, trace_hash, without_spans
from collector.store.commit import tag_texts
from collector.store.json_text import decode_evaluation, encode_evaluation
from collector.store.letter_reads import LetterSearch
from collector.store.reads import Change, Connection, runs
from collector.store.records import SESSION
from collector.store.rows import EvaluationRow
from collector.store.runs import Runs, take_runs
from collector.store.schema import OF_RECORDS
from collector.store.tombstones import Tombstone, of_record, of_span, of_trace
from collector.store.totals import CountingReads, Counts, span_label
from scouter.model.score import SCORE_OF


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTarget:
    """Data to erase; exactly one of the five fields after `space` is given."""

    space: str
    session_id: str | None = None
    trace_id: str | None = None
    record_uid: str | None = None
    tag: tuple[str, str] | None = None
    """Key and text."""
    superseded: tuple[str, ...] = ()
    """Uids of derived records in whose place others came; counted as superseded, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """Counts of what was erased, with the keys that memory has to forget, too."""

    space: str
    seq: int
    uids: frozenset[str]
    """Uids of the erased records."""
    traces: frozenset[str]
    """Traces that lost spans."""
    spans: int
    evaluations: int
    """Evaluations, every revision of each."""
    dead_letters: int
    runs: int
    """Runs that spoke of what went; each as a whole."""


_BATCH: Final = 64
"""Payloads of letters in memory at a time."""


@dataclass(slots=True, kw_only=True)
class Gone:
    """The rows that an erasure takes, by their keys."""

    space: str
    is_superseded: bool = False
    """True if others came in its place: then nobody waits for its bytes to go."""
    uids: list[str] = field(default_factory=list[str])
    session_uids: list[str] = field(default_factory=list[str])
    """`record_uid` of the evaluations on whole sessions that go."""
    traces: list[str] = field(default_factory=list[str])
    """Traces that go as a whole."""
    spans: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Span ids by trace, of traces that stay."""
    letters: list[str] = field(default_factory=list[str])
    """Ids of letters that were never accepted."""
    runs: list[int] = field(default_factory=list[int])
    """Commits of the runs that speak of what goes."""
    counts: Counts = field(default_factory=Counts)
    blank: dict[str, str] = field(default_factory=dict[str, str])
    """Texts of the evaluations that stay and have seen spans that go, by evaluation id."""
    quoting: list[str] = field(default_factory=list[str])
    """`record_uid` of these: notes of people on them may quote what goes."""
    last_seq: int = 0
    """The newest commit when they were found."""
    bodies: list[tuple[int, str, int, bytes | None]] = field(
        default_factory=list[tuple[int, str, int, bytes | None]]
    )
    """Bodies that lose some of their spans: commit, trace, spans left, and the stored bytes; None
    without a span left."""

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to erase."""
        return not (
            self.uids or self.session_uids or self.traces or self.spans or self.letters or self.runs
        )

    def tombstones(self, target: EraseTarget) -> list[Tombstone]:
        """The marks that keep it from coming back; a named key is marked even if it is not here."""
        space = self.space
        uids = {*self.uids, target.record_uid} - {None}
        traces = {*self.traces, target.trace_id} - {None}
        return [
            *(of_record(space, uid) for uid in uids if uid is not None),
            *(of_trace(space, each) for each in traces if each is not None),
            *(of_span(space, each, span) for each, ids in self.spans.items() for span in ids),
        ]


class EraseReads(CountingReads, Runs):
    """Looks for what an erasure takes."""

    def find_gone(self, target: EraseTarget) -> Gone:
        """Find the rows that a target names.

        Cost: a scan of records, sessions of spans and hashes of traces; and the payloads of all
        letters and runs of the space.
        """
        space = target.space
        is_superseded = bool(target.superseded)
        gone = Gone(space=space, last_seq=self.last_seq(), is_superseded=is_superseded)
        condition, value = _condition(target)
        records = self.read_for_work(
            f"SELECT r.uid, r.trace_id, {SESSION} FROM records r"
            f" WHERE r.space = $1 AND {condition}",
            [space, value],
        )
        gone.uids = [uid for uid, *_ in records]
        sessions = {session for *_, session in records}
        of_session = self._spans_of_session(space, target.session_id)
        gone.traces = self._whole_traces(
            target, gone.uids, {t for _, t, _ in records if t}, of_session
        )
        gone.uids += [] if is_superseded else self._scores_on(gone)
        whole = set(gone.traces)
        gone.spans = {trace: ids for trace, ids in of_session.items() if trace not in whole}
        named = target.session_id or target.record_uid
        gone.session_uids = self._sessions_without_records(
            space, sessions | ({named} if named else set()), gone.uids
        )
        self._blank(gone, sessions)
        gone.bodies = self._bodies(space, gone.spans)
        search = _search(target, gone)
        gone.letters = self._letters(space, search)
        gone.runs = [] if target.superseded else self.runs_about(space, search)
        gone.counts = self.gone_counts(
            "t.space = $1 AND t.record_uid = ANY($2::TEXT[])",
            [space, [*gone.uids, *gone.session_uids]],
        )
        self._count(gone)
        return gone

    def _spans_of_session(self, space: str, session_id: str | None) -> dict[str, list[str]]:
        """The spans that name a session, and the log events below them, by trace."""
        if session_id is None:
            return {}
        found: defaultdict[str, list[str]] = defaultdict(list)
        for trace_id, span_id in self.read_for_work(
            "SELECT s.trace_id, s.span_id FROM spans s WHERE s.space = $1 AND (s.session_id = $2"
            " OR (s.is_event = 1 AND EXISTS (SELECT 1 FROM spans p WHERE p.space = $1"
            " AND p.session_id = $2 AND p.trace_id = s.trace_id"
            " AND p.span_id = s.parent_span_id)))",
            [space, session_id],
        ):
            found[trace_id].append(span_id)
        return found

    def _whole_traces(
        self, target: EraseTarget, uids: list[str], of_records: set[str], of_spans: Iterable[str]
    ) -> list[str]:
        """The traces that go as a whole: those of which no other record is left."""
        if target.trace_id is not None:
            return [target.trace_id]
        if target.superseded:  # a sender's record about the same trace comes
            return []
        wanted = sorted(of_records.union(of_spans))
        retained = self.read_for_work(
            "SELECT DISTINCT trace_id FROM records WHERE space = $1 AND trace_id = ANY($2::TEXT[])"
            " AND NOT (uid = ANY($3::TEXT[])) AND NOT starts_with(uid, 'score:')",
            [target.space, wanted, uids],
        )
        return sorted(set(wanted) - {trace_id for (trace_id,) in retained})

    def _scores_on(self, gone: Gone) -> list[str]:
        """The scores on records and traces that go."""
        rows = self.read_for_work(
            "SELECT r.uid FROM records r WHERE r.space = $1 AND starts_with(r.uid, 'score:')"
            " AND (r.trace_id = ANY($2::TEXT[]) OR r.tags && $3::TEXT[])",
            [gone.space, gone.traces, [tag_texts({SCORE_OF: uid})[0] for uid in gone.uids]],
        )
        return sorted({uid for (uid,) in rows} - {*gone.uids})

    def _sessions_without_records(
        self, space: str, sessions: Collection[str], uids: list[str]
    ) -> list[str]:
        rows = self.read_for_work(
            "SELECT DISTINCT e.record_uid FROM evaluations e WHERE e.space = $1"
            " AND e.scope = 'session' AND e.session_id = ANY($2::TEXT[]) AND NOT EXISTS ("
            f"SELECT 1 FROM records r WHERE r.space = $1 AND {SESSION} = e.session_id"
            " AND NOT (r.uid = ANY($3::TEXT[])))",
            [space, sorted(sessions), uids],
        )
        return [uid for (uid,) in rows]

    def _blank(self, gone: Gone, sessions: Collection[str]) -> None:
        """Find the evaluations that stay and read what goes: their texts may quote it."""
        touched = sorted({*gone.traces, *gone.spans})
        rows = self.read_for_work(
            "SELECT e.evaluation_id, e.body FROM evaluations e WHERE e.space = $1"
            " AND NOT (e.record_uid = ANY($4::TEXT[]))"
            " AND ((e.scope = 'session' AND e.session_id = ANY($3::TEXT[]))"
            " OR (e.reads_spans = 1 AND e.trace_id = ANY($2::TEXT[]))"
            " OR (e.scope = 'session' AND e.reads_spans = 1 AND EXISTS (SELECT 1 FROM records r"
            f" WHERE r.space = $1 AND {SESSION} = e.session_id"
            " AND r.trace_id = ANY($2::TEXT[]))))",
            [gone.space, touched, sorted(sessions), [*gone.uids, *gone.session_uids]],
        )
        for each, text in rows:
            evaluation = _without_texts(decode_evaluation(text))
            gone.blank[each] = encode_evaluation(evaluation)
            gone.quoting.append(evaluation.record_uid)

    def _bodies(
        self, space: str, spans: dict[str, list[str]]
    ) -> list[tuple[int, str, int, bytes | None]]:
        found: list[tuple[int, str, int, bytes | None]] = []
        for first, last, hashes in self._ranges(list(spans)):
            for seq, trace_id, body in self.read_for_work(
                "SELECT seq, trace_id, body FROM bodies WHERE seq BETWEEN $1 AND $2 AND space = $3"
                " AND trace_hash = ANY($4::BIGINT[]) AND trace_id = ANY($5::TEXT[])",
                [first, last, space, hashes, list(spans)],
            ):
                rest = without_spans(decompress(body), spans[trace_id])
                stored = compress(rest.message) if rest else None
                found.append((seq, trace_id, rest.spans if rest else 0, stored))
        return found

    def _ranges(self, traces: Sequence[str]) -> list[tuple[int, int, list[int]]]:
        """The ranges of commits that have traces, and the hashes of all of them."""
        hashes = [trace_hash(each) for each in traces]
        rows = self.read_for_work(
            "SELECT DISTINCT seq FROM bodies WHERE trace_hash = ANY($1::BIGINT[])", [hashes]
        )
        return [(first, last, hashes) for first, last in runs(seq for (seq,) in rows)]

    def _letters(self, space: str, search: LetterSearch) -> list[str]:
        """Letters that were never accepted and speak of what goes."""
        ids = self.read_for_work(
            "SELECT letter_id FROM dead_letters WHERE space = $1 AND was_accepted = 0 ORDER BY seq",
            [space],
        )
        found: list[str] = []
        for start in range(0, len(ids), _BATCH):
            part = [letter_id for (letter_id,) in ids[start : start + _BATCH]]
            for letter_id, uid, payload in self.read_for_work(
                "SELECT letter_id, uid, payload FROM dead_letters"
                " WHERE space = $1 AND letter_id = ANY($2::TEXT[])",
                [space, part],
            ):
                if uid in search.texts or search.is_id(uid) or search.finds(payload):
                    found.append(letter_id)
        return found

    def _count(self, gone: Gone) -> None:
        n = gone.counts.totals

        def erased(label: str) -> TotalKey:
            return TotalKey(TotalName.ERASED, gone.space, label=label)

        n[erased("record")] += len(gone.uids)
        if gone.is_superseded:
            n[TotalKey(TotalName.SUPERSEDED, gone.space)] += len(gone.uids)
        traces = [*gone.traces, *gone.spans]
        for first, last, _ in self._ranges(traces):
            for trace_id, span_id, is_event in self.read_for_work(
                "SELECT trace_id, span_id, is_event FROM spans WHERE seq BETWEEN $1 AND $2"
                " AND space = $3 AND trace_id = ANY($4::TEXT[])",
                [first, last, gone.space, traces],
            ):
                if trace_id not in gone.spans or span_id in gone.spans[trace_id]:
                    n[erased(span_label(is_event=is_event))] += 1


def change_of(gone: Gone) -> Change:
    """The change that takes the rows out; it may be made twice."""
    space, uids = gone.space, [*gone.uids, *gone.session_uids]
    single = [(trace, span) for trace, ids in gone.spans.items() for span in ids]

    def change(connection: Connection) -> None:
        def run(sql: str, *values: object) -> None:
            connection.execute(sql, [space, *values])

        run("DELETE FROM spans WHERE space = $1 AND trace_id = ANY($2::TEXT[])", gone.traces)
        run("DELETE FROM bodies WHERE space = $1 AND trace_id = ANY($2::TEXT[])", gone.traces)
        if single:
            run(
                "DELETE FROM spans WHERE space = $1 AND trace_id = ANY($2::TEXT[])"
                " AND trace_id || span_id = ANY($3::TEXT[])",
                list(gone.spans),
                [trace + span for trace, span in single],
            )
        for seq, trace_id, spans, body in gone.bodies:
            where = "space = $1 AND seq = $2 AND trace_id = $3"
            if body is None:
                run(f"DELETE FROM bodies WHERE {where}", seq, trace_id)
            else:
                sql = f"UPDATE bodies SET spans = $4, body = $5 WHERE {where}"
                run(sql, seq, trace_id, spans, body)
        for table, column in {"records": "uid", **OF_RECORDS}.items():
            run(f"DELETE FROM {table} WHERE space = $1 AND {column} = ANY($2::TEXT[])", uids)
        run(
            "DELETE FROM dead_letters WHERE space = $1 AND ((was_accepted = 1"
            " AND uid = ANY($2::TEXT[])) OR letter_id = ANY($3::TEXT[]))",
            gone.uids,
            gone.letters,
        )
        take_runs(connection, gone.runs)
        run(
            "UPDATE labels SET notes = '' WHERE space = $1 AND uid = ANY($2::TEXT[]) AND seq <= $3",
            gone.quoting,
            gone.last_seq,
        )
        for evaluation_id, text in gone.blank.items():
            run("UPDATE evaluations SET body = $3 WHERE space = $1 AND evaluation_id = $2",
                evaluation_id, text)  # fmt: skip

    return change


def _search(target: EraseTarget, gone: Gone) -> LetterSearch:
    """Look for what goes in texts that the store has not taken apart."""
    named = (*gone.uids, target.record_uid, target.session_id)
    texts = [text for text in named if text]
    return LetterSearch(texts, {*gone.traces, *gone.spans}, target.tag)


def _condition(target: EraseTarget) -> tuple[str, Any]:
    """SQL for the records that a target names, with its value as `$2`."""
    if target.session_id is not None:
        return f"{SESSION} = $2", target.session_id
    if target.trace_id is not None:
        return "r.trace_id = $2", target.trace_id
    if target.tag is not None:
        return "$2 = ANY(r.tags)", tag_texts(dict([target.tag]))[0]
    uids = target.superseded or [target.record_uid or ""]
    return "r.uid = ANY($2::TEXT[])", list(uids)


def _without_texts(evaluation: EvaluationRow) -> EvaluationRow:
    tasks = (
        replace(task, expected=None, actual=None, message="", question="", answer=None)
        for task in evaluation.tasks
    )
    return replace(evaluation, tasks=tuple(tasks))
