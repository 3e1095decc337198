"""Result of one task for one record."""

import datetime
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Outcome, Reason
from scouter.model.json_value import to_json_value

LARGEST: Final = 2.0**53
"""Above it floats skip whole numbers; a number beyond it is no measure of anything."""
ASSERTIONS: Final = frozenset(("Assertion", "TraceAssertion", "AgentAssertion"))
"""Types of tasks that hold or do not hold; the value that they compare is no score."""

_PASSED: Final = Outcome.PASSED
_FAILED: Final = Outcome.FAILED


def as_score(value: object) -> float | None:
    """Read a number as a score.

    Args:
        value: Anything.

    Returns:
        The number, in [-2**53, 2**53]; None for a flag, for NaN, for a number beyond these bounds
        and for all that is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def plain_score(outcome: Outcome) -> float | None:
    """The score of a task that holds or does not: 1 passed, 0 failed, None for all else."""
    if outcome is _PASSED:
        return 1.0
    return 0.0 if outcome is _FAILED else None


def own_score(score: float | None, outcome: Outcome) -> float | None:
    """A score that says more than the outcome; None where it is the 1 or 0 of that."""
    return None if score == plain_score(outcome) else score


def score_of(
    task_type: str, outcome: Outcome, actual: object, stated: float | None = None
) -> float | None:
    """Tell a result's score from the fields that every result has.

    Args:
        task_type: Such as `Assertion`.
        outcome: Outcome of the task.
        actual: The value that was compared.
        stated: The score of a decided task, where it does not follow from the others.

    Returns:
        None where the task was not decided. Of assertions 1.0 if it passed and 0.0 if it failed;
        of all other tasks the compared value, and where that is no score the same 1.0 or 0.0.
    """
    plain = plain_score(outcome)
    if plain is not None and stated is not None:
        return stated
    if plain is None or task_type in ASSERTIONS:
        return plain
    given = as_score(actual)
    return plain if given is None else given


MOST_SPAN_IDS: Final = 20
"""Most ids of spans that one result names; a reader wants examples, not a full list."""

Window: TypeAlias = tuple[int, int]
"""Begin and end of an evaluation, in nanoseconds since the epoch."""

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Explain: TypeAlias = Callable[[JsonValue, JsonValue], str]
"""Function from the actual and the expected value of a failed task to words."""


def _explain_plainly(actual: JsonValue, expected: JsonValue) -> str:
    return f"found {show(actual)}, expected {show(expected)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Fields that all results of one task share; stored once, not per result."""

    task_id: str
    task_type: str
    """Assertion, TraceAssertion or AgentAssertion."""
    operator: str
    condition: bool = False
    """True for a gate."""
    stage: int = 0
    """Stage of the plan, from 0; later stages read from earlier ones."""
    assertion: JsonValue = None
    """Subject of the task: a path, or the assertion in its wire form."""
    label: str = ""
    """Subject in words, at the beginning of a message."""
    passed_message: str = "passed"
    explain: Explain = _explain_plainly


