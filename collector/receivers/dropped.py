"""What senders had to drop before it reached the collector, as they tell it in a header.

`scouter-dropped: full=3, closed=1` on a request or a Kafka message: items dropped since the sender
last told, by reason.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

REASONS: Final = frozenset(
    {"closed", "full", "internal", "invalid", "permanent", "rejected", "replay_over",
     "retries_exhausted", "sampled", "spool_corrupt", "spool_full"}
)  # fmt: skip
"""The reasons of Scouter's SDK; any other counts as `other`, as senders must not make up series."""

_DIGITS: Final = 9


def read_dropped(header: str) -> dict[str, int]:
    """Read the header's value; parts that do not fit are left out.

    Args:
        header: As received; the empty text where there was none.

    Returns:
        Counts above 0 by reason.
    """
    found: dict[str, int] = {}
    for part in header.split(","):
        reason, _, count = part.strip().partition("=")
        if count.isascii() and count.isdigit() and len(count) <= _DIGITS and int(count):
            name = reason if reason in REASONS else "other"
            found[name] = found.get(name, 0) + int(count)
    return found


def sum_dropped(headers: Iterable[str]) -> Counter[str]:
    """Read the headers of several messages; returns their sums by reason."""
    found: Counter[str] = Counter()
    for header in headers:
        found.update(read_dropped(header))
    return found
