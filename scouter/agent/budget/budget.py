"""Budgets of a run and of a day, and the payment of one question."""

import asyncio
import datetime
import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

from scouter.agent.budget.ledger import (
    NANO,
    Account,
    Ledger,
    LedgerError,
    Refused,
    Reserved,
    to_nano_usd,
)
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Reason
from scouter.transport.process import watch

_LOG: Final = logging.getLogger(__name__)
ALL_ENTRIES: Final = "all provider entries"
"""Name of the account of a day's spending on all entries together."""


def account_of(entry: str) -> str:
    """Name of the account of a day's spending on one provider entry."""
    return f"provider entry {entry}"


def today() -> str:
    """The day in UTC, as 2026-11-23."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


class Budget:
    """Dollars that may be spent, and the ledger in which they are counted.

    Before a question, the most that it may cost is reserved; after it, what it did cost takes the
    place of that. A question that does not fit while others are being asked waits for these, as
    they mostly cost less than was reserved. Where none is left to wait for, it fails with
    `Reason.BUDGET`.

    Days are those of UTC: what is spent counts for the day on which the question began.

    Args:
        ledger: Keeps the accounts; for a day's budget one that outlives the process.
        run_usd: Most for everything that is asked through this object.
        daily_usd: Most in a day, for all provider entries together.
        daily_usd_of: Most in a day, by provider entry.
        day: Gives the day.

    Raises:
        ConfigError: An amount below 0.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        run_usd: float | None = None,
        daily_usd: float | None = None,
        daily_usd_of: dict[str, float] | None = None,
        day: Callable[[], str] = today,
    ) -> None:
        amounts = [run_usd, daily_usd, *(daily_usd_of or {}).values()]
        for amount in amounts:
            if amount is not None and not 0 <= amount < float("inf"):
                raise ConfigError(f"a budget is an amount of dollars from 0; got {amount}")
        self._ledger = ledger
        self._daily_usd, self._daily_usd_of, self._day = daily_usd, daily_usd_of or {}, day
        self._run: Account | None = None
        if run_usd is not None:
            name = f"run {uuid.uuid4().hex}"
            self._run = Account(name=name, day=day(), limit_nano_usd=to_nano_usd(run_usd))
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Forget questions that the parent is asking; what it spends stays with it."""
        self._lock = threading.Lock()
        self._open = 0
        self._settled = 0
        self._change = _pending()

    def bounds(self, entry: str) -> bool:
        """Tell whether anything bounds what is spent on a provider entry."""
        return bool(self._accounts(entry))

    def _accounts(self, entry: str) -> list[Account]:
        found = [] if self._run is None else [self._run]
        limits = {ALL_ENTRIES: self._daily_usd, account_of(entry): self._daily_usd_of.get(entry)}
        if any(limit is not None for limit in limits.values()):
            day = self._day()
            found += [
                Account(name=name, day=day, limit_nano_usd=to_nano_usd(limit))
                for name, limit in limits.items()
                if limit is not None
            ]
        return found

    async def reserve(self, entry: str, usd: float) -> "Payment | None":
        """Reserve money for one question.

        Args:
            entry: The provider entry that is asked.
            usd: The most that it may cost.

        Returns:
            The reservation to settle; None where no budget bounds the entry.

        Raises:
            JudgeError: `BUDGET` where there is not enough left; `PROVIDER` where the ledger
                cannot be used, as nothing is asked without it.
        """
        amount = to_nano_usd(usd)
        while accounts := self._accounts(entry):  # looked up again: a day may end while one waits
            with self._lock:
                settled = self._settled
            found = await self._reserved(accounts, amount)
            with self._lock:
                if isinstance(found, Reserved):
                    self._open += 1
                    return Payment(self, found)
                if settled != self._settled:
                    continue  # something was given back meanwhile
                if not self._open:
                    raise _spent(found, amount)
                change = self._change
            await asyncio.wrap_future(change)
        return None

    async def _reserved(self, accounts: Sequence[Account], amount: int) -> Reserved | Refused:
        making = asyncio.ensure_future(self._ledger.reserve(accounts, amount))
        try:
            return await asyncio.shield(making)
        except LedgerError as error:
            text = f"nothing is asked without a budget: {error}"
            raise JudgeError(Reason.PROVIDER, text, permanent=True, usage=JudgeUsage()) from error
        except asyncio.CancelledError:
            with suppress(LedgerError):
                found = await making  # takes a moment; what it put aside is given back
                if isinstance(found, Reserved):
                    await self._ledger.settle(found, 0)
            raise

    async def settle(self, reserved: Reserved, usd: float | None) -> None:
        """End a payment; `Payment` does this once."""
        try:
            if usd is not None:
                await self._ledger.settle(reserved, to_nano_usd(usd))
        except LedgerError as error:
            _LOG.warning("a judge's question stays at what was reserved for it: %s", error)
        finally:
            with self._lock:
                self._open -= 1
                self._settled += 1
                change, self._change = self._change, _pending()
            change.set_result(None)

    def close(self) -> None:
        """Let go of the ledger; a later question opens it again."""
        self._ledger.close()


class Payment:
    """Money that a budget put aside for one question. It has to be settled exactly once."""

    __slots__ = ("_budget", "_reserved")

    def __init__(self, budget: Budget, reserved: Reserved) -> None:
        self._budget, self._reserved = budget, reserved

    async def settle(self, usd: float | None) -> None:
        """Say what the question cost, also where the asker is cancelled meanwhile.

        Args:
            usd: 0 for one that was not asked; None where it is not known, which leaves what was
                reserved.
        """
        settling = asyncio.ensure_future(self._budget.settle(self._reserved, usd))
        await asyncio.shield(settling)


def _pending() -> "Future[None]":
    future: Future[None] = Future()
    future.set_running_or_notify_cancel()  # a waiter that is cancelled does not cancel it for all
    return future


def _spent(refused: Refused, amount: int) -> JudgeError:
    account = refused.account
    what = "this run" if account.name.startswith("run ") else f"{account.name} on {account.day} UTC"
    text = (
        f"the question does not fit the budget of {what}: ${refused.used_nano_usd / NANO:.4f} of "
        f"${account.limit_nano_usd / NANO:.4f} are used, and it may cost ${amount / NANO:.4f}"
    )
    return JudgeError(Reason.BUDGET, text, usage=JudgeUsage())
