"""EvalRunner: the three levels of evaluating a replay."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.checks import Checks
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.judged import Question, evaluate_each
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.attempt import (
    Conversation,
    by_start,
    context_of,
    cut_short,
    not_judged,
)
from scouter.evaluate.results.provenance import (
    Provenance,
    collect_provenance,
    judge_name_of,
    wires_of,
)
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import Lost, ScenarioInfo
from scouter.evaluate.results.task_result import Window
from scouter.evaluate.scenario import EvalScenario, EvalScenarios, scenarios_digest
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.base import TaskBase
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.replay.collected import (
    AttemptKey,
    Collected,
    SpanIndex,
    contexts_of,
    plain_turns,
    records_of_traces,
)
from scouter.tracing.capture import CAPTURE, captured_spans

if TYPE_CHECKING:
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.judge.port import AnyJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Attempts, spans and records that are to be evaluated."""

    collected: Sequence[Collected]
    spans: SpanIndex
    questions: Mapping[AttemptKey, Question]
    """The attempts that are evaluated by their scenario's own tasks."""
    datasets: Mapping[str, EvalDataset]
    rows: Mapping[str, Sequence[tuple[EvalRecord, AttemptKey]]]
    """Per alias, the records of the dataset and whose they are."""
    began_ns: int


class EvalRunner:
    """Collects the records and spans of scenarios, and evaluates them on three levels.

    1. Each alias: all its records of all scenarios form one dataset. The profile of the alias
       evaluates it. A record sees the spans of its own trace and no others. Session-scoped tasks
       evaluate an alias' records of one attempt together. A profile of trace assertions alone also
       evaluates the traces that are marked with it and have no record.
    2. Each attempt of a scenario with tasks: one record `{response, expected_outcome, metadata,
       turns}`, evaluated by the scenario's tasks with the spans of that attempt. If the attempt
       raised, all its tasks are errored.
    3. The metrics over both.

    Args:
        scenarios: The scenarios whose data will be collected; `evaluate` puts its results there.
        profiles: Profile of each alias.
        spans: All spans to look at; by default those captured in this process.
    """

    def __init__(
        self,
        scenarios: EvalScenarios,
        profiles: Mapping[str, AgentEvalProfile],
        spans: Iterable[Span] | None = None,
    ) -> None:
        self.scenarios = scenarios
        self.profiles = dict(profiles)
        self._spans = None if spans is None else list(spans)
        self._known = frozenset(scenario.id for scenario in scenarios)
        self._collected: dict[AttemptKey, Collected] = {}
        self._started_ns = time.time_ns()
        self.lost: tuple[Lost, ...] = ()
        """Records and spans that are known to be in no result, as the results tell them."""

    def collect_scenario_data(
        self,
        records: Mapping[str, Sequence[EvalRecord]],
        response: object,
        scenario: EvalScenario,
        *,
        attempt: int = 0,
        turns: Iterable[Mapping[str, object]] = (),
        turn_times_ns: Iterable[tuple[int, int]] = (),
        error: str | None = None,
        error_reason: Reason = Reason.AGENT,
        error_frames: Iterable[str] = (),
        duration_ns: int = 0,
    ) -> None:
        """Take the data of one attempt at one scenario.

        Args:
            records: Records by alias, in the order in which they were made.
            response: Value that the scenario's tasks read as `response`; anything with a JSON form.
            scenario: One of the runner's scenarios.
            attempt: Number of the attempt, from 0.
            turns: The exchanges, `{"user": message, "agent": answer}` each.
            turn_times_ns: Times of the question and of the answer for each exchange, in ns since
                the epoch; none where they are not known.
            error: The fault that ended the attempt, if it did not end well.
            error_reason: Kind of the error. The tasks of an attempt that is `incomplete` are
                evaluated: what failed stands, and what passed is errored.
            error_frames: Frames of the fault, such as `shop.py:12 in answer`, innermost last.
            duration_ns: Duration of the conversation.

        Raises:
            ConfigError: An alias has no profile, the scenario is not one of the runner's, or the
                attempt's data was collected before.
            DataError: The response has no JSON form; names the place.
        """
        name = scenario.id
        if name not in self._known:
            raise ConfigError(f"Missing key: scenario {name!r} is not one of this run")
        if (name, attempt) in self._collected:
            which = f", attempt {attempt}," if attempt else ""
            raise ConfigError(
                f"Missing key: Scenario {name!r}{which} already has data — "
                "collect_scenario_data called twice"
            )
        self._check_aliases(records, name)
        try:
            value = to_json_value(response)
        except DataError as problem:
            raise DataError(f"scenario {name!r}, response: {problem}") from problem
        self._collected[name, attempt] = Collected(
            scenario=scenario,
            attempt=attempt,
            response=value,
            turns=plain_turns(turns),
            turn_times_ns=tuple(turn_times_ns),
            error=error,
            error_reason=None if error is None else error_reason,
            error_frames=tuple(error_frames),
            duration_ns=duration_ns,
            records={},
        ).with_more(records)

    def add_late_records(
        self, records: Mapping[str, Sequence[EvalRecord]], scenario_id: str, *, attempt: int = 0
    ) -> None:
        """Take records that an attempt made after its own data was collected.

        Args:
            records: Records by alias, in the order in which they were made.
            scenario_id: The scenario; `collect_scenario_data` was called for it.
            attempt: Number of the attempt, from 0.

        Raises:
            ConfigError: An alias has no profile, or the attempt has no data yet.
        """
        key = scenario_id, attempt
        if key not in self._collected:
            raise ConfigError(
                f"Scenario {scenario_id!r} has no data yet: call collect_scenario_data() first"
            )
        self._check_aliases(records, scenario_id)
        self._collected[key] = self._collected[key].with_more(records)

    def add_spans(self, spans: Iterable[Span]) -> None:
        """Look at these spans, too. From now on none are read from the process' capture."""
        if self._spans is None:
            self._spans = []
        self._spans += spans

    def _check_aliases(self, records: Iterable[str], scenario_id: str) -> None:
        for alias in records:
            if alias not in self.profiles:
                known = ", ".join(map(repr, self.profiles)) or "none"
                raise ConfigError(
                    f"Missing key: No profile found for alias {alias!r} in scenario "
                    f"{scenario_id!r}; there are profiles for {known}"
                )

    def evaluate(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
    ) -> ScenarioEvalResults:
        """Evaluate everything collected so far; can be called again, and inside an event loop.

        Args:
            config: Values to compute beside the tasks of the aliases: embeddings, similarities,
                histograms.
            judge: Answers the tasks that ask a model; by default the models that their prompts
                name (`ModelJudge()`).
            concurrency: Most questions to the judge at a time.

        Returns:
            The results; the runner's scenarios hold them from now on, too.

        Raises:
            ConfigError: A scenario with tasks has no data, or something that is no judge.

        Cost: linear in records, spans and tasks; a judge's own time divided by `concurrency`.
        """
        judge = self.judge_to_call(judge)
        if judge is not None:
            from scouter.evaluate.judge.loops import run_apart  # loads where judges are used

            return run_apart(
                lambda: self.evaluate_async(config, judge=judge, concurrency=concurrency)
            )
        work = self._work()
        datasets = {alias: data.evaluate(config) for alias, data in work.datasets.items()}
        judged = [evaluate_record(*question) for question in work.questions.values()]
        return self._results(work, datasets, judged, judge)

    async def evaluate_async(
        self,
        config: "EvaluationConfig | None" = None,
        *,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
    ) -> ScenarioEvalResults:
        """Do what `evaluate` does, asking the judge in the running event loop."""
        judge = self.judge_to_call(judge)
        work = self._work()
        datasets = {
            alias: await data.evaluate_async(config, judge=judge, concurrency=concurrency)
            for alias, data in work.datasets.items()
        }
        judged = await evaluate_each([*work.questions.values()], judge, concurrency)
        return self._results(work, datasets, judged, judge)

    def judge_to_call(self, judge: "AnyJudge | None") -> "AnyJudge | None":
        """The judge; without one, if a task asks, the models that prompts name."""
        plans = [profile.plan for profile in self.profiles.values()]
        plans += [scenario.plan for scenario in self.scenarios if scenario.has_tasks()]
        if judge is not None or not any(plan.asks for plan in plans):
            return judge
        from scouter.evaluate.judge.port import usual_judge  # loads where judges are used

        return usual_judge()

    def checks(self, judge: str, simulated_user: str | None = None) -> Checks:
        """Say by what the run will be judged, before anything is collected.

        Args:
            judge: Name of the judge in the results.
            simulated_user: Name of the simulated user there.
        """
        profiles = self.profiles.items()
        origin = Provenance(
            profile_digests={alias: profile.digest for alias, profile in profiles},
            profile_tasks={alias: wires_of(profile.tasks) for alias, profile in profiles},
            scenarios_digest=scenarios_digest(self.scenarios),
            judge=judge,
            simulated_user=simulated_user,
        )
        return Checks(origin, [*map(_info, self.scenarios)])

    def _work(self) -> _Work:
        """Lay out what there is to judge."""
        began_ns = time.time_ns()
        collected = self._in_order()
        spans = SpanIndex(self._all_spans())
        questions: dict[AttemptKey, Question] = {}
        for item in collected:
            if item.scenario.has_tasks() and item.is_judged:
                plan = item.scenario.plan
                tree = SpanTree(spans.of_attempt(item)) if plan.reads_spans else None
                questions[item.key] = plan, _record_of(item), tree
        rows: dict[str, list[tuple[EvalRecord, AttemptKey]]] = {}
        datasets: dict[str, EvalDataset] = {}
        for alias, profile in self.profiles.items():
            found = [
                (record, item.key)
                for item in collected
                for record in _records_for(profile, alias, item, spans)
            ]
            if found:
                seen = spans.of_records(found) if profile.plan.needs_spans else ()
                records = [record for record, _ in found]
                attempts = [key for _, key in found]
                datasets[alias] = EvalDataset(records, profile.tasks, seen, sessions=attempts)
                rows[alias] = found
        return _Work(
            collected=collected,
            spans=spans,
            questions=questions,
            datasets=datasets,
            rows=rows,
            began_ns=began_ns,
        )

    def _results(
        self,
        work: _Work,
        datasets: Mapping[str, EvalResults],
        judged: Sequence[RecordResult],
        judge: object,
    ) -> ScenarioEvalResults:
        """Put together what was judged."""
        repeats = max((item.attempt for item in work.collected), default=0) + 1
        dataset_results = {
            alias: _with_keys(found, [key for _, key in work.rows[alias]], repeats)
            for alias, found in datasets.items()
        }
        by_key = dict(zip(work.questions, judged, strict=True))
        window = work.began_ns, time.time_ns()
        scenario_results = [
            _attempt_result(item, by_key.get(item.key), work.spans, repeats, window)
            for item in work.collected
            if item.scenario.has_tasks() or item.error is not None
        ]
        conversations = [
            Conversation(scenario_id=item.scenario.id).model_copy(update=_said(item, work.spans))
            for item in work.collected
            if not item.scenario.has_tasks() and item.error is None
        ]
        run = {item.scenario.id for item in work.collected}
        results = ScenarioEvalResults(
            dataset_results=dataset_results,
            scenario_results=tuple(scenario_results),
            metrics=EvalMetrics.of(dataset_results, scenario_results),
            scenarios=tuple(_info(each) for each in self.scenarios if each.id in run),
            conversations=tuple(conversations),
            repeats=repeats,
            lost=self.lost,
            required_tasks={
                alias: required
                for alias, profile in self.profiles.items()
                if (required := _required(profile.tasks))
            },
            contexts=contexts_of(record for found in work.rows.values() for record, _ in found),
            provenance=collect_provenance(
                started_ns=self._started_ns,
                ended_ns=time.time_ns(),
                profile_digests={alias: item.digest for alias, item in self.profiles.items()},
                profile_tasks={alias: item.tasks for alias, item in self.profiles.items()},
                judge=judge_name_of(judge),
                collection_id=self.scenarios.collection_id,
                scenarios_digest=scenarios_digest(self.scenarios),
            ),
        )
        self.scenarios.keep_results(results)
        return results

    def _in_order(self) -> list[Collected]:
        """All that was collected, by scenario and then by attempt."""
        attempts: dict[str, list[Collected]] = {}
        for item in self._collected.values():
            attempts.setdefault(item.scenario.id, []).append(item)
        for scenario in self.scenarios:
            if scenario.has_tasks() and scenario.id not in attempts:
                raise ConfigError(
                    f"Scenario {scenario.id!r} has tasks but no context — call "
                    "collect_scenario_data() first"
                )
        return [
            item
            for scenario in self.scenarios
            for item in sorted(attempts.get(scenario.id, ()), key=lambda item: item.attempt)
        ]

    def _all_spans(self) -> Sequence[Span]:
        if self._spans is not None:
            return self._spans
        if CAPTURE.overflow:
            warnings.warn(overflow_note(CAPTURE.overflow), stacklevel=4)
        return captured_spans()


