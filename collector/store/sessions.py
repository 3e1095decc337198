"""Sessions: lists of them, and one session with its records, spans and traces counted.

A session has no row: it is its records. So a list takes some records, by their places, and passes
over the sessions that it has shown. Conditions on whole sessions are looked up for those of one
part together.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, NamedTuple

from collector.store.commit import text_hash
from collector.store.evaluation_queries import has_tags, task_conditions
from collector.store.facets import TAG, Counts, Facets, IsOver, count_in_steps, counts_of
from collector.store.reads import Values, has_outcome
from collector.store.record_queries import SessionQuery, SessionSummary
from collector.store.records import (
    OF_HASHES,
    PLACE_COLUMNS,
    RECORD_PROFILE,
    SESSION,
    Place,
    RecordReads,
    below,
    record_conditions,
)
from collector.store.span_rows import traces_with
from collector.store.traces import SummaryReads
from scouter.evaluate.outcome import DECIDED

SPANS_OF_TRACES: Final = "spans s JOIN traces ON traces.trace_id = s.trace_id"
"""The spans `s` of the sessions `sid`, log events among them."""
RESULTS_OF_LATEST: Final = "task_results t JOIN latest ON latest.evaluation_id = t.evaluation_id"
"""The results `t` of the latest evaluations on the sessions `sid`."""
OF_SPANS: Final = ("tool_name", "response_model", "user_id")
"""Columns of spans by which sessions are found."""
_N: Final = "BIGINT"


def session_tables(query: SessionQuery, wanted: str, values: Values) -> str:
    """SQL of common table expressions that tell of some sessions.

    Their names: `own` (records), `latest` (evaluations), `outcomes` (those by which a session is
    found) and `traces`; all have the column `sid`, the session's id.

    Args:
        query: Says in which space and as of when.
        wanted: A query for the ids `sid` of the sessions.
        values: Gets the values of parameters.

    Cost: a look at the session ids of all records, and at the keys of all evaluations.
    """
    known = _known(query, values)
    columns = "e.record_uid, e.revision, e.outcome, e.evaluation_id"
    return f"""
        wanted AS MATERIALIZED ({wanted}),
        own AS MATERIALIZED (
            SELECT {SESSION} AS sid, r.uid, r.tags, r.trace_id FROM records r
            WHERE r.{known} AND {SESSION} IN (SELECT sid FROM wanted)
        ),
        latest AS MATERIALIZED (
            SELECT DISTINCT ON (record_uid) sid, record_uid, outcome, evaluation_id FROM (
                SELECT own.sid, {columns} FROM evaluations e JOIN own ON own.uid = e.record_uid
                WHERE e.scope = 'record' AND e.{known}
                UNION ALL
                SELECT e.session_id, {columns} FROM evaluations e
                WHERE e.scope = 'session' AND e.{known}
                  AND e.session_id IN (SELECT sid FROM wanted)
            ) made ORDER BY record_uid, revision DESC
        ),
        states AS (
            SELECT sid, outcome FROM latest
            UNION ALL
            SELECT sid, 'pending' FROM own
            WHERE NOT EXISTS (SELECT 1 FROM latest WHERE latest.record_uid = own.uid)
        ),
        outcomes AS MATERIALIZED (
            SELECT DISTINCT sid, outcome FROM states
            WHERE outcome IN ('failed', 'errored', 'pending')
            UNION ALL
            SELECT sid, CASE WHEN bool_or(outcome = 'passed') THEN 'passed' ELSE 'skipped' END
            FROM states GROUP BY sid HAVING bool_and(outcome IN ('passed', 'skipped'))
        ),
        traces AS MATERIALIZED (
            SELECT DISTINCT sid, trace_id FROM own WHERE trace_id IS NOT NULL
        )"""


def session_conditions(query: SessionQuery, values: Values) -> str:
    """The conditions on sessions `sid` beside these tables, as SQL."""
    found: list[str] = []
    if query.outcome is not None:
        found.append(f"outcomes WHERE {has_outcome('outcomes', query.outcome, values)}")
    if query.task_id is not None or query.task_outcome is not None:
        found.append(f"{RESULTS_OF_LATEST} WHERE {_of_task(query, values)}")
    if query.tags:
        found.append(f"own WHERE {has_tags(query.tags, 'tags', values)}")
    found += [
        f"{SPANS_OF_TRACES} WHERE {span_conditions(query, column, values)}"
        for column in OF_SPANS
        if getattr(query, column) is not None
    ]
    found += [
        f"traces WHERE {sql}"
        for sql in traces_with(query.space, None, query.attributes, "trace_id", values)
    ]
    if query.min_duration_ns is not None or query.min_tokens is not None:
        duration = values.of(query.min_duration_ns or 0, _N)
        tokens = values.of(query.min_tokens or 0, _N)
        found.append(
            f"{SPANS_OF_TRACES} WHERE s.is_event = 0 AND s.{_known(query, values)} GROUP BY sid"
            f" HAVING max(s.end_ns) - min(s.start_ns) >= {duration} AND"
            f" coalesce(sum(s.input_tokens), 0) + coalesce(sum(s.output_tokens), 0) >= {tokens}"
        )
    return " AND ".join(f"sid IN (SELECT sid FROM {each})" for each in found) or "true"


def span_conditions(query: SessionQuery, column: str, values: Values) -> str:
    """The filter of spans `s` by one of `OF_SPANS`, as SQL."""
    value = getattr(query, column)
    where = f"s.is_event = 0 AND s.{_known(query, values)} AND s.{column} <> ''"
    return where if value is None else f"{where} AND s.{column} = {values.of(value)}"


def _of_task(query: SessionQuery, values: Values) -> str:
    """The filter of results `t` by their task, as SQL."""
    tasks = task_conditions(query.task_id, query.task_outcome, values)
    return " AND ".join((f"t.{_known(query, values)}", *tasks))


def _known(query: SessionQuery, values: Values) -> str:
    """The condition of the query, as SQL; a table's name and a dot come before it."""
    return f"seq <= {values.of(query.as_of, _N)} AND space = {values.of(query.space)}"


