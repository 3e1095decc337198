"""First final results: what alerts and live detectors look at, and comparisons of two versions."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from collector.prices import NO_PRICES, PriceTable
from collector.store.json_text import decode_evaluation
from collector.store.rows import Completeness, Scope
from collector.store.traces import SummaryReads
from scouter.drift.canary import Result as CanaryResult
from scouter.drift.config import SLICES
from scouter.drift.series.limits import COST, LATENCY
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.series import Agent
from scouter.drift.series.slices import attributes_of
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import ASSERTIONS, as_score, plain_score
from scouter.evaluate.statistics.explained import length_trait
from scouter.evaluate.statistics.likeness import conversations_of
from scouter.evaluate.statistics.strata import Result
from scouter.evaluate.tasks.score import FEEDBACK, SCORE
from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.pair import pair_of

_FIRST: Final = "e.outcome <> 'pending' AND e.was_decided = 0"
"""SQL for the first evaluation on a record or session that is not pending."""
_NEWS: Final = f"{_FIRST} AND e.is_backfill IS NULL"
"""The same, of those that were made in their time."""
_UNIT: Final = """CASE WHEN e.session_id = '' AND starts_with(e.record_uid, 'score:')
            THEN coalesce(e.trace_id, '') ELSE e.session_id END AS session_id"""
"""SQL for the conversation of an evaluation; scores of one trace depend on each other, too."""
_LAST_OUTCOMES: Final = f"""
    SELECT e.outcome FROM evaluations e
    WHERE e.space = $1 AND e.profile_uid = $2 AND e.evaluated_ns >= $3
      AND {_NEWS} AND e.is_partial = 0
    ORDER BY e.seq DESC, e.ordinal DESC LIMIT $4::BIGINT
"""
_DECIDED: Final = f"""
    SELECT e.seq, e.ordinal, e.space, e.evaluation_id, {_UNIT}, e.profile_uid, e.outcome,
        e.service_name, e.environment, e.service_version, e.evaluated_ns, e.created_ns, e.scope,
        e.is_partial, e.is_backfill, e.reads_spans, e.completeness, e.tags, e.trace_id
    FROM evaluations e
    WHERE e.seq >= $1::BIGINT AND (e.seq > $1::BIGINT OR e.ordinal > $2::BIGINT) AND {_FIRST}
      AND ($3::TEXT IS NULL OR e.space = $3::TEXT)
      AND ($4::TEXT IS NULL
        OR $4::TEXT IN (e.alias, e.profile_name, e.profile_uid, e.profile_digest))
      AND ($5::BIGINT IS NULL OR e.evaluated_ns >= $5::BIGINT)
      AND ($6::BIGINT IS NULL OR e.evaluated_ns < $6::BIGINT) AND e.seq <= $7::BIGINT
    ORDER BY e.seq, e.ordinal LIMIT $8::BIGINT
"""
_IN_TIME: Final = f"coalesce({{}}reason, '') <> '{Reason.LATE}'"
"""SQL for results that are no scores which came too late to be compared in order."""
_TASKS: Final = f"""
    SELECT evaluation_id, task_id, outcome, task_type, score FROM task_results
    WHERE seq BETWEEN $1 AND $2 AND evaluation_id IN (SELECT unnest($3::TEXT[]))
      AND {_IN_TIME.format("")}
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
        SELECT e.service_version, {_UNIT}, e.scope, e.evaluated_ns, {{outcome}} AS outcome,
            e.seq, e.ordinal, row_number() OVER (
                PARTITION BY e.service_version ORDER BY e.seq, e.ordinal) AS n
        FROM evaluations e {{tasks}}
        WHERE {_OF_AGENT} AND e.service_version IN ($3, $4) AND {_NEWS} AND {{condition}}
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
    condition=f"""t.outcome <> 'pending' AND {_IN_TIME.format("t.")}
        AND (t.outcome <> 'skipped' OR coalesce(t.reason, 'gate') = 'gate')""",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedQuery:
    """The final results that are requested."""

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
    scores: list[str]
    """Type of its result, where it is a score from outside."""


