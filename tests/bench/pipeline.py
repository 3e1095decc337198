"""Records per second that the pipeline evaluates and stores, without receivers.

    python -m tests.bench.pipeline [--short]

Records of 300 bytes and a profile of five tasks, in process, with a DuckDB file on this disk: from
the first record handed to the store to the last evaluation that a query sees. The second figure is
for records that wait for their trace, of which all spans are there: every record has three spans
and the profile one more task that counts them.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

from collector.pipeline.pipeline import Pipeline
from collector.process import after_start, tune_process
from collector.storage.duckdb.store import DuckDBStore
from collector.store.rows import EvaluationRow, RecordRow
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.times import JoinTimes
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.bench.figures import Figures

SPACE: Final = "default"
_BATCH: Final = 500
_AHEAD: Final = 20_000
"""Records that may wait for the pipeline, as the collector's own bound does."""
_RESOURCE: Final = Resource(attributes={"service.name": "bench", PROCESS_ID: "p"})

T = TypeVar("T")


def tasks(*, reads_spans: bool) -> list[Task]:
    """A number threshold, contains, a pattern, a length, less-than; maybe a count of spans."""
    found: list[Task] = [
        AssertionTask("score", "response.score", 0.5, ComparisonOperator.GreaterThan),
        AssertionTask("paris", "response.text", "Paris", ComparisonOperator.Contains),
        AssertionTask("code", "response.code", r"^[A-Z]{3}-\d+$", ComparisonOperator.Matches),
        AssertionTask("sources", "response.sources", 2, ComparisonOperator.HasLengthGreaterThan),
        AssertionTask("latency", "latency_ms", 900, ComparisonOperator.LessThan),
    ]
    if reads_spans:
        count = TraceAssertion.span_count(SpanFilter.by_name("step"))
        found.append(TraceAssertionTask("steps", count, 2, ComparisonOperator.Equals))
    return found


def record(number: int, registered: RegisteredProfile, *, has_trace: bool) -> RecordRow:
    """A record of about 300 bytes as JSON."""
    now_ns = time.time_ns()
    return RecordRow(
        space=SPACE,
        uid=f"{number:032x}",
        digest=f"{number:x}",
        profile_ref=registered.profile.digest,
        profile_uid=registered.uid,
        profile_name=registered.profile.name,
        alias=registered.profile.alias,
        record_id=f"r{number}",
        session_id=f"s{number}",
        trace_id=f"{number + 1:032x}" if has_trace else None,
        created_ns=now_ns,
        received_ns=now_ns,
        context={
            "question": f"What is the capital of France, and why is that so? ({number})",
            "response": {
                "text": "Paris is the capital of France since the tenth century." + " " * 40,
                "score": number % 100 / 100,
                "code": f"ABC-{number}",
                "sources": ["a", "b", "c"],
            },
            "latency_ms": number % 1000,
        },
    )


def spans(number: int) -> list[Span]:
    """A stamped trace of three spans."""
    trace_id = f"{number + 1:032x}"
    return [
        Span(
            trace_id=trace_id,
            span_id=f"{at:016x}",
            parent_span_id=None if at == 1 else f"{1:016x}",
            name="root" if at == 1 else "step",
            start_ns=at,
            end_ns=10 + at,
            attributes={PROCESS_SPAN_COUNT: 3} if at == 1 else {"n": number},
            resource=_RESOURCE,
        )
        for at in (1, 2, 3)
    ]


class Done:
    """Counts evaluations that are durable."""

    def __init__(self) -> None:
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self, evaluations: Sequence[EvaluationRow], waits: Sequence[float]) -> None:
        with self._changed:
            self.count += len(evaluations)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        """Wait until so many are durable.

        Raises:
            TimeoutError: Nothing happened for too long.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self.count >= count, timeout=120):
                raise TimeoutError(f"{self.count} of {count} evaluations after 120 s")


def rate(folder: Path, count: int, *, has_trace: bool) -> tuple[float, float]:
    """Evaluate and store records.

    Returns:
        Records per second, and CPU seconds per second.
    """
    store, done = DuckDBStore(folder), Done()
    registry = ProfileRegistry(store)
    profile = AgentEvalProfile(tasks(reads_spans=has_trace), alias="bench")
    registered = registry.register(SPACE, profile, activate=True)
    pipeline = Pipeline(
        store, registry, times=JoinTimes(settle_s=0.05), memory_spans=100_000, observers=(done,)
    )
    pipeline.start()
    rows = [record(number, registered, has_trace=has_trace) for number in range(count)]
    if has_trace:
        every = [span for number in range(count) for span in spans(number)]
        for part in chunks(every, _BATCH * 3):
            store.append_spans(SPACE, part, time.time_ns()).result()
    started, cpu = time.perf_counter(), time.process_time()
    sent = 0
    for part in chunks(rows, _BATCH):
        future = store.append_records(part)
        future.add_done_callback(pipeline.records_appended)
        sent += len(part)
        done.wait_for(sent - _AHEAD)
    done.wait_for(count)
    seconds, busy = time.perf_counter() - started, time.process_time() - cpu
    outcomes = store.conservation(SPACE).records
    assert (outcomes.accepted, outcomes.evaluated, outcomes.waiting) == (count, count, 0)
    pipeline.stop()
    store.close()
    return count / seconds, busy / seconds


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of a sequence, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def main() -> int:
    """Tell records per second; 1 if a bound is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="2,000 records, for a quick look")
    tune_process()
    is_short = parser.parse_args().short
    figures = Figures("pipeline", is_short=is_short)
    count = 2_000 if is_short else 60_000
    for name, has_trace, at_least in (
        ("without spans", False, 10_000),
        ("with three spans each", True, None),
    ):
        with tempfile.TemporaryDirectory() as folder, after_start():
            found, busy = rate(Path(folder), count, has_trace=has_trace)
        print(f"records evaluated and stored, {name}: {found:,.0f} records/s ({busy:.2f} CPUs)")
        figures.add(f"evaluated and stored, {name}", found, "records/s", at_least=at_least)
        figures.add(f"processors in use, {name}", busy)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
