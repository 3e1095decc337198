"""What is known about the completeness of one trace, kept up to date span by span."""

from typing import ClassVar, Final

from collector.storage.port import MOST_SPANS
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import LazyAttributes
from scouter.model.span import Span
from scouter.model.struct import struct

_Fact = tuple[str | None, str | None, bool, int]
"""What one span says about the rest of its trace: its parent; its process, None where no processor
of ours had the span in hand; whether it is a local root; the number of spans that the process says
it will have delivered, 0 if it says nothing."""


@struct
class CompleteFacts:
    """What is known of a complete trace, without the ids: little memory, but no span can be added.

    The names are those of `TraceFacts`.
    """

    size: int
    is_foreign: bool
    missing_parents: ClassVar[int] = 0
    is_complete: ClassVar[bool] = True

    def __len__(self) -> int:
        return self.size


class TraceFacts:
    """Counts that tell whether anything of a trace is still to come. Holds ids, not spans.

    Cost: each span, and each other version of it, a constant number of steps.
    """

    __slots__ = (
        "_children", "_delivered", "_foreign", "_last", "_local_roots", "_missing", "_more",
        "_mute", "_seen", "_short", "_stamped",
    )  # fmt: skip

    def __init__(self) -> None:
        self._seen: dict[str, _Fact] = {}
        self._last: _Fact | None = None
        """Kept once where one sibling after the other says the same."""
        self._children: dict[str, int] = {}
        """How many there are, by parent, here or not."""
        self._missing = 0
        self._more = 0
        """Spans beyond those that are looked at: of so many no verdict is made anyway."""
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
        """What there is to say of a trace that is complete."""
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
        elif span_id in self._children:
            self._missing -= 1
        self._count(fact, 1)

    def _count(self, fact: _Fact, by: int) -> None:
        parent, process, is_local_root, stamp = fact
        if parent is not None:
            self._count_child(parent, by)
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

    def _count_child(self, parent: str, by: int) -> None:
        before = self._children.get(parent, 0)
        after = before + by
        if after:
            self._children[parent] = after
        else:
            del self._children[parent]
        if parent not in self._seen:
            self._missing += bool(after) - bool(before)

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
        is_whole = self._local_roots > 0 and not self._missing and not self._short
        return is_whole and not self._more


def _read(span: Span) -> _Fact:
    process = span.resource.attributes.get(PROCESS_ID)
    attributes = span.attributes
    if type(attributes) is LazyAttributes:  # of a stored span: nothing is at hand
        count = attributes.get_rare(PROCESS_SPAN_COUNT)
    else:
        count = attributes.get(PROCESS_SPAN_COUNT)
    stamp = count if isinstance(count, int) and count > 0 else 0
    parent = span.parent_span_id
    return (
        parent,
        process if isinstance(process, str) and process else None,
        # Only local roots are stamped; on the way here a sender may have lost the remote flag.
        parent is None or span.parent_is_remote is True or stamp > 0,
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
