"""The engine with a judge: order, bounds, retries, what dependents see, and how it ends."""

import asyncio
import contextvars
import signal
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scouter.errors import ConfigError, TransientError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.judged import (
    evaluate_records,
    evaluate_records_async,
)
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.ask import Backoff
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, JudgeUsage
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.run import judge_totals
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge
from tests.contracts.store_data import span
from tests.support.examples import examples

PROMPT = Prompt("${n}", "m", "openai", fence=False)


def judge_task(name: str = "j", **fields: Any) -> LLMJudgeTask:
    fields = {"expected_value": 1, "context_path": "v", "operator": Op.Equals, **fields}
    return LLMJudgeTask(name, fields.pop("prompt", PROMPT), **fields)


def numbered(count: int) -> list[EvalRecord]:
    return [EvalRecord({"n": n}, id=str(n)) for n in range(count)]


def plain(results: Sequence[RecordResult]) -> list[dict[str, Any]]:
    """Everything but how long it took."""
    return [{**result.to_json(), "duration_ns": 0} for result in results]


class Clock:
    """Time that passes when everybody waits: sleepers wake in the order of their times."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        woken = asyncio.Event()
        self._sleepers.append((self.now + seconds, len(self.slept), woken))
        for _ in range(20):  # until all that can run has come to wait
            await asyncio.sleep(0)
        while not woken.is_set():
            first = min(self._sleepers)
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            first[2].set()
            await asyncio.sleep(0)


# --- order and bounds ---


@pytest.mark.parametrize("concurrency", [1, 3, 8, 50])
def test_no_more_questions_at_a_time_than_allowed(concurrency: int) -> None:
    """Counted inside the judge; and as many as allowed, or the bound would cost time."""
    judge = ScriptedJudge({"j": {"v": 1}}, delay_s=1, sleep=Clock().sleep)
    dataset = EvalDataset(numbered(20), [judge_task()])
    results = dataset.evaluate(judge=judge, concurrency=concurrency)
    assert judge.most_at_once == min(concurrency, 20)
    assert len(judge.requests) == 20
    assert [result.outcome for result in results.records] == [Outcome.PASSED] * 20


@pytest.mark.parametrize(("concurrency", "most"), [(8, 3), (2, 2)])
def test_judges_of_one_stage_are_called_together(concurrency: int, most: int) -> None:
    judge = ScriptedJudge(lambda request: {"v": 1}, delay_s=1, sleep=Clock().sleep)
    tasks = [judge_task(name) for name in "abc"] + [judge_task("d", depends_on=["a"])]
    EvalDataset(numbered(1), tasks).evaluate(judge=judge, concurrency=concurrency)
    assert judge.most_at_once == most
    assert judge.requests[-1].task_id == "d"


def test_results_keep_the_records_order_whoever_answers_first() -> None:
    clock = Clock()
    judge = ScriptedJudge(
        lambda request: {"v": int(request.messages[0]["content"])},
        delay_s=lambda request: 100.0 - int(request.messages[0]["content"]),
        sleep=clock.sleep,
    )
    results = EvalDataset(numbered(12), [judge_task()]).evaluate(judge=judge, concurrency=5)
    assert [result.record_id for result in results.records] == [str(n) for n in range(12)]
    assert [result.tasks[0].actual for result in results.records] == list(range(12))
    assert clock.now < 12 * 89  # they did not wait one after the other


@pytest.mark.parametrize("concurrency", [0, -1, "8", 1.5])
def test_the_bound_is_a_count(concurrency: Any) -> None:
    dataset = EvalDataset(numbered(1), [judge_task()])
    with pytest.raises(ConfigError, match="concurrency"):
        dataset.evaluate(judge=ScriptedJudge({}), concurrency=concurrency)


def test_plain_functions_judge_side_by_side() -> None:
    """Four calls meet in one place, which needs four threads."""
    meeting = threading.Barrier(4)

    def slow(request: JudgeRequest) -> Any:
        meeting.wait(timeout=120)
        return {"v": 1}

    results = EvalDataset(numbered(8), [judge_task()]).evaluate(judge=slow, concurrency=4)
    assert {result.outcome for result in results.records} == {Outcome.PASSED}


# --- what is tried again ---


def run_with(judge: Any, task: LLMJudgeTask, backoff: Backoff) -> RecordResult:
    plan = compile_plan([task])
    work = evaluate_records_async(plan, numbered(1), None, judge, backoff=backoff)
    return asyncio.run(work)[0]


BUSY = JudgeError(Reason.PROVIDER, "busy")


def test_the_pause_doubles_and_is_cut_at_random() -> None:
    """0.5 s, 1 s, 2 s, capped at 3 s; half of each, as the jitter says 0.5."""
    clock = Clock()
    judge = ScriptedJudge([BUSY, BUSY, BUSY, BUSY, {"v": 1}])
    backoff = Backoff(cap_s=3.0, jitter=lambda: 0.5, sleep=clock.sleep)
    result = run_with(judge, judge_task(max_retries=4), backoff)
    assert result.outcome is Outcome.PASSED
    assert clock.slept == [0.25, 0.5, 1.0, 1.5]


def test_a_provider_is_not_called_sooner_than_it_wants() -> None:
    clock = Clock()
    slow_down = JudgeError(Reason.PROVIDER, "429", retry_after_s=7.0)
    also = TransientError("503", retry_after_s=0.0)
    judge = ScriptedJudge([slow_down, also, {"v": 1}])
    result = run_with(judge, judge_task(), Backoff(jitter=lambda: 0.0, sleep=clock.sleep))
    assert result.outcome is Outcome.PASSED
    assert clock.slept == [7.0, 0.0]


@pytest.mark.parametrize(("retries", "calls"), [(0, 1), (2, 3)])
def test_when_retries_are_used_up_the_task_says_so(retries: int, calls: int) -> None:
    judge = ScriptedJudge([BUSY] * 10)
    task = judge_task(max_retries=retries)
    result = run_with(judge, task, Backoff(jitter=lambda: 0.0)).tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PROVIDER)
    assert len(judge.requests) == calls
    assert result.message == ("busy (called 3 times)" if retries else "busy")


FREE = JudgeError(
    Reason.PROVIDER, "429", usage=JudgeUsage(calls=1, input_tokens=0, output_tokens=0, cost_usd=0.0)
)
NOT_PUT = JudgeError(Reason.PROVIDER, "another asks", usage=JudgeUsage())
NO_MONEY = JudgeError(Reason.BUDGET, "the budget is spent", usage=JudgeUsage())
REFUSED = JudgeError(
    Reason.REFUSAL, "no", usage=JudgeUsage(calls=1, input_tokens=7, output_tokens=1, cost_usd=0.5)
)
PAID = JudgeReply(response={"v": 1}, input_tokens=10, output_tokens=2, cost_usd=0.25)
KEPT = JudgeReply(response={"v": 1}, is_cached=True)


@pytest.mark.parametrize(
    ("replies", "usage"),
    [
        pytest.param(
            [BUSY, TimeoutError("slow"), PAID],
            JudgeUsage(calls=3, input_tokens=10, output_tokens=2, cost_usd=0.25, unpriced_calls=2),
            id="two-not-known",
        ),
        pytest.param(
            [FREE, FREE, PAID],
            JudgeUsage(calls=3, input_tokens=10, output_tokens=2, cost_usd=0.25),
            id="two-free",
        ),
        pytest.param(
            [BUSY, FREE, REFUSED],
            JudgeUsage(calls=3, input_tokens=7, output_tokens=1, cost_usd=0.5, unpriced_calls=1),
            id="refused-at-last",
        ),
        pytest.param([BUSY, BUSY, BUSY], JudgeUsage(calls=3), id="used-up"),
        pytest.param(
            [FREE, BUSY, FREE],
            JudgeUsage(calls=3, input_tokens=0, output_tokens=0, cost_usd=0.0, unpriced_calls=1),
            id="used-up-and-free",
        ),
        pytest.param(
            [NOT_PUT, PAID],
            JudgeUsage(calls=1, input_tokens=10, output_tokens=2, cost_usd=0.25),
            id="not-put",
        ),
        pytest.param([BUSY, KEPT], JudgeUsage(calls=1, cached=1), id="another-was-answered"),
        pytest.param([BUSY, NO_MONEY], JudgeUsage(calls=1), id="no-money-to-ask-again"),
        pytest.param([NO_MONEY], None, id="no-money"),
    ],
)
def test_every_attempt_counts_in_what_it_took(replies: list[Any], usage: JudgeUsage | None) -> None:
    """A call whose cost is not known stays one, whatever is known of the others."""
    judge = ScriptedJudge(replies)
    result = run_with(judge, judge_task(max_retries=2), Backoff(jitter=lambda: 0.0, base_s=0.0))
    assert len(judge.requests) == len(replies)
    assert result.tasks[0].usage == usage


def test_attempts_of_several_samples_are_added_up() -> None:
    """Two samples, of which one is requested twice; the third is not needed."""
    judge = ScriptedJudge([BUSY, PAID, PAID])
    task = judge_task(samples=3, max_retries=1)
    (result,) = run_with(judge, task, Backoff(jitter=lambda: 0.0)).tasks
    assert result.usage == JudgeUsage(
        calls=3, input_tokens=20, output_tokens=4, cost_usd=0.5, unpriced_calls=1
    )


def test_a_sum_without_a_price_is_none_of_nothing() -> None:
    """Calls without a price and answers from a cache: no total is made up of the latter."""
    replies = (JudgeReply(response={"v": 1}), KEPT, PAID)
    results = [
        run_with(ScriptedJudge([reply]), judge_task(), Backoff()).tasks[0] for reply in replies
    ]
    some, every = judge_totals(results[:2]), judge_totals(results)
    assert some is not None
    assert every is not None
    assert some.text == "judges: 1 call, 1 cached, cost of 1 not known"
    text = "judges: 2 calls, 1 cached, 10 tokens in, 2 out, $0.2500, cost of 1 not known"
    assert every.text == text
    assert every.to_json() == {
        "calls": 2, "cached": 1, "input_tokens": 10, "output_tokens": 2, "cost_usd": 0.25,
        "unpriced_calls": 1, "over_budget": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (BUSY, 2),
        (TransientError("busy"), 2),
        (TimeoutError("slow"), 2),
        (ConnectionResetError("gone"), 2),
        (JudgeError(Reason.PROVIDER, "no key", permanent=True), 1),
        (JudgeError(Reason.REFUSAL, "no"), 1),
        (JudgeError(Reason.PARSE, "what?"), 1),
        (TypeError("a mistake in the judge"), 1),
    ],
)
def test_only_a_providers_failure_is_tried_again(error: Exception, calls: int) -> None:
    judge = ScriptedJudge([error, {"v": 1}])
    result = run_with(judge, judge_task(), Backoff(jitter=lambda: 0.0))
    assert len(judge.requests) == calls
    assert result.outcome is (Outcome.PASSED if calls == 2 else Outcome.ERRORED)


def test_whoever_waits_to_ask_again_keeps_nobody_from_asking() -> None:
    """With one slot, the second record is judged while the first waits for its next attempt."""
    seen: list[str] = []

    def answer(request: JudgeRequest) -> Any:
        seen.append(request.messages[0]["content"])
        if seen == ["0"]:
            raise BUSY
        return {"v": 1}

    tasks = [judge_task("a"), judge_task("b", prompt=Prompt("second", "m", "openai"))]
    plan = compile_plan(tasks)
    backoff = Backoff(sleep=Clock().sleep)
    judge = ScriptedJudge(answer)
    results = asyncio.run(
        evaluate_records_async(plan, numbered(1), None, judge, 1, backoff=backoff)
    )
    assert seen == ["0", "second", "0"]
    assert results[0].outcome is Outcome.PASSED


# --- what depends on a judge ---


def test_dependents_read_the_whole_answer() -> None:
    judge = ScriptedJudge({"first": {"v": 1, "reason": "fine"}, "second": {"v": 1}})
    tasks: list[Task] = [
        judge_task("first"),
        AssertionTask("why", "first.reason", "fine", Op.Equals, depends_on=["first"]),
        judge_task(
            "second",
            prompt=Prompt("${first} ${n}", "m", "openai", fence=False),
            depends_on=["first"],
        ),
        AssertionTask("same", "n", "${first.v}", Op.Equals, depends_on=["first"]),
    ]
    record = EvalRecord({"n": 1})
    result = EvalDataset([record], tasks).evaluate(judge=judge).records[0]
    assert [task.outcome for task in result.tasks] == [Outcome.PASSED] * 4
    assert judge.requests[1].messages[0]["content"] == '{"v": 1, "reason": "fine"} 1'
    assert record.context == {"n": 1}


def test_only_declared_dependencies_can_be_read() -> None:
    judge = ScriptedJudge({"a": {"v": 1}})
    tasks = [judge_task("a"), judge_task("b", prompt=Prompt("${a}", "m", "openai"))]
    result = EvalDataset(numbered(1), tasks).evaluate(judge=judge).records[0]
    assert result["b"].reason is Reason.MISSING_PATH


def test_gates_work_in_both_directions() -> None:
    """A closed gate saves the question; a judge can be a gate."""
    tasks: list[Task] = [
        AssertionTask("open", "n", 0, Op.Equals, condition=True),
        judge_task("called", depends_on=["open"], condition=True),
        judge_task("never", depends_on=["called"]),
        AssertionTask("nor", "n", 0, Op.Equals, depends_on=["called"]),
        AssertionTask("free", "n", 0, Op.Equals),
    ]
    judge = ScriptedJudge({"called": {"v": 0}})
    first, second = EvalDataset(numbered(2), tasks).evaluate(judge=judge).records
    words = {Outcome.PASSED: "p", Outcome.FAILED: "f", Outcome.SKIPPED: "s"}
    assert "".join(words[task.outcome] for task in first.tasks) == "pfssp"
    assert "".join(words[task.outcome] for task in second.tasks) == "fsssf"
    assert [request.record_uid for request in judge.requests] == [first.record_uid]


def test_a_judges_failure_is_its_dependents_too_and_nobody_elses() -> None:
    tasks: list[Task] = [
        judge_task("bad"),
        AssertionTask("after", "bad.v", 1, Op.Equals, depends_on=["bad"]),
        judge_task("good"),
    ]
    judge = ScriptedJudge({"bad": JudgeError(Reason.REFUSAL, "no"), "good": {"v": 1}})
    result = EvalDataset(numbered(1), tasks).evaluate(judge=judge).records[0]
    assert [(task.outcome, task.reason) for task in result.tasks] == [
        (Outcome.ERRORED, Reason.REFUSAL),
        (Outcome.ERRORED, Reason.DEPENDENCY),
        (Outcome.PASSED, None),
    ]


def test_a_record_without_json_form_asks_nothing() -> None:
    judge = ScriptedJudge({"j": {"v": 1}})
    record = EvalRecord({"n": object()})
    result = EvalDataset([record], [judge_task()]).evaluate(judge=judge).records[0]
    assert (result.outcome, result.tasks[0].reason) == (Outcome.ERRORED, Reason.TYPE)
    assert judge.requests == []


def test_spans_reach_the_other_tasks() -> None:
    tasks: list[Task] = [
        judge_task(),
        TraceAssertionTask(
            "spans", TraceAssertion.span_count(SpanFilter.by_name("a")), 1, "Equals"
        ),
    ]
    plan = compile_plan(tasks)
    judge = ScriptedJudge({"j": {"v": 1}})
    tree = SpanTree([span(1, name="a")])
    record = EvalRecord({"n": 1}, trace_id=tree.spans[0].trace_id)
    for trees in ({record.trace_id or "": tree}, [tree]):
        result = evaluate_records(plan, [record], trees, judge)[0]
        assert result.outcome is Outcome.PASSED
    assert evaluate_records(plan, [record], None, judge)[0]["spans"].reason is Reason.NO_SPANS
    without_judge = evaluate_records(plan, [record], [tree])[0]
    assert [task.reason for task in without_judge.tasks] == [Reason.PROVIDER, None]


# --- loops, threads and ends ---


def test_a_running_loop_is_no_hindrance() -> None:
    judge = ScriptedJudge({"j": {"v": 1}})
    dataset = EvalDataset(numbered(3), [judge_task()])

    async def notebook() -> tuple[Any, Any]:
        return dataset.evaluate(judge=judge), await dataset.evaluate_async(judge=judge)

    there, here = asyncio.run(notebook())
    assert plain(there.records) == plain(here.records)
    assert len(judge.requests) == 6


def test_evaluate_async_asks_in_the_running_loop() -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        seen: list[object] = []

        async def judge(request: JudgeRequest) -> Any:
            seen.append(asyncio.get_running_loop())
            return {"v": 1}

        await EvalDataset(numbered(2), [judge_task()]).evaluate_async(judge=judge)
        return seen == [loop, loop]

    assert asyncio.run(main())


def test_evaluate_async_leaves_the_loop_free_where_no_judge_is_called() -> None:
    async def main() -> Outcome:
        task = AssertionTask("n", "n", 0, Op.Equals)
        results = await EvalDataset(numbered(1), [task]).evaluate_async()
        return results.records[0].outcome

    assert asyncio.run(main()) is Outcome.PASSED


WHO = contextvars.ContextVar("WHO", default="nobody")


def test_the_callers_context_variables_are_seen() -> None:
    token = WHO.set("caller")
    try:
        judge = ScriptedJudge(lambda request: {"v": WHO.get()})
        task = judge_task(expected_value="caller")
        result = EvalDataset(numbered(1), [task]).evaluate(judge=judge).records[0]
    finally:
        WHO.reset(token)
    assert result.outcome is Outcome.PASSED


class Endless:
    """A judge that never answers."""

    def __init__(self) -> None:
        self.inside = 0
        self.cancelled = 0
        self.on_ask: Any = None
        self.four_inside = asyncio.Event()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        self.inside += 1
        if self.inside == 4:
            self.four_inside.set()
        if self.on_ask is not None:
            self.on_ask()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        raise AssertionError("the event was never set")


def test_cancelling_leaves_no_question_behind() -> None:
    judge = Endless()

    async def main() -> set[str]:
        plan = compile_plan([judge_task("a"), judge_task("b")])
        work = asyncio.create_task(evaluate_records_async(plan, numbered(9), None, judge, 4))
        await judge.four_inside.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert asyncio.run(main()) == set()
    assert (judge.inside, judge.cancelled) == (4, 4)


def test_an_interrupt_ends_the_evaluation() -> None:
    """As Ctrl-C does in the main thread while the judge is waited for."""
    judge = Endless()
    main = threading.main_thread().ident or 0
    judge.on_ask = lambda: signal.pthread_kill(main, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        EvalDataset(numbered(1), [judge_task()]).evaluate(judge=judge)
    assert judge.cancelled == 1


def test_a_call_that_is_cancelled_inside_of_the_judge_is_the_judges_failure() -> None:
    async def judge(request: JudgeRequest) -> Any:
        raise asyncio.CancelledError

    result = EvalDataset(numbered(1), [judge_task()]).evaluate(judge=judge).records[0]
    assert result.tasks[0].reason is Reason.PROVIDER


# --- laws ---

VALUES = st.sampled_from([0, 1, None])


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[bool, list[str], bool]]:
    """For each task: whether a judge decides it, what it depends on, whether it is a gate."""
    count = draw(st.integers(1, 7))
    names = [f"t{at}" for at in range(count)]
    needs = [st.lists(st.sampled_from(names[:at]), unique=True) for at in range(1, count)]
    return [
        (draw(st.booleans()), [] if at == 0 else draw(needs[at - 1]), draw(st.booleans()))
        for at in range(count)
    ]


@settings(max_examples=examples(30), deadline=None)
@given(
    graph=graphs(),
    contexts=st.lists(st.lists(VALUES, min_size=7, max_size=7), min_size=1, max_size=4),
    concurrency=st.integers(1, 5),
)
def test_a_judge_that_reads_the_record_decides_like_an_assertion(
    graph: list[tuple[bool, list[str], bool]],
    contexts: list[list[int | None]],
    concurrency: int,
) -> None:
    """The same graph with judges that answer what the record holds, and with plain assertions."""

    def assertion(at: int, needs: list[str], gate: bool) -> AssertionTask:
        return AssertionTask(f"t{at}", f"t{at}.v", 1, Op.Equals, depends_on=needs, condition=gate)

    plainly = [assertion(at, needs, gate) for at, (_, needs, gate) in enumerate(graph)]
    judged: list[Task] = [
        judge_task(f"t{at}", depends_on=needs, condition=gate, prompt=Prompt("x", "m", "openai"))
        if asks
        else plainly[at]
        for at, (asks, needs, gate) in enumerate(graph)
    ]
    records = [
        EvalRecord({f"t{at}": {} if v is None else {"v": v} for at, v in enumerate(values)})
        for values in contexts
    ]
    by_uid: dict[str, Any] = {record.uid: record.context for record in records}
    judge = ScriptedJudge(lambda request: by_uid[request.record_uid][request.task_id])

    expected = evaluate_records(compile_plan(plainly), records)
    found = evaluate_records(compile_plan(judged), records, None, judge, concurrency)
    assert [[(t.outcome, t.reason, t.actual) for t in r.tasks] for r in found] == [
        [(t.outcome, t.reason, t.actual) for t in r.tasks] for r in expected
    ]


@settings(max_examples=examples(20), deadline=None)
@given(
    graph=graphs(),
    contexts=st.lists(st.lists(VALUES, min_size=7, max_size=7), max_size=5),
    concurrency=st.integers(1, 5),
)
def test_the_judged_driver_equals_the_plain_walk_where_no_judge_is_called(
    graph: list[tuple[bool, list[str], bool]],
    contexts: list[list[int | None]],
    concurrency: int,
) -> None:
    plan = compile_plan(
        AssertionTask(f"t{at}", f"t{at}.v", 1, Op.Equals, depends_on=needs, condition=gate)
        for at, (_, needs, gate) in enumerate(graph)
    )
    records = [
        EvalRecord({f"t{at}": {} if v is None else {"v": v} for at, v in enumerate(values)})
        for values in contexts
    ]
    judge = ScriptedJudge({})
    found = asyncio.run(evaluate_records_async(plan, records, None, judge, concurrency))
    assert plain(found) == plain([evaluate_record(plan, record) for record in records])
    assert judge.requests == []
