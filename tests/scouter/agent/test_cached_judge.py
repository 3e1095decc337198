"""A cached judge: asks each question once, also at the same time, whoever is cancelled."""

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.agent.cache import MemoryCache
from scouter.agent.cached_judge import CachedJudge, cache_key
from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, JudgeUsage, Message
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.judge import LLMJudgeTask, PairSwap
from scouter.model.record import EvalRecord


def question(text: str = "a", **fields: object) -> JudgeRequest:
    return JudgeRequest(
        task_id="t", messages=(Message(role="user", content=text),), **fields  # pyright: ignore[reportArgumentType] - fields of the class
    )  # fmt: skip


class Slow:
    """Answers on command."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.go = asyncio.Event()
        self.fails: list[Exception] = []

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.questions.append(request.messages[0]["content"])
        await self.go.wait()
        if self.fails:
            raise self.fails.pop()
        return JudgeReply(
            response={"v": len(self.questions)}, model="m-1", input_tokens=10, cost_usd=0.5
        )


async def settle() -> None:
    """Let everything go on that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Callable[[Slow, CachedJudge], Awaitable[None]]) -> None:
    async def main() -> None:
        slow = Slow()
        await test(slow, CachedJudge(slow, MemoryCache()))

    asyncio.run(asyncio.wait_for(main(), 120))


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
        assert slow.questions == ["a", "b", "a"]

    run(test)


def test_many_at_the_same_time_ask_once() -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        waiting = [asyncio.ensure_future(judge.ask(question("ab"[at % 2]))) for at in range(50)]
        await settle()
        assert slow.questions == ["a", "b"]
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
        assert slow.questions == ["a", "a"], "exactly one of the others asks"
        waiting[2].cancel()  # one who only waits
        await settle()
        slow.go.set()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each).__name__ for each in found] == [
            "CancelledError", "JudgeReply", "CancelledError", "JudgeReply",
        ]  # fmt: skip
        assert len(slow.questions) == 2
        assert (await judge.ask(question())).is_cached

    run(test)


@pytest.mark.parametrize("reason", [Reason.REFUSAL, Reason.PARSE, Reason.PROVIDER, Reason.BUDGET])
def test_a_failure_is_for_all_who_wait_and_is_not_stored(reason: Reason) -> None:
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
        assert len(slow.questions) == 2

    run(test)


def test_across_event_loops() -> None:
    """Threads with loops of their own ask once, too."""
    started, go = threading.Event(), threading.Event()
    requests: list[str] = []

    def answer(request: JudgeRequest) -> JudgeReply:
        requests.append(request.record_uid)
        started.set()
        go.wait(120)
        return JudgeReply(response=1)

    judge = CachedJudge(answer, MemoryCache())
    found: list[bool] = []

    def work() -> None:
        found.append(asyncio.run(judge.ask(question())).is_cached)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(120)
    go.set()
    for thread in threads:
        thread.join(120)
    assert len(requests) == 1
    assert Counter(found) == {True: 3, False: 1}


def test_spaces_and_entries_are_separate() -> None:
    cache = MemoryCache()
    requests: list[str] = []

    def judge(name: str, space: str, entry: str) -> bool:
        cached = CachedJudge(
            lambda _: requests.append(name), cache, space=space, entry_of=lambda _: entry
        )
        return asyncio.run(cached.ask(question())).is_cached

    calls = [("1", "a", "x"), ("2", "b", "x"), ("3", "a", "y"), ("4", "a", "x")]
    assert [judge(*call) for call in calls] == [False, False, False, True]
    assert requests == ["1", "2", "3"]


def test_what_cannot_be_written_down_is_requested_each_time() -> None:
    requests: list[int] = []
    judge = CachedJudge(lambda _: requests.append(1), MemoryCache())
    odd = question(settings={"a": object()})
    asyncio.run(judge.ask(odd))
    asyncio.run(judge.ask(odd))
    assert len(requests) == 2


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


# --- answers that are of no use ---


def judge_task(operator: str = "Equals", path: str | None = None, **fields: Any) -> LLMJudgeTask:
    """A task that compares with 5, without a schema unless one is given."""
    schema: Any = fields.pop("output_type", None)
    prompt = Prompt("Rate ${answer}, not ${other}.", "m", "openai", output_type=schema)
    return LLMJudgeTask("j", prompt, fields.pop("expected", 5), path, operator, **fields)


SCORED = judge_task(path="score", output_type=Score)
SCALED = judge_task(path="score", output_type=Score, scale=(1, 5))
PAIR = judge_task(
    path="better",
    expected="A",
    swap=PairSwap(first="answer", second="other", labels=("A", "B"), tie="tie"),
)
RUBRIC = judge_task(path="score", expected=1, rubric={"polite": "Is it polite?"})


def tasks_of(task: LLMJudgeTask, judge: CachedJudge) -> EvalTaskResult:
    records = [EvalRecord({"answer": "x", "other": "y"})]
    return EvalDataset(records, [task]).evaluate(judge=judge).records[0].tasks[0]


def answering(cache: MemoryCache, *answers: JsonValue) -> tuple[CachedJudge, list[JudgeRequest]]:
    """A judge around a model that gives these answers one after the other."""
    given, requests = iter(answers), list[JudgeRequest]()

    def answer(request: JudgeRequest) -> JsonValue:
        requests.append(request)
        return next(given)

    return CachedJudge(answer, cache), requests


