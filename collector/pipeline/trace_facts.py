"""What is known about the completeness of one trace, kept up to date span by span."""

from collections import Counter
from typing import Final

from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Span

_FOREIGN: Final = ""


class TraceFacts:
    """Counts that tell whether anything of a trace is still to come. Holds ids, not spans."""

    __slots__ = ("_delivered", "_ids", "_local_roots", "_missing", "_stamped", "_unstamped")

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._missing: Counter[str] = Counter()
        self._local_roots = 0
        self._delivered: Counter[str] = Counter()
        self._stamped: Counter[str] = Counter()
        self._unstamped = 0

    def __contains__(self, span_id: str) -> bool:
        return span_id in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, span: Span) -> None:
        """Take a span into account; one whose id is known already must not be added again."""
        span_id, parent = span.span_id, span.parent_span_id
        self._ids.add(span_id)
        self._missing.pop(span_id, None)
        if parent is not None and parent not in self._ids:
            self._missing[parent] += 1
        process = span.resource.attributes.get(PROCESS_ID)
        is_local_root = parent is None or span.parent_is_remote is True
        self._local_roots += is_local_root
        if not isinstance(process, str) or process == _FOREIGN:
            self._unstamped += 1
            return
        self._delivered[process] += 1
        if is_local_root:
            count = span.attributes.get(PROCESS_SPAN_COUNT)
            if isinstance(count, int) and count > 0:
                self._stamped[process] += count
            else:
                self._unstamped += 1  # its process lost count: nothing to wait for by number

    @property
    def missing_parents(self) -> int:
        """Spans that others name as their parent but that are not here."""
        return len(self._missing)

    @property
    def is_foreign(self) -> bool:
        """True if for some span nobody says how many there will be."""
        return self._unstamped > 0

    @property
    def is_complete(self) -> bool:
        """True if a local root ended, every parent is here and every stamp is fulfilled."""
        return (
            self._local_roots > 0
            and not self._missing
            and all(self._delivered[name] >= count for name, count in self._stamped.items())
        )
