"""State of the live drift detectors in the store, and the results that they read from it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collector.storage.duckdb.database import Database, Reads, run
from collector.storage.duckdb.evaluations import PROFILE
from collector.storage.duckdb.job import Job, RowsJob
from collector.storage.duckdb.rollup import GATE
from collector.storage.duckdb.transaction import Transaction, one_of
from collector.store.alerts import DeliveryState, DriftDelivery, DriftEvent, DriftState
from collector.store.decided import DecidedQuery, VersionQuery
from collector.store.rows import Scope
from collector.store.slices import SliceQuery
from scouter.drift.canary import Result
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.series import Agent
from scouter.evaluate.outcome import Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608


@dataclass(slots=True, kw_only=True)
class DriftJob(Job):
    """States and events that belong together."""

    database: Database
    states: Sequence[DriftState]
    events: Sequence[DriftEvent]

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.states) + len(self.events)

    def apply(self, tx: Transaction) -> int:
        """Put the states in the place of those with their names, and add the events."""
        names = [state.name for state in self.states]
        if names:
            sql = f"DELETE FROM drift_states WHERE {one_of('name', names)}"
            run(self.database.connection(), sql, names)
        for state in self.states:
            tx.add("drift_states", tx.ordinal("drift_states"), state.name, state.body)
        for event in self.events:
            tx.add(
                "drift_events", tx.ordinal("drift_events"), event.space, event.alert_id,
                event.at_ns, event.state, event.body,
            )  # fmt: skip
        return tx.seq


@dataclass(slots=True, kw_only=True)
class DeliveriesJob(RowsJob[DriftDelivery]):
    """Steps of deliveries."""

    def apply(self, tx: Transaction) -> int:
        """Add them."""
        for row in self.rows:
            tx.add(
                "drift_deliveries", tx.ordinal("drift_deliveries"), row.space, row.alert_id,
                row.channel, row.alert_state, row.changed_ns, row.at_ns, row.state.value,
                row.attempts, row.answer,
            )  # fmt: skip
        return tx.seq


def read_decided(
    database: Reads, place: Place, limit: int, within: DecidedQuery | None = None
) -> list[Observed]:
    """First final results behind a place; see `DriftStore.decided_after`."""
    wanted, given = _within(within)
    rows = database.read(
        "SELECT e.seq, e.ordinal, e.space, e.evaluation_id, e.session_id, e.profile_uid, e.outcome,"
        " e.service_name, e.environment, e.service_version, e.evaluated_ns, e.scope,"
        " coalesce(e.is_partial, false) FROM evaluations e"
        " WHERE e.seq >= ? AND (e.seq > ? OR e.ordinal > ?) AND e.outcome <> 'pending'"
        f" AND NOT coalesce(e.was_decided, e.revision > 1) {wanted} ORDER BY e.seq, e.ordinal"
        " LIMIT ?",
        [place.seq, place.seq, place.ordinal, *given, limit],
    )
    tasks = _tasks(database, rows[0][0], rows[-1][0]) if rows else {}
    found: list[Observed] = []
    for seq, ordinal, space, evaluation_id, session, uid, outcome, *agent, ns, scope, part in rows:
        outcomes, numbers = tasks.get(evaluation_id, ([], []))
        is_record = scope == Scope.RECORD
        if is_record and not part:
            outcomes = [(RECORD, Outcome(outcome)), *outcomes]
        found.append(
            Observed(
                place=Place(seq, ordinal),
                space=space,
                profile_uid=uid,
                agent=Agent(*agent),
                session=session if is_record else "",
                at_ns=ns,
                evaluation_id=evaluation_id,
                outcomes=tuple(outcomes),
                numbers=tuple(numbers),
            )
        )
    return found


def _within(query: DecidedQuery | None) -> tuple[str, list[Any]]:
    """The conditions of a query, and their values."""
    if query is None:
        return "", []
    asked = (
        ("AND e.space = ?", query.space), (f"AND {PROFILE}", query.profile),
        ("AND e.evaluated_ns >= ?", query.since_ns), ("AND e.evaluated_ns < ?", query.until_ns),
    )  # fmt: skip
    known = [(condition, value) for condition, value in asked if value is not None]
    return " ".join(condition for condition, _ in known), [value for _, value in known]


_Tasks = tuple[list[tuple[str, Outcome]], list[tuple[str, float]]]
"""Outcomes and numbers, by task."""
_SCORE = """
    CASE WHEN outcome IN ('passed', 'failed') AND NOT ends_with(task_type, 'Assertion')
        THEN coalesce(score, CASE outcome WHEN 'passed' THEN 1 ELSE 0 END) END
