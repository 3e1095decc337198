"""What is known about the completeness of one trace, kept up to date span by span."""

from collections import Counter
from typing import Final, NamedTuple

from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Span


class _Fact(NamedTuple):
    """What one span says about the rest of its trace."""

    parent: str | None
    process: str | None
    """None where no processor of ours had the span in hand."""
    is_local_root: bool
    stamp: int
    """Spans that the process says it will have delivered; 0 if it says nothing."""


class TraceFacts:
    """Counts that tell whether anything of a trace is still to come. Holds ids, not spans.

    Cost: each span, and each other version of it, a constant number of steps.
    """

    __slots__ = (
        "_children", "_delivered", "_foreign", "_local_roots", "_missing", "_mute", "_seen",
        "_short", "_stamped",
    )  # fmt: skip

    def __init__(self) -> None:
        self._seen: dict[str, _Fact] = {}
        self._children: Counter[str] = Counter()
        """By parent, here or not."""
        self._missing = 0
        self._local_roots = 0
        self._foreign = 0
        """Spans of other SDKs, and local roots whose process lost count."""
        self._delivered: Counter[str] = Counter()
        self._stamped: Counter[str] = Counter()
        self._short: Final[set[str]] = set()
        """Processes that stamped more than they delivered."""
        self._mute: Final[set[str]] = set()
        """Processes that delivered something, but no stamp."""

    def __contains__(self, span_id: str) -> bool:
        return span_id in self._seen

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, span: Span) -> None:
        """Take a span into account; another version of one that is known takes its place."""
        span_id, fact = span.span_id, _read(span)
        before = self._seen.get(span_id)
        if before == fact:
            return
        self._seen[span_id] = fact
        if before is not None:
            self._count(before, -1)
        elif self._children[span_id]:
            self._missing -= 1
        self._count(fact, 1)

    def _count(self, fact: _Fact, by: int) -> None:
        parent, process = fact.parent, fact.process
        if parent is not None:
            before = self._children[parent]
            if before + by:
                self._children[parent] = before + by
            else:
                del self._children[parent]
            if parent not in self._seen:
                self._missing += bool(before + by) - bool(before)
        self._local_roots += by * fact.is_local_root
        if process is None:
            self._foreign += by
            return
        self._delivered[process] += by
        self._stamped[process] += by * fact.stamp
        if fact.is_local_root and not fact.stamp:
            self._foreign += by
        delivered, stamped = self._delivered[process], self._stamped[process]
        _mark(self._short, process, is_in=delivered < stamped)
        _mark(self._mute, process, is_in=delivered > 0 and not stamped)

    @property
    def missing_parents(self) -> int:
        """Spans that others name as their parent but that are not here."""
        return self._missing

    @property
    def is_foreign(self) -> bool:
        """True if for some span nobody says how many there will be."""
        return self._foreign > 0 or bool(self._mute)

    @property
    def is_complete(self) -> bool:
        """True if a local root ended, every parent is here and every stamp is fulfilled."""
        return self._local_roots > 0 and not self._missing and not self._short


def _read(span: Span) -> _Fact:
    process = span.resource.attributes.get(PROCESS_ID)
    count = span.attributes.get(PROCESS_SPAN_COUNT)
    stamp = count if isinstance(count, int) and count > 0 else 0
    return _Fact(
        parent=span.parent_span_id,
        process=process if isinstance(process, str) and process else None,
        # Only local roots are stamped; on the way here a sender may have lost the remote flag.
        is_local_root=span.parent_span_id is None or span.parent_is_remote is True or stamp > 0,
        stamp=stamp,
    )


def _mark(names: set[str], name: str, *, is_in: bool) -> None:
    if is_in:
        names.add(name)
    else:
        names.discard(name)
