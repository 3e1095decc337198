"""Results behind the rate of a task: their distributions, and groups of those that did not pass."""

import re
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final, NamedTuple

from fastapi import Query

from collector.api.parameters import NOT_FOUND, Reader, Text, Time, answer_of, api_router, read_time
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.store.evaluation_queries import EvaluationQuery, TaskValue, TaskValuesQuery
from collector.store.rates import TaskQuery
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.store import Store
from collector.store.traces import Step
from scouter.client.models.evaluations import (
    Bin,
    Distribution,
    Distributions,
    FailureExample,
    FailureGroup,
    Failures,
)
from scouter.evaluate.outcome import Outcome

_Name = Annotated[str, Query(min_length=1, max_length=512)]
_LIMIT: Final = 2_000
_BINS: Final = 10
_STEPS: Final = (
    (1, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2, 2.2, 2.4, 2.7, 3, 3.3, 3.6, 4, 4.5, 5, 5.5, 6, 7, 8, 9),
    (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8),
    (1, 2, 5),
)
"""Ends of bins in a power of ten, from fine to coarse."""
_MOST_BINS: Final = 20
_MS: Final = 1e6


def distributions_of(values: Sequence[TaskValue], split_ns: int | None) -> list[Distribution]:
    """Count the values of each measure in bins.

    Args:
        values: Results.
        split_ns: Time that parts those before from those since; None for one part.

    Returns:
        Scores in ten bins of the same width: from 0 to 1 where all are, else over their range.
        Durations in bins whose ends are round in each power of ten; the finest of three grids that
        has twenty bins at most, or the coarsest.
    """
    pairs = {
        "score": [(each.at_ns, each.score) for each in values if each.score is not None],
        "duration_ms": [
            (each.at_ns, each.duration_ns / _MS) for each in values if each.duration_ns is not None
        ],
    }
    found: list[Distribution] = []
    for measure, timed in pairs.items():
        if not timed:
            continue
        before = [value for at_ns, value in timed if split_ns is not None and at_ns < split_ns]
        since = [value for at_ns, value in timed if split_ns is None or at_ns >= split_ns]
        every = [*before, *since]
        edges = _even(every) if measure == "score" else _decades(every)
        counts = zip(
            edges, edges[1:], _counted(before, edges), _counted(since, edges), strict=False
        )
        found.append(
            Distribution(
                measure=measure,
                bins=tuple(Bin(low=a, high=b, before=m, since=n) for a, b, m, n in counts),
                before=len(before),
                since=len(since),
                median_before=statistics.median(before) if before else None,
                median_since=statistics.median(since) if since else None,
            )
        )
    return found


