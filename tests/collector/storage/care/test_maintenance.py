"""Retention, sums, backup and export on a real store, compared with what was put in."""

import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import duckdb
import pytest

from collector.metrics import TotalKey, TotalName
from collector.storage.care import maintenance as care
from collector.storage.care.housekeeping import Housekeeping
from collector.storage.duckdb.drops import KNOWN_SENDERS
from collector.storage.duckdb.rollup import HOUR_NS
from collector.storage.duckdb.store import DuckDBStore
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import TaskRow
from collector.store.task_counts import TaskQuery
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.transport.drops import Count
from tests.contracts.store_care import fill, trace
from tests.contracts.store_data import SPACE, evaluation, letter, record, span
from tests.support.processes import wait_until


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "data")
    yield store
    store.close()


def test_spans_that_come_and_go_are_counted_as_by_hand(tmp_path: Path) -> None:
    """The same, better and worse ones of a few keys; retention, erasures, starts."""
    draw = random.Random(1)
    store = DuckDBStore(tmp_path)
    traces = [trace(n) for n in range(1, 7)]
    stored: dict[tuple[str, int], tuple[int, int]] = {}  # end and time of coming
    gone: set[str] = set()
    accepted = expired = erased = 0
    for step in range(60):
        action = draw.choices(range(4), weights=[60, 20, 4, 6])[0]
        if action == 0:
            ends = {
                (draw.choice(traces), draw.randrange(1, 4)): draw.randrange(20, 30)
                for _ in range(3)
            }
            spans = [span(n, trace_id=of, end_ns=end) for (of, n), end in ends.items()]
            store.append_spans(SPACE, spans, step).result()
            ends = {key: end for key, end in ends.items() if key[0] not in gone}
            accepted += len(ends.keys() - stored.keys())
            better = {key: end for key, end in ends.items() if end > stored.get(key, (0, 0))[0]}
            stored |= {key: (end, step) for key, end in better.items()}
        elif action == 1:
            old = {key for key, (_, came) in stored.items() if came < step - 8}
            assert store.remove_before(step - 8) == len(old)
            stored = {key: value for key, value in stored.items() if key not in old}
            expired += len(old)
        elif action == 2:
            gone.add(draw.choice(traces))
            for of in gone:
                store.erase(EraseTarget(space=SPACE, trace_id=of)).result()
            erased += sum(of in gone for of, _ in stored)
            stored = {key: value for key, value in stored.items() if key[0] not in gone}
        else:
            store.close()
            store = DuckDBStore(tmp_path)
        sheet = store.conservation(SPACE).spans
        assert (sheet.accepted, sheet.stored, sheet.expired, sheet.erased) == (
            accepted, len(stored), expired, erased,
        )  # fmt: skip
    found = store.spans_of(SPACE, traces)
    ends = {(of, int(each.span_id, 16)): each.end_ns for of in found for each in found[of]}
    assert ends == {key: end for key, (end, _) in stored.items()}
    assert min(accepted, expired, erased, len(stored)) > 0
    store.close()


@pytest.mark.parametrize("is_one_commit", [True, False])
def test_a_revision_of_what_retention_took_leaves_nothing(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch, is_one_commit: bool
) -> None:
    """u1 is judged again while it goes: neither a row nor a count of it stays."""
    store.append_records([record("u1", received_ns=10)]).result()
    store.append_evaluations([evaluation("u1", evaluated_ns=11, evaluation_id="e1")]).result()
    again = evaluation("u1", Outcome.FAILED, evaluated_ns=100, revision=2, evaluation_id="e2")
    hold, commit = threading.Event(), store._committer._finish  # pyright: ignore[reportPrivateUsage]

    def held(connection: duckdb.DuckDBPyConnection) -> None:
        assert hold.wait(120)
        commit(connection)

    monkeypatch.setattr(store._committer, "_finish", held)  # pyright: ignore[reportPrivateUsage]
    first = store.append_dead_letters([letter(reason="busy")])  # others wait behind it
    if not is_one_commit:
        hold.set()
        first.result()
    work = partial(care.remove_before, database=store._database, before_ns=52)  # pyright: ignore[reportPrivateUsage]
    removed = store._remove(work)  # pyright: ignore[reportPrivateUsage]
    if not is_one_commit:
        assert removed.result() == 1
    revised = store.append_evaluations([again])
    hold.set()
    assert (removed.result(), revised.result() > 0) == (1, True)

    records = store.conservation(SPACE).records
    assert (records.accepted, records.evaluated, records.expired) == (1, 0, 1)
    assert store.task_counts(TaskQuery(space=SPACE)) == []
    assert store.evaluations(EvaluationQuery(space=SPACE)).items == ()