def _records_for(
    profile: AgentEvalProfile, alias: str, item: Collected, spans: SpanIndex
) -> list[EvalRecord]:
    """The records that an attempt made for an alias, and those of traces that have none."""
    made = item.records_of(alias)
    if not profile.takes_marks:
        return list(made)
    return [*made, *records_of_traces(profile, spans.of_attempt(item), made)]


def _info(scenario: EvalScenario) -> ScenarioInfo:
    return ScenarioInfo(
        scenario_id=scenario.id,
        initial_query=scenario.initial_query,
        tags=tuple(scenario.tags),
        required=scenario.required,
        required_tasks=_required(scenario.tasks),
        content=scenario.content,
        tasks=wires_of(scenario.tasks),
    )


def _required(tasks: Iterable[TaskBase]) -> tuple[str, ...]:
    """Ids of the tasks that have to pass."""
    return tuple(task.id for task in tasks if task.required)


def overflow_note(count: int) -> str:
    """Say that spans were lost."""
    return (
        f"{count} spans did not fit into the capture buffer; tasks that read spans may be wrong. "
        "Run fewer scenarios at once"
    )


def _record_of(item: Collected) -> EvalRecord:
    """Make the record that a scenario's own tasks read."""
    name = item.scenario.id
    context = context_of(item.response, item.scenario.content, item.turns, item.turn_times_ns)
    return EvalRecord(context=context, id=name, session_id=name)


