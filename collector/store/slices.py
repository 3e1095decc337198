"""Slices: what the results around a fall have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.store.commit import tags_of
from collector.store.reads import Reads
from scouter.drift.detect.slices import Slice

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

_MOST: Final = 5_000
"""Results on each side of a fall that are looked at."""
_COUNTS: Final = ", ".join(
    f"count(*) FILTER (WHERE {when} AND outcome = '{outcome}')"
    for when in ("NOT is_since", "is_since")
    for outcome in ("passed", "failed")
)
_HEAD: Final = """
    SELECT e.evaluation_id, e.trace_id, e.tags, e.service_version, {outcome} AS outcome,
        e.evaluated_ns >= $3::BIGINT AS is_since
    FROM evaluations e {tasks}
    WHERE e.space = $1 AND e.profile_uid = $2 AND {outcome} IN ('passed', 'failed')
      AND e.was_decided = 0
      AND ($4::TEXT IS NULL OR e.service_name = $4::TEXT)
      AND ($5::TEXT IS NULL OR e.environment = $5::TEXT)
"""
_RESULTS: Final = f"""
    WITH r AS (
        ({_HEAD} AND e.evaluated_ns >= $3::BIGINT ORDER BY e.seq LIMIT {_MOST})
        UNION ALL
        ({_HEAD} AND e.evaluated_ns < $3::BIGINT ORDER BY e.seq DESC LIMIT {_MOST})
    )
"""
"""The results around a fall, as a table `r`."""
_OF_RECORDS: Final = _RESULTS.format(outcome="e.outcome", tasks="")
_OF_TASK: Final = _RESULTS.format(
    outcome="t.outcome",
    tasks="""JOIN task_results t ON t.space = $1 AND t.profile_uid = $2 AND t.task_id = $6
        AND t.evaluation_id = e.evaluation_id""",
)
_SLICES: Final = f"""
    , steps AS (
        SELECT s.trace_id, s.span_id, s.start_ns, s.tool_name, s.request_model, s.agent_name
        FROM spans s
        WHERE s.space = $1 AND s.trace_id IN (SELECT trace_id FROM r)
          AND (s.tool_name <> '' OR s.request_model <> '' OR s.agent_name <> '')
    ), hops AS (
        SELECT trace_id, span_id, start_ns, agent_name, lag(agent_name) OVER (
            PARTITION BY trace_id ORDER BY start_ns, span_id) AS before
        FROM steps WHERE agent_name <> ''
    ), of_traces AS (
        SELECT trace_id, 'tool' AS kind, tool_name AS name FROM steps WHERE tool_name <> ''
        UNION
        SELECT trace_id, 'model', request_model FROM steps WHERE request_model <> ''
        UNION
        SELECT trace_id, 'agent', agent_name FROM steps WHERE agent_name <> ''
        UNION
        SELECT trace_id, 'route', string_agg(agent_name, ' > ' ORDER BY start_ns, span_id)
        FROM hops WHERE agent_name IS DISTINCT FROM before
        GROUP BY trace_id HAVING count(*) BETWEEN 2 AND 8
    ), named AS (
        SELECT r.evaluation_id, o.kind, o.name FROM r JOIN of_traces o ON o.trace_id = r.trace_id
        UNION ALL
        SELECT evaluation_id, 'tag', unnest(tags) FROM r
        UNION ALL
        SELECT evaluation_id, 'version', service_version FROM r
        WHERE service_version <> '' AND (SELECT count(DISTINCT service_version) FROM r) > 1
    )
    SELECT kind, name, {_COUNTS} FROM named JOIN r ON r.evaluation_id = named.evaluation_id
    GROUP BY kind, name HAVING count(*) FILTER (WHERE is_since) > 0
"""
"""A route is the agents that a trace went through, where there were several; a longer way is no
one's way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceQuery:
    """The results that are cut into slices."""

    space: str
    profile_uid: str
    task: str
    """Empty for whole records."""
    since_ns: int
    """Results from then on are compared with those before."""
    service: str | None = None
    """None for any."""
    environment: str | None = None


class SliceReads(Reads):
    """Reads of the results around a fall."""

    def whole(self, query: SliceQuery) -> Slice:
        """The results of `slices` together, under an empty name."""
        results, given = _results(query)
        (counts,) = self.read(f"{results} SELECT {_COUNTS} FROM r", given)
        return _slice("", counts)

    def slices(self, query: SliceQuery) -> tuple[list[Slice], int]:
        """Passes and fails before and since a moment, of those that have something in common.

        That is a tag, a tool, a model, an agent, the route through several agents, or the version
        of the service where there are several.

        Returns:
            The slices by name, and the results since the moment that were looked at: at most the
            first 5,000, and as many of the last before it.

        Cost: a scan of the ids of all traces, and the names in the spans of these results.
        """
        results, given = _results(query)
        ((total,),) = self.read(f"{results} SELECT count(*) FILTER (WHERE is_since) FROM r", given)
        rows = self.read(results + _SLICES, given)
        found = [_slice(_name(kind, name), counts) for kind, name, *counts in rows]
        return sorted(found, key=lambda each: each.name), total


def _results(query: SliceQuery) -> tuple[str, Sequence[object]]:
    """The table `r` of a query, and the parameters of that."""
    given = [
        query.space, query.profile_uid, query.since_ns, query.service, query.environment,
        *([query.task] if query.task else []),
    ]  # fmt: skip
    return (_OF_TASK if query.task else _OF_RECORDS), given


def _name(kind: str, name: str) -> str:
    if kind == "tag":
        ((key, value),) = tags_of([name]).items()
        name = f"{key}={value}"
    return f"{kind} {name}"


def _slice(name: str, counts: Sequence[Any]) -> Slice:
    passed_before, failed_before, passed, failed = counts
    return Slice(
        name=name, passed_before=passed_before, failed_before=failed_before, passed=passed,
        failed=failed,
    )  # fmt: skip
