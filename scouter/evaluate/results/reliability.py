"""Reliability of an agent over repeats of one scenario: pass@k, pass^k and their intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Final, TypeAlias

from scouter.evaluate.results.attempt import is_decided
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.run import RunResults

MAX_K: Final = 100
"""Largest k that is worked out; a run of more repeats has figures up to this one."""

WHOLE_SCENARIO: Final = ""
"""Task id of the figures for a scenario as a whole: all of its own tasks passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """One check of one scenario over the attempts in which it counts."""

    scenario_id: str
    alias: str | None
    """None for the scenario's own tasks."""
    task_id: str
    """`""` (`WHOLE_SCENARIO`) for all of the scenario's own tasks together."""
    attempts: int
    """n, at least 1."""
    passed: int
    """c, from 0 to n."""
    pass_at: Mapping[int, float]
    """Chance of `pass_at_k`, by k from 1 to n, at most `MAX_K`."""
    pass_hat: Mapping[int, float]
    """Chance of `pass_hat_k`, by k from 1 to n, at most `MAX_K`."""
    flaky: bool
    """True if some attempts passed and some did not."""
    flakiness: float
    """Share of the pairs of attempts that disagree: see `flakiness_of`."""


def pass_at_k(attempts: int, passed: int, k: int) -> float:
    """Estimate how likely at least one of k attempts passes.

    Args:
        attempts: n, how often it was tried.
        passed: c, how often it passed.
        k: From 1 to n.

    Returns:
        `1 - C(n-c, k) / C(n, k)` in [0, 1]: the share of all subsets of k attempts that hold a
        passed one. It is unbiased; `1 - (1 - c/n)^k` is not. Counted in whole numbers and
        rounded once.

    Raises:
        ValueError: The numbers do not fit each other.

    Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
        arXiv:2107.03374, equation 1.
    """
    _check(attempts, passed, k)
    subsets = comb(attempts, k)
    return (subsets - comb(attempts - passed, k)) / subsets


def pass_hat_k(attempts: int, passed: int, k: int) -> float:
    """Estimate how likely all of k attempts pass.

    Args:
        attempts: n, how often it was tried.
        passed: c, how often it passed.
        k: From 1 to n.

    Returns:
        `C(c, k) / C(n, k)` in [0, 1]: the share of all subsets of k attempts that hold passed
        ones only. It is unbiased. Counted in whole numbers and rounded once.

    Raises:
        ValueError: The numbers do not fit each other.

    Source: Yao et al. 2024, "tau-bench: A Benchmark for Tool-Agent-User Interaction in
        Real-World Domains", arXiv:2406.12045, section 4.
    """
    _check(attempts, passed, k)
    return comb(passed, k) / comb(attempts, k)


def flakiness_of(attempts: int, passed: int) -> float:
    """Estimate how likely two attempts disagree.

    Args:
        attempts: n, at least 1.
        passed: c, from 0 to n.

    Returns:
        `2c(n-c) / n(n-1)`, the share of all pairs of attempts of which one passed and one did
        not; 0.0 for a single attempt. With a chance p to pass its mean is `2p(1-p)` whatever n
        is (it is the unbiased estimator of the Gini-Simpson index of two outcomes), so it is
        near one half for a coin and at most 1.0 (one of two passed).

    Raises:
        ValueError: The numbers do not fit each other.

    Source: Simpson 1949, "Measurement of Diversity", doi:10.1038/163688a0 (one minus its l).
    """
    _check(attempts, passed, 1)
    pairs = attempts * (attempts - 1)
    return 2 * passed * (attempts - passed) / pairs if pairs else 0.0


