"""The port of the ledger: what was spent and reserved, on which account and day."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from scouter.errors import ScouterError

NANO: Final = 1_000_000_000
"""Money is counted in whole billionths of a dollar, so that sums are exact."""


def to_nano_usd(usd: float) -> int:
    """Whole billionths of a dollar; what is less than one counts as one."""
    # Rounded first, so that 0.1 dollars are not a billionth more for being binary.
    return math.ceil(round(usd * NANO, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account on which money is counted for one day, with its limit.

    Args:
        name: Thing that the money is spent by, such as `provider entry openai`.
        day: The day in UTC, as 2026-11-23; for a run the day on which it began.
        limit_nano_usd: Most that may be spent and reserved together, in billionths of a dollar.
    """

    name: str
    day: str
    limit_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Money that was put aside for one question."""

    number: str
    """Names the reservation in its ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """There is not enough left."""

    account: Account
    """The first of the accounts on which there is not."""
    used_nano_usd: int
    """Money spent and reserved on the account, in billionths of a dollar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balances:
    """All that a ledger has, to be moved into another one."""

    accounts: Sequence[tuple[str, str, int]]
    """Name, day, and money spent and reserved, in billionths of a dollar."""
    reservations: Sequence[tuple[str, str, str, int]]
    """Number, name, day, and the money that is part of the account's."""


class LedgerError(ScouterError):
    """The ledger could not be read or written; nothing was reserved."""


class Ledger(Protocol):
    """Keeps accounts. Called from any event loop and thread, many calls at a time.

    Reserved money counts as spent until it is settled. So the reservation of a process that died
    counts as spent until its day ends, and a program that crashes again and again spends no more
    than the budget.
    """

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        """Put an amount aside on all of some accounts, or on none.

        Args:
            accounts: At least one.
            nano_usd: The amount, from 0.

        Raises:
            LedgerError: Nothing could be written; nothing is put aside.
        """
        ...

    async def settle(self, reserved: Reserved, nano_usd: int) -> None:
        """Replace a reservation by what was really spent, which may be more.

        The second time for one reservation does nothing.

        Raises:
            LedgerError: Nothing could be written; the reservation stays.
        """
        ...

    async def spent_nano_usd(self, name: str, day: str) -> int:
        """The sum of spent and reserved money of an account.

        Raises:
            LedgerError: It could not be read.
        """
        ...

    async def reserved_nano_usd(self, name: str, day: str) -> int:
        """The reserved part of it, for questions that were not settled.

        Raises:
            LedgerError: It could not be read.
        """
        ...

    def close(self) -> None:
        """Let go of what is open; a later call opens it again."""
        ...
