"""Totals and rollups say what the stored results add up to, whatever came and went."""

from collections import Counter
from collections.abc import Callable

from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.rates import TaskQuery
from collector.store.rows import EvaluationRow, Scope, TaskRow
from collector.store.totals import HOUR_NS
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, record
from tests.support.store_appends import AppendingPostgresql, AppendingStore

Own = AppendingStore | AppendingPostgresql
Open = Callable[[], Own]
_PENDING = TotalKey(TotalName.PENDING, SPACE)


def _row(uid: str, outcome: Outcome, revision: int = 1, **fields: object) -> EvaluationRow:
    tasks = (
        TaskRow(task_id="a", task_type="LLMJudge", outcome=outcome, stated_score=0.5),
        TaskRow(task_id="b", task_type="Assertion", outcome=Outcome.PASSED),
    )
    return evaluation(
        uid, outcome, tasks, revision=revision, evaluation_id=f"{uid} {revision}",
        evaluated_ns=revision * HOUR_NS, **fields,
    )  # fmt: skip


def _differences(store: Own) -> list[tuple[object, ...]]:
    """Counts of rollups that are not those of the latest stored results."""
    rollups = Counter[tuple[object, ...]]()
    for *key, n in store.read(
        "SELECT space, hour_ns, profile_uid, task_id, outcome, score, n FROM rollups"
    ):
        rollups[tuple(key)] += n
    results = store.rollups_of("true", [])
    found = Counter[tuple[object, ...]]()
    for key, n in results.items():
        found[key.space, key.hour_ns, key.profile_uid, key.task_id, key.outcome, key.score] += n
    return [key for key in rollups | found if rollups[key] != found[key]]


def _fill(store: Own, *, has_records: bool = True) -> None:
    rows = [record(f"u{n}", session_id=f"s{n}", received_ns=n * store.unit) for n in range(3)]
    late = [record("late", received_ns=50 * store.unit)]
    passed, failed, pending = Outcome.PASSED, Outcome.FAILED, Outcome.PENDING
    store.commit(
        Commit(
            records=rows if has_records else [],
            evaluations=[_row("u0", pending), _row("u1", failed)],
        )
    )
    store.commit(
        Commit(
            records=late if has_records else [],
            evaluations=[_row("u2", passed), _row("u1", passed, 2), _row("late", pending)],
        )
    )
    whole = _row("of s2", failed, scope=Scope.SESSION)
    store.commit(Commit(evaluations=[_row("u0", failed, 2), whole]))


def test_sums_are_the_same_in_one_row_each(open_store: Open) -> None:
    store = open_store()
    _fill(store)
    before, counts = store.totals(), store.task_counts(TaskQuery(space=SPACE))
    assert _differences(store) == []
    store.add_up()
    assert _differences(store) == []
    keys = "space, hour_ns, profile_uid, task_id, outcome, score"
    split = f"SELECT {keys} FROM rollups GROUP BY {keys} HAVING count(*) > 1"  # noqa: S608 our own
    assert store.read(split) == []
    assert (store.totals(), store.task_counts(TaskQuery(space=SPACE))) == (before, counts)
    _fill(store, has_records=False)  # again: nothing of it is new
    store.close()
    store = open_store()
    wanted = {key: n for key, n in before.items() if n}
    assert {key: n for key, n in store.totals().items() if n} == wanted
    assert store.task_counts(TaskQuery(space=SPACE)) == counts
    store.close()


def test_what_goes_is_no_longer_in_the_rates(open_store: Open) -> None:
    """Pending tasks go with their record; first evaluations stay counted."""
    store = open_store()
    _fill(store)
    assert store.totals()[_PENDING] == 1
    store.erase(EraseTarget(space=SPACE, record_uid="late"))
    assert (store.totals()[_PENDING], _differences(store)) == (0, [])
    store.add_up()
    store.commit(Commit(records=[record("last", received_ns=100 * store.unit)], low_seq=9))
    store.remove_before(20 * store.unit)
    assert _differences(store) == []
    assert store.totals()[TotalKey(TotalName.EXPIRED, SPACE, label="record")] == 3
    firsts = sum(n for key, n in store.totals().items() if key.name is TotalName.RECORDS)
    assert firsts == 4
    if isinstance(store, AppendingStore):
        store.purge()
    assert _differences(store) == []
    store.close()
