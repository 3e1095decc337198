"""EvalRunner: the three levels of judging a replay."""

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.provenance import collect_provenance
from scouter.evaluate.results import EvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.scenario_results import (
    ScenarioEvalResults,
    ScenarioInfo,
    ScenarioResult,
    scenario_result,
    sum_up,
)
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import SCENARIO_ID
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.tracing.capture import CAPTURE, captured_spans


@dataclass(frozen=True, slots=True, kw_only=True)
class _Collected:
    """What one scenario left behind."""

    scenario: EvalScenario
    response: JsonValue
    records: Mapping[str, Sequence[EvalRecord]]

    def with_more(self, more: Mapping[str, Sequence[EvalRecord]]) -> "_Collected":
        """The same with further records behind those of each alias."""
        aliases = dict.fromkeys([*self.records, *more])
        records = {alias: (*self.records.get(alias, ()), *more.get(alias, ())) for alias in aliases}
        return replace(self, records={alias: items for alias, items in records.items() if items})


class EvalRunner:
    """Collects what scenarios produced, and judges it on three levels.

    1. Each alias: all its records of all scenarios form one dataset, judged by the alias' profile;
       a record sees the spans of its own trace and no others.
    2. Each scenario with tasks: one record `{response, expected_outcome, metadata}`, judged by
       the scenario's tasks with the spans of that scenario.
    3. The metrics over both.

    Args:
        scenarios: The scenarios whose data will be collected.
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
        self._spans = None if spans is None else tuple(spans)
        self._known = frozenset(scenario.id for scenario in scenarios)
        self._collected: dict[str, _Collected] = {}
        self._started_ns = time.time_ns()

    def collect_scenario_data(
        self,
        records: Mapping[str, Sequence[EvalRecord]],
        response: object,
        scenario: EvalScenario,
    ) -> None:
        """Take what one scenario produced.

        Args:
            records: Records by alias, in the order in which they were made.
            response: What the scenario's tasks read as `response`; anything with a JSON form.
            scenario: One of the runner's scenarios.

        Raises:
            ConfigError: An alias has no profile, the scenario is not one of the runner's, or its
                data was collected before.
            DataError: The response has no JSON form; names the place.
        """
        name = scenario.id
        if name not in self._known:
            raise ConfigError(f"Missing key: scenario {name!r} is not one of this run")
        if name in self._collected:
            raise ConfigError(
                f"Scenario {name!r} already has data: collect_scenario_data was called twice"
            )
        self._check_aliases(records, name)
        try:
            value = to_json_value(response)
        except DataError as error:
            raise DataError(f"scenario {name!r}, response: {error}") from error
        self._collected[name] = _Collected(
            scenario=scenario,
            response=value,
            records={},
        ).with_more(records)

    def has_data_of(self, scenario_id: str) -> bool:
        """Tell whether `collect_scenario_data` was called for a scenario."""
        return scenario_id in self._collected

    def add_late_records(
        self, records: Mapping[str, Sequence[EvalRecord]], scenario_id: str
    ) -> None:
        """Take records that a scenario made after its own data was collected.

        Args:
            records: Records by alias, in the order in which they were made.
            scenario_id: The scenario; `collect_scenario_data` was called for it.

        Raises:
            ConfigError: An alias has no profile, or the scenario has no data yet.
        """
        if scenario_id not in self._collected:
            raise ConfigError(
                f"Scenario {scenario_id!r} has no data yet: call collect_scenario_data() first"
            )
        self._check_aliases(records, scenario_id)
        self._collected[scenario_id] = self._collected[scenario_id].with_more(records)

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

        Raises:
            ConfigError: A scenario with tasks has no data.

        Cost: linear in records, spans and tasks.
        """
        for scenario in self.scenarios:
            if scenario.has_tasks() and scenario.id not in self._collected:
                raise ConfigError(
                    f"Scenario {scenario.id!r} has tasks but no context: call "
                    "collect_scenario_data() first"
                )
        collected = [
            self._collected[scenario.id]
            for scenario in self.scenarios
            if scenario.id in self._collected
        ]
        spans = _Spans(self._all_spans())
        dataset_results = self._judge_aliases(collected, spans)
        scenario_results = [
            _judge_scenario(item, spans) for item in collected if item.scenario.has_tasks()
        ]
        return ScenarioEvalResults(
            dataset_results=dataset_results,
            scenario_results=tuple(scenario_results),
            metrics=sum_up(dataset_results, scenario_results),
            scenarios=tuple(
                ScenarioInfo(
                    scenario_id=item.scenario.id, initial_query=item.scenario.initial_query
                )
                for item in collected
            ),
            provenance=collect_provenance(
                started_ns=self._started_ns,
                ended_ns=time.time_ns(),
                profile_digests={alias: item.digest for alias, item in self.profiles.items()},
                collection_id=self.scenarios.collection_id,
            ),
        )

    def _all_spans(self) -> Sequence[Span]:
        if self._spans is not None:
            return self._spans
        if CAPTURE.overflow:
            warnings.warn(
                f"{CAPTURE.overflow} spans did not fit into the capture buffer; tasks that read "
                "spans may be wrong. Run fewer scenarios at once",
                stacklevel=3,
            )
        return captured_spans()

    def _judge_aliases(
        self, collected: Sequence[_Collected], spans: "_Spans"
    ) -> dict[str, EvalResults]:
        results: dict[str, EvalResults] = {}
        for alias, profile in self.profiles.items():
            rows = [
                (record, item.scenario.id)
                for item in collected
                for record in item.records.get(alias, ())
            ]
            if rows:
                records = [record for record, _ in rows]
                seen = spans.of_records(rows) if profile.plan.reads_spans else ()
                judged = EvalDataset(records, profile.tasks, seen).evaluate()
                results[alias] = EvalResults(judged.records, [name for _, name in rows])
        return results


class _Spans:
    """An index of all spans of a run."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._by_trace: dict[str, list[Span]] = {}
        self._by_scenario: dict[str, list[Span]] = {}
        for span in spans:
            self._by_trace.setdefault(span.trace_id, []).append(span)
            scenario = span.attributes.get(SCENARIO_ID)
            if isinstance(scenario, str):
                self._by_scenario.setdefault(scenario, []).append(span)

    def of_records(self, rows: Iterable[tuple[EvalRecord, str]]) -> list[Span]:
        """The spans of the records' traces, without those of scenarios that have no record there.

        Args:
            rows: Each record with its scenario's id.
        """
        owners: dict[str, set[str]] = {}
        for record, scenario in rows:
            if record.trace_id:
                owners.setdefault(record.trace_id, set()).add(scenario)
        return [
            span
            for trace, names in owners.items()
            for span in self._by_trace.get(trace, ())
            if span.attributes.get(SCENARIO_ID) in {None, *names}
        ]

    def of_scenario(self, item: _Collected) -> list[Span]:
        """The spans made in a scenario, and those of its records' traces that are no other's."""
        name = item.scenario.id
        rows = [(record, name) for records in item.records.values() for record in records]
        spans = [*self._by_scenario.get(name, ()), *self.of_records(rows)]
        return list({(span.trace_id, span.span_id): span for span in spans}.values())


def _judge_scenario(item: _Collected, spans: _Spans) -> ScenarioResult:
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
    tree = SpanTree(spans.of_scenario(item)) if scenario.plan.reads_spans else None
    judged = evaluate_record(scenario.plan, record, tree)
    results = EvalResults([judged], [scenario.id])
    return scenario_result(scenario.id, scenario.initial_query, judged.tasks, results)
