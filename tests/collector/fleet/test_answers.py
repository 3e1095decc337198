"""Stored answers of a fleet: requested by one process, known to all, and erased in all."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from collector.fleet.answers import FleetAnswers, remove_answers
from collector.fleet.cache import PostgresqlCache
from collector.fleet.database import open_beside
from scouter.agent.cached_judge import CachedJudge, cache_key
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest, as_judge
from tests.contracts.judge_cache import Clock, JudgeCacheContract, Make, key_of, stored_in
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

LARGE = 10_000_000
DAY_S = 86_400.0


class TestPostgresqlCache(JudgeCacheContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, url: str) -> Iterator[Make]:
        with ExitStack() as stack:

            def make(most: int, age: float, clock: Clock) -> PostgresqlCache:
                made = PostgresqlCache(open_beside(url), max_bytes=most, max_age_s=age, clock=clock)
                stack.callback(made.close)
                return made

            yield make


def put(cache: PostgresqlCache, names: str, shelf: str = "", text: str = "") -> None:
    async def run() -> None:
        for name in names:
            await cache.put(key_of(name), JudgeReply(response=f"{text} {name}"), shelf)

    asyncio.run(run())


def test_the_total_is_that_of_the_rows(url: str) -> None:
    """Whatever was put, put again, driven out or cleared, by two processes in turn."""
    session = open_beside(url)
    caches = [PostgresqlCache(open_beside(url), max_bytes=30_000) for _ in range(2)]
    for at, names in enumerate(["abcdef", "abc", "ghijkl", "a", "mnop"]):
        put(caches[at % 2], names, shelf="xy"[at % 2], text="t" * 1_500)
        caches[at % 2].clear(["y"]) if at == 3 else None
        (found,) = session.read(
            "SELECT count(*), coalesce(sum(bytes), 0)::bigint FROM judge_answers"
        )
        assert caches[0].stored() == found
        assert found[1] <= 30_000
    session.close()
    for each in caches:
        each.close()


def test_many_that_are_too_old_make_room_at_once(url: str) -> None:
    """More than one statement takes."""
    clock = Clock()
    cache = PostgresqlCache(open_beside(url), max_age_s=DAY_S, clock=clock)
    put(cache, "a")

    session = open_beside(url)
    session.read(
        "INSERT INTO judge_answers (shelf, key, made_s, bytes, reply) "
        "SELECT 'old', decode(lpad(n::text, 8, '0'), 'hex'), $1, 10, '[1,\"\"]' "
        "FROM generate_series(1, 2500) AS n",
        [clock.now],
    )
    session.read("UPDATE judge_answers_total SET answers = answers + 2500, bytes = bytes + 25000")
    assert cache.stored().answers == 2_501
    clock.now += DAY_S + 1
    put(cache, "b")
    assert cache.stored().answers == 1
    cache.close()
    session.close()


def test_who_keeps_none_any_more_removes_them(url: str) -> None:
    session = open_beside(url)
    cache = PostgresqlCache(session)
    put(cache, "abc", shelf="own shop")
    other = open_beside(url)
    remove_answers(other)
    other.close()
    assert cache.stored() == (0, 0)
    put(cache, "a")
    assert cache.stored().answers == 1
    session.close()


def test_a_server_that_is_away_is_reported_once_and_comes_back(
    own_server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_server.new_database("own")
    cache = PostgresqlCache(open_beside(url))
    put(cache, "a")
    own_server.crash()
    put(cache, "b")
    assert asyncio.run(stored_in(cache, "ab")) == ""
    own_server.start()
    cache.close()
    cache = PostgresqlCache(open_beside(url))
    put(cache, "c")
    assert asyncio.run(stored_in(cache, "bc")) == "c", "what was just put may be lost, and no more"
    (record,) = caplog.records
    assert "passed over for now: PostgreSQL at /tmp" in record.getMessage()
    cache.close()


# --- spaces and erasing ---


class Fleet:
    """Processes with one cache, and a judge that counts."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.clock = Clock()
        self.seq = 10
        """The newest commit of the store."""
        self.calls: list[str] = []
        self.gate: Callable[[], None] = lambda: None
        """Called while a question is being answered."""
        self._running: list[FleetAnswers] = []

    def start(self) -> FleetAnswers:
        """One more process."""

        def answer(request: JudgeRequest) -> str:
            self.calls.append(request.task_id)
            gate, self.gate = self.gate, lambda: None
            gate()
            return f"about {request.messages[0]['content']}"

        made = FleetAnswers(
            open_beside(self._url), as_judge(answer), str, lambda: self.seq,
            max_bytes=LARGE, max_age_s=DAY_S, clock=self.clock,
        )  # fmt: skip
        self._running.append(made)
        return made

    def ask(self, answers: FleetAnswers, text: str, space: str = "shop", seq: int = 10) -> bool:
        """Put a question about what was read after a commit; tells whether the answer was known."""
        judge = answers.judge_of(space, seq)
        return asyncio.run(judge.ask(question(text))).is_cached

    def close(self) -> None:
        for each in self._running:
            each.close()


