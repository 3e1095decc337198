"""A worker with a real log and store, in this process and without a thread, and a hand clock."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from collector.items.letters import Again, pack_again
from collector.log.brokers import Brokers
from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.file_store import FileStore
from collector.store.rows import EvaluationRow, ProfileChange, ProfileRow
from collector.worker.measures import Observer
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.model.otlp import encode_request
from scouter.model.span import AttributeValue, Resource, Span

SPACE: Final = "default"
SECOND_NS: Final = 1_000_000_000
START_NS: Final = 1_700_000_000 * SECOND_NS


class KnownProfiles:
    """Profiles in memory: registrations are no part of what a worker's tests are about."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ProfileRow] = {}

    def append_profile(self, profile: ProfileRow) -> int:
        """Keep one."""
        self._rows[profile.space, profile.uid] = profile
        return 0

    def profiles(self) -> list[ProfileRow]:
        """All of them."""
        return list(self._rows.values())

    def profile_changes(self) -> list[ProfileChange]:
        """None from before."""
        return []


def registry_of(profiles: Mapping[str, Iterable[AgentEvalProfile]]) -> ProfileRegistry:
    """A registry with active profiles, by space."""
    registry = ProfileRegistry(cast(FileStore, KnownProfiles()))
    for space, own in profiles.items():
        for profile in own:
            registry.register(space, profile, activate=True)
    return registry


def trace_id(number: int) -> str:
    """The id of a numbered trace; its lower half differs, as that of a random one does."""
    return f"{number + 1:032x}"


def span(
    trace: int,
    number: int,
    parent: int | None = None,
    *,
    name: str = "step",
    end_ns: int = 9,
    service: str = "desk",
    attributes: Mapping[str, AttributeValue] | None = None,
    resource: Mapping[str, AttributeValue] | None = None,
) -> Span:
    """A span of a numbered trace; its parent is in the same process."""
    return Span(
        trace_id=trace_id(trace),
        span_id=f"{number + 1:016x}",
        parent_span_id=None if parent is None else f"{parent + 1:016x}",
        name=name,
        start_ns=number,
        end_ns=end_ns,
        attributes=dict(attributes or {}),
        resource=Resource(attributes={"service.name": service, **(resource or {})}),
    )


def record(
    uid: str, profile: str, trace: int | None = None, **context: object
) -> dict[str, object]:
    """A record as senders write it."""
    found: dict[str, object] = {"uid": uid, "profile": profile, "context": context}
    return found if trace is None else {**found, "trace_id": trace_id(trace)}


class WorkerRoom:
    """A worker over a folder; nothing happens but by its methods.

    Args:
        folder: For log and store.
        profiles: Active ones, by space.
        times: Waiting times.
        store: Opens the store.
        observers: Of the worker.
        on_pending: As the worker takes it.
        on_profiles: As the worker takes it.
    """

    def __init__(
        self,
        folder: Path,
        profiles: Mapping[str, Iterable[AgentEvalProfile]],
        times: JoinTimes | None = None,
        store: Callable[[Path], FileStore] = FileStore,
        observers: Sequence[Observer] = (),
        on_pending: Callable[[], None] = lambda: None,
        on_profiles: Callable[[], None] = lambda: None,
    ) -> None:
        self.folder, self.registry, self.times = folder, registry_of(profiles), times
        self._open_store = store
        self._observers, self._on_pending, self._on_profiles = observers, on_pending, on_profiles
        self.now_ns = START_NS
        self.brokers = Brokers(lambda: self.now_ns / SECOND_NS)
        self.max_hold_s = 3_600.0
        self.open()

    def open(self) -> None:
        """Start, as a process does."""
        self.store = self._open_store(self.folder)
        self.log = FileLog(
            self.folder / "log", self.store.offset, identity=self.store.identity,
            before_trim=self.store.note_totals,
        )  # fmt: skip
        self.worker = Worker(
            self.log, self.store, self.registry, self.times or JoinTimes(),
            now_ns=lambda: self.now_ns, observers=self._observers, on_pending=self._on_pending,
            on_profiles=self._on_profiles, brokers=self.brokers, max_hold_s=self.max_hold_s,
        )  # fmt: skip

    def close(self) -> None:
        """End, without a last turn."""
        self.worker.stop()
        self.log.close()
        self.store.close()

    def append(self, kind: Kind, body: bytes, space: str = SPACE, source: str = "http") -> int:
        """Append an item; returns the offset behind it."""
        behind_ns = self.brokers.behind_ns()
        item = Item(kind, space, self.now_ns, body, source, behind_ns)
        return self.log.append(item).result(120)

    def spans(self, *spans: Span, space: str = SPACE) -> None:
        """Append a request of spans."""
        self.append(Kind.SPANS, encode_request(spans).SerializeToString(), space)

    def records(self, *records: Mapping[str, object], space: str = SPACE) -> None:
        """Append a request of records."""
        self.append(Kind.RECORDS, json.dumps({"records": records}).encode(), space)

    def again(self, uid: str, letter_id: str) -> None:
        """Append a request to let a record wait again that became a letter."""
        self.append(Kind.AGAIN, pack_again(Again(uid, letter_id, "")))

    def work(self) -> None:
        """Take turns until none has anything to do at this moment."""
        while self.worker.turn(0.0):
            pass

    def pass_s(self, seconds: float) -> None:
        """Let time pass, in steps that count."""
        for _ in range(round(seconds * 2)):
            self.now_ns += SECOND_NS // 2
            self.work()

    def evaluations(self, space: str = SPACE) -> dict[str, EvaluationRow]:
        """The latest evaluation on each record, by uid."""
        page = self.store.evaluations(EvaluationQuery(space=space, limit=10_000))
        found = {row.record_uid: row for row in page.items}
        assert len(found) == len(page.items), "a record has two"
        return found

    def letters(self) -> list[tuple[str, str]]:
        """Reason and uid of each dead letter."""
        sql = "SELECT reason, uid FROM dead_letters ORDER BY reason, uid"
        return [(reason, uid) for reason, uid in self.store.read(sql)]

    def count(self, table: str, what: str = "*") -> int:
        """Rows of a table."""
        ((n,),) = self.store.read(f"SELECT count({what}) FROM {table}")  # noqa: S608 our own words
        return int(n)


def stored_span_ids(room: WorkerRoom, trace: int) -> Sequence[str]:
    """Ids of the spans that a reader of the trace sees, sorted."""
    return sorted(each.span_id for each in room.store.trace(SPACE, trace_id(trace), 100).spans)
