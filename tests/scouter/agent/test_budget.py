"""A budget: reserved before, settled after, waiting for what others leave; by run and by day."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path

import pytest

from scouter.agent.budget import (
    ALL_ENTRIES,
    ASSUMED_ANSWER,
    Budget,
    Payment,
    account_of,
    bound_usd,
    input_bound,
    output_bound,
)
from scouter.agent.entries import Price
from scouter.agent.ledger import (
    NANO,
    Account,
    Refused,
    Reserved,
    SqliteLedger,
    to_nano_usd,
)
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError, JudgeUsage, Message
from scouter.evaluate.outcome import Reason

DAY = "2026-11-23"


async def reserve(budget: Budget, usd: float, entry: str = "house") -> Payment:
    found = await budget.reserve(entry, usd)
    assert found is not None
    return found


def run_budget(usd: float) -> Budget:
    return Budget(SqliteLedger(":memory:"), run_usd=usd, day=lambda: DAY)


def test_what_does_not_fit_is_reported() -> None:
    async def run() -> None:
        budget = run_budget(1.0)
        await (await reserve(budget, 0.7)).settle(0.6)
        await (await reserve(budget, 0.4)).settle(0.4)
        with pytest.raises(JudgeError) as caught:
            await budget.reserve("house", 0.1)
        assert caught.value.reason is Reason.BUDGET
        assert not caught.value.is_worth_retrying
        assert caught.value.usage == JudgeUsage()
        assert str(caught.value) == (
            "the question does not fit the budget of this run: $1.0000 of $1.0000 are used, and it "
            "may cost $0.1000"
        )

    asyncio.run(run())


def test_one_that_does_not_fit_waits_for_what_others_leave() -> None:
    """100 questions that may cost 10 cents and cost one, at the same time: a dollar is enough."""

    async def run() -> None:
        budget = run_budget(1.0)
        now: list[int] = [0]
        most = 0

        async def one() -> None:
            nonlocal most
            payment = await reserve(budget, 0.1)
            now[0] += 1
            most = max(most, now[0])
            await asyncio.sleep(0)
            now[0] -= 1
            await payment.settle(0.001)

        await asyncio.wait_for(asyncio.gather(*(one() for _ in range(100))), 120)
        assert most == 10

    asyncio.run(run())


class Late(SqliteLedger):
    """Says later that there was not enough, when what others had put aside is free again."""

    def __init__(self) -> None:
        super().__init__(":memory:")
        self.go = asyncio.Event()

    async def reserve(self, accounts: Sequence[Account], nano_usd: int) -> Reserved | Refused:
        found = await super().reserve(accounts, nano_usd)
        if isinstance(found, Refused):
            await self.go.wait()
        return found


def test_what_is_given_back_while_the_ledger_looks_counts() -> None:
    """No model is called any more when the refusal comes; but there is money again."""

    async def run() -> None:
        ledger = Late()
        budget = Budget(ledger, run_usd=1.0, day=lambda: DAY)
        first = await reserve(budget, 0.9)
        waiting = asyncio.ensure_future(reserve(budget, 0.9))
        for _ in range(5):
            await asyncio.sleep(0)
        await first.settle(0.1)
        ledger.go.set()
        await (await asyncio.wait_for(waiting, 120)).settle(0.1)

    asyncio.run(run())


def test_when_it_is_spent_all_who_wait_are_notified() -> None:
    async def run() -> None:
        budget = run_budget(1.0)

        async def one() -> str:
            try:
                payment = await reserve(budget, 0.3)
            except JudgeError as error:
                return str(error.reason)
            await asyncio.sleep(0)
            await payment.settle(0.3)
            return "answered"

        found = await asyncio.wait_for(asyncio.gather(*(one() for _ in range(20))), 120)
        assert sorted(found) == ["answered"] * 3 + ["budget"] * 17

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_cancelling_leaves_nothing_behind(kind: str, tmp_path: Path) -> None:
    """A caller that is cancelled before its call has spent nothing, at any moment."""

    async def run() -> None:
        ledger = SqliteLedger(":memory:" if kind == "memory" else tmp_path / "l.db")
        budget = Budget(ledger, daily_usd=1.0, day=lambda: DAY)

        async def one() -> None:
            payment = await reserve(budget, 0.3)
            cost: float | None = 0.0
            try:
                await asyncio.sleep(60)
            finally:
                await payment.settle(cost)

        for turns in range(12):
            asking = [asyncio.ensure_future(one()) for _ in range(5)]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in asking:
                task.cancel()
            await asyncio.wait_for(asyncio.gather(*asking, return_exceptions=True), 120)
            assert await ledger.spent_nano_usd(ALL_ENTRIES, DAY) == 0, turns
        await (await reserve(budget, 1.0)).settle(0)
        ledger.close()

    asyncio.run(run())


def test_an_unknown_cost_stays_at_what_was_reserved() -> None:
    async def run() -> None:
        ledger = SqliteLedger(":memory:")
        budget = Budget(ledger, daily_usd=1.0, day=lambda: DAY)
        await (await reserve(budget, 0.6)).settle(None)
        assert await ledger.spent_nano_usd(ALL_ENTRIES, DAY) == 0.6 * NANO
        with pytest.raises(JudgeError, match="all provider entries on 2026-11-23 UTC"):
            await reserve(budget, 0.6)

    asyncio.run(run())


def test_days_and_entries() -> None:
    async def run() -> None:
        ledger = SqliteLedger(":memory:")
        days = [DAY]
        budget = Budget(
            ledger, daily_usd=1.0, daily_usd_of={"house": 0.5}, day=lambda: days[-1]
        )  # fmt: skip
        assert budget.bounds("house")
        await (await reserve(budget, 0.5)).settle(0.5)
        with pytest.raises(JudgeError, match="budget of provider entry house on 2026-11-23"):
            await reserve(budget, 0.1)
        late = await reserve(budget, 0.5, "other")
        with pytest.raises(JudgeError, match="all provider entries"):
            await asyncio.wait_for(_after(reserve(budget, 0.1, "other"), late), 120)
        days.append("2026-11-24")
        await (await reserve(budget, 0.5)).settle(0.1)
        spent = [
            await ledger.spent_nano_usd(name, day)
            for name in (ALL_ENTRIES, account_of("house"), account_of("other"))
            for day in days
        ]
        assert spent == [NANO, 0.1 * NANO, 0.5 * NANO, 0.1 * NANO, 0, 0]

    asyncio.run(run())


async def _after(asking: Coroutine[object, object, object], late: Payment) -> None:
    """Settle one while another waits for it."""
    task = asyncio.ensure_future(asking)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not task.done()
    await late.settle(0.5)
    await task


def test_entries_without_a_bound_are_free() -> None:
    budget = Budget(SqliteLedger(":memory:"), daily_usd_of={"house": 0.5})
    assert not budget.bounds("other")
    assert asyncio.run(budget.reserve("other", 1e9)) is None


def test_no_model_is_called_without_a_ledger(tmp_path: Path) -> None:
    (tmp_path / "l.db").mkdir()
    budget = Budget(SqliteLedger(tmp_path / "l.db"), daily_usd=1.0)
    with pytest.raises(JudgeError, match="no model is called without a budget") as caught:
        asyncio.run(budget.reserve("house", 0.1))
    assert caught.value.reason is Reason.PROVIDER
    budget.close()


@pytest.mark.parametrize("amount", [-1.0, float("nan"), float("inf")])
def test_amounts_that_are_none(amount: float) -> None:
    with pytest.raises(ConfigError, match="an amount of dollars from 0"):
        Budget(SqliteLedger(":memory:"), run_usd=amount)


@pytest.mark.parametrize(
    ("usd", "nano"), [(0, 0), (0.1, 100_000_000), (1.5e-10, 1), (0.30000000000000004, 300_000_000)]
)
def test_whole_billionths(usd: float, nano: int) -> None:
    assert to_nano_usd(usd) == nano


def test_the_most_that_a_question_may_cost() -> None:
    """By hand: 5 + 6 bytes, 16 a message and 64; the schema of 17 bytes twice and 1,024."""
    messages = [Message(role="system", content="Judge"), Message(role="user", content="Größe"[:4])]
    assert input_bound(messages, None) == 5 + 6 + 2 * 16 + 64
    assert input_bound(messages, {"type": "object"}) == 107 + 2 * 18 + 1024
    assert output_bound({"max_tokens": 50}) == 50
    assert output_bound({}) == ASSUMED_ANSWER == 4096
    price = Price(input_per_million=1.0, output_per_million=10.0)
    assert bound_usd(price, messages, None, {"max_tokens": 50}) == (107 * 1.0 + 50 * 10.0) / 1e6
