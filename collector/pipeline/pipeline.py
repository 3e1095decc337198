"""One thread that joins what was committed, judges what is ready and stores the verdicts."""

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from collector.pipeline.join import Join, JoinTimes, Need, Ready
from collector.pipeline.judge import judge
from collector.pipeline.profiles import ProfileRegistry, RegisteredProfile
from collector.storage.json_text import dump_json
from collector.storage.port import Store
from collector.storage.rows import (
    DeadLetter,
    EvaluationRow,
    LetterKind,
    RecordRow,
    RecordsAppended,
    SpansAppended,
)
from scouter.errors import DataError, TransientError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span

_log: Final = logging.getLogger(__name__)
_CHUNK: Final = 500
_UNKNOWN_REFS: Final = 100
"""Unknown profiles that are spoken of; a sender can make up any number."""
_RETRY_S: Final = 1.0

Observer = Callable[[Sequence[EvaluationRow], Sequence[float]], None]
"""Is told of stored verdicts, and of the seconds that each record had waited."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProfilesChanged:
    """A profile was registered: records may wait for it."""


_Message = SpansAppended | RecordsAppended | _ProfilesChanged


class Pipeline:
    """Owns the join. Other threads only put into its inbox, and never wait for it.

    Args:
        store: Where verdicts go and traces are read back from.
        registry: Which profile a record means.
        times: How long the join waits.
        memory_spans: Spans that the join keeps.
        observers: Told of every stored verdict, in the pipeline's thread.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        *,
        times: JoinTimes,
        memory_spans: int,
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._observers = tuple(observers)
        self._join = Join(times, memory_spans)
        self._inbox: deque[_Message] = deque()
        self._queued = 0
        self._seq = 0
        self._wake = threading.Condition()
        self._stopping = threading.Event()
        self._unknown_refs: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="scouter-pipeline")

    @property
    def waiting(self) -> int:
        """Records that wait for their trace or their profile."""
        return self._join.waiting

    @property
    def queued(self) -> int:
        """Spans and records that were committed but not looked at yet."""
        return self._queued

    def start(self) -> None:
        """Take up the records that an earlier process left waiting, then run."""
        now = self._clock()
        self._seq = self._store.last_seq()
        for row in self._store.waiting_records():
            self._admit(row, now)
        self._thread.start()

    def stop(self) -> None:
        """Judge what is ready, then end; what still waits is taken up at the next start."""
        self._stopping.set()
        with self._wake:
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()

    def spans_appended(self, appended: "Future[SpansAppended]") -> None:
        """Callback of a store's future."""
        if appended.exception() is None:
            result = appended.result()
            self._put(result, len(result.stored))

    def records_appended(self, appended: "Future[RecordsAppended]") -> None:
        """Callback of a store's future."""
        if appended.exception() is None:
            result = appended.result()
            self._put(result, len(result.accepted))

    def profiles_changed(self) -> None:
        """Look again at records whose profile was not known."""
        self._put(_ProfilesChanged(), 0)

    def _put(self, message: _Message, size: int) -> None:
        with self._wake:
            self._inbox.append(message)
            self._queued += size
            self._wake.notify()

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            is_last = self._stopping.is_set()
            try:
                self._step()
            except TransientError as error:
                _log.warning("the pipeline has to wait: %s", error)
                self._stopping.wait(_RETRY_S)
            except Exception:  # noqa: BLE001 the thread outlives any fault; the store has the rest
                _log.exception("a fault in the pipeline; it goes on")
                self._stopping.wait(_RETRY_S)
            if is_last:
                return
            self._sleep()

    def _sleep(self) -> None:
        with self._wake:
            if self._inbox or self._stopping.is_set():
                return
            due = self._join.next_due()
            timeout = None if due is None else max(0.0, due - self._clock())
            if self._join.unloaded():  # the store could not be read
                timeout = _RETRY_S
            if timeout != 0.0:
                self._wake.wait(timeout)

    def _step(self) -> None:
        for message in self._drain():
            self._take(message)
        self._load()
        for part in _chunks(self._join.due(self._clock()), _CHUNK):
            self._decide(part)

    def _drain(self) -> list[_Message]:
        with self._wake:
            messages = list(self._inbox)
            self._inbox.clear()
            self._queued = 0
        return messages

    def _take(self, message: _Message) -> None:
        now = self._clock()
        match message:
            case SpansAppended():
                self._seq = message.seq
                self._join.add_spans(message.space, message.stored, message.known_traces, now)
            case RecordsAppended():
                self._seq = message.seq
                for row in message.accepted:
                    self._admit(row, now)
            case _ProfilesChanged():
                for row, arrived in self._join.take_unknown():
                    self._admit(row, arrived)

    def _admit(self, row: RecordRow, arrived: float) -> None:
        registered = self._profile_of(row)
        if registered is None:
            self._warn_of(row.profile_ref)
            need = Need.PROFILE
        elif registered.profile.plan.reads_spans and row.trace_id is not None:
            need = Need.TRACE
        else:
            need = Need.NOTHING
        self._join.add_record(row, need, arrived)

    def _warn_of(self, profile_ref: str) -> None:
        """Say once for each that records name a profile which nobody registered."""
        if profile_ref in self._unknown_refs or len(self._unknown_refs) >= _UNKNOWN_REFS:
            return
        self._unknown_refs.add(profile_ref)
        _log.warning(
            "records name the profile %r, which is not registered; they wait until the deadline, "
            "then they are dead letters. Start with --profile FILE, the same file as the agent's",
            profile_ref[:100],
        )

    def _profile_of(self, row: RecordRow) -> RegisteredProfile | None:
        if row.profile_uid:
            return self._registry.get(row.space, row.profile_uid)
        return self._registry.resolve(row.space, row.profile_ref)

    def _load(self) -> None:
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        for space, trace_id in self._join.unloaded():
            by_space[space].append(trace_id)
        for space, trace_ids in by_space.items():
            for part in _chunks(trace_ids, _CHUNK):
                found = self._store.spans_of(space, part)
                for trace_id in part:
                    self._join.load((space, trace_id), found.get(trace_id, ()), self._clock())

    # --- verdicts ---------------------------------------------------------------------------

    def _decide(self, part: Sequence[Ready]) -> None:
        seq = self._seq
        trees = self._trees(part)
        verdicts: list[EvaluationRow] = []
        waits: list[float] = []
        letters: list[DeadLetter] = []
        for ready in part:
            registered = self._profile_of(ready.record)
            if registered is None:
                letters.append(_letter(ready.record, "unknown_profile", _unknown(ready.record)))
                continue
            if ready.need is Need.PROFILE:  # registered at the last moment
                self._admit(ready.record, self._clock())
                continue
            tree = trees.get((ready.record.space, ready.record.trace_id or ""))
            reads = registered.profile.plan.reads_spans
            try:
                verdicts.append(
                    judge(
                        ready,
                        registered,
                        (tree or SpanTree()) if reads else None,
                        seq=seq,
                        now_ns=time.time_ns(),
                    )
                )
                waits.append(ready.waited_s)
            except Exception as error:  # noqa: BLE001 one record must not stop the others
                _log.exception("profile %s: the engine failed", registered.profile.alias)
                letters.append(_letter(ready.record, "engine_fault", repr(error)))
        self._store_verdicts(verdicts, waits)
        if letters:
            self._insist(lambda: self._store.append_dead_letters(letters))

    def _trees(self, part: Sequence[Ready]) -> dict[tuple[str, str], SpanTree]:
        """Every trace of the part as a tree, read from the store where memory has let it go."""
        spans: dict[tuple[str, str], Sequence[Span]] = {}
        missing: defaultdict[str, list[str]] = defaultdict(list)
        for ready in part:
            trace_id = ready.record.trace_id
            if ready.need is not Need.TRACE or trace_id is None:
                continue
            if ready.spans is None:
                missing[ready.record.space].append(trace_id)
            else:
                spans[ready.record.space, trace_id] = ready.spans
        for space, trace_ids in missing.items():
            found = self._retry(lambda space=space, ids=trace_ids: self._store.spans_of(space, ids))
            spans |= {(space, trace_id): each for trace_id, each in found.items()}
        return {key: SpanTree(each) for key, each in spans.items()}

    def _store_verdicts(self, verdicts: list[EvaluationRow], waits: list[float]) -> None:
        if not verdicts:
            return
        try:
            self._insist(lambda: self._store.append_evaluations(verdicts))
        except DataError as error:
            if len(verdicts) == 1:
                _log.warning("a verdict cannot be stored: %s", error)
                letter = _letter_of_verdict(verdicts[0], str(error))
                self._insist(lambda: self._store.append_dead_letters([letter]))
                return
            for verdict, wait in zip(verdicts, waits, strict=True):
                self._store_verdicts([verdict], [wait])
            return
        for observer in self._observers:
            observer(verdicts, waits)

    def _insist(self, append: Callable[[], "Future[int]"]) -> None:
        """Append until the store takes it: what is decided must not be decided twice."""
        self._retry(lambda: append().result())

    def _retry(self, action: Callable[[], T]) -> T:
        while True:
            try:
                return action()
            except TransientError as error:
                if self._stopping.is_set():
                    raise
                _log.warning("the store does not take verdicts, trying again: %s", error)
                self._stopping.wait(_RETRY_S)


def _letter(row: RecordRow, reason: str, message: str) -> DeadLetter:
    payload = {
        "uid": row.uid,
        "profile": row.profile_ref,
        "record_id": row.record_id,
        "session_id": row.session_id,
        "trace_id": row.trace_id,
        "created_at": row.created_ns,
        "context": row.context,
        "tags": dict(row.tags),
    }
    return DeadLetter(
        space=row.space,
        kind=LetterKind.RECORD,
        reason=reason,
        message=message,
        source="pipeline",
        payload=dump_json(payload).encode(),
        uid=row.uid,
        received_ns=row.received_ns,
        was_accepted=True,
    )


def _letter_of_verdict(row: EvaluationRow, message: str) -> DeadLetter:
    return DeadLetter(
        space=row.space,
        kind=LetterKind.RECORD,
        reason="unstorable_verdict",
        message=message,
        source="pipeline",
        payload=b"",
        uid=row.record_uid,
        received_ns=row.evaluated_ns,
        was_accepted=True,
    )


def _unknown(row: RecordRow) -> str:
    return (
        f"no registered profile has the digest, uid, alias or name {row.profile_ref!r}; "
        "register it with `scouter collector --profile FILE`, then replay the record"
    )


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
