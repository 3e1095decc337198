"""Days that are over as Parquet files, on a real PostgreSQL: each row once, and what is erased."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from collector.fleet.copy_command import store
from collector.fleet.hand import FleetOperation
from collector.fleet.past import Past
from collector.fleet.schema import DAY_NS
from collector.fleet.store import FleetStore
from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit
from collector.store.erase import Erased, EraseTarget
from collector.store.reads import Rows
from collector.store.rows import Scope, TaskRow
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, TransientError
from scouter.evaluate import read_spans
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.span import SpanEvent
from scouter.replay.past import past_tasks, run_local
from tests.collector.fleet.store_support import rows
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

FIRST, SECOND, LATER = 20_000, 20_001, 20_010
"""Days since 1970: 2024-10-04, the one behind it, and one long behind."""
NAMES = {FIRST: "day=2024-10-04", SECOND: "day=2024-10-05"}
TABLES = ("spans", "records", "evaluations", "task_results")
Open = Callable[..., Past]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "past"


@pytest.fixture
def open_past(fleet: FleetStore, url: str, folder: Path) -> Iterator[Open]:
    """The folder; files are full with two records."""
    opened: list[Past] = []

    def one(**sizes: Any) -> Past:
        opened.append(Past(folder, fleet, url, late_s=3600, **({"file_rows": 2} | sizes)))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


def row_of(uid: str, text: str, **fields: Any) -> Any:
    """An evaluation whose task quotes a text."""
    task = TaskRow(
        task_id="t1", task_type="Assertion", outcome=Outcome.PASSED,
        expected=text, actual=[text], message=f"it said {text}",
    )  # fmt: skip
    return evaluation(uid, tasks=(task,), **fields)


def trace(number: int) -> str:
    return f"{number:032x}"


def put(
    store: FleetStore,
    day: int,
    number: int,
    *,
    session: str = "",
    text: str = "",
    late_ns: int = 0,
    tags: dict[str, str] | None = None,
) -> None:
    """A record of a day with two spans and an evaluation that all say a text."""
    at = day * DAY_NS + number
    spans = [
        span(
            n, trace_id=trace(number), attributes={"said": text},
            events=(SpanEvent(name="e", time_ns=at, attributes={"said": text}),),
        )
        for n in (1, 2)
    ]  # fmt: skip
    uid = f"u{number}"
    one = record(
        uid, trace_id=trace(number), received_ns=at, session_id=session,
        context={"answer": text}, tags=tags or {},
    )  # fmt: skip
    row = row_of(
        uid, text, trace_id=trace(number), session_id=session or uid, evaluated_ns=at + late_ns,
        reads_spans=True,
    )  # fmt: skip
    store.commit(rows(SPACE, spans, [one], [row], received_ns=at))


def read(folder: Path, table: str, columns: str) -> Rows:
    """Rows as a lake reader finds them."""
    files = f"{folder}/day=*/{table}-*.parquet"
    found = duckdb.read_parquet(files, hive_partitioning=True)
    return found.project(columns).order("ALL").fetchall()


def holds(folder: Path, text: str) -> list[str]:
    """The files in which a text stands, in a column or between them; every file is looked at."""
    found: list[str] = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        whole = path.read_bytes().decode("latin-1")
        if path.suffix == ".parquet":
            whole += json.dumps(pq.ParquetFile(path).read().to_pylist(), default=str)
        if text in whole:
            found.append(f"{path.parent.name}/{path.name}")
    return found


def erase(past: Past, store: FleetStore, target: EraseTarget) -> Erased:
    """Erase as the api does."""

    class Eraser:
        def erase(self, target: EraseTarget) -> "Future[Erased]":
            done: Future[Erased] = Future()
            done.set_result(store.erase(target))
            return done

    return FleetOperation(Eraser(), None, past).erase(target).erased


# --- days ----------------------------------------------------------------------------------------


def test_a_day_is_written_once_it_is_over_with_all_that_bodies_say(
    fleet: FleetStore, open_past: Open, folder: Path
) -> None:
    for number in range(1, 6):
        put(fleet, FIRST, number, text=f"text {number}")
    put(fleet, SECOND, 9, text="next")
    past = open_past()
    over = (FIRST + 1) * DAY_NS + 3600 * 10**9
    assert past.write_days(over - 1) == 0
    assert list(folder.iterdir()) == []
    assert (past.write_days(over), past.write_days(over)) == (1, 0)
    assert [each.name for each in folder.iterdir()] == [NAMES[FIRST]]
    assert sorted(each.name for each in (folder / NAMES[FIRST]).iterdir()) == [
        "_manifest.json", "evaluations-0.parquet", "records-0.parquet", "spans-0.parquet",
        "task_results-0.parquet",
    ]  # fmt: skip
    found = read(folder, "spans", "trace_id, span_id, day::TEXT, attributes, events")
    assert found == [
        (trace(n), f"{s:016x}", "2024-10-04", f'{{"said":"text {n}"}}',
         f'[["e",{FIRST * DAY_NS + n},{{"said":"text {n}"}}]]')
        for n in range(1, 6) for s in (1, 2)
    ]  # fmt: skip
    assert read(folder, "records", "uid, context, tags") == [
        (f"u{n}", f'{{"answer":"text {n}"}}', []) for n in range(1, 6)
    ]
    assert read(folder, "task_results", "record_uid, outcome, actual") == [
        (f"u{n}", "passed", f'["text {n}"]') for n in range(1, 6)
    ]
    assert "body" not in pq.read_schema(folder / NAMES[FIRST] / "evaluations-0.parquet").names
    spans = read_spans(*sorted(folder.glob("day=*/spans-*.parquet")))
    assert [(each.trace_id, each.attributes) for each in spans[::2]] == [
        (trace(n), {"said": f"text {n}"}) for n in range(1, 6)
    ]
    # Readers that know folders find the day, too.
    assert set(pq.read_table(folder)["day"].to_pylist()) == {"2024-10-04"}


def test_files_are_of_bounded_size_and_in_order_of_traces(
    fleet: FleetStore, open_past: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collector.fleet.past._PAGE_BYTES", 1)
    monkeypatch.setattr("collector.fleet.past._PAGE_ROWS", 1)
    for number in (5, 3, 1, 4, 2):
        put(fleet, FIRST, number, text="x")
    for number in range(3):
        fleet.commit(rows(SPACE, records=[record(f"bare {number}", received_ns=FIRST * DAY_NS)]))
    assert open_past(span_bytes=1).write_days(LATER * DAY_NS) == 1
    day = folder / NAMES[FIRST]
    found = [
        pq.read_table(day / f"records-{n}.parquet")["uid"].to_pylist()
        for n in range(4)
    ]  # fmt: skip
    assert found == [["u1", "u2"], ["u3", "u4"], ["u5", "bare 0"], ["bare 1", "bare 2"]]
    traces = [
        set(pq.read_table(day / f"spans-{n}.parquet")["trace_id"].to_pylist()) for n in range(5)
    ]
    assert traces == [{trace(n)} for n in range(1, 6)]
    assert len(list(day.glob("evaluations-*"))) == 3


def test_each_row_is_in_one_folder_however_late_it_was_stored(
    fleet: FleetStore, open_past: Open, folder: Path
) -> None:
    """What is stored of a day behind its folder is in the next one; empty days have none."""
    past = open_past()
    put(fleet, FIRST, 1)
    assert past.write_days(LATER * DAY_NS) == 1
    put(fleet, FIRST, 2)  # a straggler
    assert past.write_days(LATER * DAY_NS) == 0
    put(fleet, SECOND, 3)
    put(fleet, SECOND + 5, 4, late_ns=3 * DAY_NS)
    assert past.write_days((LATER + 1) * DAY_NS) == 3
    days = Counter(
        (uid, f"{day}") for uid, day in read(folder, "records", "uid, day")
    )  # fmt: skip
    assert days == {
        ("u1", "2024-10-04"): 1, ("u2", "2024-10-05"): 1, ("u3", "2024-10-05"): 1,
        ("u4", "2024-10-10"): 1,
    }  # fmt: skip
    assert len(read(folder, "spans", "trace_id")) == 8
    assert [(uid, f"{day}") for uid, day in read(folder, "evaluations", "record_uid, day")] == [
        ("u1", "2024-10-04"), ("u2", "2024-10-05"), ("u3", "2024-10-05"), ("u4", "2024-10-13"),
    ]  # fmt: skip
    assert len(read(folder, "task_results", "record_uid")) == 4


def test_retention_waits_for_the_folder(fleet: FleetStore, open_past: Open) -> None:
    past = open_past()
    put(fleet, FIRST, 1)
    put(fleet, SECOND, 2)
    everything = LATER * DAY_NS
    assert past.safe_ns(everything) == 0
    assert past.write_days((FIRST + 2) * DAY_NS) == 1
    assert past.safe_ns(everything) == SECOND * DAY_NS
    assert past.safe_ns(FIRST * DAY_NS + 5) == FIRST * DAY_NS + 5
    fleet.commit(
        Commit(evaluations=[evaluation("u1", evaluation_id="again", revision=2,
                                       evaluated_ns=SECOND * DAY_NS)])
    )  # fmt: skip
    assert past.safe_ns(everything) == FIRST * DAY_NS  # the revision is in no folder
    assert past.write_days(everything) == 1
    assert past.safe_ns(everything) == (SECOND + 1) * DAY_NS
    put(fleet, SECOND + 2, 3)
    put(fleet, SECOND + 3, 4)
    assert fleet.keep_within(1, past.safe_ns(everything)) == 4  # of the days in the folder
    assert fleet.keep_within(1) == 2


_PROGRAM = """
import sys, time
from pathlib import Path
from collector.fleet.past import Past
from collector.fleet.store import FleetStore
url, folder, now_ns = sys.argv[1:]
store = FleetStore(url)
past = Past(Path(folder), store, url, late_s=3600, file_rows=2)
step = getattr(past, "_evaluations")
def stand(*arguments):
    print("stands", flush=True)
    time.sleep(600)
