"""What senders had to drop before it reached the collector, as they tell it in a header.

`scouter-dropped: full=3, closed=1` on a request or a Kafka message: items dropped since the sender
last told, by reason.
"""

import re
from typing import Final

_REASON: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_DIGITS: Final = 15


def read_dropped(header: str) -> dict[str, int]:
    """Read the header's value; parts that do not fit are left out.

    Args:
        header: As received; the empty text where there was none.

    Returns:
        Counts above 0 by reason. A reason that is no plain name counts as `other`, as it becomes
        the value of a metric's label.
    """
    found: dict[str, int] = {}
    for part in header.split(","):
        reason, _, count = part.strip().partition("=")
        if count.isascii() and count.isdigit() and len(count) <= _DIGITS and int(count):
            name = reason if _REASON.fullmatch(reason) else "other"
            found[name] = found.get(name, 0) + int(count)
    return found
