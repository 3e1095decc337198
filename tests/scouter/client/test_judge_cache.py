"""The cache of a collector: the contract against a process of its own, and what may go wrong."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.agent.cache.cached_judge import CachedJudge
from scouter.agent.cache.sqlite import usual_cache_file
from scouter.client.judge_cache import CollectorCache
from scouter.client.named_cache import named_cache, usual_collector_cache
from scouter.errors import ConfigError
from scouter.evaluate.judge import JudgeReply, JudgeRequest
from tests.contracts.judge_cache import DAY_S, Clock, JudgeCacheContract, Make, kept, key_of
from tests.support.collector_process import CollectorProcess
from tests.support.processes import free_ports


class FileClock(Clock):
    """Seconds that another process reads."""

    def __init__(self, file: Path) -> None:
        self.file = file
        super().__init__()

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "now":
            partial = self.file.with_suffix(".partial")
            partial.write_text(repr(value))
            partial.replace(self.file)


class ClockedCollector(CollectorProcess):
    """A collector whose cache reads the time from a file."""

    clock: Path

    def command(self) -> list[str]:
        return [*super().command(), "tests.support.clocked_collector", str(self.clock)]


class TestCollectorCache(JudgeCacheContract):
    """Fulfils the contract, over HTTP."""

    @pytest.fixture
    def clock(self, tmp_path: Path) -> Clock:
        return FileClock(tmp_path / "now")

    @pytest.fixture
    def make(self, tmp_path: Path, clock: Clock) -> Iterator[Make]:
        running: list[CollectorProcess] = []

        def make(most: int, age: float, clock: Clock) -> CollectorCache:
            assert isinstance(clock, FileClock)
            process = ClockedCollector(
                tmp_path, "--judge-cache-bytes", str(most),
                "--judge-cache-days", str(age / DAY_S),
            )  # fmt: skip
            process.clock = clock.file
            process.start()
            running.append(process)
            return CollectorCache(process.url)

        yield make
        for process in running:
            process.close()


def put(cache: CollectorCache, names: str) -> None:
    async def run() -> None:
        for name in names:
            await cache.put(key_of(name), JudgeReply(response=name, model="m"))

    asyncio.run(run())


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    """One with tokens."""
    process = CollectorProcess(tmp_path)
    process.start()
    yield process
    process.close()


def test_who_may_read_and_who_may_write(
    collector: CollectorProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """A token that only reads is told once; one of another space has nothing; ingest is refused."""
    collector.stop()
    tokens = TokenFile(collector.folder / "data")

    def cache(*scopes: Scope, space: str = "shop") -> CollectorCache:
        return CollectorCache(collector.url, tokens.create("", scopes, space)[1])

    writer, reader = cache(Scope.READ, Scope.PROFILE), cache(Scope.READ)
    foreign = cache(Scope.READ, Scope.PROFILE, space="bank")
    others = [cache(Scope.INGEST), cache(Scope.ADMIN), cache(Scope.PROFILE)]
    collector.start()
    put(writer, "ab")
    assert asyncio.run(kept(writer, "abc")) == "ab"
    put(reader, "cd")
    assert asyncio.run(kept(reader, "abcd")) == "ab"
    assert [each.getMessage().count("not kept") for each in caplog.records] == [1]
    assert asyncio.run(kept(foreign, "ab")) == ""
    for refused, name in zip(others, "efg", strict=True):
        put(refused, name)
        assert asyncio.run(kept(refused, "ab")) == ""
    assert asyncio.run(kept(writer, "abcdefg")) == "abg", "writing is a scope of its own"


def test_a_collector_that_is_away_costs_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every question is asked; nothing fails."""
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
    (told,) = caplog.records
    assert f"127.0.0.1:{port} cannot be used" in told.getMessage()


def test_one_that_dies_meanwhile_is_told_once(
    collector: CollectorProcess, caplog: pytest.LogCaptureFixture
) -> None:
    cache = CollectorCache(collector.url)
    put(cache, "a")
    assert asyncio.run(kept(cache, "a")) == "a"
    collector.kill()
    put(cache, "bc")
    assert asyncio.run(kept(cache, "abc")) == ""
    assert len(caplog.records) == 1
    collector.start()


def test_what_is_too_large_is_not_kept_and_all_else_goes_on(collector: CollectorProcess) -> None:
    cache = CollectorCache(collector.url)

    async def run() -> str:
        for name, size in (("a", 499_998), ("b", 499_999), ("c", 2_000_000), ("d", 1)):
            await cache.put(key_of(name), JudgeReply(response="x" * size))
        return await kept(cache, "abcd")

    assert asyncio.run(run()) == "ad"


def test_a_collector_without_a_cache(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It says so when something is put there, and is asked no more."""
    process = CollectorProcess(tmp_path, "--judge-cache-bytes", "off")
    process.start()
    try:
        cache = CollectorCache(process.url)
        put(cache, "a")
        assert asyncio.run(kept(cache, "a")) == ""
        (told,) = caplog.records
        assert told.getMessage().endswith("keeps no answers of judges")
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
