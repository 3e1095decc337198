"""Plans with judge tasks: walks that wait for answers, and tasks that are left for later."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.engine.asking_task import AskingTask
from scouter.evaluate.engine.execute import (
    Found,
    JudgeQuestion,
    Walk,
    blocked_by,
    evaluate_record,
    plain_context,
    unreadable,
    walk,
)
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.files.json_text import is_longer
from scouter.evaluate.judge.ask import Backoff, Reply, ask
from scouter.evaluate.judge.loops import run_apart
from scouter.evaluate.judge.port import AnyJudge, Judge, JudgeRequest, as_judge
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.responses.parse import shared_responses
from scouter.evaluate.results.record_result import RecordResult, collector_paused, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord

_LONGEST: Final = 50_000_000
"""Characters of a question; one that is longer is the same as no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A judge's earlier outcome on the same record."""

    question: str
    """Digest of the question that the outcome answers; see `question_of`."""
    result: EvalTaskResult
    answer: JsonValue
    """The judge's whole answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """Results of a record's tasks that are known without asking a judge."""

    results: tuple[EvalTaskResult, ...]
    """One result per task, in the plan's order; some may be pending."""
    retained: frozenset[int] = field(default_factory=frozenset[int])
    """Indexes of the judge tasks whose earlier outcome still holds."""


def evaluate_deferred(
    plan: Plan,
    record: EvalRecord,
    spans: SpanTree | None = None,
    known: Mapping[str, Known] | None = None,
) -> Deferred:
    """Judge one record by all tasks that need no judge.

    A judge task whose question cannot be put is errored at once, one that does not judge this
    record is skipped at once.

    Args:
        plan: From `compile_plan`.
        record: Not changed.
        spans: The spans of the record's trace.
        known: Earlier outcomes by task id; each holds where its question is the same.

    Cost: that of the tasks, and of writing the questions where outcomes are known.
    """
    try:
        context = plain_context(record)
    except DataError as error:
        return Deferred(results=unreadable(plan, error))
    with shared_responses() if plan.shares_responses else nullcontext():
        return _deferred(plan, context, spans, record.uid, known or {})


def _deferred(
    plan: Plan,
    context: JsonValue,
    spans: SpanTree | None,
    uid: str,
    known: Mapping[str, Known],
) -> Deferred:
    found = Found()
    retained: set[int] = set()
    for step in plan.steps:
        for at in step:
            needs, spec = plan.dependencies[at], plan.specs[at]
            blocked = blocked_by(plan, at, found.results, spans)
            if blocked is not None:
                found.results[at] = blocked
                continue
            scope = found.scope_of(context, needs) if needs else context
            judge = plan.judges.get(at)
            if judge is None:
                found.results[at] = plan.runs[at](scope, spans, context)
                continue
            result, question = _before_call(
                judge, scope, uid, context, spans, is_wanted=spec.task_id in known
            )
            earlier = known.get(spec.task_id)
            if earlier is not None and question == earlier.question:
                result = earlier.result
                found.answers[at] = earlier.answer
                retained.add(at)
            found.results[at] = result
    results = tuple(found.results[at] for at in range(len(plan.tasks)))
    return Deferred(results=results, retained=frozenset(retained))


def _before_call(
    judge: AskingTask,
    scope: JsonValue,
    uid: str,
    base: JsonValue,
    spans: SpanTree | None,
    *,
    is_wanted: bool,
) -> tuple[EvalTaskResult, str]:
    """Give a judge task's result before any call, and the question's digest if wanted."""
    if not judge.is_sampled(uid):
        return judge.not_sampled(), ""
    try:
        requests = next(judge.ask(scope, uid, base, spans))
        question = _digest(judge, requests, scope, uid, base) if is_wanted else ""
    except StopIteration as end:  # there is nothing to ask about
        result: EvalTaskResult = end.value[0]
        return result, ""
    except Exception as error:  # noqa: BLE001 — one task never touches another
        return judge.fault(error), ""
    expected = judge.task.expected_value
    text = "a judge has yet to answer"
    return EvalTaskResult(judge.spec, Outcome.PENDING, None, expected, None, text), question


def question_of(
    plan: Plan,
    at: int,
    context: JsonValue,
    found: Found,
    uid: str,
    spans: SpanTree | None = None,
) -> str:
    """Write in short all that a judge task's outcome follows from, but the answers.

    That is the task itself, what it asks first, and what its expected value is read from. The
    same question to the same task has the same digest in every process.

    Args:
        plan: From `compile_plan`.
        at: Index of the judge task.
        context: The record's, as plain JSON.
        found: Has the results of the tasks that it depends on.
        uid: The record's.
        spans: Those of the record's trace, as the walk had them.

    Returns:
        32 hex digits; empty where there was no question, and where it is too long to be repeated.
    """
    if found.results[at].usage is None:
        return ""
    needs, judge = plan.dependencies[at], plan.judges[at]
    scope = found.scope_of(context, needs) if needs else context
    requests = next(judge.ask(scope, uid, context, spans))
    return _digest(judge, requests, scope, uid, context)


