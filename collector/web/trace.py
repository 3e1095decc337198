"""One trace: what happened in words, then its spans with the results that are about them."""

import gzip
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final, cast
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from collector.problem import ProblemError
from collector.web.checks import BAD, has_bad, read_checks
from collector.web.render import CUT, HEADERS
from collector.web.source import Shown, Source
from scouter.client.models.alerts import Alerts, DriftAlert
from scouter.client.models.traces import SpanDetail, TraceAgents, TraceMatches, TraceRows
from scouter.evaluate.show.trace_view import TimeAxis, TraceColumns
from scouter.model.genai.facts import MODEL_CALLS, Kind

FIRST: Final = 2_000
"""Rows in the page itself; a script requests all of them."""
_LEAST: Final = 0.4
"""Width of a bar in percent, so that a span of no length is seen."""
_PASSED_ON: Final = ("content-type", "content-disposition")
_ERROR, _ORPHAN = 1, 32
"""Bits of `marks` in the API's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of the waterfall."""

    span_id: str
    depth: int
    name: str
    kind: str
    after_ms: float
    duration_ms: float
    left: float
    """Left edge of its bar, in percent."""
    width: float
    is_error: bool
    is_orphan: bool
    results: list[tuple[str, str]]
    """Task and outcome."""

    @property
    def is_bad(self) -> bool:
        """A check that is about it failed or errored."""
        return any(outcome in BAD for _, outcome in self.results)

    @property
    def colour(self) -> str:
        """Of its bar: its kind, unless something is wrong with it."""
        outcomes = {outcome for _, outcome in self.results}
        if self.is_error or "failed" in outcomes:
            return "bad"
        return "doubt" if "errored" in outcomes else self.kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A choice of rows that stands on the page as a link."""

    name: str
    """As the address has it."""
    label: str
    selects: Callable[[Row], bool]


PRESETS: Final = (
    Preset(name="", label="All", selects=lambda _: True),
    Preset(name="model", label="Model calls", selects=lambda row: row.kind in MODEL_CALLS),
    Preset(name="tool", label="Tool calls", selects=lambda row: row.kind == Kind.TOOL),
    Preset(name="error", label="Errors", selects=lambda row: row.is_error),
    Preset(name="bad", label="Failed checks", selects=lambda row: row.is_bad),
)


async def trace_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the view of a trace.

    Args:
        source: Asks the API.
        given: `trace_id`, 32 hex digits; `span`, whose details are open; `filter`, which rows
            show, or `show`, the name of a preset; `joined`, with the traces that belong to it.

    Raises:
        ProblemError: The API refused, or no span of it is stored.
    """
    trace_id, wanted, span_id = given["trace_id"], given.get("filter", ""), given.get("span", "")
    at = path_of(trace_id)
    joined = "true" if given.get("joined") else ""
    found = await source.get(TraceRows, f"{at}/columns", limit=FIRST, joined=joined)
    columns, evaluations = found.columns, found.evaluations
    rows = list(rows_of(columns))
    hits, problem = await _hits(source, at, wanted, joined)
    preset = next((each for each in PRESETS[1:] if each.name == given.get("show")), None)
    if preset and not wanted:
        hits = {row.span_id for row in rows if preset.selects(row)}
    is_long = columns.total > FIRST
    alerts: Sequence[DriftAlert] = ()
    if has_bad(evaluations):
        alerts = (await source.get(Alerts, "alerts")).drift
    agents = None if is_long else await source.get(TraceAgents, f"{at}/agents", joined=joined)
    return {
        "trace": found,
        "joined": joined,
        "name": rows[0].name,
        "first": FIRST,
        "trace_id": found.trace_id,
        "columns": columns,
        "rows": selected_rows(rows, hits),
        "shown_kinds": {columns.kinds[kind] for kind in columns.kind},
        "agents": None if agents is None else agents.items,
        "questions": await source.questions(evaluations),
        "checks": read_checks(evaluations, {row.span_id: row.name for row in rows}, alerts),
        "conversations": sorted({each.session_id for each in evaluations} - {""}),
        "presets": [(each, None if is_long else sum(map(each.selects, rows))) for each in PRESETS],
        "slowest": slowest_of(columns),
        "show": preset.name if preset and not wanted else "",
        "filter": wanted,
        "hits": hits,
        "problem": problem,
        "span_id": span_id,
        "detail": await span_detail(source, trace_id, span_id) if span_id else None,
    }


def path_of(trace_id: str) -> str:
    """A trace's place in the API."""
    return f"traces/{quote(trace_id, safe='')}"


def span_path(trace_id: str, span_id: str) -> str:
    """A span's place in the API."""
    return f"{path_of(trace_id)}/spans/{quote(span_id, safe='')}"


