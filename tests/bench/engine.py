"""Task evaluations per second of the engine, beside a bare Python loop in the same run.

`python -m tests.bench.engine` prints the figures. The clock stops when outcome, expected, actual
and message of every result have been read once.
"""

import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

SIZES = (2_000, 100_000)
ROUNDS = 5
TASKS = [
    AssertionTask("score", "response.score", 0.5, ComparisonOperator.GreaterThan),
    AssertionTask("paris", "response.text", "Paris", ComparisonOperator.Contains),
    AssertionTask("code", "response.code", r"^[A-Z]{3}-\d+$", ComparisonOperator.Matches),
    AssertionTask("sources", "response.sources", 2, ComparisonOperator.HasLengthGreaterThan),
    AssertionTask("latency", "latency_ms", 900, ComparisonOperator.LessThan),
]


@dataclass(slots=True)
class BareResult:
    """What the bare loop makes per task: the same four fields."""

    outcome: str
    expected: object
    actual: object
    message: str


def make_records(count: int) -> list[EvalRecord]:
    """Seeded records of which some fail each task."""
    rng = random.Random(7)
    return [
        EvalRecord(
            id=f"r{i}",
            context={
                "response": {
                    "score": rng.random(),
                    "text": f"The capital of France is {rng.choice(['Paris', 'Lyon'])}.",
                    "code": rng.choice(["ABC-12", "abc-12"]),
                    "sources": list(range(rng.randrange(5))),
                },
                "latency_ms": rng.randrange(1_000),
            },
        )
        for i in range(count)
    ]


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


def main() -> None:
    """Print one line per size; `--short` for a quick look at the smallest."""
    print(f"python {sys.version.split()[0]}, best of {ROUNDS}, task evaluations/s")
    for size in SIZES[:1] if "--short" in sys.argv else SIZES:
        records = make_records(size)
        fast, plain = best(engine, records), best(bare, records)
        print(
            f"{size:>7,} records x {len(TASKS)}: engine {fast:>12,.0f}/s, "
            f"bare loop {plain:>12,.0f}/s, ratio {fast / plain:.2f}"
        )


if __name__ == "__main__":
    main()