def _digest(
    judge: AskingTask,
    requests: Sequence[JudgeRequest],
    scope: JsonValue,
    uid: str,
    base: JsonValue,
) -> str:
    parts: list[object] = [judge.task.model_dump(mode="json"), uid]
    parts += [each.messages for each in requests]
    parts += judge.basis(scope, base)
    # Paths may have made values of a small context that are a hundred times as long as text.
    if is_longer(cast(JsonValue, parts), _LONGEST):
        return ""
    text = json.dumps(parts, sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()


DEFAULT_CONCURRENCY: Final = 8

Trees: TypeAlias = Mapping[str, SpanTree] | Sequence[SpanTree | None] | None
"""Spans by trace id, or one tree (or None) per record, or none at all."""
Question: TypeAlias = tuple[Plan, EvalRecord, SpanTree | None]
"""A record, its spans, and the tasks that judge it."""


def evaluate_records(
    plan: Plan,
    records: Sequence[EvalRecord],
    trees: Trees = None,
    judge: AnyJudge | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
) -> Sequence[RecordResult]:
    """Judge many records by all tasks of a plan.

    Can be called inside a running event loop: questions to a judge are put in a loop of their
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
    questions = _questions(plan, records, trees)
    if judge is None or not plan.has_judges:
        return _evaluate_plainly(questions)
    return run_apart(lambda: evaluate_each(questions, judge, concurrency))


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
        trees: As of `evaluate_records`.
        judge: As of `evaluate_records`.
        concurrency: As of `evaluate_records`.
        backoff: Gives the wait before a failed provider is called again.

    Raises:
        ConfigError: Something that is no judge, or a concurrency below 1.
    """
    return await evaluate_each(_questions(plan, records, trees), judge, concurrency, backoff)


async def evaluate_each(
    questions: Sequence[Question],
    judge: AnyJudge | None,
    concurrency: int,
    backoff: Backoff | None = None,
) -> list[RecordResult]:
    """Judge records like `evaluate_records_async`, each by a plan of its own."""
    if judge is None or not any(plan.has_judges for plan, _, _ in questions):
        return await asyncio.to_thread(_evaluate_plainly, questions)
    return await _JudgedRun(as_judge(judge), _checked(concurrency), backoff).evaluate(questions)


def _questions(plan: Plan, records: Sequence[EvalRecord], trees: Trees) -> list[Question]:
    if trees is None or isinstance(trees, Mapping):
        known = trees or {}
        return [(plan, each, known.get(each.trace_id or "")) for each in records]
    return [(plan, *pair) for pair in zip(records, trees, strict=True)]


def _evaluate_plainly(questions: Iterable[Question]) -> list[RecordResult]:
    with collector_paused():
        return [evaluate_record(*each) for each in questions]


def _checked(concurrency: object) -> int:
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(f"concurrency: expected an integer from 1, got {concurrency!r}")
    return concurrency


class _JudgedRun:
    """One evaluation with a judge: its questions share one bound.

    Args:
        judge: Answers.
        concurrency: Most questions at a time.
        backoff: Gives the wait before a failed provider is called again.
    """

    def __init__(self, judge: Judge, concurrency: int, backoff: Backoff | None = None) -> None:
        self._judge = judge
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._backoff = Backoff() if backoff is None else backoff

    async def evaluate(self, questions: Sequence[Question]) -> list[RecordResult]:
        """Evaluate all records; as many are started as calls may be made at a time."""
        results: dict[int, RecordResult] = {}
        waiting = iter(enumerate(questions))

        async def work() -> None:
            for at, question in waiting:  # shared: each worker takes the next record
                results[at] = await self._record(*question)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._concurrency, len(questions))):
                group.create_task(work())
        return [results[at] for at in range(len(questions))]

    async def _record(self, plan: Plan, record: EvalRecord, tree: SpanTree | None) -> RecordResult:
        started = time.perf_counter_ns()
        try:
            context = plain_context(record)
        except DataError as error:
            tasks = unreadable(plan, error)
        else:
            tasks = await answered(walk(plan, context, tree, record.uid), self._answer)
        return RecordResult(
            record.uid, record.record_id, record.session_id, record.trace_id,
            record_outcome(tasks), tasks, record.created_ns, time.perf_counter_ns() - started,
        )  # fmt: skip

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
