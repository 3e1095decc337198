"""Whole traces as trees, and why one is not there or not whole."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from collector.store.limits import NoMemoryError, TooLargeError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span

T = TypeVar("T")


class Insist(Protocol):
    """Tries something until it can be done."""

    def __call__(self, action: Callable[[], T], /) -> T:
        """Do it, and return what it returned."""
        ...


class TraceStore(Protocol):
    """The data that a tree is made of."""

    def spans_of(self, space: str, trace_ids: Iterable[str]) -> dict[str, list[Span]]:
        """Whole traces by id; `TooLargeError` where they have more spans than are read at once."""
        ...

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> Mapping[str, str]:
        """By trace id why a span of it was refused, where one was."""
        ...


def read_trees(store: TraceStore, space: str, trace_ids: Sequence[str]) -> dict[str, SpanTree]:
    """Read traces, in parts where there is no memory for all of them.

    Returns:
        By id the spans; of a trace that is too large to be read, why they are not there.

    Raises:
        TransientError: The store cannot be read now.
    """
    if not trace_ids:
        return {}
    try:
        found = store.spans_of(space, trace_ids)
    except NoMemoryError as error:
        if len(trace_ids) > 1:
            middle = len(trace_ids) // 2
            first = read_trees(store, space, trace_ids[:middle])
            return first | read_trees(store, space, trace_ids[middle:])
        if not isinstance(error, TooLargeError):
            raise
        return {trace_ids[0]: unread_tree(str(error))}
    lost = lost_of(store, space, trace_ids)
    return {
        trace_id: SpanTree(found.get(trace_id, ()), lost=lost.get(trace_id, ""))
        for trace_id in {**found, **lost}
    }


def unread_tree(why: str) -> SpanTree:
    """What stands for a trace that has too many spans to be read."""
    return SpanTree(unread=f"the trace is too large to be judged: {why}")


def lost_of(store: TraceStore, space: str, trace_ids: Collection[str]) -> dict[str, str]:
    """Say of traces of which a span was refused what became of it.

    Raises:
        TransientError: The store cannot be read now.
    """
    return {
        trace_id: f"a span of the trace {trace_id} was refused ({why}); the dead letters have it"
        for trace_id, why in store.refused_spans(space, trace_ids).items()
    }