async def _hits(source: Source, at: str, wanted: str, joined: str) -> tuple[set[str] | None, str]:
    """The spans that a filter selects, or why it is none."""
    if not wanted:
        return None, ""
    try:
        found = await source.get(TraceMatches, f"{at}/matches", filter=wanted, joined=joined)
        return set(found.span_ids), ""
    except ProblemError as error:
        return None, error.detail


async def span_detail(source: Source, trace_id: str, span_id: str) -> Shown:
    """Collect the details of a span; long texts are cut.

    Args:
        source: Asks the API.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.

    Raises:
        ProblemError: The API refused, or there is no such span.
    """
    found = await source.get(SpanDetail, span_path(trace_id, span_id), text_limit=CUT)
    _name_results([*found.span.input_messages, *found.span.output_messages])
    return {**dict(found), "cuts": {each.pointer: each for each in found.cut}}


def _name_results(messages: Iterable[object]) -> None:
    """Give each result of a tool the name that its call has, where it says none."""
    parts = [
        cast("Shown", part)
        for message in messages
        if isinstance(message, dict)
        and isinstance(of_it := cast("Shown", message).get("parts"), list)
        for part in cast("list[object]", of_it)
        if isinstance(part, dict)
    ]
    names = {str(part["id"]): part["name"] for part in parts if "id" in part and "name" in part}
    for part in parts:
        if part.get("type") == "tool_call_response" and str(part.get("id")) in names:
            part.setdefault("name", names[str(part["id"])])


async def pass_on(request: Request, source: Source, path: str, **parameters: str) -> Response:
    """Answer with what the API answers, byte for byte; compressed where the browser takes that.

    Args:
        request: The reader's.
        source: Asks the API.
        path: Below `/api/v1`.
        parameters: Parameters.

    Raises:
        ProblemError: The API refused.
    """
    answer = await source.file(path, **parameters)
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    headers.update({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
    headers["Content-Security-Policy"] = HEADERS["Content-Security-Policy"]
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(answer.content, headers=headers)
    body = await run_in_threadpool(gzip.compress, answer.content, 1)
    return Response(body, headers={**headers, "Content-Encoding": "gzip"})


def rows_of(columns: TraceColumns) -> Iterator[Row]:
    """The rows of the waterfall that columns hold.

    Args:
        columns: As the API has them.
    """
    strings, kinds, axis = columns.strings, columns.kinds, columns.axis
    results: dict[int, list[tuple[str, str]]] = {}
    for row, task, outcome in columns.results:
        results.setdefault(row, []).append((strings[task], strings[outcome]))
    for row, after_ns in enumerate(columns.after_ns):
        span_id = columns.span_ids[16 * row : 16 * row + 16]
        length_ns = columns.length_ns[row]
        left = place(axis, after_ns) * 100
        width = place(axis, after_ns + length_ns) * 100 - left
        yield Row(
            span_id=span_id,
            depth=columns.depth[row],
            name=strings[columns.name[row]],
            kind=kinds[columns.kind[row]],
            after_ms=after_ns / 1e6,
            duration_ms=length_ns / 1e6,
            left=min(left, 100 - _LEAST),
            width=min(max(width, _LEAST), 100 - min(left, 100 - _LEAST)),
            is_error=bool(columns.marks[row] & _ERROR),
            is_orphan=bool(columns.marks[row] & _ORPHAN),
            results=results.get(row, []),
        )


def selected_rows(rows: Sequence[Row], hits: Set[str] | None) -> list[tuple[Row, bool]]:
    """Rows that a choice selects, and those above them; all rows if there is no choice.

    Args:
        rows: Each after its parent.
        hits: Ids of the selected spans.

    Returns:
        Rows, and whether each is there only for one below it.
    """
    if hits is None:
        return [(row, False) for row in rows]
    selected: list[tuple[Row, bool]] = []
    above = 0  # rows of a lesser depth that come next, from the end, are above a selected one
    for row in reversed(rows):
        is_hit = row.span_id in hits
        if is_hit or row.depth < above:
            selected.append((row, not is_hit))
            above = row.depth
    return selected[::-1]


def slowest_of(columns: TraceColumns) -> str:
    """The span that took the longest by itself: time of the spans directly below it is left out.

    Args:
        columns: As the API has them.
    """
    own_ns = list(columns.length_ns)
    for row, parent in enumerate(columns.parent):
        if parent >= 0:
            own_ns[parent] -= columns.length_ns[row]
    at = max(range(len(own_ns)), key=own_ns.__getitem__)
    return columns.span_ids[16 * at : 16 * at + 16]


def place(axis: TimeAxis, at_ns: int) -> float:
    """The place of a time on an axis, from 0 to 1."""
    points, shares = axis.at_ns, axis.share
    after = bisect_right(points, at_ns)
    if after >= len(points):
        return shares[-1]
    if not after:
        return shares[0]
    begin, end = points[after - 1], points[after]
    part = (at_ns - begin) / (end - begin)
    return shares[after - 1] + part * (shares[after] - shares[after - 1])
