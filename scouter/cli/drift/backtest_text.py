"""Backtests as lines of a table, and as JSON."""

import datetime
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from scouter.cli.drift.reading import Replayed
from scouter.drift.history.backtest import Backtest, Injected
from scouter.drift.history.replay import Alarm
from scouter.drift.series.causes import Cause
from scouter.drift.series.series import SeriesKey

COLUMNS: Final = ("series", "units", "rate", "would have fired", "false alarms")
_SHOWN: Final = 3
"""Alarms that a line of the table names."""


def row(each: Backtest, known: Replayed, falls: Sequence[float]) -> tuple[str, ...]:
    """One series as a line."""
    series = each.series
    by_fall = {found.fall: found for found in each.injected}
    return (
        known.name(series),
        f"{series.units:,}",
        f"{series.total / series.units:.1%}",
        _fired(each.alarms),
        _false(each),
        *(_seen(by_fall.get(fall)) for fall in falls),
    )


def notes(found: Sequence[Backtest], known: Replayed) -> Iterator[str]:
    """The alerts that people would have seen, the references of each series, and its alarms."""
    if not found:
        yield "no final result of that time is stored"
    count = len(known.alerts)
    if count:
        yield f"people would have seen {count:,} alert{'s' if count > 1 else ''}:"
    for alert in known.alerts:
        rest = [known.name_of(key) for key in alert.falls if key != alert.headline]
        end = f", over {clock(alert.ended_ns)}" if alert.ended_ns else ""
        others = f"; with it: {'; '.join(rest)}" if rest else ""
        yield f"  {clock(alert.opened_ns)}: {known.name_of(alert.headline)}{end}{others}"
    for each in found:
        yield f"{known.name(each.series)}: compared with {each.words}"
        yield from (f"  {alarm_text(alarm)}" for alarm in each.alarms[:_SHOWN])


def alarm_text(alarm: Alarm) -> str:
    """An alarm for people."""
    fall = alarm.fall
    end = f", over {clock(alarm.resolved_ns)}" if alarm.resolved_ns else ""
    return (
        f"{clock(alarm.opened_ns)}: {fall.failed:,} of {fall.records:,} were bad since "
        f"{clock(fall.since_ns)}{end}; against {fall.reference.sentence()}"
    )


def as_json(found: Sequence[Backtest], known: Replayed) -> str:
    """All series as one JSON object; times are RFC 3339, delays units and hours."""
    return json.dumps(
        {
            "alerts": [_alert(each, known) for each in known.alerts],
            "series": [_object(each, known) for each in found],
        },
        ensure_ascii=False,
    )


def clock(at_ns: int) -> str:
    """Write a time for people and programs, in UTC and to the second."""
    return f"{datetime.datetime.fromtimestamp(at_ns // 10**9, datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"


def _alert(each: Cause, known: Replayed) -> dict[str, Any]:
    return {
        "opened_at": clock(each.opened_ns),
        "ended_at": None if each.ended_ns is None else clock(each.ended_ns),
        **identity(each.headline, known),
        "together": [identity(key, known) for key in each.falls],
    }


def identity(key: SeriesKey, known: Replayed) -> dict[str, Any]:
    """The name of a series, in parts."""
    profile = known.profiles.get(key.profile_uid)
    return {
        "profile": "" if profile is None else profile.alias,
        "profile_version": "" if profile is None else profile.digest,
        "profile_uid": key.profile_uid, "task": key.task, "kind": key.kind.value,
        "slice": key.slice,
        "service": key.agent.service, "environment": key.agent.environment,
        "version": key.agent.version,
    }  # fmt: skip


def alarm_object(alarm: Alarm) -> dict[str, Any]:
    """An alarm for programs."""
    fall = alarm.fall
    return {
        "opened_at": clock(alarm.opened_ns), "since": clock(fall.since_ns),
        "records": fall.records, "failed": fall.failed, "evidence": fall.evidence,
        "against": fall.reference.sentence(),
        "resolved_at": None if alarm.resolved_ns is None else clock(alarm.resolved_ns),
    }  # fmt: skip


def _object(each: Backtest, known: Replayed) -> dict[str, Any]:
    series = each.series
    return {
        **identity(series.key, known),
        "units": series.units, "records": series.records, "failed": series.failed,
        "against": each.words, "fired": [alarm_object(alarm) for alarm in each.alarms],
        "healthy_units": each.healthy, "false_alarms": each.false_alarms,
        "draws": each.draws, "alarmed_draws": each.alarmed_draws,
        "falls": [
            {
                "points": round(found.fall * 100, 6), "draws": found.draws, "seen": found.seen,
                "delay_units": found.units, "delay_hours": found.hours,
                "least_units": found.least, "most_units": found.most,
            }
            for found in each.injected
        ],
    }  # fmt: skip


def _fired(alarms: Sequence[Alarm]) -> str:
    if not alarms:
        return "never"
    shown = ", ".join(clock(alarm.opened_ns) for alarm in alarms[:_SHOWN])
    return shown if len(alarms) <= _SHOWN else f"{shown}, {len(alarms) - _SHOWN} more"


def _false(each: Backtest) -> str:
    history = "" if each.false_alarms is None else f"{each.false_alarms} in history, "
    drawn = f"{each.alarmed_draws} of {each.draws} draws" if each.draws else "not tried"
    return history + drawn


def _seen(found: Injected | None) -> str:
    if found is None:
        return "-"
    seen = f"{found.seen} of {found.draws}"
    if found.units is None or found.hours is None:
        return f"seen {seen}"
    most = "not seen" if found.most is None else f"{found.most:,}"
    return f"{found.units:,} units ({found.least:,} to {most}), {found.hours:.1f} h, seen {seen}"
