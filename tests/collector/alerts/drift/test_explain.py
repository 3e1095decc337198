"""Examples of an alert."""

from types import SimpleNamespace
from typing import Any

from collector.alerts.drift.alert import DriftAlert, DriftAlertState, Figures
from collector.alerts.drift.explain import errored_of
from collector.store.evaluation_queries import EvaluationQuery
from scouter.drift.series.series import Kind


def test_errored_examples_are_of_the_alerts_own_agent() -> None:
    """The same version may run elsewhere, where other things err."""
    asked: list[EvaluationQuery] = []

    def evaluations(query: EvaluationQuery) -> Any:
        asked.append(query)
        return SimpleNamespace(items=())

    store: Any = SimpleNamespace(evaluations=evaluations)
    figures = Figures(
        since_ns=5, records=9, failed=8, evidence=99.0, healthy=1.0, lower=0.9, against=""
    )
    alert = DriftAlert(
        alert_id="x", space="default", alias="desk", service="bot", environment="staging",
        version="2", state=DriftAlertState.FIRING, opened_ns=7, changed_ns=7, kind=Kind.PASS,
        examples=(), opened=figures,
    )  # fmt: skip
    assert errored_of(store, alert) == []
    (query,) = asked
    assert (query.service_name, query.environment) == ("bot", "staging")
    assert (query.service_version, query.since_ns) == ("2", 5)
