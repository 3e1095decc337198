"""A report as one HTML file without a script, as JSON, and as lines for a terminal."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from scouter.cli.drift.backtest_text import alarm_object, alarm_text, clock, identity
from scouter.cli.drift.reading import Replayed
from scouter.drift.history.replay import Alarm, Mix
from scouter.drift.history.report import Moved, SeriesReport
from scouter.evaluate.show.rate_plot import Plot, Point, plot_rates
from scouter.model.json_value import plain_text
from scouter.replay.reports.html import stylesheet

_WIDTH: Final = 900.0
_HEIGHT: Final = 180.0
_LOW: Final = 110.0
"""Height of the plot of evidence."""
_NAMES: Final = 12
"""Names of a mix that are shown."""
_LINES: Final = 4
"""The plot of evidence ends at so many times the line; else the line could not be seen."""
_MOST: Final = 1e200


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All series, and what moved beside them."""

    known: Replayed
    series: Sequence[SeriesReport]
    alpha: float
    since_ns: int | None
    """The moment of the mixes: the change point of the first alarm; None without an alarm."""
    mixes: Mapping[Mix, Moved | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The logarithm of the evidence over time, in the units of its plot."""

    points: str
    line: float
    """Height of ln(1 / alpha), at which the alarm is."""
    most: float
    """Value at the top."""


def render(report: Report) -> str:
    """Make the HTML text; everything that agents or people wrote is escaped."""
    names = {
        "css": stylesheet(),
        "report": report,
        "sections": [_section(each, report) for each in report.series],
        "mixes": [
            (mix.value, found, None if found is None else found.shares[:_NAMES])
            for mix, found in report.mixes.items()
        ],
        "since": None if report.since_ns is None else clock(report.since_ns),
        "fired": sum(bool(each.alarms) for each in report.series),
        "width": _WIDTH, "height": _HEIGHT, "low": _LOW, "clock": clock,
        "nats": -math.log(report.alpha),
    }  # fmt: skip
    return plain_text(_environment().get_template("report.html.j2").render(names))


def as_json(report: Report) -> str:
    """The same as one JSON object; times are RFC 3339."""
    return json.dumps(
        {
            "alpha": report.alpha,
            "line": -math.log(report.alpha),
            "series": [_object(each, report) for each in report.series],
            "mixes_since": None if report.since_ns is None else clock(report.since_ns),
            "mixes": {mix.value: _mix_object(found) for mix, found in report.mixes.items()},
        },
        ensure_ascii=False,
    )


def log_evidence(evidence: float) -> float:
    """Its natural logarithm, at least 0: below 1 there is evidence of nothing."""
    return math.log(min(max(evidence, 1.0), _MOST))


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("scouter.cli", "drift"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _section(each: SeriesReport, report: Report) -> dict[str, Any]:
    begin_ns, end_ns = _ends(each)
    bounds = [watch.reference.baseline.lower for watch in each.series.watches]
    return {
        "name": report.known.name(each.series),
        "report": each,
        "begin": clock(begin_ns),
        "end": clock(end_ns),
        "plot": _rates(each),
        "evidence": _evidence(each, report.alpha),
        "changes": [_x(alarm.fall.since_ns, each) for alarm in each.alarms],
        "openings": [_x(alarm.opened_ns, each) for alarm in each.alarms],
        "healthy": None if not bounds else (1 - bounds[0]) * _HEIGHT,
        "alarms": [_alarm(alarm) for alarm in each.alarms],
    }


def _alarm(alarm: Alarm) -> dict[str, Any]:
    fall = alarm.fall
    return {
        "text": f"{clock(alarm.opened_ns)}: {fall.failed:,} of {fall.records:,} were bad since "
        f"{clock(fall.since_ns)}, against {fall.reference.sentence()}",
        "end": None if alarm.resolved_ns is None else clock(alarm.resolved_ns),
        "before": alarm.before,
        "since": alarm.since,
    }


def _ends(each: SeriesReport) -> tuple[int, int]:
    return each.buckets[0].start_ns, each.buckets[-1].start_ns + each.bucket_ns


def _x(at_ns: int, each: SeriesReport) -> float:
    begin_ns, end_ns = _ends(each)
    return (at_ns - begin_ns) / (end_ns - begin_ns) * _WIDTH


def _rates(each: SeriesReport) -> Plot:
    begin_ns, end_ns = _ends(each)  # since the begin: seconds since 1970 cannot tell nanoseconds
    points = [
        Point(
            at_s=(bucket.start_ns - begin_ns + each.bucket_ns / 2) / 1e9,
            rate=bucket.rate,
            lower=bucket.lower,
            upper=bucket.upper,
            n=bucket.units,
        )
        for bucket in each.buckets
    ]
    until_s = (end_ns - begin_ns) / 1e9
    return plot_rates(points, 0, until_s, each.bucket_ns / 1e9, _WIDTH, _HEIGHT)


def _evidence(each: SeriesReport, alpha: float) -> Evidence:
    line = -math.log(alpha)
    values = [log_evidence(bucket.evidence) for bucket in each.buckets]
    most = min(max(*values, 1.2 * line), _LINES * line)
    middles = [_x(bucket.start_ns + each.bucket_ns // 2, each) for bucket in each.buckets]
    points = (
        f"{x:.1f},{max(0.0, 1 - value / most) * _LOW:.1f}"
        for x, value in zip(middles, values, strict=True)
    )
    return Evidence(points=" ".join(points), line=(1 - line / most) * _LOW, most=most)


def _object(each: SeriesReport, report: Report) -> dict[str, Any]:
    return {
        **identity(each.series.key, report.known),
        "units": each.series.units, "records": each.series.records,
        "failed": each.series.failed, "against": each.words, "band": "wilson 95%",
        "bucket_s": each.bucket_ns / 1e9,
        "buckets": [
            {
                "start": clock(bucket.start_ns), "units": bucket.units, "rate": bucket.rate,
                "lower": bucket.lower, "upper": bucket.upper,
                "log_evidence": log_evidence(bucket.evidence),
            }
            for bucket in each.buckets
        ],
        "fired": [
            {**alarm_object(a), "examples_before": a.before, "examples_since": a.since}
            for a in each.alarms
        ],
        "cause": "" if each.origin is None else each.origin.sentence,
        "explained_by": [
            {
                "name": found.name, "before_passed": found.before[0],
                "before_count": found.before[1], "after_passed": found.after[0],
                "after_count": found.after[1],
            }
            for found in (each.origin.guilty if each.origin else ())
        ],
    }  # fmt: skip


def _mix_object(found: Moved | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "psi": found.psi,
        "jensen_shannon": found.jensen_shannon,
        "chance": found.chance,
        "shares": [
            {"name": each.name, "before": each.before, "since": each.since} for each in found.shares
        ],
    }


COLUMNS = ("series", "units", "rate", "now", "would have fired")


def rows(report: Report) -> Iterator[tuple[str, ...]]:
    """One line for each series; `now` is the rate of the newest of its stretches of time."""
    for each in report.series:
        series = each.series
        fired = ", ".join(clock(alarm.opened_ns) for alarm in each.alarms)
        yield (
            report.known.name(series),
            f"{series.units:,}",
            f"{series.total / series.units:.1%}",
            f"{each.buckets[-1].rate:.1%}",
            fired or "never",
        )


def notes(report: Report) -> Iterator[str]:
    """Counts of each alarm, the slices that explain it, and the option that shows more."""
    if not report.series:
        yield "no final result of that time is stored"
        return
    for each in report.series:
        yield from _alarms(each, report.known.name(each.series))
    yield "plots, examples and calls before and since: --output drift.html"


def _alarms(each: SeriesReport, name: str) -> Iterator[str]:
    yield from (f"{name}, {alarm_text(alarm)}" for alarm in each.alarms)
    if each.origin is not None:
        yield f"  {each.origin.sentence}"
        for found in each.origin.guilty:
            yield f"  explained by {found.sentence()}"