@dataclass(slots=True, eq=False, repr=False)
class EvalTaskResult:
    """Result of one task for one record.

    There is one object per task and record, and a frozen dataclass takes six times as long to make
    (1.3 against 0.2 µs). Treat it as read-only.
    """

    spec: TaskSpec
    """Fields that it shares with the task's other results."""
    outcome: Outcome
    reason: Reason | None
    """Cause of the outcome, where the task errored or was skipped."""
    expected: JsonValue
    """The expected value, templates resolved."""
    actual: JsonValue
    """The value that was compared; for HasLength operators the length."""
    given_message: str | None = None
    """The message if it was given or read before; None if it would have to be made."""
    span_ids: tuple[str, ...] = ()
    """The first spans that it is about, in time order; at most `MOST_SPAN_IDS`."""
    stated_score: float | None = None
    """The score where it does not follow from the rest, such as the mean of a judge's votes."""
    usage: JudgeUsage | None = None
    """Calls, tokens and cost of the judge's answers; None for a task that called no judge."""
    exchange: JudgeExchange | None = None
    """Question to the judge and its answer; None without a judge, or if nothing was stored."""
    record_uid: str = ""
    """Key of the record, where the result was read from `EvalSet.records`; else empty."""
    window: Window | None = None
    """Begin and end of the evaluation that the result comes from; None where unknown.

    It is known where the result was read from `EvalSet.records`. A task has no time of its own, so
    this is the time of the whole evaluation.
    """

    @property
    def message(self) -> str:
        """Outcome in words, with the compared value where the task failed."""
        text = self.given_message
        if text is None:
            if self.outcome is _PASSED:
                return self.spec.passed_message
            text = self.given_message = self.spec.explain(self.actual, self.expected)
        return text

    def using(
        self, usage: JudgeUsage | None, exchange: JudgeExchange | None = None
    ) -> "EvalTaskResult":
        """Make a copy of the result with the judge's usage, its question and its answer."""
        return self if usage is None else replace(self, usage=usage, exchange=exchange)

    @property
    def score(self) -> float | None:
        """The number beside the outcome: finite, or None where the task was not decided.

        1.0 or 0.0 of an assertion that passed or failed; of any other task the value that its
        judge or metric gave, see `own_score`. None is not 0: the task has no score.
        """
        return score_of(self.spec.task_type, self.outcome, self.actual, self.stated_score)

    def scored(self, score: float | None) -> "EvalTaskResult":
        """Make a copy of the result with this score.

        Args:
            score: Stored where it differs from the one that follows from the rest; None, and a
                number that is no score, leave the result as it is. A result that was not decided
                has no score.
        """
        own, given = self.score, as_score(score)
        if own is None or given is None or given == own:
            return self
        return replace(self, stated_score=given)

    @property
    def start_time(self) -> datetime.datetime | None:
        """Time at which the evaluation began, in UTC; None where `window` is."""
        return None if self.window is None else _moment(self.window[0])

    @property
    def end_time(self) -> datetime.datetime | None:
        """Time at which the evaluation ended, in UTC; None where `window` is."""
        return None if self.window is None else _moment(self.window[1])

    @property
    def created_at(self) -> datetime.datetime | None:
        """Time at which the result was made; the same as `end_time`."""
        return self.end_time

    @property
    def task_id(self) -> str:
        """The task's id."""
        return self.spec.task_id

    @property
    def task_type(self) -> str:
        """Assertion, TraceAssertion or AgentAssertion."""
        return self.spec.task_type

    @property
    def operator(self) -> str:
        """Name of the comparison."""
        return self.spec.operator

    @property
    def is_measure(self) -> bool:
        """True if the task only measures: it passes with every number, so its rate says nothing."""
        return self.operator == ComparisonOperator.IsNumeric and not self.task_type.endswith(
            "Assertion"
        )

    @property
    def condition(self) -> bool:
        """True for a gate."""
        return self.spec.condition

    @property
    def stage(self) -> int:
        """Stage of the plan, from 0."""
        return self.spec.stage

    @property
    def assertion(self) -> JsonValue:
        """Subject of the task: a path, or the assertion in its wire form."""
        return self.spec.assertion

    @property
    def passed(self) -> bool:
        """True only for the outcome `passed`."""
        return self.outcome is _PASSED

    @property
    def value(self) -> float:
        """1.0 where passed, else 0.0."""
        return 1.0 if self.outcome is _PASSED else 0.0

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return {
            "task_id": self.task_id,
            "task_type": self.task_type,
            "outcome": str(self.outcome),
            "reason": None if self.reason is None else str(self.reason),
            "score": self.score,
            "expected": self.expected,
            "actual": self.actual,
            "message": self.message,
            "operator": self.operator,
            "condition": self.condition,
            "stage": self.stage,
            "assertion": self.assertion,
            **({} if self.usage is None else {"usage": self.usage.to_json()}),
            **({} if self.exchange is None else {"judge": self.exchange.to_json()}),
            **({"span_ids": list(self.span_ids)} if self.span_ids else {}),
        }

    def model_dump_json(self) -> str:
        """Write all fields as JSON, by the rule of `to_json_value`."""
        fields: dict[str, object] = {}
        if self.record_uid:
            times = ("created_at", "start_time", "end_time")
            fields = {
                **{name: getattr(self, name) for name in times},
                "record_uid": self.record_uid,
            }
        return json.dumps(to_json_value({**fields, **self.to_json()}), ensure_ascii=False)

    @staticmethod
    def of(
        *,
        task_id: str,
        task_type: str,
        outcome: Outcome | str,
        reason: Reason | str | None = None,
        expected: JsonValue = None,
        actual: JsonValue = None,
        message: str = "",
        operator: str = "",
        condition: bool = False,
        stage: int = 0,
        assertion: JsonValue = None,
        span_ids: Iterable[str] = (),
        score: float | None = None,
    ) -> "EvalTaskResult":
        """Make a result from its fields, as they come from a file or a table."""
        spec = TaskSpec(
            task_id=task_id,
            task_type=task_type,
            operator=operator,
            condition=condition,
            stage=stage,
            assertion=assertion,
        )
        why = None if reason is None else Reason(reason)
        return EvalTaskResult(
            spec, Outcome(outcome), why, expected, actual, message, tuple(span_ids)
        ).scored(score)

    def seen_in(self, record_uid: str, window: Window | None) -> "EvalTaskResult":
        """Make a copy of the result that knows its record and the time of its evaluation.

        Args:
            record_uid: The record's key.
            window: Begin and end of the evaluation, where known.
        """
        return replace(self, record_uid=record_uid, window=window)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EvalTaskResult):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]  # equal by content, which may hold lists

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"EvalTaskResult({self.task_id!r}: {self.outcome}{why}, {self.message!r})"


def _moment(at_ns: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=at_ns // 1000)
