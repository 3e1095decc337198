"""Run plans with judge tasks: walks that wait for answers, many at a time.

Deterministic tasks are plain calls here too; only questions to a judge are awaited.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from scouter.errors import ConfigError, DataError
from scouter.evaluate.engine.batch import evaluate_batch
from scouter.evaluate.engine.context import plain_context
from scouter.evaluate.engine.execute import (
    JudgeQuestion,
    Walk,
    evaluate_record,
    unreadable,
    walk,
)
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.judge.ask import Backoff, Reply, ask, run_apart
from scouter.evaluate.judge.port import AnyJudge, Judge, as_judge
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

DEFAULT_CONCURRENCY: Final = 8

Trees: TypeAlias = Mapping[str, SpanTree] | Sequence[SpanTree | None] | None
"""Spans by trace id, or one tree (or None) per record, or none at all."""


def evaluate_records(
    plan: Plan,
    records: Sequence[EvalRecord],
    trees: Trees = None,
    judge: AnyJudge | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> Sequence[RecordResult]:
    """Judge many records by all tasks of a plan.

    Can be called inside a running event loop: questions to a judge are asked in a loop of their
    own, in another thread. Plans without judge tasks, and those for which no judge is given, meet
    no loop and no thread.

    Args:
        plan: From `compile_plan`.
        records: Not changed; their results keep this order.
        trees: Each record's spans: by trace id, or one tree per record.
        judge: Answers the judge tasks; without one they are errored.
        concurrency: Most questions at a time, over all records, at least 1.

    Raises:
        ConfigError: Something that is no judge, or a concurrency below 1.

    Cost: linear in records; a judge's own time divided by `concurrency`.
    """
    if judge is None or not plan.has_judges:
        return _evaluate_plainly(plan, records, trees)
    answering, limit = as_judge(judge), _checked(concurrency)
    return run_apart(lambda: JudgedRun(plan, answering, limit).evaluate(records, trees))


async def evaluate_records_async(
    plan: Plan,
    records: Sequence[EvalRecord],
    trees: Trees = None,
    judge: AnyJudge | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    *,
    backoff: Backoff | None = None,
) -> Sequence[RecordResult]:
    """Judge many records like `evaluate_records`, asking the judge in the running event loop.

    Plans that ask nothing run in a thread, so that the loop goes on meanwhile. When it is
    cancelled, no question is left behind.

    Args:
        plan: From `compile_plan`.
        records: Not changed; their results keep this order.
        trees: Each record's spans: by trace id, or one tree per record.
        judge: Answers the judge tasks; without one they are errored.
        concurrency: Most questions at a time, over all records, at least 1.
        backoff: Gives the wait before a failed provider is asked again.

    Raises:
        ConfigError: Something that is no judge, or a concurrency below 1.
    """
    if judge is None or not plan.has_judges:
        return await asyncio.to_thread(_evaluate_plainly, plan, records, trees)
    asking = JudgedRun(plan, as_judge(judge), _checked(concurrency), backoff)
    return await asking.evaluate(records, trees)


def _evaluate_plainly(
    plan: Plan, records: Sequence[EvalRecord], trees: Trees
) -> Sequence[RecordResult]:
    if trees is None or isinstance(trees, Mapping):
        return evaluate_batch(plan, records, trees or {})
    return [evaluate_record(plan, *pair) for pair in zip(records, trees, strict=True)]


def _checked(concurrency: object) -> int:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(f"concurrency: expected an integer from 1, got {concurrency!r}")
    return concurrency


class JudgedRun:
    """One evaluation with a judge: its questions share one bound.

    Args:
        plan: From `compile_plan`.
        judge: Answers.
        concurrency: Most questions at a time.
        backoff: Gives the wait before a failed provider is asked again.
    """

    def __init__(
        self, plan: Plan, judge: Judge, concurrency: int, backoff: Backoff | None = None
    ) -> None:
        self._plan = plan
        self._judge = judge
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._backoff = Backoff() if backoff is None else backoff

    async def evaluate(self, records: Sequence[EvalRecord], trees: Trees) -> list[RecordResult]:
        """Evaluate all records; as many are begun as questions may be asked at a time."""
        results: dict[int, RecordResult] = {}
        waiting = iter(range(len(records)))

        async def work() -> None:
            for at in waiting:  # shared: each worker takes the next record
                record = records[at]
                results[at] = await self._record(record, _tree_of(record, at, trees))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(records))):
                group.create_task(work())
        return [results[at] for at in range(len(records))]

    async def _record(self, record: EvalRecord, tree: SpanTree | None) -> RecordResult:
        started = time.perf_counter_ns()
        tasks = await self._tasks(record, tree)
        return RecordResult(
            record.uid, record.record_id, record.session_id, record.trace_id,
            record_outcome(tasks), tasks, record.created_ns, time.perf_counter_ns() - started,
        )  # fmt: skip

    async def _tasks(self, record: EvalRecord, tree: SpanTree | None) -> tuple[EvalTaskResult, ...]:
        try:
            context = plain_context(record)
        except DataError as error:
            return unreadable(self._plan, error)
        return await answered(walk(self._plan, context, tree, record.uid), self._answer)

    async def _answer(self, question: JudgeQuestion) -> Reply:
        retries = question.task.max_retries
        return await ask(self._judge, question.request, retries, self._backoff, self._slots)


async def answered(
    steps: Walk, answer: Callable[[JudgeQuestion], Awaitable[Reply]]
) -> tuple[EvalTaskResult, ...]:
    """Go on with a walk to its end; the questions of one stop are answered at the same time."""
    try:
        questions = next(steps)
        while True:
            if len(questions) == 1:
                questions = steps.send([await answer(questions[0])])
            else:
                questions = steps.send(await asyncio.gather(*map(answer, questions)))
    except StopIteration as end:
        found: tuple[EvalTaskResult, ...] = end.value
        return found


def _tree_of(record: EvalRecord, at: int, trees: Trees) -> SpanTree | None:
    if trees is None:
        return None
    if isinstance(trees, Mapping):
        return trees.get(record.trace_id or "")
    return trees[at]
