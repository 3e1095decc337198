"""Cost of acknowledging: what the log takes from eight senders, and what reading it costs.

`python -m tests.bench.log` prints the figures of three rounds; `--short` sends a twentieth.
Requests have 64 spans of 2.8 kB, from eight threads that each wait for an answer; afterwards the
log is read from its beginning to its end. `tests.bench.collector` has the whole collector.
"""

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from tests.bench.collector import Texts, make_requests
from tests.bench.figures import Figures

SENDERS, SPANS_PER_REQUEST, REQUESTS, ROUNDS = 8, 64, 600, 3
READ_BYTES: Final = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Figures of one round."""

    requests_per_s: float
    p99_s: float
    worst_s: float
    cpu_s: float
    """Per span."""
    read_per_s: float
    """Bytes."""
    read_cpu_s: float
    """Per item."""


def measure(folder: Path, bodies: Sequence[bytes]) -> Round:
    """Append from all threads at once, and read."""
    log = FileLog(folder / "log")
    waiting, lock = iter(bodies), threading.Lock()
    took: list[float] = []

    def send() -> None:
        while True:
            with lock:
                body = next(waiting, None)
            if body is None:
                return
            began = time.perf_counter()
            log.append(Item(Kind.SPANS, "default", time.time_ns(), body)).result()
            took.append(time.perf_counter() - began)

    threads = [threading.Thread(target=send) for _ in range(SENDERS)]
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    began, read_cpu = time.perf_counter(), time.process_time()
    at = count = 0
    while entries := (chunk := log.read(at, READ_BYTES)).entries:
        at, count = chunk.next, count + len(entries)
    read_s, read_cpu = time.perf_counter() - began, time.process_time() - read_cpu
    assert len(took) == count == len(bodies)
    log.close()
    took.sort()
    return Round(
        requests_per_s=count / seconds, p99_s=took[int(count * 0.99)], worst_s=took[-1],
        cpu_s=cpu / count / SPANS_PER_REQUEST, read_per_s=at / read_s, read_cpu_s=read_cpu / count,
    )  # fmt: skip


def run(requests: int, rounds: int, figures: Figures) -> None:
    """Measure everything."""
    rng = random.Random(5)
    made, _ = make_requests(rng, Texts(rng), requests * SPANS_PER_REQUEST, SPANS_PER_REQUEST)
    bodies = [body for path, _, body in made if path == "/v1/traces"]
    found: list[Round] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="scouter-bench-") as folder:
            found.append(measure(Path(folder), bodies))
    rate = statistics.median(each.requests_per_s for each in found)
    figures.add("acknowledged", rate, "items/s")
    figures.add("spans", rate * SPANS_PER_REQUEST, "spans/s", at_least=25_000)
    p99 = statistics.median(each.p99_s for each in found) * 1e3
    figures.add("p99", p99, "ms", at_most=150)
    figures.add("worst", max(each.worst_s for each in found) * 1e3, "ms")
    figures.add("CPU per span", min(each.cpu_s for each in found) * 1e6, "µs")
    read = statistics.median(each.read_per_s for each in found)
    figures.add("reading", read / 1e6, "MB/s")
    figures.add("reading: CPU per item", min(each.read_cpu_s for each in found) * 1e6, "µs")


def main() -> int:
    short = "--short" in sys.argv
    figures = Figures("log", is_short=short)
    run(REQUESTS // 20 if short else REQUESTS, 1 if short else ROUNDS, figures)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
