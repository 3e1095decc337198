"""Seconds to compare two runs of 100,000 records with five task results each.

`python -m tests.bench.compare` prints processor seconds; the results are made before the clock
starts.
"""

import random
import time

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec

TASKS = tuple(
    TaskSpec(task_id=f"t{index}", task_type="Assertion", operator="Equals") for index in range(5)
)


def make_run(records: int, seed: int, rate: float) -> EvalResults:
    """Seeded results of which each passes with the same chance."""
    rng = random.Random(seed)
    made: list[RecordResult] = []
    for index in range(records):
        tasks = tuple(
            EvalTaskResult(
                spec, Outcome.PASSED if rng.random() < rate else Outcome.FAILED, None, 1, 2
            )
            for spec in TASKS
        )
        name, outcome = f"record {index}", record_outcome(tasks)
        made.append(RecordResult(f"{seed} {name}", name, f"{seed} {name}", None, outcome,
                                 tasks, 0, 0))  # fmt: skip
    return EvalResults(made)


def seconds_to_compare(records: int) -> float:
    """Processor seconds of one comparison."""
    before, now = make_run(records, 1, 0.95), make_run(records, 2, 0.949)
    start = time.process_time()
    comparison = now.compare_to(before)
    seconds = time.process_time() - start
    assert comparison.total_workflows == records
    return seconds


def main() -> None:
    """Print the figures."""
    for records in (1_000, 10_000, 100_000):
        print(f"{records:>7} records x {len(TASKS)}: {seconds_to_compare(records):.2f} s")


if __name__ == "__main__":
    main()
