"""Shards: one series that several workers read, each a part of its units, in no common order.

Each worker has a series of its own. While nothing is wrong the evidence of each is 1 or less on
average, and so is the mean of all, whatever the order in which their units come. So the mean alarms
with the same chance as one series does.
"""

from collections.abc import Sequence
from hashlib import blake2b

from scouter.drift.detect.many import together
from scouter.drift.series.series import Series


def shard_of(unit: str, shards: int) -> int:
    """Choose the shard of a unit; the same one in every process.

    Args:
        unit: Id of the conversation, or of the record where there is none: one conversation is
            never in two shards.
        shards: How many there are, 1 or more.

    Returns:
        A number from 0 to `shards` - 1.
    """
    digest = blake2b(unit.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shards


def shared_evidence(shards: Sequence[Series]) -> float:
    """Put the evidence of the shards of one series together.

    Args:
        shards: One series of each shard, all with the same alpha and of the same version; a shard
            without units counts as one with no evidence.

    Returns:
        Evidence of the whole series, 0 or more; the alarm is at 1 / alpha. A fall of all shards
        costs each of them as many units as it would cost one series.
    """
    return together([each.evidence for each in shards])
