"""Task evaluations per second of the engine, beside a bare Python loop.

`python -m tests.bench.engine` prints the figures; `--short` only the smallest size. The clock stops
when outcome, expected, actual and message of every result have been read once.
"""

import gc
import random
import re
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scouter.evaluate import AssertionTask, ComparisonOperator
from scouter.evaluate.dataset import EvalDataset
from scouter.model.record import EvalRecord
from tests.bench.figures import Figures

SIZES = (1_000, 2_000, 100_000)
ROUNDS = 5
TASKS = [
    AssertionTask("score", "response.score", 0.5, ComparisonOperator.GreaterThan),
    AssertionTask("paris", "response.text", "Paris", ComparisonOperator.Contains),
    AssertionTask("code", "response.code", r"^[A-Z]{3}-\d+$", ComparisonOperator.Matches),
    AssertionTask("sources", "response.sources", 2, ComparisonOperator.HasLengthGreaterThan),
    AssertionTask("latency", "latency_ms", 900, ComparisonOperator.LessThan),
]
"""A number threshold, contains, a pattern, a length, less-than."""


@dataclass(slots=True)
class BareResult:
    """The result that the bare loop makes per task, with the same four fields."""

    outcome: str
    expected: object
    actual: object
    message: str


def make_contexts(count: int) -> list[dict[str, Any]]:
    """Seeded contexts of which some fail each task."""
    rng = random.Random(7)
    return [
        {
            "response": {
                "score": rng.random(),
                "text": f"The capital of France is {rng.choice(['Paris', 'Lyon'])}.",
                "code": rng.choice(["ABC-12", "abc-12"]),
                "sources": list(range(rng.randrange(5))),
            },
            "latency_ms": rng.randrange(1_000),
        }
        for _ in range(count)
    ]


def make_records(count: int) -> list[EvalRecord]:
    """Records with those contexts."""
    return [EvalRecord(context=c, id=f"r{i}") for i, c in enumerate(make_contexts(count))]


def engine(records: list[EvalRecord]) -> int:
    """Evaluate and read everything once."""
    read = 0
    for record in EvalDataset(records, TASKS).evaluate().records:
        for task in record.tasks:
            _ = task.outcome, task.expected, task.actual, task.message
            read += 1
    return read


def bare(records: list[EvalRecord]) -> int:
    """The same five checks, written out by hand."""
    search = re.compile(r"^[A-Z]{3}-\d+$").search
    holds: bool
    expected: object
    actual: object
    results: list[BareResult] = []
    for record in records:
        context: Any = record.context
        response = context["response"]
        score, text, code = response["score"], response["text"], response["code"]
        sources, latency = len(response["sources"]), context["latency_ms"]
        for holds, expected, actual in (
            (score > 0.5, 0.5, score),
            ("Paris" in text, "Paris", text),
            (search(code) is not None, "code", code),
            (sources > 2, 2, sources),
            (latency < 900, 900, latency),
        ):
            message = "passed" if holds else f"found {actual!r}, expected {expected!r}"
            results.append(BareResult("passed" if holds else "failed", expected, actual, message))
    for result in results:
        _ = result.outcome, result.expected, result.actual, result.message
    return len(results)


def best(run: Callable[[list[EvalRecord]], int], records: list[EvalRecord]) -> float:
    """Task evaluations per second, best of several rounds."""
    rates: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        count = run(records)
        rates.append(count / (time.perf_counter() - started))
    return max(rates)


def held_bytes(records: list[EvalRecord]) -> float:
    """Bytes that the results of one task and record hold, while the records live elsewhere."""
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    results = EvalDataset(records, TASKS).evaluate()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / (len(results) * len(TASKS))


def main() -> int:
    """Print one line per size, then growth and memory."""
    is_short = "--short" in sys.argv
    figures = Figures("engine", is_short=is_short)
    sizes = SIZES[1:2] if is_short else SIZES
    print(f"python {sys.version.split()[0]}, best of {ROUNDS}, task evaluations/s")
    rates: dict[int, float] = {}
    for size in sizes:
        records = make_records(size)
        rates[size], plain = best(engine, records), best(bare, records)
        print(
            f"{size:>7,} records x {len(TASKS)}: engine {rates[size]:>10,.0f}/s, "
            f"bare loop {plain:>10,.0f}/s, ratio {rates[size] / plain:.2f}"
        )
        figures.add(f"{size:,} records: evaluations", rates[size], "1/s")
        figures.add(f"{size:,} records: beside a bare loop", rates[size] / plain, "x")
    if len(rates) > 1:
        small, large = min(rates), max(rates)
        print(f"time per record at {large:,} / at {small:,}: {rates[small] / rates[large]:.2f}")
        name = f"time per record at {large:,} / at {small:,}"
        figures.add(name, rates[small] / rates[large], "x", at_most=1.15)
    held = held_bytes(make_records(2_000))
    print(f"memory per stored task result: {held:.0f} bytes")
    figures.add("memory per stored task result", held, "bytes", at_most=200)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
