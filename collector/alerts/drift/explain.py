"""Grounds of an alert from the store: failed records, and slices in which the fall is."""

from typing import Final

from collector.alerts.drift.alert import Alert, TroubleAlert
from collector.storage.port.drift import SliceQuery
from collector.storage.port.rows import EvaluationRow
from collector.storage.port.store import Store
from scouter.drift.detect.slices import Culprit, culprits
from scouter.drift.series.series import Kind

CULPRITS: Final = 10
"""Slices that are named."""


def examples_of(store: Store, alert: Alert) -> list[EvaluationRow]:
    """Evaluations that failed and are still stored; an erased one is left out."""
    if isinstance(alert, TroubleAlert):
        return []
    rows = [store.evaluation(alert.space, evaluation_id) for evaluation_id in alert.examples]
    return [row for row in rows if row is not None]


def culprits_of(store: Store, alert: Alert) -> list[Culprit]:
    """The slices that fell; none of an error series, as an error has no rate that could be cut."""
    if isinstance(alert, TroubleAlert) or alert.kind is Kind.ERROR:
        return []
    query = SliceQuery(
        space=alert.space,
        profile_uid=alert.profile_uid,
        task=alert.task,
        since_ns=alert.opened.since_ns,
    )
    return culprits(*store.slices(query), whole=store.whole(query))[:CULPRITS]
