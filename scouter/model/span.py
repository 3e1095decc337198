"""The one span of the whole project; every wire format becomes this at the rim."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias, TypeVar, dataclass_transform

from scouter.model.attributes import MORE

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """Make a dataclass with slots and keywords, frozen for the type checker only.

    An instance that is frozen at run time, too, takes three times as long to make: each field goes
    through `object.__setattr__`, 5 µs for the 16 fields of a span.
    """
    return dataclass(slots=True, kw_only=True)(cls)


AttributeValue: TypeAlias = (
    str
    | bool
    | int
    | float
    | bytes
    | tuple["AttributeValue", ...]
    | Mapping[str, "AttributeValue"]
    | None
)
"""An OTLP AnyValue in Python; arrays are tuples, so that equal spans compare equal."""

Attributes: TypeAlias = Mapping[str, AttributeValue]

MAX_DEPTH: Final = 94
"""Levels inside one attribute, `ARRAY_LEVELS` for an array and `LIST_LEVELS` for a key/value list:
protobuf, as which spans are sent and stored, has 100, of which six are around an attribute of an
event."""
ARRAY_LEVELS: Final = 2
LIST_LEVELS: Final = 3
CUT: Final = MORE
"""Stands in an attribute for what was left out."""


def _no_attributes() -> Attributes:
    return {}


class SpanKind(IntEnum):
    """OTLP's numbers."""

    UNSPECIFIED = 0
    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


class StatusCode(IntEnum):
    """OTLP's numbers."""

    UNSET = 0
    OK = 1
    ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """Process that made a span. Spans of one request share one object."""

    attributes: Attributes = field(default_factory=_no_attributes)

    @property
    def service_name(self) -> str:
        """`service.name`, or the empty text."""
        return _text(self.attributes.get("service.name"))

    @property
    def service_version(self) -> str:
        """`service.version`, or the empty text."""
        return _text(self.attributes.get("service.version"))

    @property
    def environment(self) -> str:
        """`deployment.environment.name` (or its older name), or the empty text."""
        attributes = self.attributes
        return _text(
            attributes.get("deployment.environment.name")
            or attributes.get("deployment.environment")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The instrumentation library that made a span."""

    name: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened at one moment of a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=_no_attributes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanLink:
    """A pointer from a span to another one, maybe of another trace."""

    trace_id: str
    span_id: str
    attributes: Attributes = field(default_factory=_no_attributes)


NO_RESOURCE: Final = Resource()
NO_SCOPE: Final = Scope()


@struct
class Span:
    """One finished operation.

    Ids are lower-case hex (32 and 16 digits); times are nanoseconds since the epoch. Two spans
    are the same span if trace id and span id are equal.
    """

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    """None for a root."""
    name: str
    kind: SpanKind = SpanKind.INTERNAL
    start_ns: int
    end_ns: int
    status: StatusCode = StatusCode.UNSET
    status_message: str = ""
    attributes: Attributes = field(default_factory=_no_attributes)
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanLink, ...] = ()
    resource: Resource = field(default=NO_RESOURCE)
    scope: Scope = field(default=NO_SCOPE)
    trace_state: str = ""
    parent_is_remote: bool | None = None
    """True if the parent is another process', False if not, None if the sender did not say."""
    dropped_count: int = 0
    """Attributes and events, those of events included, that the sender had and did not send."""

    @property
    def duration_ns(self) -> int:
        """End minus start; 0 where a clock ran backwards."""
        return max(0, self.end_ns - self.start_ns)

    @property
    def duration_ms(self) -> float:
        """End minus start in milliseconds."""
        return self.duration_ns / 1e6

    @property
    def span_name(self) -> str:
        """The name, in the word of the original's spans."""
        return self.name

    @property
    def span_kind(self) -> str:
        """The kind as OpenTelemetry's word, such as `SERVER`."""
        return self.kind.name

    @property
    def service_name(self) -> str:
        """`service.name` of the resource, or the empty text."""
        return self.resource.service_name


def _text(value: AttributeValue) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
