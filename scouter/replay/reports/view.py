"""The results of a run as a reader sees them: scenarios, attempts, checks, spans and task rates.

Every report reads this and nothing else of the results, so that none counts in a way of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import AlignedEvalResult
from scouter.evaluate.api.replay import ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.gate_counts import BROKEN, TaskCount, count_tasks
from scouter.evaluate.compare.rates import too_few
from scouter.evaluate.compare.rows import ENOUGH
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import WORST_FIRST, Outcome, Reason, worst
from scouter.evaluate.paths.templates import has_template
from scouter.evaluate.results.attempt import Conversation, Exchange
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.trace_view import ResultView, TraceView, view_trace
from scouter.model.span import Span
from scouter.replay.reports.texts import percent

Change: TypeAlias = Literal["regressed", "improved", "new", "same", ""]
"""Change against the baseline; empty without one."""

NO_SCENARIO: Final = "(no scenario)"
"""Name under which reports show the records that no replay made."""

BAD: Final = frozenset({Outcome.FAILED, Outcome.ERRORED})
"""Outcomes of what a reader has to look at."""
_AS_WRITTEN: Final = "as written, with its templates: the check was not decided"
_EPSILON: Final = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """One record that the agent left."""

    alias: str
    name: str
    outcome: Outcome
    checks: tuple[EvalTaskResult, ...]
    context: JsonValue = None
    """None where the results do not hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One run of one scenario."""

    number: int
    """Number of the attempt, from 1."""
    outcome: Outcome
    error: str
    """Error of the attempt and its place; empty without one. The first line is the message."""
    error_reason: str
    """Kind of the error; empty without one."""
    duration_ns: int
    turns: Sequence[Exchange]
    response: JsonValue
    checks: tuple[EvalTaskResult, ...]
    """The scenario's own."""
    records: tuple[RecordView, ...]
    spans: Sequence[Span]

    @property
    def all_checks(self) -> Iterable[EvalTaskResult]:
        """Its own checks, then those of its records."""
        yield from self.checks
        for record in self.records:
            yield from record.checks

    def trace(self, limit: int | None = None) -> TraceView:
        """Its spans, with the checks beside those that they are about.

        Args:
            limit: Most spans to show.
        """
        tasks = [_about(check) for check in self.checks if check.span_ids]
        for record in self.records:
            tasks += [_about(check, record) for check in record.checks if check.span_ids]
        return view_trace(self.spans, tasks, limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioView:
    """One scenario with all its attempts."""

    scenario_id: str
    query: str
    outcome: Outcome
    """The worst of its attempts."""
    attempts: tuple[AttemptView, ...]
    change: Change
    baseline_outcome: Outcome | None

    @property
    def passed(self) -> int:
        """Attempts that passed."""
        return sum(attempt.outcome is Outcome.PASSED for attempt in self.attempts)

    @property
    def first_fault(self) -> str:
        """The first thing that went wrong, in one line; empty if nothing did."""
        for attempt in self.attempts:
            if attempt.error:
                return attempt.error.strip().splitlines()[0]
            for check in attempt.all_checks:
                if check.outcome in BAD:
                    return f"{check.task_id}: {' '.join(check.message.split())}"
        return ""

    @property
    def is_errored(self) -> bool:
        """True if an attempt raised, or one of its checks could not be decided."""
        return any(
            attempt.error or any(c.outcome is Outcome.ERRORED for c in attempt.all_checks)
            for attempt in self.attempts
        )

    @property
    def over_budget(self) -> int:
        """Checks that were skipped as the budget of judges was spent."""
        return sum(
            check.reason is Reason.BUDGET
            for attempt in self.attempts
            for check in attempt.all_checks
        )

    @property
    def is_flaky(self) -> bool:
        """True if some attempts passed and some did not; those not decided are neither."""
        decided = sum(attempt.outcome is not Outcome.SKIPPED for attempt in self.attempts)
        return 0 < self.passed < decided


@dataclass(frozen=True, slots=True)
class RateView:
    """Passed of total, with its 95 % Wilson interval."""

    passed: int
    total: int
    mean: float | None = None
    """Mean of the scores of a task that measures, and passes with every number."""

    @property
    def text(self) -> str:
        """The rate with its counts, or the mean with the number of scores."""
        if self.mean is not None:
            return f"mean {self.mean:.4g} ({self.total})"
        return f"{percent(self.rate)} ({self.passed}/{self.total})"

    @property
    def rate(self) -> float | None:
        """Pass rate in [0, 1]; None without samples."""
        return self.passed / self.total if self.total else None

    @property
    def interval(self) -> Interval:
        """95 % interval of the rate, in [0, 1]."""
        return wilson(self.passed, self.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskView:
    """One task over all records or scenarios, now and in the baseline."""

    alias: str
    """Empty for the scenarios' own tasks."""
    task_id: str
    now: RateView
    baseline: RateView | None = None
    difference: float | None = None
    difference_interval: Interval | None = None
    conversations: int = 0
    """Number of conversations behind the rate; in a comparison, behind the difference."""
    regressed: bool | None = None
    """None without a baseline."""
    is_cleared: bool | None = None
    word: str = ""
    """`regressed`, `not cleared`, or nothing."""
    reason: str = ""

    @property
    def has_interval(self) -> bool:
        """True if enough conversations stand behind the intervals to show them."""
        return self.conversations >= ENOUGH


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The whole run."""

    scenarios: tuple[ScenarioView, ...]
    """Scenarios in the order in which they ran."""
    tasks: tuple[TaskView, ...]
    missing: tuple[str, ...] = ()
    """Scenarios of the baseline that were not run."""

    @property
    def too_few(self) -> str:
        """One line in place of all intervals, where there are fewer than six conversations."""
        most = max((task.conversations for task in self.tasks), default=0)
        return f"{too_few(most)}." if 0 < most < ENOUGH else ""

    @property
    def by_urgency(self) -> tuple[ScenarioView, ...]:
        """Scenarios that got worse first, then those that did not pass, then the rest."""
        return tuple(sorted(self.scenarios, key=_urgency))

    @property
    def flips(self) -> tuple[ScenarioView, ...]:
        """Scenarios that got worse or better than in the baseline."""
        return tuple(s for s in self.by_urgency if s.change in {"regressed", "improved"})


def _about(check: EvalTaskResult, record: RecordView | None = None) -> ResultView:
    return ResultView(
        task_id=check.task_id,
        outcome=check.outcome,
        reason=str(check.reason or ""),
        message=check.message,
        profile=record.alias if record else "",
        record=record.name if record else "",
        score=check.score,
        actual=check.actual,
        span_ids=check.span_ids,
    )


def make_view(results: ScenarioEvalResults, comparison: ScenarioComparisonResults | None) -> View:
    """Read a run and its comparison.

    Args:
        results: The run.
        comparison: With the baseline, if there is one.

    Cost: linear in scenarios, records and task results.
    """
    own: dict[str, dict[int, ScenarioResult]] = defaultdict(dict)
    for result in results.scenario_results:
        own[result.scenario_id][result.attempt] = result
    said: dict[str, dict[int, Conversation]] = defaultdict(dict)
    for conversation in results.conversations:
        said[conversation.scenario_id][conversation.attempt] = conversation
    records: dict[str, dict[int, list[RecordView]]] = defaultdict(lambda: defaultdict(list))
    for alias, found in results.dataset_results.items():
        places: Counter[tuple[str | None, int]] = Counter()
        for row in found.aligned_results:
            places[row.scenario_id, row.attempt] += 1
            place = places[row.scenario_id, row.attempt]
            records[row.scenario_id or ""][row.attempt].append(
                _record(alias, row, place, results.contexts.get(row.record.record_uid))
            )
    changes = _changes(comparison)
    scenarios = [
        _scenario(
            info.scenario_id,
            info.initial_query,
            {**said.get(info.scenario_id, {}), **own.get(info.scenario_id, {})},
            records.get(info.scenario_id, {}),
            changes.get(info.scenario_id, ("" if comparison is None else "same", None)),
        )
        for info in results.scenarios
    ]
    if "" in records:
        change: Change = "regressed" if comparison and comparison.regressed else "same"
        scenarios.append(
            _scenario(NO_SCENARIO, "", {}, records[""], (change if comparison else "", None))
        )
    counts = [each for each in count_tasks(results) if each.total and each.task_id != BROKEN]
    tasks = (_compared_tasks(comparison) if comparison else ()) or tuple(map(_task, counts))
    return View(
        scenarios=tuple(scenarios),
        tasks=tuple(_with_means(tasks, counts, comparison)),
        missing=tuple(comparison.removed_scenarios) if comparison else (),
    )


def _scenario(
    name: str,
    query: str,
    own: dict[int, ScenarioResult | Conversation],
    records: dict[int, list[RecordView]],
    change: tuple[Change, Outcome | None],
) -> ScenarioView:
    attempts = tuple(
        _attempt(number, own.get(number), records.get(number, []))
        for number in sorted({*own, *records}) or [0]
    )
    return ScenarioView(
        scenario_id=name,
        query=query,
        outcome=worst(attempt.outcome for attempt in attempts),
        attempts=attempts,
        change=change[0],
        baseline_outcome=change[1],
    )


def _attempt(
    number: int,
    found: ScenarioResult | Conversation | None,
    records: Sequence[RecordView],
) -> AttemptView:
    result = found if isinstance(found, ScenarioResult) else None
    return AttemptView(
        number=number + 1,
        outcome=_outcome(result, records),
        error=_error(result) if result else "",
        error_reason=str(result.error_reason or Reason.AGENT) if result and result.error else "",
        duration_ns=found.duration_ns if found else 0,
        turns=found.turns if found else (),
        response=found.response if found else None,
        checks=result.record.tasks if result else (),
        records=tuple(records),
        spans=found.traces if found else (),
    )


def _outcome(result: ScenarioResult | None, records: Sequence[RecordView]) -> Outcome:
    """The worst outcome of the scenario and its records; a record without one passes nothing."""
    outcome = worst([record.outcome for record in records])
    if result is None:
        return outcome
    if result.outcome is Outcome.SKIPPED and outcome is Outcome.PASSED:
        return Outcome.SKIPPED
    return worst([result.outcome, outcome])


def _error(result: ScenarioResult) -> str:
    """The error and its place in the first line, its other lines, and the way to it."""
    if not result.error:
        return ""
    lines = [result.error_line, *result.error.splitlines()[1:]]
    if len(result.error_frames) > 1:
        lines += [f"  at {frame}" for frame in reversed(result.error_frames)]
    return "\n".join(lines)


def _record(alias: str, row: AlignedEvalResult, place: int, context: JsonValue) -> RecordView:
    """A record is called by its id or its place, never by the uid, which no other run has."""
    return RecordView(
        alias=alias,
        name=row.record_id or f"#{place}",
        outcome=row.outcome,
        checks=row.record.tasks,
        context=context,
    )


def note_of(check: EvalTaskResult) -> str:
    """A note on the expected value where it is a template still, as the check was not decided."""
    is_open = check.outcome in {Outcome.ERRORED, Outcome.SKIPPED}
    return _AS_WRITTEN if is_open and has_template(check.expected) else ""


def _urgency(scenario: ScenarioView) -> tuple[bool, int, bool]:
    return (
        scenario.change != "regressed",
        WORST_FIRST.index(scenario.outcome),
        not scenario.is_flaky,
    )


def _changes(
    comparison: ScenarioComparisonResults | None,
) -> dict[str, tuple[Change, Outcome | None]]:
    if comparison is None:
        return {}
    found: dict[str, tuple[Change, Outcome | None]] = {
        name: ("new", None) for name in comparison.new_scenarios
    }
    for delta in comparison.scenario_deltas:
        change: Change = "same"
        if delta.is_regression:
            change = "regressed"
        elif (delta.comparison_passed and not delta.baseline_passed) or (
            delta.comparison_pass_rate > delta.baseline_pass_rate + _EPSILON
        ):
            change = "improved"
        found[delta.scenario_id] = change, delta.baseline_outcome
    return found


def _compared_tasks(comparison: ScenarioComparisonResults) -> tuple[TaskView, ...]:
    return tuple(
        TaskView(
            alias=task.alias or "",
            task_id=task.label if task.is_whole else task.task_id,
            now=RateView(passed=task.comparison_passed, total=task.comparison_count),
            baseline=RateView(passed=task.baseline_passed, total=task.baseline_count),
            difference=task.difference,
            difference_interval=task.interval if task.has_interval else None,
            conversations=task.clusters,
            regressed=task.regressed,
            is_cleared=task.is_cleared,
            word=task.word,
            reason=task.reason,
        )
        for task in comparison.rates
    )


def _with_means(
    tasks: Sequence[TaskView],
    counts: Sequence[TaskCount],
    comparison: ScenarioComparisonResults | None,
) -> Iterator[TaskView]:
    """Give tasks that only measure the means of their scores: all of their results pass."""
    means = {(each.alias, each.task_id): each.mean for each in counts}
    changes = () if comparison is None else comparison.score_changes
    moved = {(each.alias or "", each.task_id): each for each in changes}
    for task in tasks:
        mean = means.get((task.alias, task.task_id))
        if mean is None:
            yield task
            continue
        was, change = task.baseline, moved.get((task.alias, task.task_id))
        before = None if change is None else change.baseline_mean
        yield TaskView(
            alias=task.alias,
            task_id=task.task_id,
            now=replace(task.now, mean=mean),
            baseline=None if was is None or before is None else replace(was, mean=before),
            regressed=None if change is None else change.regressed,
            is_cleared=None if change is None else change.is_cleared,
            word="" if change is None else change.word,
            reason="" if change is None else change.reason,
        )


def _task(count: TaskCount) -> TaskView:
    return TaskView(
        alias=count.alias,
        task_id=count.task_id,
        now=RateView(count.passed, count.total),
        conversations=count.conversations,
    )
