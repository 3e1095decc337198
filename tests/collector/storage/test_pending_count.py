"""The count of pending tasks is kept as evaluations come and go; here against the evaluations."""

import random
from pathlib import Path

import duckdb
import pytest

from collector.metrics import TotalKey, TotalName
from collector.storage.care.check import check_store
from collector.storage.duckdb.database import FILE_NAME
from collector.storage.duckdb.schema import MIGRATIONS
from collector.storage.duckdb.store import DuckDBStore
from collector.store.erase import EraseTarget
from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import evaluation, record
from tests.support.old_stores import take_texts_out

SPACES = ("shop", "bank")
MIGRATIONS_BEFORE = next(n for n, sql in enumerate(MIGRATIONS) if "judge_cached" in sql)
_STEPS = ["judge"] * 8 + ["twice", "twice", "erase", "erase", "restart", "sum up"]


def row(space: str, uid: str, revision: int, pending: int) -> EvaluationRow:
    """An evaluation with two tasks, so many of which are pending."""
    outcomes = [Outcome.PENDING] * pending + [Outcome.PASSED] * (2 - pending)
    tasks = tuple(
        TaskRow(task_id=f"t{at}", task_type="LLMJudge", outcome=outcome)
        for at, outcome in enumerate(outcomes)
    )
    return evaluation(
        uid, Outcome.PENDING if pending else Outcome.PASSED, tasks, space=space,
        revision=revision, evaluation_id=f"{space} {uid} {revision}", evaluated_ns=10,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(2))
def test_whatever_comes_and_goes(tmp_path: Path, seed: int) -> None:
    """First evaluations, revisions that decide or ask anew, repetitions, erasures, restarts.

    A dictionary keeps the expected count by hand.
    """
    draw = random.Random(seed)
    store = DuckDBStore(tmp_path)
    latest: dict[tuple[str, str], tuple[int, int]] = {}
    for step in range(70):
        space, uid = draw.choice(SPACES), f"u{draw.randrange(12)}"
        revision, _ = latest.get((space, uid), (0, 0))
        match draw.choice(_STEPS):
            case "judge":
                # An erased record does not come back under its uid.
                uid = uid if revision else f"{uid} {step}"
                pending = draw.randrange(3)
                if not revision:
                    store.append_records([record(uid, space=space)]).result()
                store.append_evaluations([row(space, uid, revision + 1, pending)]).result()
                latest[space, uid] = revision + 1, pending
            case "twice" if revision:
                store.append_evaluations([row(space, uid, revision, 2)]).result()
            case "erase" if latest:
                space, uid = draw.choice(list(latest))
                store.erase(EraseTarget(space=space, record_uid=uid)).result()
                del latest[space, uid]
            case "restart":
                store.close()
                store = DuckDBStore(tmp_path)
            case "sum up":
                store.compact().result()
            case _:
                pass
        for each in SPACES:
            wanted = sum(n for (of, _), (_, n) in latest.items() if of == each)
            assert store.totals().get(TotalKey(TotalName.PENDING, each), 0) == wanted
    assert store.pending_count() == sum(n for _, n in latest.values()) > 0
    assert len(store.pending_evaluations(999)) == sum(n > 0 for _, n in latest.values())
    store.remove_before(11)
    assert (store.pending_count(), store.pending_evaluations(9)) == (0, [])
    store.close()


def test_a_store_of_the_version_before_is_counted_once(tmp_path: Path) -> None:
    """Its latest evaluations are; and `check` finds a count that is wrong."""
    store = DuckDBStore(tmp_path)
    rows = [row("shop", "u1", 1, 2), row("shop", "u1", 2, 1), row("bank", "u2", 1, 2)]
    store.append_evaluations([*rows, row("bank", "u3", 1, 2), row("bank", "u3", 2, 0)]).result()
    store.close()
    take_texts_out(tmp_path)
    with duckdb.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("ALTER TABLE task_results DROP COLUMN judge_cached")
        connection.execute("DELETE FROM totals WHERE name = 'pending'")
        connection.execute("DELETE FROM migrations WHERE version > ?", [MIGRATIONS_BEFORE])
    assert [each for each in check_store(tmp_path).problems if "pending" in each] == []

    for _ in range(2):
        store = DuckDBStore(tmp_path)
        counts = [store.totals()[TotalKey(TotalName.PENDING, space)] for space in SPACES]
        assert counts == [1, 2]
        store.close()
    assert [each for each in check_store(tmp_path).problems if "pending" in each] == []
    with duckdb.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("INSERT INTO totals VALUES (1, 'pending', 'shop', '', '', '', '', 4)")
    (problem,) = [each for each in check_store(tmp_path).problems if "pending" in each]
    assert problem == "space 'shop': 5 tasks are counted as pending, 1 are"
