"""Stored sessions, and the version of a profile that evaluates one."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from collector.split import split
from collector.store.reads import TooLargeError
from collector.store.rows import EvaluationRow, RecordRow
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.session import SessionKey
from scouter.model.span import Span

MOST_RECORDS: Final = 20_000
"""Records of a session that is judged."""
MOST_BYTES: Final = 48 * 2**20
"""Contexts (as JSON) of a session that is evaluated, and of sessions that are read together."""
_SIZES: Final = 250
"""Records whose sizes are read together: the store reads the contexts to measure them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """The records of a session that one profile judges."""

    key: SessionKey
    rows: Sequence[RecordRow]
    """At least one; without contexts and not all of them where the session is too large."""
    too_large: str = ""
    """Reason that it is not evaluated; empty if it is."""


class _Outline(NamedTuple):
    """The records of a session, whatever their profile."""

    rows: Sequence[RecordRow]
    too_large: str
    size_bytes: int = 0


class SessionReader:
    """Reads records of sessions and the evaluations on them; any thread may ask.

    Args:
        store: Holds the records and evaluations.
        registry: Finds the profile of a record.
    """

    def __init__(self, store: Store, registry: ProfileRegistry) -> None:
        self._store, self._registry = store, registry

    def sessions(
        self, space: str, session_ids: Iterable[str], unread: str = ""
    ) -> Iterator[Mapping[SessionKey, StoredSession]]:
        """Read some sessions, by the profile that their records mean.

        Args:
            space: Their space.
            session_ids: The sessions.
            unread: Reason that no contexts are read; empty if they are.

        Yields:
            Sessions whose contexts fit into memory together: let go of them before the next ones.
            A session without a record is left out.

        Raises:
            NoMemoryError: There is no memory for their contexts.
            TransientError: The store cannot be read now.

        Cost: of a session that is too large, only so much is read as shows that it is.
        """
        for outlines in self._outlines(space, sorted(set(session_ids))):
            if unread:
                outlines = [each._replace(too_large=unread) for each in outlines]
            measured = [self._measured(space, each) for each in outlines]
            for part in split(measured, lambda each: (each.size_bytes,), (MOST_BYTES,)):
                yield self._by_key(self._whole(space, part))

    def _outlines(self, space: str, ids: Sequence[str]) -> Iterator[Iterable[_Outline]]:
        """The records of sessions, without contexts, and whether they are too many."""
        if not ids:
            return
        limit = MOST_RECORDS + 1
        rows = self._store.session_records(space, ids, limit)
        if len(rows) > MOST_RECORDS and len(ids) > 1:
            yield from self._outlines(space, ids[: len(ids) // 2])
            yield from self._outlines(space, ids[len(ids) // 2 :])
            return
        too_large = ""
        if len(rows) > MOST_RECORDS:
            too_large = f"the session has more than {MOST_RECORDS:,} records, too many to be judged"
        by_id: defaultdict[str, list[RecordRow]] = defaultdict(list)
        for row in rows:
            by_id[row.session_id or row.uid].append(row)
        yield [_Outline(each, too_large) for each in by_id.values()]

    def _measured(self, space: str, outline: _Outline) -> _Outline:
        """The same with the bytes of the contexts; none are read of a session that is too large."""
        if outline.too_large:
            return outline
        size = 0
        for at in range(0, len(outline.rows), _SIZES):
            uids = [row.uid for row in outline.rows[at : at + _SIZES]]
            size += sum(self._store.context_sizes(space, uids).values())
            if size > MOST_BYTES:
                return outline._replace(
                    too_large=f"the session's contexts have more than {MOST_BYTES // 2**20} MiB, "
                    "too much to be judged; give each conversation a session id of its own"
                )
        return outline._replace(size_bytes=size)

    def _whole(self, space: str, outlines: Sequence[_Outline]) -> Iterator[_Outline]:
        """The same with contexts; a record that was erased meanwhile is left out."""
        uids = [row.uid for each in outlines if not each.too_large for row in each.rows]
        found = {row.uid: row for row in self._store.records_of(space, uids)}
        for each in outlines:
            if each.too_large:
                yield each
            elif whole := [found[row.uid] for row in each.rows if row.uid in found]:
                yield each._replace(rows=whole)

    def _by_key(self, outlines: Iterable[_Outline]) -> Mapping[SessionKey, StoredSession]:
        """Part sessions by the profile that their records mean."""
        found: dict[SessionKey, StoredSession] = {}
        for each in outlines:
            by_key: defaultdict[SessionKey, list[RecordRow]] = defaultdict(list)
            for row in each.rows:
                registered = None if row.is_score else self._registry.of_record(row)
                if registered is not None:
                    by_key[key_of(row, registered)].append(row)
            for key, rows in by_key.items():
                found[key] = StoredSession(key=key, rows=rows, too_large=each.too_large)
        return found

    def traces_of(self, registered: RegisteredProfile, session: StoredSession) -> set[str]:
        """The traces that a version reads to evaluate a session."""
        if session.too_large:
            return set()
        found = {awaited(registered, row.trace_id) for row in session.rows}
        return {trace_id for trace_id in found if trace_id is not None}

    def spans_of(self, space: str, traces: Collection[str]) -> Mapping[str, Sequence[Span]] | str:
        """Read the traces of one or more sessions.

        Returns:
            Spans by trace id, or why there are too many.

        Raises:
            TransientError: The store cannot be read now.
        """
        try:
            return self._store.spans_of(space, traces) if traces else {}
        except TooLargeError as error:
            return f"the session's traces are too large to be judged: {error}"

    def evaluations(self, keys: Iterable[SessionKey]) -> Mapping[SessionKey, EvaluationRow]:
        """The latest evaluation on each session that has one.

        Raises:
            TransientError: The store cannot be read now.
        """
        uids = {key: (key.space, key.uid) for key in keys}
        found = self._store.latest_evaluations(list(uids.values()))
        return {key: found[uid] for key, uid in uids.items() if uid in found}

    def judge_of(self, key: SessionKey, earlier: EvaluationRow | None) -> RegisteredProfile | None:
        """The version that judges a session: the one that did so last, else that of its records."""
        uid = key.profile_uid if earlier is None else earlier.profile_uid
        return self._registry.get(key.space, uid)


def key_of(row: RecordRow, registered: RegisteredProfile) -> SessionKey:
    """The session that a record belongs to; without a session id it is one of its own."""
    return SessionKey(row.space, registered.uid, row.session_id or row.uid)


def awaited(registered: RegisteredProfile, trace_id: str | None) -> str | None:
    """The trace whose spans a session waits for: none if no task of its plan reads any."""
    plan = registered.profile.plan.session
    return trace_id if plan is not None and plan.reads_spans else None