def test_sums_say_the_same_in_fewer_rows(tmp_path: Path) -> None:
    store = DuckDBStore(tmp_path)
    for n in range(30):
        outcome = Outcome.PASSED if n % 3 else Outcome.FAILED
        store.append_evaluations([evaluation(f"u{n}", outcome, evaluation_id=f"e{n}")]).result()
    before = store.task_counts(TaskQuery(space=SPACE)), dict(store.totals())
    store.compact().result()
    after = store.task_counts(TaskQuery(space=SPACE)), dict(store.totals())
    store.close()
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        rows = connection.execute("SELECT count(*) FROM rollups").fetchall()
    store = DuckDBStore(tmp_path)
    reopened = store.task_counts(TaskQuery(space=SPACE)), dict(store.totals())
    store.close()

    assert before == after == reopened
    assert (before[0][0].passed, before[0][0].failed) == (20, 10)
    assert rows == [(2,)]  # one for each outcome


def test_rates_agree_with_the_results_after_kill_9(tmp_path: Path) -> None:
    """A process stores evaluations and revisions until it is killed, twice."""
    program = (
        "from pathlib import Path; import sys, itertools\n"
        "from collector.storage.duckdb.store import DuckDBStore\n"
        "from scouter.evaluate.outcome import Outcome\n"
        "from tests.contracts.store_data import evaluation\n"
        "store = DuckDBStore(Path(sys.argv[1]))\n"
        "start, words = store.last_seq() * 10, list(Outcome)\n"
        "for n in itertools.count(start):\n"
        "    for r in (1, 2):\n"
        "        store.append_evaluations([evaluation(f'u{n}', words[n * r % 4], revision=r,\n"
        "            evaluation_id=f'{n} {r}', evaluated_ns=n * r * 10**12)]).result()\n"
        "    print(n, flush=True)\n"
    )
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", program, tmp_path / "data"],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4],
        ) as process:  # fmt: skip
            assert process.stdout is not None
            for _ in range(10):
                assert process.stdout.readline().strip().isdigit()
            process.kill()
    store = DuckDBStore(tmp_path / "data")
    (counts,) = store.task_counts(TaskQuery(space=SPACE))
    totals = store.totals()
    store.close()
    with duckdb.connect(str(tmp_path / "data" / "scouter.duckdb")) as connection:
        rows = connection.execute(
            "SELECT record_uid, revision, outcome FROM task_results ORDER BY ALL"
        ).fetchall()
    latest = {uid: outcome for uid, _, outcome in rows}  # the last revision of each wins
    first = [outcome for _, revision, outcome in rows if revision == 1]

    assert len(latest) >= 20
    for outcome in Outcome:
        word = outcome.value
        if outcome in DECIDED:
            assert getattr(counts, word) == list(latest.values()).count(word)
        key = TotalKey(
            TotalName.TASKS, SPACE, profile="answers", alias="answers", task="t1", label=word
        )
        assert totals.get(key, 0) == first.count(word)


def test_the_oldest_go_when_the_store_is_too_large(store: DuckDBStore, tmp_path: Path) -> None:
    """48 MB of spans in 24 batches; at most 24 MB may stay, and those are the newest."""
    rng = random.Random(6)
    for n in range(24):
        batch = [
            span(n * 1_000 + m + 1, trace_id=trace(n * 1_000 + m + 1),
                 attributes={"text": rng.randbytes(1_000).hex()})
            for m in range(1_000)
        ]  # fmt: skip
        store.append_spans(SPACE, batch, n).result()
    assert store.keep_within(10**9) == 0
    removed = Housekeeping(store, tmp_path, retention_days=0, max_store_bytes=24 * 10**6).tidy()

    assert removed >= 12_000
    assert removed % 1_000 == 0  # whole batches: each has one time
    sheet = store.conservation(SPACE).spans
    assert (sheet.stored, sheet.expired) == (24_000 - removed, removed)
    assert store.spans_of(SPACE, [trace(1), trace(24_000)]).keys() == {trace(24_000)}
    assert store.size_bytes() <= 24 * 10**6 + 8_192 * 2_200  # a row group goes as a whole


