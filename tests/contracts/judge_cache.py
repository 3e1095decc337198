"""Duties of every cache of judges' answers. A new cache adds one small subclass."""

import asyncio
import threading
from collections.abc import Callable
from hashlib import sha256

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.agent.cache import JudgeCache
from scouter.evaluate.judge.port import JudgeReply

DAY_S = 24 * 3600.0

JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


Make = Callable[[int, float, Clock], JudgeCache]
"""Makes the cache of this test, by most bytes, most seconds and clock; empty the first time."""


def key_of(name: str) -> bytes:
    """A key, as `cache_key` makes them."""
    return sha256(name.encode()).digest()


async def stored_in(cache: JudgeCache, names: str) -> str:
    """The answers that the cache has, each named by a letter."""
    return "".join([name for name in names if await cache.get(key_of(name)) is not None])


class JudgeCacheContract:
    """The tests; a subclass gives the fixture `make`."""

    @pytest.fixture
    def make(self) -> Make:
        """Makes a cache."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def cache(self, make: Make, clock: Clock) -> JudgeCache:
        return make(10_000_000, DAY_S, clock)

    def test_what_was_never_put_is_not_there(self, cache: JudgeCache) -> None:
        assert asyncio.run(cache.get(key_of("a"))) is None

    @given(response=JSON, model=st.text(max_size=10))
    @settings(
        max_examples=60,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,  # each class that fulfils the contract is one
        ],
    )
    def test_an_answer_comes_back_as_it_was(
        self, cache: JudgeCache, response: JsonValue, model: str
    ) -> None:
        """Value and type; what it took is not stored, as it takes nothing again."""
        reply = JudgeReply(response=response, model=model, input_tokens=5, cost_usd=0.1)

        async def there_and_back() -> JudgeReply | None:
            await cache.put(key_of("a"), reply)
            return await cache.get(key_of("a"))

        found = asyncio.run(there_and_back())
        assert found is not None
        assert (repr(found.response), found.model) == (repr(response), model)
        assert (found.input_tokens, found.cost_usd) == (None, None)

    async def _put(self, cache: JudgeCache, names: str, size: int = 0) -> None:
        for name in names:
            await cache.put(key_of(name), JudgeReply(response=name + "x" * size))

    def test_a_later_answer_takes_the_place(self, cache: JudgeCache) -> None:
        async def twice() -> JudgeReply | None:
            await cache.put(key_of("a"), JudgeReply(response=1))
            await cache.put(key_of("a"), JudgeReply(response=2))
            return await cache.get(key_of("a"))

        found = asyncio.run(twice())
        assert found is not None
        assert found.response == 2

    def test_an_answer_cannot_be_changed_from_outside(self, cache: JudgeCache) -> None:
        async def run() -> JsonValue:
            answer: dict[str, JsonValue] = {"score": 1}
            await cache.put(key_of("a"), JudgeReply(response=answer))
            answer["score"] = 2
            first = await cache.get(key_of("a"))
            assert first is not None
            assert isinstance(first.response, dict)
            first.response["score"] = 3
            second = await cache.get(key_of("a"))
            return None if second is None else second.response

        assert asyncio.run(run()) == {"score": 1}

    def test_what_is_too_old_is_not_there(self, cache: JudgeCache, clock: Clock) -> None:
        async def run() -> list[str]:
            await self._put(cache, "a")
            clock.now += DAY_S / 2
            await self._put(cache, "b")
            found = [await stored_in(cache, "ab")]
            clock.now += DAY_S / 2 + 1
            found.append(await stored_in(cache, "ab"))
            await self._put(cache, "a")
            return [*found, await stored_in(cache, "ab")]

        assert asyncio.run(run()) == ["ab", "b", "ab"]

    def test_the_oldest_make_room(self, make: Make, clock: Clock) -> None:
        """Room for three answers of 10,000 letters: a fourth drives the first out."""
        cache = make(35_000, DAY_S, clock)

        async def run() -> list[str]:
            await self._put(cache, "abc", 10_000)
            found = [await stored_in(cache, "abcde")]
            await self._put(cache, "a", 10_000)  # anew, so that b is the oldest
            await self._put(cache, "d", 10_000)
            found.append(await stored_in(cache, "abcde"))
            await self._put(cache, "e", 30_000)
            return [*found, await stored_in(cache, "abcde")]

        assert asyncio.run(run()) == ["abc", "acd", "e"]
        cache.close()

    def test_an_answer_that_never_fits_drives_nothing_out(self, make: Make, clock: Clock) -> None:
        cache = make(35_000, DAY_S, clock)

        async def run() -> str:
            await self._put(cache, "ab", 10_000)
            await self._put(cache, "c", 40_000)
            return await stored_in(cache, "abc")

        assert asyncio.run(run()) == "ab"
        cache.close()

    @pytest.mark.parametrize("response", [float("nan"), object()])
    def test_what_has_no_json_form_is_not_stored(self, cache: JudgeCache, response: object) -> None:
        async def run() -> JudgeReply | None:
            await cache.put(key_of("a"), JudgeReply(response=response))  # pyright: ignore[reportArgumentType] - as a function may answer
            return await cache.get(key_of("a"))

        assert asyncio.run(run()) is None

    def test_many_loops_and_threads(self, cache: JudgeCache) -> None:
        names = "abcdefgh"

        def work(shift: int) -> None:
            async def run() -> None:
                await asyncio.gather(
                    *(self._put(cache, names[shift:] + names[:shift]) for _ in range(5))
                )

            asyncio.run(run())

        threads = [threading.Thread(target=work, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert asyncio.run(stored_in(cache, names)) == names

    def test_a_closed_cache_opens_again(self, cache: JudgeCache) -> None:
        asyncio.run(self._put(cache, "a"))
        cache.close()
        assert asyncio.run(stored_in(cache, "a")) == "a"
        cache.close()
