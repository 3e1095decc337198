"""Span filters: the spans of a trace that an assertion looks at."""

from contextvars import ContextVar
from enum import Enum, StrEnum
from typing import ClassVar, Final, Literal, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from scouter.evaluate.tasks.base import JsonInput, Names, Tagged


class SpanStatus(StrEnum):
    """A span's status."""

    Ok = "Ok"
    Error = "Error"
    Unset = "Unset"


KindName = Literal["Internal", "Server", "Client", "Producer", "Consumer", "Unspecified"]

LEVEL_LIMIT: Final = 64
"""Filters inside filters; a profile may come from anybody."""
_LEVEL: Final[ContextVar[int]] = ContextVar("scouter_filter_level", default=0)
"""Level of the filter that is being read."""
Milliseconds = Field(default=None, ge=0, allow_inf_nan=False)


class SpanFilter(Tagged):
    """Selects spans of a trace; made with the functions that it has.

    Relations follow the spans' parents inside their own trace: `child_of(f)` are the spans whose
    parent `f` selects, `parent_of(f)` those with a child that it selects; `descendant_of` and
    `ancestor_of` look at all levels. A span is never its own relative. A parent that is not among
    the spans is none, and of spans that name each other as parents the first has none.

    `sequence` selects runs of spans and not single spans: it can be counted and tested for
    existence, and cannot be joined with other filters.

    Cost: linear in the spans, whatever is joined and however deep.
    """

    ByName: ClassVar[type["ByNameFilter"]]
    by_name: ClassVar[type["ByNameFilter"]]
    ByNamePattern: ClassVar[type["ByNamePatternFilter"]]
    by_name_pattern: ClassVar[type["ByNamePatternFilter"]]
    WithAttribute: ClassVar[type["WithAttributeFilter"]]
    with_attribute: ClassVar[type["WithAttributeFilter"]]
    WithAttributeValue: ClassVar[type["WithAttributeValueFilter"]]
    WithStatus: ClassVar[type["WithStatusFilter"]]
    with_status: ClassVar[type["WithStatusFilter"]]
    WithDuration: ClassVar[type["WithDurationFilter"]]
    with_duration: ClassVar[type["WithDurationFilter"]]
    Sequence: ClassVar[type["SequenceFilter"]]
    sequence: ClassVar[type["SequenceFilter"]]
    And: ClassVar[type["AndFilter"]]
    Or: ClassVar[type["OrFilter"]]
    Not: ClassVar[type["NotFilter"]]
    ByKind: ClassVar[type["ByKindFilter"]]
    ByService: ClassVar[type["ByServiceFilter"]]
    by_service: ClassVar[type["ByServiceFilter"]]
    ByScope: ClassVar[type["ByScopeFilter"]]
    by_scope: ClassVar[type["ByScopeFilter"]]
    WithEvent: ClassVar[type["WithEventFilter"]]
    with_event: ClassVar[type["WithEventFilter"]]
    WithEventAttribute: ClassVar[type["WithEventAttributeFilter"]]
    with_event_attribute: ClassVar[type["WithEventAttributeFilter"]]
    WithEventAttributeValue: ClassVar[type["WithEventAttributeValueFilter"]]
    ChildOf: ClassVar[type["ChildOfFilter"]]
    child_of: ClassVar[type["ChildOfFilter"]]
    ParentOf: ClassVar[type["ParentOfFilter"]]
    parent_of: ClassVar[type["ParentOfFilter"]]
    DescendantOf: ClassVar[type["DescendantOfFilter"]]
    descendant_of: ClassVar[type["DescendantOfFilter"]]
    AncestorOf: ClassVar[type["AncestorOfFilter"]]
    ancestor_of: ClassVar[type["AncestorOfFilter"]]

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
        token = _LEVEL.set(_LEVEL.get() + 1)
        try:
            _check_levels(_LEVEL.get())
            return super().parse(value)
        finally:
            _LEVEL.reset(token)

    def inner(self) -> "tuple[SpanFilter, ...]":
        """The filters that this one is made of."""
        parts: tuple[object, ...] = (getattr(self, "filter", None), *getattr(self, "filters", ()))
        return tuple(part for part in parts if isinstance(part, SpanFilter))

    @staticmethod
    def with_attribute_value(key: str, value: object) -> "WithAttributeValueFilter":
        """Spans whose attribute equals the value: deep, typed, 150 equals 150.0."""
        return WithAttributeValueFilter.model_validate({"key": key, "value": value})

    @staticmethod
    def by_kind(kind: KindName | Enum) -> "ByKindFilter":
        """Spans of the OpenTelemetry kind: its name in any case, or `SpanKind`."""
        return ByKindFilter.model_validate({"span_kind": kind})

    @staticmethod
    def with_event_attribute_value(
        name: str, key: str, value: object
    ) -> "WithEventAttributeValueFilter":
        """Spans with an event of the name whose attribute equals the value."""
        return WithEventAttributeValueFilter.model_validate(
            {"name": name, "key": key, "value": value}
        )

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

    name: str


