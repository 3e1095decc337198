"""Which spans of a trace an assertion looks at."""

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from scouter.evaluate.operators.text import PATTERN_LIMIT
from scouter.evaluate.tasks.json_input import JsonInput
from scouter.evaluate.tasks.tagged import Tagged


class SpanStatus(StrEnum):
    """A span's status."""

    Ok = "Ok"
    Error = "Error"
    Unset = "Unset"


KindName = Literal["Internal", "Server", "Client", "Producer", "Consumer", "Unspecified"]


class SpanFilter(Tagged):
    """Selects spans of a trace; made with the functions below.

    `sequence` selects runs of spans and not single spans: it can be counted and tested for
    existence, and cannot be joined with other filters.
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
    ChildOf: ClassVar[type["ChildOfFilter"]]
    DescendantOf: ClassVar[type["DescendantOfFilter"]]

    @staticmethod
    def by_name(name: str) -> "ByNameFilter":
        """Spans with exactly this name."""
        return ByNameFilter(name=name)

    @staticmethod
    def by_name_pattern(pattern: str) -> "ByNamePatternFilter":
        """Spans in whose name the regular expression is found."""
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
    def by_kind(kind: KindName) -> "ByKindFilter":
        """Spans of the OpenTelemetry kind."""
        return ByKindFilter(span_kind=kind)

    @staticmethod
    def child_of(filter: "SpanFilter") -> "ChildOfFilter":
        """Spans whose parent the filter selects."""
        return ChildOfFilter(filter=filter)

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
    pattern: str = Field(max_length=PATTERN_LIMIT)


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
    min_ms: float | None = None
    max_ms: float | None = None

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.min_ms is None and self.max_ms is None:
            raise ValueError("give min_ms, max_ms or both")
        return self


class SequenceFilter(SpanFilter):
    """Runs of spans that follow each other in time order with exactly these names."""

    kind = "Sequence"
    names: list[str] = Field(min_length=1)


class AndFilter(SpanFilter):
    """Spans that all filters select."""

    kind = "And"
    filters: list[SpanFilter] = Field(min_length=1)


class OrFilter(SpanFilter):
    """Spans that at least one filter selects."""

    kind = "Or"
    filters: list[SpanFilter] = Field(min_length=1)


class NotFilter(SpanFilter):
    """Spans that a filter does not select."""

    kind = "Not"
    filter: SpanFilter


class ByKindFilter(SpanFilter):
    """Spans of a kind."""

    kind = "ByKind"
    span_kind: KindName


class ChildOfFilter(SpanFilter):
    """Spans whose parent a filter selects."""

    kind = "ChildOf"
    filter: SpanFilter


class DescendantOfFilter(SpanFilter):
    """Spans with an ancestor that a filter selects."""

    kind = "DescendantOf"
    filter: SpanFilter


def _parts(filter: SpanFilter, joined: type[AndFilter] | type[OrFilter]) -> list[SpanFilter]:
    """Take a filter of the same join apart, so that chains stay flat."""
    return filter.filters if isinstance(filter, joined) else [filter]
