"""Drop reports of senders, each counted once however often it arrives.

A sender (the queue of one process) counts its drops from its start on. A report has two numbers:
the drops that were reported to the far side for sure, and all drops. So a report that comes twice,
late or beside another one adds nothing. If the far side has forgotten the sender, it adds no drop
again.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Count(NamedTuple):
    """Drops of one sender for one reason, since the sender began."""

    reported: int
    """Number of drops that the far side is known to know."""
    total: int
    """All."""


Dropped = Mapping[tuple[str, str], Count]
"""Drops that are still to be reported, by sender and reason."""

NOBODY: Final = ""
"""Stands for the sender of counts that came without one: they are added whenever they come."""

NONE_DROPPED: Final[Dropped] = MappingProxyType({})

DROPPED_HEADER: Final = "scouter-dropped"
"""Name of the header, over HTTP and Kafka, that reports drops."""


def dropped_text(dropped: Dropped) -> str:
    """The header's value: `sender=9f31c04e, full=37/40, closed=0/1`."""
    parts: list[str] = []
    last = ""
    for (sender, reason), count in sorted(dropped.items()):
        if sender != last:
            parts.append(f"sender={sender}")
            last = sender
        parts.append(f"{reason}={count.reported}/{count.total}")
    return ", ".join(parts)


def report_of(
    sender: str, totals: Mapping[str, int], known: Mapping[str, int]
) -> dict[tuple[str, str], Count]:
    """Select the drops that a sender still has to report.

    Args:
        sender: Its name, which no other sender has.
        totals: Its drops by reason since it began.
        known: Drops by reason that the far side is known to know.
    """
    return {
        (sender, reason): Count(known.get(reason, 0), total)
        for reason, total in totals.items()
        if total > known.get(reason, 0)
    }


def joined(*reports: Dropped) -> dict[tuple[str, str], Count]:
    """One report in place of several, in whatever order they came."""
    out: dict[tuple[str, str], Count] = {}
    for report in reports:
        for key, count in report.items():
            known = out.get(key, count)
            out[key] = Count(min(known.reported, count.reported), max(known.total, count.total))
    return out


def left_of(report: Dropped, later: Dropped) -> dict[tuple[str, str], Count]:
    """Select the drops of a report that are still to be reported once another one has arrived."""
    out: dict[tuple[str, str], Count] = {}
    for key, count in report.items():
        heard = max(count.reported, later[key].total if key in later else 0)
        if heard < count.total:
            out[key] = Count(heard, count.total)
    return out
