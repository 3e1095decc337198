"""Two runs over the checks that both were judged by; changed tasks judge the baseline again."""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from scouter.evaluate.compare.checks import (
    CheckChange,
    Checks,
    Group,
    difference_of,
    merged,
    task_of,
)
from scouter.evaluate.engine.execute import Found, JudgeQuestion, Walk, walk
from scouter.evaluate.engine.plan import Plan, compile_plan
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeUsage
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.outcome import Reason
from scouter.evaluate.responses.parse import shared_responses
from scouter.evaluate.results.attempt import (
    Conversation,
    ScenarioAttempt,
    context_of,
    cut_short,
    not_judged,
    own_record,
)
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.span import Span

R = TypeVar("R", bound=RunResults)

Tasks: TypeAlias = tuple[EvalTaskResult, ...]
Item: TypeAlias = ScenarioAttempt | Conversation

_ANOTHER_QUESTION: Final = "its judge would have to be asked anew about the baseline's answers"
_NOT_STORED: Final = "the baseline does not store all that it reads"
_FUNCTION: Final = "the baseline does not store what its function would give"
_SESSIONS: Final = "the baseline does not store all that tasks of sessions read"
_NO_ANSWER: Final = frozenset(
    {Reason.SAMPLED, Reason.BUDGET, Reason.PROVIDER, Reason.REFUSAL, Reason.ABSTAINED, Reason.PARSE}
)
"""Reasons for which a judge gave no answer, whatever is compared with it."""
_STAYS: Final = (
    "attempt", "duration_ns", "response", "turns", "turn_times_ns", "traces", "error_frames",
)  # fmt: skip
"""Fields of an attempt that no task changes."""


def judged_again(
    results: R, groups: Sequence[Group], but: Collection[str]
) -> tuple[R, list[dict[str, str]]]:
    """Judge attempts by the tasks of groups that changed, were added, or read what changed.

    Args:
        results: The baseline.
        groups: Tasks of aliases and scenarios, before and now.
        but: Scenarios that do not matter.

    Returns:
        The attempts with today's results; and for each group, by task of today, the reason why it
        could not be run on all of them. The results of these tasks mean nothing.

    Cost: linear in the attempts, as evaluating them is, without a judge.
    """
    plans: dict[str, Plan] = {}
    scores: dict[str, JsonValue] = {}
    every = [_Again(group, but, plans, scores) for group in groups]
    by_alias = {each.group.alias: each for each in every if each.group.alias is not None}
    by_scenario = {each.group.scenario_id: each for each in every if each.group.alias is None}

    def rows_of(run: RunResults, alias: str, rows: ResultRows) -> ResultRows:
        return by_alias[alias].records(run, rows) if alias in by_alias else rows

    def attempt_of(item: Item) -> Item:
        again = by_scenario.get(item.scenario_id)
        return item if again is None or again.plan is None else again.attempt(item, again.plan)

    if any(each.plan for each in every):
        results = remade(results, rows_of, attempt_of)
    return results, [each.all_missing() for each in every]


def _behind(group: Group, names: Mapping[str, str]) -> dict[str, str]:
    """Say of the tasks that depend on others why they cannot be compared."""
    return {
        name: f"it depends on {cause!r}, which is left out"
        for cause in names
        for name in group.dependents([cause])
        if name not in names
    }


