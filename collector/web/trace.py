"""One trace: what happened in words, then its spans with the results that are about them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from collector.web.source import Answer, Source

MOST: Final = 1000
"""Spans in one page; the API's own limit."""
_LEAST: Final = 0.4
"""Width of a bar in percent, so that a span of no length is seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLine:
    """The work of one agent in a trace."""

    name: str
    calls: int
    """Of models."""
    tools: Sequence[tuple[str, int]]
    """Name and count, in the order of the first call."""
    tokens: int
    errors: int


async def trace_view(source: Source, trace_id: str) -> Answer:
    """Collect the view of a trace.

    Args:
        source: Asks the API.
        trace_id: 32 hex digits.

    Raises:
        AskError: The API refused, or no span of it is stored.
    """
    found = await source.get(f"traces/{quote(trace_id, safe='')}/view", limit=MOST)
    view = found["view"]
    rows = [(span, *bar(span, view["duration_ns"])) for span in view["spans"]]
    return {
        "trace_id": found["trace_id"],
        "view": view,
        "rows": rows,
        "agents": agent_lines(view["spans"]),
        "evaluations": found["evaluations"],
    }


def bar(span: Answer, duration_ns: int) -> tuple[float, float]:
    """Left end and width of a span's bar, both in percent of the trace."""
    whole = max(duration_ns, 1)  # a clock that ran backwards makes no negative bar
    left = min(max(span["after_ns"] / whole * 100, 0), 100 - _LEAST)
    return left, min(max(span["duration_ns"] / whole * 100, _LEAST), 100 - left)


def agent_lines(spans: Iterable[Answer]) -> list[AgentLine]:
    """Sum up what each agent did, in the order in which they began.

    A span that names no agent belongs to the one above it that does.
    """
    agents: dict[str, list[Answer]] = {}
    above: list[str] = []
    for span in spans:
        del above[span["depth"] :]
        name = span["agent"] or (above[-1] if above else "")
        above.append(name)
        if name or span["model"] or span["tool"]:
            agents.setdefault(name, []).append(span)
    return [_line(name, its) for name, its in agents.items()]


def _line(name: str, spans: Sequence[Answer]) -> AgentLine:
    tools: dict[str, int] = {}
    for span in spans:
        if span["tool"]:
            tools[span["tool"]] = tools.get(span["tool"], 0) + 1
    models = [span for span in spans if span["model"]]
    return AgentLine(
        name=name,
        calls=len(models),
        tools=tuple(tools.items()),
        tokens=sum((each["input_tokens"] or 0) + (each["output_tokens"] or 0) for each in models),
        errors=sum(bool(each["error"]) or each["status"] == "error" for each in spans),
    )
