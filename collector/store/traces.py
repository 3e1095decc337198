"""Traces: lists for people, in the order of their newest spans that meet the first condition."""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from collector.store.bodies import best_spans, trace_hash
from collector.store.evaluation_queries import task_conditions
from collector.store.facets import TAG, Counts, Facets, IsOver, count_in_steps, counts_of
from collector.store.json_text import decode_evaluation, dump_json
from collector.store.reads import ROW_BY_ROW, Reads, Values, within
from collector.store.rows import StoredTrace
from collector.store.span_queries import (
    JudgedBy,
    SpanPosition,
    SpanQuery,
    TracePage,
    TraceQuery,
    TraceRecords,
    TraceSummary,
    TraceTotals,
)
from collector.store.span_rows import names_attribute
from collector.store.spans import (
    below,
    commit_steps,
    judged_condition,
    not_shown_before,
    span_condition,
    trace_conditions,
)
from collector.store.usage import MODELS, TOKEN_SUMS, model_tokens, repeats_sql
from scouter.evaluate.outcome import Outcome
from scouter.model.genai.work import sum_known
from scouter.model.pair import pair_text
from scouter.model.span import StatusCode

_MOST: Final = 200
"""Calls of tools, and steps, of a trace that are read: the first ones."""
_ERROR: Final = StatusCode.ERROR.value
_COMMITS: Final = """
    SELECT DISTINCT seq FROM bodies WHERE trace_hash IN (SELECT unnest($1::BIGINT[]))
"""
_SUMMARIES: Final = """
    WITH own AS MATERIALIZED (
        SELECT trace_id, span_id, parent_span_id, name, service_name, service_version,
            start_ns, end_ns, status, tool_name
        FROM spans WHERE {spans}
    ),
    heads AS (
        SELECT DISTINCT ON (trace_id) trace_id, name, service_name, service_version FROM own
        ORDER BY trace_id, CASE WHEN parent_span_id IS NULL THEN 0 ELSE 1 END, start_ns, span_id
    ),
    sums AS (
        SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns, count(*) AS n,
            count(*) FILTER (WHERE status = {error}) AS errors,
            (array_agg(tool_name ORDER BY start_ns, span_id)
                FILTER (WHERE tool_name <> ''))[1:{most}] AS tools
        FROM own GROUP BY trace_id
    )
    SELECT h.trace_id, h.name, h.service_name, h.service_version,
        s.start_ns, s.end_ns, s.n, s.errors, s.tools
    FROM heads h JOIN sums s ON s.trace_id = h.trace_id
"""
_RECORDS: Final = """
    SELECT DISTINCT ON (record_uid) trace_id, record_uid, record_id, seq, outcome
    FROM evaluations
    WHERE space = $1 AND trace_id IN (SELECT unnest($2::TEXT[]))
    ORDER BY record_uid, revision DESC
"""
_TOTALS: Final = f"""
    WITH {repeats_sql("{spans}", MODELS)}
    SELECT trace_id, is_call, response_model, request_model, min(start_ns), max(end_ns),
        sum(input_tokens)::BIGINT, sum(output_tokens)::BIGINT, {TOKEN_SUMS}
    FROM (
        SELECT s.trace_id, s.start_ns, s.end_ns, s.genai_kind, s.input_tokens, s.output_tokens,
            s.cached_tokens, s.cache_written_tokens, s.reasoning_tokens, s.audio_input_tokens,
            s.audio_output_tokens, s.cost_usd,
            CASE WHEN s.genai_kind IN ({MODELS}) AND NOT EXISTS (SELECT 1 FROM repeats r
                WHERE r.trace_id = s.trace_id AND r.span_id = s.span_id) THEN 1 ELSE 0 END
                AS is_call,
            s.response_model, s.request_model
        FROM spans s WHERE {{spans}}
    ) own
    GROUP BY trace_id, is_call, response_model, request_model
    ORDER BY response_model NULLS LAST, request_model NULLS LAST
"""
_NAMED: Final = """
    WITH own AS MATERIALIZED (
        SELECT trace_id, tool_name, request_model, setup, service_name, service_version
        FROM spans WHERE {spans}
    )
    SELECT trace_id, 'tool', tool_name FROM own WHERE tool_name <> ''
    UNION
    SELECT trace_id, 'model', request_model FROM own WHERE request_model <> ''
    UNION
    SELECT trace_id, 'setup', unnest(setup) FROM own
    UNION
    SELECT trace_id, 'version', trim(service_name || ' ' || service_version) FROM own
    WHERE service_version <> ''
"""
_ATTRIBUTES: Final = "SELECT DISTINCT trace_id, attributes FROM spans WHERE {spans}"
_IS_ERROR: Final = f"CASE WHEN status = {_ERROR} OR error_type <> '' THEN 1 ELSE 0 END"
_STEPS: Final = f"""
    SELECT trace_id, tool, is_error, error_type, end_ns FROM (
        SELECT trace_id, tool, is_error, error_type, start_ns, end_ns, span_id, row_number() OVER (
            PARTITION BY trace_id ORDER BY start_ns, end_ns DESC, span_id
        ) AS place
        FROM (
            SELECT trace_id, span_id, start_ns, end_ns, coalesce(error_type, '') AS error_type,
                CASE WHEN genai_kind = 'tool' THEN coalesce(tool_name, '') ELSE '' END AS tool,
                {_IS_ERROR} AS is_error
            FROM spans WHERE {{spans}}
        ) steps WHERE tool <> '' OR is_error = 1
    ) placed WHERE place <= {_MOST}
    ORDER BY trace_id, place
"""


