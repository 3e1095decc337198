"""EvalRunner: the three levels of judging a replay."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.provenance import collect_provenance
from scouter.evaluate.results import EvalResults, RecordResult
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.scenario_results import (
    Exchange,
    ScenarioEvalResults,
    ScenarioInfo,
    ScenarioResult,
    by_start,
    scenario_result,
    sum_up,
)
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.task_result import EvalTaskResult
from scouter.model.attributes import SCENARIO_ATTEMPT, SCENARIO_ID
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.tracing.capture import CAPTURE, captured_spans

_Key: TypeAlias = tuple[str, int]
"""Scenario id and attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collected:
    """What one attempt of one scenario left behind."""

    scenario: EvalScenario
    attempt: int
    response: JsonValue
    turns: tuple[Exchange, ...]
    error: str | None
    duration_ns: int
    records: Mapping[str, Sequence[EvalRecord]]

    def with_more(self, more: Mapping[str, Sequence[EvalRecord]]) -> "_Collected":
        """The same with further records behind those of each alias."""
        aliases = dict.fromkeys([*self.records, *more])
        records = {alias: (*self.records.get(alias, ()), *more.get(alias, ())) for alias in aliases}
        return replace(self, records={alias: items for alias, items in records.items() if items})

    @property
    def key(self) -> _Key:
        """What tells it apart from all others of the run."""
        return self.scenario.id, self.attempt


