"""Traces that may belong to one: what their short attributes have in common with its spans."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from collector.store.reads import Reads, Values
from collector.store.span_rows import has_attribute
from scouter.evaluate.spans.halves import named_by, shared_by
from scouter.model.span import Span

_NEAR_NS: Final = 24 * 3600 * 10**9
"""Time before the first span of a trace, and behind the last, that is searched."""
_LAST_NS: Final = 2**63 - 1
_MOST: Final = 20
"""Other traces that are looked at, and shared ids that are searched for."""


class HalfReads(Reads):
    """Reads of traces that belong together."""

    def linked_traces(self, space: str, spans: Sequence[Span]) -> list[str]:
        """Ids of traces that may belong to one, as its spans name them, or theirs name it.

        Those that its spans name need not be stored. Of others, the first ones within a day.

        Args:
            space: Theirs.
            spans: Of the one, at least one.

        Cost: a look at the short attributes of all spans of these two days.
        """
        found = dict.fromkeys(half.trace_id for half in named_by(spans))
        values = Values()
        own_id = spans[0].trace_id
        since = min(each.start_ns for each in spans) - _NEAR_NS
        until = min(max(each.end_ns for each in spans) + _NEAR_NS, _LAST_NS)
        where = (
            f"space = {values.of(space)} AND trace_id <> {values.of(own_id)} AND is_event = 0"
            f" AND start_ns BETWEEN {values.of(since, 'BIGINT')} AND {values.of(until, 'BIGINT')}"
        )
        tells = [f"position({values.of(own_id)} IN attributes) > 0"]
        for shared in islice(shared_by(spans), _MOST):
            each = (has_attribute(name, value, values) for name, value in shared)
            # A task's id is searched by its value alone, which is that of much else.
            named = "lower(attributes) LIKE '%a2a%' AND " if len(shared) == 1 else ""
            tells.append(f"({named}{' AND '.join(each)})")
        rows = self.read(
            f"SELECT trace_id FROM spans WHERE {where} AND ({' OR '.join(tells)})"
            " GROUP BY trace_id ORDER BY min(start_ns), trace_id"
            f" LIMIT {values.of(_MOST, 'BIGINT')}",
            values,
        )
        found.update(dict.fromkeys(trace_id for (trace_id,) in rows))
        return list(found)[: 2 * _MOST]
