"""Two runs over the checks that both were judged by.

A check that changed is run again on the baseline where that is possible. What cannot be compared
is left out of both runs, and named: the comparison cannot clear it.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scouter.evaluate.compare.checks import (
    CheckChange,
    Checks,
    Group,
    difference_of,
    merged,
)
from scouter.evaluate.compare.rejudging import (
    but_for,
    edited,
    full_tasks,
    judged_again,
    replaced,
    with_tasks,
)
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults

R = TypeVar("R", bound=RunResults)

_NO_CONTEXTS: Final = "results of records do not store what it reads"


@dataclass(slots=True, kw_only=True)
class LeftOut:
    """What is in neither side of a comparison."""

    scenarios: set[str] = field(default_factory=set[str])
    aliases: set[str] = field(default_factory=set[str])
    tasks: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Tasks of profiles, by alias."""
    own: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Tasks of scenarios, by scenario."""

    def __bool__(self) -> bool:
        return bool(self.scenarios or self.aliases or self.tasks or self.own)

    def add(self, group: Group, names: Collection[str]) -> None:
        """Leave tasks of a group out."""
        if names and group.scenario_id is not None:
            self.own[group.scenario_id].update(names)
        elif names:
            self.tasks[group.alias or ""].update(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparable:
    """A baseline that can be compared with a run.

    Args:
        baseline: Its attempts, as today's checks judge them.
        changes: All checks that are not what they were.
        left_out: What is in neither side.
    """

    baseline: RunResults
    changes: tuple[CheckChange, ...]
    left_out: LeftOut

    def of(self, run: R) -> R:
        """The part of the new run that can be compared."""
        return without(run, self.left_out)


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
    left_out, changes = LeftOut(), [*found.whole]
    for change in changes:
        left_out.scenarios.update(change.ids if change.kind == "scenario" else ())
        left_out.aliases.update(change.ids if change.kind == "profile" else ())
    baseline, missing = judged_again(baseline, found.groups, left_out.scenarios)
    for group, why in zip(found.groups, missing, strict=True):
        changes += group.changes(why)
        left_out.add(group, {*group.removed, *why})
    return Comparable(
        baseline=without(baseline, left_out),
        changes=merged(each.accepted_by(accepted) for each in changes),
        left_out=left_out,
    )


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


def without(results: R, left_out: LeftOut) -> R:
    """Leave scenarios, aliases and tasks out of a run.

    Cost: linear in the number of task results; none where nothing is left out.
    """
    if not left_out:
        return results
    gone = left_out.scenarios
    datasets: dict[str, ResultRows] = {}
    for alias, rows in results.dataset_results.items():
        if alias not in left_out.aliases:
            names = left_out.tasks.get(alias, set[str]())
            datasets[alias] = edited(
                rows, lambda _, record, names=names: but_for(record.tasks, names), gone
            )
    own = [
        with_tasks(item, but_for(full_tasks(item), names)) if names else item
        for item in results.scenario_results
        if item.scenario_id not in gone
        for names in (left_out.own.get(item.scenario_id, ()),)
    ]
    reasked = None if results.reasked is None else without(results.reasked, left_out)
    return replaced(
        results,
        datasets,
        own,
        scenarios=tuple(each for each in results.scenarios if each.scenario_id not in gone),
        conversations=tuple(e for e in results.conversations if e.scenario_id not in gone),
        reasked=reasked,
    )
