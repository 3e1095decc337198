"""The cache of a collector: the contract over HTTP, and what may go wrong."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import collector.app
from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.judging.answers import StoredAnswers
from scouter.agent.cache import usual_cache_file
from scouter.agent.cached_judge import CachedJudge
from scouter.client.judge_cache import CollectorCache, named_cache, usual_collector_cache
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest
from tests.collector.conftest import Service
from tests.contracts.judge_cache import DAY_S, Clock, JudgeCacheContract, Make, key_of, stored_in
from tests.support.collector_process import CollectorProcess
from tests.support.processes import free_ports
from tests.support.served import serve


class TestCollectorCache(JudgeCacheContract):
    """Fulfils the contract, over HTTP."""

    @pytest.fixture
    def make(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
        with ExitStack() as running:

            def make(most: int, age: float, clock: Clock) -> CollectorCache:
                running.close()
                monkeypatch.setattr(
                    collector.app, "StoredAnswers", partial(StoredAnswers, clock=clock)
                )
                flags = {"judge_cache_bytes": most, "judge_cache_days": age / DAY_S}
                service = Service(tmp_path, **flags)
                running.callback(service.stop)
                return CollectorCache(running.enter_context(serve(service.collector.app)))

            yield make


def put(cache: CollectorCache, names: str) -> None:
    async def run() -> None:
        for name in names:
            await cache.put(key_of(name), JudgeReply(response=name, model="m"))

    asyncio.run(run())


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[CollectorProcess]:
    """One in a process of its own."""
    process = CollectorProcess(tmp_path)
    process.start()
    yield process
    process.close()


def test_who_may_read_and_who_may_write(
    apart: CollectorProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that only reads is named once; one of another space none; ingest is refused."""
    apart.stop()
    tokens = TokenFile(apart.folder / "data")

    def cache(*scopes: Scope, space: str = "shop") -> CollectorCache:
        return CollectorCache(apart.url, tokens.create("", scopes, space)[1])

    writer, reader = cache(Scope.READ, Scope.PROFILE), cache(Scope.READ)
    foreign = cache(Scope.READ, Scope.PROFILE, space="bank")
    others = [cache(Scope.INGEST), cache(Scope.ADMIN), cache(Scope.PROFILE)]
    apart.start()
    put(writer, "ab")
    assert asyncio.run(stored_in(writer, "abc")) == "ab"
    put(reader, "cd")
    assert asyncio.run(stored_in(reader, "abcd")) == "ab"
    assert [each.getMessage().count("not stored") for each in caplog.records] == [1]
    assert asyncio.run(stored_in(foreign, "ab")) == ""
    for refused, name in zip(others, "efg", strict=True):
        put(refused, name)
        assert asyncio.run(stored_in(refused, "ab")) == ""
    assert asyncio.run(stored_in(writer, "abcdefg")) == "abg", "writing is a scope of its own"


def test_a_collector_that_is_away_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every question is put; nothing fails."""
    (port,) = free_ports(1)
    calls: list[str] = []

    async def judge(request: JudgeRequest) -> int:
        calls.append(request.task_id)
        return 4

    asking = CachedJudge(judge, CollectorCache(f"http://127.0.0.1:{port}"))

    async def run() -> list[bool]:
        request = JudgeRequest(task_id="t", messages=())
        return [(await asking.ask(request)).is_cached for _ in range(3)]

    assert asyncio.run(run()) == [False] * 3
    assert len(calls) == 3
    (warning,) = caplog.records
    assert f"127.0.0.1:{port} cannot be used" in warning.getMessage()


def test_one_that_dies_meanwhile_is_reported_once(
    apart: CollectorProcess, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CollectorCache(apart.url)
    put(cache, "a")
    assert asyncio.run(stored_in(cache, "a")) == "a"
    apart.kill()
    put(cache, "bc")
    assert asyncio.run(stored_in(cache, "abc")) == ""
    assert len(caplog.records) == 1
    apart.start()


def test_what_is_too_large_is_not_stored_and_all_else_goes_on(apart: CollectorProcess) -> None:
    cache = CollectorCache(apart.url)

    async def run() -> str:
        for name, size in (("a", 499_998), ("b", 499_999), ("c", 2_000_000), ("d", 1)):
            await cache.put(key_of(name), JudgeReply(response="x" * size))
        return await stored_in(cache, "abcd")

    assert asyncio.run(run()) == "ad"


def test_a_collector_without_a_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so when something is put there, and is called no more."""
    process = CollectorProcess(tmp_path, "--judge-cache-bytes", "off")
    process.start()
    try:
        cache = CollectorCache(process.url)
        put(cache, "a")
        assert asyncio.run(stored_in(cache, "a")) == ""
        (warning,) = caplog.records
        assert warning.getMessage().endswith("keeps no answers of judges")
        assert not (tmp_path / "data" / "judge_cache.db").exists()
    finally:
        process.close()


@pytest.mark.parametrize(
    ("environ", "address"),
    [
        ({}, None),
        ({"SCOUTER_URL": "https://c.example"}, "https://c.example"),
        ({"SCOUTER_URL": "https://c.example", "SCOUTER_JUDGE_CACHE": "none"}, None),
        ({"SCOUTER_URL": "https://c.example", "SCOUTER_JUDGE_CACHE": "a.db"}, None),
        ({"SCOUTER_JUDGE_CACHE": "http://d.example:4318/"}, "http://d.example:4318"),
    ],
)
def test_which_cache_is_meant(environ: dict[str, str], address: str | None) -> None:
    """A flag wins over its variable, and this over the collector's address."""
    found = usual_collector_cache(environ)
    assert repr(found) == ("None" if address is None else f"CollectorCache({address!r})")
    assert [named_cache(each) for each in ("a.db", "none", None)] == ["a.db", "none", None]
    assert repr(named_cache("http://e.example")) == "CollectorCache('http://e.example')"


def test_an_address_is_no_file() -> None:
    with pytest.raises(ConfigError, match="expected a file"):
        usual_cache_file({"SCOUTER_JUDGE_CACHE": "http://c.example"})


def test_an_answer_that_is_of_no_use_stands_in_nobodys_way(apart: CollectorProcess) -> None:
    """Any client may have put it there: another one asks, and its answer takes the place."""
    calls: list[str] = []

    def judging(answer: int) -> CachedJudge:
        async def judge(request: JudgeRequest) -> int:
            calls.append(request.task_id)
            return answer

        return CachedJudge(judge, CollectorCache(apart.url))

    def ask(judge: CachedJudge, is_usable: Callable[[JudgeReply], bool]) -> object:
        request = JudgeRequest(task_id="t", messages=(), is_usable=is_usable)
        return asyncio.run(judge.ask(request)).response

    assert ask(judging(99), lambda _: True) == 99
    assert ask(judging(4), lambda reply: reply.response == 4) == 4
    assert ask(judging(5), lambda reply: reply.response == 4) == 4
    assert len(calls) == 2
