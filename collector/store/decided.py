"""First final results: what alerts and live detectors look at, and comparisons of two versions."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from collector.store.commit import tags_of
from collector.store.evaluation_codec import decode_evaluation
from collector.store.reads import Reads
from collector.store.rows import Scope
from collector.store.traces import SummaryReads
from scouter.drift.canary import Result
from scouter.drift.config import SLICES
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.series import Agent
from scouter.drift.series.slices import attributes_of
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import ASSERTIONS, as_score, plain_score
from scouter.model.attributes import RESOURCE_TAGS

_FIRST: Final = "e.outcome <> 'pending' AND e.was_decided = 0"
"""SQL for the first evaluation on a record or session that is not pending."""
_LAST_OUTCOMES: Final = f"""
    SELECT e.outcome FROM evaluations e
    WHERE e.space = $1 AND e.profile_uid = $2 AND e.evaluated_ns >= $3
      AND {_FIRST} AND e.is_partial = 0
    ORDER BY e.seq DESC, e.ordinal DESC LIMIT $4::BIGINT
"""
_DECIDED: Final = f"""
    SELECT e.seq, e.ordinal, e.space, e.evaluation_id, e.session_id, e.profile_uid, e.outcome,
        e.service_name, e.environment, e.service_version, e.evaluated_ns, e.created_ns, e.scope,
        e.is_partial, e.tags, e.trace_id
    FROM evaluations e
    WHERE e.seq >= $1::BIGINT AND (e.seq > $1::BIGINT OR e.ordinal > $2::BIGINT) AND {_FIRST}
      AND ($3::TEXT IS NULL OR e.space = $3::TEXT)
      AND ($4::TEXT IS NULL
        OR $4::TEXT IN (e.alias, e.profile_name, e.profile_uid, e.profile_digest))
      AND ($5::BIGINT IS NULL OR e.evaluated_ns >= $5::BIGINT)
      AND ($6::BIGINT IS NULL OR e.evaluated_ns < $6::BIGINT) AND e.seq <= $7::BIGINT
    ORDER BY e.seq, e.ordinal LIMIT $8::BIGINT
"""
_TASKS: Final = """
    SELECT evaluation_id, task_id, outcome, task_type, score FROM task_results
    WHERE seq BETWEEN $1 AND $2 AND evaluation_id IN (SELECT unnest($3::TEXT[]))
    ORDER BY seq, evaluation_id, position
"""
_BODIES: Final = """
    SELECT evaluation_id, body FROM evaluations
    WHERE seq BETWEEN $1 AND $2 AND evaluation_id IN (SELECT unnest($3::TEXT[]))
"""
_OF_AGENT: Final = """
    e.space = $1 AND e.profile_uid = $2
    AND ($5::TEXT IS NULL OR e.service_name = $5::TEXT)
    AND ($6::TEXT IS NULL OR e.environment = $6::TEXT)
"""
_VERSIONS: Final = f"""
    SELECT service_version, session_id, scope, evaluated_ns, outcome FROM (
        SELECT e.service_version, e.session_id, e.scope, e.evaluated_ns, {{outcome}} AS outcome,
            e.seq, e.ordinal, row_number() OVER (
                PARTITION BY e.service_version ORDER BY e.seq, e.ordinal) AS n
        FROM evaluations e {{tasks}}
        WHERE {_OF_AGENT} AND e.service_version IN ($3, $4) AND {_FIRST} AND {{condition}}
          AND e.evaluated_ns >= coalesce($7::BIGINT, (
            SELECT min(e.evaluated_ns) FROM evaluations e
            WHERE {_OF_AGENT} AND e.service_version = $4))
    ) r WHERE n <= $8::BIGINT ORDER BY seq, ordinal
"""
_OF_RECORDS: Final = _VERSIONS.format(
    outcome="e.outcome", tasks="", condition="e.scope = 'record' AND e.is_partial = 0"
)
_OF_TASK: Final = _VERSIONS.format(
    outcome="t.outcome",
    tasks="""JOIN task_results t ON t.space = $1 AND t.profile_uid = $2 AND t.task_id = $9
        AND t.evaluation_id = e.evaluation_id""",
    condition="""t.outcome <> 'pending'
        AND (t.outcome <> 'skipped' OR coalesce(t.reason, 'gate') = 'gate')""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedQuery:
    """The final results that are asked for."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    since_ns: int | None = None
    """Evaluated then or later."""
    until_ns: int | None = None
    """Evaluated before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionQuery:
    """The results of two versions that take traffic side by side."""

    space: str
    profile_uid: str
    stable: str
    candidate: str
    service: str | None = None
    """None for any."""
    environment: str | None = None
    task: str
    """Empty for whole records."""
    since_ns: int | None
    """None for the first result of the candidate."""