class Step(NamedTuple):
    """A span that is a call of a tool, or that failed, or both."""

    tool: str
    """Name of the tool; empty for a span that is no call of one."""
    is_error: bool
    error_type: str
    """Empty where the span tells none."""
    end_ns: int


class SummaryReads(Reads):
    """Reads of traces by their ids, without their bodies."""

    def trace_summaries(self, space: str, trace_ids: Sequence[str]) -> dict[str, TraceSummary]:
        """Traces by id, in the order requested, counted over all of their spans and records.

        One without spans is left out.
        """
        rows = {row[0]: row for row in self._of_traces(_SUMMARIES, space, trace_ids)}
        records, totals = self._trace_records(space, list(rows)), self.trace_totals(space, rows)
        return {
            trace_id: _summary(rows[trace_id], totals[trace_id], records.get(trace_id))
            for trace_id in trace_ids
            if trace_id in rows and trace_id in totals
        }

    def trace_totals(self, space: str, trace_ids: Collection[str]) -> Mapping[str, TraceTotals]:
        """Time, tokens and costs of traces, over all of their spans; one without any is left out.

        A call that several spans report counts once.
        """
        by_trace: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for row in self._of_traces(_TOTALS, space, trace_ids):
            by_trace[row[0]].append(row)
        return {trace_id: _totals(rows) for trace_id, rows in by_trace.items()}

    def trace_names(
        self, space: str, trace_ids: Collection[str], attributes: Collection[str] = ()
    ) -> Mapping[str, Collection[tuple[str, str]]]:
        """Tools, models and the setup that the spans of traces name, as kind and name.

        Kinds are `tool`, `model` and those of `scouter.model.genai.setup`. A trace without any is
        left out.

        Args:
            space: Theirs.
            trace_ids: The traces.
            attributes: Keys whose values are wanted, too, as `attribute` and `key=value`; long
                values are not found.
        """
        found: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for trace_id, kind, name in self._of_traces(_NAMED, space, trace_ids):
            of, _, value = name.partition("=")
            found[trace_id].add((of, value) if kind == "setup" else (kind, name))
        for key in attributes:
            for trace_id, text in self._of_traces(_ATTRIBUTES, space, trace_ids, key):
                value = json.loads(text).get(key)
                name = value if isinstance(value, str) else dump_json(value)
                found[trace_id].add(("attribute", pair_text(key, name)))
        return dict(found)

    def trace_steps(self, space: str, trace_ids: Collection[str]) -> Mapping[str, list[Step]]:
        """Tool calls and errors of traces, in the order of their beginning; the first 200 of each.

        A trace without any is left out.
        """
        found: defaultdict[str, list[Step]] = defaultdict(list)
        for trace_id, tool, is_error, error_type, end_ns in self._of_traces(
            _STEPS, space, trace_ids
        ):
            found[trace_id].append(Step(tool, bool(is_error), error_type, end_ns))
        return dict(found)

    def _of_traces(
        self, sql: str, space: str, trace_ids: Iterable[str], key: str | None = None
    ) -> list[tuple[Any, ...]]:
        """Run a query about the spans of traces, which stand in it as `{spans}`.

        Args:
            sql: The query.
            space: Theirs.
            trace_ids: The traces.
            key: Only spans with this attribute; None for all.
        """
        wanted = list(trace_ids)
        hashes = self.maybe("traces", [trace_hash(each) for each in wanted])
        if not hashes:
            return []
        values = Values()
        spans = (
            f"{within((seq for (seq,) in self.read(_COMMITS, [hashes])), values)}"
            f" AND space = {values.of(space)} AND is_event = 0"
            f" AND trace_id IN (SELECT unnest({values.of(wanted, 'TEXT[]')}))"
        )
        if key is not None:
            spans += f" AND {names_attribute(key, values)}"
        return self.read(sql.format(spans=spans, error=_ERROR, most=_MOST), values)

    def _trace_records(self, space: str, trace_ids: Sequence[str]) -> dict[str, TraceRecords]:
        """By trace its evaluated records, by the latest evaluation of each."""
        if not trace_ids:
            return {}
        by_trace: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        for trace_id, *row in self.read(_RECORDS, [space, trace_ids]):
            by_trace[trace_id].append(tuple(row))
        return {trace_id: _records(rows) for trace_id, rows in by_trace.items()}