def question(text: str) -> JudgeRequest:
    return JudgeRequest(task_id="t", messages=({"role": "user", "content": text},))


@pytest.fixture
def fleet(url: str) -> Iterator[Fleet]:
    made = Fleet(url)
    yield made
    made.close()


def test_what_one_process_requested_the_others_know(fleet: Fleet) -> None:
    """Within a space."""
    one, other = fleet.start(), fleet.start()
    assert [fleet.ask(each, "a") for each in (one, other, fleet.start())] == [False, True, True]
    assert fleet.ask(other, "a", space="bank") is False
    assert len(fleet.calls) == 2
    assert isinstance(one.judge_of("shop", 10), CachedJudge)
    assert one.stored() == other.stored()
    assert one.stored().answers == 2


def test_clients_read_both_shelves_and_judges_only_their_own(fleet: Fleet) -> None:
    one, other = fleet.start(), fleet.start()
    key = cache_key(question("a"), space="default", entry="")

    async def run() -> list[JudgeReply | None]:
        await one.keep("shop", key, JudgeReply(response="a client's"))
        return [await other.find(space, key) for space in ("shop", "bank")]

    sent, elsewhere = asyncio.run(run())
    assert sent is not None
    assert (sent.response, elsewhere) == ("a client's", None)
    assert fleet.ask(other, "a") is False, "a judge reads nothing of a client"
    found = asyncio.run(one.find("shop", key))
    assert found is not None
    assert found.response == "about a", "what was really called for goes before"


def test_an_erasure_takes_the_answers_of_its_space_for_all(fleet: Fleet) -> None:
    """What is read after it is stored again, also by processes that did not hear of it."""
    api, worker = fleet.start(), fleet.start()
    fleet.ask(worker, "a")
    fleet.ask(worker, "a", space="bank")
    asyncio.run(api.keep("shop", b"k", JudgeReply(response=1)))
    api.begin_erasing("shop")
    assert api.stored().answers == 1
    api.end_erasing("shop", 11)
    assert asyncio.run(api.find("shop", b"k")) is None
    assert fleet.ask(worker, "a", space="bank") is True
    assert [fleet.ask(worker, "a", seq=11) for _ in range(3)] == [False, False, True], (
        "by the first one it hears of the erasure"
    )
    assert [fleet.ask(fleet.start(), text, seq=11) for text in "bab"] == [False, True, True]


