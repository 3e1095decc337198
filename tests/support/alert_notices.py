"""Alerts of detectors and messages about them, for tests of their delivery."""

from typing import Any

from collector.alerts.alert import DriftAlert, DriftAlertState, Figures, Trouble, TroubleAlert
from collector.alerts.delivery.notice import Example, Notice
from collector.store.setups import SetupChange
from scouter.drift.series.series import Kind
from tests.contracts.store_data import SPACE

START_NS = 1_800_000_000 * 10**9
"""2027-01-15 08:00:00 UTC."""


CHANGE = SetupChange(
    kind="fingerprint", name="fp_2", before=0.02, share=0.95, first_ns=START_NS - 240 * 10**9
)


def drift_alert(alert_id: str = "5f0c", **fields: Any) -> DriftAlert:
    """An alert that fires: 118 of 400 failed, where 40 may."""
    figures = Figures(
        since_ns=START_NS, records=400, failed=118, evidence=1e4, healthy=0.91, lower=0.9,
        against="version 1 before it",
    )  # fmt: skip
    given: dict[str, Any] = {
        "space": SPACE, "profile_uid": "p1", "profile_name": "answers", "alias": "answers",
        "profile_digest": "d" * 64, "task": "right", "kind": Kind.PASS, "service": "bot",
        "environment": "", "version": "2", "state": DriftAlertState.FIRING,
        "opened_ns": START_NS + 60 * 10**9, "changed_ns": START_NS + 60 * 10**9,
        "opened": figures, "examples": (), "changed": (CHANGE,),
    }  # fmt: skip
    return DriftAlert(alert_id=alert_id, **(given | fields))


def notice(**fields: Any) -> Notice:
    """A message with an example and a slice that explains it."""
    example = Example(
        name="r1", url="https://scouter.example/traces/aa", order="scouter results trace aa"
    )
    given: dict[str, Any] = {
        "explained_by": ("tool search: 90.0% before, 30.0% of 100 since",),
        "examples": (example,),
        "url": "https://scouter.example/alerts",
    }
    more = {name: fields.pop(name) for name in list(fields) if name in given}
    return Notice(alert=drift_alert(**fields), **(given | more))


def resolved_notice(**fields: Any) -> Notice:
    """A message that the alert is over."""
    fields = {"state": DriftAlertState.RESOLVED, "note": "recovered"} | fields
    return notice(explained_by=(), examples=(), changed_ns=START_NS + 3_600 * 10**9, **fields)


def trouble_alert(alert_id: str = "7a1b", **fields: Any) -> TroubleAlert:
    """An alert that fires: profile `answers` is silent."""
    given: dict[str, Any] = {
        "space": SPACE, "alias": "answers", "state": DriftAlertState.FIRING, "opened_ns": START_NS,
        "changed_ns": START_NS, "trouble": Trouble.SILENT, "message": "no result in the last hour",
    }  # fmt: skip
    return TroubleAlert(alert_id=alert_id, **(given | fields))
