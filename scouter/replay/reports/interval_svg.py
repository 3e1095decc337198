"""A rate with its interval as a small drawing, so that two rows can be compared at a glance."""

from typing import Final

from markupsafe import Markup

from scouter.evaluate.intervals import Interval

_WIDTH: Final = 168
_LEFT: Final = 4.0
_SPAN: Final = 160.0


def interval_svg(
    now: tuple[float, Interval] | None, baseline: tuple[float, Interval] | None, tone: str
) -> Markup:
    """Draw the baseline above the present rate, on one axis from 0 to 100 %.

    Args:
        now: Rate and interval, both in [0, 1]; None without samples.
        baseline: The same in the baseline.
        tone: Class of the present rate: `good`, `bad` or `plain`.

    Returns:
        An SVG element without any text; the figures stand beside it in the table.
    """
    height = 26 if baseline else 18
    parts = [
        f'<svg class="interval" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" aria-hidden="true">'
    ]
    for share in (0.0, 0.5, 1.0):
        x = _x(share)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="1" y2="{height - 1}"/>')
    if baseline:
        parts.append(_row(baseline, 8.0, "before", 3))
    if now:
        parts.append(_row(now, 18.0 if baseline else 9.0, tone, 4))
    parts.append("</svg>")
    return Markup("".join(parts))  # noqa: S704 numbers and our own class names only


def _row(rate: tuple[float, Interval], y: float, css: str, radius: int) -> str:
    value, (low, high) = rate
    return (
        f'<g class="{css}"><line x1="{_x(low)}" x2="{_x(high)}" y1="{y}" y2="{y}"/>'
        f'<circle cx="{_x(value)}" cy="{y}" r="{radius}"/></g>'
    )


def _x(share: float) -> float:
    return round(_LEFT + share * _SPAN, 1)
