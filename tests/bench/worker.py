"""Records per second that the worker evaluates and stores, without receivers.

    python -m tests.bench.worker [--short]

Records of 300 bytes and a profile of five tasks, in process, with log and store on this disk: from
the first record handed to the log to the last evaluation that a query sees. The second figure is
for records that wait for their trace, of which all spans are there: every record has three spans
and the profile one more task that counts them.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from collector.process import after_start, tune_process
from collector.store.file_store import FileStore
from collector.store.rows import EvaluationRow
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.bench.figures import Figures

SPACE: Final = "default"
_BATCH: Final = 500
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


def record(number: int, profile: AgentEvalProfile, *, has_trace: bool) -> dict[str, Any]:
    """A record of about 300 bytes as JSON, as clients send it."""
    trace = {"trace_id": f"{number + 1:032x}"} if has_trace else {}
    return trace | {
        "uid": f"{number:032x}",
        "profile": profile.digest,
        "id": f"r{number}",
        "session_id": f"s{number}",
        "context": {
            "question": f"What is the capital of France, and why is that so? ({number})",
            "response": {
                "text": "Paris is the capital of France since the tenth century." + " " * 40,
                "score": number % 100 / 100,
                "code": f"ABC-{number}",
                "sources": ["a", "b", "c"],
            },
            "latency_ms": number % 1000,
        },
    }


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

    def __call__(self, evaluations: Sequence[EvaluationRow]) -> None:
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
    store, done = FileStore(folder), Done()
    log = FileLog(folder / "log", store.offset)
    registry = ProfileRegistry(store)
    profile = AgentEvalProfile(tasks(reads_spans=has_trace), alias="bench")
    registry.register(SPACE, profile, activate=True)
    worker = Worker(log, store, registry, JoinTimes(settle_s=0.05), observers=(done,))
    worker.start()

    def append(kind: Kind, body: bytes) -> None:
        item = Item(kind=kind, space=SPACE, received_ns=time.time_ns(), body=body)
        log.append(item).result(60)

    if has_trace:
        every = [span for number in range(count) for span in spans(number)]
        for part in chunks(every, _BATCH * 3):
            append(Kind.SPANS, encode_request(part).SerializeToString())
        assert worker.catch_up(600)
    rows = [record(number, profile, has_trace=has_trace) for number in range(count)]
    bodies = [json.dumps({"records": part}).encode() for part in chunks(rows, _BATCH)]
    started, cpu = time.perf_counter(), time.process_time()
    for body in bodies:
        append(Kind.RECORDS, body)
    done.wait_for(count)
    seconds, busy = time.perf_counter() - started, time.process_time() - cpu
    outcomes = store.conservation(SPACE).records
    assert (outcomes.accepted, outcomes.evaluated, outcomes.waiting) == (count, count, 0)
    worker.stop()
    log.close()
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
    figures = Figures("worker", is_short=is_short)
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
