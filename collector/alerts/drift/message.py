"""Alerts in words."""

import math
from datetime import UTC, datetime
from typing import Final

from collector.alerts.drift.alert import Alert, Figures, TroubleAlert
from scouter.drift.series.series import Kind

_ODDS: Final = 1e9
"""Odds beyond which nobody tells one number from the next."""
_ROUNDING: Final = 1e-9
"""A tenth of 400 is 40, although 1 - 0.9 is a little less than 0.1."""


_WORSE: Final = {
    Kind.PASS: ("more records fail", "fails more"),
    Kind.ERROR: ("more records err", "errs more"),
    Kind.SCORE: ("records have lower scores", "has lower scores"),
}
"""Of the whole record, and of a task."""


def headline(alert: Alert) -> str:
    """Say in one line what got worse, of whom, and since when."""
    if isinstance(alert, TroubleAlert):
        where = alert.alias or f"space {alert.space}"
        return f"{where}: {alert.trouble.headline} since {moment(alert.opened_ns)}"
    if alert.condition:
        at = moment(alert.opened_ns)
        return f"{alert.alias}: {alert.condition}, the condition of its profile, since {at}"
    of_record, of_task = _WORSE[alert.kind]
    worse = f"task {alert.task!r} {of_task}" if alert.task else of_record
    version = f" in version {alert.version}" if alert.version else ""
    service = f" {'of' if version else 'in'} {alert.service}" if alert.service else ""
    return f"{alert.alias}: {worse}{version}{service} since {moment(alert.opened.since_ns)}"


def proof(alert: Alert) -> str:
    """Say in one line what an alert was opened for."""
    if isinstance(alert, TroubleAlert):
        return alert.message
    return evidence(alert.opened, alert.kind)


def evidence(figures: Figures, kind: Kind) -> str:
    """Say in one line what was counted, what would be healthy, and how likely chance is."""
    if not figures.evidence:  # a condition that holds at a scheduled time proves nothing
        passed = figures.records - figures.failed
        return f"{passed:,} of the last {figures.records:,} records passed"
    if kind is Kind.SCORE:
        return (
            f"mean {figures.mean:.3f} of {figures.records:,} records since "
            f"{moment(figures.since_ns)}; healthy is at least {figures.lower:.3f}; "
            f"{_sureness(figures)}"
        )
    bad = "failed" if kind is Kind.PASS else "errored"
    most = math.floor(figures.records * (1 - figures.lower) + _ROUNDING)
    return (
        f"{figures.failed:,} of {figures.records:,} {bad} since {moment(figures.since_ns)}; "
        f"healthy is at most {most:,} of {figures.records:,}; {_sureness(figures)}"
    )


def bad_word(alert: Alert, reason: str = "") -> str:
    """Say in a word what happened to a record that is an example."""
    match alert.kind:
        case Kind.ERROR:
            return f"errored ({reason})" if reason else "errored"
        case Kind.SCORE:
            return "low score"
        case _:
            return "failed"


def _sureness(figures: Figures) -> str:
    if figures.run_length is None:
        return f"chance of this while nothing is wrong: {odds(figures.evidence)}"
    return f"while nothing is wrong it comes once in {figures.run_length:,.0f} on average"


def odds(evidence: float) -> str:
    """Say an e-value as the chance of getting so far while nothing is wrong."""
    if evidence >= _ODDS:
        return "less than 1 in a billion"
    return f"1 in {max(1, math.floor(evidence)):,}"


def rfc3339(at_ns: int) -> str:
    """Write a time as programs read it, to the second, in UTC."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def moment(at_ns: int) -> str:
    """Say a time to the minute, in UTC."""
    return f"{datetime.fromtimestamp(at_ns // 10**9, UTC):%Y-%m-%d %H:%M} UTC"