def _records(rows: Sequence[tuple[Any, ...]]) -> TraceRecords:
    uid, record_id, *_ = max(rows, key=lambda row: (row[2], row[0]))
    outcomes = {outcome for *_, outcome in rows}
    return TraceRecords(
        uid=uid,
        record_id=record_id,
        count=len(rows),
        outcomes=tuple(each for each in Outcome if each.value in outcomes),
    )


def _totals(rows: Sequence[tuple[Any, ...]]) -> TraceTotals:
    calls = [row for row in rows if row[1]]
    return TraceTotals(
        start_ns=min(row[4] for row in rows),
        end_ns=max(row[5] for row in rows),
        input_tokens=sum_known(row[6] for row in calls),
        output_tokens=sum_known(row[7] for row in calls),
        models=tuple(model_tokens(*row[2:4], *row[8:]) for row in calls),
    )


def _summary(
    row: tuple[Any, ...], totals: TraceTotals, records: TraceRecords | None
) -> TraceSummary:
    trace_id, name, service, version, start_ns, end_ns, spans, errors, tools = row
    return TraceSummary(
        trace_id=trace_id,
        name=name,
        service_name=service,
        service_version=version,
        start_ns=start_ns,
        end_ns=end_ns,
        spans=spans,
        errors=errors,
        input_tokens=totals.input_tokens,
        output_tokens=totals.output_tokens,
        models=totals.models,
        tools=tuple(dict.fromkeys(tools or ())),
        records=records,
    )


_COMMITS_OF_TRACE: Final = "SELECT DISTINCT seq FROM bodies WHERE trace_hash = $1"
_EVALUATIONS: Final = """
    SELECT revision, record_uid, body FROM evaluations WHERE space = $1 AND trace_id = $2
    ORDER BY seq DESC, ordinal DESC LIMIT $3::BIGINT
"""
_AROUND: Final = """
    SELECT min(seq), max(seq) FROM bodies
    WHERE seq <= $1 AND space = $2 AND trace_hash IN (
        SELECT trace_hash FROM bodies WHERE seq BETWEEN $3 AND $4 AND space = $2)
"""


