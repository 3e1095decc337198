"""Hold a run against its gates."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.compare.gates import AliasGates, Gates
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results import EvalResults
from scouter.evaluate.scenario_results import (
    Ended,
    ScenarioEvalResults,
    ScenarioResult,
    is_counted,
)

ALL_CHECKS: Final = "pass rate of all checks"
"""What passed of all task results of a run; what `min_pass_rate` is about."""

MEAN_RATE: Final = "mean pass rate (of aliases and scenarios)"
"""What `EvalMetrics.overall_pass_rate` is: an alias with few checks weighs as much as others."""

BROKEN: Final = "(broken scenarios)"
"""Where attempts are counted that raised or took too long."""

_EPSILON: Final = 1e-12
_SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One gate and what the run reached."""

    name: str
    """`pass rate of all checks`, `alias 'a'`, `alias 'a', task 't'`, `task 't'`."""
    wanted: float | None
    """The least rate; None where the gate is about no rate."""
    found: float | None
    """The rate reached; None without results."""
    passed: int
    total: int
    met: bool
    reason: str
    """The same in words."""


def check_names(
    gates: Gates, tasks_of: Mapping[str, Collection[str] | None], own_tasks: Collection[str]
) -> None:
    """Refuse gates on what a run does not have; can be asked before the run.

    Args:
        gates: What the run has to reach.
        tasks_of: Per alias, the ids of its tasks; None where they are not known.
        own_tasks: Ids of the tasks of the scenarios themselves.

    Raises:
        ConfigError: A gate names an unknown alias or task; names those that are known.
    """
    for alias, wanted in gates.aliases.items():
        if alias not in tasks_of:
            raise ConfigError(f"gates: aliases: no alias {alias!r}; the run has {_names(tasks_of)}")
        known = tasks_of[alias]
        for task_id in wanted.tasks:
            if known is not None and task_id.lower() not in known:
                raise ConfigError(
                    f"gates: aliases: {alias}: no task {task_id!r}; the alias has {_names(known)}"
                )
    if None in tasks_of.values():
        return
    every = [*(tasks or () for tasks in tasks_of.values()), own_tasks]
    names = dict.fromkeys(name for tasks in every for name in tasks)
    for task_id in gates.tasks:
        if task_id.lower() not in names:
            raise ConfigError(f"gates: tasks: no task {task_id!r}; the run has {_names(names)}")


def check_gates(results: ScenarioEvalResults, gates: Gates) -> tuple[GateCheck, ...]:
    """Hold a run against its gates.

    A gate on something without results is not met: nothing was shown.

    Args:
        results: The run.
        gates: What it has to reach.

    Returns:
        One check per gate: the overall rate, then alias by alias, then the tasks.

    Raises:
        ConfigError: A gate names an alias or a task that the run does not know; names those that
            it knows.

    Cost: linear in the number of task results.
    """
    tallies = {alias: _tally(found) for alias, found in results.dataset_results.items()}
    own = _tally_scenarios(results)
    for alias in results.provenance.profile_digests:
        tallies.setdefault(alias, {})  # it has a profile, and may have no record in this run
    check_names(gates, {alias: tally or None for alias, tally in tallies.items()}, own)
    checks: list[GateCheck] = []
    every = [*tallies.values(), own]
    if gates.min_pass_rate is not None:
        checks.append(_check(ALL_CHECKS, gates.min_pass_rate, _sum(every)))
    for alias, wanted in gates.aliases.items():
        checks += _check_alias(alias, wanted, tallies[alias])
    for task_id, rate in gates.tasks.items():
        key = task_id.lower()  # as ids are everywhere
        found = _sum([{key: tally[key]} for tally in every if key in tally])
        checks.append(_check(f"task {key!r}", rate, found))
    return tuple(checks)


def count_checks(results: ScenarioEvalResults) -> tuple[int, int]:
    """Count the checks of a run: all task results of all records and scenarios.

    Returns:
        How many passed, and how many there were; 0 if nothing was judged. An attempt that raised
        and has no task of its own is one more that did not pass.

    Cost: linear in the number of task results.
    """
    return _sum([*map(_tally, results.dataset_results.values()), _tally_scenarios(results)])


def broken_attempts(results: ScenarioEvalResults) -> int:
    """Count the attempts that raised or took too long and have no task of their own."""
    return sum(map(_is_broken, results.scenario_results))


_Counts: TypeAlias = tuple[int, int]
"""Passed, and all that belong into the rate."""

_Tally: TypeAlias = dict[str, _Counts]
"""The counts of each task."""


def _tally(results: EvalResults) -> _Tally:
    tally: _Tally = {}
    for record in results.records:
        for task in record.tasks:
            _add(tally, task.task_id, task)
    return tally


def _tally_scenarios(results: ScenarioEvalResults) -> _Tally:
    """The scenarios' own tasks. One whose agent raised is one more failure."""
    tally: _Tally = {}
    for result in results.scenario_results:
        for task in result.task_results:
            _add(tally, task.task_id, task)
        if _is_broken(result):
            passed, total = tally.get(BROKEN, (0, 0))
            tally[BROKEN] = passed, total + 1
    return tally


def _is_broken(result: ScenarioResult) -> bool:
    has_errored_task = any(task.outcome is Outcome.ERRORED for task in result.task_results)
    return result.outcome is Outcome.ERRORED and not has_errored_task


def _add(tally: _Tally, task_id: str, task: Ended) -> None:
    passed, total = tally.get(task_id, (0, 0))
    tally[task_id] = (passed + (task.outcome is Outcome.PASSED), total + is_counted(task))


def _sum(tallies: Iterable[_Tally]) -> _Counts:
    counts = [count for tally in tallies for count in tally.values()]
    return sum(passed for passed, _ in counts), sum(total for _, total in counts)


def _check_alias(alias: str, wanted: AliasGates, tally: _Tally) -> Iterator[GateCheck]:
    if wanted.min_pass_rate is not None:
        yield _check(f"alias {alias!r}", wanted.min_pass_rate, _sum([tally]))
    for task_id, rate in wanted.tasks.items():
        key = task_id.lower()
        yield _check(f"alias {alias!r}, task {key!r}", rate, tally.get(key, (0, 0)))


def _check(name: str, wanted: float, counts: _Counts) -> GateCheck:
    passed, total = counts
    if not total:
        return GateCheck(
            name=name, wanted=wanted, found=None, passed=0, total=0, met=False,
            reason=f"{name}: no results, so {wanted:.1%} is not reached",
        )  # fmt: skip
    found = passed / total
    met = found >= wanted - _EPSILON
    low, high = wilson(passed, total)
    return GateCheck(
        name=name,
        wanted=wanted,
        found=found,
        passed=passed,
        total=total,
        met=met,
        reason=(
            f"{name}: {found:.1%} ({passed} of {total}, 95 % interval {low:.0%} to {high:.0%}), "
            f"wanted {'' if met else 'at least '}{wanted:.1%}"
        ),
    )


def _names(known: Iterable[str]) -> str:
    names = [name for name in known if name != BROKEN]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(repr, names[:_SHOWN])) + more if names else "none"