class EvalRunner:
    """Collects what scenarios produced, and judges it on three levels.

    1. Each alias: all its records of all scenarios form one dataset, judged by the alias' profile;
       a record sees the spans of its own trace and no others.
    2. Each attempt of a scenario with tasks: one record `{response, expected_outcome, metadata}`,
       judged by the scenario's tasks with the spans of that attempt. If the attempt raised, all
       its tasks are errored.
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
        self._collected: dict[_Key, _Collected] = {}
        self._started_ns = time.time_ns()

    def collect_scenario_data(
        self,
        records: Mapping[str, Sequence[EvalRecord]],
        response: object,
        scenario: EvalScenario,
        *,
        attempt: int = 0,
        turns: Iterable[Mapping[str, object]] = (),
        error: str | None = None,
        duration_ns: int = 0,
    ) -> None:
        """Take what one attempt of one scenario produced.

        Args:
            records: Records by alias, in the order in which they were made.
            response: What the scenario's tasks read as `response`; anything with a JSON form.
            scenario: One of the runner's scenarios.
            attempt: Which repeat, from 0.
            turns: The exchanges, `{"user": message, "agent": answer}` each.
            error: What ended the attempt, if it did not end well.
            duration_ns: How long the conversation took.

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
        self._collected[name, attempt] = _Collected(
            scenario=scenario,
            attempt=attempt,
            response=value,
            turns=plain_turns(turns),
            error=error,
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
            attempt: Which repeat, from 0.

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

    def evaluate(self, config: None = None) -> ScenarioEvalResults:
        """Judge everything collected so far; can be called again.

        Args:
            config: Nothing can be configured so far.

        Returns:
            The results; the runner's scenarios hold them from now on, too.

        Raises:
            ConfigError: A scenario with tasks has no data.

        Cost: linear in records, spans and tasks.
        """
        collected = self._in_order()
        repeats = max((item.attempt for item in collected), default=0) + 1
        spans = _Spans(self._all_spans())
        dataset_results = self._judge_aliases(collected, spans, repeats)
        scenario_results = [
            _judge_attempt(item, spans, repeats)
            for item in collected
            if item.scenario.has_tasks() or item.error is not None
        ]
        run = dict.fromkeys(item.scenario.id for item in collected)
        results = ScenarioEvalResults(
            dataset_results=dataset_results,
            scenario_results=tuple(scenario_results),
            metrics=sum_up(dataset_results, scenario_results),
            scenarios=tuple(
                ScenarioInfo(scenario_id=scenario.id, initial_query=scenario.initial_query)
                for scenario in self.scenarios
                if scenario.id in run
            ),
            repeats=repeats,
            provenance=collect_provenance(
                started_ns=self._started_ns,
                ended_ns=time.time_ns(),
                profile_digests={alias: item.digest for alias, item in self.profiles.items()},
                collection_id=self.scenarios.collection_id,
            ),
        )
        self.scenarios.keep_results(results)
        return results

    def _in_order(self) -> list[_Collected]:
        """All that was collected, by scenario and then by attempt."""
        attempts: dict[str, list[_Collected]] = {}
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
        if CAPTURE.overflow:
            warnings.warn(
                f"{CAPTURE.overflow} spans did not fit into the capture buffer; tasks that read "
                "spans may be wrong. Run fewer scenarios at once",
                stacklevel=3,
            )
        return captured_spans() if self._spans is None else self._spans

    def _judge_aliases(
        self, collected: Sequence[_Collected], spans: "_Spans", repeats: int
    ) -> dict[str, EvalResults]:
        results: dict[str, EvalResults] = {}
        for alias, profile in self.profiles.items():
            rows = [
                (record, item.key) for item in collected for record in item.records.get(alias, ())
            ]
            if rows:
                records = [record for record, _ in rows]
                seen = spans.of_records(rows) if profile.plan.reads_spans else ()
                judged = EvalDataset(records, profile.tasks, seen).evaluate()
                attempts = [attempt for _, (_, attempt) in rows] if repeats > 1 else None
                results[alias] = EvalResults(
                    judged.records, [name for _, (name, _) in rows], attempts
                )
        return results


class _Spans:
    """An index of all spans of a run."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._by_trace: dict[str, list[Span]] = {}
        self._by_attempt: dict[_Key, list[Span]] = {}
        for span in spans:
            self._by_trace.setdefault(span.trace_id, []).append(span)
            owner = _owner(span)
            if owner is not None:
                self._by_attempt.setdefault(owner, []).append(span)

    def of_records(self, rows: Iterable[tuple[EvalRecord, _Key]]) -> list[Span]:
        """The spans of the records' traces, without those of attempts that have no record there.

        Args:
            rows: Each record with its scenario's id and attempt.
        """
        owners: dict[str, set[_Key]] = {}
        for record, key in rows:
            if record.trace_id:
                owners.setdefault(record.trace_id, set()).add(key)
        return [
            span
            for trace, keys in owners.items()
            for span in self._by_trace.get(trace, ())
            if (owner := _owner(span)) is None or owner in keys
        ]

    def of_attempt(self, item: _Collected) -> list[Span]:
        """The spans made in an attempt, and those of its records' traces that are no other's."""
        rows = [(record, item.key) for records in item.records.values() for record in records]
        spans = [*self._by_attempt.get(item.key, ()), *self.of_records(rows)]
        return list({(span.trace_id, span.span_id): span for span in spans}.values())


def _owner(span: Span) -> _Key | None:
    scenario, attempt = span.attributes.get(SCENARIO_ID), span.attributes.get(SCENARIO_ATTEMPT)
    if not isinstance(scenario, str):
        return None
    return scenario, attempt if isinstance(attempt, int) else 0


def plain_turns(turns: Iterable[Mapping[str, object]]) -> tuple[Exchange, ...]:
    """Exchanges as plain JSON; an answer that only `build_scenario_response` can read is named."""
    return tuple(_exchange(turn) for turn in turns)


def _exchange(turn: Mapping[str, object]) -> Exchange:
    answer = turn.get("agent")
    try:
        value = to_json_value(answer)
    except DataError:
        value = f"<a {type(answer).__name__} without JSON form>"
    return {"user": str(turn.get("user", "")), "agent": value}


def _judge_attempt(item: _Collected, spans: _Spans, repeats: int) -> ScenarioResult:
    scenario = item.scenario
    record = EvalRecord(
        context={
            "response": item.response,
            "expected_outcome": scenario.expected_outcome,
            "metadata": scenario.metadata,
        },
        id=scenario.id,
        session_id=scenario.id,
    )
    seen = spans.of_attempt(item)
    judged: RecordResult | None = None
    if item.error is not None and scenario.has_tasks():
        judged = _not_judged(scenario, record, item.error)
    elif scenario.has_tasks():
        tree = SpanTree(seen) if scenario.plan.reads_spans else None
        judged = evaluate_record(scenario.plan, record, tree)
    results = None
    if judged is not None:
        attempts = [item.attempt] if repeats > 1 else None
        results = EvalResults([judged], [scenario.id], attempts)
    return scenario_result(
        scenario.id,
        scenario.initial_query,
        judged.tasks if judged is not None else (),
        results,
        item.error,
    ).model_copy(
        update={
            "attempt": item.attempt,
            "duration_ns": item.duration_ns,
            "response": item.response,
            "turns": item.turns,
            "traces": by_start(seen),
        }
    )


def _not_judged(scenario: EvalScenario, record: EvalRecord, error: str) -> RecordResult:
    """Errored results of all tasks: there is no response to judge."""
    tasks = tuple(
        EvalTaskResult(
            spec, Outcome.ERRORED, Reason.AGENT, task.expected_value, None, f"not judged: {error}"
        )
        for spec, task in zip(scenario.plan.specs, scenario.plan.tasks, strict=True)
    )
    return RecordResult(
        record.uid, record.record_id, record.session_id, None, Outcome.ERRORED, tasks,
        record.created_ns, 0,
    )  # fmt: skip
