"""Incidents: the open alerts of one version of an agent under one profile, which stand together."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from collector.web.source import Answer

OPEN: Final = ("firing", "acknowledged", "silenced")
"""States of an alert that people were told of, whether or not somebody looks after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """See the module."""

    profile: str
    """Alias."""
    service: str
    environment: str
    version: str
    alerts: Sequence[Answer]
    """Proven falls, that of the whole record first, then the condition of the profile."""

    @property
    def since(self) -> str:
        """When it most likely began."""
        return min(each["opened"]["since"] for each in self.alerts)

    def is_in(self, environment: str) -> bool:
        """Tell whether it is about an environment; a condition alone is about all."""
        return self.environment == environment or bool(self.alerts[0]["condition"])

    @property
    def record(self) -> Answer | None:
        """Records that passed, in this version and the one before; None where that is alike."""
        return next((each for each in self._fell if not each["task"]), None)

    @property
    def tasks(self) -> Sequence[Answer]:
        """The tasks that pass less than in the version before, the worst first."""
        return [each for each in self._fell if each["task"]]

    @property
    def _fell(self) -> Sequence[Answer]:
        return max((each["fell"] for each in self.alerts), key=len)


def incidents_of(alerts: Iterable[Answer]) -> list[Incident]:
    """Put open alerts together, in the order in which they are given; resolved ones are left out.

    A condition is of all versions of its profile: it joins the version that fell last.

    Args:
        alerts: As the API has them.
    """
    found: dict[tuple[str, ...], list[Answer]] = {}
    conditions: list[Answer] = []
    for each in alerts:
        if each["state"] == "resolved":
            continue
        if each["condition"]:
            conditions.append(each)
        else:
            key = each["profile"], each["service"], each["environment"], each["version"]
            found.setdefault(key, []).append(each)
    for each in conditions:
        key = next((key for key in found if key[0] == each["profile"]), None)
        version = each["fell"][0]["now"]["version"] if each["fell"] else ""
        found.setdefault(key or (each["profile"], "", "", version), []).append(each)
    return [
        Incident(
            profile=profile, service=service, environment=environment, version=version,
            alerts=sorted(its, key=lambda each: (bool(each["condition"]), bool(each["task"]))),
        )
        for (profile, service, environment, version), its in found.items()
    ]  # fmt: skip


def alerts_of(alerts: Answer, profile: str) -> Answer:
    """Sort out what is open of a profile, or of all.

    Args:
        alerts: As `GET /api/v1/alerts` has them.
        profile: Alias; empty for all.

    Returns:
        `incidents`; `firing`, conditions that hold and have no alert yet; `trouble`.
    """
    ours = {
        name: [each for each in alerts[name] if profile in ("", each["profile"])]
        for name in ("drift", "items", "trouble")
    }
    return {
        "incidents": incidents_of(ours["drift"]),
        "firing": [
            each for each in ours["items"] if each["state"] == "firing" and not each["alert_id"]
        ],
        "trouble": ours["trouble"],
    }


def named(alert: Answer) -> str:
    """Say in a few words what an alert is about, below a heading that says of which profile.

    Args:
        alert: As the API has it.
    """
    title = alert["title"].rsplit(" since ", 1)[0].rstrip(",")
    return title.removeprefix(f"{alert['profile']}: ")
