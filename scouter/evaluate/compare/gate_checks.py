"""A run compared with its gates, corrected for the errors of calibrated judges."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from statistics import fmean
from typing import Final, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.compare.gate_counts import (
    BROKEN,
    Required,
    TaskCount,
    add_up,
    attempts_of,
    count_passed,
    count_tasks,
    is_broken,
    required_of,
    scenarios_passed,
    task_rows,
    unended,
)
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.results.run import RunResults
from scouter.model.visible import did_you_mean, some_of

JudgeRates: TypeAlias = Mapping[tuple[str, str], JudgeRate]
"""Rates of judges by alias (empty for a scenario's own task) and task id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCorrection:
    """A rate as people would give it."""

    rate: float
    interval: Interval
    """95 % interval of the rate, from the judges' errors and the number of results together."""
    error: Interval | None
    """95 % interval of the rate, from the judges' errors alone.

    None where labels and verdicts cannot both be right.
    """


def by_task(rates: Iterable[JudgeRate]) -> JudgeRates:
    """Find rates of judges by alias and task."""
    return {(each.alias, each.task_id): each for each in rates}


def correct_gate(counts: Sequence[TaskCount], known: JudgeRates) -> GateCorrection | None:
    """Replace the pass rate of judges by that of people, as calibrations tell it.

    Results without a calibration count as they are. The ends of the interval are those of the
    parts, each by its number of results: as wide as if all errors went the same way.

    Args:
        counts: The results that the rate is over.
        known: Calibrated rates of the judges; only rates that could be corrected are used.

    Returns:
        The corrected rate; None where there is nothing to correct.

    Cost: about 1 ms for each calibrated task.
    """
    judged = [
        rate
        for each in counts
        if (rate := known.get((each.alias, each.task_id))) is not None
        and rate.rate is not None
        and rate.judged
    ]
    if not judged:
        return None
    passed, total = add_up(counts)
    plain_passed = passed - sum(each.passed for each in judged)
    plain_total = total - sum(each.judged for each in judged)
    low, high = wilson(plain_passed, plain_total)

    def mixed(plain: float, ofs: Iterable[float]) -> float:
        parts = (rate * each.judged for rate, each in zip(ofs, judged, strict=True))
        return (plain + math.fsum(parts)) / total

    intervals = [each.interval or (0.0, 1.0) for each in judged]
    errors = [each.error for each in judged if each.error is not None]
    return GateCorrection(
        rate=mixed(plain_passed, (each.rate or 0.0 for each in judged)),
        interval=(
            mixed(low * plain_total, (bounds[0] for bounds in intervals)),
            mixed(high * plain_total, (bounds[1] for bounds in intervals)),
        ),
        error=None
        if len(errors) < len(judged)
        else (
            mixed(plain_passed, (bounds[0] for bounds in errors)),
            mixed(plain_passed, (bounds[1] for bounds in errors)),
        ),
    )


def not_corrected(counts: Iterable[TaskCount], known: JudgeRates) -> list[str]:
    """Say of which judges a calibration is there and of no use, and why."""
    found = (known.get((each.alias, each.task_id)) for each in counts)
    return [
        f"task {rate.task_id!r} counts as its judge says ({rate.standing_text}: {rate.why})"
        for rate in found
        if rate is not None and rate.standing in ("cannot_say", "another_judge")
    ]


SCENARIOS_PASSED: Final = "scenarios passed"
"""Name of the rate that `min_scenario_pass_rate` bounds: the share of passed scenarios."""

ALL_CHECKS: Final = "pass rate of all checks"
"""Name of the rate that `min_pass_rate` bounds: passed results among all task results of a run."""

MEAN_RATE: Final = "mean pass rate (of aliases and scenarios)"
"""Name of `EvalMetrics.overall_pass_rate`, in which each alias weighs the same."""

_EPSILON: Final = 1e-12
_SHOWN: Final = 10
_FEWEST: Final = 6
"""Fewest results for an interval; with fewer it would span most of what is possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """One gate and what the run reached."""

    name: str
    """`scenarios passed`, `required scenario 's'`, `required task 't'`, `tag 'g'`, `tag 'g', all
    checks`, `pass rate of all checks`, `alias 'a'`, `alias 'a', task 't'`, `task 't'`, `mean score
    of 't'`."""
    wanted: float | None
    """The least rate or mean; None where the gate is about neither."""
    found: float | None
    """The mean, or the rate, corrected for judges' errors if known; None without results."""
    passed: int
    """Number of scenarios, attempts or task results that passed, before any correction."""
    total: int
    met: bool
    reason: str
    """Result of the gate in words."""
    is_mean: bool = False
    """True where `wanted` and `found` are means of scores, of `total` of them."""

    @property
    def counts_text(self) -> str:
        """The counts beside the rate: `9/12`; `corrected from 20/40` where that is another rate.

        Beside a mean of scores: `mean of 12`.
        """
        if self.is_mean:
            return f"mean of {self.total}"
        counted = self.passed / self.total if self.total else None
        is_corrected = self.found is not None and self.found != counted
        return f"{'corrected from ' * is_corrected}{self.passed}/{self.total}"


def check_names(
    gates: Gates,
    tasks_of: Mapping[str, Collection[str] | None],
    own_tasks: Collection[str],
    tags: Collection[str] = (),
) -> None:
    """Refuse gates on names that a run does not have; works before the run.

    Args:
        gates: Rates that the run has to reach.
        tasks_of: Per alias, the ids of its tasks; None where they are not known.
        own_tasks: Ids of the tasks of the scenarios themselves.
        tags: Those of the scenarios.

    Raises:
        ConfigError: A gate names an unknown tag, alias or task; names those that are known.
    """
    check_tags(gates, tags)
    for alias, wanted in gates.aliases.items():
        if alias not in tasks_of:
            raise ConfigError(
                f"gates: aliases: no alias {alias!r}; the run has {_known(alias, tasks_of)}"
            )
        known = tasks_of[alias]
        for task_id in wanted.tasks:
            if known is not None and task_id.lower() not in known:
                raise ConfigError(
                    f"gates: aliases: {alias}: no task {task_id!r}; the alias has "
                    f"{_known(task_id, known)}"
                )
    if None in tasks_of.values():
        return
    every = [*(tasks or () for tasks in tasks_of.values()), own_tasks]
    names = dict.fromkeys(name for tasks in every for name in tasks)
    for field, wanted in (("tasks", gates.tasks), ("min_scores", gates.min_scores)):
        for task_id in wanted:
            if task_id.lower() not in names:
                raise ConfigError(
                    f"gates: {field}: no task {task_id!r}; the run has {_known(task_id, names)}"
                )


def check_tags(gates: Gates, tags: Collection[str]) -> None:
    """Refuse gates on tags that no scenario has.

    Raises:
        ConfigError: A gate names such a tag; names those that there are.
    """
    for tag in gates.tags:
        if tag not in tags:
            raise ConfigError(
                f"gates: tags: no scenario has the tag {tag!r}; the tags are {_known(tag, tags)}"
            )


def check_gates(results: RunResults, gates: Gates) -> tuple[GateCheck, ...]:
    """Check a run by its gates, and by the demands of its scenarios and profiles.

    A gate on something without results is not met: nothing was shown. A rate of checks is corrected
    for the errors of judges whose calibration is known, and met if the corrected rate reaches it.

    Args:
        results: The run.
        gates: Rates that it has to reach; `Gates()` for the demands alone.

    Returns:
        One check per gate: the scenarios that passed, what is required, the tags, all checks, the
        aliases, the tasks, the means of scores.

    Raises:
        ConfigError: A gate names a tag, an alias or a task that the run does not know; names those
            that it knows.

    Cost: linear in the number of task results, once per tag.
    """
    counts = count_tasks(results)
    aliases = dict.fromkeys([*results.dataset_results, *results.provenance.profile_digests])
    tasks_of = {
        alias: [each.task_id for each in counts if each.alias == alias] for alias in aliases
    }
    check_names(
        gates,
        {alias: tasks or None for alias, tasks in tasks_of.items()},  # None: no record in this run
        [each.task_id for each in counts if not each.alias],
        dict.fromkeys(tag for each in results.scenarios for tag in each.tags),
    )
    checks: list[GateCheck] = []
    if gates.min_scenario_pass_rate is not None:
        counted = scenarios_passed(results)
        checks.append(_check(SCENARIOS_PASSED, gates.min_scenario_pass_rate, counted))
    checks += map(_check_required, required_of(results))
    checks += _check_tags(results, gates)
    checks += _check_tasks(results, gates, counts)
    checks += _check_means(results, gates)
    return tuple(checks)


def count_checks(results: RunResults) -> tuple[int, int]:
    """Count the checks of a run: all task results of all records and scenarios.

    Returns:
        Number of passed checks, and number of all checks; 0 if nothing was evaluated. An attempt
        that raised and has no task of its own is one more check that did not pass.

    Cost: linear in the number of task results.
    """
    return add_up(count_tasks(results))


def broken_attempts(results: RunResults) -> int:
    """Count the attempts that raised or took too long and have no task of their own."""
    return sum(map(is_broken, results.scenario_results))


def _check_required(found: Required) -> GateCheck:
    passed = found.total - len(found.misses)
    counts = f"{passed} of {found.total} {found.unit} passed" if found.total else "no results"
    first = [miss.text for miss in found.misses[:1]]
    more = [f"and {len(found.misses) - 1} more"] if len(found.misses) > 1 else []
    return GateCheck(
        name=found.name,
        wanted=1.0,
        found=passed / found.total if found.total else None,
        passed=passed,
        total=found.total,
        met=found.is_met,
        reason=f"{found.name}: {'; '.join([counts, *first, *more])}",
    )


def _check_tags(results: RunResults, gates: Gates) -> Iterator[GateCheck]:
    attempts = attempts_of(results) if gates.tags else {}
    for tag, wanted in gates.tags.items():
        ids = [each.scenario_id for each in results.scenarios if tag in each.tags]
        if wanted.min_scenario_pass_rate is not None:
            counted = count_passed({name: attempts.get(name, ()) for name in ids})
            yield _check(f"tag {tag!r}", wanted.min_scenario_pass_rate, counted)
        if wanted.min_pass_rate is not None:
            counted = add_up(count_tasks(results, frozenset(ids)))
            yield _check(f"tag {tag!r}, all checks", wanted.min_pass_rate, counted)


def _check_tasks(
    results: RunResults, gates: Gates, counts: Sequence[TaskCount]
) -> Iterator[GateCheck]:
    """The gates on rates of task results: all of them, of aliases, of tasks."""
    judges: JudgeRates = by_task(results.judge_rates)

    def check(name: str, wanted: float, found: Sequence[TaskCount]) -> GateCheck:
        correction = correct_gate(found, judges)
        return _check(name, wanted, add_up(found), correction, not_corrected(found, judges))

    def of_alias(found: Sequence[TaskCount], alias: str, task_id: str | None) -> list[TaskCount]:
        lost = unended(results, alias, task_id)
        return [*found, lost] if lost.total else [*found]

    if gates.min_pass_rate is not None:
        yield check(ALL_CHECKS, gates.min_pass_rate, counts)
    for alias, wanted in gates.aliases.items():
        own = [each for each in counts if each.alias == alias]
        if wanted.min_pass_rate is not None:
            yield check(f"alias {alias!r}", wanted.min_pass_rate, of_alias(own, alias, None))
        for task_id, rate in wanted.tasks.items():
            key = task_id.lower()  # as ids are everywhere
            found = [each for each in own if each.task_id == key]
            name = f"alias {alias!r}, task {key!r}"
            yield check(name, rate, of_alias(found, alias, key))
    for task_id, rate in gates.tasks.items():
        key = task_id.lower()
        found = [each for each in counts if each.task_id == key]
        for alias in dict.fromkeys(each.alias for each in found if each.alias):
            found = of_alias(found, alias, key)
        yield check(f"task {key!r}", rate, found)


def _check_means(results: RunResults, gates: Gates) -> Iterator[GateCheck]:
    """Check means of scores; what errored or raised counts 0, as nobody knows more."""
    scores: dict[str, list[tuple[float, bool]]] = {}
    errored: Counter[str] = Counter()
    aliases: dict[tuple[str, str], None] = {}
    for row in task_rows(results) if gates.min_scores else ():
        aliases[row.alias, row.task.task_id] = None
        errored[row.task.task_id] += row.task.outcome is Outcome.ERRORED
        if row.task.score is not None:
            passed = row.task.outcome is Outcome.PASSED
            scores.setdefault(row.task.task_id, []).append((row.task.score, passed))
    for alias, task_id in aliases:
        if alias and task_id in map(str.lower, gates.min_scores):
            errored[task_id] += unended(results, alias, task_id).total
    for task_id, wanted in gates.min_scores.items():
        name, found = f"mean score of {task_id.lower()!r}", scores.get(task_id.lower(), [])
        mean = fmean(score for score, _ in found) if found else None
        lost = errored[task_id.lower()]
        least = None if mean is None else min(mean, mean * len(found) / (len(found) + lost))
        met = least is not None and (least > wanted or isclose(least, wanted, abs_tol=_EPSILON))
        also = f"; {lost} errored, 0 for the gate" if lost else ""
        reached = "no score" if mean is None else f"{mean:.4f} (of {len(found)}{also})"
        yield GateCheck(
            name=name, wanted=wanted, found=mean, passed=sum(passed for _, passed in found),
            total=len(found), met=met, is_mean=True,
            reason=f"{name}: {reached}, wanted {'' if met else 'at least '}{wanted:g}",
        )  # fmt: skip


def _check(
    name: str,
    wanted: float,
    counts: tuple[int, int],
    correction: GateCorrection | None = None,
    notes: Sequence[str] = (),
) -> GateCheck:
    passed, total = counts
    if not total:
        return GateCheck(
            name=name, wanted=wanted, found=None, passed=0, total=0, met=False,
            reason=f"{name}: no results, so {wanted:.1%} is not reached",
        )  # fmt: skip
    found = passed / total if correction is None else correction.rate
    low, high = wilson(passed, total) if correction is None else correction.interval
    met = found >= wanted - _EPSILON
    counted = f"{passed} of {total}"
    if correction is not None:
        counted = f"corrected for the judge's errors; the judge says {counted}"
        notes = [*_open(correction, wanted), *notes]
    if correction is not None or total >= _FEWEST:
        counted += f", 95 % interval {low:.0%} to {high:.0%}"
    return GateCheck(
        name=name,
        wanted=wanted,
        found=found,
        passed=passed,
        total=total,
        met=met,
        reason="; ".join(
            [
                f"{name}: {found:.1%} ({counted}), wanted {'' if met else 'at least '}{wanted:.1%}",
                *notes,
            ]
        ),
    )


def _open(correction: GateCorrection, wanted: float) -> Iterator[str]:
    """Say it where the judge's error alone leaves open on which side of a gate the rate is."""
    if correction.error is not None and correction.error[0] < wanted < correction.error[1]:
        low, high = correction.error
        yield (
            f"the judge's error alone leaves open whether that is reached ({low:.0%} to "
            f"{high:.0%}): label more"
        )


def _known(name: str, known: Iterable[str]) -> str:
    """List what there is, and ask whether the nearest was meant."""
    names = [each for each in dict.fromkeys(known) if each != BROKEN]
    question = did_you_mean(name, names)
    listed = some_of([*map(repr, names)], _SHOWN) or "none"
    return f"{listed}; {question}" if question else listed
