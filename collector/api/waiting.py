"""Reasons why an accepted record has no evaluation yet, from what is stored."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from collector.store.record_queries import RecordHistory
from collector.store.rows import RecordState, TaskRow
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.tree import SpanTree

_SKIPPED: Final = RecordState.SKIPPED


def why_not_evaluated(store: Store, found: RecordHistory) -> str:
    """Say what a record waits for, or why nothing of it was evaluated.

    Returns:
        A sentence; empty where its latest evaluation is decided.

    Cost: for a record that waits, reading the spans of its trace.
    """
    row = found.record
    if found.state is RecordState.DEAD_LETTERED:
        return "it is a dead letter, and is evaluated only if that is replayed"
    if found.evaluations:
        pending = [t.task_id for t in found.evaluations[0].tasks if t.outcome is Outcome.PENDING]
        if not pending:
            return _of_skipped(found.evaluations[0].tasks) if found.state is _SKIPPED else ""
        return f"a judge has yet to answer, or a task before it: {', '.join(pending)}"
    if found.state is not RecordState.WAITING:
        return f"it is {found.state.value}: nothing of it is left to evaluate"
    if not row.profile_uid:
        return (
            f"no profile {row.profile_ref!r} is registered and active; the first one that is "
            "evaluates it, and at its deadline it is a dead letter"
        )
    if row.trace_id is None:
        return "it has no trace to wait for, and is in line to be evaluated"
    return _of_trace(SpanTree(store.trace(row.space, row.trace_id, 1).spans))


def _of_skipped(tasks: Sequence[TaskRow]) -> str:
    counts = Counter(each.reason or "no reason" for each in tasks)
    reasons = ", ".join(f"{reason} ({count})" for reason, count in sorted(counts.items()))
    return f"all of its tasks were skipped: {reasons}"


def _of_trace(tree: SpanTree) -> str:
    end = "it is evaluated when the trace is quiet, or at its deadline"
    if not len(tree):
        return f"no span of its trace has come; {end}"
    lacks: list[str] = []
    if tree.missing_parents:
        lacks.append(f"{_spans(tree.missing_parents)} that others name as parent")
    if all(span.parent_span_id is not None for span in tree.roots):
        lacks.append("a root")
    if lacks:
        return f"its trace has {_spans(len(tree))}, and lacks {' and '.join(lacks)}; {end}"
    return (
        f"its trace has {_spans(len(tree))} and lacks no parent; it is evaluated when the "
        "processes have sent all spans that they counted, and no more come for a moment"
    )


def _spans(count: int) -> str:
    return f"{count} span" if count == 1 else f"{count} spans"
