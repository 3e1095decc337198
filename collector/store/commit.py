"""One transaction of the worker: its rows, and how they become Arrow tables."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeArgument=false

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from collector.metrics import TotalKey
from collector.store.bodies import compress, trace_hash
from collector.store.json_text import USAGE, dump_json, encode_evaluation
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow, RollupKey, SettledRecord, TaskRow
from collector.store.schema import COLUMNS
from collector.store.span_rows import BodyRow, SpanRow
from scouter.errors import DataError
from scouter.model.json_value import plain_text
from scouter.model.pair import pair_of, pair_text

_TYPES: Final[Mapping[str, Any]] = {
    "BIGINT": pa.int64(),
    "TEXT": pa.string(),
    "TEXT[]": pa.list_(pa.string()),
    "BYTEA": pa.binary(),
    "DOUBLE PRECISION": pa.float64(),
}


def arrow_table(table: str, seq: int, columns: Sequence[Sequence[Any]], rows: int) -> object:
    """Make an Arrow table of rows.

    Args:
        table: Name of the table that they go into.
        seq: Number of their commit, which is its first column.
        columns: Values of all others, in their order.
        rows: How many they are.

    Raises:
        DataError: A text has half a character, or a number more than 64 bits.
    """
    (name, _), *rest = COLUMNS[table]
    arrays = [pa.repeat(pa.scalar(seq, pa.int64()), rows), *_arrays(table, columns, rest)]
    return pa.Table.from_arrays(arrays, [name, *(name for name, _ in rest)])


def rows_table(table: str, seq: int, rows: Sequence[Sequence[Any]]) -> object:
    """The same of rows, of which there is one at least."""
    return arrow_table(table, seq, list(zip(*rows, strict=True)), len(rows))


def stored_table(table: str, rows: Sequence[Sequence[Any]]) -> object:
    """The same of rows that begin with the numbers of their commits; there is one row at least."""
    columns = COLUMNS[table]
    arrays = _arrays(table, list(zip(*rows, strict=True)), columns)
    return pa.Table.from_arrays(arrays, [name for name, _ in columns])


def _arrays(
    table: str, values: Sequence[Sequence[Any]], columns: Iterable[tuple[str, str]]
) -> list[Any]:
    try:
        return [
            pa.array(each, _TYPES[kind]) for each, (_, kind) in zip(values, columns, strict=True)
        ]
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
        raise DataError(f"a value of {table} cannot be stored: {error}") from error


T = TypeVar("T")
Columns: TypeAlias = list[Sequence[Any]]
"""Values of each column of some rows."""

_RECORD: Final = attrgetter(
    "space", "received_ns", "uid", "digest", "profile_ref", "profile_uid", "profile_name", "alias",
    "record_id", "session_id", "trace_id", "created_ns",
)  # fmt: skip
_EVALUATED: Final = attrgetter(
    "space", "evaluation_id", "record_uid", "revision", "session_id", "profile_uid",
    "profile_digest", "profile_name", "alias", "service_name", "service_version", "environment",
    "created_ns", "evaluated_ns",
)  # fmt: skip


class SpanId(NamedTuple):
    """The key of a span."""

    space: str
    trace_id: str
    span_id: str


class RecordId(NamedTuple):
    """The key of a record."""

    space: str
    uid: str


@dataclass(slots=True, kw_only=True)
class Commit:
    """Rows that are stored together, or not at all."""

    offset: int | None = None
    """Of the log: everything before it is in the store then; None if it has nothing of the log."""
    low_seq: int | None = None
    """The oldest commit whose rows the join still needs; None if that does not change."""
    spans: list[SpanRow] = field(default_factory=list[SpanRow])
    bodies: list[BodyRow] = field(default_factory=list[BodyRow])
    replaced: list[SpanId] = field(default_factory=list[SpanId])
    """Stored spans of which a better version is among the spans of this commit."""
    records: list[RecordRow] = field(default_factory=list[RecordRow])
    evaluations: list[EvaluationRow] = field(default_factory=list[EvaluationRow])
    letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    settled: list[SettledRecord] = field(default_factory=list[SettledRecord])
    """Values of stored records that their traces have reported."""
    started: list[RecordId] = field(default_factory=list[RecordId])
    """Records whose judgement begins now, after a start that found unfinished work."""
    totals: Mapping[TotalKey, int] = field(default_factory=dict[TotalKey, int])
    """Counts to add that no row says, such as duplicates; see `CountingReads.counted`."""
    rollups: Mapping[RollupKey, int] = field(default_factory=dict[RollupKey, int])
    """Counts by hour to add."""


def text_hash(text: str) -> int:
    """A signed 64-bit number that stays the same between processes."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def letter_id(letter: DeadLetter) -> str:
    """The id of a letter: the same for the same content from the same place."""
    digest = blake2b(digest_size=16)
    for part in (letter.space, letter.kind, letter.reason, letter.source, letter.uid):
        digest.update(part.encode("utf-8", "surrogatepass") + b"\0")
    digest.update(letter.payload)
    return digest.hexdigest()


