"""Totals and rollups: what is counted for good, in the transaction that makes it true.

Both tables have changes: the count of a key is the sum of its rows. A commit adds those of its
rows, and rows that go take theirs out of the rollups.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from collector.metrics import (
    NO_TASK,
    RECEIVED,
    TotalKey,
    TotalName,
    Totals,
    revision_label,
    task_label,
)
from collector.store.commit import Commit, count_rows, text_hash
from collector.store.json_text import decode_evaluation
from collector.store.letters import DeadLetter
from collector.store.reads import NO_NEWER, Change, Connection, Reads
from collector.store.rows import Completeness, EvaluationRow, RecordRow, RollupKey, Scope
from collector.store.span_rows import SpanRow
from collector.store.work import WorkReads
from scouter.evaluate.outcome import Outcome, Reason

HOUR_NS: Final = 3_600_000_000_000
_KEYS: Final = ", ".join(RollupKey._fields)
_OF_RESULTS: Final = f"""
    SELECT t.space, t.evaluated_ns - t.evaluated_ns % {HOUR_NS} AS hour_ns, t.profile_uid,
        t.profile_digest, t.profile_name, t.alias, t.service_version, t.environment, t.task_id,
        t.position, t.outcome,
        CASE WHEN t.outcome = 'skipped' AND t.reason = '{Reason.GATE}' THEN 1 ELSE 0 END AS gated,
        t.score, count(*) AS n
    FROM task_results t
    WHERE t.outcome <> 'pending' AND {{condition}} AND {NO_NEWER.format("t")}
    GROUP BY {", ".join(map(str, range(1, len(RollupKey._fields) + 1)))}
"""
_SPLIT: Final = f"""
    SELECT DISTINCT hour_ns FROM (
        SELECT hour_ns FROM rollups GROUP BY {_KEYS} HAVING count(*) > 1 OR sum(n) = 0
    ) h
"""
"""The hours with keys of several rows, or of rows that cancel each other."""
_SUMS: Final = f"""
    SELECT {_KEYS}, sum(n)::BIGINT FROM rollups WHERE hour_ns = ANY($1::BIGINT[])
    GROUP BY {_KEYS} HAVING sum(n) <> 0
"""


def rollup_keys(row: EvaluationRow) -> Iterator[RollupKey]:
    """The counts that an evaluation adds one to: one for each task that is not pending."""
    hour_ns = row.evaluated_ns - row.evaluated_ns % HOUR_NS
    for position, task in enumerate(row.tasks):
        if task.outcome is Outcome.PENDING:
            continue
        gated = task.outcome is Outcome.SKIPPED and task.reason == Reason.GATE
        yield RollupKey(
            row.space, hour_ns, row.profile_uid, row.profile_digest, row.profile_name, row.alias,
            row.service_version, row.environment, task.task_id, position, task.outcome.value,
            int(gated), task.own_score,
        )  # fmt: skip


_ALL: Final = """
    SELECT name, space, profile, alias, task, label, sum(n)::BIGINT FROM totals
    GROUP BY name, space, profile, alias, task, label
