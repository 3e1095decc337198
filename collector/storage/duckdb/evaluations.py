"""The listing of evaluations: newest first, each record once, by any filter.

The row of an evaluation cannot tell whether it is the latest of its record. DuckDB finds the
newest rows of a filter in a millisecond, but only where nothing is joined: so a listing takes some
candidates, by their places alone, passes over what a revision superseded, and goes on for as long
as the page is not full.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from collector.storage.duckdb.commit_ranges import LAST, Stretch, within
from collector.storage.duckdb.database import Database, NoMemoryError, literal
from collector.storage.duckdb.part_reads import LongRow, read_within
from collector.storage.duckdb.read import read_whole_evaluations
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.evaluation_queries import (
    EvaluationPage,
    EvaluationQuery,
    VersionRow,
    outcomes_of,
)
from collector.store.json_text import dump_json
from collector.store.rows import EvaluationRow

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

PROFILE: Final = "? IN (e.alias, e.profile_name, e.profile_uid, e.profile_digest)"
_ENDED: Final = "list_contains(?::VARCHAR[], e.outcome)"
_GROWTH: Final = 4
_ALL: Final = LAST
_MOST: Final = 20_000
"""Candidates that are looked at together; a few megabytes of places and ids."""

Filter = tuple[str, object]
"""A condition with one question mark, and its value; None where it does not apply."""
_Where = tuple[str, list[object]]
"""SQL, and its values."""


class EvaluationPlace(NamedTuple):
    """A candidate: its place, and what is asked of other tables about it."""

    seq: int
    ordinal: int
    evaluation_id: str
    uid_hash: int
    record_uid: str
    revision: int
    tags: str


def read_evaluations(database: Database, query: EvaluationQuery) -> EvaluationPage:
    """One page of evaluations with their task results.

    Args:
        database: The open file.
        query: Says as of when.

    Cost: linear in the candidates, which are those that the filter names; a few columns of them,
    never the texts of their results.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    found: list[EvaluationPlace] = []
    for part in newest_evaluations(database, query):
        found += part
        if len(found) > query.limit:
            break
    page = found[: query.limit]
    if query.text_bytes is None:
        items = _rows(database, page)
    else:
        items, count = _rows_within(database, page, query.text_bytes)
        page = page[:count]
    next_before = (page[-1].seq, page[-1].ordinal) if len(found) > len(page) else None
    items = tuple(items)
    return EvaluationPage(items=items, next_before=next_before, as_of=query.as_of)


def newest_evaluations(
    database: Database, query: EvaluationQuery
) -> Iterator[Sequence[EvaluationPlace]]:
    """The places of everything that a listing holds, newest first, in parts that grow.

    Args:
        database: The open file.
        query: Its limit is about the size of the first part.

    Cost: that of the parts that are taken.
    """
    for candidates in _candidates(database, query):
        yield _chosen(database, query, candidates)


def read_evaluation(database: Database, space: str, evaluation_id: str) -> EvaluationRow | None:
    """An evaluation by its id, be it the latest of its record or not."""
    found = read_whole_evaluations(
        database, "e.evaluation_id = ? AND e.space = ?", [evaluation_id, space]
    )
    return next(iter(found), None)


