"""Changes of totals and rollups by the rows of a commit, and by rows that go."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from collector.metrics import NO_TASK, TotalKey, TotalName, revision_label, task_label
from collector.store.commit import Commit, count_rows, text_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.reads import NO_NEWER, Change, Connection
from collector.store.rows import EvaluationRow
from collector.store.totals import (
    RollupKey,
    RollupReads,
    TotalReads,
    of_evaluation,
    of_letters,
    of_records,
    of_spans,
    rollup_keys,
)
from collector.store.work import WorkReads

# All SQL is put together from this module's own words; values travel as parameters.

_REVISIONS: Final = """
    SELECT space, record_uid, revision, profile_uid FROM evaluations
    WHERE uid_hash = ANY($1::BIGINT[])
"""
_LATEST: Final = """
    SELECT DISTINCT ON (space, record_uid) space, record_uid, body FROM evaluations
    WHERE uid_hash = ANY($1::BIGINT[]) ORDER BY space, record_uid, revision DESC
"""
_PENDING: Final = f"""
    SELECT t.space, sum(t.pending)::BIGINT FROM evaluations t
    WHERE t.pending > 0 AND {{condition}} AND {NO_NEWER.format("t")}
    GROUP BY t.space
"""
_Key = tuple[str, str]
"""Space and uid."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers to add."""

    totals: Counter[TotalKey] = field(default_factory=Counter[TotalKey])
    rollups: Counter[RollupKey] = field(default_factory=Counter[RollupKey])

    def rows(self) -> dict[str, list[Sequence[object]]]:
        """Rows by table, as `Reads.write` takes them."""
        return {"totals": count_rows(self.totals), "rollups": count_rows(self.rollups)}


class CountingReads(TotalReads, RollupReads, WorkReads):
    """Reads of whoever writes: what is new, and what it counts."""

    def counted(self, commit: Commit) -> Commit:
        """A commit without letters and evaluations that are stored already, and all that it counts.

        An evaluation is new if its record or session has none of its revision. A revision counts in
        place of the one before it, and is passed over where there is none: retention took it.

        Args:
            commit: Nothing of it was erased. Its totals are those that no row says.

        Cost: a scan of the hashes of evaluations if one of them may be stored.
        """
        letters = self.new_letters(commit.letters)
        totals = Counter(commit.totals)
        for each in (
            of_spans(commit.spans, commit.replaced), of_records(commit.records), of_letters(letters)
        ):  # fmt: skip
            totals.update(each)
        found = _New(*self._stored(commit.evaluations))
        evaluations = [row for row in commit.evaluations if found.take(row)]
        totals.update(found.totals)
        return replace(
            commit, letters=letters, evaluations=evaluations, totals=totals, rollups=found.rollups
        )

    def _stored(
        self, rows: Iterable[EvaluationRow]
    ) -> tuple[dict[_Key, dict[int, str]], dict[_Key, EvaluationRow]]:
        """Profiles by revision, and of records that get a revision the latest evaluation."""
        hashes: dict[int, bool] = {}
        for row in rows:
            number = text_hash(row.record_uid)
            hashes[number] = hashes.get(number, False) or row.revision > 1
        maybe = self.maybe("evaluated", list(hashes))
        versions: defaultdict[_Key, dict[int, str]] = defaultdict(dict)
        if not maybe:
            return versions, {}
        for space, uid, revision, profile_uid in self.read_for_work(_REVISIONS, [maybe]):
            versions[space, uid][revision] = profile_uid
        again = [each for each in maybe if hashes[each]]
        bodies = self.read_for_work(_LATEST, [again]) if again and versions else []
        return versions, {(space, uid): decode_evaluation(body) for space, uid, body in bodies}

    def gone_counts(self, condition: str, values: Sequence[object]) -> Counts:
        """Losses of rollups and pending tasks by evaluations that go; counters stay.

        Args:
            condition: SQL that names evaluations and their results alike, both as `t`.
            values: Its parameters.
        """
        pending = self.read_for_work(_PENDING.format(condition=condition), values)
        totals = Counter({TotalKey(TotalName.PENDING, space): -n for space, n in pending})
        rollups = Counter({key: -n for key, n in self.rollups_of(condition, values).items()})
        return Counts(totals, rollups)

    def sums(
        self, totals: Mapping[TotalKey, int]
    ) -> tuple[dict[str, list[Sequence[object]]], list[Change]]:
        """One row for each key in place of several, and the change that takes those out.

        Args:
            totals: All of them.

        Cost: linear in the rows; those of hours with one row for each key are left as they are.
        """
        hours, seq = self.split_hours(), self.last_seq()

        def change(connection: Connection) -> None:
            # Also right for a copy of the file, which has some of these rows.
            connection.execute("DELETE FROM totals WHERE seq <= $1", [seq])
            sql = "DELETE FROM rollups WHERE seq <= $1 AND hour_ns = ANY($2::BIGINT[])"
            connection.execute(sql, [seq, hours])

        return {"totals": count_rows(totals), "rollups": list(self.rollups_in(hours))}, [change]


class _New:
    """Takes evaluations in order, and counts those that are new.

    Args:
        versions: Profiles by revision, of what is stored.
        latest: The latest evaluation of what gets a revision.
    """

    def __init__(
        self, versions: dict[_Key, dict[int, str]], latest: dict[_Key, EvaluationRow]
    ) -> None:
        self._versions, self._latest = versions, latest
        self.totals: Final = Counter[TotalKey]()
        self.rollups: Final = Counter[RollupKey]()

    def take(self, row: EvaluationRow) -> bool:
        """Count an evaluation if it is new; tells whether it is."""
        key = (row.space, row.record_uid)
        versions, before = self._versions.setdefault(key, {}), self._latest.get(key)
        if row.revision in versions or (row.revision > 1 and before is None):
            return False
        versions[row.revision] = row.profile_uid
        if before is not None:
            self._revise(before, row, is_same=set(versions.values()) == {row.profile_uid})
        self._latest[key] = row
        self.totals.update(of_evaluation(row))
        self.rollups.update(rollup_keys(row))
        return True

    def _revise(self, before: EvaluationRow, row: EvaluationRow, *, is_same: bool) -> None:
        """Count an evaluation in place of the one before it.

        First evaluations and revisions add up to one outcome for each task only where the first of
        them is counted, and each later one follows from it: so once another version has evaluated,
        nothing that comes behind is a revision, be it by the first version again.
        """
        if before.pending:
            self.totals[TotalKey(TotalName.PENDING, before.space)] -= before.pending
        self.rollups.subtract(rollup_keys(before))
        was = {task.task_id: task_label(task.outcome, task.reason) for task in before.tasks}
        now = {task.task_id: task_label(task.outcome, task.reason) for task in row.tasks}
        name = TotalName.REVISIONS if is_same else TotalName.REEVALUATIONS
        for task in was | now:
            change = was.get(task, NO_TASK), now.get(task, NO_TASK)
            if change[0] != change[1]:
                label = revision_label(*change)
                key = TotalKey(name, row.space, row.profile_name, row.alias, task, label)
                self.totals[key] += 1