def reliability_of(
    scenario_id: str, alias: str | None, task_id: str, outcomes: Sequence[bool]
) -> Reliability:
    """Sum up one check.

    Args:
        scenario_id: The scenario.
        alias: The profile's alias; None for the scenario's own tasks.
        task_id: The task, or `WHOLE_SCENARIO`.
        outcomes: Whether it passed, for each attempt; at least one.
    """
    attempts, passed = len(outcomes), sum(outcomes)
    sizes = range(1, min(attempts, MAX_K) + 1)
    return Reliability(
        scenario_id=scenario_id,
        alias=alias,
        task_id=task_id,
        attempts=attempts,
        passed=passed,
        pass_at={k: pass_at_k(attempts, passed, k) for k in sizes},
        pass_hat={k: pass_hat_k(attempts, passed, k) for k in sizes},
        flaky=0 < passed < attempts,
        flakiness=flakiness_of(attempts, passed),
    )


def _check(attempts: int, passed: int, k: int) -> None:
    if not (0 <= passed <= attempts and 1 <= k <= attempts):
        raise ValueError(
            f"{passed} of {attempts} attempts passed, k={k}: expected 0 <= passed <= attempts "
            "and 1 <= k <= attempts"
        )


_Key: TypeAlias = tuple[str, str | None, str]
"""Scenario id, alias, task id."""
_Outcomes: TypeAlias = dict[_Key, dict[int, bool]]
"""Per check and attempt, whether it passed."""


def reliability(results: RunResults) -> tuple[Reliability, ...]:
    """Say for each check of a run how it did over the attempts.

    Args:
        results: The run. An attempt that raised passed none of its scenario's own tasks; an
            attempt in which an alias got no record did not pass the tasks of that alias.

    Returns:
        By scenario: the scenario as a whole, its own tasks, the tasks of its aliases. A scenario
        without own tasks is there as a whole only if an attempt raised; the others pass if no
        task of their records failed.

    Cost: linear in the number of task results, and `repeats` per check.
    """
    attempts = range(max(results.repeats, 1))
    outcomes: _Outcomes = {}
    left_out: set[tuple[_Key, int]] = set()
    for scenario_id in _only_raised(results):
        outcomes[scenario_id, None, WHOLE_SCENARIO] = dict.fromkeys(attempts, True)
    for alias, rows in results.parts:
        for row in rows:
            name, attempt = row.scenario_id or "", row.attempt
            whole = outcomes.get((name, None, WHOLE_SCENARIO), {})
            for task in row.record.tasks:
                key = name, alias, task.task_id
                if not is_counted(task):
                    left_out.add((key, attempt))
                    continue
                found = outcomes.setdefault(key, {})
                found[attempt] = found.get(attempt, True) and task.passed
                if attempt in whole:
                    whole[attempt] = whole[attempt] and found[attempt]
    for result in results.scenario_results:
        key = (result.scenario_id, None, WHOLE_SCENARIO)
        if not is_decided(result):
            left_out.add((key, result.attempt))
            continue
        outcomes.setdefault(key, {})[result.attempt] = result.passed
    return tuple(
        reliability_of(
            *key,
            [
                outcomes[key].get(attempt, False)
                for attempt in attempts
                if attempt in outcomes[key] or (key, attempt) not in left_out
            ],
        )
        for key in _in_order(outcomes, results)
    )


def _only_raised(results: RunResults) -> set[str]:
    """Scenarios that are among the results only because an attempt raised."""
    names = {result.scenario_id for result in results.scenario_results}
    return names - {r.scenario_id for r in results.scenario_results if r.task_results}


def _in_order(outcomes: _Outcomes, results: RunResults) -> list[_Key]:
    places = {scenario_id: at for at, scenario_id in enumerate(results.scenario_ids)}
    aliases = {alias: at for at, alias in enumerate(results.dataset_results)}

    def place(key: _Key) -> tuple[int, int, bool]:
        scenario_id, alias, task_id = key
        at = -1 if alias is None else aliases[alias]
        return places.get(scenario_id, len(places)), at, task_id != WHOLE_SCENARIO

    return sorted(outcomes, key=place)
