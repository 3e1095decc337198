"""Drops that senders reported, each counted once however often it is reported.

What was counted is known for each sender. Reports may arrive in another order than they were made,
for instance from several partitions. So the first drop that was heard of is stored, too.
"""

from collections import Counter
from typing import Final

from collector.metrics import TotalKey, TotalName
from collector.store.commit import count_rows
from collector.store.reads import Connection, Reads
from scouter.transport.drops import NOBODY, Count, Dropped

_DAY_NS: Final = 86_400 * 10**9
MAX_SENDERS: Final = 10_000
"""Senders of a space that stay known at least."""

_KNOWN: Final = """
    SELECT sender, reason, told, total, at_ns FROM sender_drops
    WHERE space = $1 AND sender = ANY($2::TEXT[])
"""
_REPLACED: Final = """
    DELETE FROM sender_drops WHERE seq <= $1 AND space = $2 AND sender = ANY($3::TEXT[])
"""
_FORGOTTEN: Final = """
    DELETE FROM sender_drops WHERE seq <= $1 AND space = $2 AND sender NOT IN (
        SELECT sender FROM sender_drops WHERE seq <= $1 AND space = $2
        GROUP BY sender HAVING max(at_ns) >= $3
        ORDER BY max(at_ns) DESC, sender LIMIT $4)
"""


class Drops(Reads):
    """Counts of what senders dropped."""

    def add_drops(self, space: str, dropped: Dropped, now_ns: int) -> int:
        """Count what senders dropped, each drop once; returns the number of the last commit.

        A sender without a name (`NOBODY`) cannot be known again: what it tells is added each time.
        Senders are forgotten a day after their last news, or once 10,000 others came behind them;
        of what they tell later, that which they know to be reported is not added again.

        Args:
            space: Their space.
            dropped: A report.
            now_ns: Time of it.
        """
        with self.alone():
            counts, last_ns = self._known(space, dropped, now_ns - _DAY_NS)
            news, fresh = Counter[TotalKey](), set[str]()
            for (sender, reason), count in dropped.items():
                known = counts.get((sender, reason), Count(count.reported, count.reported))
                now = Count(min(known.reported, count.reported), max(known.total, count.total))
                more = now.total - now.reported - (known.total - known.reported)
                if more:
                    news[TotalKey(TotalName.DROPPED, space, label=reason)] += more
                    fresh.add(sender)
                    counts[sender, reason] = now
            last = self.last_seq()
            if not news:
                return last
            named = sorted(fresh - {NOBODY})
            rows = [
                (space, sender, reason, *count, max(now_ns, last_ns.get(sender, now_ns)))
                for (sender, reason), count in counts.items()
                if sender in named
            ]

            def change(connection: Connection) -> None:
                connection.execute(_REPLACED, [last, space, named])
                connection.execute(_FORGOTTEN, [last, space, now_ns - _DAY_NS, MAX_SENDERS])

            return self.write({"totals": count_rows(news), "sender_drops": rows}, [change])

    def _known(
        self, space: str, dropped: Dropped, since_ns: int
    ) -> tuple[dict[tuple[str, str], Count], dict[str, int]]:
        """The counts of the senders of a report, and the times of their last news."""
        senders = sorted({sender for sender, _ in dropped} - {NOBODY})
        rows = self.read_for_work(_KNOWN, [space, senders]) if senders else []
        last_ns: dict[str, int] = {}
        for sender, *_, at_ns in rows:
            last_ns[sender] = max(at_ns, last_ns.get(sender, at_ns))
        counts = {
            (sender, reason): Count(reported, total)
            for sender, reason, reported, total, _ in rows
            if last_ns[sender] >= since_ns
        }
        return counts, last_ns