class DecidedReads(SummaryReads):
    """Reads of first final results."""

    def last_outcomes(
        self, space: str, profile_uid: str, count: int, since_ns: int = 0
    ) -> list[Outcome]:
        """Outcomes of a profile's last `count` first evaluations since a time, oldest first.

        The first evaluation on a record is its first one that is not pending. It is left out if a
        judge was not called, for its budget or its sample.
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
        prices: PriceTable = NO_PRICES,
    ) -> list[Observed]:
        """First final results behind a place, in the order of completion.

        There is one for each record, and for each session that is evaluated as a whole: the first
        one without a pending task. If a judge was not called, for its budget or its sample, the
        outcome of the whole record is left out; its tasks are not. No yardstick is known here.

        Args:
            place: Only those behind it.
            limit: So many at most.
            within: Those that are requested; of all spaces and times if none is given.
            until_seq: Only those of commits up to this one; None for all.
            slices: Slices that profiles name: spans are looked at for theirs alone.
            prices: One's own, of models.
        """
        last_seq = self.last_seq() if until_seq is None else until_seq
        given = (
            [None, None, None, None]
            if within is None
            else [within.space, within.profile, within.since_ns, within.until_ns]
        )
        rows = self.read(_DECIDED, [*place, *given, last_seq, limit])
        tasks, traits = self._tasks(rows), self._traits(rows, slices)
        amounts = self._amounts(rows, prices)
        found: list[Observed] = []
        for row in rows:
            seq, nth, space, each, session, uid, outcome, *agent = row[:10]
            at_ns, made, scope, part, past = row[10:15]
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
                    is_backfill=past == 1,
                    evaluation_id=each,
                    outcomes=(*whole, *own.outcomes),
                    numbers=tuple(own.numbers),
                    amounts=amounts.get(each, ()),
                    traits=traits.get(each, ()),
                    score_type="".join(own.scores),
                )
            )
        return found

    def _amounts(
        self, evaluations: Sequence[tuple[Any, ...]], prices: PriceTable
    ) -> dict[str, tuple[tuple[str, float | None], ...]]:
        """Costs and durations by evaluation, of rows of `_DECIDED`.

        Of several records that a profile judges in one trace the first one has them: they would
        count one trace several times. A record that did not wait for its trace has none, nor has
        one whose trace was never complete.
        """
        first: dict[tuple[str, str, str], str] = {}
        by_space: defaultdict[str, set[str]] = defaultdict(set)
        for row in evaluations:
            reads_spans, completeness, _, trace_id = row[-4:]
            if trace_id and reads_spans and completeness != Completeness.DEADLINE:
                first.setdefault((row[2], row[5], trace_id), row[3])
                by_space[row[2]].add(trace_id)
        totals = {space: self.trace_totals(space, ids) for space, ids in by_space.items()}
        found: dict[str, tuple[tuple[str, float | None], ...]] = {}
        for (space, _, trace_id), each in first.items():
            total = totals[space].get(trace_id)
            if total is not None:
                cost = ((COST, prices.total(total.models).usd),) if total.models else ()
                found[each] = (*cost, (LATENCY, max(0, total.duration_ns) / 1e9))
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
        found: defaultdict[str, _Tasks] = defaultdict(lambda: _Tasks([], [], []))
        if not evaluations:
            return found
        first, last = evaluations[0][0], evaluations[-1][0]
        measured: set[str] = set()
        ids = [row[3] for row in evaluations]
        for each, task_id, outcome, task_type, score in self.read(_TASKS, [first, last, ids]):
            found[each].outcomes.append((task_id, Outcome(outcome)))
            if task_type in (SCORE, FEEDBACK):
                found[each].scores.append(task_type)
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

    def version_results(self, query: VersionQuery, limit: int) -> list[tuple[str, CanaryResult]]:
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
                CanaryResult(
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
    for tag in tags or ():
        if pair_of(tag)[0] not in RESOURCE_TAGS:
            yield f"tag {tag}"
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
_AROUND: Final = f"""
    WITH r AS (
        SELECT e.seq, e.ordinal, {_UNIT}, e.record_id, e.record_uid, e.trace_id, e.tags,
            e.scope, {{outcome}} = 'passed' AS passed, e.evaluated_ns >= $3::BIGINT AS is_since
        FROM evaluations e {{tasks}}
        WHERE e.space = $1 AND e.profile_uid = $2 AND {{outcome}} IN ('passed', 'failed')
          AND e.was_decided = 0 AND {{condition}}
          AND ($4::TEXT IS NULL OR e.service_name = $4::TEXT)
          AND ($5::TEXT IS NULL OR e.environment = $5::TEXT)
    )
    SELECT session_id, record_id, record_uid, trace_id, tags, scope, passed, is_since FROM (
        (SELECT * FROM r WHERE is_since ORDER BY seq, ordinal LIMIT {{most}})
        UNION ALL
        (SELECT * FROM r WHERE NOT is_since ORDER BY seq DESC, ordinal DESC LIMIT {{most}})
    ) found ORDER BY seq, ordinal