def count_rows(counts: Mapping[Any, int]) -> list[Sequence[object]]:
    """Rows of `totals` or `rollups` without the number of their commit.

    Args:
        counts: By `TotalKey` or `RollupKey`; zeros are left out.
    """
    return [(*key, n) for key, n in counts.items() if n]


def tag_texts(tags: Mapping[str, str]) -> list[str]:
    """Tags as the store has them, sorted.

    U+FFFD replaces half a character.
    """
    return sorted(plain_text(pair_text(key, value)) for key, value in tags.items())


def tags_of(texts: Iterable[str]) -> dict[str, str]:
    """Read what `tag_texts` wrote."""
    return {key: value for key, _, value in map(pair_of, texts)}


def commit_columns(
    commit: Commit, pack: Callable[[bytes], bytes] = compress
) -> Iterator[tuple[str, Columns]]:
    """The rows of every table that gets some, but for `offsets`, as columns without their commit.

    Args:
        commit: The rows.
        pack: Compresses a body, or knows what that gives.
    """
    results = [(each, task) for each in commit.evaluations for task in enumerate(each.tasks)]
    parts = (
        ("spans", _filled(_columns, commit.spans)),
        ("bodies", _filled(partial(_bodies, pack), commit.bodies)),
        ("records", _filled(_records, commit.records)),
        ("evaluations", _filled(_evaluations, commit.evaluations)),
        ("task_results", _filled(_results, results)),
        ("dead_letters", _filled(_letters, commit.letters)),
        ("begun", _filled(_columns, commit.started)),
        ("totals", _filled(_columns, count_rows(commit.totals))),
        ("rollups", _filled(_columns, count_rows(commit.rollups))),
    )
    return (part for part in parts if part[1])


def arrow_tables(commit: Commit, seq: int) -> Iterator[tuple[str, object]]:
    """Make an Arrow table of the rows of every table that gets some, but for `offsets`.

    Args:
        commit: The rows.
        seq: The commit's number.

    Raises:
        DataError: A text has half a character, or a number more than 64 bits.
    """
    for table, columns in commit_columns(commit):
        yield table, arrow_table(table, seq, columns, len(columns[0]))


def _filled(columns_of: Callable[[Sequence[T]], Columns], rows: Sequence[T]) -> Columns:
    return columns_of(rows) if rows else []


def _columns(rows: Sequence[Sequence[Any]]) -> Columns:
    return list(zip(*rows, strict=True))


def _bodies(pack: Callable[[bytes], bytes], rows: Sequence[BodyRow]) -> Columns:
    spaces, trace_ids, spans, bodies = _columns(rows)
    hashes = [trace_hash(each) for each in trace_ids]
    sizes = [len(each) for each in bodies]
    return [spaces, hashes, trace_ids, spans, sizes, [pack(each) for each in bodies]]


def _records(rows: Sequence[RecordRow]) -> Columns:
    spaces, received, uids, *rest = _columns([_RECORD(row) for row in rows])
    hashes = [text_hash(uid) for uid in uids]
    tags = [tag_texts(row.tags) for row in rows]
    traces = [None if row.trace_id is None else trace_hash(row.trace_id) for row in rows]
    contexts = [dump_json(row.context) for row in rows]
    sizes = [_size_of(each) for each in contexts]
    return [spaces, received, hashes, uids, *rest, tags, traces, sizes, contexts]


def _size_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _evaluations(rows: Sequence[EvaluationRow]) -> Columns:
    return [
        range(len(rows)),
        [text_hash(row.record_uid) for row in rows],
        *_columns([_EVALUATED(row) for row in rows]),
        [row.record_id for row in rows],
        [row.trace_id for row in rows],
        [row.outcome.value for row in rows],
        [row.completeness.value for row in rows],
        [row.missing_parents for row in rows],
        [int(row.reads_spans) for row in rows],
        [tag_texts(row.tags) for row in rows],
        [row.duration_ns for row in rows],
        [row.input_seq for row in rows],
        [row.scope.value for row in rows],
        [row.pending for row in rows],
        [int(row.was_decided) for row in rows],
        [int(row.is_partial) for row in rows],
        [encode_evaluation(row) for row in rows],
        [1 if row.is_backfill else None for row in rows],
    ]


def _results(rows: Sequence[tuple[EvaluationRow, tuple[int, TaskRow]]]) -> Columns:
    tasks = [task for _, (_, task) in rows]
    return [
        *_columns([_EVALUATED(row) for row, _ in rows]),
        [position for _, (position, _) in rows],
        [task.task_id for task in tasks],
        [task.task_type for task in tasks],
        [task.outcome.value for task in tasks],
        [task.reason for task in tasks],
        [task.own_score for task in tasks],
        *([getattr(task.usage, name, None) for task in tasks] for name in USAGE),
    ]


def _letters(rows: Sequence[DeadLetter]) -> Columns:
    return [
        [row.space for row in rows],
        [letter_id(row) for row in rows],
        [row.kind.value for row in rows],
        [row.reason for row in rows],
        [row.message for row in rows],
        [row.source for row in rows],
        [row.uid for row in rows],
        [row.received_ns for row in rows],
        [int(row.was_accepted) for row in rows],
        [row.payload for row in rows],
    ]