class _Again:
    """Tasks of one group, and what they could not be run on.

    Args:
        group: Tasks of an alias or a scenario, before and now.
        but: Scenarios that do not matter.
        plans: Compiled tasks by content, as many scenarios have the same ones.
        scores: Gets what functions gave for the record that is judged; the plans read it.
    """

    def __init__(
        self,
        group: Group,
        but: Collection[str],
        plans: dict[str, Plan],
        scores: dict[str, JsonValue],
    ) -> None:
        self.group, self._but, self._scores = group, but, scores
        todo = group.dependents([*group.changed, *group.added])
        self._todo = set(group.new) if group.moved else {*todo}
        self.missing = {
            name: _SESSIONS if group.new[name].get("scope") == "session" else _ANOTHER_QUESTION
            for name in group.new
            if name in self._todo
            and (group.new[name].get("scope") == "session" or group.needs_another_answer(name))
        }
        self.missing |= {name: _FUNCTION for name in self._todo if group.needs_its_function(name)}
        known = self.all_missing()
        self._todo -= known.keys()
        self.plan: Plan | None = None
        """The tasks of today that can be run; None if none is to be."""
        if self._todo:
            wires = [wire for name, wire in group.new.items() if name not in known]
            key = json.dumps(wires)
            if key not in plans:
                plans[key] = compile_plan([task_of(wire, scores) for wire in wires])
            self.plan = plans[key]

    def all_missing(self) -> dict[str, str]:
        """By task, why it cannot be compared; those that depend on such a task cannot, either."""
        return self.missing | _behind(self.group, self.missing)

    def records(self, results: RunResults, rows: ResultRows) -> ResultRows:
        """Judge the records of the alias."""
        plan = self.plan
        if plan is None:
            return rows
        trees = _trees(results, rows) if plan.reads_spans else {}

        def again(scenario_id: str | None, record: RecordResult) -> Tasks:
            if record.scope == "session" or scenario_id in self._but:
                return record.tasks
            context = results.whole_context(record.record_uid)
            if context is None:
                self.missing |= dict.fromkeys(self._todo, _NOT_STORED)
                return record.tasks
            tree = trees.get(record.trace_id or "")
            return self._tasks(plan, record.tasks, context, tree, record.record_uid)

        return edited(rows, again)

    def attempt(self, item: Item, plan: Plan) -> ScenarioAttempt:
        """Judge an attempt of the scenario."""
        stored: Tasks = ()
        error = reason = None
        if isinstance(item, ScenarioAttempt):
            stored, error, reason = item.record.tasks, item.error, item.error_reason
        if error is not None and reason is not Reason.INCOMPLETE:
            known = {task.task_id: task for task in stored}
            tasks = tuple(
                known.get(task.id) or not_judged(spec, task.expected_value, reason, error)
                for task, spec in zip(plan.tasks, plan.specs, strict=True)
            )
        else:
            tree = SpanTree(item.traces) if plan.reads_spans else None
            context = context_of(item.response, self.group.content, item.turns, item.turn_times_ns)
            tasks = self._tasks(plan, stored, cast(JsonValue, context), tree, item.scenario_id)
            if error is not None:
                tasks = tuple(cut_short(task, error) for task in tasks)
        return with_tasks(item, tasks)

    def _tasks(
        self, plan: Plan, stored: Tasks, context: JsonValue, tree: SpanTree | None, uid: str
    ) -> Tasks:
        """Judge one record; results that cannot have changed stay."""
        known = {task.task_id: task for task in stored}
        found = Found()
        for at, task in enumerate(plan.tasks):
            was = known.get(task.id)
            asks = at in plan.judges
            stays = asks and was is not None and was.reason in _NO_ANSWER
            if isinstance(task, FunctionTask) and was is not None:
                self._scores[task.id] = was.actual
                stays = was.reason is not None
            if was is None or (task.id in self._todo and not stays):
                continue
            found.results[at] = was
            if asks and was.reason is None:
                if was.exchange is None:
                    behind = self._todo & self.group.dependents([task.id])
                    self.missing |= dict.fromkeys(behind - {task.id}, _NOT_STORED)
                else:
                    found.answers[at] = was.exchange.answer
        with shared_responses() if plan.shares_responses else nullcontext():
            return self._answered(walk(plan, context, tree, uid, found), known)

    def _answered(self, steps: Walk, known: Mapping[str, EvalTaskResult]) -> Tasks:
        try:
            questions = next(steps)
            while True:
                questions = steps.send([self._reply(question, known) for question in questions])
        except StopIteration as end:
            return cast(Tasks, end.value)

    def _reply(
        self, question: JudgeQuestion, known: Mapping[str, EvalTaskResult]
    ) -> JudgeReply | JudgeError:
        """Give the stored answer to a question that is the baseline's."""
        task, name = question.task.task, question.task.spec.task_id
        exchange = known[name].exchange if name in known else None
        messages = JudgeExchange.of(question.request.messages, None).messages
        is_cut = messages != question.request.messages and bool(task.depends_on or self.group.moved)
        if (
            exchange is None or exchange.answer is None or task.most_questions > 1
            or messages != exchange.messages or is_cut
        ):  # fmt: skip
            self.missing[name] = _ANOTHER_QUESTION
            return JudgeError(Reason.PROVIDER, _ANOTHER_QUESTION, usage=JudgeUsage())
        answer = exchange.answer
        if isinstance(task, LLMJudgeTask) and task.rubric is not None and isinstance(answer, dict):
            answer = answer["criteria"]
        return JudgeReply(response=answer, is_cached=True)