"""
_MEASURED = """
    SELECT t.evaluation_id, t.task_id,
        TRY_CAST(json_extract_string(e.body, concat('$[1][', t.position, '][5]')) AS DOUBLE)
    FROM task_results t JOIN evaluations e ON e.evaluation_id = t.evaluation_id
    WHERE t.seq BETWEEN $1 AND $2 AND e.seq BETWEEN $1 AND $2
        AND t.task_type = 'TraceAssertion' AND t.outcome IN ('passed', 'failed')
    ORDER BY t.evaluation_id, t.position
"""


def _tasks(database: Reads, first: int, last: int) -> dict[str, _Tasks]:
    """Outcomes and numbers of tasks by evaluation, of those that some commits stored."""
    rows = database.read(
        f"SELECT evaluation_id, task_id, outcome, task_type, {_SCORE} FROM task_results"
        " WHERE seq BETWEEN ? AND ? ORDER BY seq, evaluation_id, position",
        [first, last],
    )
    found: defaultdict[str, _Tasks] = defaultdict(lambda: ([], []))
    for evaluation_id, task_id, outcome, _, score in rows:
        outcomes, numbers = found[evaluation_id]
        outcomes.append((task_id, Outcome(outcome)))
        if score is not None:
            numbers.append((task_id, score))
    if any(row[3] == "TraceAssertion" for row in rows):  # bodies are read for those alone
        for evaluation_id, task_id, number in database.read(_MEASURED, [first, last]):
            if number is not None and math.isfinite(number):
                found[evaluation_id][1].append((task_id, number))
    return found


def read_version_results(
    database: Database, query: VersionQuery, limit: int
) -> list[tuple[str, Result]]:
    """First final results of two versions; see `DriftStore.version_results`."""
    own = "space = ? AND profile_uid = ?"
    given: list[Any] = [query.space, query.profile_uid]
    for name, value in (("service_name", query.service), ("environment", query.environment)):
        if value is not None:
            own += f" AND {name} = ?"
            given.append(value)
    since = f"(SELECT min(evaluated_ns) FROM evaluations WHERE {own} AND service_version = ?)"
    since_given: list[Any] = [*given, query.candidate]
    if query.since_ns is not None:
        since, since_given = "?", [query.since_ns]
    outcome, joined, join_given = "e.outcome", f"AND e.scope = '{Scope.RECORD.value}'", []
    joined += " AND NOT coalesce(e.is_partial, false)"
    tasks = ""
    if query.task:
        outcome = "t.outcome"
        joined = f"AND (t.outcome <> 'skipped' OR coalesce(t.reason, '{GATE}') = '{GATE}')"
        tasks = " JOIN task_results t ON t.evaluation_id = e.evaluation_id AND t.task_id = ?"
        join_given = [query.task]
    rows = database.read(
        f"SELECT e.service_version, e.session_id, e.scope, e.evaluated_ns, {outcome}"
        f" FROM (SELECT * FROM evaluations WHERE {own} AND service_version IN (?, ?)) e{tasks}"
        f" WHERE e.outcome <> 'pending' AND NOT coalesce(e.was_decided, e.revision > 1) {joined}"
        f" AND {outcome} <> 'pending' AND e.evaluated_ns >= {since} QUALIFY row_number() OVER"
        " (PARTITION BY e.service_version ORDER BY e.seq, e.ordinal) <= ?"
        " ORDER BY e.seq, e.ordinal",
        [*given, query.stable, query.candidate, *join_given, *since_given, limit],
    )
    return [
        (
            version,
            Result(
                session=session if scope == Scope.RECORD else "",
                at_ns=at_ns,
                is_error=found == Outcome.ERRORED,
                is_passed=found == Outcome.PASSED,
                is_skipped=found == Outcome.SKIPPED,
            ),
        )
        for version, session, scope, at_ns, found in rows
    ]


def read_drift_states(database: Database) -> list[DriftState]:
    """The latest state under each name."""
    rows = database.read(
        "SELECT name, body FROM drift_states"
        " QUALIFY row_number() OVER (PARTITION BY name ORDER BY seq DESC, ordinal DESC) = 1"
    )
    return [DriftState(name=name, body=body) for name, body in rows if body]


_EVENT = "space, alert_id, at_ns, state, body"


def read_drift_alerts(database: Database, space: str | None) -> list[DriftEvent]:
    """The latest event of each alert, the newest first."""
    where, given = ("WHERE space = ?", [space]) if space is not None else ("", [])
    rows = database.read(
        f"SELECT {_EVENT} FROM drift_events {where} QUALIFY row_number() OVER"
        " (PARTITION BY space, alert_id ORDER BY seq DESC, ordinal DESC) = 1"
        " ORDER BY at_ns DESC, alert_id",
        given,
    )
    return [_event(row) for row in rows]


def read_drift_history(database: Database, space: str, alert_id: str) -> list[DriftEvent]:
    """All events of one alert, the oldest first."""
    rows = database.read(
        f"SELECT {_EVENT} FROM drift_events WHERE space = ? AND alert_id = ? ORDER BY seq, ordinal",
        [space, alert_id],
    )
    return [_event(row) for row in rows]


def _event(row: tuple[Any, ...]) -> DriftEvent:
    space, alert_id, at_ns, state, body = row
    return DriftEvent(space=space, alert_id=alert_id, at_ns=at_ns, state=state, body=body)


_DELIVERY = "space, alert_id, channel, alert_state, changed_ns, at_ns, state, attempts, answer"


def read_last_deliveries(database: Database, channel: str) -> list[DriftDelivery]:
    """The latest step of a channel for each alert."""
    rows = database.read(
        f"SELECT {_DELIVERY} FROM drift_deliveries WHERE channel = ? QUALIFY row_number() OVER"
        " (PARTITION BY space, alert_id ORDER BY seq DESC, ordinal DESC) = 1",
        [channel],
    )
    return [_delivery(row) for row in rows]


def read_deliveries_of(database: Database, space: str, alert_id: str) -> list[DriftDelivery]:
    """The latest step for each channel and state of an alert, the oldest first."""
    rows = database.read(
        f"SELECT {_DELIVERY} FROM drift_deliveries WHERE space = ? AND alert_id = ?"
        " QUALIFY row_number() OVER (PARTITION BY channel, alert_state, changed_ns"
        " ORDER BY seq DESC, ordinal DESC) = 1 ORDER BY seq, ordinal",
        [space, alert_id],
    )
    return [_delivery(row) for row in rows]


def _delivery(row: tuple[Any, ...]) -> DriftDelivery:
    space, alert_id, channel, alert_state, changed_ns, at_ns, state, attempts, answer = row
    return DriftDelivery(
        space=space, alert_id=alert_id, channel=channel, alert_state=alert_state,
        changed_ns=changed_ns, at_ns=at_ns, state=DeliveryState(state), attempts=attempts,
        answer=answer,
    )  # fmt: skip


_PASSED = "count(*) FILTER ({0} AND outcome = 'passed')::BIGINT"
_FAILED = "count(*) FILTER ({0} AND outcome = 'failed')::BIGINT"
_COUNTS = ", ".join(
    each.format(when) for when in ("NOT since", "since") for each in (_PASSED, _FAILED)
)
_MOST = 5_000
"""Results on each side of a fall that are looked at."""
_OF_TRACES = """
    SELECT DISTINCT s.trace_id, unnest([
        CASE WHEN s.tool_name <> '' THEN 'tool ' || s.tool_name END,
        CASE WHEN s.request_model <> '' THEN 'model ' || s.request_model END,
        CASE WHEN s.agent_name <> '' THEN 'agent ' || s.agent_name END
    ]) AS name
    FROM spans s SEMI JOIN r ON r.trace_id = s.trace_id WHERE s.space = $1
