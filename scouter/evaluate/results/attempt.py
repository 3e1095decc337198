"""One attempt of one scenario: what was said and traced, and how it ended."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Final, NamedTuple, Self, TypeAlias, cast

from pydantic import BaseModel, GetPydanticSchema, JsonValue
from pydantic_core import core_schema

from scouter.errors import DataError
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.outcome import NOT_CALLED, Outcome, Reason
from scouter.evaluate.results.file import JsonRows
from scouter.evaluate.results.record_result import RecordResult, rate_of, record_outcome
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_otlp_json
from scouter.model.span import Span


def _read_spans(value: object) -> tuple[Span, ...]:
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if isinstance(value, tuple) or any(isinstance(item, Span) for item in items):
        return by_start(cast("Sequence[Span]", items))
    decoded = spans_from_otlp_json(cast(object, value))
    if decoded.rejected:
        at, why = decoded.rejected[0]
        raise DataError(f"span {at}: {why}")
    return by_start(decoded.spans)


def by_start(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Sort spans by start time, and those of one time by their ids."""
    return tuple(sorted(spans, key=lambda span: (span.start_ns, span.trace_id, span.span_id)))


JsonSpans = Annotated[
    tuple[Span, ...],
    GetPydanticSchema(
        lambda _, __: core_schema.no_info_plain_validator_function(
            _read_spans,
            serialization=core_schema.plain_serializer_function_ser_schema(spans_to_otlp_json),
        )
    ),
]
"""Spans as a field of a model that can be stored; in the file they are OTLP-JSON."""


Exchange: TypeAlias = dict[str, JsonValue]
"""One turn of a conversation: `{"user": message, "agent": response}`."""


_UNANSWERED: Final[frozenset[Reason | None]] = frozenset(
    {Reason.PROVIDER, Reason.REFUSAL, Reason.ABSTAINED, Reason.DEPENDENCY}
)
"""Reasons for which a check errors through no fault of the agent."""


class TaskSummary(BaseModel, frozen=True, extra="ignore"):
    """Result of one task of a scenario, in short."""

    task_id: str
    passed: bool
    value: float
    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    score: float | None = None
    """The number beside the outcome; None where the task was errored or skipped."""
    usage: JudgeUsage | None = None
    """Calls, tokens and cost of the judge's answers; None for a task without a judge."""


class ScenarioAttempt(BaseModel, frozen=True, extra="ignore"):
    """The data of `ScenarioResult`."""

    scenario_id: str
    initial_query: str
    outcome: Outcome
    """`errored` if the attempt raised or took too long, whatever its tasks say, and if its
    conversation was cut, unless a task failed; `skipped` if nothing failed, but a judge was not
    called, for its budget or its sample: nobody knows then."""
    passed: bool
    pass_rate: float
    task_results: tuple[TaskSummary, ...]
    eval_results: JsonRows | None = None
    """The full results of the scenario's own tasks."""
    attempt: int = 0
    """Number of the attempt, from 0."""
    error: str | None = None
    """Error of the agent, the simulated user or a hook, or a note that time or turns ran out."""
    error_reason: Reason | None = None
    """Kind of the error: `incomplete` for a conversation whose end was not seen, `user` for a fault
    of the simulated user, `agent` for all others; None without one."""
    error_frames: tuple[str, ...] = ()
    """Places of the error in the agent's code, such as `shop.py:12 in answer`; innermost last."""
    duration_ns: int = 0
    """Length of the conversation's last try in nanoseconds, the simulated user included."""
    response: JsonValue = None
    """Value that the tasks read as `response`."""
    turns: tuple[Exchange, ...] = ()
    """The conversation, as far as it is known: an overridden `execute_agent` keeps the answers
    to predefined turns to itself."""
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    """Moments of each question to the agent and of its answer, in ns since the epoch, turn by turn.

    Empty where they were not measured.
    """
    traces: JsonSpans = ()
    """The spans of this scenario and attempt, by start time."""

    @property
    def record(self) -> RecordResult:
        """Results of its own tasks; made of their summaries where no full ones are stored."""
        if self.eval_results is not None and self.eval_results.records:
            return self.eval_results.records[0]
        tasks = (
            EvalTaskResult.of(
                task_id=each.task_id, task_type="", outcome=each.outcome, reason=each.reason,
                message=each.message, score=each.score,
            ).using(each.usage)
            for each in self.task_results
        )  # fmt: skip
        return own_record(self.scenario_id, tuple(tasks))

    @property
    def error_line(self) -> str:
        """The error's first line with its place: `KeyError: 'k' (shop.py:12 in answer)`."""
        first, *_ = (self.error or "").splitlines() or [""]
        where = f" ({self.error_frames[-1]})" if self.error_frames else ""
        return f"{first}{where}"

    @classmethod
    def of(
        cls,
        scenario_id: str,
        initial_query: str,
        tasks: Sequence[EvalTaskResult],
        eval_results: ResultRows | None = None,
        error: str | None = None,
        error_reason: Reason | None = None,
    ) -> Self:
        """Sum an attempt up from task results, and from the error that ended it, if any."""
        outcome = record_outcome(tasks) if error is None else Outcome.ERRORED
        if error_reason is Reason.INCOMPLETE and any(t.outcome is Outcome.FAILED for t in tasks):
            outcome = Outcome.FAILED
        if outcome is Outcome.PASSED and any(task.reason in NOT_CALLED for task in tasks):
            outcome = Outcome.SKIPPED
        return cls(
            scenario_id=scenario_id,
            initial_query=initial_query,
            outcome=outcome,
            passed=outcome is Outcome.PASSED,
            pass_rate=rate_of(tasks),
            task_results=tuple(
                TaskSummary.model_validate(task, from_attributes=True) for task in tasks
            ),
            eval_results=eval_results,
            error=error,
            error_reason=error_reason,
        )