def _trees(results: RunResults, rows: ResultRows) -> dict[str, SpanTree]:
    """The spans of each record's trace, as far as they are of attempts with a record in it."""
    traces = {
        (item.scenario_id, item.attempt): item.traces
        for item in (*results.scenario_results, *results.conversations)
    }
    found: defaultdict[str, dict[str, Span]] = defaultdict(dict)
    for row in rows:
        for span in traces.get((row.scenario_id or "", row.attempt), ()):
            if span.trace_id == row.record.trace_id:
                found[span.trace_id][span.span_id] = span
    return {trace_id: SpanTree(spans.values()) for trace_id, spans in found.items()}


# --- copies of results with other tasks --------------------------------------------------------


def remade(
    results: R,
    rows_of: Callable[[RunResults, str, ResultRows], ResultRows | None],
    attempt_of: Callable[[Item], Item],
    but: Collection[str] = (),
) -> R:
    """Make a copy of a run with other results, and the figures that follow from them.

    Args:
        results: The run, with the attempts at single scenarios.
        rows_of: Rows in the place of those of an alias; None to leave the alias out.
        attempt_of: The attempt, or the conversation, in the place of one.
        but: Scenarios that are left out.
    """
    datasets = {
        alias: made
        for alias, rows in results.dataset_results.items()
        if (made := rows_of(results, alias, rows)) is not None
    }
    items = [
        attempt_of(item)
        for item in (*results.scenario_results, *results.conversations)
        if item.scenario_id not in but
    ]
    own = tuple(item for item in items if isinstance(item, ScenarioAttempt))
    reasked = results.reasked
    update = {
        "dataset_results": datasets,
        "scenario_results": own,
        "metrics": results.metrics.of(datasets, own),
        "scenarios": tuple(each for each in results.scenarios if each.scenario_id not in but),
        "conversations": tuple(item for item in items if not isinstance(item, ScenarioAttempt)),
        "reasked": None if reasked is None else remade(reasked, rows_of, attempt_of, but),
    }
    return results.model_copy(update=update)


def edited(
    rows: ResultRows,
    tasks_of: Callable[[str | None, RecordResult], Tasks],
    but: Collection[str] = (),
) -> ResultRows:
    """Make a copy of rows with other tasks, without those of some scenarios."""
    retained = [row for row in rows if row.scenario_id not in but]
    return ResultRows(
        [row.record.with_tasks(tasks_of(row.scenario_id, row.record)) for row in retained],
        None if rows.scenario_ids is None else [row.scenario_id for row in retained],
        None if rows.attempts is None else [row.attempt for row in retained],
        window=rows.window,
    )


def with_tasks(item: Item, tasks: Tasks) -> ScenarioAttempt:
    """Make an attempt with other results of the scenario's own tasks."""
    name, query, error, reason = item.scenario_id, "", None, None
    if isinstance(item, ScenarioAttempt):
        query, error, reason = item.initial_query, item.error, item.error_reason
    rows = ResultRows([own_record(name, tasks)])
    made = ScenarioAttempt.of(name, query, tasks, rows, error, reason)
    return made.model_copy(
        update={name: getattr(item, name) for name in _STAYS if hasattr(item, name)}
    )


def but_for(tasks: Iterable[EvalTaskResult], names: Collection[str]) -> Tasks:
    """Leave some tasks out."""
    return tuple(task for task in tasks if task.task_id not in names)