"""
_RECORDS_AROUND: Final = _AROUND.format(
    outcome="e.outcome", tasks="", condition="e.scope = 'record' AND e.is_partial = 0", most=_MOST
)
_TASK_AROUND: Final = _AROUND.format(
    outcome="t.outcome",
    tasks="""JOIN task_results t ON t.space = $1 AND t.profile_uid = $2 AND t.task_id = $6
        AND t.evaluation_id = e.evaluation_id""",
    condition="1 = 1",
    most=_MOST,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeQuery:
    """The results around a change."""

    space: str
    profile_uid: str
    task: str
    """Empty for whole records."""
    since_ns: int
    """Results from then on are compared with those before."""
    service: str | None = None
    """None for any."""
    environment: str | None = None


class ChangeReads(SummaryReads):
    """Reads of the results around a change."""

    def results_around(self, query: ChangeQuery) -> tuple[list[Result], list[Result]]:
        """Results before and since a moment, with their traits, in the order of completion.

        Returns:
            At most the first 5,000 since the moment, and as many of the last before it.

        Cost: the names in the spans of these results.
        """
        given = [
            query.space, query.profile_uid, query.since_ns, query.service, query.environment,
            *([query.task] if query.task else []),
        ]  # fmt: skip
        rows = self.read(_TASK_AROUND if query.task else _RECORDS_AROUND, given)
        names = self.trace_names(query.space, {row[3] for row in rows if row[3]})
        sides = [[row for row in rows if row[-1] is is_since] for is_since in (False, True)]
        before, since = (_results(side, names) for side in sides)
        return before, since


def _results(
    rows: Sequence[tuple[Any, ...]], names: Mapping[str, Collection[tuple[str, str]]]
) -> list[Result]:
    sessions = [session if scope == Scope.RECORD else "" for session, *_, scope, _, _ in rows]
    lengths = Counter(filter(None, sessions))
    passes = [bool(passed) for *_, passed, _ in rows]
    numbers = conversations_of(list(zip(sessions, passes, strict=True)))
    found: list[Result] = []
    for number, session, row in zip(numbers, sessions, rows, strict=True):
        _, record_id, uid, trace_id, tags, _, passed, _ = row
        traits = set(_traits(tags, names.get(trace_id, ())))
        if record_id and record_id != uid:
            traits.add(f"record {record_id}")
        if session:
            traits.add(length_trait(lengths[session]))
        found.append(Result(number, bool(passed), frozenset(traits)))
    return found
