"""A trace for each counted outcome, so that a person gets from a chart to what it is about."""

import threading
from collections.abc import Sequence

from prometheus_client.samples import Exemplar

from collector.metrics import TotalKey, TotalName, task_label
from collector.store.rows import EvaluationRow, Scope
from scouter.evaluate.outcome import Outcome


class TraceExemplars:
    """The latest trace of each series of first evaluations and of results, since the start.

    As many as there are such series, which registered profiles bound.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[TotalKey, Exemplar] = {}

    def note(self, evaluations: Sequence[EvaluationRow]) -> None:
        """Keep the traces of evaluations; later revisions count for results alone.

        Cost: linear in their tasks.
        """
        found: dict[TotalKey, tuple[str, int]] = {}
        for row in evaluations:
            if row.trace_id is None:
                continue
            trace = row.trace_id, row.evaluated_ns
            names = row.space, row.profile_name, row.alias
            is_first = row.revision == 1
            if is_first:
                of_scope = TotalName.RECORDS if row.scope is Scope.RECORD else TotalName.SESSIONS
                found[TotalKey(of_scope, *names, label=row.outcome.value)] = trace
            for task in row.tasks:
                label = task_label(task.outcome, task.reason)
                if is_first:
                    found[TotalKey(TotalName.TASKS, *names, task.task_id, label)] = trace
                if task.outcome is not Outcome.PENDING:
                    found[TotalKey(TotalName.RESULTS, *names, task.task_id, label)] = trace
        exemplars = {
            key: Exemplar({"trace_id": trace_id}, 1, ns / 1e9)
            for key, (trace_id, ns) in found.items()
        }
        with self._lock:
            self._found |= exemplars

    def get(self, key: TotalKey) -> Exemplar | None:
        """The exemplar of a series, if there is one."""
        return self._found.get(key)
