"""Facts about the completeness of one trace, updated span by span."""

from collections.abc import Collection, Sequence
from typing import ClassVar, Final

from collector.store.reads import MOST_SPANS, NoMemoryError, TooLargeError
from collector.store.store import Store
from scouter.evaluate.spans.gaps import parent_is_remote, stamp_of
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import PROCESS_ID
from scouter.model.span import Span, struct

_Fact = tuple[str | None, str | None, bool | None, int]
"""Facts that one span has about the rest of its trace.

1. The id of its parent.
2. Its process; None if no processor of ours had the span in hand.
3. True if the parent belongs to another process; None if nobody said.
4. The number of spans that the process says it will have delivered; 0 if it says nothing.
"""


@struct
class CompleteFacts:
    """Facts about a complete trace without its ids: they take little memory, but accept no span.

    The names are those of `TraceFacts`.
    """

    size: int
    is_foreign: bool
    missing_parents: ClassVar[int] = 0
    is_complete: ClassVar[bool] = True
    has_gaps: ClassVar[bool] = False

    def __len__(self) -> int:
        return self.size


class TraceFacts:
    """Counts that tell whether anything of a trace is still to come. Holds ids, not spans.

    Cost: each span, and each other version of it, a constant number of steps.
    """

    __slots__ = (
        "_children", "_delivered", "_foreign", "_last", "_local_roots", "_missing", "_more",
        "_mute", "_roots", "_seen", "_short", "_stamped",
    )  # fmt: skip

    def __init__(self) -> None:
        self._seen: dict[str, _Fact] = {}
        self._last: _Fact | None = None
        """Stored once where one sibling after the other says the same."""
        self._children: Final[dict[bool | None, dict[str, int]]] = {}
        """Number of children by parent, whether the parent is here or not.

        The outer key is what they say of the parent: True if it belongs to another process.
        """
        self._missing: Final[dict[bool | None, int]] = {True: 0, False: 0, None: 0}
        """Parents that are not here, by what a child says of them; of one of which its children
        say different things, more than once."""
        self._roots = 0
        self._more = 0
        """Spans beyond those that are looked at: of so many no evaluation is made anyway."""
        self._local_roots = 0
        self._foreign = 0
        """Spans of other SDKs, and local roots whose process lost count."""
        self._delivered: Final[dict[str, int]] = {}
        self._stamped: Final[dict[str, int]] = {}
        self._short: set[str] | None = None
        """Processes that stamped more than they delivered; None for none, as of most traces."""
        self._mute: set[str] | None = None
        """Processes that delivered something, but no stamp."""

    def __contains__(self, span_id: str) -> bool:
        return span_id in self._seen

    def __len__(self) -> int:
        return len(self._seen) + self._more

    def summary(self) -> CompleteFacts:
        """Reduce the facts to those of a complete trace."""
        return CompleteFacts(size=len(self), is_foreign=self.is_foreign)

    def add(self, span: Span) -> None:
        """Take a span into account; another version of one that is known takes its place."""
        span_id, fact = span.span_id, _read(span)
        before = self._seen.get(span_id)
        if before == fact:
            return
        if before is None and len(self._seen) >= MOST_SPANS:
            self._more += 1
            return
        last = self._last
        if last is not None and last == fact:
            fact = last
        self._last = fact
        self._seen[span_id] = fact
        if before is not None:
            self._count(before, -1)
        else:
            for said, children in self._children.items():
                self._missing[said] -= span_id in children
        self._count(fact, 1)

    def _count(self, fact: _Fact, by: int) -> None:
        parent, process, is_remote, stamp = fact
        if parent is None:
            self._roots += by
        else:
            self._count_child(parent, is_remote, by)
        is_local_root = parent is None or is_remote is True
        self._local_roots += by * is_local_root
        if process is None:
            self._foreign += by
            return
        delivered = self._delivered[process] = self._delivered.get(process, 0) + by
        stamped = self._stamped[process] = self._stamped.get(process, 0) + by * stamp
        if is_local_root and not stamp:
            self._foreign += by
        self._short = _marked(self._short, process, is_in=delivered < stamped)
        self._mute = _marked(self._mute, process, is_in=delivered > 0 and not stamped)

    def _count_child(self, parent: str, is_remote: bool | None, by: int) -> None:
        children = self._children.setdefault(is_remote, {})
        before = children.get(parent, 0)
        after = before + by
        if after:
            children[parent] = after
        else:
            del children[parent]
        if parent not in self._seen:
            self._missing[is_remote] += bool(after) - bool(before)

    @property
    def missing_parents(self) -> int:
        """Spans that others name as their parent but that are not here."""
        counts = [count for count in self._missing.values() if count]
        if len(counts) < 2:
            return sum(counts)
        named = set[str]().union(*self._children.values())
        return len(named.difference(self._seen))

    @property
    def has_gaps(self) -> bool:
        """True if spans are known to be missing; the engine finds the same (`find_gaps`)."""
        if self._short or self._missing[False]:
            return True
        if not self._missing[None]:
            return False
        return self._roots > 0 or self.missing_parents > 1

    @property
    def is_foreign(self) -> bool:
        """True if for some span nobody says how many there will be."""
        return self._foreign > 0 or bool(self._mute)

    @property
    def is_complete(self) -> bool:
        """True if a local root ended, every parent is here and every stamp is fulfilled."""
        is_whole = self._local_roots > 0 and not any(self._missing.values()) and not self._short
        return is_whole and not self._more


def _read(span: Span) -> _Fact:
    process = span.resource.attributes.get(PROCESS_ID)
    stamp = stamp_of(span)
    return (
        span.parent_span_id,
        process if isinstance(process, str) and process else None,
        parent_is_remote(span, stamp),
        stamp,
    )


def _marked(names: set[str] | None, name: str, *, is_in: bool) -> set[str] | None:
    """The names with this one in or out."""
    if is_in:
        names = set[str]() if names is None else names
        names.add(name)
    elif names is not None:
        names.discard(name)
    return names or None


def read_trees(store: Store, space: str, trace_ids: Sequence[str]) -> dict[str, SpanTree]:
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
    """Facts of a trace that has too many spans to be read."""
    return SpanTree(unread=f"the trace is too large to be judged: {why}")


def lost_of(store: Store, space: str, trace_ids: Collection[str]) -> dict[str, str]:
    """Say of traces of which a span was refused what became of it.

    Raises:
        TransientError: The store cannot be read now.
    """
    if not trace_ids:
        return {}
    return {
        trace_id: f"a span of the trace {trace_id} was refused ({why}); the dead letters have it"
        for trace_id, why in store.refused_spans(space, trace_ids).items()
    }