_TEXTS: Final = "TEXT[]"
_COUNTED: Final = ("records", "traces", "first_ns", "last_ns", *DECIDED, "undecided")
_SUMMARIES: Final = f"""
    WITH own AS MATERIALIZED (
        SELECT r.session_id AS id, r.seq, r.uid, r.trace_id, r.created_ns FROM records r
        WHERE r.space = $1 AND r.session_id IN (SELECT unnest($2::TEXT[]))
          AND {SESSION} IN (SELECT unnest($2::TEXT[]))
        UNION ALL
        SELECT r.uid, r.seq, r.uid, r.trace_id, r.created_ns FROM records r
        WHERE r.space = $1 AND r.session_id = '' AND {OF_HASHES.format("$3")}
          AND r.uid IN (SELECT unnest($2::TEXT[]))
    ), latest AS (
        SELECT DISTINCT ON (e.record_uid) e.record_uid, e.outcome FROM evaluations e
        WHERE e.seq >= (SELECT min(seq) FROM own) AND e.space = $1 AND e.scope = 'record'
          AND e.record_uid IN (SELECT uid FROM own)
        ORDER BY e.record_uid, e.revision DESC
    )
    SELECT array_agg(DISTINCT own.trace_id) FILTER (WHERE own.trace_id IS NOT NULL),
        own.id, count(*), count(DISTINCT own.trace_id), min(own.created_ns), max(own.created_ns),
        {", ".join(f"count(*) FILTER (WHERE v.outcome = '{word.value}')" for word in DECIDED)},
        count(*) FILTER (WHERE coalesce(v.outcome, 'pending') = 'pending')
    FROM own LEFT JOIN latest v ON v.record_uid = own.uid GROUP BY own.id
"""
_TRACES: Final = f"""
    SELECT r.trace_id FROM records r
    WHERE r.trace_id IS NOT NULL AND r.space = $1 AND {SESSION} = $2
    GROUP BY r.trace_id ORDER BY min(r.seq), r.trace_id LIMIT $3::BIGINT
"""


class SessionRecord(NamedTuple):
    """A record as one of its session."""

    place: Place
    session_id: str
    trace_id: str | None


