"""Strata of the test: what each attempt of each scenario reached, in both runs.

An attempt is the unit: its turns, records and tasks succeed and fail together. A task's value in
an attempt is the share of its results there that passed.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

from scouter.evaluate.compare.counts import Tally
from scouter.evaluate.compare.gate_counts import Attempt
from scouter.evaluate.compare.pairing import Matched, Row, by_identity
from scouter.evaluate.compare.rows import WHOLE_CONVERSATIONS, WHOLE_RECORDS, WHOLE_SCENARIOS
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.statistics.permutation import Stratum

_PASSED: Final = Outcome.PASSED

_Cells: TypeAlias = dict[str, list[int]]
"""Per task of one attempt: results that passed, and results that count."""


def add_strata(
    matched: Matched,
    missing: Iterable[Row],
    tallies: Mapping[str, Tally],
    whole: Tally,
    scenarios: Collection[str] | None,
) -> None:
    """Give each task, and their sum, the strata that it is tested by.

    A task that an attempt lacks did not pass there. The tasks of a record that the attempt should
    have made did not pass, either. A task that was skipped for a budget or a sample leaves the
    attempt out.

    Both runs are treated alike, so that an agent which now leaves two records and now three is as
    likely to rise as to fall: a record that only the new run always leaves is missing before.

    Args:
        matched: Records that both runs made.
        missing: Records that the new run should have made.
        tallies: Per task; those that the baseline lacks are not tested.
        whole: The sum over the tasks that the baseline has.
        scenarios: Those that both runs ran; None if all of them count.

    Cost: linear in the number of task results.
    """
    tried, tries = matched.repeats
    made = by_identity(matched.new_rows)
    added = (
        row for row in matched.added if row.attempt < tried and len(made[row.identity]) == tries
    )
    old, new = _cells(matched.old_rows, added), _cells(matched.new_rows, missing)
    known = [name for name, tally in tallies.items() if tally.old_count]
    strata: dict[str, list[Stratum]] = {name: [] for name in known}
    sums: list[Stratum] = []
    for scenario_id in dict.fromkeys([*old, *new]):
        if scenarios is not None and scenario_id not in scenarios:
            continue
        sides = [
            [cells.get(scenario_id, {}).get(attempt, {}) for attempt in range(times)]
            for cells, times in zip((old, new), matched.repeats, strict=True)
        ]
        here = {name for side in sides for cells in side for name in cells}
        names = [name for name in known if name in here]
        for name in names:
            strata[name].append(Stratum(*(_shares(side, [name]) for side in sides)))
        sums.append(Stratum(*(_shares(side, names) for side in sides)))
    for name in known:
        tallies[name].strata = strata[name]
    whole.strata = sums


def _cells(rows: Iterable[Row], missing: Iterable[Row]) -> dict[str, dict[int, _Cells]]:
    """By scenario and attempt, what the records reached and those that should be there."""
    found: dict[str, dict[int, _Cells]] = {}
    for those, is_missing in ((rows, False), (missing, True)):
        for row in those:
            if row.identity.scenario_id is not None:
                attempts = found.setdefault(row.identity.scenario_id, {})
                _add(attempts.setdefault(row.attempt, {}), row, is_missing=is_missing)
    return found


def _add(cells: _Cells, row: Row, *, is_missing: bool = False) -> None:
    for name, task in row.tasks.items():
        cell = cells.get(name)
        if cell is None:
            cells[name] = cell = [0, 0]
        cell[0] += task.outcome is _PASSED and not is_missing
        cell[1] += is_counted(task)


def _shares(attempts: Sequence[_Cells], names: Sequence[str]) -> list[Fraction | int]:
    """Give the share of passed results of some tasks, for each attempt in which they count."""
    values: list[Fraction | int] = []
    for cells in attempts:
        passed = counted = 0
        for name in names:
            cell = cells.get(name)
            if cell is None:
                counted += 1
            else:
                passed += cell[0]
                counted += cell[1]
        if counted:
            is_whole = passed in (0, counted)  # whole numbers take a tenth of a fraction's time
            values.append(passed // counted if is_whole else Fraction(passed, counted))
    return values


def whole_scenarios(
    old: Mapping[str, Sequence[Attempt]], new: Mapping[str, Sequence[Attempt]]
) -> Tally:
    """Count the attempts that passed as a whole; a scenario is a conversation.

    Args:
        old: The baseline's attempts, by scenario.
        new: The new run's.
    """
    tally = Tally(None, WHOLE_SCENARIOS, is_clustered=True)
    strata: list[Stratum] = []
    for name in dict.fromkeys([*old, *new]):
        before, now = old.get(name, ()), new.get(name, ())
        for was, passes in zip(before, now, strict=False):
            tally.add_twice(
                name,
                bool(was.passed), was.passed is not None,
                bool(passes.passed), passes.passed is not None,
            )  # fmt: skip
        for was in before[len(now) :]:
            tally.add_old(bool(was.passed), was.passed is not None)
        for passes in now[len(before) :]:
            tally.add_new(bool(passes.passed), passes.passed is not None)
        values = [
            [int(each.passed) for each in side if each.passed is not None] for side in (before, now)
        ]
        if all(values):
            strata.append(Stratum(*values))
    tally.strata = strata
    return tally


def whole_conversations(matched: Matched, alias: str | None) -> Tally:
    """Count what passed as a whole in a run of records: scenarios, or else conversations."""
    if any(row.identity.scenario_id for row in matched.old_rows):
        old = _attempts(matched.old_rows, matched.repeats[0])
        tally = whole_scenarios(old, _attempts(matched.new_rows, matched.repeats[1], old))
        tally.alias = alias
        return tally
    paired, lost = matched.clusters()
    found: dict[Hashable, list[bool | None]] = {}
    for pair, cluster in zip(matched.pairs, paired, strict=True):
        lacks = any(name not in pair.now.tasks for name in pair.old.tasks)
        _note(found, cluster, _passed(pair.old), False if lacks else _passed(pair.now))
    for row, cluster in zip(matched.missing, lost, strict=True):
        _note(found, cluster, _passed(row), False)
    is_single = len(found) == len(paired) + len(lost)
    tally = Tally(alias, WHOLE_RECORDS if is_single else WHOLE_CONVERSATIONS, is_clustered=False)
    if not matched.pairs and matched.added:
        _add_apart(tally, matched)
        return tally
    for was, passes in found.values():
        tally.add_twice(None, bool(was), was is not None, bool(passes), passes is not None)
    return tally


_OUTCOMES: Final[Mapping[bool | None, Outcome]] = {
    True: Outcome.PASSED,
    False: Outcome.FAILED,
    None: Outcome.SKIPPED,
}


def _attempts(
    rows: Iterable[Row], tries: int, expected: Iterable[str] = ()
) -> dict[str, list[Attempt]]:
    """The attempts of scenarios that left records, or should have; one without did not pass."""
    known: dict[str, dict[Hashable, list[bool | None]]] = {name: {} for name in expected}
    for row in rows:
        if row.identity.scenario_id is not None:
            _note(known.setdefault(row.identity.scenario_id, {}), row.attempt, _passed(row))
    return {
        name: [
            Attempt(
                scenario_id=name,
                attempt=attempt,
                outcome=_OUTCOMES[found[attempt][0] if attempt in found else False],
                is_errored=False,
            )
            for attempt in range(tries)
        ]
        for name, found in known.items()
    }


def _note(
    found: dict[Hashable, list[bool | None]], cluster: Hashable, *passed: bool | None
) -> None:
    """Add a record to its conversation: one that failed outweighs one that nobody judged."""
    known = found.setdefault(cluster, [True, True])
    for at, now in enumerate(passed):
        if known[at] is not False and now is not True:
            known[at] = now


def _passed(row: Row) -> bool | None:
    if row.outcome in {Outcome.FAILED, Outcome.ERRORED}:
        return False
    if row.outcome is not _PASSED or any(t.reason is Reason.BUDGET for t in row.tasks.values()):
        return None
    return True


def _add_apart(tally: Tally, matched: Matched) -> None:
    """Count conversations that nothing pairs: those of one run against those of the other."""
    sides: list[list[int]] = []
    for rows, add in ((matched.old_rows, tally.add_old), (matched.new_rows, tally.add_new)):
        known: dict[Hashable, list[bool | None]] = {}
        for row in rows:
            _note(known, row.session_id or row.key, _passed(row))
        for passed, _ in known.values():
            add(bool(passed), passed is not None)
        sides.append([int(passed) for passed, _ in known.values() if passed is not None])
    tally.strata, tally.is_apart = [Stratum(*sides)], True


def add_strata_apart(tallies: Mapping[str, Tally], whole: Tally, matched: Matched) -> None:
    """Give each task the one stratum that it is tested by where nothing can be paired."""
    old, new = ([*_conversations(rows)] for rows in (matched.old_rows, matched.new_rows))
    known = [name for name, tally in tallies.items() if tally.old_count]
    for name in known:
        tallies[name].strata = [Stratum(*(_present(side, [name]) for side in (old, new)))]
    whole.strata = [Stratum(*(_present(side, known) for side in (old, new)))]
    for tally in (*(tallies[name] for name in known), whole):
        tally.is_apart = True


def _conversations(rows: Iterable[Row]) -> Iterable[_Cells]:
    found: dict[Hashable, _Cells] = {}
    for row in rows:
        _add(found.setdefault(row.session_id or row.key, {}), row)
    return found.values()


def _present(conversations: Sequence[_Cells], names: Sequence[str]) -> list[Fraction | int]:
    """Give the shares of `_shares`, counting only the tasks that each conversation has."""
    return [
        value
        for cells in conversations
        for value in _shares([cells], [name for name in names if name in cells])
    ]