def read_versions(database: Database, space: str, profile: str) -> list[VersionRow]:
    """Versions of the service behind the newest evaluations of a profile, the newest first.

    An evaluation that looked at no spans does not know its version; a span of its trace does.

    Cost: linear in the evaluations of the space, one column of them; where the newest ones do not
    all know their version, in its spans, too.
    """
    where, given = conditions(("e.space = ?", space), profile_filter(database, profile))
    newest = (
        "SELECT e.uid_hash, e.trace_id, e.service_version, e.evaluated_ns"
        f" FROM evaluations e WHERE {where} ORDER BY e.seq DESC LIMIT {_MOST}"
    )
    counts = "min(e.evaluated_ns) AS first, max(e.evaluated_ns), count(DISTINCT e.uid_hash)"
    by_version = "GROUP BY told ORDER BY first DESC, told"
    rows = database.read(
        f"WITH e AS ({newest}) SELECT e.service_version AS told, {counts} FROM e {by_version}",
        given,
    )
    if any(not version for version, *_ in rows):
        rows = database.read(
            f"WITH e AS ({newest}), s AS (SELECT s.trace_id,"
            " any_value(s.service_version) AS version FROM spans s WHERE s.space = ?"
            " AND s.service_version <> '' AND s.trace_id IN (SELECT trace_id FROM e"
            " WHERE service_version = '') GROUP BY s.trace_id)"
            f" SELECT coalesce(nullif(e.service_version, ''), s.version) AS told, {counts}"
            f" FROM e LEFT JOIN s USING (trace_id) WHERE told IS NOT NULL {by_version}",
            [*given, space],
        )
    names = ("version", "first_ns", "last_ns", "records")
    return [VersionRow(**dict(zip(names, row, strict=True))) for row in rows]


def read_revisions(database: Database, space: str, uid: str) -> tuple[EvaluationRow, ...]:
    """All evaluations on one record, newest first."""
    where = "e.uid_hash = ? AND e.record_uid = ? AND e.space = ?"
    return tuple(read_whole_evaluations(database, where, [text_hash(uid), uid, space]))


def _candidates(database: Database, query: EvaluationQuery) -> Iterator[Sequence[EvaluationPlace]]:
    """Select the evaluations that the filters name, newest first, in growing parts.

    Revisions are not looked at. If a task is asked for, a part covers so many evaluations of the
    other filters, or so many results of the task: whichever reaches further back.
    """
    has_task = query.task_id is not None or query.task_outcome is not None
    before, size = query.before, query.limit + 1
    profile = profile_filter(database, query.profile)
    while True:
        where = evaluation_conditions(query, before, profile)
        of_task = task_conditions(query, before, profile)
        reach = _floor(database, "evaluations", where, size) if has_task else 0
        floor = _floor(database, "task_results", of_task, size) if reach else 0
        if floor < reach:
            part = _with_task(database, query, where, of_task, floor)
            before, is_last = (floor, 0), floor == 0
        else:
            part = _newest(database, query, *where, size)
            before, is_last = part[-1][:2] if part else None, len(part) < size
            part = _of_task(database, query, part) if has_task else part
        yield part
        if is_last:
            return
        size = min(size * _GROWTH, _MOST)


def _floor(database: Database, table: str, where: _Where, size: int) -> int:
    """The commit behind which so many rows of a table are; 0 where there are fewer."""
    condition, given = where
    ((count, floor),) = database.read(
        f"SELECT count(*), min(seq) FROM (SELECT e.seq FROM {table} e WHERE {condition}"
        " ORDER BY e.seq DESC LIMIT ?)",
        [*given, size],
    )
    return floor if count == size else 0


def _newest(
    database: Database, query: EvaluationQuery, where: str, given: Sequence[object], limit: int
) -> Sequence[EvaluationPlace]:
    columns = ", ".join(f"e.{name}" for name in EvaluationPlace._fields)
    order = "ORDER BY e.seq DESC, e.ordinal DESC LIMIT ?"
    head = f"SELECT {columns} FROM evaluations e WHERE {where}"
    known, of_span = service_filters(query, "e"), service_filters(query, "s")
    if not known:
        rows = database.read(f"{head} {order}", [*given, limit])
        return [EvaluationPlace(*row) for row in rows]
    own, values = conditions(*known)
    rows = database.read(f"{head} AND {own} {order}", [*given, *values, limit])
    in_span, values = conditions(("s.space = ?", query.space), *of_span)
    if database.read(f"SELECT 1 FROM spans s WHERE {in_span} LIMIT 1", values):
        floor = rows[-1][0] if len(rows) == limit else 0  # what is older has no room
        rows += database.read(
            f"{head} AND e.seq >= ? AND NOT e.reads_spans AND e.trace_id IN"
            f" (SELECT s.trace_id FROM spans s WHERE {in_span}) {order}",
            [*given, floor, *values, limit],
        )
    return sorted({EvaluationPlace(*row) for row in rows}, reverse=True)[:limit]