def _even(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    if low >= 0 and high <= 1:
        low, high = 0.0, 1.0
    if low == high:
        high = low + 1
    return [low + (high - low) * number / _BINS for number in range(_BINS)] + [high]


def _decades(values: Sequence[float]) -> list[float]:
    """From the last step at or below the least to the first one above the largest."""
    low = max(min(values), 0.001)
    high = max(low, *values)
    found: list[float] = []
    for grid in _STEPS:
        steps = [float(f"{step}e{power}") for power in range(-4, 13) for step in grid]
        found = steps[bisect_right(steps, low) - 1 : bisect_right(steps, high) + 1]
        if len(found) <= _MOST_BINS + 1:
            break
    return found


def _counted(values: Sequence[float], edges: Sequence[float]) -> list[int]:
    counts = [0] * (len(edges) - 1)
    for value in values:
        counts[min(max(0, bisect_right(edges, value) - 1), len(counts) - 1)] += 1
    return counts


_FAILURE_LIMIT: Final = 200
_EXAMPLES: Final = 3
_MOST_TOOLS: Final = 12
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?")
_BAD: Final = (Outcome.FAILED, Outcome.ERRORED)


class Way(NamedTuple):
    """The way of a trace to its failure, as far as its tools tell it."""

    tools: tuple[str, ...]
    is_failed: bool
    error_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of time: some of its results that did not pass, and the counts of all."""

    bad: Sequence[tuple[EvaluationRow, TaskRow]]
    """The newest first."""
    failures: int
    results: int

    def share(self, count: int) -> float | None:
        """Share of all results that `count` of `bad` stand for."""
        if not self.results or not self.bad:
            return 0.0 if self.results else None
        return count / len(self.bad) * self.failures / self.results


router = api_router()


@router.get("/tasks/failures", responses=NOT_FOUND)
def failures(
    parts: TheParts,
    caller: Reader,
    profile: _Name,
    task_id: _Name,
    service_version: Text = None,
    environment: Text = None,
    since: Time = None,
    until: Time = None,
    split: Time = None,
) -> Failures:
    """Groups of results that failed or errored: one message, one way of tools, one error.

    Messages that differ in quoted texts and numbers only are one. Times are those of
    evaluation.
    """
    query = EvaluationQuery(
        space=caller.space,
        profile=profile,
        task_id=task_id.lower(),
        service_version=service_version,
        environment=environment,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
        limit=_FAILURE_LIMIT,
    )
    split_ns = read_time("split", split)
    if split_ns is None:
        before, later = None, _part(parts.store, query)
    else:  # a split outside of the requested time leaves one side empty
        since_ns, until_ns = query.since_ns or 0, query.until_ns
        end_ns = split_ns if until_ns is None else min(split_ns, until_ns)
        before = _part(parts.store, replace(query, until_ns=end_ns))
        later = _part(parts.store, replace(query, since_ns=max(split_ns, since_ns)))
    both = [part for part in (later, before) if part is not None]
    if not any(part.results for part in both):
        parts.names.check(caller.space, profile, task_id)
    traces = {row.trace_id for part in both for row, _ in part.bad if row.trace_id}
    ways = {
        trace_id: way_of(steps)
        for trace_id, steps in parts.store.trace_steps(caller.space, traces).items()
    }
    return Failures(
        items=tuple(groups_of(later, before, ways)),
        looked_at=sum(len(part.bad) for part in both),
        is_partial=any(part.failures > len(part.bad) for part in both),
    )


@router.get("/tasks/distributions", responses=NOT_FOUND)
def distributions(
    parts: TheParts,
    caller: Reader,
    profile: _Name,
    task_id: _Name,
    service_version: Text = None,
    environment: Text = None,
    since: Time = None,
    until: Time = None,
    split: Time = None,
) -> Distributions:
    """Scores of a task and durations of its traces, before and since a time.

    Of the newest 2,000 results in the requested time.
    """
    found = parts.store.task_values(
        TaskValuesQuery(
            space=caller.space,
            profile=profile,
            task_id=task_id.lower(),
            service_version=service_version,
            environment=environment,
            since_ns=read_time("since", since),
            until_ns=read_time("until", until),
            limit=_LIMIT + 1,
        )
    )
    if not found:
        parts.names.check(caller.space, profile, task_id)
    values = found[:_LIMIT]
    return Distributions(
        items=tuple(distributions_of(values, read_time("split", split))),
        looked_at=len(values),
        is_partial=len(found) > len(values),
    )


def _part(store: Store, query: EvaluationQuery) -> Part:
    counts = store.task_counts(
        TaskQuery(
            space=query.space,
            profile=query.profile,
            service_version=query.service_version,
            environment=query.environment,
            since_ns=query.since_ns,
            until_ns=query.until_ns,
        )
    )
    own = [each for each in counts if each.task_id == query.task_id]
    failures = sum(each.failed + each.errored for each in own)
    bad = [
        (row, task)
        for outcome in _BAD
        if any(getattr(each, outcome.value) for each in own)
        for row in store.evaluations(replace(query, task_outcome=outcome)).items
        for task in row.tasks
        if task.task_id == query.task_id
    ]
    return Part(
        bad=sorted(bad, key=lambda pair: -pair[0].evaluated_ns),
        failures=failures,
        results=failures + sum(each.passed + each.gated for each in own),
    )


def way_of(steps: Iterable[Step]) -> Way:
    """The tools of a trace up to the first call that failed, and the type of its first error.

    Of errors inside each other the first one to end is the cause.
    """
    tools: list[str] = []
    is_failed = False
    errors: list[tuple[int, str]] = []
    for step in steps:
        if step.is_error and step.error_type:
            errors.append((step.end_ns, step.error_type))
        if step.tool and not is_failed:
            if tools[-1:] != [step.tool]:
                tools.append(step.tool)
            is_failed = step.is_error
    cut = ["…", *tools[-_MOST_TOOLS:]] if len(tools) > _MOST_TOOLS else tools
    return Way(tuple(cut), is_failed, min(errors)[1] if errors else "")


def groups_of(since: Part, before: Part | None, ways: Mapping[str, Way]) -> list[FailureGroup]:
    """Put results into groups, the one with the most results since first.

    Args:
        since: All results; with `before`, the later ones.
        before: The earlier ones; None where nothing parts them.
        ways: By trace; a trace without tools and errors has none.
    """
    found: defaultdict[_Key, tuple[list[_Bad], list[_Bad]]] = defaultdict(lambda: ([], []))
    for place, part in enumerate((since, before)):
        for row, task in part.bad if part else ():
            shape = _NUMBER.sub("#", _QUOTED.sub("…", task.message))
            way = ways.get(row.trace_id or "", _NO_WAY)
            key = _Key(task.outcome, task.reason, task.operator, shape, way)
            found[key][place].append((row, task))
    groups = [
        _group(
            key, newer, older,
            since.share(len(newer)), before.share(len(older)) if before else None,
        )
        for key, (newer, older) in found.items()
    ]  # fmt: skip
    return sorted(groups, key=lambda each: (-each.since, -each.before))


_Bad = tuple[EvaluationRow, TaskRow]
_NO_WAY: Final = Way((), False, "")


class _Key(NamedTuple):
    """Results of one group have these in common."""

    outcome: Outcome
    reason: str | None
    operator: str
    shape: str
    way: Way


def _group(
    key: _Key, newer: list[_Bad], older: list[_Bad],
    share_since: float | None, share_before: float | None,
) -> FailureGroup:  # fmt: skip
    pairs = [*newer, *older]
    times = [row.evaluated_ns for row, _ in pairs]
    return FailureGroup(
        outcome=key.outcome,
        reason=key.reason,
        operator=key.operator,
        message=pairs[0][1].message,
        tools=key.way.tools,
        failed_tool=key.way.is_failed,
        error_type=key.way.error_type,
        before=len(older),
        since=len(newer),
        share_before=share_before,
        share_since=share_since,
        first_seen=time_at(min(times)),
        last_seen=time_at(max(times)),
        examples=tuple(
            answer_of(FailureExample, row, uid=row.record_uid) for row, _ in pairs[:_EXAMPLES]
        ),
    )
