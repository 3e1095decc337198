"""ScouterQueue: where an agent drops its EvalRecords, one slot per profile alias."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry import trace

from scouter.errors import ConfigError, DataError, UnknownProfileError
from scouter.model.ids import FLAGS, IS_VALID, SAMPLED, TRACE_ID, as_tuple, uuid7
from scouter.model.record import EvalRecord, RecordSnapshot, checked_trace_id, without_session
from scouter.queue.origin import ORIGINS
from scouter.queue.sampling import Sampling, record_is_in_share, record_is_sampled
from scouter.transport.drops import Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import RecordItem, estimate_bytes
from scouter.transport.process import FORKED, RECORD, watch
from scouter.transport.worker import BatchWorker, Send, WorkerLimits

if TYPE_CHECKING:
    from scouter.drift.profile import AgentEvalProfile
    from scouter.queue.redaction import Redaction, Redactor
    from scouter.transport.config import TransportConfig


Profiles: TypeAlias = (
    "AgentEvalProfile | Sequence[AgentEvalProfile] | Mapping[str, AgentEvalProfile]"
)
"""One profile, several, or several by alias (the key is the alias)."""

_NO_ALIAS: Final = (
    "Drift profile alias must be set: give each profile alias=..., or pass a dict by alias"
)


def by_alias(profile: Profiles) -> "dict[str, AgentEvalProfile]":
    """The profiles by alias.

    Raises:
        ConfigError: There is none, or an alias is missing or used twice.
    """
    from scouter.drift.profile import AgentEvalProfile

    if isinstance(profile, AgentEvalProfile):
        profile = [profile]
    if isinstance(profile, Mapping):
        pairs = list(profile.items())
    else:
        pairs = [(item.alias if item.is_named else "", item) for item in profile]
    out: dict[str, AgentEvalProfile] = {}
    for alias, item in pairs:
        if not alias:
            raise ConfigError(f"profile {item.name!r}: {_NO_ALIAS}")
        if alias in out:
            raise ConfigError(f"two profiles have the alias {alias!r}; aliases name the slots")
        out[alias] = item
    if not out:
        raise ConfigError("no profile was given; a queue needs at least one")
    return out


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStats:
    """Counts of records by fate; `inserted` is the sum of all the others."""

    inserted: int = 0
    """Calls of `insert`, bad ones included."""
    sent: int = 0
    captured: int = 0
    waiting: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    """By reason: `invalid`, `unknown_profile` (a span's record for an alias or uid that there is
    not), `sampled`, `internal`, `replay_over` (made by what a replay left running), `capture_full`
    (beyond `MAX_CAPTURED`), and the worker's reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedRecord:
    """A captured record and whose it is, as its `scenario_scope` or the running replay says."""

    record: EvalRecord
    scenario_id: str | None = None
    """None outside of any scope."""
    try_key: str | None = None
    source: object | None = None
    """The thread or task that inserted it, where that has outlived its scenario."""
    names_session: bool = True
    """True if the agent said which session the record belongs to."""