def own_record(scenario_id: str, tasks: tuple[EvalTaskResult, ...]) -> RecordResult:
    """Put the results of a scenario's own tasks together, as those of a record."""
    outcome = record_outcome(tasks)
    return RecordResult(scenario_id, scenario_id, scenario_id, None, outcome, tasks, 0, 0)


def context_of(
    response: JsonValue,
    content: Mapping[str, JsonValue],
    turns: Sequence[Exchange] = (),
    times_ns: Sequence[tuple[int, int]] = (),
) -> dict[str, JsonValue]:
    """Make the context that a scenario's own tasks read.

    Args:
        response: The agent's last answer.
        content: Fields of the scenario.
        turns: The conversation.
        times_ns: Moments of question and answer of each turn; none where they are not known.
    """
    names = ["expected_outcome", "metadata"]
    if content.get("expected_trajectory") is not None:
        names.append("expected_trajectory")
    reported: list[JsonValue] = [dict(turn) for turn in turns]
    if len(times_ns) == len(turns):
        reported = [
            {**turn, "asked_ns": sent_ns, "answered_ns": answered_ns}
            for turn, (sent_ns, answered_ns) in zip(turns, times_ns, strict=True)
        ]
    found = {"response": response, **{name: content.get(name) for name in names}}
    return {**found, "turns": reported} if reported else found


def cut_short(task: EvalTaskResult, error: str) -> EvalTaskResult:
    """Make the result of a conversation whose end was not seen: what passed is not decided."""
    if not task.passed:
        return task
    return replace(
        task,
        outcome=Outcome.ERRORED,
        reason=Reason.INCOMPLETE,
        given_message=f"passes so far, but {error}",
        stated_score=None,
    )


def not_judged(
    spec: TaskSpec, expected: JsonValue, reason: Reason | None, error: str
) -> EvalTaskResult:
    """Make the result of a task of an attempt without a response."""
    return EvalTaskResult(spec, Outcome.ERRORED, reason, expected, None, f"not judged: {error}")


class Conversation(BaseModel, frozen=True, extra="ignore"):
    """Conversation and spans of one attempt of a scenario without tasks of its own."""

    scenario_id: str
    attempt: int = 0
    duration_ns: int = 0
    response: JsonValue = None
    turns: tuple[Exchange, ...] = ()
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    traces: JsonSpans = ()


def is_decided(result: ScenarioAttempt) -> bool:
    """Tell whether an attempt belongs into the pass rate of scenarios."""
    return result.outcome is not Outcome.SKIPPED


class AttemptKey(NamedTuple):
    """One attempt of a run."""

    scenario_id: str
    attempt: int


class Seen:
    """Outcomes that the tasks of one attempt had, and the aliases of these tasks."""

    __slots__ = ("aliases", "bad", "has_errored", "has_failed", "has_passed", "is_unknown")

    def __init__(self) -> None:
        self.aliases: set[str] = set()
        self.bad: set[Reason | None] = set()
        """Reasons of the tasks that failed, which have none, or errored."""
        self.has_errored = self.has_failed = self.has_passed = self.is_unknown = False

    def add(self, outcome: Outcome, reason: Reason | None = None) -> None:
        """Note how a task ended, or the attempt as a whole."""
        self.has_passed |= outcome is Outcome.PASSED
        self.has_failed |= outcome is Outcome.FAILED
        self.has_errored |= outcome is Outcome.ERRORED
        self.is_unknown |= outcome is Outcome.PENDING or reason is Reason.BUDGET
        if outcome is Outcome.FAILED or (outcome is Outcome.ERRORED and reason is not None):
            self.bad.add(reason)

    def outcome(self, *, lacks_alias: bool = False) -> Outcome:
        """Say how all of it ended; `skipped` if nobody knows."""
        if self.has_failed or (lacks_alias and not self.has_errored):
            return Outcome.FAILED
        if self.has_errored:
            return Outcome.ERRORED
        return Outcome.SKIPPED if self.is_unknown or not self.has_passed else Outcome.PASSED

    @property
    def is_unanswered(self) -> bool:
        """True if nothing but judges that gave no answer stands against the attempt."""
        return bool(self.bad) and self.bad <= _UNANSWERED


def seen_attempts(
    dataset_results: Mapping[str, ResultRows], scenario_results: Iterable[ScenarioAttempt]
) -> dict[AttemptKey, Seen]:
    """Gather what is known of each attempt: its own tasks, and those of its records.

    Cost: linear in the number of task results.
    """
    seen: dict[AttemptKey, Seen] = {}
    for result in scenario_results:
        one = seen.setdefault(AttemptKey(result.scenario_id, result.attempt), Seen())
        one.add(result.outcome)
        for task in result.task_results:
            one.add(task.outcome, task.reason)
    for alias, found in dataset_results.items():
        for row in found:
            if row.scenario_id is not None:
                one = seen.setdefault(AttemptKey(row.scenario_id, row.attempt), Seen())
                one.aliases.add(alias)
                for task in row.record.tasks:
                    one.add(task.outcome, task.reason)
    return seen
