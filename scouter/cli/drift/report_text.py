"""A report as lines for a terminal."""

from collections.abc import Iterator

from scouter.cli.drift.backtest_text import clock
from scouter.cli.drift.report_page import Report
from scouter.drift.history.report import SeriesReport

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
    for alarm in each.alarms:
        fall = alarm.fall
        end = f", over {clock(alarm.resolved_ns)}" if alarm.resolved_ns else ""
        yield (
            f"{name}, {clock(alarm.opened_ns)}: {fall.failed:,} of {fall.records:,} were bad since "
            f"{clock(fall.since_ns)}{end}; against {fall.reference.sentence()}"
        )
    for found in each.explained:
        yield (
            f"  explained by {found.slice.name}: {found.rate_before:.1%} before, "
            f"{found.rate:.1%} since, {found.weight * 100:.1f} points of the fall"
        )
