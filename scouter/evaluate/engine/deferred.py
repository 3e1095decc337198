"""Run the tasks that need no judge now, and leave the others for later.

The others are `pending`, with every task that depends on them. No task that is decided now would be
decided otherwise once the answers are there. A walk that starts from the known results then decides
the others.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.asking_task import AskingTask
from scouter.evaluate.engine.context import plain_context
from scouter.evaluate.engine.execute import Found, blocked_by, unreadable
from scouter.evaluate.engine.plan import Plan
from scouter.evaluate.files.json_ends import is_longer
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.responses.parse import shared_responses
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
    kept: frozenset[int] = field(default_factory=frozenset[int])
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
    kept: set[int] = set()
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
            result, question = _not_asked(
                judge, scope, uid, context, spans, is_wanted=spec.task_id in known
            )
            earlier = known.get(spec.task_id)
            if earlier is not None and question == earlier.question:
                result = earlier.result
                found.answers[at] = earlier.answer
                kept.add(at)
            found.results[at] = result
    results = tuple(found.results[at] for at in range(len(plan.tasks)))
    return Deferred(results=results, kept=frozenset(kept))


def _not_asked(
    judge: AskingTask,
    scope: JsonValue,
    uid: str,
    base: JsonValue,
    spans: SpanTree | None,
    *,
    is_wanted: bool,
) -> tuple[EvalTaskResult, str]:
    """Give a judge task's result before anyone is asked, and the question's digest if wanted."""
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
        32 hex digits; empty where nothing was asked, and where it is too long to be told again.
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


__all__ = ("Deferred", "Known", "evaluate_deferred", "question_of")
