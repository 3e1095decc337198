"""Records whose wait is over."""

from dataclasses import dataclass
from enum import Enum

from collector.store.rows import Completeness, RecordRow


class Need(Enum):
    """Thing that a record has to wait for."""

    NOTHING = "nothing"
    TRACE = "trace"
    PROFILE = "profile"


@dataclass(slots=True, kw_only=True)
class Ready:
    """A record that waits no longer. Treat it as read-only, as the rows of the store."""

    record: RecordRow
    need: Need
    completeness: Completeness
    missing_parents: int
    waited_s: float
