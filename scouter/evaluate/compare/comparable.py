"""Two runs over the checks that both were judged by.

A check that changed is run again on the baseline where that is possible. What cannot be compared
is left out of both runs, and named: the comparison cannot clear it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from scouter.evaluate.compare.checks import (
    Act,
    CheckChange,
    Difference,
    Fate,
    Group,
    difference_of,
    merged,
    profile_difference,
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

    Cost: that of both runs' definitions; where a check changed, that of judging the baseline by
        it, without any judge.
    """
    found = difference_of(baseline, new)
    left_out = LeftOut(
        scenarios={*found.questions, *found.scenarios},
        aliases={*found.profiles, *found.new_profiles, *found.unknown},
    )
    changes = [*_whole_changes(found)]
    baseline, missing = judged_again(baseline, found.groups, left_out.scenarios)
    for group, why in zip(found.groups, missing, strict=True):
        changes += _changes(group, why)
        left_out.add(group, {*group.removed, *why})
    return Comparable(
        baseline=without(baseline, left_out),
        changes=merged(_accepted(each, accepted) for each in changes),
        left_out=left_out,
    )


def comparable_rows(
    baseline: ResultRows, new: ResultRows, accepted: Collection[str] = ()
) -> tuple[ResultRows, ResultRows, tuple[CheckChange, ...]]:
    """Leave out of two evaluations of records what was not judged by the same tasks.

    Their results store no contexts, so that nothing can be judged again.
    """
    origins = baseline.provenance or Provenance(), new.provenance or Provenance()
    found = profile_difference(*origins)
    left: set[str] = set()
    changes: list[CheckChange] = [*_whole_changes(found)]
    for group in found.groups:
        names = [name for name in group.dependents(group.changed) if name in group.old]
        changes += _changes(group, dict.fromkeys([*names, *group.added], _NO_CONTEXTS))
        left |= {*names, *group.removed}
    if found.unknown:
        records = (record for rows in (baseline, new) for record in rows.records)
        left |= {task.task_id for record in records for task in record.tasks}
    if left:
        baseline, new = (
            edited(rows, lambda _, record: but_for(record.tasks, left)) for rows in (baseline, new)
        )
    return baseline, new, merged(_accepted(each, accepted) for each in changes)


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


# --- changes and their fates -------------------------------------------------------------------


def _whole_changes(found: Difference) -> Iterator[CheckChange]:
    """The scenarios and profiles that are left out as a whole."""
    for name, fields in found.questions.items():
        yield CheckChange(
            kind="scenario", ids=(name,), act="changed", fields=fields, fate=Fate.LEFT_OUT,
            why="the baseline's attempts answer another question",
        )  # fmt: skip
    for name in found.scenarios:
        yield CheckChange(
            kind="scenario", ids=(name,), act="removed", fate=Fate.LEFT_OUT,
            why="the new run does not have it",
        )  # fmt: skip
    for alias in found.profiles:
        yield CheckChange(
            kind="profile", ids=(alias,), act="removed", fate=Fate.LEFT_OUT,
            why="nothing runs its tasks any more",
        )  # fmt: skip
    for alias in found.new_profiles:
        yield CheckChange(
            kind="profile", ids=(alias,), act="added", fate=Fate.NEW,
            why="the baseline has no records for it",
        )  # fmt: skip
    for alias in found.unknown:
        yield CheckChange(
            kind="profile", ids=(alias or "tasks",), act="changed", fate=Fate.LEFT_OUT,
            why="the baseline does not store its tasks",
        )  # fmt: skip


def _twin(group: Group, name: str) -> str:
    """The added task that is the same as a removed one, but for its name."""
    old = {**group.old[name], "id": ""}
    return next((new for new in group.added if {**group.new[new], "id": ""} == old), "")


def _changes(group: Group, why: Mapping[str, str]) -> Iterator[CheckChange]:
    """The tasks of a group that are not what they were, with their fates.

    Args:
        group: Tasks of an alias or a scenario, before and now.
        why: By task of today, the reason why it cannot be compared.
    """
    if group.moved:
        yield CheckChange(
            kind="scenario", ids=(group.scenario_id or "",), act="changed", fields=group.moved,
            fate=Fate.JUDGED_AGAIN,
        )  # fmt: skip
    for name, fields in group.changed.items():
        fate = Fate.LEFT_OUT if name in why else Fate.JUDGED_AGAIN
        yield _change(group, name, "changed", fate, why.get(name, ""), fields)
    for name, reason in why.items():
        if name in group.old and name not in group.changed:
            yield _change(group, name, "changed", Fate.LEFT_OUT, reason)
    for name in group.removed:
        twin = _twin(group, name)
        new_name = f" (the added task {twin!r} is the same)" if twin else ""
        yield _change(group, name, "removed", Fate.LEFT_OUT, f"nothing runs it any more{new_name}")
    for name in group.added:
        fate = Fate.NEW if name in why else Fate.JUDGED_AGAIN
        yield _change(group, name, "added", fate, why.get(name, ""))


def _change(
    group: Group, name: str, act: Act, fate: Fate, why: str, fields: tuple[str, ...] = ()
) -> CheckChange:
    return CheckChange(
        kind="task",
        ids=(name,),
        alias=group.alias,
        scenarios=() if group.scenario_id is None else (group.scenario_id,),
        act=act,
        fields=fields,
        fate=fate,
        why=why,
    )


def _accepted(change: CheckChange, accepted: Collection[str]) -> CheckChange:
    names = {*change.ids, *([change.alias] if change.alias else []), *change.scenarios}
    if change.fate is Fate.LEFT_OUT and not names.isdisjoint(accepted):
        return change.model_copy(update={"fate": Fate.ACCEPTED})
    return change