class _Tasks(NamedTuple):
    """Outcomes and numbers of an evaluation, by task."""

    outcomes: list[tuple[str, Outcome]]
    numbers: list[tuple[str, float]]


class DecidedReads(SummaryReads):
    """Reads of first final results."""

    def last_outcomes(
        self, space: str, profile_uid: str, count: int, since_ns: int = 0
    ) -> list[Outcome]:
        """Outcomes of a profile's last `count` first evaluations since a time, oldest first.

        The first evaluation on a record is its first one that is not pending. It is left out if a
        judge was not asked, for its budget or its sample.
        """
        rows = self.read(_LAST_OUTCOMES, [space, profile_uid, since_ns, count])
        return [Outcome(outcome) for (outcome,) in reversed(rows)]

    def decided_after(
        self,
        place: Place,
        limit: int,
        within: DecidedQuery | None = None,
        until_seq: int | None = None,
        slices: Collection[str] = SLICES,
    ) -> list[Observed]:
        """First final results behind a place, in the order of completion.

        There is one for each record, and for each session that is evaluated as a whole: the first
        one without a pending task. If a judge was not asked, for its budget or its sample, the
        outcome of the whole record is left out; its tasks are not. No yardstick is known here.

        Args:
            place: Only those behind it.
            limit: So many at most.
            within: Those that are asked for; of all spaces and times if none is given.
            until_seq: Only those of commits up to this one; None for all.
            slices: Slices that profiles name: spans are looked at for theirs alone.
        """
        last_seq = self.last_seq() if until_seq is None else until_seq
        given = (
            [None, None, None, None]
            if within is None
            else [within.space, within.profile, within.since_ns, within.until_ns]
        )
        rows = self.read(_DECIDED, [*place, *given, last_seq, limit])
        tasks, traits = self._tasks(rows), self._traits(rows, slices)
        found: list[Observed] = []
        for seq, nth, space, each, session, uid, outcome, *agent, at_ns, made, scope, part in (
            row[:-2] for row in rows
        ):
            own, is_record = tasks[each], scope == Scope.RECORD
            whole = [(RECORD, Outcome(outcome))] if is_record and not part else []
            found.append(
                Observed(
                    place=Place(seq, nth),
                    space=space,
                    profile_uid=uid,
                    agent=Agent(*agent),
                    session=session if is_record else "",
                    at_ns=at_ns,
                    created_ns=made,
                    evaluation_id=each,
                    outcomes=(*whole, *own.outcomes),
                    numbers=tuple(own.numbers),
                    traits=traits.get(each, ()),
                )
            )
        return found

    def _traits(
        self, evaluations: Sequence[tuple[Any, ...]], slices: Collection[str]
    ) -> dict[str, tuple[str, ...]]:
        """Traits of records by evaluation, of rows of `_DECIDED`."""
        named: dict[tuple[str, str], Collection[tuple[str, str]]] = {}
        if any(not each.startswith("tag") for each in slices):
            attributes = attributes_of(slices)
            by_space: defaultdict[str, set[str]] = defaultdict(set)
            for row in evaluations:
                if row[-1]:
                    by_space[row[2]].add(row[-1])
            named = {
                (space, trace_id): names
                for space, trace_ids in by_space.items()
                for trace_id, names in self.trace_names(space, trace_ids, attributes).items()
            }
        return {
            row[3]: tuple(_traits(row[-2], named.get((row[2], row[-1]), ())))
            for row in evaluations
            if row[12] == Scope.RECORD
        }

    def _tasks(self, evaluations: Sequence[tuple[Any, ...]]) -> dict[str, _Tasks]:
        """Outcomes and numbers of tasks by evaluation, of rows of `_DECIDED`."""
        found: defaultdict[str, _Tasks] = defaultdict(lambda: _Tasks([], []))
        if not evaluations:
            return found
        first, last = evaluations[0][0], evaluations[-1][0]
        measured: set[str] = set()
        ids = [row[3] for row in evaluations]
        for each, task_id, outcome, task_type, score in self.read(_TASKS, [first, last, ids]):
            found[each].outcomes.append((task_id, Outcome(outcome)))
            if task_type not in ASSERTIONS:
                number = plain_score(Outcome(outcome)) if score is None else score
                if number is not None:
                    found[each].numbers.append((task_id, number))
            elif task_type == "TraceAssertion":
                measured.add(each)
        if measured:  # bodies are read for those alone
            for each, body in self.read(_BODIES, [first, last, sorted(measured)]):
                found[each].numbers.extend(_measures(body))
        return found

    def version_results(self, query: VersionQuery, limit: int) -> list[tuple[str, Result]]:
        """First final results of two versions, in the order of completion.

        Args:
            query: Selects the results.
            limit: Most results of each version, from the first on: a later look sees them again,
                and more.

        Returns:
            Each result with its version, also of tasks that a gate skipped. Results without an
            answer of the judge, for its budget or its sample, are left out.
        """
        rows = self.read(
            _OF_TASK if query.task else _OF_RECORDS,
            [
                query.space, query.profile_uid, query.stable, query.candidate, query.service,
                query.environment, query.since_ns, limit, *([query.task] if query.task else []),
            ],
        )  # fmt: skip
        return [
            (
                version,
                Result(
                    session=session if scope == Scope.RECORD else "",
                    at_ns=at_ns,
                    is_error=outcome == Outcome.ERRORED,
                    is_passed=outcome == Outcome.PASSED,
                    is_skipped=outcome == Outcome.SKIPPED,
                ),
            )
            for version, session, scope, at_ns, outcome in rows
        ]