past._evaluations = stand
past.write_days(int(now_ns))
"""


def test_a_writer_that_is_killed_leaves_nothing_that_is_read(
    fleet: FleetStore, open_past: Open, folder: Path, url: str
) -> None:
    put(fleet, FIRST, 1, text="secret")
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, url, str(folder), str(LATER * DAY_NS)],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"stands\n"
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert holds(folder, "secret") != []
    assert list(folder.glob("day=*")) == []
    assert open_past().write_days(LATER * DAY_NS) == 1
    assert [each.name for each in folder.iterdir()] == [NAMES[FIRST]]
    assert read(folder, "records", "uid") == [("u1",)]


def test_a_stop_ends_it_before_the_next_page(
    fleet: FleetStore, open_past: Open, folder: Path
) -> None:
    put(fleet, FIRST, 1)
    past = open_past()
    past.stop()
    assert past.write_days(LATER * DAY_NS) == 0
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(
    fleet: FleetStore, url: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"past .*/file: File exists"):
        Past(tmp_path / "file", fleet, url, late_s=1)


# --- erasure -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "gone"),
    [
        (EraseTarget(space=SPACE, record_uid="u1"), {"u1"}),
        (EraseTarget(space=SPACE, trace_id=trace(1)), {"u1"}),
        (EraseTarget(space=SPACE, session_id="alice"), {"u1", "u2"}),
        (EraseTarget(space=SPACE, tag=("user", "alice")), {"u1", "u2"}),
    ],
    ids=["record", "trace", "session", "tag"],
)
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "retention came by"])
def test_what_is_erased_is_in_no_file(
    fleet: FleetStore,
    open_past: Open,
    folder: Path,
    target: EraseTarget,
    gone: set[str],
    is_stored: bool,
) -> None:
    """Whether the store still has it or not; whatever stays, stays whole."""
    alice = {"user": "alice"}
    put(fleet, FIRST, 1, session="alice", text="secret 1", tags=alice)
    put(fleet, SECOND, 2, session="alice", text="secret 2", tags=alice)
    put(fleet, SECOND, 3, session="bob", text="stays 3")
    past = open_past()
    assert past.write_days(LATER * DAY_NS) == 2
    if not is_stored:
        fleet.remove_before(past.safe_ns(LATER * DAY_NS))
        assert fleet.read("SELECT count(*) FROM records") == [(0,)]
    erased = erase(past, fleet, target)
    stays = sorted({"u1", "u2", "u3"} - gone)
    for uid in gone:
        assert holds(folder, f"secret {uid[1]}") == []
        assert holds(folder, trace(int(uid[1]))) == []
    if gone == {"u1", "u2"}:
        assert holds(folder, "alice") == []
    for table, column in (("records", "uid"), ("evaluations", "record_uid")):
        assert read(folder, table, column) == [(uid,) for uid in stays]
    assert len(read(folder, "spans", "span_id")) == 2 * len(stays)
    assert read(folder, "task_results", "record_uid, message") == [
        (uid, f"it said {'stays' if uid == 'u3' else 'secret'} {uid[1]}") for uid in stays
    ]
    assert erased.uids == gone
    assert erased.traces == {trace(int(uid[1])) for uid in gone}
    # And it does not come back.
    put(fleet, LATER, 1, session="alice", text="secret 1", tags=alice)
    assert fleet.read("SELECT count(*) FROM records WHERE uid = 'u1'") == [(0,)]


def test_a_trace_stays_while_another_record_is_about_it(
    fleet: FleetStore, open_past: Open, folder: Path
) -> None:
    """In the files or in the store; texts that have seen what went are taken out."""
    put(fleet, FIRST, 1, text="secret")
    at = FIRST * DAY_NS
    fleet.commit(rows(SPACE, records=[record("other", trace_id=trace(1), received_ns=at)]))
    past = open_past()
    past.write_days(LATER * DAY_NS)
    fleet.remove_before(past.safe_ns(LATER * DAY_NS))
    erased = erase(past, fleet, EraseTarget(space=SPACE, record_uid="u1"))
    assert (erased.uids, erased.traces) == (frozenset({"u1"}), frozenset())
    assert len(read(folder, "spans", "span_id")) == 2
    assert read(folder, "records", "uid") == [("other",)]


def test_results_that_stay_lose_texts_that_quote_what_went(
    fleet: FleetStore, open_past: Open, folder: Path
) -> None:
    """A session's evaluation whose session has another record, and one that has read spans."""
    put(fleet, FIRST, 1, session="s", text="secret")
    put(fleet, FIRST, 2, session="s", text="stays")
    at = SECOND * DAY_NS
    reads_trace = row_of("u2", "secret", evaluation_id="reads", trace_id=trace(1), reads_spans=True,
                       revision=2, evaluated_ns=at, session_id="x")  # fmt: skip
    of_session = row_of("s uid", "secret", evaluation_id="session", session_id="s", trace_id=None,
                      scope=Scope.SESSION, evaluated_ns=at)  # fmt: skip
    fleet.commit(Commit(evaluations=[reads_trace, of_session]))
    past = open_past()
    past.write_days(LATER * DAY_NS)
    fleet.remove_before(past.safe_ns(LATER * DAY_NS))
    erase(past, fleet, EraseTarget(space=SPACE, record_uid="u1"))
    assert holds(folder, "secret") == []
    assert read(folder, "task_results", "record_uid, message, actual, expected, outcome") == [
        ("s uid", "", "null", "null", "passed"),
        ("u2", "", "null", "null", "passed"),
        ("u2", "it said stays", '["stays"]', '"stays"', "passed"),
    ]
    erase(past, fleet, EraseTarget(space=SPACE, session_id="s"))
    assert read(folder, "evaluations", "evaluation_id") == []