def test_records_without_spans_are_within_the_bound_too(store: DuckDBStore, tmp_path: Path) -> None:
    """24 MB of contexts in 12 batches, all judged; at most 12 MB may stay, the newest."""
    rng = random.Random(6)
    for n in range(12):
        rows = [
            record(f"{n}-{m}", context={"text": rng.randbytes(1_000).hex()}, received_ns=n)
            for m in range(1_000)
        ]
        store.append_records(rows).result()
        evaluations = [
            evaluation(row.uid, evaluated_ns=n, evaluation_id=f"e{row.uid}") for row in rows
        ]
        store.append_evaluations(evaluations).result()
    removed = Housekeeping(store, tmp_path, retention_days=0, max_store_bytes=12 * 10**6).tidy()

    assert removed >= 4_000
    assert removed % 1_000 == 0  # whole batches: each has one time
    sheet = store.conservation(SPACE).records
    assert (sheet.accepted, sheet.expired) == (12_000, removed)
    assert [row.uid for row in store.records_of(SPACE, ["0-0", "11-999"])] == ["11-999"]


def test_rounds_go_by_the_age_in_days(store: DuckDBStore, tmp_path: Path) -> None:
    """Two days kept: of spans of day 1, 2 and 3 the first goes at the end of day 3."""
    day = 86_400 * 10**9
    for n in (1, 2, 3):
        store.append_spans(SPACE, [span(n, trace_id=trace(n))], n * day).result()
    rounds = Housekeeping(
        store,
        tmp_path,
        retention_days=2,
        max_store_bytes=None,
        every_s=0.01,
        now_ns=lambda: 3 * day + day // 2,
    )
    rounds.start()
    wait_until(lambda: store.conservation(SPACE).spans.expired, what="a round")
    rounds.stop()

    sheet = store.conservation(SPACE).spans
    assert (sheet.accepted, sheet.stored, sheet.expired) == (3, 2, 1)


