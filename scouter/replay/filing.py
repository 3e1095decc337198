"""Gives each captured record and span to the attempt that made it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from scouter.evaluate.scenario import EvalScenario
from scouter.model.attributes import SCENARIO_TRY
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.scouter_queue import CapturedRecord, ScouterQueue
from scouter.replay.runner import EvalRunner
from scouter.tracing.capture import SpanCapture


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt to make."""

    scenario: EvalScenario
    attempt: int = 0


@dataclass(slots=True, kw_only=True)
class Try:
    """One try of an attempt; a retry is another one."""

    job: Job
    key: str = field(default_factory=uuid7)
    """Tells it apart, and is the id of its conversation."""
    records: dict[str, list[EvalRecord]] = field(default_factory=dict[str, list[EvalRecord]])


OnLate: TypeAlias = Callable[[Job, Mapping[str, Sequence[EvalRecord]], Sequence[Span]], None]


class Filing:
    """Sorts what was captured by the tries that are under way or ended well.

    Records and spans carry the key of the try whose scope they were made in. What carries the key
    of a try that was given up, or of another run, is thrown away. A record without a key comes
    from a thread that knows nothing of its scenario: it is the running try's if one and only one
    can have made it, and is counted in `unknown` otherwise.

    Args:
        queue: Where records are captured.
        capture: Where spans are captured.
        runner: Takes spans, and the records that come after the end of their attempt.
        on_late: Is told of what comes after the end of its attempt.
    """

    def __init__(
        self, queue: ScouterQueue, capture: SpanCapture, runner: EvalRunner, on_late: OnLate
    ) -> None:
        self._queue = queue
        self._capture = capture
        self._runner = runner
        self._on_late = on_late
        self._running: dict[str, Try] = {}
        self._ended: dict[str, Job] = {}
        self._is_unsure = False
        self.unknown = 0
        """Records that could have come from several attempts."""

    def begin(self, job: Job) -> Try:
        """Start a try; records without a key that were made before belong to nobody."""
        self.sort_records()
        started = Try(job=job)
        self._running[started.key] = started
        return started

    def give_up(self, tried: Try, *, still_runs: bool) -> None:
        """Forget a try and all that it made or will make.

        Args:
            tried: The try.
            still_runs: A thread of it goes on, and may make records without a key.
        """
        self.sort_records()
        self._is_unsure |= still_runs
        self._running.pop(tried.key, None)
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
        self._running.pop(tried.key, None)
        self._ended[tried.key] = tried.job
        traces = {record.trace_id for items in tried.records.values() for record in items}
        spans = [
            span
            for span in self._take_spans(tried.key)
            if span.attributes.get(SCENARIO_TRY) == tried.key
            or (SCENARIO_TRY not in span.attributes and span.trace_id in traces)
        ]
        if still_runs:
            self._is_unsure = True
            del self._ended[tried.key]
        return spans

    def sort_records(self) -> None:
        """Give each record captured so far to its try, or to its attempt if that has ended."""
        late: dict[str, dict[str, list[EvalRecord]]] = {}
        for alias, items in self._queue.drain_with_scopes().items():
            for item in items:
                if item.try_key in self._ended:
                    kept = late.setdefault(item.try_key, {}).setdefault(alias, [])
                    kept.append(_in_session(item, item.try_key))
                elif (tried := self._try_of(item)) is not None:
                    tried.records.setdefault(alias, []).append(_in_session(item, tried.key))
        for key, records in late.items():
            job = self._ended[key]
            self._runner.add_late_records(records, job.scenario.id, attempt=job.attempt)
            self._on_late(job, records, ())

    def finish(self) -> None:
        """File what came after the end of the last attempt."""
        self.sort_records()
        self._take_spans()

    def _try_of(self, item: CapturedRecord) -> Try | None:
        if item.try_key is not None:
            return self._running.get(item.try_key)
        if len(self._running) == 1 and not self._is_unsure:
            return next(iter(self._running.values()))
        self.unknown += bool(self._running)
        return None

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
            self._on_late(self._ended[key], {}, spans)
        return known


def _in_session(item: CapturedRecord, key: str) -> EvalRecord:
    """The record, in the conversation of its try where it names no other."""
    if not item.names_session:
        item.record.session_id = key
    return item.record
