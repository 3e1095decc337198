"""Attempts: one run of one scenario each, and whether it passed as a whole."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import AttemptKey, Seen, seen_attempts
from scouter.evaluate.results.run import RunResults


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of one scenario."""

    scenario_id: str
    attempt: int
    """Number of the repeat, from 0."""
    outcome: Outcome
    """`passed` if it ran to the end and nothing in it failed or errored: neither a task of its own
    nor a task of a record that it left; `skipped` if nobody knows, as nothing in it gave a result
    or a judge was not asked for its budget."""
    is_errored: bool
    """True if it raised or took too long, or if a task in it errored."""
    is_unanswered: bool = False
    """True if it did not pass for judges alone, none of which gave an answer."""

    @property
    def passed(self) -> bool | None:
        """True if it passed; None if nobody knows."""
        return None if self.outcome is Outcome.SKIPPED else self.outcome is Outcome.PASSED


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
                outcome=one.outcome(lacks_alias=not wanted <= one.aliases),
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


def _look(results: RunResults) -> dict[AttemptKey, Seen]:
    """Every attempt that was made, by scenario and number, with what is known of it."""
    made = {
        AttemptKey(scenario_id, attempt): Seen()
        for scenario_id in results.scenario_ids
        for attempt in range(results.repeats)
    }
    return made | seen_attempts(results.dataset_results, results.scenario_results)


def _usual_aliases(seen: dict[AttemptKey, Seen]) -> dict[str, set[str]]:
    """Per scenario, the aliases that each of its attempts left a record for."""
    usual: dict[str, set[str]] = {}
    for key, one in seen.items():
        known = usual.get(key.scenario_id)
        usual[key.scenario_id] = set(one.aliases) if known is None else known & one.aliases
    return usual
