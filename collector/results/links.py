"""The span that an evaluation is about."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collector.store.rows import EvaluationRow
from collector.store.store import Store
from scouter.model.attributes import QUEUE_EVENT, QUEUE_RECORD
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of
from scouter.model.log_event import attach_events
from scouter.model.span import Span

_TRACES: Final = 8
"""Traces in memory at a time; one may have ten thousand spans."""
_RESPONSE_ID: Final = "gen_ai.response.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Place of an event inside its trace."""

    span_id: str = ""
    """16 hex digits; empty where no span is known."""
    response_id: str = ""
    """The provider's id of the answer that was evaluated, where one is known."""


UNLINKED: Final = Link()


def links_of(store: Store, evaluations: Sequence[EvaluationRow]) -> list[Link]:
    """Find the span of each evaluation.

    That is the one in which the record was handed to the queue, else the last call of a model,
    else the root. An evaluation without a trace has none.

    Raises:
        TransientError: The store cannot be read now.

    Cost: reads the traces of the evaluations, `_TRACES` at a time.
    """
    wanted: defaultdict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, row in enumerate(evaluations):
        if row.trace_id is not None:
            wanted[row.space][row.trace_id].append(at)
    links = [UNLINKED] * len(evaluations)
    for space, traces in wanted.items():
        ids = list(traces)
        for first in range(0, len(ids), _TRACES):
            some = store.spans_of(space, ids[first : first + _TRACES])
            for trace_id, stored in some.items():
                spans, _ = attach_events(stored)
                for at in traces[trace_id]:
                    links[at] = link(spans, evaluations[at].record_uid)
    return links


def link(spans: Sequence[Span], record_uid: str) -> Link:
    """Find the span that a record is about, among those of its trace."""
    in_order = sorted(spans, key=lambda span: (span.start_ns, span.span_id))
    calls = [span for span in in_order if kind_of(span) is Kind.MODEL]
    marked = [span for span in in_order if _holds(span, record_uid)]
    ids = {span.span_id for span in spans}
    roots = [span for span in in_order if span.parent_span_id not in ids]
    chosen = (marked or calls[-1:] or roots or in_order)[0]
    answer = chosen if _RESPONSE_ID in chosen.attributes else next(iter(calls[-1:]), chosen)
    response_id = answer.attributes.get(_RESPONSE_ID)
    return Link(
        span_id=chosen.span_id, response_id=response_id if isinstance(response_id, str) else ""
    )


def _holds(span: Span, record_uid: str) -> bool:
    return any(
        event.name == QUEUE_EVENT and event.attributes.get(QUEUE_RECORD) == record_uid
        for event in span.events
    )
