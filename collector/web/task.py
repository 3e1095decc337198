"""One task: its rate over time, and its alert."""

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from collector.web.period import Period, Traffic
from collector.web.source import Answer, Source
from scouter.evaluate.show.rate_plot import Point, beginning, plot_rates

_WIDTH: Final = 860.0
_HEIGHT: Final = 180.0
_TOGETHER_S: Final = 3600
"""A fall and its alarm within that time share one mark."""


async def task_view(
    source: Source, profile: str, task_id: str, period: Period, traffic: Traffic, now_s: float
) -> Answer:
    """Collect the view of a task.

    Args:
        source: Asks the API.
        profile: Alias of the profile.
        task_id: Of the task.
        period: That it covers.
        traffic: That it covers.
        now_s: The end of the period.

    Raises:
        AskError: The API refused, or there is no such profile or task.
    """
    since = period.since(now_s)
    asked = {"profile": profile, "since": since, **traffic.asked}
    counted, series, found, standings = await asyncio.gather(
        source.get("tasks", **asked),
        source.get("tasks/series", task_id=task_id, bucket=period.bucket, **asked),
        source.get("alerts"),
        source.get("drift/series"),
    )
    points = _points(series["items"], period.bucket_s)
    until_s = now_s + period.bucket_s
    first_s = points[0].at_s if points else None
    begin_s = beginning(first_s, since, until_s, period.bucket_s)
    falls = [each for each in found["drift"] if _is_about(each, profile, task_id)]
    stands = [each for each in standings["items"] if _is_about(each, profile, task_id)]
    opened = next((each for each in falls if each["state"] != "resolved"), None)
    look = await source.get(f"alerts/{quote(opened['alert_id'], safe='')}") if opened else None
    healthy = stands[0]["healthy"] if stands else None
    plot = plot_rates(points, begin_s, until_s, period.bucket_s, _WIDTH, _HEIGHT)
    marks = marks_of(falls)
    return {
        "rates": [each for each in counted["items"] if each["task_id"] == task_id],
        "plot": plot,
        "plotted": _plotted(points, begin_s, until_s, healthy, marks, period.bucket_s),
        "levels": [(1 - healthy) * plot.height] if healthy is not None else [],
        "lines": [
            (plot.width * (each["at_s"] - begin_s) / (until_s - begin_s), each)
            for each in marks
            if begin_s <= each["at_s"] <= until_s
        ],
        "fall": look,
        "stands": stands,
        "plot_since": _clock(begin_s) if begin_s > since else "",
        "alert": next((each for each in found["items"] if each["profile"] == profile), None),
    }


def _points(items: Iterable[Answer], bucket_s: float) -> list[Point]:
    """Buckets of a series that have a rate, as points in the middle of each."""
    return [
        Point(
            at_s=datetime.fromisoformat(each["start"]).timestamp() + bucket_s / 2,
            rate=each["pass_rate"],
            lower=each["lower"],
            upper=each["upper"],
            n=each["total"],
        )
        for each in items
        if each["pass_rate"] is not None
    ]


def _is_about(each: Answer, profile: str, task_id: str) -> bool:
    """Tell whether an alert or a standing is about the pass rate of a task."""
    is_same = (each["profile"], each["task"], each["kind"]) == (profile, task_id, "pass")
    return is_same and not each.get("condition")


def marks_of(falls: Iterable[Answer]) -> list[Answer]:
    """Marks of a plot: when each fall began, with the version that fell, and when it alarmed.

    Args:
        falls: Alerts of the detectors, as the API has them.
    """
    found: list[Answer] = []
    for each in falls:
        since_s = datetime.fromisoformat(each["opened"]["since"]).timestamp()
        opened_s = datetime.fromisoformat(each["opened_at"]).timestamp()
        version = f"version {each['version']}" if each["version"] else "change"
        found.append({"at_s": since_s, "kind": "change", "label": f"{version} falls"})
        found.append({"at_s": opened_s, "kind": "alert", "label": "alert"})
    if len(found) == 2 and found[1]["at_s"] - found[0]["at_s"] < _TOGETHER_S:
        return [{**found[1], "label": f"{found[0]['label']}: alert"}]
    return found


def _plotted(
    points: Sequence[Point], since_s: float, until_s: float, healthy: float | None,
    marks: list[Answer], bucket_s: float,
) -> Answer:  # fmt: skip
    """A plot's numbers as columns; a bucket without results is null, so that the line has a gap."""
    columns: Answer = {name: [] for name in ("x", "rate", "lower", "upper", "n")}
    last_s = None
    for each in points:
        if last_s is not None and each.at_s - last_s > 1.5 * bucket_s:
            columns["x"].append((each.at_s + last_s) / 2)
            for name in ("rate", "lower", "upper", "n"):
                columns[name].append(None)
        for name, value in zip(
            columns, (each.at_s, each.rate, each.lower, each.upper, each.n), strict=True
        ):
            columns[name].append(value)
        last_s = each.at_s
    return {
        **columns, "since_s": since_s, "until_s": until_s, "healthy": healthy, "marks": marks,
    }  # fmt: skip


def _clock(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M")
