"""Duties of every ledger of judges' spending. A new ledger adds one small subclass."""

import asyncio
import itertools
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scouter.agent.ledger import Account, Ledger, Refused, Reserved

DAY = "2026-11-23"
_RUNS = itertools.count()

Make = Callable[[], Ledger]
"""Makes a ledger; the first time in a test, an empty one."""

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("reserve"),
            st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True),
            st.integers(0, 60),
        ),
        st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 60)),
    ),
    max_size=25,
)


def account(name: str, limit: int = 100, day: str = DAY) -> Account:
    return Account(name=name, day=day, limit_nano_usd=limit)


class LedgerContract:
    """The tests; a subclass gives the fixture `make`."""

    @pytest.fixture
    def make(self) -> Make:
        """Makes a ledger."""
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, make: Make) -> Ledger:
        return make()

    def test_reserving_and_settling(self, ledger: Ledger) -> None:
        async def run() -> None:
            first = await ledger.reserve([account("a")], 60)
            assert isinstance(first, Reserved)
            refused = await ledger.reserve([account("a")], 41)
            assert refused == Refused(account=account("a"), used_nano_usd=60)
            assert isinstance(await ledger.reserve([account("a")], 40), Reserved)
            assert await ledger.reserved_nano_usd("a", DAY) == 100
            await ledger.settle(first, 10)
            assert await ledger.spent_nano_usd("a", DAY) == 50
            assert await ledger.reserved_nano_usd("a", DAY) == 40
            await ledger.settle(first, 0)
            assert await ledger.spent_nano_usd("a", DAY) == 50, "settled once"

        asyncio.run(run())

    def test_on_all_accounts_or_on_none(self, ledger: Ledger) -> None:
        async def run() -> None:
            await ledger.reserve([account("b")], 90)
            refused = await ledger.reserve([account("a"), account("b")], 20)
            assert isinstance(refused, Refused)
            assert refused.account.name == "b"
            assert await ledger.spent_nano_usd("a", DAY) == 0

        asyncio.run(run())

    def test_days_and_names_stay_apart(self, ledger: Ledger) -> None:
        async def run() -> None:
            accounts = [account("a"), account("a", day="2026-11-24"), account("A")]
            for each in accounts:
                assert isinstance(await ledger.reserve([each], 100), Reserved)

        asyncio.run(run())

    def test_a_bill_above_the_reservation_counts(self, ledger: Ledger) -> None:
        async def run() -> None:
            first = await ledger.reserve([account("a")], 10)
            assert isinstance(first, Reserved)
            await ledger.settle(first, 150)
            assert await ledger.spent_nano_usd("a", DAY) == 150
            assert isinstance(await ledger.reserve([account("a")], 0), Refused)

        asyncio.run(run())

    @given(steps=STEPS)
    @settings(
        max_examples=40,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,  # each class that fulfils the contract is one
        ],
    )
    def test_any_order_of_steps(
        self, make: Make, steps: list[tuple[str, list[str] | int, int]]
    ) -> None:
        """Against sums made by hand: what is open counts as reserved, what is settled as billed."""
        ledger = make()
        taken: list[tuple[Reserved, list[str]]] = []
        counts: dict[str, tuple[list[str], int]] = {}
        run_name = f"run {next(_RUNS)}"  # new accounts each time

        def used(name: str) -> int:
            return sum(amount for names, amount in counts.values() if name in names)

        async def run() -> None:
            for kind, what, amount in steps:
                if kind == "reserve":
                    assert isinstance(what, list)
                    accounts = [account(f"{run_name} {name}") for name in what]
                    found = await ledger.reserve(accounts, amount)
                    fits = all(used(name) + amount <= 100 for name in what)
                    assert isinstance(found, Reserved) == fits
                    if isinstance(found, Reserved):
                        taken.append((found, what))
                        counts[found.number] = what, amount
                elif taken:
                    assert isinstance(what, int)
                    reserved, names = taken.pop(what % len(taken))
                    await ledger.settle(reserved, amount)
                    counts[reserved.number] = names, amount
            for name in "abc":
                assert await ledger.spent_nano_usd(f"{run_name} {name}", DAY) == used(name)
                still_open = sum(counts[each.number][1] for each, names in taken if name in names)
                assert await ledger.reserved_nano_usd(f"{run_name} {name}", DAY) == still_open

        asyncio.run(run())

    def test_many_loops_and_threads(self, ledger: Ledger) -> None:
        """However they interleave: never more than the limit, and the sum is what was settled."""
        billed: Counter[str] = Counter()
        most: list[int] = []

        async def one(price: int) -> None:
            found = await ledger.reserve([account("a", 1_000)], 10)
            if isinstance(found, Refused):
                return
            most.append(await ledger.spent_nano_usd("a", DAY))
            billed["a"] += price
            await ledger.settle(found, price)

        def work() -> None:
            async def run() -> None:
                for start in range(0, 80, 5):
                    await asyncio.gather(*(one(at % 11) for at in range(start, start + 5)))

            asyncio.run(run())

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert max(most) <= 1_000
        # 20 ask at a time, each with 10 put aside: more than 800 are billed before one is refused.
        assert billed["a"] > 800
        assert asyncio.run(ledger.spent_nano_usd("a", DAY)) == billed["a"]
