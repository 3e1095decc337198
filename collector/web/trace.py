"""One trace: what happened in words, then its spans with the results that are about them."""

import gzip
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from collector.web.render import CUT, HEADERS
from collector.web.source import Answer, AskError, Source

FIRST: Final = 2_000
"""Rows in the page itself; a script asks for all of them."""
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
    is_hit: bool


async def trace_view(source: Source, trace_id: str, span_id: str, wanted: str) -> Answer:
    """Collect the view of a trace.

    Args:
        source: Asks the API.
        trace_id: 32 hex digits.
        span_id: Of the span whose details are open; empty for none.
        wanted: A filter of spans; empty for none.

    Raises:
        AskError: The API refused, or no span of it is stored.
    """
    at = path_of(trace_id)
    found = await source.get(f"{at}/columns", limit=FIRST)
    columns = found["columns"]
    hits, problem = await _hits(source, at, wanted)
    is_long = columns["total"] > FIRST
    return {
        "trace_id": found["trace_id"],
        "columns": columns,
        "rows": list(rows_of(columns, frozenset(hits or ()))),
        "shown_kinds": {columns["kinds"][kind] for kind in columns["kind"]},
        "agents": None if is_long else (await source.get(f"{at}/agents"))["items"],
        "evaluations": found["evaluations"],
        "beside": found["tasks"],
        "filter": wanted,
        "hits": hits,
        "problem": problem,
        "span_id": span_id,
        "detail": await span_detail(source, trace_id, span_id) if span_id else None,
    }


def path_of(trace_id: str) -> str:
    """A trace's place in the API."""
    return f"traces/{quote(trace_id, safe='')}"


async def _hits(source: Source, at: str, wanted: str) -> tuple[list[str] | None, str]:
    """The spans that a filter selects, or why it is none."""
    if not wanted:
        return None, ""
    try:
        return (await source.get(f"{at}/matches", filter=wanted))["span_ids"], ""
    except AskError as error:
        return None, error.detail


async def span_detail(source: Source, trace_id: str, span_id: str) -> Answer:
    """Collect the details of a span; long texts are cut.

    Args:
        source: Asks the API.
        trace_id: 32 hex digits.
        span_id: 16 hex digits.

    Raises:
        AskError: The API refused, or there is no such span.
    """
    at = f"{path_of(trace_id)}/spans/{quote(span_id, safe='')}"
    found = await source.get(at, text_limit=CUT)
    return {**found, "cuts": {each["pointer"]: each for each in found["cut"]}}


async def pass_on(source: Source, path: str, accepts: str, **asked: str | int | None) -> Response:
    """Answer with what the API answers, byte for byte; compressed where the browser takes that.

    Args:
        source: Asks the API.
        path: Below `/api/v1`.
        accepts: The request's `Accept-Encoding`.
        asked: Parameters.

    Raises:
        AskError: The API refused.
    """
    answer = await source.file(path, **asked)
    headers = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
    headers.update({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
    headers["Content-Security-Policy"] = HEADERS["Content-Security-Policy"]
    if "gzip" not in accepts:
        return Response(answer.content, headers=headers)
    body = await run_in_threadpool(gzip.compress, answer.content, 1)
    return Response(body, headers={**headers, "Content-Encoding": "gzip"})


def rows_of(columns: Answer, hits: frozenset[str]) -> Iterator[Row]:
    """The rows of the waterfall that columns hold.

    Args:
        columns: As the API has them.
        hits: Spans that a filter selected.
    """
    strings, kinds, axis = columns["strings"], columns["kinds"], columns["axis"]
    results: dict[int, list[tuple[str, str]]] = {}
    for row, task, outcome in columns["results"]:
        results.setdefault(row, []).append((strings[task], strings[outcome]))
    for row, after_ns in enumerate(columns["after_ns"]):
        span_id = columns["span_ids"][16 * row : 16 * row + 16]
        length_ns = columns["length_ns"][row]
        left = place(axis, after_ns) * 100
        width = place(axis, after_ns + length_ns) * 100 - left
        yield Row(
            span_id=span_id,
            depth=columns["depth"][row],
            name=strings[columns["name"][row]],
            kind=kinds[columns["kind"][row]],
            after_ms=after_ns / 1e6,
            duration_ms=length_ns / 1e6,
            left=min(left, 100 - _LEAST),
            width=min(max(width, _LEAST), 100 - min(left, 100 - _LEAST)),
            is_error=bool(columns["marks"][row] & _ERROR),
            is_orphan=bool(columns["marks"][row] & _ORPHAN),
            results=results.get(row, []),
            is_hit=span_id in hits,
        )


def place(axis: Answer, at_ns: int) -> float:
    """The place of a time on an axis, from 0 to 1."""
    points, shares = axis["at_ns"], axis["share"]
    after = bisect_right(points, at_ns)
    if after >= len(points):
        return shares[-1]
    if not after:
        return shares[0]
    begin, end = points[after - 1], points[after]
    part = (at_ns - begin) / (end - begin)
    return shares[after - 1] + part * (shares[after] - shares[after - 1])