def service_filters(query: EvaluationQuery, table: str) -> list[Filter]:
    """Select the filters by service, for evaluations or spans.

    An evaluation that looked at no spans does not know its service; the spans of its trace do.
    """
    names = ("service_name", "service_version", "environment")
    given = [(f"{table}.{name} = ?", getattr(query, name)) for name in names]
    return [each for each in given if each[1] is not None]


def _with_task(
    database: Database, query: EvaluationQuery, where: _Where, of_task: _Where, floor: int
) -> Sequence[EvaluationPlace]:
    """All candidates from a commit on that have the task asked for; found by their results."""
    condition = (
        f"{where[0]} AND e.seq >= ? AND e.evaluation_id IN"
        f" (SELECT e.evaluation_id FROM task_results e WHERE e.seq >= ? AND {of_task[0]})"
    )
    return _newest(database, query, condition, [*where[1], floor, floor, *of_task[1]], _ALL)


def _of_task(
    database: Database, query: EvaluationQuery, candidates: Sequence[EvaluationPlace]
) -> Sequence[EvaluationPlace]:
    """Keep the candidates that have the task asked for; its results are found by the places."""
    of_task, values = conditions(
        ("e.space = ?", query.space), ("e.task_id = ?", query.task_id),
        (_ENDED, outcomes_of(query.task_outcome)),
    )  # fmt: skip
    places = [Stretch(each.seq, each.seq) for each in candidates]
    rows = database.read(
        "SELECT e.evaluation_id FROM task_results e"
        " SEMI JOIN (SELECT unnest(?::VARCHAR[]) AS id) k ON k.id = e.evaluation_id"
        f" WHERE {within(places)} AND {of_task}",
        [[each.evaluation_id for each in candidates], *values],
    )
    found = {evaluation_id for (evaluation_id,) in rows}
    return [each for each in candidates if each.evaluation_id in found]


def task_conditions(
    query: EvaluationQuery, before: tuple[int, int] | None, profile: Filter
) -> _Where:
    """The filter of results `e` by their task, as SQL, and its values."""
    outcomes = outcomes_of(query.task_outcome)
    last = None if before is None else before[0] if before[1] else before[0] - 1
    return conditions(
        ("e.space = ?", query.space), ("e.task_id = ?", query.task_id), (_ENDED, outcomes),
        profile, ("e.session_id IN (?, '')", query.session_id),
        ("e.evaluated_ns >= ?", query.since_ns), ("e.evaluated_ns < ?", query.until_ns),
        ("e.seq <= ?", last),
    )  # fmt: skip


def evaluation_conditions(
    query: EvaluationQuery, before: tuple[int, int] | None, profile: Filter
) -> _Where:
    """The filter of evaluations `e` without their tasks and services, as SQL, and its values."""
    where, given = conditions(
        ("e.space = ?", query.space),
        profile,
        ("? IN (e.record_id, e.record_uid)", query.record_id),
        ("e.trace_id = ?", query.trace_id),
        (_ENDED, outcomes_of(query.outcome)),
        ("e.evaluated_ns >= ?", query.since_ns),
        ("e.evaluated_ns < ?", query.until_ns),
        ("e.seq <= ?", query.as_of),
    )
    if query.session_id is not None:
        where += " AND (e.session_id = ? OR (e.session_id = '' AND e.uid_hash = ?))"
        given += [query.session_id, text_hash(query.session_id)]
    for pair in query.tags:
        texts = tag_texts(*pair)
        where += f" AND ({' OR '.join('contains(e.tags, ?)' for _ in texts)})"
        given += texts
    if before is not None:
        where += " AND e.seq <= ? AND (e.seq, e.ordinal) < (?, ?)"
        given += [before[0], *before]
    return where, given