def test_what_was_read_before_an_erasure_is_not_stored(fleet: Fleet) -> None:
    """The judge is called while its record is erased elsewhere; the answer comes afterwards."""
    api, worker = fleet.start(), fleet.start()

    def erase() -> None:
        api.begin_erasing("shop")
        api.end_erasing("shop", 11)

    fleet.gate = erase
    fleet.ask(worker, "a")
    assert api.stored().answers == 0
    fleet.ask(worker, "a")
    assert api.stored().answers == 0, "called after it, about what was read before"
    fleet.ask(worker, "a", seq=11)
    assert api.stored().answers == 1


def test_nothing_is_stored_while_it_is_erased(fleet: Fleet) -> None:
    """By no process, and also not what clients send; other spaces go on."""
    api, worker = fleet.start(), fleet.start()
    api.begin_erasing("shop")
    api.begin_erasing("shop")
    api.end_erasing("shop", 11)
    asyncio.run(worker.keep("shop", b"k", JudgeReply(response=1)))
    fleet.ask(worker, "a", seq=12)
    assert worker.stored().answers == 0
    fleet.ask(worker, "a", space="bank")
    assert worker.stored().answers == 1
    api.end_erasing("shop", 0)
    asyncio.run(worker.keep("shop", b"k", JudgeReply(response=1)))
    fleet.ask(worker, "a", seq=12)
    fleet.ask(worker, "a", seq=12)
    assert worker.stored().answers == 3


def test_whatever_comes_together_nothing_is_stored_of_what_was_erased(
    fleet: Fleet, url: str
) -> None:
    """Three processes ask about what they read, and a fourth erases all the time.

    Each answer says after which commit its data was read; with the last erasure, those of before
    are gone, and none comes behind it.
    """
    api, workers = fleet.start(), [fleet.start() for _ in range(3)]
    stopping = threading.Event()

    def work(answers: FleetAnswers, number: int) -> None:
        at = 0
        while not stopping.is_set():
            at += 1
            seq = fleet.seq
            fleet.ask(answers, f"{number} {at} {seq}", seq=seq)

    threads = [
        threading.Thread(target=work, args=(each, number)) for number, each in enumerate(workers)
    ]
    session, stored = open_beside(url), 0
    for each in threads:
        each.start()
    try:
        for _ in range(40):
            api.begin_erasing("shop")
            fleet.seq += 1  # the commit that erases
            api.end_erasing("shop", fleet.seq)
            calls = len(fleet.calls)
            wait_until(lambda calls=calls: len(fleet.calls) > calls + 20, what="questions")
            rows = session.read("SELECT reply FROM judge_answers")
            replies = [str(json.loads(text)[0]) for (text,) in rows]
            assert [each for each in replies if int(each.split()[-1]) < fleet.seq] == []
            stored += len(replies)
    finally:
        stopping.set()
        for each in threads:
            each.join()
        session.close()
    assert stored > 40


def test_an_erasure_of_a_process_that_died_ends_after_an_hour(fleet: Fleet) -> None:
    """What was read before anybody can know that it is over is not stored."""
    api, worker = fleet.start(), fleet.start()
    api.begin_erasing("shop")
    fleet.seq = 20
    fleet.clock.now += 3_590
    fleet.ask(worker, "a", seq=20)
    assert worker.stored().answers == 0
    fleet.clock.now += 20
    fleet.ask(worker, "a", seq=19)
    assert worker.stored().answers == 0
    fleet.ask(worker, "a", seq=20)
    assert worker.stored().answers == 1
    api.end_erasing("shop", 11)
    assert fleet.ask(worker, "a", seq=20) is True


def test_an_end_that_cannot_be_written_is_owed(
    own_server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = own_server.new_database("own")
    caplog.set_level(logging.WARNING)
    fleet = Fleet(url)
    api = fleet.start()
    api.begin_erasing("shop")
    own_server.crash()
    api.end_erasing("shop", 11)
    assert "no answers of space 'shop' are stored for now: PostgreSQL at" in caplog.text
    own_server.start()
    api.close()
    worker = fleet.start()
    fleet.ask(worker, "a", seq=11)
    assert worker.stored().answers == 1
    fleet.close()