class TraceReads(SummaryReads):
    """Reads of traces."""

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the latest evaluation on each of its records.

        Args:
            space: Its space.
            trace_id: The trace.
            limit: Evaluations that are read at most, superseded ones included; the newest ones.
        """
        number, values = trace_hash(trace_id), Values()
        where = (
            f"{within((seq for (seq,) in self.read(_COMMITS_OF_TRACE, [number])), values)}"
            f" AND trace_hash = {values.of(number, 'BIGINT')}"
            f" AND space = {values.of(space)} AND trace_id = {values.of(trace_id)}"
            f" AND {ROW_BY_ROW.format('size_bytes')}"
        )
        bodies = self.read(f"SELECT body FROM bodies WHERE {where} ORDER BY seq", values)
        latest: dict[str, int] = {}
        rows = self.read(_EVALUATIONS, [space, trace_id, limit])
        for revision, uid, _ in rows:
            latest[uid] = max(revision, latest.get(uid, 0))
        return StoredTrace(
            spans=best_spans(body for (body,) in bodies),
            evaluations=tuple(
                decode_evaluation(body) for revision, uid, body in rows if revision == latest[uid]
            ),
        )

    def traces(self, query: TraceQuery) -> TracePage:
        """List traces that meet all conditions, once each, as their newest spans came.

        These are the spans that meet the first condition. Without `as_of` the listing is as of now.

        Cost: linear in the columns that are requested of the commits that are looked at; what is
        common is found in the newest ones.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query, before = replace(query, as_of=as_of), query.before
        places: dict[str, SpanPosition] = {}
        for first, last in commit_steps(as_of if before is None else min(as_of, before.seq)):
            for row in self._newest_places(query, first, last, query.limit + 1 + len(places)):
                places.setdefault(row[2], SpanPosition(*row))
            if len(places) > query.limit:
                break
        page = list(places)[: query.limit]
        return TracePage(
            items=tuple(self.trace_summaries(query.space, page).values()),
            next_before=places[page[-1]] if len(places) > len(page) else None,
            as_of=as_of,
        )

    def _newest_places(
        self, query: TraceQuery, first: int, last: int, limit: int
    ) -> Sequence[tuple[Any, ...]]:
        """The newest places of traces in some commits, in order."""
        head, *others = query.criteria() or [of_period(query)]
        head = replace(head, judged=query.judged, before=query.before)
        around = (first, last)
        if others or query.before is not None or query.without_tool is not None:
            around = self.commits_around(query, first, last)
        values = Values()
        commits = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
        where = (
            span_condition(head, values)
            + below(head.before, last, values)
            + trace_conditions(query, others, around, values)
            + not_shown_before(head, around[1], values)
        )
        return self.read(
            f"""
            SELECT seq, start_ns, trace_id, span_id FROM (
                SELECT DISTINCT ON (trace_id) seq, start_ns, trace_id, span_id FROM spans
                WHERE {commits} AND {where}
                ORDER BY trace_id, seq DESC, start_ns DESC, span_id DESC
            ) newest
            ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC
            LIMIT {values.of(limit, "BIGINT")}
            """,
            values,
        )

    def commits_around(self, query: SpanQuery, first: int, last: int) -> tuple[int, int]:
        """The first and the last commit with spans of the traces that some commits have."""
        ((begin, end),) = self.read(_AROUND, [query.as_of, query.space, first, last])
        return (first, last) if begin is None else (begin, end)


def of_period(query: TraceQuery) -> SpanQuery:
    """The filter of traces without its conditions on spans but their time."""
    return SpanQuery(
        space=query.space, since_ns=query.since_ns, until_ns=query.until_ns, as_of=query.as_of,
        judged=query.judged, before=query.before,
    )  # fmt: skip