@pytest.mark.parametrize(
    ("task", "useless", "useful"),
    [
        pytest.param(SCORED, {"wrong": 1}, {"score": 5, "reason": "r"}, id="other fields"),
        pytest.param(SCORED, "I'd say 5 of 5", {"score": 5, "reason": "r"}, id="prose"),
        pytest.param(SCORED, '{"score": 1, "score": 5, "reason": "r"}',
                     {"score": 5, "reason": "r"}, id="a key twice"),
        pytest.param(SCALED, {"score": 9, "reason": "r"}, {"score": 5, "reason": "r"}, id="scale"),
        pytest.param(judge_task(path="score"), {"rate": 5}, {"score": 5}, id="no such path"),
        pytest.param(judge_task("GreaterThanOrEqual"), "five", 5, id="not to be compared"),
        pytest.param(RUBRIC, {"polite": {"reason": "r", "verdict": "maybe"}},
                     {"polite": {"reason": "r", "verdict": "yes"}}, id="rubric"),
    ],
)  # fmt: skip
def test_what_the_task_cannot_use_is_requested_again(
    task: LLMJudgeTask, useless: JsonValue, useful: JsonValue
) -> None:
    """The first answer costs one verdict, and not those of all later runs; the second is stored."""
    judge, requests = answering(MemoryCache(), useless, useful)
    found = [tasks_of(task, judge) for _ in range(3)]
    assert [each.outcome for each in found] == [Outcome.ERRORED, Outcome.PASSED, Outcome.PASSED]
    assert [each.usage.cached for each in found if each.usage] == [0, 0, 1]
    assert len(requests) == 2


def test_of_a_pair_each_choice_counts_by_itself() -> None:
    """None of the labels: it is requested again; one that changes with the order is stored."""
    judge, requests = answering(MemoryCache(), {"better": "both"}, {"better": "A"}, {"better": "A"})
    found = [tasks_of(PAIR, judge) for _ in range(3)]
    assert [each.outcome for each in found] == [Outcome.ERRORED, Outcome.FAILED, Outcome.FAILED]
    assert [each.usage.cached for each in found if each.usage] == [0, 1, 2]
    assert len(requests) == 3


@pytest.mark.parametrize(
    ("task", "answer", "reason"),
    [
        pytest.param(judge_task(may_abstain=True), {"abstain": True}, "abstained", id="abstains"),
        pytest.param(judge_task(expected="${gone}"), "5", "expected", id="the record is at fault"),
        pytest.param(RUBRIC, {"polite": {"reason": "r", "verdict": "cannot_tell"}}, "abstained",
                     id="cannot tell"),
        pytest.param(SCORED, {"score": 1, "reason": "r"}, None, id="failed"),
    ],
)  # fmt: skip
def test_an_answer_that_says_what_it_has_to_is_stored(
    task: LLMJudgeTask, answer: JsonValue, reason: str | None
) -> None:
    """Although the verdict is none, or not the wanted one: asking again would mend nothing."""
    judge, requests = answering(MemoryCache(), answer)
    assert [tasks_of(task, judge).reason for _ in range(2)] == [reason] * 2
    assert len(requests) == 1


def test_what_others_have_put_there_is_compared_with_the_question() -> None:
    """A cache that somebody else can write gives verdicts of its own, and never takes one away."""
    cache = MemoryCache()
    judge, requests = answering(cache, {"score": 5, "reason": "the model's"})
    (request,) = questions(SCALED)
    key = cache_key(request, space="default", entry="openai")
    asyncio.run(cache.put(key, JudgeReply(response={"score": 99, "reason": "planted"})))
    assert [tasks_of(SCALED, judge).outcome for _ in range(2)] == [Outcome.PASSED] * 2
    assert len(requests) == 1
    stored = asyncio.run(cache.get(key))
    assert stored is not None
    assert stored.response == {"score": 5, "reason": "the model's"}


def questions(task: LLMJudgeTask) -> list[JudgeRequest]:
    """The questions of a task about the record of these tests."""
    judge, requests = answering(MemoryCache(), {"score": 1, "reason": "r"})
    tasks_of(task, judge)
    return requests


def is_second(reply: JudgeReply) -> bool:
    return reply.response == {"v": 2}


def test_a_useless_answer_is_for_all_who_wait_and_is_not_stored() -> None:
    async def test(slow: Slow, judge: CachedJudge) -> None:
        useless = question(is_usable=is_second)
        waiting = [asyncio.ensure_future(judge.ask(useless)) for _ in range(3)]
        await settle()
        slow.go.set()
        replies = await asyncio.gather(*waiting)
        assert [reply.response for reply in replies] == [{"v": 1}] * 3
        assert sum(reply.cost_usd or 0 for reply in replies) == 0.5, "paid for once"
        assert [(await judge.ask(useless)).response for _ in range(2)] == [{"v": 2}] * 2
        assert slow.questions == ["a", "a"]

    run(test)


def test_a_stored_answer_that_is_of_use_to_one_alone() -> None:
    """A caller that waits for another's lookup asks itself where the answer is of no use to it."""

    class Pausing(MemoryCache):
        async def get(self, key: bytes, shelf: str = "") -> JudgeReply | None:
            await asyncio.sleep(0)
            return await super().get(key, shelf)

    async def main() -> None:
        slow = Slow()
        slow.go.set()
        judge = CachedJudge(slow, Pausing())
        await judge.ask(question())
        other = question(is_usable=is_second)
        found = await asyncio.gather(judge.ask(question()), judge.ask(other))
        assert [(each.response, each.is_cached) for each in found] == [
            ({"v": 1}, True), ({"v": 2}, False),
        ]  # fmt: skip

    asyncio.run(asyncio.wait_for(main(), 120))