"""


class TotalReads(Reads):
    """Reads of the totals."""

    def stored_totals(self) -> dict[TotalKey, int]:
        """All counts. Cost: linear in the rows since they were added up."""
        return {
            TotalKey(TotalName(name), *parts): n for name, *parts, n in self.read_for_work(_ALL)
        }


def span_label(*, is_event: int) -> str:
    """The label under which a span or log event is counted."""
    return "event" if is_event else "span"


def of_spans(rows: Iterable[SpanRow], replaced: Iterable[tuple[str, ...]]) -> Counter[TotalKey]:
    """Count accepted spans.

    Args:
        rows: The spans of a commit.
        replaced: The keys of those of which a version was stored before.
    """
    known = set(replaced)
    found = Counter(
        (RECEIVED[span_label(is_event=row.is_event)], row.space)
        for row in rows
        if not known or (row.space, row.trace_id, row.span_id) not in known
    )
    return Counter({TotalKey(*name): n for name, n in found.items()})


def of_records(rows: Iterable[RecordRow]) -> Counter[TotalKey]:
    """Count accepted records."""
    found = Counter[TotalKey]()
    for row in rows:
        parts = (row.space, row.profile_name, row.alias)
        found[TotalKey(TotalName.RECORDS_RECEIVED, *parts)] += 1
        if row.is_derived:
            found[TotalKey(TotalName.RECORDS_DERIVED, *parts)] += 1
    return found


def of_letters(rows: Iterable[DeadLetter]) -> Counter[TotalKey]:
    """Count what was put aside."""
    return Counter(TotalKey(TotalName.DEAD_LETTERS, row.space, label=row.reason) for row in rows)


def of_evaluation(row: EvaluationRow) -> Counter[TotalKey]:
    """Count an evaluation, as far as it is a first one of its time, and its pending tasks."""
    found = Counter[TotalKey]()
    if row.pending:
        found[TotalKey(TotalName.PENDING, row.space)] += row.pending
    if row.revision > 1 or row.is_backfill:
        return found
    parts = (row.space, row.profile_name, row.alias)
    for task in row.tasks:
        label = task_label(task.outcome, task.reason)
        found[TotalKey(TotalName.TASKS, *parts, task.task_id, label)] += 1
    if row.is_score:
        return found
    is_record = row.scope is Scope.RECORD
    name = TotalName.RECORDS if is_record else TotalName.SESSIONS
    found[TotalKey(name, *parts, label=row.outcome.value)] += 1
    if is_record and row.completeness is Completeness.DEADLINE:
        found[TotalKey(TotalName.INCOMPLETE, *parts)] += 1
    return found


def added(totals: Totals, more: Mapping[TotalKey, int]) -> Totals:
    """Totals with some more; those before stay as they are for who reads them."""
    return {**totals, **{key: totals.get(key, 0) + n for key, n in more.items()}}


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


class CountingReads(TotalReads, WorkReads):
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

    def rollups_of(self, condition: str, values: Sequence[object]) -> Counter[RollupKey]:
        """Count what stored results have added to the rollups.

        Args:
            condition: SQL about the results `t`.
            values: Its parameters.
        """
        rows = self.read_for_work(_OF_RESULTS.format(condition=condition), values)
        return Counter({RollupKey(*key): n for *key, n in rows})

    def sums(
        self, totals: Mapping[TotalKey, int]
    ) -> tuple[dict[str, list[Sequence[object]]], list[Change]]:
        """One row for each key in place of several, and the change that takes those out.

        Args:
            totals: All of them.

        Cost: linear in the rows; those of hours with one row for each key are left as they are.
        """
        hours = [hour for (hour,) in self.read_for_work(_SPLIT)]
        rollups, seq = self.read_for_work(_SUMS, [hours]), self.last_seq()

        def change(connection: Connection) -> None:
            # Also right for a copy of the file, which has some of these rows.
            connection.execute("DELETE FROM totals WHERE seq <= $1", [seq])
            sql = "DELETE FROM rollups WHERE seq <= $1 AND hour_ns = ANY($2::BIGINT[])"
            connection.execute(sql, [seq, hours])

        return {"totals": count_rows(totals), "rollups": list(rollups)}, [change]


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
        if row.is_backfill:  # its first one was not counted
            return
        was = {task.task_id: task_label(task.outcome, task.reason) for task in before.tasks}
        now = {task.task_id: task_label(task.outcome, task.reason) for task in row.tasks}
        name = TotalName.REVISIONS if is_same else TotalName.REEVALUATIONS
        for task in was | now:
            change = was.get(task, NO_TASK), now.get(task, NO_TASK)
            if change[0] != change[1]:
                label = revision_label(*change)
                key = TotalKey(name, row.space, row.profile_name, row.alias, task, label)
                self.totals[key] += 1
