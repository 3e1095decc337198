"""Mutation score: which faults, put into good traces, a profile's tasks see."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import yaml
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.mutate.candidates import holding, stopped_by
from scouter.evaluate.mutate.faults import FAULTS, Corpus, Fault, Trace, draw
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.span import Span

MOST_MUTANTS: Final = 20
"""Mutants of one kind, so that many traces take no longer than some."""
_ENOUGH: Final = 0.75
"""Part of the mutants with which no more checks are proposed; half of them make a fault seen."""
_MOST_PROPOSED: Final = 5
"""Checks that are proposed for one fault."""


@dataclass(frozen=True, kw_only=True)
class FaultScore:
    """Result of a profile on one kind of fault."""

    fault: Fault
    mutants: int
    """Good traces with the fault in them."""
    stopped: int
    """Those among them that do not pass."""
    unreadable: int
    """Traces whose spans could not be rewritten so that they read as with the fault."""
    by_task: Mapping[str, int]
    """Tasks that did not pass, with the number of mutants."""
    proposed: Sequence[AgentAssertionTask] = ()
    """Checks that fail no good trace, and with which the fault is seen."""
    stopped_then: int = 0
    """Mutants that do not pass once the proposed checks are in the profile."""

    @property
    def is_seen(self) -> bool:
        """At least half of the mutants do not pass."""
        return self.mutants > 0 and 2 * self.stopped >= self.mutants

    def to_json(self) -> dict[str, Any]:
        """Plain values; the proposed tasks as a profile has them."""
        return {
            "kind": self.fault.kind, "sentence": self.fault.sentence, "mutants": self.mutants,
            "stopped": self.stopped, "seen": self.is_seen if self.mutants else None,
            "unreadable": self.unreadable, "by_task": dict(self.by_task),
            "proposed": [task_wire(task) for task in self.proposed],
            "stopped_with_proposed": self.stopped_then,
        }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MutationScore:
    """Faults that a profile sees in good traces."""

    traces: int
    good: int
    """Traces that pass as they are."""
    failing: Mapping[str, int]
    """Tasks that traces do not pass as they are, with the number of traces."""
    left_out: Sequence[str]
    """Ids of tasks that were not run: they ask a judge, read a session, or depend on one."""
    faults: Sequence[FaultScore]

    @cached_property
    def tried(self) -> int:
        """Kinds of faults of which there is a mutant."""
        return sum(each.mutants > 0 for each in self.faults)

    @cached_property
    def seen(self) -> int:
        """Kinds of faults that are seen."""
        return sum(each.is_seen for each in self.faults)

    @property
    def score(self) -> float | None:
        """The part of the kinds that is seen, from 0 to 1; None if there was no mutant."""
        return self.seen / self.tried if self.tried else None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "score": self.score, "seen": self.seen, "tried": self.tried, "traces": self.traces,
            "good": self.good, "failing": dict(self.failing), "left_out": list(self.left_out),
            "faults": [each.to_json() for each in self.faults],
        }  # fmt: skip

    def proposed(self) -> list[AgentAssertionTask]:
        """All proposed checks, each once."""
        found = {task.id: task for each in self.faults for task in each.proposed}
        return list(found.values())

    def proposed_yaml(self) -> str:
        """The proposed checks as the list `tasks` of a profile has them; empty for none."""
        wires = [task_wire(task) for task in self.proposed()]
        return (
            yaml.safe_dump(wires, sort_keys=False, default_flow_style=None, width=100)
            if wires
            else ""
        )


def task_wire(task: AgentAssertionTask) -> dict[str, Any]:
    """A task as a person writes it: without what is so by default."""
    wire = task.model_dump(mode="json")
    given = {name: _stated(wire[name]) for name in _WRITTEN if wire.get(name) not in (None, [])}
    return {**given, "expected_value": task.expected_value}


_WRITTEN: Final = (
    "id", "task_type", "description", "depends_on", "when", "assertion", "source", "operator",
)  # fmt: skip


def _stated(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        return value
    return {key: _stated(each) for key, each in value.items() if each is not None}


def mutation_score(
    tasks: Iterable[Task],
    spans: Iterable[Span],
    is_judged: Callable[[SpanTree], bool] | None = None,
    *,
    propose: bool = True,
    most: int = MOST_MUTANTS,
) -> MutationScore:
    """Put faults into good traces, and count those that tasks see.

    A trace is good if it passes the tasks. No judge is called: tasks that need one are left out,
    and so are those of sessions. The same traces give the same answer every time.

    Args:
        tasks: A profile's.
        spans: Spans of any number of traces.
        is_judged: Tells whether the profile judges a trace; by default each trace of an agent.
        propose: Also look for checks that see what the tasks do not.
        most: Mutants of one kind.

    Raises:
        ConfigError: No task is left to run, or no trace is of an agent.

    Cost: about 10 ms for each mutant of a trace with ten calls of tools.
    """
    given = list(tasks)
    usable = runnable(given)
    if not usable:
        raise ConfigError("every task asks a judge or reads a session; none can be run here")
    is_judged = is_judged or (lambda tree: tree.has_agent)
    traces = [each for each in _traces(spans) if is_judged(each.tree)]
    if not traces:
        raise ConfigError("none of the traces is of an agent and selected by the profile's watch")
    stopped = stopped_by(usable, traces)
    corpus = Corpus(traces=[trace for trace, ids in zip(traces, stopped, strict=True) if not ids])
    failing = Counter(id for ids in stopped for id in ids)
    found = [_mutated(fault, corpus, most) for fault in FAULTS]
    scored = [_scored(usable, *each) for each in found]
    if propose and corpus.traces:
        ids = {task.id for task in given}
        pool = holding(corpus)
        scored = [
            _with_proposals(usable, pool, ids, score, mutants)
            for score, (_, mutants, __) in zip(scored, found, strict=True)
        ]
    left_out = [task.id for task in given if task not in usable]
    return MutationScore(
        traces=len(traces), good=len(corpus.traces), failing=failing, left_out=left_out,
        faults=scored,
    )  # fmt: skip


def runnable(tasks: Sequence[Task]) -> list[Task]:
    """Tasks of records that ask no judge, and depend on none that does; they cost no money."""
    left = {task.id for task in tasks if task.scope == "session"}
    with_records = [task for task in tasks if task.id not in left]
    if with_records:
        plan = compile_plan(with_records)
        left |= {plan.tasks[at].id for at in plan.judges}
    while more := {task.id for task in tasks if left & {*task.depends_on}} - left:
        left |= more
    return [task for task in tasks if task.id not in left]


def _traces(spans: Iterable[Span]) -> Iterator[Trace]:
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    for _, each in sorted(by_trace.items()):
        tree = SpanTree(each)
        if len(tree.trace_ids) == 1:
            yield Trace(tree=tree)


def _mutated(fault: Fault, corpus: Corpus, most: int) -> tuple[Fault, list[Trace], int]:
    drawn = sorted(corpus.traces, key=lambda each: draw(each.tree.trace_ids, fault.kind))
    mutants: list[Trace] = []
    unreadable = 0
    for trace in drawn:
        if len(mutants) + unreadable >= most:
            break
        mutant, is_possible = fault.mutant(trace, corpus)
        if mutant is not None:
            mutants.append(mutant)
        unreadable += is_possible and mutant is None
    return fault, mutants, unreadable


def _scored(
    tasks: Sequence[Task], fault: Fault, mutants: Sequence[Trace], unreadable: int
) -> FaultScore:
    found = stopped_by(tasks, mutants)
    return FaultScore(
        fault=fault, mutants=len(mutants), stopped=sum(map(bool, found)), unreadable=unreadable,
        by_task=Counter(id for each in found for id in each),
    )  # fmt: skip


def _with_proposals(
    tasks: Sequence[Task],
    pool: Sequence[AgentAssertionTask],
    taken: Set[str],
    score: FaultScore,
    mutants: Sequence[Trace],
) -> FaultScore:
    """Add the fewest checks with which a fault is seen: each time the one that sees most more."""
    free = [task for task in pool if task.id not in taken]
    if score.is_seen or not mutants or not free:
        return score
    caught = [bool(ids) for ids in stopped_by(tasks, mutants)]
    sees = stopped_by(pool, mutants)
    chosen: list[AgentAssertionTask] = []
    while sum(caught) < _ENOUGH * len(mutants) and len(chosen) < _MOST_PROPOSED:
        gains = Counter(
            id for ids, is_caught in zip(sees, caught, strict=True) if not is_caught for id in ids
        )
        best = max(free, key=lambda task: gains[task.id])
        if not gains[best.id]:
            break
        chosen.append(best)
        caught = [is_ or best.id in ids for is_, ids in zip(caught, sees, strict=True)]
    if 2 * sum(caught) < len(mutants):
        return score
    needs = {id for task in chosen for id in task.depends_on}
    chosen = [*(task for task in free if task.id in needs), *chosen]
    return replace(score, proposed=chosen, stopped_then=sum(caught))
