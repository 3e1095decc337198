"""Evaluate contexts from the standard input with the package `scouter` of this interpreter.

Run by `tests.bench.engine` with two interpreters: one that has this project, one that has the
published scouter-ml, whose names for this are the same. Prints task evaluations per second as JSON.
"""

import json
import sys
import time

from scouter.evaluate import AssertionTask, ComparisonOperator, EvalDataset
from scouter.queue import EvalRecord


def tasks() -> list[AssertionTask]:
    """A number threshold, contains, a pattern, a length, less-than."""
    return [
        AssertionTask("score", "response.score", 0.5, ComparisonOperator.GreaterThan),
        AssertionTask("paris", "response.text", "Paris", ComparisonOperator.Contains),
        AssertionTask("code", "response.code", r"^[A-Z]{3}-\d+$", ComparisonOperator.Matches),
        AssertionTask("sources", "response.sources", 2, ComparisonOperator.HasLengthGreaterThan),
        AssertionTask("latency", "latency_ms", 900, ComparisonOperator.LessThan),
    ]


def rate(records: list[EvalRecord], ids: list[str]) -> float:
    """Evaluate, look every record up and read four fields of every result once."""
    started = time.perf_counter()
    results = EvalDataset(records, tasks()).evaluate()
    read = 0
    for record_id in ids:
        for task in results[record_id].eval_set.records:
            _ = task.passed, task.expected, task.actual, task.message
            read += 1
    return read / (time.perf_counter() - started)


def main() -> None:
    """Read `{"rounds": n, "contexts": […]}`, print the best rate of the rounds."""
    body = json.load(sys.stdin)
    ids = [f"r{i}" for i in range(len(body["contexts"]))]
    records = [EvalRecord(context=c, id=i) for c, i in zip(body["contexts"], ids, strict=True)]
    print(json.dumps(max(rate(records, ids) for _ in range(body["rounds"]))))


if __name__ == "__main__":
    main()
