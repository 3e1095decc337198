"""Columns of evaluations: what they count, and what a part of a batch leaves of them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.arrow import Schema
from collector.storage.duckdb.columns import evaluation_columns
from collector.storage.duckdb.database import Database
from collector.storage.duckdb.rollup import HOUR_NS, rollup_keys
from collector.storage.duckdb.store import DuckDBStore
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, record


@st.composite
def evaluations(draw: st.DrawFn) -> list[EvaluationRow]:
    """Evaluations of two profiles in two hours, with up to three tasks each."""
    outcomes = st.sampled_from(Outcome)
    rows: list[EvaluationRow] = []
    for number in range(draw(st.integers(1, 6))):
        tasks = tuple(
            TaskRow(
                task_id=f"t{at}",
                task_type="Assertion",
                outcome=draw(outcomes),
                reason=draw(st.sampled_from([None, "gate", "budget"])),
                expected=[1, {"a": None}],
                actual=draw(st.sampled_from([0.5, True, None, "é", 10**20, float("inf")])),
            )
            for at in range(draw(st.integers(0, 3)))
        )
        rows.append(
            evaluation(
                f"u{number}",
                draw(outcomes),
                tasks,
                alias=draw(st.sampled_from(["a", "b"])),
                revision=draw(st.sampled_from([1, 1, 2])),
                scope=draw(st.sampled_from(Scope)),
                evaluated_ns=draw(st.sampled_from([1, HOUR_NS - 1, HOUR_NS])),
            )
        )
    return rows


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Schema]]:
    """Those of an empty store."""
    database = Database(tmp_path_factory.mktemp("columns"), 10**8)
    yield database.schemas
    database.close()


@settings(deadline=None)
@given(rows=evaluations())
def test_the_counts_are_those_of_one_evaluation_after_the_other(
    schemas: Mapping[str, Schema], rows: list[EvaluationRow]
) -> None:
    totals: Counter[TotalKey] = Counter()
    for row in rows:
        if row.pending:
            totals[TotalKey(TotalName.PENDING, SPACE)] += row.pending
        if row.revision > 1:
            continue
        name = TotalName.RECORDS if row.scope is Scope.RECORD else TotalName.SESSIONS
        parts = {"profile": row.profile_name, "alias": row.alias}
        totals[TotalKey(name, SPACE, **parts, label=row.outcome.value)] += 1
        for task in row.tasks:
            is_out = task.outcome is Outcome.SKIPPED and task.reason in ("sampled", "budget")
            label = str(task.reason) if is_out else task.outcome.value
            totals[TotalKey(TotalName.TASKS, SPACE, **parts, task=task.task_id, label=label)] += 1

    made = evaluation_columns(rows, schemas)
    assert made.totals == totals
    assert made.rollups == Counter(key for row in rows for key in rollup_keys(row))


def test_of_a_batch_that_is_known_in_part_the_rest_is_stored(tmp_path: Path) -> None:
    """Each evaluation keeps its own tasks, and every count is that of the tables."""
    store = DuckDBStore(tmp_path)
    store.append_records([record(f"u{n}") for n in range(4)]).result()
    store.append_records([record(f"u{n}") for n in (3, 4)]).result()
    tasks = {
        n: tuple(
            TaskRow(task_id=f"{n}.{at}", task_type="x", outcome=Outcome.PASSED, actual=n)
            for at in range(n)
        )
        for n in range(5)
    }
    rows = [evaluation(f"u{n}", tasks=tasks[n], evaluation_id=f"e{n}") for n in range(5)]
    store.append_evaluations([rows[1], rows[3]]).result()
    store.append_evaluations(rows).result()
    store.append_evaluations(rows).result()
    page = store.evaluations(EvaluationQuery(space=SPACE))
    sheet = store.conservation(SPACE).records
    totals = store.totals()
    store.close()

    assert {row.record_uid: row.tasks for row in page.items} == {f"u{n}": tasks[n] for n in tasks}
    assert (sheet.accepted, sheet.evaluated, sheet.duplicates, sheet.waiting) == (5, 5, 1, 0)
    assert sum(n for key, n in totals.items() if key.name is TotalName.TASKS) == 10