class ByNamePatternFilter(SpanFilter):
    """Spans in whose name a regular expression (RE2's syntax) is found."""

    pattern: str


class WithAttributeFilter(SpanFilter):
    """Spans that have an attribute."""

    key: str


class WithAttributeValueFilter(SpanFilter):
    """Spans whose attribute equals a value, as the operator Equals compares."""

    key: str
    value: JsonInput


class WithStatusFilter(SpanFilter):
    """Spans with a status."""

    status: SpanStatus


class WithDurationFilter(SpanFilter):
    """Spans that took at least `min_ms` and at most `max_ms` milliseconds."""

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

    names: Names = Field(min_length=1)


class AndFilter(SpanFilter):
    """Spans that all filters select."""

    filters: list[SpanFilter] = Field(min_length=1)


class OrFilter(SpanFilter):
    """Spans that at least one filter selects."""

    filters: list[SpanFilter] = Field(min_length=1)


class NotFilter(SpanFilter):
    """Spans that a filter does not select."""

    filter: SpanFilter


class ByKindFilter(SpanFilter):
    """Spans of a kind."""

    span_kind: KindName

    @field_validator("span_kind", mode="before")
    @classmethod
    def _any_case(cls, value: object) -> object:
        name = value.name if isinstance(value, Enum) else value
        return name.capitalize() if isinstance(name, str) else name


class ByServiceFilter(SpanFilter):
    """Spans that a service made (`service.name`)."""

    name: str


class ByScopeFilter(SpanFilter):
    """Spans that an instrumentation library made, in one version or in any."""

    name: str
    version: str | None = None


class WithEventFilter(SpanFilter):
    """Spans during which an event happened (`exception`, say)."""

    name: str


class WithEventAttributeFilter(SpanFilter):
    """Spans with an event that has an attribute."""

    name: str
    key: str


class WithEventAttributeValueFilter(SpanFilter):
    """Spans with an event whose attribute equals a value, as the operator Equals compares."""

    name: str
    key: str
    value: JsonInput


class ChildOfFilter(SpanFilter):
    """Spans whose parent a filter selects."""

    filter: SpanFilter


class ParentOfFilter(SpanFilter):
    """Spans with a child that a filter selects."""

    filter: SpanFilter


class DescendantOfFilter(SpanFilter):
    """Spans with an ancestor (parent, grandparent, …) that a filter selects."""

    filter: SpanFilter


class AncestorOfFilter(SpanFilter):
    """Spans with a descendant (child, grandchild, …) that a filter selects."""

    filter: SpanFilter


def _parts(filter: SpanFilter, joined: type[AndFilter] | type[OrFilter]) -> list[SpanFilter]:
    """Take a filter of the same join apart, so that chains stay flat."""
    return filter.filters if isinstance(filter, joined) else [filter]


def _check_levels(levels: int) -> None:
    if levels > LEVEL_LIMIT:
        raise ValueError(f"filters are nested more than {LEVEL_LIMIT} levels deep")