def test_what_is_erased_while_its_day_is_written_is_not_in_it(
    fleet: FleetStore, open_past: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The day stands complete, but for its name; then the session goes; the day is started anew."""
    put(fleet, FIRST, 1, session="alice", text="secret")
    put(fleet, FIRST, 2, text="stays")
    past = open_past()
    is_written, go = threading.Event(), threading.Event()
    write = past._evaluations  # pyright: ignore[reportPrivateUsage] - stands still behind it

    def stand(folder: Path, parts: Sequence[tuple[int, ...]]) -> bool:
        done = write(folder, parts)
        is_written.set()
        assert go.wait(120)
        return done

    monkeypatch.setattr(past, "_evaluations", stand)
    with ThreadPoolExecutor(1) as pool:
        try:
            written = pool.submit(past.write_days, LATER * DAY_NS)
            assert is_written.wait(120)
            assert holds(folder, "secret") != []
            erase(open_past(), fleet, EraseTarget(space=SPACE, session_id="alice"))
        finally:
            go.set()
        assert written.result(120) == 1
    assert (holds(folder, "secret"), holds(folder, "alice")) == ([], [])
    assert read(folder, "records", "uid") == [("u2",)]


def test_an_erasure_that_was_interrupted_is_finished(
    fleet: FleetStore, open_past: Open, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has erased, and the disk failed before the files were written."""
    put(fleet, FIRST, 1, text="secret")
    put(fleet, FIRST, 2, text="stays")
    past = open_past()
    past.write_days(LATER * DAY_NS)

    def broken(*arguments: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("collector.fleet.past_erase.rewrite", broken)
        with pytest.raises(TransientError, match="the disk is full"):
            erase(past, fleet, EraseTarget(space=SPACE, record_uid="u1"))
    assert holds(folder, "secret") != []
    assert open_past().write_days(LATER * DAY_NS) == 0
    assert holds(folder, "secret") == []
    assert read(folder, "records", "uid") == [("u2",)]


def test_one_erasure_waits_for_another(fleet: FleetStore, open_past: Open, url: str) -> None:
    put(fleet, FIRST, 1)
    past, target = open_past(), EraseTarget(space=SPACE, record_uid="u1")
    past.write_days(LATER * DAY_NS)
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    with ThreadPoolExecutor(1) as pool:
        later: list[Future[Erased]] = []

        def action() -> Erased:
            later.append(pool.submit(erase, open_past(), fleet, target))
            wait_until(lambda: fleet.read(waiting), what="the second one waits")
            return fleet.erase(target)

        assert past.erase(target, action).uids == {"u1"}
        assert later[0].result(120).uids == frozenset()
    assert fleet.totals()[TotalKey(TotalName.ERASED, SPACE, label="record")] == 1


def test_an_erasure_does_not_wait_for_ever(
    fleet: FleetStore, open_past: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may be frozen in the middle of one."""
    monkeypatch.setattr("collector.fleet.past._WAIT", "10ms")
    past, target = open_past(), EraseTarget(space=SPACE, record_uid="u1")

    def action() -> Erased:
        with pytest.raises(TransientError, match="lock timeout"):
            erase(open_past(), fleet, target)
        return fleet.erase(target)

    assert past.erase(target, action).uids == frozenset()


# --- judging -------------------------------------------------------------------------------------


def test_past_days_are_judged_by_a_profile(
    fleet: FleetStore, open_past: Open, folder: Path, tmp_path: Path
) -> None:
    """What a fleet has written is what `scouter reevaluate --past` reads."""
    for number in range(1, 6):
        put(fleet, FIRST, number, text="right" if number % 2 else "wrong", tags={"a=b": "c"})
    open_past().write_days(LATER * DAY_NS)
    tasks = [
        AssertionTask("answer", "answer", "right", ComparisonOperator.Equals),
        TraceAssertionTask("spans", TraceAssertion.span_count(SpanFilter.by_name("step 1")), 1,
                           ComparisonOperator.Equals),
    ]  # fmt: skip
    profile = AgentEvalProfile(tasks, alias="answers")
    files = past_tasks(folder, profile, tmp_path / "out")
    assert [each.records.name for each in files] == ["records-0.parquet"]
    (counts,) = run_local(files, 1)
    assert (counts.records, counts.tasks) == (
        5, {"answer": {"passed": 3, "failed": 2}, "spans": {"passed": 5}},
    )  # fmt: skip


def test_a_copy_has_the_day_that_is_not_over_too(
    fleet: FleetStore, postgresql_server: PostgresqlServer, url: str, folder: Path, tmp_path: Path
) -> None:
    """`scouter store past` beside a fleet that runs; what has a folder is not written again."""
    put(fleet, FIRST, 1, text="right")
    put(fleet, time.time_ns() // DAY_NS, 2, text="wrong")
    address = f"postgresql://postgres@/{url.rpartition('=')[2]}?host={postgresql_server.folder}"
    words = ["past", "--from", address, "--to", str(folder)]
    for number in (2, 0):
        done = CliRunner().invoke(store, words)
        assert (done.exit_code, f"{number} days written" in done.output) == (0, True), done.output
    task = AssertionTask("answer", "answer", "right", ComparisonOperator.Equals)
    files = past_tasks(folder, AgentEvalProfile([task], alias="answers"), tmp_path / "out")
    counts = [each.tasks["answer"] for each in run_local(files, 1)]
    assert counts == [{"passed": 1}, {"failed": 1}]
    assert CliRunner().invoke(store, ["past", "--from", "x", "--to", str(folder)]).exit_code == 1
