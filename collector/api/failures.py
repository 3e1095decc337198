"""Groups of a task's results that did not pass."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Final, NamedTuple

from fastapi import APIRouter, Query

from collector.api.parameters import NOT_FOUND, Reader, Text, Time, caught_up_router, read_time
from collector.api.parts import TheNames, TheStore
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rates import TaskQuery
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.store import Store
from collector.store.traces import Step
from scouter.client.models.failures import FailureExample, FailureGroup, Failures
from scouter.evaluate.outcome import Outcome

_Name = Annotated[str, Query(min_length=1, max_length=512)]
_LIMIT: Final = 200
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


@cache
def failures_router() -> APIRouter:
    """Make the route `/api/v1/tasks/failures`."""
    router = caught_up_router()

    @router.get("/tasks/failures", responses=NOT_FOUND)
    def failures(
        store: TheStore,
        names: TheNames,
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
            limit=_LIMIT,
        )
        split_ns = read_time("split", split)
        if split_ns is None:
            before, later = None, _part(store, query)
        else:  # a split outside of the time that is asked for leaves one side empty
            since_ns, until_ns = query.since_ns or 0, query.until_ns
            end_ns = split_ns if until_ns is None else min(split_ns, until_ns)
            before = _part(store, replace(query, until_ns=end_ns))
            later = _part(store, replace(query, since_ns=max(split_ns, since_ns)))
        parts = [part for part in (later, before) if part is not None]
        if not any(part.results for part in parts):
            names.check(caller.space, profile, task_id)
        traces = {row.trace_id for part in parts for row, _ in part.bad if row.trace_id}
        ways = {
            trace_id: way_of(steps)
            for trace_id, steps in store.trace_steps(caller.space, traces).items()
        }
        return Failures(
            items=tuple(groups_of(later, before, ways)),
            looked_at=sum(len(part.bad) for part in parts),
            is_partial=any(part.failures > len(part.bad) for part in parts),
        )

    return router


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
        first_seen=datetime.fromtimestamp(min(times) / 1e9, UTC),
        last_seen=datetime.fromtimestamp(max(times) / 1e9, UTC),
        examples=tuple(
            FailureExample(
                evaluation_id=row.evaluation_id,
                uid=row.record_uid,
                record_id=row.record_id,
                trace_id=row.trace_id,
            )
            for row, _ in pairs[:_EXAMPLES]
        ),
    )
