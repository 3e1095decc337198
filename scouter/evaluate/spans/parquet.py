"""Spans from the Parquet files of a collector: `scouter collector export`, and a fleet's past."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import orjson

from scouter.errors import ConfigError, DataError
from scouter.model.json_value import plain_texts
from scouter.model.span import (
    NO_RESOURCE,
    NO_SCOPE,
    Attributes,
    AttributeValue,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

MAGIC: Final = b"PAR1"
"""Begins every Parquet file."""
_COLUMNS: Final = (
    "trace_id", "span_id", "parent_span_id", "name", "kind", "start_ns", "end_ns", "status",
    "status_message", "attributes", "events", "links", "resource", "scope_name", "scope_version",
    "trace_state", "parent_is_remote", "dropped_count",
)  # fmt: skip
_NO_EVENTS: Final = "[]"
_KINDS: Final = {each.value: each for each in SpanKind}
_STATUSES: Final = {each.value: each for each in StatusCode}
T = TypeVar("T")


def parquet_spans(
    path: Path, traces: Collection[str] | None = None, space: str | None = None
) -> Iterator[Span]:
    """Read the spans of a file, as far as a row group at a time is in memory.

    Values that JSON has no word for (bytes, infinities) are what `to_json_value` makes of them.

    Args:
        path: The file.
        traces: Only spans of these traces; row groups without any of them are passed over, most
            of them unread where the file is in order of traces.
        space: Only spans of this space.

    Raises:
        ConfigError: pyarrow is not installed.
        DataError: It is no such file, or broken.
        OSError: It cannot be read.

    Cost: linear; about 20 µs for a small span.
    """
    pa = pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            missing = [name for name in _COLUMNS if name not in names]
            if missing:
                raise DataError(f"no file of spans: it has no column {missing[0]}")
            for number in range(file.num_row_groups):
                retained = None
                if traces is not None or space is not None:
                    retained = _wanted_rows(file, number, traces, space)
                    if not any(retained):
                        continue
                table = file.read_row_group(number, columns=list(_COLUMNS))
                if retained is not None:
                    table = table.filter(pa.array(retained, pa.bool_()))
                yield from _spans(table)
    except (pa.ArrowException, ValueError, TypeError, KeyError) as error:
        raise DataError(f"broken Parquet: {error}") from error


def pyarrow() -> Any:  # noqa: ANN401 its types are not complete
    """The library that reads Parquet.

    Raises:
        ConfigError: It is not installed.
    """
    try:
        import_module("pyarrow.parquet")
        return import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(
            "Parquet needs pyarrow, which is not installed: pip install pyarrow"
        ) from error


def _wanted_rows(
    file: Any,  # noqa: ANN401 as above
    number: int,
    traces: Collection[str] | None,
    space: str | None,
) -> list[bool]:
    """Which spans of a row group are wanted; none where its statistics say that none is."""
    if traces is not None:
        at = file.schema_arrow.get_field_index("trace_id")
        known = file.metadata.row_group(number).column(at).statistics
        is_known = known is not None and known.has_min_max
        if not traces or (is_known and not _overlap(known, traces)):
            return []
    table = file.read_row_group(number, columns=["trace_id", "space"])
    pairs = zip(table["trace_id"].to_pylist(), table["space"].to_pylist(), strict=True)
    return [
        (traces is None or trace_id in traces) and space in (None, of) for trace_id, of in pairs
    ]


def _overlap(known: Any, traces: Collection[str]) -> bool:  # noqa: ANN401 as above
    return known.min <= max(traces) and min(traces) <= known.max


def _spans(table: Any) -> Iterator[Span]:  # noqa: ANN401 as above
    columns = [table[name].to_pylist() for name in _COLUMNS]
    resources = _once(lambda text: Resource(attributes=_object(text)))
    for (
        trace_id, span_id, parent, name, kind, start_ns, end_ns, status, message, attributes,
        events, links, resource, scope, version, state, is_remote, count,
    ) in zip(*columns, strict=True):  # fmt: skip
        yield Span(
            trace_id=trace_id,
            span_id=span_id,
            parent_span_id=parent,
            name=name,
            kind=_KINDS.get(kind, SpanKind.UNSPECIFIED),
            start_ns=start_ns,
            end_ns=end_ns,
            status=_STATUSES.get(status, StatusCode.UNSET),
            status_message=message,
            attributes=_object(attributes),
            events=() if events == _NO_EVENTS else tuple(_events(events)),
            links=() if links == _NO_EVENTS else tuple(_links(links)),
            resource=NO_RESOURCE if resource == "{}" else resources(resource),
            scope=Scope(name=scope, version=version) if scope or version else NO_SCOPE,
            trace_state=state,
            parent_is_remote=is_remote,
            dropped_count=count,
        )


def _once(make: Callable[[str], T]) -> Callable[[str], T]:
    """Make something of each text once."""
    made: dict[str, T] = {}

    def one(text: str) -> T:
        if text not in made:
            made[text] = make(text)
        return made[text]

    return one


def _events(text: str) -> Iterator[SpanEvent]:
    for name, time_ns, attributes in cast("list[Any]", load_json(text)):
        yield SpanEvent(name=name, time_ns=time_ns, attributes=_attributes(attributes))


def _links(text: str) -> Iterator[SpanLink]:
    for trace_id, span_id, attributes in cast("list[Any]", load_json(text)):
        yield SpanLink(trace_id=trace_id, span_id=span_id, attributes=_attributes(attributes))


def _object(text: str) -> Attributes:
    return _attributes(cast("Mapping[str, Any]", load_json(text)))


def _attributes(values: Mapping[str, Any]) -> Attributes:
    return {
        key: _value(value) if isinstance(value, list | dict) else value
        for key, value in values.items()
    }


def _value(value: Any) -> AttributeValue:  # noqa: ANN401 any JSON
    if isinstance(value, list):
        return tuple(_value(each) for each in cast("list[Any]", value))
    return _attributes(cast("Mapping[str, Any]", value)) if isinstance(value, dict) else value


def load_json(text: str) -> object:
    """Read a column of JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:  # half characters, or integers beyond 64 bits
        import json

        return plain_texts(json.loads(text))
