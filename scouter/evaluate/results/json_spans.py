"""Spans as a field of a stored result: OTLP-JSON in the file, sorted by start time."""

from collections.abc import Iterable, Sequence
from typing import Annotated, cast

from pydantic import GetCoreSchemaHandler, JsonValue
from pydantic_core import CoreSchema, core_schema

from scouter.errors import DataError
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_otlp_json
from scouter.model.span import Span


def _read_spans(value: object) -> tuple[Span, ...]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if isinstance(value, tuple) or any(isinstance(item, Span) for item in items):
        return by_start(cast("Sequence[Span]", items))
    decoded = spans_from_otlp_json(cast(object, value))
    if decoded.rejected:
        at, why = decoded.rejected[0]
        raise DataError(f"span {at}: {why}")
    return by_start(decoded.spans)


def by_start(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans by start time, and those of one time by their ids."""
    return tuple(sorted(spans, key=lambda span: (span.start_ns, span.trace_id, span.span_id)))


def _write_spans(spans: tuple[Span, ...]) -> dict[str, JsonValue]:
    return spans_to_otlp_json(spans)


class _AsOtlpJson:
    """Tells pydantic how spans are read and written, so that it does not look into them."""

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            _read_spans,
            serialization=core_schema.plain_serializer_function_ser_schema(_write_spans),
        )


JsonSpans = Annotated[tuple[Span, ...], _AsOtlpJson()]
"""Spans as a field of a model that can be stored; in the file they are OTLP-JSON."""
