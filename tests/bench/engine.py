"""Task evaluations per second of the engine, beside a bare Python loop and the published original.

`python -m tests.bench.engine` prints the figures; `--short` only the smallest size. The clock stops
when outcome, expected, actual and message of every result have been read once. `--peer` adds
scouter-ml, the Rust-cored original, from the package index into an environment of its own under
`.cache`; both packages then run the same script, turn by turn.
"""

import gc
import json
import random
import re
import subprocess
import sys
import time
import tracemalloc
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scouter.evaluate.dataset import EvalDataset
from scouter.model.record import EvalRecord
from tests.bench import engine_rate
from tests.bench.figures import Figures

SIZES = (1_000, 2_000, 100_000)
ROUNDS = 5
TASKS = engine_rate.tasks()
PEER = "scouter-ml==0.25.0"
ROOT = Path(__file__).parents[2]


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


def peer_python() -> Path:
    """An interpreter that has the published original; installed when first asked for."""
    home = ROOT / ".cache" / "bench" / PEER
    python = home / "bin" / "python"
    if not (home / "ready").exists():
        venv.create(home, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
        (home / "ready").touch()
    return python


def rate_of(python: Path, size: int, rounds: int) -> float:
    """Task evaluations per second of the package that an interpreter has."""
    script = Path(engine_rate.__file__)
    done = subprocess.run(
        [python, script],
        input=json.dumps({"rounds": rounds, "contexts": make_contexts(size)}),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return float(done.stdout)


def print_peer(sizes: tuple[int, ...], figures: Figures) -> None:
    """Both packages, twice each, turn by turn; the better turn counts."""
    ours, theirs = Path(sys.executable), peer_python()
    print(f"\nthe same script, results looked up by record id; {PEER}")
    for size in sizes:
        turns = [(rate_of(ours, size, 3), rate_of(theirs, size, 3)) for _ in range(2)]
        fast, slow = max(turn[0] for turn in turns), max(turn[1] for turn in turns)
        print(
            f"{size:>7,} records x {len(TASKS)}: engine {fast:>10,.0f}/s, "
            f"original {slow:>10,.0f}/s, ratio {fast / slow:.1f}"
        )
        figures.add(f"{size:,} records: beside {PEER}", fast / slow, "x")


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
    if "--peer" in sys.argv:
        print_peer(sizes, figures)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
