"""What reads of a fleet's store look at: charts and rates at rollups, everything else by keys."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pytest

from collector.fleet.store import FleetStore
from collector.store.evaluation_queries import EvaluationQuery, NewestResultsQuery
from collector.store.rates import SeriesQuery, TaskQuery
from collector.store.reads import Connection, Rows
from collector.store.record_queries import SessionQuery
from collector.store.rows import TaskRow
from collector.store.totals import HOUR_NS
from scouter.evaluate.outcome import Outcome
from tests.collector.fleet.store_support import rows
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.postgresql_server import PostgresqlServer

HOURS, EACH = 100, 40
"""Hours with results, and evaluations in each; each has two tasks."""
MINUTE_NS: Final = 60 * 10**9


class Watched(FleetStore):
    """Remembers the queries."""

    queries: list[tuple[str, list[object]]]

    def read(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        self.queries.append((sql, list(parameters)))
        return super().read(sql, parameters)

    def scanned(self) -> Counter[str]:
        """Rows of each table that were looked at since the last call, taken or not."""
        queries, self.queries, found = self.queries, [], Counter[str]()
        for sql, parameters in queries:
            if sql.lstrip().startswith(("SELECT", "WITH")) and "last_commit" not in sql:
                ((plan,),) = super().read(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", parameters)
                for node in nodes(json.loads(plan) if isinstance(plan, str) else plan):
                    if "Relation Name" in node:
                        removed = node.get("Rows Removed by Filter", 0)
                        removed += node.get("Rows Removed by Index Recheck", 0)
                        n = (node["Actual Rows"] + removed) * node["Actual Loops"]
                        found[node["Relation Name"]] += int(n)
        return found


def nodes(plan: Any) -> Iterator[Mapping[str, Any]]:
    """All nodes of a plan."""
    if isinstance(plan, list):
        for each in plan:  # pyright: ignore[reportUnknownVariableType] JSON
            yield from nodes(each)
    elif isinstance(plan, dict):
        yield plan
        for each in plan.values():  # pyright: ignore[reportUnknownVariableType] JSON
            yield from nodes(each)


def analyze(connection: Connection) -> None:
    """Let the planner know how much there is."""
    connection.execute("ANALYZE", [])


@pytest.fixture(scope="module")
def filled(postgresql_server: PostgresqlServer) -> Iterator[Watched]:
    """8,000 results over a hundred hours, of 4,000 records with a span each."""
    store = Watched(postgresql_server.new_database("scans"))
    store.queries = []
    store.fix_partitions(1)
    share = store.take(0, "me")
    for hour in range(HOURS):
        numbers = range(hour * EACH, (hour + 1) * EACH)
        tasks = tuple(
            TaskRow(task_id=name, task_type="Assertion", outcome=Outcome.PASSED) for name in "ab"
        )
        share.commit(
            rows(
                SPACE,
                [span(n + 1, trace_id=f"{n:032x}") for n in numbers],
                [record(f"u{n}", trace_id=f"{n:032x}", session_id=f"s{n}") for n in numbers],
                [
                    evaluation(
                        f"u{n}", Outcome.PASSED, tasks, evaluation_id=f"e{n}",
                        trace_id=f"{n:032x}", session_id=f"s{n}", reads_spans=True,
                        service_version=f"{hour // 30}",
                        evaluated_ns=hour * HOUR_NS + (n % EACH) * MINUTE_NS,
                    )
                    for n in numbers
                ],
                received_ns=hour * HOUR_NS, low_seq=hour,
            )
        )  # fmt: skip
    store.write({}, [analyze])
    store.add_up()
    yield store
    share.close()
    store.close()


@pytest.mark.parametrize(
    ("since_ns", "until_ns", "edges"),
    [
        pytest.param(0, HOURS * HOUR_NS, 0, id="whole hours"),
        pytest.param(30 * MINUTE_NS, 80 * HOUR_NS, 1, id="from within an hour"),
        pytest.param(30 * MINUTE_NS, 80 * HOUR_NS + MINUTE_NS, 2, id="from and to"),
    ],
)
def test_charts_and_rates_look_at_results_of_the_outer_hours_alone(
    filled: Watched, since_ns: int, until_ns: int, edges: int
) -> None:
    """All else comes from rollups, of which there is one for each hour and task."""
    rates = TaskQuery(space=SPACE, since_ns=since_ns, until_ns=until_ns)
    series = SeriesQuery(space=SPACE, since_ns=since_ns, until_ns=until_ns, bucket_ns=4 * HOUR_NS)
    for ask in (
        lambda: filled.task_counts(rates),
        lambda: filled.task_series(series),
        lambda: filled.rate_lines(series),
        lambda: filled.extent(rates, 0),
    ):
        filled.queries.clear()
        assert ask()
        scanned = filled.scanned()
        assert scanned["task_results"] <= edges * EACH * 2
        assert scanned["evaluations"] <= edges * EACH * 2
        assert 0 < scanned["rollups"] <= HOURS * 2
        assert not any(name.startswith("spans") for name in scanned)


def test_versions_come_from_rollups_and_their_moments_from_an_hour(filled: Watched) -> None:
    """Four versions, each with a first and a last hour."""
    filled.queries.clear()
    found = filled.versions(SPACE, "answers")
    assert [(each.version, each.records) for each in found] == [
        ("3", 10 * EACH), ("2", 30 * EACH), ("1", 30 * EACH), ("0", 30 * EACH)
    ]  # fmt: skip
    scanned = filled.scanned()
    assert scanned["rollups"] <= HOURS * 2
    assert scanned["evaluations"] <= 4 * 2 * EACH


def test_revisions_are_found_without_a_look_at_all_evaluations(filled: Watched) -> None:
    """The newest results, evaluations and sessions, those of a time, and the sheet of records."""
    query = NewestResultsQuery(space=SPACE, alias="answers", task_id="a", limit=9)
    for ask in (
        lambda: filled.newest_results(query),
        lambda: filled.evaluations(EvaluationQuery(space=SPACE, profile="answers", limit=9)),
        lambda: filled.sessions(SessionQuery(space=SPACE, limit=9)),
        lambda: filled.outcomes(
            EvaluationQuery(space=SPACE, profile="answers", until_ns=9 * HOUR_NS, limit=9)
        ),
    ):
        filled.queries.clear()
        assert ask()
        scanned = filled.scanned()
        of = scanned["evaluations"], scanned["task_results"], scanned["records"]
        assert 0 < max(of) <= 10 * EACH, scanned
    filled.queries.clear()
    assert filled.record_sheet(SPACE).evaluated == HOURS * EACH
    assert filled.scanned()["evaluations"] <= HOURS * EACH  # once, in an index


def test_one_thing_is_found_by_its_key(filled: Watched) -> None:
    """A trace, a record, an evaluation, a session; and what the worker asks of a commit."""
    trace = f"{7:032x}"
    for ask in (
        lambda: filled.trace(SPACE, trace, 9),
        lambda: filled.record_history(SPACE, "u7"),
        lambda: filled.evaluation(SPACE, "e7"),
        lambda: filled.session_records(SPACE, ["s7"], 9),
        lambda: filled.latest_evaluations([(SPACE, "u7")]),
        lambda: filled.stored_spans(SPACE, [trace]),
        lambda: filled.stored_records(SPACE, ["u7"]),
        lambda: filled.spans_of(SPACE, [trace]),
        lambda: filled.trace_records(SPACE, [trace]),
        lambda: filled.evaluated_since(SPACE, [trace], 0),
        lambda: filled.traces_since(HOURS - 1),
        lambda: filled.waiting_since_ns() or True,
    ):
        filled.queries.clear()
        assert ask()
        scanned = filled.scanned()
        assert scanned
        assert max(scanned.values()) <= 10 * EACH, scanned  # the last day is read whole
