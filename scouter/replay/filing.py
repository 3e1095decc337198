"""Gives each captured record and span to the attempt that made it."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary, WeakSet

from scouter.evaluate.results.run import Loss
from scouter.evaluate.scenario import EvalScenario
from scouter.model.attributes import SCENARIO_TRY
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.origin import NOWHERE, ORIGINS, Origin
from scouter.queue.scouter_queue import CapturedRecord, ScouterQueue
from scouter.replay.open_work import OpenWork, Source, current_source, idle_of, is_idle, is_over
from scouter.replay.runner import EvalRunner
from scouter.tracing.capture import SpanCapture
from scouter.transport.process import FORKED, RECORD, SPAN

OUTSIDE: Final = "-"
"""Key of no try: what hooks and simulated users emit is not the agent's."""


_HOOK: Final = Origin(scenario_id=OUTSIDE, try_key=OUTSIDE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt to make."""

    scenario: EvalScenario
    attempt: int = 0
    is_again: bool = False
    """True for an attempt made to see whether a failure was bad luck; it is in no rate."""
    is_beside: bool = False
    """True for an attempt of the version that the new one is compared with."""


@dataclass(slots=True, kw_only=True)
class Try:
    """One try of an attempt; a retry is another one."""

    job: Job
    work: OpenWork
    key: str = field(default_factory=uuid7)
    """Unique id of the try and of its conversation."""
    records: dict[str, list[EvalRecord]] = field(default_factory=dict[str, list[EvalRecord]])
    idle: WeakSet[Source] = field(default_factory=WeakSet[Source])
    """Threads that waited for work when it ended: they do nothing for it any more."""

    @property
    def origin(self) -> Origin:
        """Marks that the try's records and spans carry."""
        job = self.job
        return Origin(scenario_id=job.scenario.id, attempt=job.attempt, try_key=self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Threads, tasks and spans that have not ended although they should have."""

    work: OpenWork
    sources: Sequence[Source]
    capture: SpanCapture
    keys: Sequence[str]
    """Keys of the tries that have open spans."""

    def wait(self, timeout_s: float) -> None:
        """Wait until it has ended, at most for a time."""
        until = time.monotonic() + timeout_s
        self.work.wait(self.sources, timeout_s)
        for key in self.keys:
            self.capture.wait_ended(key, max(0.0, until - time.monotonic()))

    def tasks_of(self, loop: asyncio.AbstractEventLoop | None) -> list[asyncio.Task[Any]]:
        """The tasks that go on only while somebody runs their loop."""
        return [
            source
            for source in self.sources
            if isinstance(source, asyncio.Task) and source.get_loop() is loop and not source.done()
        ]


OnLate: TypeAlias = Callable[[Job, Mapping[str, Sequence[EvalRecord]], Sequence[Span]], None]


class Filing:
    """Sorts captured records and spans by the tries that are under way or ended well.

    Where attempts run one at a time, an item that is made while one runs belongs to it. The
    scenario that the context names does not count: an event loop or a thread that an agent keeps
    goes on in the context of the scenario that it began in. There is one exception: a thread or
    task may have been at work when an earlier try ended. Its items belong to that try, once the
    thread or task has ended as well.

    Where several attempts run at once, only the context tells the owner of an item. Records without
    an owner are counted in `lost`. Items with the key of a try that was given up are thrown away.

    Args:
        queue: Captures records.
        capture: Captures spans.
        runner: Takes spans, and the records that come after the end of their attempt.
        on_late: Is notified of items that come after the end of their attempt.
        is_alone: Whether attempts run one at a time.
    """

    def __init__(
        self,
        queue: ScouterQueue,
        capture: SpanCapture,
        runner: EvalRunner,
        on_late: OnLate,
        *,
        is_alone: bool,
    ) -> None:
        self._queue = queue
        self._capture = capture
        self._runner = runner
        self._on_late = on_late
        self._is_alone = is_alone
        self._running: dict[str, Try] = {}
        self._current: Try | None = None
        """The one that runs, where they run one at a time."""
        self._ended: dict[str, Try] = {}
        self._judged: dict[str, Try] = {}
        """Tries that have been evaluated: records and spans that still come are in no result."""
        self._given_up: set[str] = set()
        self._outlived: WeakKeyDictionary[Source, Try] = WeakKeyDictionary()
        """Threads and tasks that still worked at the end of a try, with that try."""
        self._hanging: WeakSet[Source] = WeakSet()
        """Threads and tasks of tries that were given up; they may start threads at any time."""
        self._undecided: list[tuple[str, CapturedRecord]] = []
        self._loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
        self._in_hook = False
        self._lost: Counter[Loss] = Counter()
        self._reported: Counter[Loss] = Counter()
        self._dropped_before: Mapping[str, int] = {}
        self._run = OpenWork(lambda: self._loops)

    @contextmanager
    def sorting(self) -> Generator[None]:
        """Say inside of the block whose everything is that is made in this process."""
        self._dropped_before = self._queue.stats.dropped
        self.look_into(asyncio._get_running_loop())
        self._run = OpenWork(lambda: self._loops)
        ORIGINS.resolve = self.origin
        FORKED.begin()
        try:
            yield
        finally:
            ORIGINS.resolve = None
            FORKED.end()

    @property
    def lost(self) -> Counter[Loss]:
        """Number of records and spans that are known to be in no result, by reason."""
        found, dropped = Counter(self._lost), self._queue.stats.dropped
        for reason in (Loss.INVALID, Loss.CAPTURE_FULL, Loss.UNKNOWN_PROFILE, Loss.INTERNAL):
            found[reason] += dropped.get(reason, 0) - self._dropped_before.get(reason, 0)
        found[Loss.OTHER_PROCESS] += FORKED.count(RECORD)
        found[Loss.OTHER_PROCESS_SPAN] += FORKED.count(SPAN)
        return +found

    def go_on(self, runner: EvalRunner) -> None:
        """File for further attempts, now that those which ended have been judged.

        Args:
            runner: Judges the further ones.
        """
        self._judged.update(self._ended)
        self._ended = {}
        self._runner = runner

    def newly_lost(self) -> dict[Loss, int]:
        """Count the records and spans that were lost since the last call, by reason."""
        lost = self.lost
        fresh, self._reported = lost - self._reported, lost
        return dict(fresh)

    # --- whose it is, in the thread that makes it ---

    def origin(self, named: Origin) -> Origin:
        """Tell the owner of an item that is made here and now.

        Args:
            named: Scenario and try that the context names.
        """
        self.look_into(asyncio._get_running_loop())
        key, current = named.try_key, self._current
        if not self._is_alone:
            return self._by_context(named)
        if current is not None and key == current.key:
            return named
        if self._outlived or self._hanging:
            source = current_source()
            earlier = self._outlived.get(source)
            if earlier is not None:
                is_its = key is None or key == earlier.key
                return replace(earlier.origin, source=source) if is_its else NOWHERE
            if key is None and not all(map(is_over, list(self._hanging))):
                return NOWHERE
        if current is None and self._in_hook and self._past(key) is None:
            return _HOOK
        if current is None or (self._in_hook and key == OUTSIDE):
            return self._by_context(named)
        return current.origin

    def look_into(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Know an event loop, whose tasks may outlive a scenario."""
        if loop is not None and loop not in self._loops:
            self._loops = WeakSet([*self._loops, loop])  # a new one, as others may iterate

    def _by_context(self, named: Origin) -> Origin:
        key = named.try_key
        if key in self._running or key in self._given_up or key == OUTSIDE:
            return named
        ended = self._past(key)
        if ended is None or threading.current_thread() in ended.idle:
            return NOWHERE
        return named

    def _past(self, key: str | None) -> Try | None:
        """The try of a key, if it has ended."""
        return None if key is None else self._ended.get(key) or self._judged.get(key)

    # --- the life of a try ---

    def begin(self, job: Job) -> Try:
        """Start a try."""
        self.sort_records()
        self._forget_idle()
        started = Try(job=job, work=OpenWork(lambda: self._loops))
        self._running[started.key] = started
        if self._is_alone:
            self._current = started
        return started

    def hook(self, *, runs: bool) -> None:
        """Say that the agent pauses while a hook or a simulated user runs, or goes on."""
        self._in_hook = runs

    def left_open(self, tried: Try | None = None) -> Open | None:
        """Find work that goes on although the answer of the try, or of the last try, is there.

        Args:
            tried: The try; None for the whole run.

        Returns:
            None if there is no such work.
        """
        work = self._run if tried is None else tried.work
        keys = list(self._ended) if tried is None else [tried.key]
        # Of several at once, nobody can tell whose a thread is; the run waits for it at its end.
        sources = work.left() if self._is_alone == (tried is not None) else []
        if not sources and not any(map(self._capture.open_of, keys)):
            return None
        return Open(work=work, sources=sources, capture=self._capture, keys=keys)

    def give_up(self, tried: Try, *, still_runs: bool) -> None:
        """Forget a try and all that it made or will make.

        Args:
            tried: The try.
            still_runs: A thread of it goes on, and may make records without a key.
        """
        self._given_up.add(tried.key)
        self._stop(tried, still_runs=still_runs)
        self.sort_records()
        self._take_spans()

    def end(self, tried: Try, *, still_runs: bool = False) -> list[Span]:
        """File all that a try made. The runner must get the attempt's data next.

        Args:
            tried: The try; what it makes from now on is filed, too, unless it `still_runs`.
            still_runs: A thread of it goes on although nobody waits for it.

        Returns:
            The spans of the try and those without a key in the traces of its records; the runner
            has them already.
        """
        self.sort_records()
        self._ended[tried.key] = tried
        self._stop(tried, still_runs=still_runs)
        traces = {record.trace_id for items in tried.records.values() for record in items}
        spans = [
            span
            for span in self._take_spans(tried.key)
            if span.attributes.get(SCENARIO_TRY) == tried.key
            or (SCENARIO_TRY not in span.attributes and span.trace_id in traces)
        ]
        if still_runs:
            self._given_up.add(tried.key)
            del self._ended[tried.key]
        return spans

    def _stop(self, tried: Try, *, still_runs: bool) -> None:
        """Note who goes on with work, before anything else can be taken for the next try's."""
        if self._is_alone:
            at_work = tried.work.left()
            self._outlived.update(dict.fromkeys(at_work, tried))
            if still_runs:
                self._hanging.update(at_work)
        else:
            tried.idle.update(idle_of(threading.enumerate()))
        self._running.pop(tried.key, None)
        if self._current is tried:
            self._current = None

    def _forget_idle(self) -> None:
        """Let threads and tasks that now wait for work count for the running try."""
        for source in list(self._outlived):
            if is_idle(source):
                self._outlived.pop(source, None)

    # --- sorting ---

    def sort_records(self) -> None:
        """Give each record captured so far to its try, or to its attempt if that has ended."""
        items = [*self._undecided]
        for alias, found in self._queue.drain_with_scopes().items():
            items += [(alias, item) for item in found]
        self._undecided = []
        late: dict[str, dict[str, list[EvalRecord]]] = {}
        for alias, item in items:
            key = item.try_key
            if key is not None and key in self._running:
                self._running[key].records.setdefault(alias, []).append(_in_session(item, key))
            elif key is not None and key in self._ended:
                if item.source is None or is_over(item.source):
                    late.setdefault(key, {}).setdefault(alias, []).append(_in_session(item, key))
                else:
                    self._undecided.append((alias, item))
            elif key in self._judged:
                self._lost[Loss.TOO_LATE] += 1
            elif key != OUTSIDE and key not in self._given_up:
                self._lost[Loss.UNKNOWN_ORIGIN] += 1
        for key, records in late.items():
            job = self._ended[key].job
            self._runner.add_late_records(records, job.scenario.id, attempt=job.attempt)
            self._on_late(job, records, ())

    def finish(self) -> None:
        """File what came after the end of the last attempt, and count what is not to be had."""
        self.sort_records()
        self._take_spans()
        self._lost[Loss.UNKNOWN_ORIGIN] += len(self._undecided)
        self._undecided = []
        self._lost[Loss.OPEN_SPAN] += sum(map(self._capture.open_of, self._ended))
        self._lost[Loss.SPANS_FULL] = self._capture.overflow  # all of them since the run's begin
        self._lost[Loss.SPAN_FAULT] = self._capture.failed

    def close(self) -> None:
        """Count what came when all had been judged."""
        for items in self._queue.drain_with_scopes().values():
            late = sum(self._past(item.try_key) is not None for item in items)
            self._lost[Loss.TOO_LATE] += late

    def _take_spans(self, ending: str | None = None) -> list[Span]:
        """Take out what no running try may still ask for; hand over what may be looked at.

        Args:
            ending: Key of the try whose spans are not late.
        """
        known: list[Span] = []
        late: dict[str, list[Span]] = {}
        for span in self._capture.take(
            lambda span: span.attributes.get(SCENARIO_TRY) not in self._running
        ):
            key = span.attributes.get(SCENARIO_TRY)
            if key is None or key in self._ended:
                known.append(span)
            if isinstance(key, str) and key in self._ended and key != ending:
                late.setdefault(key, []).append(span)
        self._runner.add_spans(known)
        for key, spans in late.items():
            self._on_late(self._ended[key].job, {}, spans)
        return known


def _in_session(item: CapturedRecord, key: str) -> EvalRecord:
    """The record, in the conversation of its try where it names no other."""
    if not item.names_session:
        item.record.session_id = key
    return item.record
