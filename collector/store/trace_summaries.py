"""Traces in a few figures each: reads by their ids, which look at the commits that have them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector.store.bodies import trace_hash
from collector.store.reads import Reads, Values, within
from collector.store.span_queries import TraceRecords, TraceSummary, TraceTotals
from scouter.evaluate.outcome import Outcome
from scouter.model.span import StatusCode

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_MOST: Final = 200
"""Calls of tools, and steps, of a trace that are read: the first ones."""
_ERROR: Final = StatusCode.ERROR.value
_COMMITS: Final = """
    SELECT DISTINCT seq FROM bodies WHERE trace_hash IN (SELECT unnest($1::BIGINT[]))
"""
_SUMMARIES: Final = """
    WITH own AS MATERIALIZED (
        SELECT trace_id, span_id, parent_span_id, name, service_name, service_version,
            start_ns, end_ns, status, input_tokens, output_tokens, tool_name
        FROM spans WHERE {spans}
    ),
    heads AS (
        SELECT DISTINCT ON (trace_id) trace_id, name, service_name, service_version FROM own
        ORDER BY trace_id, CASE WHEN parent_span_id IS NULL THEN 0 ELSE 1 END, start_ns, span_id
    ),
    sums AS (
        SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns, count(*) AS n,
            count(*) FILTER (WHERE status = {error}) AS errors,
            sum(input_tokens)::BIGINT AS given, sum(output_tokens)::BIGINT AS made,
            (array_agg(tool_name ORDER BY start_ns, span_id)
                FILTER (WHERE tool_name <> ''))[1:{most}] AS tools
        FROM own GROUP BY trace_id
    )
    SELECT h.trace_id, h.name, h.service_name, h.service_version,
        s.start_ns, s.end_ns, s.n, s.errors, s.given, s.made, s.tools
    FROM heads h JOIN sums s ON s.trace_id = h.trace_id
"""
_RECORDS: Final = """
    SELECT DISTINCT ON (record_uid) trace_id, record_uid, record_id, seq, outcome
    FROM evaluations
    WHERE space = $1 AND trace_id IN (SELECT unnest($2::TEXT[]))
    ORDER BY record_uid, revision DESC
"""
_TOTALS: Final = """
    SELECT trace_id, min(start_ns), max(end_ns), sum(input_tokens)::BIGINT,
        sum(output_tokens)::BIGINT
    FROM spans WHERE {spans} GROUP BY trace_id
"""
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
        """Traces by id, in the order asked for, counted over all of their spans and records.

        One without spans is left out.
        """
        rows = {row[0]: row for row in self._of_traces(_SUMMARIES, space, trace_ids)}
        records = self._trace_records(space, list(rows))
        return {
            trace_id: _summary(rows[trace_id], records.get(trace_id))
            for trace_id in trace_ids
            if trace_id in rows
        }

    def trace_totals(self, space: str, trace_ids: Collection[str]) -> Mapping[str, TraceTotals]:
        """Time and tokens of traces, over all of their spans; one without any is left out."""
        rows = self._of_traces(_TOTALS, space, trace_ids)
        return {trace_id: TraceTotals(*totals) for trace_id, *totals in rows}

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

    def _of_traces(self, sql: str, space: str, trace_ids: Iterable[str]) -> list[tuple[Any, ...]]:
        """Run a query about the spans of traces, which stand in it as `{spans}`."""
        wanted = list(trace_ids)
        hashes = self.maybe_traces([trace_hash(each) for each in wanted])
        if not hashes:
            return []
        values = Values()
        spans = (
            f"{within((seq for (seq,) in self.read(_COMMITS, [hashes])), values)}"
            f" AND space = {values.of(space)} AND is_event = 0"
            f" AND trace_id IN (SELECT unnest({values.of(wanted, 'TEXT[]')}))"
        )
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


def _summary(row: tuple[Any, ...], records: TraceRecords | None) -> TraceSummary:
    trace_id, name, service, version, start_ns, end_ns, spans, errors, given, made, tools = row
    return TraceSummary(
        trace_id=trace_id,
        name=name,
        service_name=service,
        service_version=version,
        start_ns=start_ns,
        end_ns=end_ns,
        spans=spans,
        errors=errors,
        input_tokens=given,
        output_tokens=made,
        tools=tuple(dict.fromkeys(tools or ())),
        records=records,
    )