class SessionReads(RecordReads, SummaryReads):
    """Reads of sessions; `SessionTextReads` lists them."""

    def session(self, space: str, session_id: str) -> SessionSummary | None:
        """One session; None without any record of it."""
        return self.session_summaries(space, [session_id]).get(session_id)

    def session_traces(self, space: str, session_id: str, limit: int) -> list[str]:
        """Traces of a session's records, in the order in which their first records came."""
        return [trace_id for (trace_id,) in self.read(_TRACES, [space, session_id, limit])]

    def matching_records(
        self, query: SessionQuery, before: tuple[int, int] | None, size: int
    ) -> list[SessionRecord]:
        """The newest records that match.

        Args:
            query: The filter.
            before: Only records below this place.
            size: Most records.
        """
        values = Values()
        where = record_conditions(query, values)
        if before is not None:
            where += f" AND {below(before, values)}"
        rows = self.read(
            f"SELECT {PLACE_COLUMNS}, {SESSION}, r.trace_id FROM records r WHERE {where}"
            f" ORDER BY r.seq DESC, r.uid_hash DESC LIMIT {values.of(size, _N)}",
            values,
        )
        return [SessionRecord(Place(*row[:-2]), *row[-2:]) for row in rows]

    def records_before(
        self, query: SessionQuery, session_ids: Collection[str]
    ) -> list[SessionRecord]:
        """The records of some sessions that match and stand on earlier pages, the newest first."""
        if query.before is None or not session_ids:
            return []
        values = Values()
        where = record_conditions(query, values)
        seq, uid_hash = (values.of(each, _N) for each in query.before)
        rows = self.read(
            f"SELECT {PLACE_COLUMNS}, {SESSION}, r.trace_id FROM records r"
            f" WHERE {where} AND r.seq >= {seq} AND (r.seq, r.uid_hash) >= ({seq}, {uid_hash})"
            f" AND {SESSION} IN (SELECT unnest({values.of(list(session_ids), _TEXTS)}))"
            " ORDER BY r.seq DESC, r.uid_hash DESC",
            values,
        )
        return [SessionRecord(Place(*row[:-2]), *row[-2:]) for row in rows]

    def met_sessions(self, query: SessionQuery, session_ids: Collection[str]) -> Collection[str]:
        """The sessions, among some, that meet the conditions on whole sessions."""
        if not query.asks_of_sessions or not session_ids:
            return session_ids
        values = Values()
        wanted = f"SELECT unnest({values.of(list(session_ids), _TEXTS)}) AS sid"
        tables = session_tables(query, wanted, values)
        rows = self.read(
            f"WITH {tables} SELECT sid FROM wanted WHERE {session_conditions(query, values)}",
            values,
        )
        return {session_id for (session_id,) in rows}

    def session_summaries(
        self, space: str, session_ids: Sequence[str]
    ) -> Mapping[str, SessionSummary]:
        """Some sessions by id: records counted by their latest evaluation, spans summed up."""
        if not session_ids:
            return {}
        hashes = [text_hash(each) for each in session_ids]
        rows = self.read(_SUMMARIES, [space, list(session_ids), hashes])
        totals = self.trace_totals(space, {each for traces, *_ in rows for each in traces or ()})
        found: dict[str, SessionSummary] = {}
        for traces, session_id, *counts in rows:
            own = [totals[each] for each in traces or () if each in totals]
            found[session_id] = SessionSummary(
                session_id=session_id,
                **dict(zip(_COUNTED, counts, strict=True)),
                duration_ns=max(each.end_ns for each in own) - min(each.start_ns for each in own)
                if own
                else None,
                input_tokens=_sum(each.input_tokens for each in own),
                output_tokens=_sum(each.output_tokens for each in own),
                models=tuple(chain.from_iterable(each.models for each in own)),
            )
        return found

    def session_facets(self, query: SessionQuery, is_over: IsOver) -> Facets:
        """Count what `sessions` lists, by profile, outcome, task, tag, tool, model and user.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Ends the count between two steps.

        Cost: that of `session_tables`, and linear in the records that are looked at, their results
        and the spans of their traces.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        whole = replace(query, as_of=as_of)
        return count_in_steps(
            self, "records", "received_ns", query.space, as_of, is_over,
            lambda first: self._count_sessions(whole, first),
        )  # fmt: skip

    def _count_sessions(self, query: SessionQuery, first: int) -> Counts:
        """Counts of the sessions with a record in some commits, in one query."""
        values = Values()
        wanted = f"r.seq >= {values.of(first, _N)} AND {record_conditions(query, values)}"
        tables = session_tables(query, "SELECT DISTINCT sid FROM matching", values)
        chosen = session_conditions(query, values)
        parts = (
            f"SELECT '{name}', value, count(DISTINCT sid) FROM ({sql}) {name} GROUP BY value"
            for name, sql in _parts(query, values)
        )
        rows: list[tuple[Any, ...]] = self.read(
            f"""
            WITH matching AS MATERIALIZED (
                SELECT {SESSION} AS sid, {RECORD_PROFILE} AS value FROM records r WHERE {wanted}
            ), {tables},
            chosen AS MATERIALIZED (SELECT sid FROM wanted WHERE {chosen})
            {" UNION ALL ".join(parts)}
            """,
            values,
        )
        return counts_of((name, value, n) for name, value, n in rows)


def _parts(query: SessionQuery, values: Values) -> Iterator[tuple[str, str]]:
    """By facet a query for sessions and values."""
    of_chosen = "sid IN (SELECT sid FROM chosen)"
    yield "profile", f"SELECT sid, value FROM matching WHERE {of_chosen}"
    is_matching = (
        "true" if query.outcome is None else has_outcome("outcomes", query.outcome, values)
    )
    yield (
        "outcome",
        f"SELECT sid, outcome AS value FROM outcomes WHERE {of_chosen} AND {is_matching}",
    )
    yield (
        "task_id",
        f"SELECT sid, t.task_id AS value FROM {RESULTS_OF_LATEST}"
        f" WHERE {of_chosen} AND {_of_task(query, values)}",
    )
    is_tagged = has_tags(query.tags, "tags", values)
    yield TAG, f"SELECT sid, unnest(tags) AS value FROM own WHERE {of_chosen} AND {is_tagged}"
    for column in OF_SPANS:
        yield (
            column,
            f"SELECT sid, s.{column} AS value FROM {SPANS_OF_TRACES}"
            f" WHERE {of_chosen} AND {span_conditions(query, column, values)}",
        )


def _sum(numbers: Iterator[int | None]) -> int | None:
    """The sum of the numbers that are there; None without any."""
    known = [each for each in numbers if each is not None]
    return sum(known) if known else None
