"""A cached judge: asks each question once, also at the same time, whoever is cancelled."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from scouter.agent.cache.cached_judge import CachedJudge
from scouter.agent.cache.memory import MemoryCache
from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge import JudgeError, JudgeReply, JudgeRequest, Message
from scouter.evaluate.judge_usage import JudgeUsage
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.prompt import Prompt
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord


def question(text: str = "a", **fields: object) -> JudgeRequest:
    return JudgeRequest(
        task_id="t", messages=(Message(role="user", content=text),), **fields  # pyright: ignore[reportArgumentType] - fields of the class
    )  # fmt: skip


class Slow:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go = asyncio.Event()
        self.fails: list[Exception] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.asked.append(request.messages[0]["content"])
        await self.go.wait()
        if self.fails:
            raise self.fails.pop()
        return JudgeReply(
            response={"v": len(self.asked)}, model="m-1", input_tokens=10, cost_usd=0.5
        )


async def settle() -> None:
    """Let everything go on that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Callable[[Slow, CachedJudge], Awaitable[None]]) -> None:
    async def main() -> None:
        slow = Slow()
        await test(slow, CachedJudge(slow, MemoryCache()))

    asyncio.run(asyncio.wait_for(main(), 10))


def test_the_second_time_takes_nothing() -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        slow.go.set()
        first, second = await judge.ask(question()), await judge.ask(question())
        assert (first.input_tokens, first.cost_usd, first.is_cached) == (10, 0.5, False)
        assert second == JudgeReply(
            response={"v": 1}, model="m-1", input_tokens=0, output_tokens=0, cost_usd=0.0,
            is_cached=True,
        )  # fmt: skip
        await judge.ask(question("b"))
        await judge.ask(question(sample=1))
        assert slow.asked == ["a", "b", "a"]

    run(test)


def test_many_at_the_same_time_ask_once() -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        waiting = [asyncio.ensure_future(judge.ask(question("ab"[at % 2]))) for at in range(50)]
        await settle()
        assert slow.asked == ["a", "b"]
        slow.go.set()
        replies = await asyncio.gather(*waiting)
        assert Counter(reply.is_cached for reply in replies) == {False: 2, True: 48}
        assert sum(reply.cost_usd or 0 for reply in replies) == 1.0

    run(test)


def test_a_cancelled_asker_hands_the_question_on() -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        waiting = [asyncio.ensure_future(judge.ask(question())) for _ in range(4)]
        await settle()
        waiting[0].cancel()
        await settle()
        assert slow.asked == ["a", "a"], "exactly one of the others asks"
        waiting[2].cancel()  # one who only waits
        await settle()
        slow.go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each).__name__ for each in found] == [
            "CancelledError", "JudgeReply", "CancelledError", "JudgeReply",
        ]  # fmt: skip
        assert len(slow.asked) == 2
        assert (await judge.ask(question())).is_cached

    run(test)


@pytest.mark.parametrize("reason", [Reason.REFUSAL, Reason.PARSE, Reason.PROVIDER, Reason.BUDGET])
def test_a_failure_is_for_all_who_wait_and_is_not_kept(reason: Reason) -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        took = JudgeUsage(calls=1, cost_usd=0.25)
        slow.fails = [JudgeError(reason, "no", 3.0, usage=took)]
        waiting = [asyncio.ensure_future(judge.ask(question())) for _ in range(3)]
        await settle()
        slow.go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        errors = [each for each in found if isinstance(each, JudgeError)]
        assert [(e.reason, e.message, e.retry_after_s) for e in errors] == [(reason, "no", 3.0)] * 3
        assert [e.usage for e in errors] == [took, JudgeUsage(), JudgeUsage()], "paid for once"
        assert not (await judge.ask(question())).is_cached
        assert len(slow.asked) == 2

    run(test)


def test_across_event_loops() -> None:
    """Threads with loops of their own ask once, too."""
    begun, go = threading.Event(), threading.Event()
    asked: list[str] = []

    def answer(request: JudgeRequest) -> JudgeReply:
        asked.append(request.record_uid)
        begun.set()
        go.wait(10)
        return JudgeReply(response=1)

    judge = CachedJudge(answer, MemoryCache())
    found: list[bool] = []

    def work() -> None:
        found.append(asyncio.run(judge.ask(question())).is_cached)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    go.set()
    for thread in threads:
        thread.join(10)
    assert len(asked) == 1
    assert Counter(found) == {True: 3, False: 1}


def test_spaces_and_entries_are_kept_apart() -> None:
    cache = MemoryCache()
    asked: list[str] = []

    def judge(name: str, space: str, entry: str) -> bool:
        cached = CachedJudge(
            lambda _: asked.append(name), cache, space=space, entry_of=lambda _: entry
        )
        return asyncio.run(cached.ask(question())).is_cached

    calls = [("1", "a", "x"), ("2", "b", "x"), ("3", "a", "y"), ("4", "a", "x")]
    assert [judge(*call) for call in calls] == [False, False, False, True]
    assert asked == ["1", "2", "3"]


def test_what_cannot_be_written_down_is_asked_each_time() -> None:
    asked: list[int] = []
    judge = CachedJudge(lambda _: asked.append(1), MemoryCache())
    odd = question(settings={"a": object()})
    asyncio.run(judge.ask(odd))
    asyncio.run(judge.ask(odd))
    assert len(asked) == 2


def test_an_unknown_entry_is_the_judges_to_tell() -> None:
    def refuse(_: str) -> str:
        raise ConfigError("no such entry")

    judge = CachedJudge(lambda _: 1, MemoryCache(), entry_of=refuse)
    assert asyncio.run(judge.ask(question())).response == 1


def test_results_say_what_came_from_the_cache() -> None:
    """Two records with the same question, three samples each: one record pays, for both."""
    judge = CachedJudge(
        lambda _: JudgeReply(response={"v": 1}, input_tokens=10, cost_usd=0.5), MemoryCache()
    )
    task = LLMJudgeTask("j", Prompt("${n}", "m", "openai"), 1, "v", "Equals", samples=3)
    records = [EvalRecord({"n": 1}), EvalRecord({"n": 1})]
    first = EvalDataset(records, [task]).evaluate(judge=judge)
    usages = [record.tasks[0].usage for record in first.records]
    assert [usage.calls + usage.cached for usage in usages if usage] == [2, 2]
    assert sum(usage.calls for usage in usages if usage) == 2
    assert sum(usage.cost_usd or 0 for usage in usages if usage) == 1.0

    second = EvalDataset(records, [task]).evaluate(judge=judge)
    nothing = JudgeUsage(calls=0, cached=2, input_tokens=0, output_tokens=0, cost_usd=0.0)
    assert [record.tasks[0].usage for record in second.records] == [nothing, nothing]
    assert [record.outcome for record in second.records] == [Outcome.PASSED] * 2