def test_the_rounds_go_on_after_a_fault(
    store: DuckDBStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A clock that fails once, with what nobody expects."""
    store.append_spans(SPACE, [span()], 1).result()
    times = iter([RuntimeError("no clock"), 10**18])

    def now_ns() -> int:
        found = next(times, 10**18)
        if isinstance(found, int):
            return found
        raise found

    rounds = Housekeeping(
        store, tmp_path, retention_days=0.5, max_store_bytes=None, every_s=0.01, now_ns=now_ns
    )
    rounds.start()
    wait_until(lambda: store.conservation(SPACE).spans.expired, what="a round")
    rounds.stop()
    assert "RuntimeError: no clock" in caplog.text


def test_care_of_many_row_groups(tmp_path: Path) -> None:
    """DuckDB holds 256 kB for each of 120 row groups that lose a row; the store has 20 MB."""
    limit = 20 * 10**6
    store = DuckDBStore(tmp_path, limit)
    for n in range(60):
        store.append_spans(SPACE, [span(n + 1, trace_id=trace(n + 1))], n * HOUR_NS // 9).result()
        store.append_records([record(f"u{n}", received_ns=n * HOUR_NS // 9)]).result()
        store.append_evaluations([evaluation(f"u{n}", evaluated_ns=n)]).result()
        store.checkpoint()
    counts = store.task_counts(TaskQuery(space=SPACE))
    store.compact().result()
    assert store.task_counts(TaskQuery(space=SPACE)) == counts
    erased = len(store.erase(EraseTarget(space=SPACE, tag=("team", "blue"))).result().uids)
    left = store.conservation(SPACE).spans.stored
    assert store.remove_before(200 * HOUR_NS) == 60 - erased + left
    sheet = store.conservation(SPACE)
    assert (sheet.records.expired, sheet.records.erased) == (60 - erased, erased)
    assert (sheet.spans.expired, sheet.spans.erased) == (left, 60 - left)
    assert store.fault() == ""
    setting = "SELECT current_setting('memory_limit')"
    store.add_totals({}).result()
    assert store._database.read(setting) == [("19.0 MiB",)]  # pyright: ignore[reportPrivateUsage]
    store.close()


def test_senders_are_forgotten_after_a_day_or_behind_many(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts that a forgotten sender tells again are added; those of a known sender are not."""
    monkeypatch.setattr(
        "collector.storage.care.maintenance.KNOWN_SENDERS", KNOWN_SENDERS.replace("10000", "3")
    )
    full = TotalKey(TotalName.DROPPED, SPACE, label="full")

    def told(sender: str, told: int, total: int, at_ns: int = 0) -> int:
        before = store.totals().get(full, 0)
        report = {(sender, "full"): Count(told, total)}
        store.add_drops(SPACE, report, at_ns).result()
        return store.totals()[full] - before

    assert told("old", 0, 5) == told("kept", 0, 5) == 5
    assert told("kept", 2, 6, 24 * HOUR_NS) == 1
    assert told("new", 0, 1, 24 * HOUR_NS + 1) == 1
    store.compact().result()
    assert told("old", 5, 6, 0) == 1  # taken at its word
    assert told("kept", 0, 6) == 0
    for n in range(3):
        assert told(f"n{n}", 0, 1, 30 * HOUR_NS + n) == 1
    store.compact().result()
    assert [told(name, 0, 1, 30 * HOUR_NS + 9) for name in ("new", "n0", "n1", "n2")] == [
        1,
        0,
        0,
        0,
    ]


def test_little_is_taken_out_at_a_time(store: DuckDBStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most an hour of what was received, and three rows of a table; all that is older goes.

    The clock went back for u9: it is taken out with what came before it.
    """
    monkeypatch.setattr(care, "_SLICE_ROWS", 3)
    minutes = [0, 1, 2, 3, 4, 200, 201, 300, 300, 1]
    for n, minute in enumerate(minutes):
        row = record(f"u{n}", received_ns=minute * 60 * 10**9)
        store.append_records([row]).result()
        store.append_evaluations([evaluation(f"u{n}", evaluated_ns=5)]).result()
    database = store._database  # pyright: ignore[reportPrivateUsage]
    cuts = [cut / 60e9 for cut in care.slices(database, 250 * 60 * 10**9)]
    assert cuts == [2, 4, 4 + 60, 250]
    assert store.remove_before(250 * 60 * 10**9) == 8
    assert store.conservation(SPACE).records.evaluated == 2
    assert store.remove_before(301 * 60 * 10**9) == 2


def test_an_export_is_parquet(store: DuckDBStore, tmp_path: Path) -> None:
    fill(store)
    folder = tmp_path / "it's an export"
    files = store.export(folder)

    assert {file.stem for file in files} >= {"spans", "records", "evaluations", "task_results"}
    with duckdb.connect() as connection:
        connection.execute("SET VARIABLE file = ?", [str(folder / "evaluations.parquet")])
        sql = "SELECT record_uid, revision FROM read_parquet(getvariable('file')) ORDER BY ALL"
        rows = connection.execute(sql).fetchall()
    assert rows == [("u1", 1), ("u3", 1), ("u3", 2), ("u5", 1), ("u6", 1)]


def test_an_export_has_what_the_texts_of_evaluations_say(
    store: DuckDBStore, tmp_path: Path
) -> None:
    """A row for each result, with the columns of the table and all the others."""
    usage = JudgeUsage(calls=2, cached=1, input_tokens=30, cost_usd=0.5, unpriced_calls=1)
    tasks = (
        TaskRow(task_id="a", task_type="Assertion", outcome=Outcome.PASSED, expected=[1, "é"],
                actual={"b": None}, message="1 of 1", operator="==", condition=True, stage=2),
        TaskRow(task_id="j", task_type="LLMJudge", outcome=Outcome.FAILED, reason="low",
                usage=usage, question="q", answer="no", span_ids=("a1", "b2")),
    )  # fmt: skip
    store.append_evaluations([evaluation("u1", Outcome.FAILED, tasks)]).result()
    store.append_evaluations([evaluation("u2", tasks=())]).result()
    store.export(tmp_path / "export")
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT * EXCLUDE (seq, evaluated_ns) FROM read_parquet(?) ORDER BY position",
            [str(tmp_path / "export" / "task_results.parquet")],
        ).fetchall()
        found = connection.execute(
            "FROM read_parquet(?) LIMIT 0", [str(tmp_path / "export" / "evaluations.parquet")]
        )
        assert "body" not in [column[0] for column in found.description]
    head = (SPACE, "evaluation of u1", "u1", 1, "p1", "d1", "answers", "answers", "s1", "", "", "")
    assert rows == [
        (*head, 5, 0, "a", "Assertion", "passed", None, '[1,"é"]', '{"b":null}', "1 of 1", "==",
         True, 2, "", "null", [], 1.0, None, None, None, None, None, None),
        (*head, 5, 1, "j", "LLMJudge", "failed", "low", "null", "null", "", "",
         False, 0, "q", '"no"', ["a1", "b2"], 0.0, 2, 1, 30, None, 0.5, 1),
    ]  # fmt: skip


def test_new_folders_are_the_owners_alone(tmp_path: Path) -> None:
    """They hold prompts and answers; a folder that was there keeps its mode."""
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    store = DuckDBStore(tmp_path / "store")
    fill(store)
    store.backup(tmp_path / "backup")
    store.export(tmp_path / "export")
    store.export(shared)
    store.close()

    modes = {
        name: (tmp_path / name).stat().st_mode & 0o777 for name in ("store", "backup", "export")
    }
    assert set(modes.values()) == {0o700}
    assert shared.stat().st_mode & 0o777 == 0o755