_STATUS: Final = "status"
_COLUMNS: Final = (
    "service_name", "service_version", "environment", "agent_name", "tool_name", "response_model",
    "error_type", "user_id",
)  # fmt: skip
_NAMES: Final = (_STATUS, *_COLUMNS)
_SETS: Final = ", ".join(f"({name})" for name in _NAMES)


class TraceFacetReads(Reads):
    """Counts beside the list of traces."""

    def trace_facets(self, query: TraceQuery, is_over: IsOver) -> Facets:
        """Count what `traces` lists, by status, service, agent, tool, model, error and user.

        And by profile, outcome, task and tag of the latest evaluations on their records.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Called before each step, but the first, with how many times as many spans as
                the one before it the step looks at; true ends the search, once it has looked at a
                few.

        Cost: linear in the spans that are looked at, about 1 µs for each.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query = replace(query, as_of=as_of, before=None)
        return count_in_steps(
            self,
            "spans",
            "received_ns",
            query.space,
            as_of,
            is_over,
            lambda first: {
                **self._counts_of_spans(query, first, as_of),
                **self._counts_of_judged(query, first, as_of),
            },
        )

    def _counts_of_spans(self, query: TraceQuery, first: int, last: int) -> Counts:
        values = Values()
        columns = ", ".join(("trace_id", *(_shown(query, name, values) for name in _NAMES)))
        rows = self.read(
            f"""
            SELECT {", ".join(_NAMES)}, count(DISTINCT trace_id) FROM (
                SELECT DISTINCT {columns} {_of_traces(query, first, last, values)}
            ) shown GROUP BY GROUPING SETS ({_SETS})
            """,
            values,
        )
        counts: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for status, *texts, n in rows:  # one of them has a value; the others are NULL
            if status is not None:
                counts[_STATUS][StatusCode(status).name.lower()] = n
            for name, value in zip(_COLUMNS, texts, strict=True):
                if value:
                    counts[name][value] = n
        return counts

    def _counts_of_judged(self, query: TraceQuery, first: int, last: int) -> Counts:
        values = Values()
        count, judged = "count(DISTINCT trace_id)", query.judged or JudgedBy()
        tasks = " AND ".join(
            (
                f"t.seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}",
                *task_conditions(judged.task_id, judged.task_outcome, values),
            )
        )
        rows = self.read(
            f"""
            WITH judged AS MATERIALIZED (
                SELECT e.trace_id, e.evaluation_id, e.outcome, e.alias, e.tags FROM evaluations e
                WHERE {judged_condition(query, values, first)}
                  AND e.trace_id IN (SELECT trace_id {_of_traces(query, first, last, values)})
            )
            SELECT 'profile', alias, {count} FROM judged GROUP BY alias
            UNION ALL
            SELECT 'outcome', outcome, {count} FROM judged GROUP BY outcome
            UNION ALL
            SELECT '{TAG}', tag, {count}
            FROM (SELECT trace_id, unnest(tags) AS tag FROM judged) tagged GROUP BY tag
            UNION ALL
            SELECT 'task_id', t.task_id, {count}
            FROM task_results t JOIN judged j ON j.evaluation_id = t.evaluation_id
            WHERE {tasks} GROUP BY t.task_id
            """,
            values,
        )
        return counts_of(rows)


def _of_traces(query: TraceQuery, first: int, last: int, values: Values) -> str:
    """SQL from FROM on for the spans of the traces in some commits in which the conditions hold."""
    commits = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
    where = span_condition(of_period(query), values)
    traces = trace_conditions(query, query.criteria(), (first, last), values, (0, last))
    return f"FROM spans WHERE {commits} AND {where}{traces}"


def _shown(query: TraceQuery, name: str, values: Values) -> str:
    """SQL of a column by which is counted.

    A column that is requested shows that value alone, as another one cannot join the filter. Where
    conditions have to meet on a span, others than such spans show nothing.
    """
    meant = query.beside(name)
    if meant is None:
        return name
    return f"CASE WHEN {span_condition(meant, values)} THEN {name} END AS {name}"
