"""Drop reports: senders tell in a header what they had to drop.

`scouter-dropped: sender=9f31c04e, full=37/40, closed=0/1` on a request or a message: the sender has
dropped 40 items for want of room since it began, and knows that the collector has heard of 37. A
report without a sender (`full=3`) is added each time that it comes.
"""

import json
import re
from collections.abc import Iterable
from typing import Final

from scouter.errors import DataError
from scouter.transport.drops import NOBODY, Count, Dropped, joined

REASONS: Final = frozenset(
    {"closed", "full", "internal", "invalid", "permanent", "rejected", "replay_over",
     "retries_exhausted", "sampled", "spool_corrupt", "spool_full"}
)  # fmt: skip
"""The reasons of Scouter's SDK; any other counts as `other`, as senders must not make up series."""

_SENDER: Final = re.compile(r"[0-9A-Za-z_-]{1,64}")
_COUNT: Final = re.compile(r"([0-9]{1,15})/([0-9]{1,15})|([0-9]{1,15})")
_MAX_NEWS: Final = 10**9
"""A report of more drops than this is none."""


def read_dropped(header: str) -> Dropped:
    """Read the header's value; parts that do not fit are left out.

    Args:
        header: As received; the empty text where there was none.

    Returns:
        Counts with news in them, by sender and reason.
    """
    found: dict[tuple[str, str], Count] = {}
    sender = NOBODY
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        if name == "sender":
            sender = value if _SENDER.fullmatch(value) else NOBODY
        elif match := _COUNT.fullmatch(value):
            reported, total, added = match.groups()
            if added is None and sender == NOBODY:
                continue
            count = Count(int(reported or 0), int(added or total))
            key = (sender if added is None else NOBODY, name if name in REASONS else "other")
            if 0 < count.total - count.reported < _MAX_NEWS:
                found[key] = _sum(found[key], count) if key in found else count
    return found


def merge_dropped(headers: Iterable[str]) -> Dropped:
    """Read the headers of several messages as one report."""
    return merge_reports(map(read_dropped, headers))


def merge_reports(reports: Iterable[Dropped]) -> Dropped:
    """Put several reports together."""
    found: Dropped = {}
    for report in reports:
        added = {key: _sum(found[key], report[key]) for key in report
                 if key[0] == NOBODY and key in found}  # fmt: skip
        found = {**joined(found, report), **added}
    return found


def pack_dropped(dropped: Dropped) -> bytes:
    """Write a report as an item of the log."""
    return json.dumps([(*key, *count) for key, count in dropped.items()]).encode()


def unpack_dropped(body: bytes) -> Dropped:
    """Read what `pack_dropped` wrote.

    Raises:
        DataError: The bytes are something else.
    """
    try:
        rows: list[tuple[str, str, int, int]] = json.loads(body)
        return {
            (sender, reason): Count(reported, total) for sender, reason, reported, total in rows
        }
    except (ValueError, TypeError) as error:
        raise DataError(f"no report of drops: {error}") from error


def _sum(first: Count, second: Count) -> Count:
    return Count(first.reported + second.reported, first.total + second.total)
