"""SpanKind: OpenTelemetry's kinds, by their names there and by the original's."""

from collections.abc import Iterator
from typing import Final

from opentelemetry import trace


class _Kinds(type):
    """Answers as OpenTelemetry's enum does, whose members cannot get further names."""

    def __call__(cls, value: object) -> trace.SpanKind:  # pyright: ignore[reportIncompatibleMethodOverride] - as an enum's class
        return trace.SpanKind(value)

    def __getitem__(cls, name: str) -> trace.SpanKind:
        return trace.SpanKind[name.upper()]

    def __iter__(cls) -> Iterator[trace.SpanKind]:
        return iter(trace.SpanKind)

    def __len__(cls) -> int:
        return len(trace.SpanKind)

    def __contains__(cls, value: object) -> bool:
        return value in trace.SpanKind

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, trace.SpanKind)


class SpanKind(metaclass=_Kinds):
    """The role of a span in a request between processes; each member is OpenTelemetry's own."""

    INTERNAL: Final = trace.SpanKind.INTERNAL
    SERVER: Final = trace.SpanKind.SERVER
    CLIENT: Final = trace.SpanKind.CLIENT
    PRODUCER: Final = trace.SpanKind.PRODUCER
    CONSUMER: Final = trace.SpanKind.CONSUMER
    Internal: Final = trace.SpanKind.INTERNAL
    Server: Final = trace.SpanKind.SERVER
    Client: Final = trace.SpanKind.CLIENT
    Producer: Final = trace.SpanKind.PRODUCER
    Consumer: Final = trace.SpanKind.CONSUMER
