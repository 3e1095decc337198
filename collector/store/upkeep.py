"""Upkeep: ages of what is stored, and what retention has to know."""

from typing import Final

from collector.store.reads import Reads

_OLDEST: Final = """
    SELECT min(received_ns) FROM (
        SELECT min(received_ns) AS received_ns FROM spans
        UNION ALL
        SELECT min(received_ns) FROM records
    ) r
"""
_NEWEST: Final = """
    SELECT max(received_ns) FROM (
        SELECT max(received_ns) AS received_ns FROM spans
        UNION ALL
        SELECT max(received_ns) FROM records
    ) r
"""
_AGE: Final = """
    SELECT min(received_ns) FROM (
        SELECT o.received_ns, sum(coalesce(n.n, 0)) OVER (ORDER BY o.seq) AS n
        FROM offsets o LEFT JOIN (
            SELECT seq, count(*) AS n FROM (
                SELECT seq FROM spans UNION ALL SELECT seq FROM records
            ) r GROUP BY seq
        ) n ON n.seq = o.seq
    ) s
    WHERE s.n >= $1::DOUBLE PRECISION * (
        (SELECT count(*) FROM spans) + (SELECT count(*) FROM records)
    )
"""


class UpkeepReads(Reads):
    """Reads of retention, of housekeeping, and of those who watch a store."""

    def oldest_ns(self) -> int | None:
        """Time at which the oldest record or span was received; None in an empty store.

        Cost: linear in the rows, 10 ms for 5 million.
        """
        ((found,),) = self.read_for_work(_OLDEST)
        return found

    def newest_ns(self) -> int | None:
        """Time at which the newest record or span was received; None in an empty store.

        Cost: as `oldest_ns`.
        """
        ((found,),) = self.read_for_work(_NEWEST)
        return found

    def age_at(self, ratio: float) -> int | None:
        """The time up to which a share of all spans and records was received; None without any.

        Args:
            ratio: From 0 to 1.

        Cost: linear in the rows.
        """
        ((found,),) = self.read_for_work(_AGE, [ratio])
        return found

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be on the disk."""
        return bool(self.read_for_work("SELECT 1 FROM erasures LIMIT 1"))

    def newest_erasure(self) -> int:
        """Number of the newest erasure of which bytes may still be on the disk; 0 without any."""
        ((found,),) = self.read_for_work("SELECT max(seq) FROM erasures")
        return found or 0
