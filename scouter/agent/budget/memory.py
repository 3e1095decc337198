"""A ledger that lives as long as its process: for the budget of one run."""

import threading
from collections import Counter
from collections.abc import Sequence

from scouter.agent.budget.ledger import Account, Refused, Reserved


class MemoryLedger:
    """Keeps accounts in memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: Counter[tuple[str, str]] = Counter()
        self._open: dict[str, tuple[tuple[tuple[str, str], ...], int]] = {}
        self._made = 0

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        """Put an amount aside on all accounts, or on none."""
        with self._lock:
            for account in accounts:
                used = self._spent[account.name, account.day]
                if used + nano_usd > account.limit_nano_usd:
                    return Refused(account=account, used_nano_usd=used)
            keys = tuple((account.name, account.day) for account in accounts)
            for key in keys:
                self._spent[key] += nano_usd
            self._made += 1
            self._open[str(self._made)] = keys, nano_usd
            return Reserved(number=str(self._made))

    async def settle(self, reserved: Reserved, nano_usd: int) -> None:
        """Replace a reservation by what was spent."""
        with self._lock:
            keys, put_aside = self._open.pop(reserved.number, ((), 0))
            for key in keys:
                self._spent[key] += nano_usd - put_aside

    async def spent_nano_usd(self, name: str, day: str) -> int:
        """Read the money spent and reserved on an account, in billionths of a dollar."""
        with self._lock:
            return self._spent[name, day]

    async def reserved_nano_usd(self, name: str, day: str) -> int:
        """Read the money reserved and not yet settled on an account, in billionths of a dollar."""
        with self._lock:
            return sum(amount for keys, amount in self._open.values() if (name, day) in keys)

    def close(self) -> None:
        """Nothing is open."""
