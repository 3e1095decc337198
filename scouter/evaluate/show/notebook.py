"""Runs and comparisons in a notebook: tables, data frames, rates with intervals as pictures."""

import html
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from scouter.evaluate.compare.data import RecordsComparison, RunComparison
from scouter.evaluate.compare.gate_counts import BROKEN, TaskCount, count_tasks, scenarios_passed
from scouter.evaluate.compare.rows import RateComparison
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.show.frame import frame, frame_of_rows
from scouter.evaluate.show.results_table import fields_html, html_table, results_html
from scouter.model.visible import visible

_LABEL: Final = 260
_PLOT: Final = 400
_RIGHT: Final = 60
_ROW: Final = 22
_TOP: Final = 26
_LETTERS: Final = 40
_GOOD: Final = "#2a9d4a"
_BAD: Final = "#e0433a"
_PLAIN: Final = "#6a7a9a"
"""Readable on a white and on a black ground, as the grid and the texts are."""
_GREY: Final = "#888888"
_RUN_COLUMNS: Final = ("Alias", "Task", "Passed", "Of", "Pass rate", "95 % interval")
_COMPARISON_COLUMNS: Final = ("Rate", "Before", "Now", "Change", "95 % interval", "")


class Picture:
    """A picture as SVG, which a notebook shows.

    Args:
        svg: The text of the picture; it stands alone.
    """

    def __init__(self, svg: str) -> None:
        self.svg: Final = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write it to a file.

        Raises:
            OSError: It cannot be written.
        """
        Path(path).write_text(self.svg, encoding="utf-8")


def frame_of(results: object, polars: bool) -> Any:  # noqa: ANN401 — pandas or polars
    """Make a data frame: a row for each task result, each rate of a comparison, or each item.

    Of a run, a column `alias` before the others is empty for the scenarios' own tasks. The rows of
    a comparison have the fields of `RateComparison`, both ends of an interval apart.

    Raises:
        TypeError: `polars` is neither True nor False; or results of another kind.
        ConfigError: The library is not installed; says how to install it.
    """
    match results:
        case ResultRows():
            return frame(results, polars)
        case RunResults():
            return _run_frame(results, polars)
        case RecordsComparison() | RunComparison():
            return frame_of_rows(list(map(_rate_row, results.rates)), polars)
        case _:
            return frame_of_rows(_items(results), polars)


def html_of(results: object) -> str:
    """Show results as a table; see `frame_of`."""
    match results:
        case ResultRows():
            return results_html(results)
        case RunResults():
            return _run_html(results)
        case RecordsComparison() | RunComparison():
            return _comparison_html(results)
        case _:
            return fields_html(type(results).__name__, _items(results))


def picture_of(results: object) -> Picture:
    """Draw the rates of a run, or the changes of a comparison.

    Raises:
        TypeError: Results of another kind.
    """
    if isinstance(results, RunResults):
        return _run_picture(results)
    if isinstance(results, RecordsComparison | RunComparison):
        return _comparison_picture(results)
    raise TypeError(f"{type(results).__name__} has no rates to draw")


def _items(answer: object) -> list[dict[str, Any]]:
    """The fields of each item of a list, or of an answer that is none."""
    if not isinstance(answer, BaseModel):
        raise TypeError(f"{type(answer).__name__} has no fields")
    items: Sequence[BaseModel] = getattr(answer, "items", (answer,))
    return [each.model_dump() for each in items]


def _run_frame(results: RunResults, polars: bool) -> Any:  # noqa: ANN401 — pandas or polars
    parts = [(alias, rows) for alias, rows in _parts(results) if len(rows)]
    frames = [(alias, frame(rows, polars)) for alias, rows in parts or [("", ResultRows(()))]]
    if polars:
        library = import_module("polars")
        named = [each.select(library.lit(alias).alias("alias"), "*") for alias, each in frames]
        return library.concat(named)
    for alias, each in frames:
        each.insert(0, "alias", alias)
    return import_module("pandas").concat([each for _, each in frames], ignore_index=True)


def _rate_row(rate: RateComparison) -> dict[str, object]:
    row: dict[str, object] = {"label": rate.label, "word": rate.word}
    for name, value in rate:
        if isinstance(value, tuple):
            row[f"{name}_lower"], row[f"{name}_upper"] = value
        else:
            row[name] = value
    return row


def _run_html(results: RunResults) -> str:
    """Show a run: the scenarios, and one row for each task, of measures the mean of the scores."""
    passed, total = scenarios_passed(results)
    times = f", {results.repeats} attempts of each" if results.repeats > 1 else ""
    title = f"{len(results.scenarios)} scenarios{times}"
    if total:
        title += f": {passed} of {total} passed"
    rows = (
        (each.alias or "(scenarios)", each.task_id, each.passed, each.total,
         f"{each.passed / each.total:.1%}" if each.total else "-", _percent(_interval(each)))
        if each.mean is None
        else (each.alias or "(scenarios)", each.task_id, "-", each.total,
              f"mean {each.mean:.4g}", "-")
        for each in _rates(results)
    )  # fmt: skip
    return html_table(title, _RUN_COLUMNS, rows)


def _run_picture(results: RunResults) -> Picture:
    """Draw the pass rate of each task with its 95 % interval, where enough is behind it."""
    rows = [
        (_name(each.alias, each.task_id), each.passed / each.total, _interval(each), _PLAIN,
         f"{each.passed}/{each.total}")
        for each in _rates(results)
        if each.total and each.mean is None
    ]  # fmt: skip
    return _picture(rows, 0.0, 1.0, "Pass rate, 95 % interval", lambda share: f"{share:.0%}")


def _comparison_html(comparison: RecordsComparison | RunComparison) -> str:
    """Show a comparison: the decision with its reason, and one row for each rate."""
    title = f"{comparison.decision}: {comparison.decision_reason}"
    rows = (
        (each.label, f"{each.baseline_passed}/{each.baseline_count}",
         f"{each.comparison_passed}/{each.comparison_count}", f"{_signed(each.difference, 1)} pp",
         f"{each.interval[0] * 100:+.0f} to {each.interval[1] * 100:+.0f}"
         if each.has_interval else "-", each.word)
        for each in comparison.rates
    )  # fmt: skip
    return html_table(title, _COMPARISON_COLUMNS, rows)


def _comparison_picture(comparison: RecordsComparison | RunComparison) -> Picture:
    """Draw the change of each rate with its 95 % interval; left of the middle is worse."""
    rows = [
        (each.label, each.difference, each.interval if each.has_interval else None,
         _BAD if each.regressed else _GOOD if each.interval[0] > 0 else _PLAIN,
         _signed(each.difference))
        for each in comparison.rates
    ]  # fmt: skip
    ends = [abs(end) for _, value, interval, *_ in rows for end in (value, *(interval or ()))]
    most = max([0.1, *ends])
    title = "Change of the pass rate in points, 95 % interval"
    return _picture(rows, -most, most, title, _signed)


def _parts(results: RunResults) -> Iterator[tuple[str, ResultRows]]:
    """The rows of scenarios' own tasks, under an empty alias, and those of each alias."""
    yield "", results.own_rows
    yield from results.dataset_results.items()


