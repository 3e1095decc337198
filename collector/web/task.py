"""One task: its rate over time, and the values behind it."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from urllib.parse import quote

from collector.web.incidents import incidents_of, tasks_of
from collector.web.period import Window, split_of
from collector.web.render import clock, took
from collector.web.source import Shown, Source
from scouter.client.models.alerts import (
    Alerts,
    DriftAlert,
    DriftAlertLook,
    DriftSeries,
    DriftSeriesList,
)
from scouter.client.models.answer import written
from scouter.client.models.comparison import SetupItem, Setups, VersionItem, Versions
from scouter.client.models.evaluations import (
    Distribution,
    Distributions,
    TaskBucket,
    TaskRates,
    TaskSeries,
)
from scouter.evaluate.show.rate_plot import Plot, Point, beginning, plot_rates

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
    source: Source,
    parameters: Mapping[str, str | int],
    whole: TaskSeries,
    versions: Sequence[VersionItem],
    now_s: float,
) -> list[RateLine]:
    """Ask for the lines of a task.

    Args:
        source: Asks the API.
        parameters: Profile, task, traffic and begin of the period, as the API takes them.
        whole: The series of all together, as the API has it.
        versions: Of the profile, as the API has them, the one that began last first.
        now_s: The end of the period; no point lies behind it.

    Returns:
        The newest version first.
    """
    bucket_s = whole.bucket_s
    points = _points(whole.items, bucket_s, now_s)
    total = sum(each.n for each in points)
    since_s = int(parameters["since"])
    its = [each.version for each in versions if each.last_at.timestamp() >= since_s]
    if not parameters["service_version"] and 1 < len(its) <= _MOST_LINES and total <= _FEW:
        exact = {"since": written(whole.items[0].start), "bucket": f"{bucket_s}s"} if total else {}
        found = await asyncio.gather(
            *(
                source.get(
                    TaskSeries,
                    "tasks/series",
                    **{**parameters, **exact, "service_version": version},
                )
                for version in its
            )
        )
        lines = [
            RateLine(version=version, points=_points(each.items, bucket_s, now_s))
            for version, each in zip(its, found, strict=True)
        ]
        if sum(each.n for line in lines for each in line.points) >= total:
            return [line for line in lines if line.points]
    # A result of which nothing says the version is in no version's line.
    return [RateLine(version="", points=points)] if points else []


def columns_of(lines: Sequence[RateLine], bucket_s: float) -> Shown:
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


def _column(line: RateLine, times: Iterable[float]) -> Shown:
    at = {each.at_s: each for each in line.points}
    found: dict[str, Any] = {"version": line.version, "rate": [], "lower": [], "upper": [], "n": []}
    for time in times:
        point = at.get(time)
        for name in ("rate", "lower", "upper", "n"):
            found[name].append(None if point is None else getattr(point, name))
    return found


def _points(items: Iterable[TaskBucket], bucket_s: float, now_s: float) -> list[Point]:
    """Buckets that have a rate, as points in the middle of each, or of what is over of it."""
    found: list[Point] = []
    for each in items:
        if each.pass_rate is not None:
            start_s = each.start.timestamp()
            found.append(
                Point(
                    at_s=(start_s + max(start_s, min(start_s + bucket_s, now_s))) / 2,
                    rate=each.pass_rate,
                    lower=each.lower,
                    upper=each.upper,
                    n=each.total,
                )
            )
    return found


_WIDTH: Final = 400.0
_HEIGHT: Final = 110.0
_TITLES: Final = {"score": "Score", "duration_ms": "Duration of the trace"}
_TICKS: Final = 5
"""Labels of the axis at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A rectangle of a plot, in its units."""

    part: str
    """`before` or `since`."""
    x: float
    y: float
    width: float
    height: float
    title: str


async def spread_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the distributions of a task.

    Args:
        source: Asks the API.
        given: `profile`, its alias; `task`; `split`, the time of the API that parts what was
            before; the window.

    Raises:
        ProblemError: The API refused, or there is no such profile or task.
    """
    profile, task_id, split = (given.get(name, "") for name in ("profile", "task", "split"))
    window = Window.of(given)
    found = await source.get(
        Distributions, "tasks/distributions", profile=profile, task_id=task_id, split=split,
        **window.for_api,
    )  # fmt: skip
    return {
        **window.shown,
        "profile": profile,
        "task_id": task_id,
        "spreads": [_spread(each) for each in found.items],
        "split": split,
        "looked_at": found.looked_at,
        "is_partial": found.is_partial,
    }


