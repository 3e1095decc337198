"""Scores in spans and log records: what others say in `gen_ai.evaluation.result`."""

from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.log_event import RESULT_EVENT, ForeignResult, foreign_results
from scouter.model.span import Attributes, Span


def scored_items(spans: Iterable[Span]) -> Iterator[object]:
    """The scores in spans and log events, as `check_record` takes them.

    Cost: 0.1 µs for a span without any.
    """
    for span in spans:
        if span.name == RESULT_EVENT or any(each.name == RESULT_EVENT for each in span.events):
            yield from (
                score_of(each, span.resource.attributes)
                for each in foreign_results((span,))
                if each.name.strip()
            )


def score_of(found: ForeignResult, resource: Attributes) -> dict[str, JsonValue]:
    """A score as `check_record` takes it, with the attributes of its process."""
    score: dict[str, JsonValue] = {
        "name": found.name, "value": found.score, "label": found.label, "source": found.source,
        "explanation": found.explanation, "error": found.error, "at": found.time_ns,
        "id": found.key and f"{found.trace_id}:{found.key}", "span": found.span_id,
        "is_event": True,
    }  # fmt: skip
    return {
        "score": score,
        "trace_id": found.trace_id or None,
        "session_id": found.session,
        "created_at": found.time_ns,
        "tags": {name: str(resource[name]) for name in RESOURCE_TAGS if resource.get(name)},
    }