_NO_CONTEXTS: Final = "results of records do not store what it reads"


@dataclass(slots=True, kw_only=True)
class Comparable:
    """A baseline that can be compared with a run, and what is in neither side of that.

    Args:
        baseline: Its attempts, as today's checks judge them.
        changes: All checks that are not what they were.
        scenarios: Scenarios that are left out.
        aliases: Aliases that are left out.
        tasks: Tasks that are left out, by alias or scenario.
    """

    baseline: RunResults
    changes: tuple[CheckChange, ...] = ()
    scenarios: set[str] = field(default_factory=set[str])
    aliases: set[str] = field(default_factory=set[str])
    tasks: dict[tuple[str | None, str | None], set[str]] = field(
        default_factory=dict[tuple[str | None, str | None], set[str]]
    )

    def of(self, run: R) -> R:
        """The part of a run that can be compared.

        Cost: linear in the number of task results; none where nothing is left out.
        """
        if not (self.scenarios or self.aliases or self.tasks):
            return run

        def rows_of(_: RunResults, alias: str, rows: ResultRows) -> ResultRows | None:
            names = self.tasks.get((alias, None), ())
            if alias in self.aliases:
                return None
            return edited(rows, lambda _, record: but_for(record.tasks, names), self.scenarios)

        def attempt_of(item: Item) -> Item:
            names = self.tasks.get((None, item.scenario_id))
            if not names or not isinstance(item, ScenarioAttempt):
                return item
            return with_tasks(item, but_for(item.record.tasks, names))

        return remade(run, rows_of, attempt_of, self.scenarios)


def comparable(baseline: RunResults, new: RunResults, accepted: Collection[str] = ()) -> Comparable:
    """Judge a baseline by today's checks.

    Args:
        baseline: The run to compare with; not changed.
        new: The run whose checks are today's.
        accepted: Ids of tasks, scenarios and aliases whose change a person looked at.

    Raises:
        ConfigError: Nothing of an accepted id changed; names the ids of what did.

    Cost: that of both runs' definitions; where a check changed, that of judging the baseline by
        it, without any judge.
    """
    found = difference_of(
        Checks(baseline.provenance, baseline.scenarios), Checks(new.provenance, new.scenarios)
    )
    found.check_accepted(accepted)
    common, changes = Comparable(baseline=baseline), [*found.whole]
    for change in changes:
        common.scenarios.update(change.ids if change.kind == "scenario" else ())
        common.aliases.update(change.ids if change.kind == "profile" else ())
    judged, missing = judged_again(baseline, found.groups, common.scenarios)
    for group, why in zip(found.groups, missing, strict=True):
        changes += group.changes(why)
        if names := {*group.removed, *why}:
            common.tasks[group.alias, group.scenario_id] = names
    common.baseline = common.of(judged)
    common.changes = merged(each.accepted_by(accepted) for each in changes)
    return common


def comparable_rows(
    baseline: ResultRows, new: ResultRows, accepted: Collection[str] = ()
) -> tuple[ResultRows, ResultRows, tuple[CheckChange, ...]]:
    """Leave out of two evaluations of records what was not judged by the same tasks.

    Their results store no contexts, so that nothing can be judged again.

    Raises:
        ConfigError: Nothing of an accepted id changed; names the ids of what did.
    """
    sides = (baseline, new)
    found = difference_of(*(Checks(rows.provenance or Provenance()) for rows in sides))
    found.check_accepted(accepted)
    left: set[str] = set()
    changes = [*found.whole]
    for group in found.groups:
        names = [name for name in group.dependents(group.changed) if name in group.old]
        changes += group.changes(dict.fromkeys([*names, *group.added], _NO_CONTEXTS))
        left |= {*names, *group.removed}
    if found.whole:
        records = (record for rows in sides for record in rows.records)
        left |= {task.task_id for record in records for task in record.tasks}
    if left:
        baseline, new = (
            edited(rows, lambda _, record: but_for(record.tasks, left)) for rows in sides
        )
    return baseline, new, merged(each.accepted_by(accepted) for each in changes)
