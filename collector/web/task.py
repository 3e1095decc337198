"""One task: its rate over time, and its alert."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from collector.web.incidents import incidents_of
from collector.web.period import Period, Traffic
from collector.web.rate_lines import POINTS, RateLine, columns_of, rate_lines
from collector.web.render import clock
from collector.web.source import Answer, Source
from collector.web.split import at_s, split_of
from scouter.evaluate.show.rate_plot import Plot, beginning, plot_rates

_WIDTH: Final = 860.0
_HEIGHT: Final = 180.0
_TOGETHER: Final = 0.03
"""Marks that are apart by less of the plot's width share one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """A line of the plot."""

    version: str
    plot: Plot


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
    counted, whole, found, standings, known = await asyncio.gather(
        source.get("tasks", **asked),
        source.get("tasks/series", task_id=task_id, points=POINTS, **asked),
        source.get("alerts"),
        source.get("drift/series", profile=profile),
        source.get("versions", profile=profile),
    )
    versions: list[Answer] = known["items"]
    bucket_s = whole["bucket_s"]
    lines = await rate_lines(source, {**asked, "task_id": task_id}, whole, versions, now_s)
    incidents = [
        each
        for each in incidents_of(found["drift"])
        if each.profile == profile and (not traffic.environment or each.is_in(traffic.environment))
    ]
    about = profile, task_id, traffic.environment
    falls = [each for each in found["drift"] if _is_about(each, *about)]
    stands = [each for each in standings["items"] if _is_about(each, *about)]
    own = next((each for each in falls if each["state"] != "resolved"), None)
    look = await source.get(f"alerts/{quote(own['alert_id'], safe='')}") if own else None
    healthy = stands[0]["healthy"] if stands else None
    first_s = min((line.points[0].at_s for line in lines), default=None)
    begin_s = beginning(first_s, since, now_s, bucket_s)
    drawn = _drawn(lines, begin_s, now_s, bucket_s)
    marks = marks_of(falls, versions if len(versions) > 1 else (), begin_s, now_s)
    return {
        "rates": [each for each in counted["items"] if each["task_id"] == task_id],
        "lines": drawn,
        "plotted": {
            **columns_of(lines, bucket_s), "since_s": begin_s, "until_s": now_s,
            "healthy": healthy, "marks": marks,
        },
        "width": _WIDTH,
        "height": _HEIGHT,
        "levels": [(1 - healthy) * _HEIGHT] if healthy is not None else [],
        "marks": [
            (_WIDTH * (each["at_s"] - begin_s) / (now_s - begin_s), each) for each in marks
        ],
        "bucket": _length(bucket_s),
        "fall": look,
        "stands": stands,
        "plot_since": clock(int(begin_s) * 10**9) if begin_s > since else "",
        "incidents": [
            each
            for each in incidents
            if any(one["task"] in ("", task_id) for one in (*each.alerts, *each.tasks))
        ],
        "split": split_of(incidents, versions, since),
        "versions": [each["version"] for each in versions],
        "environments": sorted(
            {each["environment"] for each in standings["items"] if each["profile"] == profile}
            - {""}
        ),
    }  # fmt: skip


def _drawn(
    lines: Iterable[RateLine], begin_s: float, end_s: float, bucket_s: float
) -> list[DrawnLine]:
    return [
        DrawnLine(
            version=line.version,
            plot=plot_rates(line.points, begin_s, end_s, bucket_s, _WIDTH, _HEIGHT),
        )
        for line in lines
    ]


def _is_about(each: Answer, profile: str, task_id: str, environment: str) -> bool:
    """Tell whether an alert or a standing is about the pass rate of a task in an environment."""
    is_same = (each["profile"], each["task"], each["kind"]) == (profile, task_id, "pass")
    is_here = environment in ("", each["environment"])
    return is_same and is_here and not each.get("condition")


def marks_of(
    falls: Iterable[Answer], versions: Sequence[Answer], begin_s: float, end_s: float
) -> list[Answer]:
    """Marks of a plot: where a version began, where a fall began, and where it alarmed.

    Args:
        falls: Alerts of the detectors, as the API has them.
        versions: Versions as the API has them.
        begin_s: Left end of the plot, seconds since 1970.
        end_s: Right end.

    Returns:
        Those within the plot, by time; some that stand together are one, an alert if one of them
        is.
    """
    found: list[Answer] = []
    for each in versions:
        label = f"version {each['version']}"
        found.append({"at_s": at_s(each["first_at"]), "kind": "change", "label": label})
    for each in falls:
        found.append({"at_s": at_s(each["opened"]["since"]), "kind": "change", "label": "falls"})
        found.append({"at_s": at_s(each["opened_at"]), "kind": "alert", "label": "alert"})
    joined: list[Answer] = []
    for each in sorted(found, key=lambda mark: mark["at_s"]):
        if not begin_s <= each["at_s"] <= end_s:
            continue
        if joined and each["at_s"] - joined[-1]["at_s"] < _TOGETHER * (end_s - begin_s):
            last = joined[-1]
            kind = "alert" if "alert" in (last["kind"], each["kind"]) else "change"
            joined[-1] = {**last, "kind": kind, "label": f"{last['label']}, {each['label']}"}
        else:
            joined.append(each)
    return joined


def _length(seconds: float) -> str:
    """The length of a bucket, which is a whole number of the unit that a person would choose."""
    for unit_s, name in ((86_400, "day"), (3_600, "h"), (60, "min")):
        if seconds >= unit_s:
            return f"{seconds / unit_s:g} {name}"
    return f"{seconds:g} s"
