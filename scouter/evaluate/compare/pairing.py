"""Finding the records of one run again in another.

A record is known by its scenario, its attempt, the user's record id and its place among those with
the same id. Where a scenario's ids are others in every run (as random ones are), by its place
alone. Sessions are found by their ids in the same way, among sessions. Never by bare position where
there are ids, as sub-agents that work at the same time finish in any order, and never by a uid,
which is new in every run.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.task_result import EvalTaskResult


class Identity(NamedTuple):
    """Identity of a record, the same in every attempt and every run."""

    scenario_id: str | None
    record_id: str
    """Empty for the group of those without one."""
    ordinal: int
    """Place, from 0, among the records of its scenario and attempt with this id."""


class Row(NamedTuple):
    """One record of one run."""

    key: tuple[Identity, int]
    """Identity and attempt, by which a record is found again in the other run."""
    identity: Identity
    attempt: int
    session_id: str
    record_id: str
    outcome: Outcome
    tasks: Mapping[str, EvalTaskResult]


class Pair(NamedTuple):
    """One record in both runs."""

    old: Row
    now: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Matched:
    """The records of two runs, side by side."""

    pairs: Sequence[Pair]
    missing: Sequence[Row]
    """Records that only the baseline has, from attempts that the new run made as well."""
    left_out: Sequence[Row]
    """Records of the baseline from attempts that the new run did not make."""
    added: Sequence[Row]
    """Records that only the new run has."""
    repeats: tuple[int, int]
    """Number of attempts at each scenario, in the baseline and in the new run."""
    unstable: Set[str]
    """Scenarios whose record ids are others in every run."""

    @property
    def is_repeated(self) -> bool:
        """Tell whether a run tried its scenarios more than once."""
        return max(self.repeats) > 1

    @property
    def old_rows(self) -> Iterator[Row]:
        """All records of the baseline."""
        yield from (pair.old for pair in self.pairs)
        yield from self.missing
        yield from self.left_out

    @property
    def new_rows(self) -> Iterator[Row]:
        """All records of the new run."""
        yield from (pair.now for pair in self.pairs)
        yield from self.added

    def clusters(self) -> tuple[list[Hashable], list[Hashable]]:
        """Name the conversation of each pair and of each missing record: its scenario.

        Outside of a replay it is the record's session. A sender that names no session gives each
        record one of its own; then the new run's sessions may say more.
        """
        old = {pair.old.session_id for pair in self.pairs}
        new = {pair.now.session_id for pair in self.pairs}
        by_new = len(new) < len(old)
        return [
            row.identity.scenario_id or (now if by_new else row).session_id or row.key
            for row, now in self.pairs
        ], [row.identity.scenario_id or row.session_id or row.key for row in self.missing]


def match(old: ResultRows, new: ResultRows, repeats: tuple[int, int] | None = None) -> Matched:
    """Find the records of the baseline again.

    Args:
        old: The baseline.
        new: The run in question.
        repeats: Attempts of each run at a scenario; by default as many as the records show.

    Cost: linear in records and task results.
    """
    unstable, by_name = _unstable(old, new), _share_sessions(old, new)
    old_rows = {row.key: row for row in _rows(old, unstable, by_name=by_name)}
    new_rows = {row.key: row for row in _rows(new, unstable, by_name=by_name)}
    tried = repeats or (_attempts(old), _attempts(new))
    lost = [row for key, row in old_rows.items() if key not in new_rows]
    return Matched(
        pairs=[Pair(row, new_rows[key]) for key, row in old_rows.items() if key in new_rows],
        missing=[row for row in lost if row.attempt < tried[1]],
        left_out=[row for row in lost if row.attempt >= tried[1]],
        added=[row for key, row in new_rows.items() if key not in old_rows],
        repeats=tried,
        unstable=unstable,
    )


def by_identity(rows: Iterable[Row]) -> dict[Identity, list[Row]]:
    """Group the attempts of each record."""
    found: dict[Identity, list[Row]] = {}
    for row in rows:
        found.setdefault(row.identity, []).append(row)
    return found


def name_of(row: Row, *, with_attempt: bool = False) -> str:
    """Name a record for people: scenario, id, place and, with repeats, the attempt."""
    scenario_id, _, ordinal = row.identity
    parts = [scenario_id, row.record_id]
    if ordinal or not row.record_id:
        parts.append(f"#{ordinal + 1}")
    if with_attempt:
        parts.append(f"(attempt {row.attempt + 1})")
    return " ".join(part for part in parts if part)


def _attempts(results: ResultRows) -> int:
    return max(results.attempts or (0,)) + 1


def _unstable(old: ResultRows, new: ResultRows) -> Set[str]:
    """Scenarios with record ids in both runs, of which none is in both."""
    before, after = _ids(old), _ids(new)
    return {
        scenario
        for scenario, ids in before.items()
        if ids and after.get(scenario) and ids.isdisjoint(after[scenario])
    }


def _ids(results: ResultRows) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for row in results:
        if row.scenario_id is not None and row.record_id and row.record.scope == "record":
            found.setdefault(row.scenario_id, set()).add(row.record_id)
    return found


def _share_sessions(old: ResultRows, new: ResultRows) -> bool:
    """Tell whether sessions can be found by name: ids that nobody gave are others in every run."""
    names = {session.record_id for session in old.sessions}
    return any(session.record_id in names for session in new.sessions)


def _rows(results: ResultRows, unstable: Set[str], *, by_name: bool) -> Iterator[Row]:
    seen: dict[tuple[str | None, int, str], int] = {}
    for each in results:
        record, scenario, attempt = each.record, each.scenario_id, each.attempt
        known_by = "" if scenario in unstable else record.record_id
        if record.scope == "session":  # never taken for a record without an id
            known_by = record.record_id if by_name else "session"
        group = (scenario, attempt, known_by)
        ordinal = seen.get(group, 0)
        seen[group] = ordinal + 1
        identity = Identity(scenario, known_by, ordinal)
        yield Row(
            (identity, attempt),
            identity,
            attempt,
            record.session_id,
            record.record_id,
            record.outcome,
            {task.task_id: task for task in record.tasks},
        )


class Sides:
    """Names that both runs have, that are new, and that are gone; each in its run's order."""

    def __init__(self, old: Iterable[str], new: Iterable[str]) -> None:
        before, after = dict.fromkeys(old), dict.fromkeys(new)
        self.both = [name for name in before if name in after]
        self.added = [name for name in after if name not in before]
        self.removed = [name for name in before if name not in after]
