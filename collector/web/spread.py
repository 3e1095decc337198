"""Distributions of a task's scores and durations, as bars beside each other and as a table."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collector.web.period import Period, Traffic
from collector.web.render import took
from collector.web.source import Answer, Source

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


async def spread_view(
    source: Source, profile: str, task_id: str, period: Period, traffic: Traffic, split: str,
    now_s: float,
) -> Answer:  # fmt: skip
    """Collect the distributions of a task.

    Args:
        source: Asks the API.
        profile: Alias of the profile.
        task_id: Of the task.
        period: That it covers.
        traffic: That it covers.
        split: Time of the API that parts what was before; empty for none.
        now_s: The end of the period.

    Raises:
        AskError: The API refused, or there is no such profile or task.
    """
    found = await source.get(
        "tasks/distributions", profile=profile, task_id=task_id,
        since=period.since(now_s), split=split, **traffic.asked,
    )  # fmt: skip
    return {
        "spreads": [_spread(each) for each in found["items"]],
        "split": split,
        "looked_at": found["looked_at"],
        "is_partial": found["is_partial"],
    }


def _spread(item: Answer) -> Answer:
    measure, bins = item["measure"], item["bins"]
    rows = [
        {**each, "range": f"{_told(measure, each['low'])} – {_told(measure, each['high'])}"}
        for each in bins
    ]
    edges = [each["low"] for each in bins] + [bins[-1]["high"]]
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
                number * step, _told(measure, edge),
                "start" if not number else "end" if number == last else "middle",
            )
            for number, edge in enumerate(edges)
            if number % every == 0
        ],
        "rows": rows,
        "before": item["before"],
        "since": item["since"],
        "median_before": _told(measure, item["median_before"]),
        "median_since": _told(measure, item["median_since"]),
    }  # fmt: skip


def _bars(item: Answer, rows: list[Answer]) -> Iterator[Bar]:
    """Shares of each part's own values, so that a short time since is seen beside a long before."""
    parts = [part for part in ("before", "since") if item[part]]
    most = max(row[part] / item[part] for row in rows for part in parts)
    step = _WIDTH / len(rows)
    width = step * 0.8 / len(parts)
    for number, row in enumerate(rows):
        for place, part in enumerate(parts):
            share = row[part] / item[part]
            if share:
                height = share / most * _HEIGHT
                yield Bar(
                    part=part, x=(number + 0.1) * step + place * width, y=_HEIGHT - height,
                    width=width, height=height,
                    title=f"{row['range']} {part}: {row[part]:,}, {share:.0%}",
                )  # fmt: skip


def _told(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return took(value) if measure == "duration_ms" else f"{value:.4g}"
