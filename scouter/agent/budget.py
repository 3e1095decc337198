"""Budgets of a run and of a day, the payment of one question, and the most that it may cost."""

import asyncio
import datetime
import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from pydantic import JsonValue

from scouter.agent.entries import Price
from scouter.agent.ledger import (
    NANO,
    Account,
    Ledger,
    LedgerError,
    Refused,
    Reserved,
    to_nano_usd,
)
from scouter.agent.vendor_settings import Sent
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError, JudgeUsage, Message
from scouter.evaluate.outcome import Reason
from scouter.transport.process import watch

ASSUMED_ANSWER: Final = 4096
"""Tokens that are reserved for an answer whose length the prompt does not bound."""

_PER_MESSAGE: Final = 16
_PER_QUESTION: Final = 64
_PER_SCHEMA: Final = 1024
"""Vendors put sentences of their own around a schema or a tool: Anthropic up to 700 tokens."""


def input_bound(messages: Iterable[Message], schema: Mapping[str, JsonValue] | None) -> int:
    """The most tokens that a question may have.

    A token stands for at least one byte of UTF-8 text (byte-level BPE and SentencePiece with byte
    fallback alike), so that the bytes bound the tokens; English text has about four to a token.
    """
    size = sum(
        len(message["content"].encode("utf-8", "surrogatepass")) + _PER_MESSAGE
        for message in messages
    )
    if schema is not None:
        size += 2 * len(json.dumps(schema)) + _PER_SCHEMA  # vendors write it more widely
    return size + _PER_QUESTION


def output_bound(settings: Sent) -> int:
    """The most tokens that an answer may have, where the prompt says so; else an assumption.

    Args:
        settings: Of `to_client_settings`, where `max_tokens` is what the provider is sent, and the
            only limit.
    """
    limit: int = settings.get("max_tokens", ASSUMED_ANSWER)
    return limit


def bound_usd(
    price: Price,
    messages: Iterable[Message],
    schema: Mapping[str, JsonValue] | None,
    settings: Sent,
) -> float:
    """The most that one question may cost.

    It is exceeded only by an answer that is longer than `ASSUMED_ANSWER` where the prompt sets no
    `max_tokens`, and by a provider that counts otherwise than its prices say.

    Args:
        price: Of the model.
        messages: All that are sent.
        schema: The form of the answer.
        settings: As they are sent.
    """
    return price.cost_usd(input_bound(messages, schema), output_bound(settings))


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
    place of that. A question that does not fit while others are in progress waits for these, as
    they mostly cost less than was reserved. Where none is left to wait for, it fails with
    `Reason.BUDGET`.

    All calls are made in one event loop. Days are those of UTC: what is spent counts for the day on
    which the question began.

    Args:
        ledger: Keeps the accounts; for a day's budget one that outlives the process.
        run_usd: Most for all calls through this object.
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
        self._open = 0
        self._settled = 0
        self._change = asyncio.Event()

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
            entry: The provider entry that is called.
            usd: The most that it may cost.

        Returns:
            The reservation to settle; None where no budget bounds the entry.

        Raises:
            JudgeError: `BUDGET` where there is not enough left; `PROVIDER` where the ledger
                cannot be used, as no model is called without it.
        """
        amount = to_nano_usd(usd)
        while accounts := self._accounts(entry):  # looked up again: a day may end while one waits
            settled = self._settled
            found = await self._reserved(accounts, amount)
            if isinstance(found, Reserved):
                self._open += 1
                return Payment(self, found)
            if settled != self._settled:
                continue  # something was given back meanwhile
            if not self._open:
                raise _spent(found, amount)
            await self._change.wait()
        return None

    async def _reserved(self, accounts: Sequence[Account], amount: int) -> Reserved | Refused:
        making = asyncio.ensure_future(self._ledger.reserve(accounts, amount))
        try:
            return await asyncio.shield(making)
        except LedgerError as error:
            text = f"no model is called without a budget: {error}"
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
            self._open -= 1
            self._settled += 1
            change, self._change = self._change, asyncio.Event()
            change.set()

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
            usd: 0 for one that was not sent; None where it is not known, which leaves what was
                reserved.
        """
        settling = asyncio.ensure_future(self._budget.settle(self._reserved, usd))
        await asyncio.shield(settling)


def _spent(refused: Refused, amount: int) -> JudgeError:
    account = refused.account
    what = "this run" if account.name.startswith("run ") else f"{account.name} on {account.day} UTC"
    text = (
        f"the question does not fit the budget of {what}: ${refused.used_nano_usd / NANO:.4f} of "
        f"${account.limit_nano_usd / NANO:.4f} are used, and it may cost ${amount / NANO:.4f}"
    )
    return JudgeError(Reason.BUDGET, text, usage=JudgeUsage())
