"""The lines of a task's plot: one for each version where there are few results, else one."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from collector.web.source import Answer, Source
from collector.web.split import at_s
from scouter.evaluate.show.rate_plot import Point

POINTS: Final = 60
"""Buckets of a plot at most."""
_MOST_LINES: Final = 5
_FEW: Final = 20_000
"""Results of a task in a period, up to which those of each version are read by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """The rate of a task over time."""

    version: str
    """Of the service; empty for all together."""
    points: Sequence[Point]


async def rate_lines(
    source: Source, asked: Answer, whole: Answer, versions: Sequence[Answer], now_s: float
) -> list[RateLine]:
    """Ask for the lines of a task.

    Args:
        source: Asks the API.
        asked: Profile, task, traffic and begin of the period, as the API takes them.
        whole: The series of all together, as the API has it.
        versions: Of the profile, as the API has them, the one that began last first.
        now_s: The end of the period; no point lies behind it.

    Returns:
        The newest version first.
    """
    bucket_s = whole["bucket_s"]
    points = _points(whole["items"], bucket_s, now_s)
    total = sum(each.n for each in points)
    its = [each["version"] for each in versions if at_s(each["last_at"]) >= asked["since"]]
    if not asked["service_version"] and 1 < len(its) <= _MOST_LINES and total <= _FEW:
        exact = {"since": whole["items"][0]["start"], "bucket": f"{bucket_s}s"} if total else {}
        found = await asyncio.gather(
            *(
                source.get(
                    "tasks/series",
                    **{**asked, **exact, "service_version": version},
                )
                for version in its
            )
        )
        lines = [
            RateLine(version=version, points=_points(each["items"], bucket_s, now_s))
            for version, each in zip(its, found, strict=True)
        ]
        if sum(each.n for line in lines for each in line.points) >= total:
            return [line for line in lines if line.points]
    # A result of which nothing tells the version is in no version's line.
    return [RateLine(version="", points=points)] if points else []


def columns_of(lines: Sequence[RateLine], bucket_s: float) -> Answer:
    """The numbers of lines as columns over the same times; without a result there is null.

    So that a line has a gap where a bucket has no result, one stands between buckets that are
    further apart than one length.

    Args:
        lines: Of one plot.
        bucket_s: Seconds of a bucket.
    """
    times = sorted({each.at_s for line in lines for each in line.points})
    gaps = [
        (earlier + later) / 2
        for earlier, later in pairwise(times)
        if later - earlier > 1.5 * bucket_s
    ]
    times = sorted([*times, *gaps])
    return {"x": times, "lines": [_column(line, times) for line in lines]}


def _column(line: RateLine, times: Iterable[float]) -> Answer:
    at = {each.at_s: each for each in line.points}
    found: dict[str, Any] = {"version": line.version, "rate": [], "lower": [], "upper": [], "n": []}
    for time in times:
        point = at.get(time)
        for name in ("rate", "lower", "upper", "n"):
            found[name].append(None if point is None else getattr(point, name))
    return found


def _points(items: Iterable[Answer], bucket_s: float, now_s: float) -> list[Point]:
    """Buckets that have a rate, as points in the middle of each, or of what is over of it."""
    found: list[Point] = []
    for each in items:
        if each["pass_rate"] is not None:
            start_s = at_s(each["start"])
            found.append(
                Point(
                    at_s=(start_s + max(start_s, min(start_s + bucket_s, now_s))) / 2,
                    rate=each["pass_rate"],
                    lower=each["lower"],
                    upper=each["upper"],
                    n=each["total"],
                )
            )
    return found
