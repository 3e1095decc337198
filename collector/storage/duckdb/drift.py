"""What the live detectors keep in the store, and the final results that they read from it."""

from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.transaction import Transaction, one_of
from collector.storage.port.drift import (
    DeliveryState,
    DriftDelivery,
    DriftEvent,
    DriftState,
    SliceQuery,
    VersionQuery,
)
from collector.storage.port.rows import Scope
from scouter.drift.canary import Result
from scouter.drift.detect.slices import Slice
from scouter.drift.series.observed import RECORD, Observed, Place
from scouter.drift.series.series import Agent
from scouter.evaluate.outcome import Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608


def _future() -> "Future[Any]":
    return Future()


@dataclass(slots=True, kw_only=True)
class DriftJob:
    """States and events that belong together."""

    database: Database
    states: Sequence[DriftState]
    events: Sequence[DriftEvent]
    future: "Future[Any]" = field(default_factory=_future)

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
class DeliveriesJob:
    """Steps of deliveries."""

    rows: Sequence[DriftDelivery]
    future: "Future[Any]" = field(default_factory=_future)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.rows)

    def apply(self, tx: Transaction) -> int:
        """Add them."""
        for row in self.rows:
            tx.add(
                "drift_deliveries", tx.ordinal("drift_deliveries"), row.space, row.alert_id,
                row.channel, row.alert_state, row.changed_ns, row.at_ns, row.state.value,
                row.attempts, row.answer,
            )  # fmt: skip
        return tx.seq


def read_decided(database: Database, place: Place, limit: int) -> list[Observed]:
    """First final results behind a place; see `DriftStore.decided_after`."""
    rows = database.read(
        "SELECT e.seq, e.ordinal, e.space, e.evaluation_id, e.session_id, e.profile_uid, e.outcome,"
        " e.service_name, e.environment, e.service_version, e.evaluated_ns, e.scope,"
        " coalesce(e.is_partial, false) FROM evaluations e"
        " WHERE e.seq >= ? AND (e.seq > ? OR e.ordinal > ?) AND e.outcome <> 'pending'"
        " AND NOT coalesce(e.was_decided, e.revision > 1) ORDER BY e.seq, e.ordinal LIMIT ?",
        [place.seq, place.seq, place.ordinal, limit],
    )
    tasks = _tasks(database, rows[0][0], rows[-1][0]) if rows else {}
    found: list[Observed] = []
    for seq, ordinal, space, evaluation_id, session, uid, outcome, *agent, ns, scope, part in rows:
        outcomes = tasks.get(evaluation_id, [])
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
            )
        )
    return found


def _tasks(database: Database, first: int, last: int) -> dict[str, list[tuple[str, Outcome]]]:
    """Outcomes of tasks by evaluation, of those that some commits stored."""
    rows = database.read(
        "SELECT evaluation_id, task_id, outcome FROM task_results WHERE seq BETWEEN ? AND ?"
        " ORDER BY seq, evaluation_id, position",
        [first, last],
    )
    found: defaultdict[str, list[tuple[str, Outcome]]] = defaultdict(list)
    for evaluation_id, task_id, outcome in rows:
        found[evaluation_id].append((task_id, Outcome(outcome)))
    return found


def read_versions(database: Database, query: VersionQuery, limit: int) -> list[tuple[str, Result]]:
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
        outcome, joined = "t.outcome", ""
        tasks = " JOIN task_results t ON t.evaluation_id = e.evaluation_id AND t.task_id = ?"
        join_given = [query.task]
    rows = database.read(
        f"SELECT e.service_version, e.session_id, e.scope, e.evaluated_ns, {outcome}"
        f" FROM (SELECT * FROM evaluations WHERE {own} AND service_version IN (?, ?)) e{tasks}"
        f" WHERE e.outcome <> 'pending' AND NOT coalesce(e.was_decided, e.revision > 1) {joined}"
        f" AND {outcome} IN ('passed', 'failed', 'errored') AND e.evaluated_ns >= {since}"
        " ORDER BY e.seq, e.ordinal LIMIT ?",
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
        CASE WHEN s.request_model <> '' THEN 'model ' || s.request_model END
    ]) AS name
    FROM spans s SEMI JOIN r ON r.trace_id = s.trace_id WHERE s.space = $1
"""
_OF_TAGS = """
    SELECT evaluation_id, 'tag ' || entry.key || '=' || entry.value AS name FROM (
        SELECT evaluation_id, unnest(map_entries(tags::JSON::MAP(VARCHAR, VARCHAR))) AS entry
        FROM r)
"""


def read_slices(database: Database, query: SliceQuery) -> tuple[list[Slice], int]:
    """Slices of the results around a fall; see `DriftStore.slices`."""
    task = "t.outcome" if query.task else "e.outcome"
    join = "JOIN task_results t ON t.evaluation_id = e.evaluation_id AND t.task_id = $4"
    head = (
        f"SELECT e.evaluation_id, e.trace_id, e.tags, {task} AS outcome,"
        " e.evaluated_ns >= $3 AS since"
        f" FROM evaluations e {join if query.task else ''} WHERE e.space = $1"
        f" AND e.profile_uid = $2 AND {task} IN ('passed', 'failed')"
        " AND NOT coalesce(e.was_decided, e.revision > 1)"
    )
    given = [query.space, query.profile_uid, query.since_ns, *([query.task] if query.task else [])]
    rows = (
        f"WITH r AS (({head} AND e.evaluated_ns >= $3 ORDER BY e.seq LIMIT {_MOST}) UNION ALL"
        f" ({head} AND e.evaluated_ns < $3 ORDER BY e.seq DESC LIMIT {_MOST}))"
    )
    ((total,),) = database.read(f"{rows} SELECT count(*) FILTER (since) FROM r", given)
    found = database.read(
        f"{rows}, named AS (SELECT r.evaluation_id, o.name FROM r JOIN ({_OF_TRACES}) o"
        f" ON o.trace_id = r.trace_id WHERE o.name IS NOT NULL UNION ALL {_OF_TAGS})"
        f" SELECT name, {_COUNTS} FROM named JOIN r USING (evaluation_id) GROUP BY name"
        " HAVING count(*) FILTER (since) > 0 ORDER BY name",
        given,
    )
    names = ("name", "passed_before", "failed_before", "passed", "failed")
    return [Slice(**dict(zip(names, row, strict=True))) for row in found], total
