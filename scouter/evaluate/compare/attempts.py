"""Attempts: one run of one scenario each, and whether it passed as a whole."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.counting import Ended
from scouter.evaluate.results.run import RunResults

_UNANSWERED: Final[frozenset[Reason | None]] = frozenset(
    {Reason.PROVIDER, Reason.REFUSAL, Reason.ABSTAINED, Reason.DEPENDENCY}
)
"""Reasons for which a check errors through no fault of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of one scenario."""

    scenario_id: str
    attempt: int
    """Number of the repeat, from 0."""
    passed: bool | None
    """True if it ran to the end and nothing in it failed or errored: neither a task of its own nor
    a task of a record that it left; None if nobody knows, as nothing in it gave a result or a
    judge was not asked for its budget."""
    is_errored: bool
    """True if it raised or took too long, or if a task in it errored."""
    is_unanswered: bool = False
    """True if it did not pass for judges alone, none of which gave an answer."""


class _AttemptKey(NamedTuple):
    scenario_id: str
    attempt: int


class _Seen:
    """Outcomes that the tasks of one attempt had, and the aliases of these tasks."""

    __slots__ = ("aliases", "bad", "has_errored", "has_failed", "has_passed", "is_unknown")

    def __init__(self) -> None:
        self.aliases: set[str] = set()
        self.bad: set[Reason | None] = set()
        """Reasons of the tasks that failed, which have none, or errored."""
        self.has_errored = self.has_failed = self.has_passed = self.is_unknown = False

    def add(self, outcome: Outcome, reason: Reason | None = None) -> None:
        """Note how a task ended, or the attempt as a whole."""
        self.has_passed |= outcome is Outcome.PASSED
        self.has_failed |= outcome is Outcome.FAILED
        self.has_errored |= outcome is Outcome.ERRORED
        self.is_unknown |= outcome is Outcome.PENDING or reason is Reason.BUDGET
        if outcome is Outcome.FAILED or (outcome is Outcome.ERRORED and reason is not None):
            self.bad.add(reason)

    def passed(self, *, lacks_alias: bool) -> bool | None:
        """Tell whether all of it passed; None if nobody knows."""
        if self.has_failed or self.has_errored or lacks_alias:
            return False
        return None if self.is_unknown or not self.has_passed else True

    @property
    def is_unanswered(self) -> bool:
        """True if nothing but judges that gave no answer stands against the attempt."""
        return bool(self.bad) and self.bad <= _UNANSWERED


def attempts_of(
    results: RunResults,
    baseline: RunResults | None = None,
    aliases: Collection[str] | None = None,
) -> dict[str, list[Attempt]]:
    """List the attempts of a run, and say of each whether it passed.

    Args:
        results: The run.
        baseline: The other run, if there is one: where every attempt of a scenario left a record
            for an alias there, an attempt that leaves none here did not pass.
        aliases: Those that count for this; all by default.

    Returns:
        By scenario, in the order of attempts; every scenario that was run is there.

    Cost: linear in the number of task results.
    """
    seen = _look(results)
    usual = {} if baseline is None else _usual_aliases(_look(baseline))
    found: dict[str, list[Attempt]] = {}
    for key in sorted(seen, key=lambda each: each.attempt):
        one = seen[key]
        wanted = usual.get(key.scenario_id, set())
        if aliases is not None:
            wanted = wanted.intersection(aliases)
        found.setdefault(key.scenario_id, []).append(
            Attempt(
                scenario_id=key.scenario_id,
                attempt=key.attempt,
                passed=one.passed(lacks_alias=not wanted <= one.aliases),
                is_errored=one.has_errored,
                is_unanswered=one.is_unanswered,
            )
        )
    return {name: found[name] for name in dict.fromkeys(key.scenario_id for key in seen)}


def scenarios_passed(results: RunResults) -> tuple[int, int]:
    """Count the scenarios that passed: every attempt with a decision passed.

    Returns:
        Number of scenarios that passed, and number of those with a decided attempt.

    Cost: linear in the number of task results.
    """
    return count_passed(attempts_of(results))


def count_passed(attempts: Mapping[str, Sequence[Attempt]]) -> tuple[int, int]:
    """Count as `scenarios_passed` does, from what `attempts_of` gave."""
    decided = [found for each in attempts.values() if (found := _decided(each))]
    return sum(map(all, decided)), len(decided)


def flipped(
    old: Mapping[str, Sequence[Attempt]], new: Mapping[str, Sequence[Attempt]]
) -> list[str]:
    """Name the scenarios that passed in every attempt of the baseline and in none now."""
    return [
        name
        for name, attempts in new.items()
        if (before := _decided(old.get(name, ())))
        and (now := _decided(attempts))
        and all(before)
        and not any(now)
    ]


def _decided(attempts: Sequence[Attempt]) -> list[bool]:
    return [attempt.passed for attempt in attempts if attempt.passed is not None]


def _look(results: RunResults) -> dict[_AttemptKey, _Seen]:
    """Every attempt that was made, by scenario and number, with what is known of it."""
    seen = {
        _AttemptKey(scenario_id, attempt): _Seen()
        for scenario_id in results.scenario_ids
        for attempt in range(results.repeats)
    }
    for result in results.scenario_results:
        one = seen.setdefault(_AttemptKey(result.scenario_id, result.attempt), _Seen())
        one.add(result.outcome)
        for task in result.task_results:
            one.add(task.outcome, task.reason)
    for alias, scenario_id, attempt, tasks in _records(results):
        one = seen.setdefault(_AttemptKey(scenario_id, attempt), _Seen())
        one.aliases.add(alias)
        for task in tasks:
            one.add(task.outcome, task.reason)
    return seen


def _records(
    results: RunResults,
) -> Iterator[tuple[str, str, int, tuple[Ended, ...]]]:
    """Alias, scenario, attempt and tasks of each record that a scenario left."""
    for alias, found in results.dataset_results.items():
        for record, scenario_id, attempt in zip(
            found.records,
            found.scenario_ids or repeat(None),
            found.attempts or repeat(0),
            strict=False,
        ):
            if scenario_id is not None:
                yield alias, scenario_id, attempt, record.tasks


def _usual_aliases(seen: dict[_AttemptKey, _Seen]) -> dict[str, set[str]]:
    """Per scenario, the aliases that each of its attempts left a record for."""
    usual: dict[str, set[str]] = {}
    for key, one in seen.items():
        known = usual.get(key.scenario_id)
        usual[key.scenario_id] = set(one.aliases) if known is None else known & one.aliases
    return usual
