"""One commit in the making: rows and counts that become durable together."""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from collector.metrics import (
    LOG_APPLIED,
    NO_TASK,
    RECEIVED,
    TotalKey,
    TotalName,
    Totals,
    revision_label,
    task_label,
)
from collector.storage.duckdb.arrow import Columns, Schema
from collector.storage.duckdb.columns import EvaluationColumns, RecordColumns
from collector.storage.duckdb.database import Database, insert, literal, run
from collector.storage.duckdb.letter_keys import is_of_spans, tombstones_of
from collector.storage.duckdb.rollup import RollupKey, rollup_keys
from collector.storage.duckdb.span_rows import AddedSpans, SpanRows
from collector.storage.duckdb.tombstones import Tombstone, Tombstones, record_tombstone
from collector.storage.log.span_codec import EncodedBatch, trace_hash
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow, TraceKey
from scouter.transport.drops import Count

_FEW_ROWS: Final = 12
_FEW_VALUES: Final = 8
FEW_DELETES: Final = 16
"""Rows that may be taken out within the memory that there is for everything."""


class Transaction:
    """Collects what the jobs of a group add, then writes it with one statement per table.

    Args:
        database: The open file.
        seq: Number of this commit.
        totals: Counts before it.
        tombstones: Marks of the erasures before it.
    """

    def __init__(
        self, database: Database, seq: int, totals: Totals, tombstones: Tombstones
    ) -> None:
        self.seq = seq
        self.tombstones = tombstones
        """Marks of what was erased before this commit."""
        self.erased: set[Tombstone] = set()
        """Marks of what this commit erases."""
        self.deltas: Counter[TotalKey] = Counter()
        self.spans = SpanRows()
        self.new_traces: set[TraceKey] = set()
        """Traces of the group's records of which nothing was stored before the group."""
        self.records: dict[tuple[str, str], str] = {}
        """Digest by (space, uid): stored ones that were looked up, and those added here."""
        self.record_hashes: set[int] = set()
        """Hashes of the uids of records that were added here."""
        self.evaluation_hashes: set[int] = set()
        """Hashes of the uids of the records whose evaluations were added here."""
        self.evaluation_traces: set[int] = set()
        """Hashes of their traces."""
        self.versions: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        """Uid of the profile that gave each revision, by (space, uid): of the stored evaluations
        that were looked up, and those added here."""
        self.latest: dict[tuple[str, str], EvaluationRow] = {}
        """Latest evaluation by (space, uid): what the group's revisions follow, and those added."""
        self.runs: set[tuple[str, str]] = set()
        """Space and id of the runs that were added here."""
        self.drops: dict[tuple[str, str, str], Count] = {}
        """Counts of senders' drops that were added here, by (space, sender, reason)."""
        self._rollups: Counter[RollupKey] = Counter()
        self._database, self._totals = database, totals
        self._rows: defaultdict[str, list[Sequence[Any]]] = defaultdict(list)
        self._columns: defaultdict[str, list[Columns]] = defaultdict(list)
        self._letters: dict[str, DeadLetter] = {}
        self._applied = 0
        self.written: Counter[str] = Counter()
        """Rows that `write` wrote, by table."""
        self.lost = False
        """True if spans are taken out here."""

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """Schema of every table."""
        return self._database.schemas

    def count(self, name: TotalName, space: str, n: int = 1, **parts: str) -> None:
        """Add to a total."""
        self.deltas[TotalKey(name, space, **parts)] += n

    def add(self, table: str, *values: object) -> None:
        """Add a row; the commit's number is put before the values."""
        self._rows[table].append((self.seq, *values))

    def ordinal(self, table: str) -> int:
        """Position that the next row of a table gets inside this commit."""
        return len(self._rows[table])

    def add_spans(
        self, space: str, received_ns: int, frame: int, batch: EncodedBatch
    ) -> AddedSpans:
        """Add every span of a batch of which no stored one is as good; see `SpanRows.add`."""
        added = self.spans.add(space, received_ns, frame, batch)
        if added.new:
            self.count(RECEIVED[batch.kind], space, added.new)
        if added.new < len(batch.spans):
            repeated = len(batch.spans) - added.new
            self.count(TotalName.DUPLICATES, space, repeated, label=batch.kind)
        return added

    def applied(self, place: int) -> None:
        """Tell that everything before a place of the span log is in the database, or put aside."""
        self._applied = max(self._applied, place)

    def add_records(self, given: RecordColumns) -> None:
        """Accept records that are known to be new."""
        self.record_hashes.update(given.hashes)
        counts = Counter((row.space, row.profile_name, row.alias) for row in given.rows)
        for (space, name, alias), n in counts.items():
            self.count(TotalName.RECORDS_RECEIVED, space, n, profile=name, alias=alias)
        for row in given.rows:
            if row.is_derived:
                self.count(
                    TotalName.RECORDS_DERIVED, row.space, profile=row.profile_name, alias=row.alias
                )
        self._columns["records"].append(given.records)

    def is_first_of_trace(self, row: RecordRow) -> bool:
        """Tell whether no span of a record's trace is stored, nor was added here before."""
        key = (row.space, row.trace_id or "")
        return key in self.new_traces and not self.spans.known.get(key)

    def is_erased(self, space: str, uid: str) -> bool:
        """Say whether somebody had a record erased; what is still said of it is dropped."""
        return self.tombstones.has_record(space, uid) or (
            bool(self.erased) and record_tombstone(space, uid) in self.erased
        )

    def add_letter(self, letter: DeadLetter) -> None:
        """Put an item aside, once for each place that it came from.

        A sender may repeat a refused item, too. The letter of an erased item is a duplicate.
        """
        if letter.was_accepted:
            if self.is_erased(letter.space, letter.uid):
                return
        elif self._is_of_erased(letter):
            label = "span" if is_of_spans(letter) else "record"
            self.count(TotalName.DUPLICATES, letter.space, label=label)
            return
        self._letters.setdefault(letter_key(letter), letter)

    def is_new(self, row: EvaluationRow) -> bool:
        """Tell whether an evaluation has to be stored; the ones after it then follow it.

        A revision is stored where the evaluation before it is.
        """
        key = (row.space, row.record_uid)
        before = self.latest.get(key)
        if row.revision in self.versions[key] or (row.revision > 1 and before is None):
            return False  # stored already; or retention took the record during the evaluation
        if self.is_erased(row.space, row.record_uid):
            return False  # an erasure came during the evaluation
        self.versions[key][row.revision] = row.profile_uid
        if before is not None:
            self._revise(before, row)
        self.latest[key] = row
        return True

    def add_evaluations(self, given: EvaluationColumns) -> None:
        """Store evaluations that are new, their task results and what they add to the totals."""
        self.evaluation_hashes.update(given.hashes)
        self.evaluation_traces.update(
            trace_hash(row.trace_id) for row in given.rows if row.trace_id
        )
        self._columns["evaluations"].append(given.evaluations)
        if given.task_results is not None:
            self._columns["task_results"].append(given.task_results)
        self.deltas.update(given.totals)
        self._rollups.update(given.rollups)

    def _revise(self, before: EvaluationRow, row: EvaluationRow) -> None:
        """Count an evaluation in place of the one before it.

        First evaluations and revisions add up to one outcome for each task only where the first of
        them is counted, and each later one follows from it: so once another version has evaluated,
        nothing that comes behind is a revision, be it by the first version again.
        """
        if before.pending:
            self.count(TotalName.PENDING, before.space, -before.pending)
        self._rollups.subtract(rollup_keys(before))
        was = {task.task_id: task_label(task.outcome, task.reason) for task in before.tasks}
        now = {task.task_id: task_label(task.outcome, task.reason) for task in row.tasks}
        is_same = {*self.versions[row.space, row.record_uid].values()} == {row.profile_uid}
        name = TotalName.REVISIONS if is_same else TotalName.REEVALUATIONS
        for task in was | now:
            change = was.get(task, NO_TASK), now.get(task, NO_TASK)
            if change[0] != change[1]:
                self.count(
                    name, row.space, profile=row.profile_name, alias=row.alias,
                    task=task, label=revision_label(*change),
                )  # fmt: skip

    def write(self) -> Totals:
        """Write everything inside the open transaction of the calling thread's connection.

        Returns:
            The totals as they are after the commit.
        """
        self._remove_replaced()
        advanced = self._applied - self._totals.get(LOG_APPLIED, 0)
        if advanced > 0:
            self.deltas[LOG_APPLIED] = advanced
        self._add_new_letters()
        for key, n in self._rollups.items():
            if n:
                self.add("rollups", *key, n)
        for key, n in self.deltas.items():
            self.add("totals", *key, n)
        spans = self.spans.to_table(self.schemas["spans"], self.seq)
        if spans is not None:
            self._insert("spans", spans)
        for table, parts in self._columns.items():
            self._insert(table, self._database.schemas[table].join(parts, self.seq))
        for table, rows in self._rows.items():
            if 0 < len(rows) <= _FEW_ROWS:
                self._insert_few(table, rows)
            elif rows:
                self._insert(table, self._database.schemas[table].of_rows(rows))
        changed = {key: self._totals.get(key, 0) + n for key, n in self.deltas.items()}
        return {**self._totals, **changed}

    def _remove_replaced(self) -> None:
        """Take out the spans that better ones replace: one look at the keys of all, for any number.

        An exporter that sends a long trace again would hold up every commit for minutes otherwise.
        """
        replaced = self.spans.replaced
        if not replaced:
            return
        if len(replaced) > FEW_DELETES:
            self._database.make_room()
        spaces, trace_ids, span_ids = (list(each) for each in zip(*replaced, strict=True))
        run(
            self._database.connection(),
            "DELETE FROM spans USING (SELECT unnest(?::BIGINT[]) AS trace_hash,"
            " unnest(?::VARCHAR[]) AS trace_id, unnest(?::VARCHAR[]) AS span_id,"
            " unnest(?::VARCHAR[]) AS space) gone WHERE spans.trace_hash = gone.trace_hash"
            " AND spans.trace_id = gone.trace_id AND spans.span_id = gone.span_id"
            " AND spans.space = gone.space",
            [[*map(trace_hash, trace_ids)], trace_ids, span_ids, spaces],
        )

    def _is_of_erased(self, letter: DeadLetter) -> bool:
        if not self.tombstones and not self.erased:
            return False
        return any(each in self.tombstones or each in self.erased for each in tombstones_of(letter))

    def _add_new_letters(self) -> None:
        ids = list(self._letters)
        known: set[str] = set()
        if ids:
            sql = f"SELECT letter_id FROM dead_letters WHERE {one_of('letter_id', ids)}"  # noqa: S608
            known = {row[0] for row in run(self._database.connection(), sql, ids)}
        for letter_id, letter in self._letters.items():
            if letter_id not in known:
                self.count(TotalName.DEAD_LETTERS, letter.space, label=letter.reason)
                values = dataclasses.astuple(letter)
                self.add("dead_letters", values[0], letter_id, *values[1:])

    def _insert_few(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Insert without Arrow, which calls back into the interpreter a dozen times."""
        self.written[table] += len(rows)
        row = f"({_marks(rows[0])})"
        sql = f"INSERT INTO {table} VALUES {','.join([row] * len(rows))}"  # noqa: S608 our own names
        run(self._database.connection(), sql, [value for row in rows for value in row])

    def _insert(self, table: str, batch: object) -> None:
        self.written[table] += insert(self._database.connection(), table, batch)


def letter_key(letter: DeadLetter) -> str:
    """Compute the id of a dead letter from its content, reason and the place it came in.

    Letters with the same id are the same one.
    """
    parts = (letter.space, letter.kind, letter.reason, letter.source, letter.uid)
    head = repr(parts).encode()
    return blake2b(head + letter.payload, digest_size=16).hexdigest()


def one_of(column: str, values: Collection[object]) -> str:
    """SQL that is true where a column has one of so many values, which are its parameters."""
    return _equals_any(column, ["?"] * len(values))


def one_of_literals(column: str, values: Iterable[int | str]) -> str:
    """The same with the values in the SQL itself."""
    return _equals_any(column, list(map(literal, values)))


def _equals_any(column: str, values: Sequence[str]) -> str:
    """DuckDB plans a few comparisons in half the time that a list takes."""
    if len(values) > _FEW_VALUES:
        return f"{column} IN ({','.join(values)})"
    return f"({' OR '.join(f'{column} = {value}' for value in values) or 'false'})"


def _marks(values: Iterable[object]) -> str:
    return ",".join("?" for _ in values)