def _rates(results: RunResults) -> list[TaskCount]:
    """Of each task of each alias, in their order; the scenarios' own come first."""
    found = (each for each in count_tasks(results) if each.task_id != BROKEN)
    return sorted(found, key=lambda each: bool(each.alias))


def _interval(count: TaskCount) -> Interval | None:
    return wilson(count.passed, count.total) if count.has_interval else None


def _name(alias: str, task_id: str) -> str:
    return f"{alias} · {task_id}" if alias else task_id


def _signed(share: float, digits: int = 0) -> str:
    """A difference of rates in points; one that is none has no sign."""
    text = f"{share * 100:+.{digits}f}"
    return text if float(text) else text[1:]


def _percent(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval[0]:.0%} to {interval[1]:.0%}"


_Row = tuple[str, float, Interval | None, str, str]
"""Name, value, interval, colour and figure of a row."""


def _picture(
    rows: Sequence[_Row], low: float, high: float, title: str, tick: Callable[[float], str]
) -> Picture:
    width, height = _LABEL + _PLOT + _RIGHT, _TOP + _ROW * len(rows) + _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif" font-size="12" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<text x="{_LABEL}" y="14" fill="{_GREY}">{html.escape(title)}</text>',
    ]

    def x(share: float) -> float:
        return round(_LABEL + (share - low) / (high - low) * _PLOT, 1)

    bottom = height - _ROW
    for share in (low, (low + high) / 2, high):
        at = x(share)
        parts.append(
            f'<line x1="{at}" x2="{at}" y1="{_TOP - 4}" y2="{bottom}" stroke="{_GREY}" '
            f'stroke-opacity="0.4"/><text x="{at}" y="{bottom + 15}" fill="{_GREY}" '
            f'text-anchor="middle">{tick(share)}</text>'
        )
    parts += _drawn(rows, x)
    return Picture("".join([*parts, "</svg>"]))


def _drawn(rows: Iterable[_Row], x: Callable[[float], float]) -> Iterator[str]:
    for number, (name, value, interval, colour, figure) in enumerate(rows):
        y = _TOP + _ROW * number + _ROW // 2
        text = visible(name)
        short = text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"
        yield f"<g><title>{html.escape(f'{text}: {figure}')}</title>"
        yield (
            f'<text x="{_LABEL - 8}" y="{y + 4}" fill="{_GREY}" text-anchor="end">'
            f"{html.escape(short)}</text>"
        )
        if interval is not None:
            yield (
                f'<line x1="{x(interval[0])}" x2="{x(interval[1])}" y1="{y}" y2="{y}" '
                f'stroke="{colour}" stroke-width="2"/>'
            )
        yield f'<circle cx="{x(value)}" cy="{y}" r="4" fill="{colour}"/>'
        yield (f'<text x="{_LABEL + _PLOT + 8}" y="{y + 4}" fill="{_GREY}">{figure}</text></g>')