"""
_OF_ROUTES = """
    SELECT trace_id, 'route ' || array_to_string(list(agent_name ORDER BY start_ns, span_id), ' > ')
        AS name
    FROM (
        SELECT s.trace_id, s.span_id, s.start_ns, s.agent_name FROM spans s
        SEMI JOIN r ON r.trace_id = s.trace_id WHERE s.space = $1 AND s.agent_name <> ''
        QUALIFY s.agent_name IS DISTINCT FROM lag(s.agent_name)
            OVER (PARTITION BY s.trace_id ORDER BY s.start_ns, s.span_id)
    ) GROUP BY trace_id HAVING count(*) BETWEEN 2 AND 8
"""
"""The agents that a trace went through, where there were several; a longer way is no one's way."""
_OF_VERSIONS = """
    SELECT evaluation_id, 'version ' || service_version AS name FROM r
    WHERE service_version <> '' AND (SELECT count(DISTINCT service_version) FROM r) > 1
"""
_OF_TAGS = """
    SELECT evaluation_id, 'tag ' || entry.key || '=' || entry.value AS name FROM (
        SELECT evaluation_id, unnest(map_entries(tags::JSON::MAP(VARCHAR, VARCHAR))) AS entry
        FROM r)
"""


def _results(query: SliceQuery) -> tuple[str, list[object]]:
    """The results around a fall, as a table `r`, with the parameters of that."""
    task = "t.outcome" if query.task else "e.outcome"
    join = "JOIN task_results t ON t.evaluation_id = e.evaluation_id AND t.task_id = $4"
    head = (
        f"SELECT e.evaluation_id, e.trace_id, e.tags, e.service_version, {task} AS outcome,"
        " e.evaluated_ns >= $3 AS since"
        f" FROM evaluations e {join if query.task else ''} WHERE e.space = $1"
        f" AND e.profile_uid = $2 AND {task} IN ('passed', 'failed')"
        " AND NOT coalesce(e.was_decided, e.revision > 1)"
    )
    given = [query.space, query.profile_uid, query.since_ns, *([query.task] if query.task else [])]
    for name, value in (("service_name", query.service), ("environment", query.environment)):
        if value is not None:
            given.append(value)
            head += f" AND e.{name} = ${len(given)}"
    rows = (
        f"WITH r AS (({head} AND e.evaluated_ns >= $3 ORDER BY e.seq LIMIT {_MOST}) UNION ALL"
        f" ({head} AND e.evaluated_ns < $3 ORDER BY e.seq DESC LIMIT {_MOST}))"
    )
    return rows, list(given)


