"""Two runs over the checks that both were judged by.

A check that changed is run again on the baseline where that is possible. What cannot be compared
is left out of both runs, and named: the comparison cannot clear it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scouter.evaluate.compare.checks import CheckChange, Checks, difference_of, merged
from scouter.evaluate.compare.rejudging import (
    Item,
    but_for,
    edited,
    full_tasks,
    judged_again,
    remade,
    with_tasks,
)
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults

R = TypeVar("R", bound=RunResults)

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
            return with_tasks(item, but_for(full_tasks(item), names))

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
