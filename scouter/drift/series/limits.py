"""Limits on what a record costs and how long it takes, learnt from an agent's first records.

Costs and durations have no upper end, and a detector needs bounded outcomes. So the first records
of an agent say what is usual, and all later ones are counted by whether they exceed it. A limit
changes only where somebody accepts what exceeds it, and no record that it was learnt from is
counted: whatever it is, the outcomes behind it have the promise of any other series. The limit is
part of the series' name, so that no version is compared with one that had another limit.
"""

import math
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from scouter.drift.series.observed import Counted
from scouter.drift.series.series import Kind

COST, LATENCY = "cost", "latency"
_UNITS: Final = {COST: "USD", LATENCY: "s"}
LEARNT: Final = 200
"""Records that a limit is learnt from."""
_SHARE: Final = 0.9
"""Share of these that stay below what is usual."""
_ROOM: Final = 1.2
"""Times what is usual that is within the limit: an agent whose costs are all alike would else alarm
on one token more."""


class Limits:
    """The limits of one version of an agent.

    Args:
        wanted: Amounts that are watched: `cost`, `latency`.
        before: Limits of the version before, which hold for this one, too.
    """

    def __init__(self, wanted: Collection[str], before: "Limits | None" = None) -> None:
        self.wanted = wanted
        self._known: dict[str, float] = dict(before._known) if before else {}
        self._seen: dict[str, list[float]] = {}
        """Amounts of the first records, while a limit is learnt."""

    def counted(self, amounts: Iterable[tuple[str, float | None]]) -> Iterator[Counted]:
        """Count a record.

        Args:
            amounts: Its cost and its duration by name; None for one that is unknown.

        Yields:
            Of each amount with a limit whether it is within it, and of a cost whether it is known.
        """
        for name, value in amounts:
            limit = self._known.get(name)
            if name not in self.wanted:
                continue
            if limit is None:
                if value is not None:
                    self._learn(name, value)
                continue
            task = _task(name, limit)
            if value is not None:
                is_within = value <= limit
                yield Counted(task, Kind.AMOUNT, float(is_within), not is_within)
            if name == COST:
                yield Counted(task, Kind.ERROR, float(value is not None), value is None)

    def _learn(self, name: str, value: float) -> None:
        seen = self._seen.setdefault(name, [])
        seen.append(value)
        if len(seen) >= LEARNT:
            usual = sorted(seen)[math.ceil(_SHARE * len(seen)) - 1]
            self._known[name] = _rounded_up(_ROOM * usual)
            del self._seen[name]

    def forget(self, task: str) -> None:
        """Learn the limit in the name of a series anew, from the records that come."""
        self._known = {
            name: each for name, each in self._known.items() if _task(name, each) != task
        }

    def is_over(self, task: str) -> bool:
        """Tell whether a series is one of an amount that is watched no longer."""
        gone = ((name, limit) for name, limit in self._known.items() if name not in self.wanted)
        return any(task == _task(*each) for each in gone)

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        return {"known": self._known, "seen": self._seen}

    @staticmethod
    def from_json(wanted: Collection[str], state: dict[str, Any]) -> "Limits":
        """Go on from a stored state."""
        found = Limits(wanted)
        found._known, found._seen = state["known"], state["seen"]
        return found


def _task(name: str, limit: float) -> str:
    return f"{name} {limit:g} {_UNITS[name]}"


def _rounded_up(value: float) -> float:
    """Round to two digits, upwards, so that the name of a series has the whole limit."""
    if value <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(value))
    scaled = math.ceil(round(value * 10.0**digits, 6))
    return float(f"{scaled / 10.0**digits:.2g}")
