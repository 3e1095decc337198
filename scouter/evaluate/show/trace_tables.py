"""The spans of one scenario as tables for people."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from scouter.evaluate.show.console import emit
from scouter.evaluate.show.trace_view import view_trace
from scouter.model.span import AttributeValue, Span

MAX_VALUE_CHARS: Final = 200


def print_traces(spans: Sequence[Span]) -> None:
    """Print spans as trees, one per trace, each level indented."""
    table = _table("Spans", "Span", "Kind", "Status", "Start (ms)", "Duration (ms)", "Span ID")
    for span in view_trace(spans).spans:
        table.add_row(
            Text("  " * span.depth + span.name),
            span.kind,
            Text(span.status, style="red" if span.status == "error" else ""),
            f"{span.after_ns / 1e6:.3f}",
            f"{span.duration_ns / 1e6:.3f}",
            span.span_id,
        )
    emit(table)


def print_span_detail(spans: Sequence[Span]) -> None:
    """Print ids, times, attributes and events of each span; long values are cut."""
    for span in spans:
        table = _table(f"Span {span.name}", "Field", "Value")
        for name, value in _fields(span):
            table.add_row(Text(name), Text(_cut(value)))
        emit(table)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, overflow="fold", justify="right" if "(ms)" in name else "left")
    return table


def _fields(span: Span) -> Iterator[tuple[str, str]]:
    yield "trace id", span.trace_id
    yield "span id", span.span_id
    yield "parent", span.parent_span_id or "-"
    yield "kind", span.kind.name.lower()
    yield "status", f"{span.status.name.lower()} {span.status_message}".strip()
    yield "start (ns)", str(span.start_ns)
    yield "duration (ms)", f"{span.duration_ns / 1e6:.3f}"
    for name, value in span.attributes.items():
        yield name, _shown(value)
    for event in span.events:
        yield (
            f"event {event.name}",
            json.dumps(
                {name: _shown(value) for name, value in event.attributes.items()},
                ensure_ascii=False,
            ),
        )


def _shown(value: AttributeValue) -> str:
    return value if isinstance(value, str) else repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"
