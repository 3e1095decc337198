"""The yield of a run's attempts: responses, records, and the owners of spans."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import is_wanted
from scouter.errors import DataError
from scouter.evaluate.engine.execute import plain_context
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.attempt import Exchange
from scouter.evaluate.results.run import CONTEXT_CHARACTERS
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import ENTITY_PREFIX, SCENARIO_ATTEMPT, SCENARIO_ID
from scouter.model.json_value import to_json_value
from scouter.model.record import EvalRecord
from scouter.model.span import Span


def records_of_traces(
    profile: AgentEvalProfile, spans: Iterable[Span], records: Sequence[EvalRecord]
) -> list[EvalRecord]:
    """Make a record for each trace that a profile is to judge and that has none, as a collector.

    A profile is to judge a trace if one of its spans is marked with the profile, by
    `active_profile`, `set_entity` or `ScouterInstrumentor().instrument(eval_profiles=)`, and the
    profile takes marks (`AgentEvalProfile.takes_marks`). It is to judge a trace as well of which a
    span matches its `watch`. See `is_wanted` for traces without an agent. The shares of a watch are
    for traffic: here each trace counts.

    Args:
        profile: The profile.
        spans: The spans of one attempt.
        records: The records that the attempt made for the profile.

    Returns:
        Records that are derived from their traces, by the start of these.

    Cost: linear in the spans.
    """
    if not profile.takes_marks:
        return []
    has_record = {record.trace_id for record in records}
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.trace_id not in has_record:
            by_trace[span.trace_id].append(span)
    is_selected = trace_test(profile)
    found = [
        derive_record(tree, profile=profile.alias)
        for tree in map(SpanTree, by_trace.values())
        if is_selected(tree)
    ]
    return sorted(found, key=lambda record: (record.created_ns, record.trace_id or ""))


def trace_test(profile: AgentEvalProfile) -> Callable[[SpanTree], bool]:
    """Make a function that tells whether a profile is to judge a trace; see `records_of_traces`."""
    mark = ENTITY_PREFIX + profile.uid
    matches = profile.watch and profile.watch.match.test

    def is_selected(span: Span) -> bool:
        is_marked = span.attributes.get(mark) == profile.uid
        return is_marked or (matches is not None and matches(span))

    return lambda tree: any(map(is_selected, tree.spans)) and is_wanted(profile.watch, tree)


AttemptKey: TypeAlias = tuple[str, int]
"""Scenario id and attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Response, conversation and records of one attempt of one scenario."""

    scenario: EvalScenario
    attempt: int
    response: JsonValue
    turns: tuple[Exchange, ...]
    turn_times_ns: tuple[tuple[int, int], ...] = ()
    error: str | None
    error_reason: Reason | None = None
    error_frames: tuple[str, ...] = ()
    duration_ns: int
    records: Mapping[str, Sequence[EvalRecord]]

    def with_more(self, more: Mapping[str, Sequence[EvalRecord]]) -> "Collected":
        """Make a copy with further records behind those of each alias."""
        aliases = dict.fromkeys([*self.records, *more])
        records = {alias: (*self.records.get(alias, ()), *more.get(alias, ())) for alias in aliases}
        return replace(self, records={alias: items for alias, items in records.items() if items})

    def records_of(self, alias: str) -> Sequence[EvalRecord]:
        """The records that went to an alias, in the order in which they were made."""
        return self.records.get(alias, ())

    @property
    def is_judged(self) -> bool:
        """True if its tasks have a response to read: it ended well, or its conversation was cut."""
        return self.error is None or self.error_reason is Reason.INCOMPLETE

    @property
    def key(self) -> AttemptKey:
        """Scenario id and number of the attempt, unique in the run."""
        return self.scenario.id, self.attempt


class SpanIndex:
    """An index of all spans of a run."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._by_trace: dict[str, list[Span]] = {}
        self._by_attempt: dict[AttemptKey, list[Span]] = {}
        for span in spans:
            self._by_trace.setdefault(span.trace_id, []).append(span)
            owner = _owner(span)
            if owner is not None:
                self._by_attempt.setdefault(owner, []).append(span)

    def of_records(self, rows: Iterable[tuple[EvalRecord, AttemptKey]]) -> list[Span]:
        """The spans of the records' traces, without those of attempts that have no record there.

        Args:
            rows: Each record with its scenario's id and attempt.
        """
        owners: dict[str, set[AttemptKey]] = {}
        for record, key in rows:
            if record.trace_id:
                owners.setdefault(record.trace_id, set()).add(key)
        return [
            span
            for trace, keys in owners.items()
            for span in self._by_trace.get(trace, ())
            if (owner := _owner(span)) is None or owner in keys
        ]

    def of_attempt(self, item: Collected) -> list[Span]:
        """The spans made in an attempt, and those of its records' traces that are no other's."""
        rows = [(record, item.key) for records in item.records.values() for record in records]
        spans = [*self._by_attempt.get(item.key, ()), *self.of_records(rows)]
        return list({(span.trace_id, span.span_id): span for span in spans}.values())


def _owner(span: Span) -> AttemptKey | None:
    scenario, attempt = span.attributes.get(SCENARIO_ID), span.attributes.get(SCENARIO_ATTEMPT)
    if not isinstance(scenario, str):
        return None
    return scenario, attempt if isinstance(attempt, int) else 0


def contexts_of(records: Iterable[EvalRecord]) -> dict[str, JsonValue]:
    """The contexts as reports show them, by uid; one without JSON form is left out.

    Its tasks are errored, and say so.
    """
    found: dict[str, JsonValue] = {}
    for record in records:
        try:
            context = plain_context(record)
        except DataError:
            continue
        text = json.dumps(context, ensure_ascii=False)
        is_short = len(text) <= CONTEXT_CHARACTERS
        found[record.uid] = context if is_short else shorten(text, CONTEXT_CHARACTERS)
    return found


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