class Queue:
    """The slot of one alias; made by `ScouterQueue`."""

    def __init__(self, owner: "ScouterQueue", alias: str, profile: "AgentEvalProfile") -> None:
        self._owner = owner
        self.alias = alias
        self.profile = profile
        self.profile_uid = profile.uid
        self.sample_ratio = profile.config.sample_ratio
        """Share of this alias' records that are sent, of those that the queue would send."""

    def insert(self, item: EvalRecord) -> None:
        """Take a snapshot of the record and return; delivery happens in the background.

        The active span's trace id is stamped on a record that has none. Inserting a record again
        inserts a copy with a uid of its own. Never blocks and never raises: a record that cannot
        be taken is counted in `ScouterQueue.stats`.

        Args:
            item: The record; it can no longer be changed afterwards.

        Cost: one walk over the context.
        """
        context = trace.get_current_span().get_span_context()
        if not isinstance(context, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
            context = as_tuple(context)  # another library's
        if context[IS_VALID]:
            sampled = context[FLAGS] & SAMPLED > 0
            self._owner.take(self, item, f"{context[TRACE_ID]:032x}", sampled)
        else:
            self._owner.take(self, item, None)

    def insert_for_trace(
        self, record: EvalRecord, trace_id: str | None, *, is_sampled: bool | None = None
    ) -> str | None:
        """Insert as `insert` does, for a trace that is known.

        Args:
            record: The record.
            trace_id: Stamped on a record that has none.
            is_sampled: Whether that trace is sampled; if not, the record is counted only. None:
                the queue decides by the sample ratio.

        Returns:
            Uid of the record that was taken; None if none was.
        """
        return self._owner.take(self, record, trace_id, is_sampled, is_measured=True)

    def drain(self) -> list[EvalRecord]:
        """Take out the captured records, in the order of insertion."""
        return self._owner.drain_records(self.alias)

    def refuse(self, error: DataError) -> None:
        """Count a record that could not be made, as one that cannot be taken."""
        self._owner.refuse(f"queue {self.alias!r}", "invalid", error)


MAX_CAPTURED: Final = 100_000
"""Records that a queue keeps in memory while it captures, of all aliases."""

_Waiting = tuple[str, RecordSnapshot]
"""Uid of the profile, and the record."""


class ScouterQueue:
    """All slots of a process and the one worker that carries their records away.

    Use `from_profile` or `from_path`. Nothing starts before the first insertion.

    Args:
        profiles: Profile of each alias.
        transport_config: Way of the records.
        limits: Bounds of the worker.
        redaction: Rules for data that must not leave the process.

    Raises:
        ConfigError: The transport's library is not installed, or a rule of redaction is none.
    """

    def __init__(
        self,
        profiles: "Mapping[str, AgentEvalProfile]",
        transport_config: "TransportConfig",
        limits: WorkerLimits | None = None,
        redaction: "Redaction | None" = None,
    ) -> None:
        transport_config.prepare()
        self.redactor: Redactor | None = None if redaction is None else make_redactor(redaction)
        """Rules of redaction for all records before they wait; `init_tracer` may set its own."""
        self._config = transport_config
        self._queues = {alias: Queue(self, alias, item) for alias, item in profiles.items()}
        self._worker: BatchWorker[_Waiting] = BatchWorker(
            "records",
            _opener(transport_config),
            limits,
            size_of=lambda item: estimate_bytes(item[1]),
        )
        self._lock = threading.RLock()
        self._ratio = 1.0
        self._tracing = Sampling()
        self._capturing = False
        self._captured: dict[str, list[CapturedRecord]] = {}
        self._capture_count = 0
        self._capture_overflow = 0
        watch(self)

    def after_fork_in_child(self) -> None:
        """Make a new lock: another thread may have had the old one."""
        self._lock = threading.RLock()

    @classmethod
    def from_profile(
        cls,
        profile: Profiles,
        transport_config: "TransportConfig | None" = None,
        wait_for_startup: bool = False,
        redaction: "Redaction | None" = None,
    ) -> "ScouterQueue":
        """Make a queue for one profile, several, or a dict by alias.

        Args:
            profile: The profiles; each needs an alias of its own.
            transport_config: Way of the records, such as `HttpConfig()` or `MockConfig()`.
            wait_for_startup: Accepted for old callers; there is nothing to wait for.
            redaction: Rules for data that must not leave the process. They hold for spans, too,
                once the queue is given to `init_tracer` or `ScouterInstrumentor`.

        Raises:
            ConfigError: No transport, no profile, an alias is missing or used twice, or a rule of
                redaction is none.
        """
        del wait_for_startup
        if transport_config is None:
            raise ConfigError(
                "Transport config was not provided: pass transport_config=, "
                "such as HttpConfig() or MockConfig()"
            )
        return cls(by_alias(profile), transport_config, redaction=redaction)

    @classmethod
    def from_path(
        cls,
        path: Mapping[str, str | PathLike[str]],
        transport_config: "TransportConfig | None" = None,
        wait_for_startup: bool = False,
        redaction: "Redaction | None" = None,
    ) -> "ScouterQueue":
        """Make a queue from profile files, as `AgentEvalProfile.save_to_json` writes them.

        Args:
            path: File of each alias.
            transport_config: Way of the records.
            wait_for_startup: Accepted for old callers; there is nothing to wait for.
            redaction: Rules for data that must not leave the process, as in `from_profile`.

        Raises:
            FileFormatError: A file is not a profile.
            ConfigError: As in `from_profile`.
        """
        from scouter.drift.profile import AgentEvalProfile  # a model, with which pydantic loads

        profiles = {alias: AgentEvalProfile.from_file(Path(file)) for alias, file in path.items()}
        return cls.from_profile(profiles, transport_config, wait_for_startup, redaction)

    def __getitem__(self, alias: str) -> Queue:
        """The slot of an alias.

        Raises:
            UnknownProfileError: No profile has this alias.
        """
        try:
            return self._queues[alias]
        except KeyError:
            raise self._unknown(alias, tuple(self._queues), "alias") from None

    def get_by_entity_uid(self, entity_uid: str) -> Queue:
        """The slot of a profile by its uid, `profile.uid`; of several, the first.

        Raises:
            UnknownProfileError: No profile has this uid.
        """
        by_uid = {queue.profile_uid: queue for queue in reversed(self._queues.values())}
        if entity_uid in by_uid:
            return by_uid[entity_uid]
        raise self._unknown(entity_uid, tuple(by_uid)[::-1], "uid")

    def _unknown(self, name: str, known: tuple[str, ...], kind: str) -> UnknownProfileError:
        if self._capturing:  # an agent may swallow the error, and the record is lost all the same
            self._worker.drop("unknown_profile")
        return UnknownProfileError(name, known, kind)

    def __contains__(self, alias: object) -> bool:
        return alias in self._queues

    @property
    def transport_config(self) -> "TransportConfig":
        """The settings of the transport."""
        return self._config

    def agent_profiles(self) -> "dict[str, AgentEvalProfile]":
        """The profiles by alias."""
        return {alias: queue.profile for alias, queue in self._queues.items()}

    # --- insertion ---

    def take(
        self,
        queue: Queue,
        record: EvalRecord,
        trace_id: str | None,
        is_sampled: bool | None = None,
        is_measured: bool = False,
    ) -> str | None:
        """Accept a record for one slot: what `Queue.insert` does.

        Only `is_measured` says whether there is still room for the record, which takes longer.
        """
        try:
            if not isinstance(record, EvalRecord):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise DataError(f"insert() takes an EvalRecord, not a {type(record).__name__}")
            if is_measured and trace_id is not None:
                trace_id = checked_trace_id(trace_id)
            given = record
            if record.is_frozen:
                record = _copy(record, uid=uuid7(), trace_id=trace_id or record.trace_id)
            snapshot = record.freeze(trace_id)
            if self._capturing:
                is_stored = self._capture(queue.alias, snapshot, given.names_session)
                return record.uid if is_stored else None
            if ORIGINS.has_replayed and ORIGINS.is_leftover():
                self._worker.drop("replay_over")
                return None
            tracing = self._tracing
            if (
                is_sampled is False
                or self._ratio < 1.0
                or queue.sample_ratio < 1.0
                or tracing.ratio is not None
                or (
                    tracing.decisions.are_known and not (is_sampled and record.trace_id == trace_id)
                )
            ) and not self._keeps(queue, record, trace_id, is_sampled):
                self._worker.drop("sampled")
                return None
            if self.redactor is not None:
                snapshot = self.redactor.record(snapshot)
            item = queue.profile_uid, _as_sent(snapshot, given)
            if not is_measured:
                self._worker.put_unmeasured(item)
            elif not self._worker.put(item, estimate_bytes(snapshot)):
                return None
        except DataError as error:
            self.refuse(f"queue {queue.alias!r}", "invalid", error)
            return None
        except Exception as error:  # noqa: BLE001 - the host must not suffer from our bug
            self._worker.drop("internal")
            GUARD.internal(f"queue {queue.alias!r}", error)
            return None
        return record.uid

    def refuse(self, place: str, reason: str, error: Exception) -> None:
        """Count a record that cannot be taken, and log why, once per place and reason."""
        self._worker.drop(reason)
        GUARD.refuse(place, reason, error)

    def set_sample_ratio(self, ratio: float) -> None:
        """Send only this share of the records: those of the traces that tracing keeps, too.

        Args:
            ratio: In [0, 1].

        Raises:
            ConfigError: Outside that range.
        """
        if not 0.0 <= ratio <= 1.0:
            raise ConfigError(f"sample_ratio {ratio!r}: expected a number from 0 to 1")
        self._ratio = ratio

    def follow(self, sampling: Sampling) -> None:
        """Keep the records of the traces that the process' tracing keeps, now and later."""
        self._tracing = sampling

    def _keeps(
        self, queue: Queue, record: EvalRecord, trace_id: str | None, is_sampled: bool | None
    ) -> bool:
        """Decide as tracing does: `is_sampled` is its word on the trace `trace_id`."""
        tracing, ratio, share = self._tracing, self._ratio, queue.sample_ratio
        if is_sampled is None or record.trace_id != trace_id:  # it is about another trace
            is_sampled = tracing.decisions.on(record.trace_id)
        if is_sampled is False:
            return False
        if tracing.ratio is not None:
            ratio = tracing.ratio
            if is_sampled and not tracing.thins_spans:
                ratio = 1.0  # decided already
        return (ratio >= 1.0 or record_is_sampled(record.trace_id, record.uid, ratio)) and (
            share >= 1.0 or record_is_in_share(record.trace_id, record.uid, share)
        )

    # --- capture ---

    @property
    def is_capturing(self) -> bool:
        """True while records stay here instead of being sent."""
        return self._capturing

    def enable_capture(self) -> None:
        """Leave records in memory instead of sending them; earlier ones are forgotten.

        Beyond `MAX_CAPTURED` that are not drained the newest are dropped, as `capture_full`.
        """
        with self._lock:
            self._captured = {}
            self._capturing = True

    def disable_capture(self) -> None:
        """Send records again; what was captured and not drained is forgotten."""
        with self._lock:
            self._capturing = False
            self._captured = {}

    def drain_records(self, alias: str, scenario_id: str | None = None) -> list[EvalRecord]:
        """Take out the captured records of one alias, in the order of insertion.

        Args:
            alias: The slot.
            scenario_id: Only those inserted inside this `scenario_scope`; all if not given.

        Raises:
            UnknownProfileError: No profile has this alias.
        """
        _ = self[alias]
        with self._lock:
            return self._drain(alias, scenario_id)

    def drain_all_records(self, scenario_id: str | None = None) -> dict[str, list[EvalRecord]]:
        """Take out the captured records of all aliases that have any.

        Args:
            scenario_id: Only those inserted inside this `scenario_scope`; all if not given.
        """
        with self._lock:
            drained = {alias: self._drain(alias, scenario_id) for alias in list(self._captured)}
        return {alias: records for alias, records in drained.items() if records}

    def drain_with_scopes(self) -> dict[str, list[CapturedRecord]]:
        """Take out all captured records, with the `scenario_scope` that each was inserted in.

        Returns:
            Per alias, in the order of insertion.
        """
        with self._lock:
            captured, self._captured = self._captured, {}
        return captured

    def _capture(self, alias: str, snapshot: RecordSnapshot, names_session: bool) -> bool:
        """Keep a record; False if there is no room, and in a forked child."""
        if FORKED.takes(RECORD):
            return False
        with self._lock:
            if sum(map(len, self._captured.values())) >= MAX_CAPTURED:
                self._capture_overflow += 1
                return False
        origin = ORIGINS.now()
        if self.redactor is not None:  # so that tasks find what they would find in the collector
            snapshot = self.redactor.record(snapshot)
        captured = CapturedRecord(
            record=EvalRecord.of_snapshot(snapshot),
            scenario_id=origin.scenario_id,
            try_key=origin.try_key,
            source=origin.source,
            names_session=names_session,
        )
        with self._lock:
            self._captured.setdefault(alias, []).append(captured)
            self._capture_count += 1
        return True

    def _drain(self, alias: str, scenario_id: str | None) -> list[EvalRecord]:
        stored = self._captured.pop(alias, [])
        if scenario_id is None:
            return [item.record for item in stored]
        rest = [item for item in stored if item.scenario_id != scenario_id]
        if rest:
            # A signal handler may have captured another one meanwhile.
            self._captured.setdefault(alias, [])[:0] = rest
        return [item.record for item in stored if item.scenario_id == scenario_id]

    # --- the end, and the sums ---

    def is_empty(self) -> bool:
        """True if no record waits for delivery."""
        return self._worker.stats.waiting == 0

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until every record inserted so far is delivered or dropped.

        Returns:
            False if the time ran out.
        """
        return self._worker.flush(timeout_s)

    def shutdown(self, timeout_s: float = 5.0) -> None:
        """Deliver what waits, at most for `timeout_s`, and stop; later records are dropped."""
        self._worker.close(timeout_s)

    @property
    def stats(self) -> QueueStats:
        """Counts of all inserted records by fate."""
        worker = self._worker.stats
        with self._lock:
            captured, overflow = self._capture_count, self._capture_overflow
        dropped = {**worker.dropped, "capture_full": overflow} if overflow else worker.dropped
        return QueueStats(
            inserted=worker.put + captured + overflow,
            sent=worker.sent,
            captured=captured,
            waiting=worker.waiting,
            dropped=dropped,
        )


def make_redactor(redaction: "Redaction") -> "Redactor":
    """Compile the rules; loads what they need, which most processes do not.

    Raises:
        ConfigError: A rule is none.
    """
    from scouter.queue.redaction import Redactor

    return Redactor(redaction)


def _as_sent(snapshot: RecordSnapshot, record: EvalRecord) -> RecordSnapshot:
    """Leave out a session that nobody named: the trace may name one."""
    is_named = record.names_session or record.trace_id is None
    return snapshot if is_named else without_session(snapshot)


def _copy(record: EvalRecord, *, uid: str, trace_id: str | None) -> EvalRecord:
    return EvalRecord(
        record.context,
        record.record_id,
        record.session_id,
        trace_id,
        tags=record.tag_map,
        uid=uid,
        created_ns=record.created_ns,
    )


def _opener(
    config: "TransportConfig",
) -> Callable[[], tuple[Send[_Waiting], Callable[[], None]]]:
    def open_send() -> tuple[Send[_Waiting], Callable[[], None]]:
        transport = config.open()

        def send(items: Sequence[_Waiting], dropped: Dropped) -> int:
            records = [RecordItem(profile, *snapshot) for profile, snapshot in items]
            return transport.send_records(records, dropped)

        return send, transport.close

    return open_send