def profile_filter(database: Database, name: str | None) -> Filter:
    """The filter of evaluations, their results or rollups `e` by their profile.

    Args:
        database: The open file.
        name: Alias, name, uid or digest; None for any.
    """
    uids = None if name is None else database.profile_uids.of(name)
    if uids is None:
        return PROFILE, name
    others = [literal(each) for each in uids[1:]]
    return f"e.profile_uid IN ({', '.join(['?', *others])})", uids[0] if uids else name


def conditions(*filters: Filter) -> _Where:
    """The filters that have a value, as SQL, and their values."""
    given = [each for each in filters if each[1] is not None]
    return " AND ".join(sql for sql, _ in given), [value for _, value in given]


def tag_texts(key: str, value: str) -> list[str]:
    """List the forms of a tag in its column: plain, or escaped beside text that is not Unicode."""
    plain = f"{dump_json(key)}:{dump_json(value)}"
    return sorted({plain, f"{json.dumps(key)}:{json.dumps(value)}"})


def _chosen(
    database: Database, query: EvaluationQuery, candidates: Sequence[EvaluationPlace]
) -> list[EvaluationPlace]:
    """Keep the candidates that belong into the listing, in the same order."""
    chosen: Iterable[EvaluationPlace] = candidates
    if query.tags:
        wanted = dict(query.tags)
        chosen = (each for each in chosen if wanted.items() <= json.loads(each.tags).items())
        if len(wanted) < len(set(query.tags)):
            chosen = ()  # one key with two values
    kept = list(chosen)
    latest = _latest_revisions(database, query, kept)
    return [each for each in kept if latest.get(each.record_uid, 1) <= each.revision]


def _latest_revisions(
    database: Database, query: EvaluationQuery, candidates: Sequence[EvaluationPlace]
) -> Mapping[str, int]:
    """The latest revision by uid of those candidates that were evaluated again."""
    if not candidates:
        return {}
    rows = database.read(
        "SELECT e.record_uid, max(e.revision) FROM evaluations e"
        " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash"
        " WHERE e.revision > 1 AND e.seq >= ? AND e.seq <= ? AND e.space = ?"
        " GROUP BY e.record_uid",
        [
            [each.uid_hash for each in candidates],
            candidates[-1].seq,
            LAST if query.as_of is None else query.as_of,
            query.space,
        ],
    )
    return {uid: revision for uid, revision in rows}


def _rows(database: Database, page: Sequence[EvaluationPlace]) -> list[EvaluationRow]:
    """The evaluations at some places, in the same order; one that went meanwhile is left out.

    The size of their texts is not known before: where it is too much at once, they are read in
    parts.
    """
    if not page:
        return []
    ids = {each.evaluation_id for each in page}
    try:
        rows = read_whole_evaluations(
            database,
            # Numbers are compared in a sixth of the time that ids take.
            "e.uid_hash IN (SELECT unnest(?::BIGINT[])) AND e.seq BETWEEN ? AND ?",
            [[each.uid_hash for each in page], page[-1].seq, page[0].seq],
        )
        return [each for each in rows if each.evaluation_id in ids]
    except NoMemoryError:
        if len(page) == 1:
            raise
    half = len(page) // 2
    return [*_rows(database, page[:half]), *_rows(database, page[half:])]


def _rows_within(
    database: Database, page: Sequence[EvaluationPlace], max_bytes: int
) -> tuple[list[EvaluationRow], int]:
    """The evaluations at the first places of a page, as `_rows`, and how many places these are."""

    def read(part: Sequence[EvaluationPlace]) -> list[LongRow]:
        rows = database.read_long(
            "SELECT e.seq, e.ordinal, e.body FROM evaluations e"
            " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash"
            " WHERE e.seq BETWEEN ? AND ?",
            [[each.uid_hash for each in part], part[-1].seq, part[0].seq],
        )
        return [LongRow((seq, ordinal), text) for seq, ordinal, text in rows]

    rows, count = read_within(page, read, max_bytes)
    texts = {row.place: row.text for row in rows}
    places = [each[:2] for each in page[:count]]
    return [decode_evaluation(texts[each]) for each in places if each in texts], count
