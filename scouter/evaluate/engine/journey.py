"""A journey as a compiled task: its measure is the score; a judge, if there is one, is called."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.asking_task import Asking, AskingTask
from scouter.evaluate.engine.compiled_task import (
    CompiledTask,
    Measured,
    Metric,
    Subject,
    compile_metric,
)
from scouter.evaluate.engine.doubt import doubting_growth, refuse_missing
from scouter.evaluate.journey.asking import Answers, Key, Known, read_verdict
from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.evaluate import judge_journey
from scouter.evaluate.journey.message import (
    TEXT,
    TOOL_CALL,
    Agents,
    JourneyMessage,
    messages_of_spans,
    messages_of_turns,
    read_messages,
)
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.journey.sound import calls_of
from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.port import JudgeError, JudgeRequest, readable_by, sum_of
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.journey import JourneyTask

MOST_PAIRS: Final = 20_000
"""Goals times calls and texts that are compared."""
_GROWING: Final = frozenset(("success", "completion", "recall"))
"""Measures that more calls cannot lower."""

_IS_USABLE: Final = readable_by(lambda reply: read_verdict(reply.response))

_Messages: TypeAlias = Callable[[JsonValue, SpanTree | None], Sequence[JourneyMessage]]


def compile_journey(task: JourneyTask, subject: Subject) -> "CompiledTask | JudgedJourney":
    """Turn a journey task into a function from record to result, or into one that asks."""
    read, case = _reader(task), task.case
    if task.judge_prompt is not None:
        return JudgedJourney(
            spec=(metric := Metric.of(subject)).spec, task=task, case=case, read=read, metric=metric
        )

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        return _measured(task, journey_of(task, case, read(scope, spans), None))

    compiled = compile_metric(subject, measure)
    if not task.reads_spans or task.turns is not None:
        return compiled
    is_steady = task.measure in _GROWING and not case.of_type(TEXT)

    def is_settled(result: EvalTaskResult) -> bool:
        """Calls that are not here cannot take back what is met; the last answer may be another."""
        return is_steady and result.score == 1

    return doubting_growth(compiled, is_settled)


def journey_of(
    task: JourneyTask, case: Case, messages: Sequence[JourneyMessage], answers: Answers | None
) -> JourneyResult:
    """Hold a conversation against the journey of a task.

    Args:
        task: Says by which rules.
        case: That of the task.
        messages: The conversation.
        answers: Answers the questions to a judge; None where there is none.
    """
    return judge_journey(
        case, messages, Agents(), compat=task.compat, answers=answers,
        similarity_threshold=task.similarity_threshold,
        enable_fuzzy_matching=task.enable_fuzzy_matching,
    )  # fmt: skip


# --- the conversation ----------------------------------------------------------------------------


def _reader(task: JourneyTask) -> _Messages:
    """Prepare reading the conversation of a record, of a size that can be compared."""
    case, is_judged = task.case, task.judge_prompt is not None
    path = task.turns or task.messages
    read = _of_spans(is_judged=is_judged)
    if path is not None:
        read = (_of_turns if task.turns else _of_messages)(Path(path))

    def messages(scope: JsonValue, spans: SpanTree | None) -> Sequence[JourneyMessage]:
        found = read(scope, spans)
        _check_size(case, found)
        return found

    return messages


def _of_spans(*, is_judged: bool) -> _Messages:
    def read(scope: JsonValue, spans: SpanTree | None) -> Sequence[JourneyMessage]:
        del scope
        work_of_spans(spans)  # says what is wrong with the spans
        if is_judged and spans is not None:
            refuse_missing(spans)  # before any call
        return messages_of_spans(spans.spans if spans else ())

    return read


def _of_messages(path: Path) -> _Messages:
    def read(scope: JsonValue, spans: SpanTree | None) -> Sequence[JourneyMessage]:
        del spans
        try:
            return read_messages(_listed(path, scope, "messages"))
        except DataError as error:
            raise TaskFault(Reason.TYPE, f"path {path.text!r}: {error}") from error

    return read


def _of_turns(path: Path) -> _Messages:
    def read(scope: JsonValue, spans: SpanTree | None) -> Sequence[JourneyMessage]:
        turns = _listed(path, scope, "turns")
        if not all(isinstance(each, dict) and {"user", "agent"} <= each.keys() for each in turns):
            raise TaskFault(Reason.TYPE, f"path {path.text!r}: a turn is {{user, agent}}")
        times = [(each["asked_ns"], each["answered_ns"]) for each in turns if "answered_ns" in each]
        found = messages_of_turns(turns, spans.spans if spans else (), times)
        has_traced = bool(spans and spans.agent_work.tool_calls)
        if has_traced and len(times) < len(turns) > 1:
            raise TaskFault(
                Reason.INCOMPLETE,
                "the turns have no times, so nobody knows in which of them a call was made",
            )
        if spans and (has_traced or not _has_calls(found)):
            refuse_missing(spans)
        return found

    return read


def _has_calls(messages: Sequence[JourneyMessage]) -> bool:
    return any(each.type == TOOL_CALL for each in messages)


def _listed(path: Path, scope: JsonValue, what: str) -> list[Any]:
    found = path.get(scope)
    if not isinstance(found, list):
        raise TaskFault(Reason.TYPE, f"path {path.text!r}: expected a list of {what}")
    return cast("list[Any]", found)


def _check_size(case: Case, messages: Sequence[JourneyMessage]) -> None:
    """Charge for the comparisons before they are made."""
    texts = sum(message.type == TEXT for message in messages)
    pairs = len(case.goals) * (len(calls_of(messages)) + texts)
    if pairs > MOST_PAIRS:
        raise TaskFault(
            Reason.LIMIT,
            f"{len(case.goals)} goals and the calls and texts of this conversation make "
            f"{pairs:,} pairs; at most {MOST_PAIRS:,} are compared",
        )


def _measured(task: JourneyTask, result: JourneyResult, reason: Reason = Reason.TYPE) -> Measured:
    """Take a task's measure.

    Args:
        task: The task.
        result: The journey.
        reason: Kind of what left a journey undecided.
    """
    value = {
        "success": result.success,
        "completion": result.completion,
        "recall": result.recall,
        "precision": result.precision,
        "parameter_f1": result.parameter_f1,
    }[task.measure]
    if result.success is None:
        raise TaskFault(reason, f"undecided: {'; '.join(result.problems)}")
    if value is None:
        raise TaskFault(Reason.TYPE, f"{task.measure} does not apply: no goal calls a tool")
    return Measured(score=float(value), actual=dict(result.metrics), detail=result.message)


# --- with a judge --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedJourney(AskingTask):
    """Asks about a conversation in rounds: all that is open, until nothing is."""

    task: JourneyTask
    case: Case
    read: _Messages
    metric: Metric

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None
    ) -> Asking:
        """Ask about one conversation until there is a result.

        Raises:
            TaskFault: There is no conversation, or it may lack something; raised before anything
                is called.
        """
        del base
        messages = self.read(scope, spans)
        replies: dict[Key, Reply] = {}
        first: JudgeRequest | None = None
        while True:
            known = Known(replies)
            result = journey_of(self.task, self.case, messages, known)
            if not known.open:
                break
            if len(replies) + len(known.open) > self.task.max_questions:
                fault = TaskFault(
                    Reason.LIMIT,
                    f"there are more than {self.task.max_questions} questions to the judge about "
                    "this conversation (max_questions)",
                )
                return self.fault(fault), None
            requests = [self._request(key, each, record_uid) for key, each in known.open.items()]
            first = first or requests[0]
            replies.update(zip(known.open, (yield requests), strict=True))
        found = self._result(result, replies, scope)
        if first is not None:
            exchange = JudgeExchange.of(first.messages, known.given)
            found = found.using(sum_of(each.taken for each in replies.values()), exchange)
        return found, found.actual

    def _request(self, key: Key, request: JudgeRequest, record_uid: str) -> JudgeRequest:
        prompt = self.task.judge_prompt
        assert prompt is not None  # noqa: S101 - a task without one is compiled otherwise
        return replace(
            request, model=prompt.model, provider=str(prompt.provider), record_uid=record_uid,
            sample=key[1], is_usable=_IS_USABLE,
        )  # fmt: skip

    def _result(
        self, result: JourneyResult, replies: dict[Key, Reply], scope: JsonValue
    ) -> EvalTaskResult:
        errors = [each for each in replies.values() if isinstance(each, JudgeError)]
        for error in errors:
            if error.reason is Reason.BUDGET:  # not the judge's failure
                return self._skipped(Reason.BUDGET, f"skipped: {error}")
        is_unread = any(check.passed is None for check in result.checks)
        reason = Reason.PARSE if is_unread else Reason.TYPE
        reason = errors[0].reason if errors else reason
        try:
            return self.metric.result(_measured(self.task, result, reason), scope)
        except Exception as error:  # noqa: BLE001 - the calls are paid for and has to be reported
            return self.fault(error)


class GivenAnswers(Answers):
    """Gives the answers again that a judge gave about a conversation, in their order.

    Args:
        answers: Those in the result of a journey task (`JudgeExchange.answer`).
    """

    def __init__(self, answers: JsonValue) -> None:
        self._left = iter(answers if isinstance(answers, list) else [])

    def answer(self, question: str, /, **data: object) -> JsonValue:
        """Give the next answer.

        Raises:
            JudgeError: The judge gave none.
        """
        del data
        found = next(self._left, None)
        if not isinstance(found, dict) or found.get("question") != question:
            raise JudgeError(Reason.PROVIDER, "the judge was not called")
        if "error" in found:
            raise JudgeError(Reason(str(found["reason"])), str(found["error"]))
        return found["answer"]
