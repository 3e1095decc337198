"""Alerts as incidents, and the health of the collector."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from collector.web.source import Shown, Source
from scouter.client.models.alerts import Alerts, DriftAlert, FallenTask, SetupChange
from scouter.client.models.answer import Page, Searched
from scouter.client.models.operation import ConservationSheet, DeadLetter, Status
from scouter.client.models.records import RecordItem

_SUMS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "records": (
        "accepted",
        ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased", "lost"),
    ),
    "spans": ("accepted", ("stored", "expired", "erased", "lost")),
    "events": ("accepted", ("stored", "expired", "erased", "lost")),
}
"""Whole of each kind, and the states that make it up."""
_PATIENCE_S: Final = 60
"""Evaluation that stood still for longer, while something is due, is a fault."""


async def health_view(source: Source) -> Shown:
    """Collect the view of the collector's health.

    Args:
        source: Asks the API.

    Raises:
        ProblemError: The API refused.
    """
    sheet, state, letters, alerts, newest = await asyncio.gather(
        source.get(ConservationSheet, "conservation"), source.get(Status, "status"),
        source.get(Page[DeadLetter], "dead-letters", limit=20), source.get(Alerts, "alerts"),
        source.get(Searched[RecordItem], "records", limit=1),
    )  # fmt: skip
    lag = state.lag
    return {
        "sheet": sheet,
        "state": state,
        "kinds": {
            kind: {
                "whole": counts[whole],
                "states": {name: counts[name] for name in states},
                "beside": {
                    name: count
                    for name, count in counts.items()
                    if name != whole and name not in states
                },
                "missing": counts[whole] - sum(counts[name] for name in states),
            }
            for kind, (whole, states) in _SUMS.items()
            for counts in [dict(getattr(sheet, kind))]
        },
        "trouble": alerts.trouble,
        "is_stalled": lag is not None and lag.stalled_s > _PATIENCE_S,
        "lost": sum(getattr(sheet, kind).lost for kind in _SUMS),
        "quiet_ms": _age_ms(newest.items[0].received_at) if newest.items else None,
        "letters": letters.items,
        "may_replay": "admin" in state.scopes,
    }


def _age_ms(time: datetime) -> float:
    """Milliseconds since a time of the API."""
    return max(0.0, (datetime.now(UTC) - time).total_seconds() * 1000)


OPEN: Final = ("firing", "acknowledged", "silenced")
"""States of an alert that people were notified of, whether or not somebody looks after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """See the module."""

    profile: str
    """Alias."""
    service: str
    environment: str
    version: str
    alerts: Sequence[DriftAlert]
    """Proven falls, that of the whole record first, then the condition of the profile."""

    @property
    def since(self) -> datetime:
        """When it most likely began."""
        return min(each.opened.since for each in self.alerts)

    @property
    def changed(self) -> Sequence[SetupChange]:
        """What its records ran with that changed just before one of the falls, each once."""
        every = (one for each in self.alerts for one in each.changed)
        return list({(one.kind, one.name): one for one in every}.values())

    def is_in(self, environment: str) -> bool:
        """Tell whether it is about an environment; a condition alone is about all."""
        return self.environment == environment or bool(self.alerts[0].condition)

    @property
    def record(self) -> FallenTask | None:
        """Records that passed, in this version and the one before; None where that is alike."""
        return next((each for each in self._fell if not each.task), None)

    @property
    def tasks(self) -> Sequence[FallenTask]:
        """The tasks that pass less than in the version before, the worst first."""
        return [each for each in self._fell if each.task]

    @property
    def _fell(self) -> Sequence[FallenTask]:
        return max((each.fell for each in self.alerts), key=len)


def tasks_of(alert: DriftAlert, kind: str = "") -> set[str]:
    """Tasks that an alert is about, empty for the whole record; of one kind, or of all."""
    parts = [each for each in alert.together if not each.slice] or [alert]
    return {each.task for each in parts if kind in ("", each.kind)}


def incidents_of(alerts: Iterable[DriftAlert]) -> list[Incident]:
    """Put open alerts together, in the order in which they are given; resolved ones are left out.

    A condition is of all versions of its profile: it joins the version that fell last.

    Args:
        alerts: As the API has them.
    """
    found: dict[tuple[str, ...], list[DriftAlert]] = {}
    conditions: list[DriftAlert] = []
    for each in alerts:
        if each.state == "resolved":
            continue
        if each.condition:
            conditions.append(each)
        else:
            key = each.profile, each.service, each.environment, each.version
            found.setdefault(key, []).append(each)
    for each in conditions:
        key = next((key for key in found if key[0] == each.profile), None)
        version = each.fell[0].now.version if each.fell else ""
        found.setdefault(key or (each.profile, "", "", version), []).append(each)
    return [
        Incident(
            profile=profile, service=service, environment=environment, version=version,
            alerts=sorted(its, key=lambda each: (bool(each.condition), bool(each.task))),
        )
        for (profile, service, environment, version), its in found.items()
    ]  # fmt: skip


def alerts_of(alerts: Alerts, profile: str) -> Shown:
    """Sort out what is open of a profile, or of all.

    Args:
        alerts: As `GET /api/v1/alerts` has them.
        profile: Alias; empty for all.

    Returns:
        `incidents`; `firing`, conditions that hold and have no alert yet; `trouble`.
    """
    return {
        "incidents": incidents_of(each for each in alerts.drift if profile in ("", each.profile)),
        "firing": [
            each
            for each in alerts.items
            if profile in ("", each.profile) and each.state == "firing" and not each.alert_id
        ],
        "trouble": [each for each in alerts.trouble if profile in ("", each.profile)],
    }


def named(alert: DriftAlert) -> str:
    """Say in a few words what an alert is about, below a heading that says of which profile.

    Args:
        alert: As the API has it.
    """
    title = alert.title.rsplit(" since ", 1)[0].rstrip(",")
    return title.removeprefix(f"{alert.profile}: ")
