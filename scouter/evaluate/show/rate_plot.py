"""Plots of rates as SVG: numbers in attributes, so that they need neither script nor style."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The rate of one bucket.

    Args:
        at_s: Middle of the bucket, seconds since 1970.
        rate: From 0 to 1.
        lower: Lower end of its interval.
        upper: Upper end.
        n: Results that it counts.
    """

    at_s: float
    rate: float
    lower: float
    upper: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """One bucket of a plot, in the plot's units."""

    x: float
    y: float
    top: float
    """Lower and upper end of the interval."""
    height: float
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot of `width` × `height` units; the rate 1 is at the top."""

    width: float
    height: float
    dots: tuple[Dot, ...]
    lines: tuple[str, ...]
    """`points` of a polyline for each run of buckets without a gap."""


def beginning(first_s: float | None, since_s: float, until_s: float, bucket_s: float) -> float:
    """The beginning of a plot: its first results, so that a young series is not a dot at the edge.

    Args:
        first_s: Middle of the first bucket; None where there is none.
        since_s: The earliest beginning, seconds since 1970.
        until_s: The end.
        bucket_s: Length of a bucket; the plot shows twelve at least.
    """
    first = since_s if first_s is None else first_s - bucket_s
    return max(since_s, min(first, until_s - 12 * bucket_s))


def plot_rates(
    points: Sequence[Point],
    since_s: float,
    until_s: float,
    bucket_s: float,
    width: float,
    height: float,
) -> Plot:
    """Lay out the rates of buckets over time.

    Args:
        points: By time.
        since_s: Left end, seconds since 1970.
        until_s: Right end; after the left one.
        bucket_s: Distance of two buckets that follow each other.
        width: Of the plot, in its units.
        height: Of the plot.
    """
    places = [(each.at_s, each.rate) for each in points]
    plot = sketch_rates(places, since_s, until_s, bucket_s, width, height)
    return replace(plot, dots=tuple(_dots(points, since_s, until_s, width, height)))


def sketch_rates(
    places: Iterable[tuple[float, float]],
    since_s: float,
    until_s: float,
    bucket_s: float,
    width: float,
    height: float,
) -> Plot:
    """The same without dots, for plots that are too small for them.

    Args:
        places: Middle of each bucket in seconds since 1970, and its rate; by time.
        since_s: Left end, seconds since 1970.
        until_s: Right end; after the left one.
        bucket_s: Distance of two buckets that follow each other.
        width: Of the plot, in its units.
        height: Of the plot.
    """
    lines: list[list[str]] = []
    last_s = float("-inf")
    for at_s, rate in places:
        x = (at_s - since_s) / (until_s - since_s) * width
        if at_s - last_s > 1.5 * bucket_s:
            lines.append([])  # a bucket without results is a gap, not a straight line
        lines[-1].append(f"{x:.1f},{(1 - rate) * height:.1f}")
        last_s = at_s
    return Plot(width=width, height=height, dots=(), lines=tuple(map(" ".join, lines)))


def _dots(
    points: Sequence[Point], since_s: float, until_s: float, width: float, height: float
) -> Iterator[Dot]:
    for point in points:
        top = (1 - point.upper) * height
        yield Dot(
            x=(point.at_s - since_s) / (until_s - since_s) * width,
            y=(1 - point.rate) * height,
            top=top,
            height=(1 - point.lower) * height - top,
            title=f"{point.rate:.1%} of {point.n:,}",
        )
