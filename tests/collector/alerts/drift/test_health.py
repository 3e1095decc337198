"""What keeps results from being made is found, said once, and over once it is over."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.alerts.drift.health import LOOK_NS, SPAN_NS, WEEK_NS, Finding, HealthWatch
from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.port.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, record, verdict

HOUR = SPAN_NS
NOW = 2_976 * WEEK_NS
"""The beginning of an hour."""
PATIENCE = 660 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path)
    yield store
    store.close()


@pytest.fixture
def health(store: DuckDBStore) -> HealthWatch:
    return HealthWatch(store, lambda: {(SPACE, "answers")}, PATIENCE)


def found(health: HealthWatch, now_ns: int) -> list[Finding]:
    health.look(now_ns)
    assert health.findings("other") == []
    return health.findings(SPACE)


def test_nothing_is_found_where_nothing_is_wrong(store: DuckDBStore, health: HealthWatch) -> None:
    store.append_records([record(received_ns=NOW)]).result()
    assert found(health, NOW + PATIENCE) == []


def test_a_record_without_a_verdict(
    store: DuckDBStore, health: HealthWatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.append_records([record("u1", received_ns=NOW), record("u2", received_ns=NOW)]).result()
    (first,) = found(health, NOW + PATIENCE + 1)
    assert first.trouble == "not_evaluated"
    assert first.message.startswith("2 records wait for a verdict")
    assert "scouter results record u1 says why" in first.message
    (again,) = found(health, NOW + PATIENCE + 1 + LOOK_NS)
    assert again == first
    store.append_evaluations([verdict("u1"), verdict("u2")]).result()
    assert found(health, NOW + PATIENCE + 1 + LOOK_NS + 1) == [first]  # a minute has not passed
    assert found(health, NOW + PATIENCE + 1 + 2 * LOOK_NS) == []
    assert [each.message for each in caplog.records][1:] == [
        "not_evaluated of space 'default' is over"
    ]


def test_a_judge_that_does_not_answer(store: DuckDBStore, health: HealthWatch) -> None:
    store.append_evaluations([verdict("u1", Outcome.PENDING, evaluated_ns=NOW)]).result()
    assert found(health, NOW + HOUR) == []
    (finding,) = found(health, NOW + HOUR + LOOK_NS)
    assert finding.trouble == "judge_waits"


@pytest.mark.parametrize(
    ("name", "label", "count", "received", "trouble"),
    [
        (TotalName.DEAD_LETTERS, "invalid_record", 10, 990, "dead_letters"),
        (TotalName.DEAD_LETTERS, "invalid_record", 10, 991, ""),
        (TotalName.DEAD_LETTERS, "invalid_record", 9, 0, ""),
        (TotalName.DROPPED, "full", 20, 100, "dropped"),
        (TotalName.TASKS, "budget", 1, 100, "judge_budget"),
        (TotalName.TASKS, "failed", 50, 100, ""),
    ],
)
def test_counts_that_grew_within_an_hour(
    store: DuckDBStore, health: HealthWatch, name: TotalName, label: str, count: int,
    received: int, trouble: str,
) -> None:  # fmt: skip
    """Ten or more, and one in a hundred; what was there before does not count."""
    key, came = TotalKey(name, SPACE, label=label), TotalKey(TotalName.SPANS_RECEIVED, SPACE)
    store.add_totals({key: 1_000}).result()
    assert found(health, NOW) == []
    store.add_totals({key: count, came: received}).result()
    assert [each.trouble for each in found(health, NOW + LOOK_NS)] == [trouble] * bool(trouble)
    assert [each.trouble for each in found(health, NOW + HOUR)] == [trouble] * bool(trouble)
    assert found(health, NOW + HOUR + 2 * LOOK_NS) == []


def test_an_hour_without_any_result_that_mostly_has_some(
    store: DuckDBStore, health: HealthWatch
) -> None:
    """The same hour of the four weeks before had 20 results or more in three of them."""
    rows = list[EvaluationRow]()
    for week, count in ((1, 25), (2, 20), (3, 20), (4, 0)):
        at_ns = NOW - week * WEEK_NS - HOUR // 2
        rows += [verdict(f"u{week}-{n}", evaluated_ns=at_ns) for n in range(count)]
    store.append_evaluations(rows).result()
    (finding,) = found(health, NOW)
    assert (finding.trouble, finding.subject) == ("silent", "answers")
    assert "which mostly has 20" in finding.message
    one = verdict("now", evaluated_ns=NOW + 5)
    store.append_evaluations([replace(one, tasks=(TaskRow(
        task_id="t1", task_type="Assertion", outcome=Outcome.FAILED),))]).result()  # fmt: skip
    assert found(health, NOW + HOUR) == []
