"""Grounds of an alert from the store: failed records, and slices in which the fall is."""

from typing import Final

from collector.alerts.drift.alert import Alert, TroubleAlert
from collector.store.decided import SliceQuery
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow
from collector.store.store import Store
from scouter.drift.detect.slices import Culprit, culprits
from scouter.drift.series.series import Agent, Kind
from scouter.drift.series.series_set import results_of
from scouter.evaluate.outcome import Outcome

EXAMPLES: Final = 3
"""Newest evaluations that are named where a condition holds, or that errored."""
CULPRITS: Final = 10
"""Slices that are named."""


def examples_of(store: Store, alert: Alert) -> list[EvaluationRow]:
    """Evaluations that failed and are still stored; an erased one is left out.

    Where a condition holds, they are those that failed last.
    """
    if isinstance(alert, TroubleAlert):
        return []
    if alert.condition:
        query = EvaluationQuery(
            space=alert.space, profile=alert.profile_uid, outcome=Outcome.FAILED, limit=EXAMPLES
        )
        return list(store.evaluations(query).items)
    rows = [store.evaluation(alert.space, evaluation_id) for evaluation_id in alert.examples]
    return [row for row in rows if row is not None]


def errored_of(store: Store, alert: Alert) -> list[EvaluationRow]:
    """The newest evaluations that errored since a fall of passes began, which counts them apart.

    They are none of its examples, and may be the larger half of what went wrong.
    """
    if isinstance(alert, TroubleAlert) or alert.kind is not Kind.PASS:
        return []
    query = EvaluationQuery(
        space=alert.space,
        profile=alert.profile_uid,
        service_name=alert.service or None,
        service_version=alert.version or None,
        environment=alert.environment or None,
        since_ns=alert.opened.since_ns,
        limit=EXAMPLES,
        outcome=None if alert.task else Outcome.ERRORED,
        task_id=alert.task or None,
        task_outcome=Outcome.ERRORED if alert.task else None,
    )
    return list(store.evaluations(query).items)


def error_of(row: EvaluationRow, task: str) -> str:
    """The reason why a task, or the first one of a record, erred; empty where none did.

    Args:
        row: Evaluation of the record.
        task: Its id; empty for the whole record.
    """
    reasons = (
        each.reason or ""
        for each in row.tasks
        if each.outcome is Outcome.ERRORED and task in ("", each.task_id)
    )
    return next(reasons, "")


def culprits_of(store: Store, alert: Alert) -> list[Culprit]:
    """The slices that fell, of the results of the alert's service in its environment.

    There are none of an error series, as an error has no rate that could be cut. A condition says
    nothing of a time before.
    """
    if isinstance(alert, TroubleAlert) or alert.kind is Kind.ERROR or alert.condition:
        return []
    service, environment = results_of(Agent(alert.service, alert.environment, alert.version))
    query = SliceQuery(
        space=alert.space,
        profile_uid=alert.profile_uid,
        task=alert.task,
        since_ns=alert.opened.since_ns,
        service=service,
        environment=environment,
    )
    return culprits(*store.slices(query), whole=store.unsliced(query))[:CULPRITS]
