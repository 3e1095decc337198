"""Log, worker and store without receivers: watched traces and records, per CPU second.

`python -m tests.bench.watch` appends 20,000 watched traces of six spans (`--traces N`), which all
wait when the first of them is due. The figures are by quarter, too: a backlog must not make them
slower. Then come three times as many records of 300 bytes without a trace, which five tasks judge.
Processor time is that of the whole process, so that a busy machine matters little to all but the
rate of records. `--short` takes a fiftieth.
"""

import argparse
import itertools
import json
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from collector.process import after_start, tune_process
from collector.store.file_store import FileStore
from collector.store.rows import EvaluationRow
from collector.worker.open_trace import JoinTimes
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.bench.backlog import WATCHED, request
from tests.bench.figures import Figures
from tests.support.processes import wait_until
from tests.support.worker_room import SPACE, registry_of

RATE: Final = 300
"""Watched traces for a second of the processor, all of their way included."""
RECORDS: Final = 10_000
"""Records without a trace in a second, on a quiet machine."""
COMMIT_S: Final = 1.0
_PER_REQUEST: Final = 50
_RECORDS_PER_REQUEST: Final = 500
_RECORDS_PER_TRACE: Final = 3
_SENDERS: Final = 8
_WAIT_S: Final = 3_600.0

SCORED: Final = AgentEvalProfile(
    [
        AssertionTask("score", "response.score", 0.5, Op.GreaterThan),
        AssertionTask("paris", "response.text", "Paris", Op.Contains),
        AssertionTask("code", "response.code", r"^[A-Z]{3}-\d+$", Op.Matches),
        AssertionTask("sources", "response.sources", 2, Op.HasLengthGreaterThan),
        AssertionTask("latency", "latency_ms", 900, Op.LessThan),
    ],
    alias="scored",
)


def records(numbers: Iterable[int]) -> bytes:
    """A request of records of about 300 bytes."""
    found = [
        {
            "uid": f"{number:032x}", "profile": SCORED.digest, "id": f"r{number}",
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
        for number in numbers
    ]  # fmt: skip
    return json.dumps({"records": found}).encode()


class Line:
    """A worker over an empty folder.

    Args:
        folder: For log and store.
        times: Waiting times.
    """

    def __init__(self, folder: Path, times: JoinTimes) -> None:
        self.store = FileStore(folder)
        self.log = FileLog(folder / "log", self.store.offset)
        registry = registry_of({SPACE: [WATCHED, SCORED]})
        self.evaluations = 0
        self.commits_s: list[float] = []
        """Seconds of each commit."""
        self.store.observe_commits(self.commits_s.append)
        self.worker = Worker(self.log, self.store, registry, times, observers=(self._count,))
        self.worker.start()

    def append(self, items: Sequence[tuple[Kind, bytes]]) -> float:
        """Append items by several senders; returns the seconds until all are acknowledged."""
        waiting, lock = iter(items), threading.Lock()

        def send() -> None:
            while True:
                with lock:
                    item = next(waiting, None)
                if item is None:
                    return
                kind, body = item
                self.log.append(
                    Item(kind=kind, space=SPACE, received_ns=time.time_ns(), body=body)
                ).result(_WAIT_S)

        threads = [threading.Thread(target=send) for _ in range(_SENDERS)]
        began = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - began

    def _count(self, rows: Sequence[EvaluationRow]) -> None:
        self.evaluations += len(rows)

    def until(self, check: Callable[[], bool]) -> None:
        """Wait for something."""
        wait_until(check, what="the worker", timeout_s=_WAIT_S, every_s=0.01)

    def close(self) -> None:
        """End it."""
        self.worker.stop()
        self.log.close()
        self.store.close()


def watched(folder: Path, traces: int, figures: Figures) -> None:
    """Let traces wait that a profile watches, and judge them all."""
    items = [
        (Kind.SPANS, request(range(first, min(traces, first + _PER_REQUEST))))
        for first in range(0, traces, _PER_REQUEST)
    ]
    settle_s = 1 + traces / 5_000
    line = Line(folder, JoinTimes(foreign_settle_s=settle_s, quiet_s=3_600, deadline_s=7_200))
    began = time.process_time()
    line.append(items)
    line.until(lambda: line.worker.behind_bytes == 0)
    marks = [(line.evaluations, time.process_time())]
    figures.add(f"{traces:,} watched: judged when all were read", marks[0][0])
    for quarter in range(1, 5):
        line.until(lambda of=quarter: line.evaluations >= traces * of // 4)
        marks.append((line.evaluations, time.process_time()))
    used = time.process_time() - began
    figures.add(f"{traces:,} watched: with reading", traces / used, "1/CPU s", at_least=RATE)
    for quarter, (before, after) in enumerate(itertools.pairwise(marks), 1):
        rate = (after[0] - before[0]) / max(1e-9, after[1] - before[1])
        figures.add(f"{traces:,} watched: judging, quarter {quarter}", rate, "1/CPU s")
    figures.add(f"{traces:,} watched: longest commit", max(line.commits_s), "s", at_most=COMMIT_S)
    line.close()


def scored(folder: Path, count: int, figures: Figures) -> None:
    """Judge and store records that wait for nothing."""
    items = [
        (Kind.RECORDS, records(range(first, min(count, first + _RECORDS_PER_REQUEST))))
        for first in range(0, count, _RECORDS_PER_REQUEST)
    ]
    line = Line(folder, JoinTimes())
    began, used = time.perf_counter(), time.process_time()
    line.append(items)
    line.until(lambda: line.evaluations >= count)
    took_s, used = time.perf_counter() - began, time.process_time() - used
    sheet = line.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.evaluated, sheet.waiting) == (count, count, 0)
    figures.add(f"{count:,} records: evaluated and stored", count / took_s, "1/s", at_least=RECORDS)
    figures.add(f"{count:,} records: of a processor", count / used, "1/CPU s")
    line.close()


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=int, default=20_000)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    tune_process()
    figures = Figures("watch", is_short=options.short)
    traces = options.traces // (50 if options.short else 1)
    folder = tempfile.TemporaryDirectory(prefix="scouter-watch-", dir=os.environ.get("TMPDIR"))
    with folder as name, after_start():
        watched(Path(name) / "traces", traces, figures)
        scored(Path(name) / "records", _RECORDS_PER_TRACE * traces, figures)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    figures.add("peak memory", peak_mb, "MB", at_most=1_000)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