def read_whole(database: Database, query: SliceQuery) -> Slice:
    """All results around a fall together; see `DriftStore.whole`."""
    rows, given = _results(query)
    (counts,) = database.read(f"{rows} SELECT {_COUNTS} FROM r", given)
    return _slice(("", *counts))


def read_slices(database: Reads, query: SliceQuery) -> tuple[list[Slice], int]:
    """Slices of the results around a fall; see `DriftStore.slices`."""
    rows, given = _results(query)
    ((total,),) = database.read(f"{rows} SELECT count(*) FILTER (since) FROM r", given)
    found = database.read(
        f"{rows}, named AS (SELECT r.evaluation_id, o.name FROM r JOIN ({_OF_TRACES} UNION ALL"
        f" {_OF_ROUTES}) o ON o.trace_id = r.trace_id WHERE o.name IS NOT NULL UNION ALL {_OF_TAGS}"
        f" UNION ALL {_OF_VERSIONS})"
        f" SELECT name, {_COUNTS} FROM named JOIN r USING (evaluation_id) GROUP BY name"
        " HAVING count(*) FILTER (since) > 0 ORDER BY name",
        given,
    )
    return [_slice(row) for row in found], total


def _slice(row: tuple[Any, ...]) -> Slice:
    name, passed_before, failed_before, passed, failed = row
    return Slice(
        name=name, passed_before=passed_before, failed_before=failed_before, passed=passed,
        failed=failed,
    )  # fmt: skip
