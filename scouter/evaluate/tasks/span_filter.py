"""Span filters: the spans of a trace that an assertion looks at."""

from collections.abc import Iterable, Mapping
from enum import Enum, StrEnum
from typing import ClassVar, Final, Literal, Self, cast

from pydantic import Field, PrivateAttr, field_validator, model_validator

from scouter.evaluate.tasks.base import JsonInput, Tagged


class SpanStatus(StrEnum):
    """A span's status."""

    Ok = "Ok"
    Error = "Error"
    Unset = "Unset"


KindName = Literal["Internal", "Server", "Client", "Producer", "Consumer", "Unspecified"]

LEVEL_LIMIT: Final = 64
"""Filters inside filters; a profile may come from anybody."""
Milliseconds = Field(default=None, ge=0, allow_inf_nan=False)


class SpanFilter(Tagged):
    """Selects spans of a trace; made with the functions below.

    Relations follow the spans' parents inside their own trace: `child_of(f)` are the spans whose
    parent `f` selects, `parent_of(f)` those with a child that it selects; `descendant_of` and
    `ancestor_of` look at all levels. A span is never its own relative. A parent that is not among
    the spans is none, and of spans that name each other as parents the first has none.

    `sequence` selects runs of spans and not single spans: it can be counted and tested for
    existence, and cannot be joined with other filters.

    Cost: linear in the spans, whatever is joined and however deep.
    """

    ByName: ClassVar[type["ByNameFilter"]]
    ByNamePattern: ClassVar[type["ByNamePatternFilter"]]
    WithAttribute: ClassVar[type["WithAttributeFilter"]]
    WithAttributeValue: ClassVar[type["WithAttributeValueFilter"]]
    WithStatus: ClassVar[type["WithStatusFilter"]]
    WithDuration: ClassVar[type["WithDurationFilter"]]
    Sequence: ClassVar[type["SequenceFilter"]]
    And: ClassVar[type["AndFilter"]]
    Or: ClassVar[type["OrFilter"]]
    Not: ClassVar[type["NotFilter"]]
    ByKind: ClassVar[type["ByKindFilter"]]
    ByService: ClassVar[type["ByServiceFilter"]]
    ByScope: ClassVar[type["ByScopeFilter"]]
    WithEvent: ClassVar[type["WithEventFilter"]]
    WithEventAttribute: ClassVar[type["WithEventAttributeFilter"]]
    WithEventAttributeValue: ClassVar[type["WithEventAttributeValueFilter"]]
    ChildOf: ClassVar[type["ChildOfFilter"]]
    ParentOf: ClassVar[type["ParentOfFilter"]]
    DescendantOf: ClassVar[type["DescendantOfFilter"]]
    AncestorOf: ClassVar[type["AncestorOfFilter"]]

    _levels: int = PrivateAttr(default=1)

    @model_validator(mode="after")
    def _not_too_deep(self) -> Self:
        inner = self.inner()
        if inner:
            self._levels = 1 + max(part._levels for part in inner)
            _check_levels(self._levels)
        return self

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a filter, or its wire form.

        Raises:
            ValidationError: Another tag, more than one, or wrong arguments (pydantic's).
            ValueError: Not an object with exactly one key, or nested too deep.
        """
        if isinstance(value, Mapping):
            wire = cast("Mapping[str, object]", value)
            _check_levels(_wire_levels(wire))
            return super().parse(wire)
        return super().parse(value)

    def inner(self) -> "tuple[SpanFilter, ...]":
        """The filters that this one is made of."""
        return ()

    @staticmethod
    def by_name(name: str) -> "ByNameFilter":
        """Spans with exactly this name."""
        return ByNameFilter(name=name)

    @staticmethod
    def by_name_pattern(pattern: str) -> "ByNamePatternFilter":
        """Spans in whose name the regular expression (RE2's syntax) is found."""
        return ByNamePatternFilter(pattern=pattern)

    @staticmethod
    def with_attribute(key: str) -> "WithAttributeFilter":
        """Spans that have the attribute."""
        return WithAttributeFilter(key=key)

    @staticmethod
    def with_attribute_value(key: str, value: object) -> "WithAttributeValueFilter":
        """Spans whose attribute equals the value: deep, typed, 150 equals 150.0."""
        return WithAttributeValueFilter.model_validate({"key": key, "value": value})

    @staticmethod
    def with_status(status: SpanStatus) -> "WithStatusFilter":
        """Spans with the status."""
        return WithStatusFilter(status=status)

    @staticmethod
    def with_duration(
        min_ms: float | None = None, max_ms: float | None = None
    ) -> "WithDurationFilter":
        """Spans that took at least `min_ms` and at most `max_ms` milliseconds."""
        return WithDurationFilter(min_ms=min_ms, max_ms=max_ms)

    @staticmethod
    def sequence(names: Iterable[str]) -> "SequenceFilter":
        """Runs of spans that follow each other in time order with exactly these names."""
        return SequenceFilter(names=list(names))

    @staticmethod
    def by_kind(kind: KindName | Enum) -> "ByKindFilter":
        """Spans of the OpenTelemetry kind: its name in any case, or `SpanKind`."""
        return ByKindFilter.model_validate({"span_kind": kind})

    @staticmethod
    def by_service(name: str) -> "ByServiceFilter":
        """Spans that the service made (`service.name`)."""
        return ByServiceFilter(name=name)

    @staticmethod
    def by_scope(name: str, version: str | None = None) -> "ByScopeFilter":
        """Spans that the instrumentation library made, in this version or in any."""
        return ByScopeFilter(name=name, version=version)

    @staticmethod
    def with_event(name: str) -> "WithEventFilter":
        """Spans during which an event of the name happened (`exception`, say)."""
        return WithEventFilter(name=name)

    @staticmethod
    def with_event_attribute(name: str, key: str) -> "WithEventAttributeFilter":
        """Spans with an event of the name that has the attribute."""
        return WithEventAttributeFilter(name=name, key=key)

    @staticmethod
    def with_event_attribute_value(
        name: str, key: str, value: object
    ) -> "WithEventAttributeValueFilter":
        """Spans with an event of the name whose attribute equals the value."""
        return WithEventAttributeValueFilter.model_validate(
            {"name": name, "key": key, "value": value}
        )

    @staticmethod
    def child_of(filter: "SpanFilter") -> "ChildOfFilter":
        """Spans whose parent the filter selects."""
        return ChildOfFilter(filter=filter)

    @staticmethod
    def parent_of(filter: "SpanFilter") -> "ParentOfFilter":
        """Spans with a child that the filter selects."""
        return ParentOfFilter(filter=filter)

    @staticmethod
    def ancestor_of(filter: "SpanFilter") -> "AncestorOfFilter":
        """Spans with a descendant (child, grandchild, …) that the filter selects."""
        return AncestorOfFilter(filter=filter)

    @staticmethod
    def descendant_of(filter: "SpanFilter") -> "DescendantOfFilter":
        """Spans with an ancestor (parent, grandparent, …) that the filter selects."""
        return DescendantOfFilter(filter=filter)

    def and_(self, other: "SpanFilter") -> "AndFilter":
        """Spans that both filters select."""
        return AndFilter(filters=[*_parts(self, AndFilter), *_parts(other, AndFilter)])

    def or_(self, other: "SpanFilter") -> "OrFilter":
        """Spans that at least one of the filters selects."""
        return OrFilter(filters=[*_parts(self, OrFilter), *_parts(other, OrFilter)])

    def not_(self) -> "NotFilter":
        """Spans that the filter does not select."""
        return NotFilter(filter=self)


class ByNameFilter(SpanFilter):
    """Spans with exactly this name."""

    kind = "ByName"
    name: str


class ByNamePatternFilter(SpanFilter):
    """Spans in whose name a regular expression is found."""

    kind = "ByNamePattern"
    pattern: str


class WithAttributeFilter(SpanFilter):
    """Spans that have an attribute."""

    kind = "WithAttribute"
    key: str


class WithAttributeValueFilter(SpanFilter):
    """Spans whose attribute equals a value, as the operator Equals compares."""

    kind = "WithAttributeValue"
    key: str
    value: JsonInput


class WithStatusFilter(SpanFilter):
    """Spans with a status."""

    kind = "WithStatus"
    status: SpanStatus


class WithDurationFilter(SpanFilter):
    """Spans that took between two times, both included, in milliseconds."""

    kind = "WithDuration"
    min_ms: float | None = Milliseconds
    max_ms: float | None = Milliseconds

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.min_ms is None and self.max_ms is None:
            raise ValueError("give min_ms, max_ms or both")
        if self.min_ms is not None and self.max_ms is not None and self.min_ms > self.max_ms:
            raise ValueError(f"min_ms {self.min_ms:g} is above max_ms {self.max_ms:g}")
        return self


class SequenceFilter(SpanFilter):
    """Runs of spans that follow each other in time order with exactly these names."""

    kind = "Sequence"
    names: list[str] = Field(min_length=1)


class AndFilter(SpanFilter):
    """Spans that all filters select."""

    kind = "And"
    filters: list[SpanFilter] = Field(min_length=1)

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filters that are joined."""
        return tuple(self.filters)


class OrFilter(SpanFilter):
    """Spans that at least one filter selects."""

    kind = "Or"
    filters: list[SpanFilter] = Field(min_length=1)

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filters that are joined."""
        return tuple(self.filters)


class NotFilter(SpanFilter):
    """Spans that a filter does not select."""

    kind = "Not"
    filter: SpanFilter

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filter inside."""
        return (self.filter,)


class ByKindFilter(SpanFilter):
    """Spans of a kind."""

    kind = "ByKind"
    span_kind: KindName

    @field_validator("span_kind", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        name = value.name if isinstance(value, Enum) else value
        return name.capitalize() if isinstance(name, str) else name


class ByServiceFilter(SpanFilter):
    """Spans that a service made."""

    kind = "ByService"
    name: str


class ByScopeFilter(SpanFilter):
    """Spans that an instrumentation library made."""

    kind = "ByScope"
    name: str
    version: str | None = None


class WithEventFilter(SpanFilter):
    """Spans during which an event happened."""

    kind = "WithEvent"
    name: str


class WithEventAttributeFilter(SpanFilter):
    """Spans with an event that has an attribute."""

    kind = "WithEventAttribute"
    name: str
    key: str


class WithEventAttributeValueFilter(SpanFilter):
    """Spans with an event whose attribute equals a value, as the operator Equals compares."""

    kind = "WithEventAttributeValue"
    name: str
    key: str
    value: JsonInput


class ChildOfFilter(SpanFilter):
    """Spans whose parent a filter selects."""

    kind = "ChildOf"
    filter: SpanFilter

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filter inside."""
        return (self.filter,)


class ParentOfFilter(SpanFilter):
    """Spans with a child that a filter selects."""

    kind = "ParentOf"
    filter: SpanFilter

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filter inside."""
        return (self.filter,)


class DescendantOfFilter(SpanFilter):
    """Spans with an ancestor that a filter selects."""

    kind = "DescendantOf"
    filter: SpanFilter

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filter inside."""
        return (self.filter,)


class AncestorOfFilter(SpanFilter):
    """Spans with a descendant that a filter selects."""

    kind = "AncestorOf"
    filter: SpanFilter

    def inner(self) -> tuple[SpanFilter, ...]:
        """The filter inside."""
        return (self.filter,)


def _parts(filter: SpanFilter, joined: type[AndFilter] | type[OrFilter]) -> list[SpanFilter]:
    """Take a filter of the same join apart, so that chains stay flat."""
    return filter.filters if isinstance(filter, joined) else [filter]


def _check_levels(levels: int) -> None:
    if levels > LEVEL_LIMIT:
        raise ValueError(f"filters are nested more than {LEVEL_LIMIT} levels deep")


def _wire_levels(value: Mapping[str, object]) -> int:
    """Count the levels of a wire form before any is read; stops counting above the limit."""
    levels = 0
    layer: list[Mapping[str, object]] = [value]
    while layer and levels <= LEVEL_LIMIT:
        levels += 1
        below: list[Mapping[str, object]] = []
        for wire in layer:
            for arguments in wire.values():
                if isinstance(arguments, Mapping):
                    below.extend(_wires_inside(cast("Mapping[str, object]", arguments)))
        layer = below
    return levels


def _wires_inside(arguments: Mapping[str, object]) -> list[Mapping[str, object]]:
    joined = arguments.get("filters")
    parts = [*cast("list[object]", joined)] if isinstance(joined, list) else []
    parts.append(arguments.get("filter"))
    return [cast("Mapping[str, object]", part) for part in parts if isinstance(part, Mapping)]