def _spread(item: Distribution) -> Shown:
    measure, bins = item.measure, item.bins
    rows = [
        {**dict(each), "range": f"{_shown(measure, each.low)} – {_shown(measure, each.high)}"}
        for each in bins
    ]
    edges = [each.low for each in bins] + [bins[-1].high]
    every = -(-len(edges) // _TICKS)
    step = _WIDTH / len(bins)
    last = len(edges) - 1
    return {
        "title": _TITLES[measure],
        "width": _WIDTH,
        "height": _HEIGHT,
        "bars": list(_bars(item, rows)),
        "ticks": [
            (
                number * step, _shown(measure, edge),
                "start" if not number else "end" if number == last else "middle",
            )
            for number, edge in enumerate(edges)
            if number % every == 0
        ],
        "rows": rows,
        "before": item.before,
        "since": item.since,
        "median_before": _shown(measure, item.median_before),
        "median_since": _shown(measure, item.median_since),
    }  # fmt: skip


def _bars(item: Distribution, rows: list[Shown]) -> Iterator[Bar]:
    """Shares of each part's own values, so that a short time since is seen beside a long before."""
    counts = {"before": item.before, "since": item.since}
    parts = [part for part, count in counts.items() if count]
    most = max(row[part] / counts[part] for row in rows for part in parts)
    step = _WIDTH / len(rows)
    width = step * 0.8 / len(parts)
    for number, row in enumerate(rows):
        for place, part in enumerate(parts):
            share = row[part] / counts[part]
            if share:
                height = share / most * _HEIGHT
                yield Bar(
                    part=part, x=(number + 0.1) * step + place * width, y=_HEIGHT - height,
                    width=width, height=height,
                    title=f"{row['range']} {part}: {row[part]:,}, {share:.0%}",
                )  # fmt: skip


def _shown(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return took(value) if measure == "duration_ms" else f"{value:.4g}"


_TASK_WIDTH: Final = 860.0
_TASK_HEIGHT: Final = 180.0
_LEAST: Final = 0.1
"""Share of the records from which a new value of their setup has a mark."""
_TOGETHER: Final = 0.03
"""Marks that are apart by less of the plot's width share one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLine:
    """A line of the plot."""

    version: str
    plot: Plot


async def task_view(source: Source, profile: str, task_id: str, window: Window) -> Shown:
    """Collect the view of a task.

    Args:
        source: Asks the API.
        profile: Alias of the profile.
        task_id: Of the task.
        window: That it covers.

    Raises:
        ProblemError: The API refused, or there is no such profile or task.
    """
    since, now_s, traffic = window.since_s, window.now_s, window.traffic
    parameters = {"profile": profile, **window.for_api}
    counted, whole, found, detectors, known, setups = await asyncio.gather(
        source.get(TaskRates, "tasks", usage="true", **parameters),
        source.get(TaskSeries, "tasks/series", task_id=task_id, points=POINTS, **parameters),
        source.get(Alerts, "alerts"),
        source.get(DriftSeriesList, "drift/series", profile=profile),
        source.get(Versions, "versions", profile=profile),
        source.get(Setups, "setups", **parameters),
    )
    versions = known.items
    bucket_s = whole.bucket_s
    lines = await rate_lines(source, {**parameters, "task_id": task_id}, whole, versions, now_s)
    incidents = [
        each
        for each in incidents_of(found.drift)
        if each.profile == profile and (not traffic.environment or each.is_in(traffic.environment))
    ]
    about = profile, task_id, traffic.environment
    falls = [each for each in found.drift if _is_about(each, *about)]
    stands = [each for each in detectors.items if _is_about(each, *about)]
    own = next((each for each in falls if each.state != "resolved"), None)
    path = f"alerts/{quote(own.alert_id, safe='')}" if own else ""
    look = await source.get(DriftAlertLook, path) if own else None
    healthy = stands[0].healthy if stands else None
    first_s = min((line.points[0].at_s for line in lines), default=None)
    begin_s = beginning(first_s, since, now_s, bucket_s)
    drawn = _drawn(lines, begin_s, now_s, bucket_s)
    marks = marks_of(falls, versions if len(versions) > 1 else (), setups.items, begin_s, now_s)
    return {
        **window.shown,
        "profile": profile,
        "task_id": task_id,
        "rates": [each for each in counted.items if each.task_id == task_id],
        "lines": drawn,
        "plotted": {
            **columns_of(lines, bucket_s), "since_s": begin_s, "until_s": now_s,
            "healthy": healthy, "marks": marks,
        },
        "width": _TASK_WIDTH,
        "height": _TASK_HEIGHT,
        "levels": [(1 - healthy) * _TASK_HEIGHT] if healthy is not None else [],
        "marks": [
            (_TASK_WIDTH * (each["at_s"] - begin_s) / (now_s - begin_s), each) for each in marks
        ],
        "bucket": _length(bucket_s),
        "fall": look,
        "stands": stands,
        "plot_since": clock(int(begin_s) * 10**9) if begin_s > since else "",
        "incidents": [
            each
            for each in incidents
            if any({"", task_id} & tasks_of(one) for one in each.alerts)
            or any(one.task in ("", task_id) for one in each.tasks)
        ],
        "split": split_of(incidents, versions, since),
        "versions": [each.version for each in versions],
        "environments": sorted(
            {each.environment for each in detectors.items if each.profile == profile}
            - {""}
        ),
    }  # fmt: skip


def _drawn(
    lines: Iterable[RateLine], begin_s: float, end_s: float, bucket_s: float
) -> list[DrawnLine]:
    return [
        DrawnLine(
            version=line.version,
            plot=plot_rates(line.points, begin_s, end_s, bucket_s, _TASK_WIDTH, _TASK_HEIGHT),
        )
        for line in lines
    ]


def _is_about(each: DriftAlert | DriftSeries, profile: str, task_id: str, environment: str) -> bool:
    """Tell whether an alert or a series is about the pass rate of a task in an environment."""
    if isinstance(each, DriftAlert):
        is_same = not each.condition and task_id in tasks_of(each, "pass")
    else:
        is_same = (each.task, each.kind, each.slice) == (task_id, "pass", "")
    return is_same and each.profile == profile and environment in ("", each.environment)


def marks_of(
    falls: Iterable[DriftAlert],
    versions: Sequence[VersionItem],
    setups: Iterable[SetupItem],
    begin_s: float,
    end_s: float,
) -> list[Shown]:
    """Marks of a plot: where a version or a setup began, where a fall began and alarmed.

    Args:
        falls: Alerts of the detectors, as the API has them.
        versions: Versions as the API has them.
        setups: What the records ran with; a new value that a tenth of them or more have since is
            marked with its share, but for versions that are marked anyway.
        begin_s: Left end of the plot, seconds since 1970.
        end_s: Right end.

    Returns:
        Those within the plot, by time; some that stand together are one, an alert if one of them
        is.
    """
    found: list[Shown] = []
    for each in versions:
        label = f"version {each.version}"
        found.append({"at_s": each.first_at.timestamp(), "kind": "change", "label": label})
    marked = tuple(each.version for each in versions)
    for each in setups:
        is_marked = each.kind == "version" and each.name.endswith(marked)
        if each.is_new and each.share >= _LEAST and not is_marked:
            label = f"{each.kind} {each.name} {each.share:.0%}"
            found.append({"at_s": each.first_at.timestamp(), "kind": "change", "label": label})
    for each in falls:
        found.append({"at_s": each.opened.since.timestamp(), "kind": "change", "label": "falls"})
        found.append({"at_s": each.opened_at.timestamp(), "kind": "alert", "label": "alert"})
    joined: list[Shown] = []
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