def _traits(tags: Iterable[str], names: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Write tags and names as traits; the tags that tell the agent are none."""
    for key, value in tags_of(tags or ()).items():
        if key not in RESOURCE_TAGS:
            yield f"tag {key}={value}"
    for kind, name in sorted(names):
        yield f"{kind} {name}"


def _measures(body: str) -> list[tuple[str, float]]:
    """Values that the trace assertions of an evaluation measured."""
    return [
        (task.task_id, number)
        for task in decode_evaluation(body).tasks
        if task.task_type == "TraceAssertion"
        and task.outcome in (Outcome.PASSED, Outcome.FAILED)
        and (number := as_score(task.actual)) is not None
    ]


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
_TAGGED_OF_RECORDS: Final = _RESULTS.format(outcome="e.outcome", tasks="")
_TAGGED_OF_TASK: Final = _RESULTS.format(
    outcome="t.outcome",
    tasks="""JOIN task_results t ON t.space = $1 AND t.profile_uid = $2 AND t.task_id = $6
        AND t.evaluation_id = e.evaluation_id""",
)
_SLICES: Final = f"""
    , steps AS (
        SELECT s.trace_id, s.span_id, s.start_ns, s.tool_name, s.request_model, s.agent_name,
            s.setup
        FROM spans s
        WHERE s.space = $1 AND s.trace_id IN (SELECT trace_id FROM r) AND (s.tool_name <> ''
            OR s.request_model <> '' OR s.agent_name <> '' OR array_length(s.setup, 1) > 0)
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
        SELECT trace_id, 'setup', unnest(setup) FROM steps
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

    def unsliced(self, query: SliceQuery) -> Slice:
        """The results of `slices` together, under an empty name."""
        results, given = _results(query)
        (counts,) = self.read(f"{results} SELECT {_COUNTS} FROM r", given)
        return _slice("", counts)

    def slices(self, query: SliceQuery) -> tuple[list[Slice], int]:
        """Passes and fails before and since a moment, of those that have something in common.

        That is a tag, a tool, a model, an agent, the route through several agents, a value of the
        setup, or the version of the service where there are several.

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
    return (_TAGGED_OF_TASK if query.task else _TAGGED_OF_RECORDS), given


def _name(kind: str, name: str) -> str:
    if kind == "tag":
        ((key, value),) = tags_of([name]).items()
        name = f"{key}={value}"
    return name.replace("=", " ", 1) if kind == "setup" else f"{kind} {name}"


def _slice(name: str, counts: Sequence[Any]) -> Slice:
    passed_before, failed_before, passed, failed = counts
    return Slice(
        name=name, passed_before=passed_before, failed_before=failed_before, passed=passed,
        failed=failed,
    )  # fmt: skip
