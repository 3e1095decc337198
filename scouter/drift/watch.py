"""A profile's watch: it selects traces that are judged although nobody sent a record."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scouter.evaluate.tasks.base import JsonInput
from scouter.evaluate.tasks.span_filter import (
    AncestorOfFilter,
    AndFilter,
    ByServiceFilter,
    ChildOfFilter,
    DescendantOfFilter,
    ParentOfFilter,
    SequenceFilter,
    SpanFilter,
    WithAttributeFilter,
    WithAttributeValueFilter,
)

if TYPE_CHECKING:
    from scouter.evaluate.spans.filters import Test
    from scouter.evaluate.spans.tree import SpanTree
    from scouter.model.span import Span

JUDGE_SAMPLE: Final = 0.1
"""Share of the watched traces that judges are called for, where a profile does not say more."""
_SEVERAL: Final = (
    ChildOfFilter, ParentOfFilter, DescendantOfFilter, AncestorOfFilter, SequenceFilter,
)  # fmt: skip
"""Filters whose answer about a span hangs on other spans."""
_RANDOM_DIGITS: Final = 14
"""Hex digits at the end of a trace id that are random: 56 bits."""


class WatchMatch(BaseModel):
    """Conditions on one span of a trace; all given ones must hold for the same span.

    In a file a span filter may stand in its place: `match: {ByService: {name: shop}}`.

    Args:
        service: Its `service.name`.
        attribute: Values by name that it has, compared as by `SpanFilter.with_attribute_value`;
            null stands for any value.
        filter: A filter of single spans, without relations to other spans and without sequences:
            so a trace is selected whatever the order in which its spans come.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    service: str | None = Field(default=None, min_length=1, max_length=512)
    attribute: dict[str, JsonInput] = Field(default_factory=dict, max_length=32)
    filter: SpanFilter | None = None

    @field_validator("filter")
    @classmethod
    def _of_one_span(cls, filter: SpanFilter | None) -> SpanFilter | None:
        waiting = [] if filter is None else [filter]
        while waiting:
            each = waiting.pop()
            if isinstance(each, _SEVERAL):
                raise ValueError(
                    f"{each.kind} looks at several spans; a watch looks at one span at a time"
                )
            waiting += each.inner()
        return filter

    @property
    def span_filter(self) -> SpanFilter | None:
        """All of it as one filter; None where every span will do."""
        parts: list[SpanFilter] = []
        if self.service is not None:
            parts.append(ByServiceFilter(name=self.service))
        for key, value in self.attribute.items():
            if value is None:
                parts.append(WithAttributeFilter(key=key))
            else:
                parts.append(WithAttributeValueFilter(key=key, value=value))
        if self.filter is not None:
            parts.append(self.filter)
        if len(parts) > 1:
            return AndFilter(filters=parts)
        return parts[0] if parts else None

    @property
    def test(self) -> "Test":
        """A function from a span to whether it matches; making it costs more than a look."""
        from scouter.evaluate.spans.filters import compile_test  # a sender needs no engine

        found = self.span_filter
        return _always if found is None else compile_test(found)

    @property
    def names_spans(self) -> bool:
        """Tells whether spans are selected by more than their service."""
        if self.attribute:
            return True
        waiting = [] if self.filter is None else [self.filter]
        while waiting:
            each = waiting.pop()
            inner = each.inner()
            if not inner and not isinstance(each, ByServiceFilter):
                return True
            waiting += inner
        return False


def _always(span: "Span") -> bool:
    del span
    return True


class Watch(BaseModel):
    """Traces that are evaluated by a profile without an `EvalRecord`.

    A trace is watched once one of its spans matches. The choice of a sample follows from the
    trace id alone, so that every process decides alike, and a smaller share is part of a larger.

    Args:
        match: Conditions on one span; by default every trace matches.
        sample: Share of the matching traces that a collector evaluates, in [0, 1].
        judge_sample: Share of those that judges are called for there, in [0, 1]; of the others
            judge tasks are skipped (sampled). A task with a `sample_rate` of its own goes by that.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    match: WatchMatch = Field(default_factory=WatchMatch)
    sample: float = Field(default=1.0, ge=0, le=1)
    judge_sample: float = Field(default=JUDGE_SAMPLE, ge=0, le=1)

    @field_validator("match", mode="before", json_schema_input_type=WatchMatch | SpanFilter)
    @classmethod
    def _filter_alone(cls, match: object) -> object:
        """Take a filter, or its wire form, for a match that is nothing else."""
        if isinstance(match, SpanFilter):
            return WatchMatch(filter=match)
        if isinstance(match, Mapping):
            fields = cast("Mapping[str, object]", match)
            if len(fields) == 1 and next(iter(fields)) in SpanFilter.kinds:
                return {"filter": fields}
        return cast("object", match)

    def judges(self, trace_id: str) -> bool:
        """Tell whether a matching trace is among those that are judged."""
        return is_sampled(trace_id, self.sample)

    def asks(self, trace_id: str) -> bool:
        """Tell whether judges are called for a trace that is judged."""
        return is_sampled(trace_id, self.sample * self.judge_sample)


def is_wanted(watch: Watch | None, tree: "SpanTree") -> bool:
    """Tell whether a trace that was selected, by a watch or by a mark, makes a record.

    It does if its spans tell of an agent, or may as some are known to be missing; and where more
    than a service selects it: a watch that names spans, or a mark without a watch.
    """
    names_spans = watch is None or watch.match.names_spans
    return names_spans or tree.has_agent or bool(tree.gaps.spans)


def is_sampled(trace_id: str, ratio: float) -> bool:
    """Decide on a trace by its id alone.

    Args:
        trace_id: 32 hex digits.
        ratio: Share of the traces to keep, in [0, 1].

    Returns:
        The same in every process. A trace that stays at one ratio stays at every larger one.

    Source: W3C Trace Context Level 2, random trace flag (the last 56 bits are random);
    OpenTelemetry, probability sampling: what stays is what is not below (1 - ratio) 2^56.
    """
    return int(trace_id[-_RANDOM_DIGITS:], 16) >= round((1.0 - ratio) * 2.0**56)
