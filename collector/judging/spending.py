"""Today's spending of judges, for Prometheus."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from scouter.agent.budget.budget import today
from scouter.agent.budget.ledger import NANO, Ledger, LedgerError

_log: Final = logging.getLogger(__name__)


class Spending(Collector):
    """Reads the ledger at each scrape.

    Args:
        ledger: Has the accounts.
        budgets_usd: By account the entry that it is shown as, and its limit.
        day: Gives the day.
    """

    def __init__(
        self,
        ledger: Ledger,
        budgets_usd: Mapping[str, tuple[str, float]],
        day: Callable[[], str] = today,
    ) -> None:
        self._ledger, self._budgets_usd, self._day = ledger, budgets_usd, day

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """The series of all accounts; without those that cannot be read now."""
        of = ", by provider entry; * is all of them together."
        limit, spent, reserved = (
            GaugeMetricFamily(f"scouter_judge_{name}_usd", f"{text}{of}", labels=("entry",))
            for name, text in (
                ("daily_budget", "US dollars that judges may spend in a day (UTC)"),
                ("spent_today", "US dollars that judges' questions of this day (UTC) have cost"),
                ("reserved_today", "US dollars put aside for questions that are not settled"),
            )
        )
        for account, (entry, usd) in self._budgets_usd.items():
            limit.add_metric([entry], usd)
            try:
                used, open_ = asyncio.run(self._read(account))
            except LedgerError as error:
                _log.warning("nobody knows what judges have spent: %s", error)
                continue
            spent.add_metric([entry], (used - open_) / NANO)
            reserved.add_metric([entry], open_ / NANO)
        return limit, spent, reserved

    async def _read(self, account: str) -> tuple[int, int]:
        """Read the money used and the part of it that is reserved, in billionths of a dollar."""
        day = self._day()
        # In this order, so that what is settled in between does not make the difference negative.
        open_ = await self._ledger.reserved_nano_usd(account, day)
        used = await self._ledger.spent_nano_usd(account, day)
        return max(used, open_), open_
