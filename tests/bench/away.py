"""An agent's memory while the far side is away: `python -m tests.bench.away`.

One process makes spans and records for ten minutes. Nobody listens where they are to go, so that
what waits soon fills its bound, and everything beyond it is dropped and counted. Once that is so
the process' memory has to stay as it is: under one percent more in an hour. With `--spool` what
waits is on disk, in a folder that is full in the same way.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer
from scouter.transport.config import BatchConfig, HttpConfig, SpoolConfig
from scouter.transport.spool_table import counts_of
from scouter.transport.worker import WorkerLimits
from tests.bench.figures import Figures
from tests.bench.sdk import CONTEXT, spans_of

AWAY = "http://127.0.0.1:9"
"""The port of the discard service, where nobody listens."""
STEPS = 200
"""Samples of the memory."""


def rss_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def growth_ratio_per_hour(times_s: list[float], sizes: list[int]) -> float:
    """Slope of the memory, as a share of its median.

    Args:
        times_s: When each sample was taken, rising.
        sizes: Bytes.

    Source: Theil-Sen, the median of the slopes of all pairs: single peaks do not move it.
    """
    slopes = [
        (sizes[late] - sizes[early]) / (times_s[late] - times_s[early])
        for late in range(len(sizes))
        for early in range(late)
    ]
    return statistics.median(slopes) * 3600 / statistics.median(sizes)


def main() -> int:
    """Run for ten minutes at 500 spans and 100 records a second."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="three seconds, small bounds")
    parser.add_argument("--spool", action="store_true", help="keep on disk what waits")
    options = parser.parse_args()
    seconds, bound = (3.0, 1 << 20) if options.short else (600.0, 64 << 20)
    figures = Figures("away --spool" if options.spool else "away", is_short=options.short)
    with tempfile.TemporaryDirectory(prefix="scouter-bench-") as name:
        spool = SpoolConfig(folder=Path(name) / "spool", max_bytes=bound)
        run(seconds, bound, spool if options.spool else None, figures)
    return figures.end()


def run(seconds: float, bound: int, spool: SpoolConfig | None, figures: Figures) -> None:
    """Fill the bounds, then work on and watch the memory."""
    task = AssertionTask(
        id="t", context_path="tokens", operator=ComparisonOperator.Equals, expected_value=1
    )
    config = HttpConfig(server_uri=AWAY, spool=spool)
    queue = ScouterQueue(
        {"a": AgentEvalProfile(tasks=[task], alias="a")}, config, WorkerLimits(max_bytes=bound)
    )
    RUNTIME.configure(transport_config=config, batch_config=BatchConfig(max_queue_bytes=bound))
    provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(ScouterSpanProcessor(RUNTIME))
    span = spans_of(provider.get_tracer("x"))

    def work(spans: int, records: int) -> None:
        for _ in range(spans):
            span()
        for _ in range(records):
            queue["a"].insert(EvalRecord(CONTEXT))

    def is_full() -> bool:
        if spool is not None:  # the counters alone, as the folder is being written to
            return bool(counts_of(spool.folder).stats(0, 0).dropped)
        return bool(RUNTIME.stats.dropped and queue.stats.dropped)

    while not is_full():
        work(500, 500)  # the warm-up: until the bounds are full
    if spool is not None:  # what still waits in memory is none of the bound's
        assert flush_tracer(60)
        assert queue.flush(60)
    step_s = seconds / STEPS
    times_s: list[float] = []
    sizes: list[int] = []
    start_s = time.monotonic()
    for step in range(STEPS):
        work(round(500 * step_s), round(100 * step_s))
        time.sleep(max(0.0, start_s + (step + 1) * step_s - time.monotonic()))
        times_s.append(time.monotonic() - start_s)
        sizes.append(rss_bytes())
    if spool is not None:
        assert flush_tracer(60)
        assert queue.flush(60)
    spans, records = RUNTIME.stats, queue.stats
    print(f"{seconds:.0f} s without a far side, bounds of {bound >> 20} MiB for spans and records")
    for name, put, waiting, kept, dropped in (
        ("spans", spans.put, spans.waiting, spans.sent, spans.dropped),
        ("records", records.inserted, records.waiting, records.sent, records.dropped),
    ):
        assert put == waiting + kept + sum(dropped.values()), f"{name} are missing"
        print(f"{name}: {put:,} put, {waiting:,} wait, {kept:,} to disk, dropped {dropped}")
        figures.add(f"{name} dropped and counted", sum(dropped.values()))
    if spool is not None:
        disk = spool.stats()
        lost = sum(disk.dropped.values())
        assert disk.written == disk.waiting + lost, "some are missing on disk"
        print(f"on disk: {disk.written:,} written, {disk.waiting:,} wait, dropped {disk.dropped}")
        figures.add("dropped from disk and counted", lost)
    growth = growth_ratio_per_hour(times_s, sizes)
    print(f"memory: {sizes[0] >> 10:,} kB at first, {sizes[-1] >> 10:,} kB at last,", end=" ")
    print(f"growth {growth:+.2%} in an hour")
    RUNTIME.shutdown(0.1)
    queue.shutdown(0.1)
    figures.add("memory after the warm-up, median", statistics.median(sizes) / 1e6, "MB")
    figures.add("growth per hour after the warm-up", 100 * growth, "%", at_most=1)


if __name__ == "__main__":
    sys.exit(main())