def _with_keys(found: EvalResults, keys: Sequence[AttemptKey], repeats: int) -> EvalResults:
    """Say of each record whose it is; an attempt is a session, so those are its distinct keys."""
    if found.sessions:
        keys = [*keys, *dict.fromkeys(keys)]
    attempts = [attempt for _, attempt in keys] if repeats > 1 else None
    names = [name for name, _ in keys]
    return EvalResults(
        found.records, names, attempts, annotations=found.annotations, window=found.window
    )


def _attempt_result(
    item: Collected, judged: RecordResult | None, spans: SpanIndex, repeats: int, window: Window
) -> ScenarioResult:
    scenario = item.scenario
    if item.error is not None and scenario.has_tasks():
        judged = _not_judged(item, item.error) if judged is None else _cut(judged, item.error)
    results = None
    if judged is not None:
        results = _with_keys(EvalResults([judged], window=window), [item.key], repeats)
    return ScenarioResult.of(
        scenario.id,
        scenario.initial_query,
        () if judged is None else judged.tasks,
        results,
        item.error,
        item.error_reason,
    ).model_copy(update={**_said(item, spans), "error_frames": item.error_frames})


def _said(item: Collected, spans: SpanIndex) -> dict[str, object]:
    """Give the conversation and the spans of an attempt, as fields of a result."""
    return {
        "attempt": item.attempt,
        "duration_ns": item.duration_ns,
        "response": item.response,
        "turns": item.turns,
        "turn_times_ns": item.turn_times_ns,
        "traces": by_start(spans.of_attempt(item)),
    }


def _not_judged(item: Collected, error: str) -> RecordResult:
    """Errored results of all tasks: there is no response to judge."""
    plan, record, reason = item.scenario.plan, _record_of(item), item.error_reason
    tasks = tuple(
        not_judged(spec, task.expected_value, reason, error)
        for spec, task in zip(plan.specs, plan.tasks, strict=True)
    )
    return RecordResult(
        record.uid, record.record_id, record.session_id, None, Outcome.ERRORED, tasks,
        record.created_ns, 0,
    )  # fmt: skip


def _cut(judged: RecordResult, error: str) -> RecordResult:
    """The results of a conversation whose end was not seen: what passed so far is not decided."""
    tasks = tuple(cut_short(task, error) for task in judged.tasks)
    return replace(judged, outcome=record_outcome(tasks), tasks=tasks)
