"""Counts of the items that senders dropped.

The drops that were counted are known for each sender, so that none counts twice. Reports may arrive
in another order than they were made, for instance from several partitions. So the first drop that
was heard of is kept, too.
"""

from dataclasses import dataclass
from typing import Final

from collector.metrics import TotalName
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.job import Job
from collector.storage.duckdb.transaction import Transaction, one_of
from scouter.transport.drops import NOBODY, Count, Dropped

_DAY_NS: Final = 86_400 * 10**9
MAX_SENDERS: Final = 10_000
"""Number of senders of a space that stay known at least."""

KNOWN_SENDERS: Final = f"""
    SELECT space, sender FROM sender_drops GROUP BY space, sender
    HAVING max(at_ns) >= (SELECT max(at_ns) FROM sender_drops) - {_DAY_NS}
    QUALIFY row_number() OVER (PARTITION BY space ORDER BY max(at_ns) DESC, sender) <= {MAX_SENDERS}
"""  # noqa: S608 our own words
"""SQL for the senders that are not forgotten: a day passes by the reports that come."""


@dataclass(slots=True, kw_only=True)
class DropsJob(Job):
    """Job that counts the drops reported by one request."""

    database: Database
    space: str
    dropped: Dropped
    now_ns: int
    size: int = 1

    def apply(self, tx: Transaction) -> int:
        """Add what was not told before, and note each sender's count with it."""
        stored = self._stored()
        for (sender, reason), count in self.dropped.items():
            key = (self.space, sender, reason)
            known = (
                tx.drops.get(key) or stored.get((sender, reason)) or Count(count.told, count.told)
            )
            now = Count(min(known.told, count.told), max(known.total, count.total))
            news = now.total - now.told - (known.total - known.told)
            if not news:
                continue
            tx.count(TotalName.DROPPED, self.space, news, label=reason)
            if sender != NOBODY:
                tx.drops[key] = now
                tx.add("sender_drops", *key, *now, self.now_ns)
        return tx.seq

    def _stored(self) -> dict[tuple[str, str], Count]:
        """The counts of these senders, as far as they are known."""
        senders = sorted({sender for sender, _ in self.dropped if sender != NOBODY})
        if not senders:
            return {}
        rows = run(
            self.database.connection(),
            "SELECT sender, reason, min(told), max(total) FROM sender_drops"  # noqa: S608 our own words
            f" WHERE {one_of('sender', senders)} AND space = ? GROUP BY ALL",
            [*senders, self.space],
        )
        return {(sender, reason): Count(told, total) for sender, reason, told, total in rows}
