"""The DuckDB store: the contract, and what is its own."""

import random
import resource
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from collector.storage.duckdb import care as duckdb_care
from collector.storage.duckdb import schema as duckdb_schema
from collector.storage.duckdb.database import FILE_NAME, Database
from collector.storage.duckdb.store import DuckDBStore
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.labels import LabelQuery, LabelRow
from collector.store.limits import TooLargeError
from collector.store.rows import START, Completeness, EvaluationRow, TaskRow
from collector.store.span_queries import TraceQuery
from collector.store.task_counts import TaskQuery
from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Outcome
from scouter.model.ids import uuid7
from tests.contracts.store import StoreContract
from tests.contracts.store_data import SPACE, TRACE, evaluation, record, span
from tests.contracts.store_opened import Open, OpenCopy
from tests.support.components import require_program
from tests.support.processes import wait_until


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    return lambda: DuckDBStore(tmp_path / "data")


@pytest.fixture
def open_copy() -> OpenCopy:
    return DuckDBStore


class TestDuckDBStore(StoreContract):
    """The contract."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    store = DuckDBStore(tmp_path / "data")
    yield store
    store.close()


def test_what_waits_is_committed_together(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one commit is held up, ten more appends arrive; they share the next number."""
    store._loader.join()  # pyright: ignore[reportPrivateUsage] it has jobs of its own
    held, go_on = threading.Event(), threading.Event()
    commit = store._writer._commit  # pyright: ignore[reportPrivateUsage]

    def slow(group: object) -> object:
        held.set()
        assert go_on.wait(120)
        return commit(group)  # type: ignore[arg-type]

    monkeypatch.setattr(store._writer, "_commit", slow)  # pyright: ignore[reportPrivateUsage]
    first = store.append_records([record("first")])
    assert held.wait(120)
    rest = [store.append_records([record(f"u{n}")]) for n in range(10)]
    go_on.set()

    assert {each.result().seq for each in rest} == {first.result().seq + 1}


def test_says_how_it_is(store: DuckDBStore, tmp_path: Path) -> None:
    """Each commit is timed, and the size is that of the files."""
    took: list[float] = []
    store.observe_commits(took.append)
    for n in range(3):
        store.append_records([record(f"u{n}")]).result()
    store.append_records([record("u0")]).result()

    assert len(took) >= 4  # what was loaded in the background is handed over by commits too
    assert 0 < max(took) < 30
    assert 0 <= store.commit_age_s() < 30
    files = (tmp_path / "data").glob("scouter.duckdb*")
    assert store.file_bytes() == sum(file.stat().st_size for file in files) > 0


def test_scrapes_ask_the_database_seldom_for_the_oldest_row(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    read = Database.read

    def noted(self: Database, sql: str, parameters: Any = ()) -> Any:
        asked.append(sql)
        return read(self, sql, parameters)

    store.append_spans(SPACE, [span(1)], 50).result()
    store.append_spans(SPACE, [span(2, trace_id="ab" * 16)], 70).result()
    monkeypatch.setattr(Database, "read", noted)
    assert [store.oldest_ns() for _ in range(5)] == [50] * 5
    assert len(asked) == 1
    store.remove_before(60)
    monkeypatch.setattr(duckdb_care, "_OLDEST_S", 0.0)
    assert store.oldest_ns() == 70


def test_a_long_trace_does_not_lengthen_the_search_for_others(
    store: DuckDBStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest trace has 2,000 spans; without care each 36 of them were one read."""
    for n in (1, 2):
        store.append_spans(SPACE, [span(n, trace_id=f"{n:032x}")], 1).result()
    long = [span(n, trace_id="f" * 32, start_ns=n) for n in range(1, 2001)]
    store.append_spans(SPACE, long, 2).result()
    reads = 0
    read = Database.read

    def counted(self: Database, sql: str, parameters: Any = ()) -> Any:
        nonlocal reads
        reads += 1
        return read(self, sql, parameters)

    monkeypatch.setattr(Database, "read", counted)
    found = store.traces(TraceQuery(space=SPACE, limit=2)).items
    assert [each.trace_id for each in found] == ["f" * 32, f"{2:032x}"]
    assert reads <= 4, "two parts, and the sums of the page"


def test_every_answer_comes_after_a_sync(tmp_path: Path) -> None:
    """The kernel's view: before each answer its file was synced, for spans that of the span log."""
    strace = require_program("strace", "strace")
    program = (
        "from pathlib import Path; import os, sys\n"
        "from concurrent.futures import Future\n"
        "from collector.storage.duckdb.store import DuckDBStore\n"
        "from tests.contracts.store_data import SPACE, record, span\n"
        "store = DuckDBStore(Path(sys.argv[1]))\n"
        "told = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)\n"
        "os.write(told, b'begin')\n"
        "for n in range(5):\n"
        "    store.append_records([record(f'u{n}')]).result()\n"
        "    os.write(told, b'records')\n"
        "    durable = Future()\n"
        "    store.append_spans(SPACE, [span(n + 1)], 1, durable=durable)\n"
        "    durable.result()\n"
        "    os.write(told, b'spans')\n"
        "store.close()\n"
    )
    trace = tmp_path / "trace"
    done = subprocess.run(
        [strace, "-f", "-y", "-e", "trace=fsync,fdatasync,write", "-o", trace, sys.executable,
         "-c", program, tmp_path / "data", tmp_path / "told"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    synced: set[str] = set()
    answers: list[str] = []
    for line in trace.read_text().splitlines():
        if "sync(" in line:
            synced |= {name for name in ("scouter.duckdb", ".spans>") if name in line}
        elif '"begin"' in line:
            synced.clear()
        elif '"records"' in line or '"spans"' in line:
            kind = "records" if '"records"' in line else "spans"
            wanted = {"records": "scouter.duckdb", "spans": ".spans>"}[kind]
            assert wanted in synced, f"answer {len(answers)}, of {kind}, came before its sync"
            answers.append(kind)
            synced.clear()
    assert answers == ["records", "spans"] * 5


def test_rows_that_cannot_be_stored_fail_alone(store: DuckDBStore) -> None:
    """A record id with half a character has no UTF-8 form; its neighbours are stored."""
    futures: list[Future[object]] = [
        store.append_records([record(f"u{n}", record_id="\ud800" if n == 2 else "")])  # type: ignore[misc]
        for n in range(5)
    ]
    for n, future in enumerate(futures):
        if n == 2:
            with pytest.raises(DataError):
                future.result()
        else:
            future.result()
    assert [each.record.uid for each in store.waiting_records(9)] == ["u0", "u1", "u3", "u4"]
    with pytest.raises(DataError, match="half a character"):
        store.append_spans(SPACE, [span(1, attributes={"k": "\udfff"})], 1).result()


def test_a_second_process_is_refused(store: DuckDBStore, tmp_path: Path) -> None:
    assert store.totals() == {}
    program = (
        "from pathlib import Path; import sys\n"
        "from collector.storage.duckdb.store import DuckDBStore\n"
        "DuckDBStore(Path(sys.argv[1]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "ConfigError: cannot open the store" in done.stderr


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"cannot open the store .*file"):
        DuckDBStore(tmp_path / "file")


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    Database(tmp_path, 10**8).close()
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        connection.execute("INSERT INTO migrations VALUES (99)")
    with pytest.raises(ConfigError, match="version 99"):
        Database(tmp_path, 10**8)


def test_migrations_are_applied_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store gets the next step when a program that knows it opens it."""
    Database(tmp_path, 10**8).close()
    known = len(duckdb_schema.MIGRATIONS)
    steps = (
        *duckdb_schema.MIGRATIONS,
        "CREATE TABLE extra (n INTEGER); INSERT INTO extra VALUES (1)",
    )
    monkeypatch.setattr("collector.storage.duckdb.database.MIGRATIONS", steps)
    for _ in range(2):
        database = Database(tmp_path, 10**8)
        assert database.read("FROM extra") == [(1,)]
        versions = [row[0] for row in database.read("SELECT version FROM migrations ORDER BY 1")]
        assert versions == list(range(1, known + 2))
        database.close()


def old_store(folder: Path, version: int, further: int = 0) -> None:
    """A store of an older version, and some statements of its next step."""
    steps = [list(filter(str.strip, step.split(";"))) for step in duckdb_schema.MIGRATIONS]
    folder.mkdir(exist_ok=True)
    with duckdb.connect(str(folder / "scouter.duckdb")) as connection:
        connection.execute("CREATE TABLE migrations (version INTEGER)")
        for step, statements in enumerate(steps[:version], start=1):
            connection.execute(";".join(statements))
            connection.execute("INSERT INTO migrations VALUES (?)", [step])
        for statement in steps[version][:further]:
            connection.execute(statement)


def test_a_large_store_gets_new_columns(tmp_path: Path) -> None:
    """Three million results of version 1; a service's memory does not do for their new columns."""
    old_store(tmp_path, 1)
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        connection.execute(
            "INSERT INTO task_results BY NAME SELECT range AS seq FROM range(3_000_000)"
        )
    database = Database(tmp_path, 40 * 10**6)
    assert database.read("SELECT count(*) FROM task_results") == [(3_000_000,)]
    assert database.read("SELECT current_setting('memory_limit')") == [("38.1 MiB",)]
    database.close()


def insert_row(connection: duckdb.DuckDBPyConnection, table: str, **values: object) -> None:
    """Add a row with these columns."""
    marks = ", ".join("?" * len(values))
    sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"  # noqa: S608 our own words
    connection.execute(sql, list(values.values()))


def test_evaluations_of_before_get_their_text(tmp_path: Path) -> None:
    """Step 7 writes what was in columns into one text: of results, of usage, of no result."""
    old_store(tmp_path, 6)
    head: dict[str, Any] = {
        "space": "s", "record_id": 'record "1"', "session_id": "", "trace_id": None,
        "profile_uid": "p1", "profile_digest": "d1", "profile_name": "answers", "alias": "answers",
        "missing_parents": 2, "reads_spans": True, "service_name": "shop",
        "service_version": "1.4", "environment": "", "created_ns": 5, "evaluated_ns": 6,
        "duration_ns": 7, "input_seq": 8,
    }  # fmt: skip
    first: dict[str, Any] = {**head, "evaluation_id": "e1", "record_uid": "u1", "revision": 2}
    second: dict[str, Any] = {
        **head,
        "evaluation_id": "e2",
        "record_uid": "u2",
        "revision": 1,
        "scope": "session",
    }
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        insert_row(
            connection, "evaluations", **first, seq=1, ordinal=0, outcome="failed",
            completeness="quiet", scope="record", tags='{"a":"é"}',
        )  # fmt: skip
        insert_row(
            connection, "evaluations", **second, seq=1, ordinal=1, outcome="passed",
            completeness="complete", tags="{}", was_decided=False,
        )  # fmt: skip
        of_first = {"seq": 1, "space": "s", "evaluation_id": "e1"}
        insert_row(
            connection, "task_results", **of_first, position=1, task_id="t2", task_type="LLMJudge",
            outcome="failed", reason="why", expected="null", actual="[1,12345678901234567890123]",
            message="line\n2", operator=">=", condition=True, stage=3, judge_calls=4,
            judge_cached=1, output_tokens=5, cost_usd=0.25, question="q", answer='{"b":2.50}',
        )  # fmt: skip
        insert_row(
            connection, "task_results", **of_first, position=0, task_id="t1",
            task_type="Assertion", outcome="passed", expected='"x"', actual="null", message="",
            operator="", condition=False, stage=0, question="",
        )  # fmt: skip

    usage = JudgeUsage(calls=4, cached=1, output_tokens=5, cost_usd=0.25)
    tasks = (
        TaskRow(task_id="t1", task_type="Assertion", outcome=Outcome.PASSED, expected="x"),
        TaskRow(
            task_id="t2", task_type="LLMJudge", outcome=Outcome.FAILED, reason="why",
            actual=[1, 12345678901234567890123], message="line\n2", operator=">=", condition=True,
            stage=3, usage=usage, question="q", answer={"b": 2.5},
        ),
    )  # fmt: skip
    store = DuckDBStore(tmp_path)
    assert store.evaluation("s", "e1") == EvaluationRow(
        **first, outcome=Outcome.FAILED, completeness=Completeness.QUIET, tags={"a": "é"},
        was_decided=True, tasks=tasks,
    )  # fmt: skip
    assert store.evaluation("s", "e2") == EvaluationRow(
        **second, outcome=Outcome.PASSED, completeness=Completeness.COMPLETE, tasks=(),
    )  # fmt: skip
    store.close()


def test_scores_of_before_are_the_numbers_that_judges_gave(tmp_path: Path) -> None:
    """Details beyond the outcome: what an evaluation shows and what is counted agree."""
    version = next(n for n, sql in enumerate(duckdb_schema.MIGRATIONS) if "score DOUBLE" in sql)
    values: list[tuple[str, str, Any]] = [
        ("LLMJudge", "passed", 4), ("LLMJudge", "failed", 2.25), ("LLMJudge", "passed", 1),
        ("LLMJudge", "failed", 1), ("LLMJudge", "passed", True), ("LLMJudge", "failed", "7"),
        ("LLMJudge", "passed", None), ("LLMJudge", "passed", [5]), ("LLMJudge", "errored", 3),
        ("LLMJudge", "passed", 10**40), ("LLMJudge", "passed", -0.5), ("Assertion", "passed", 9),
    ]  # fmt: skip
    tasks = tuple(
        TaskRow(task_id=f"t{n}", task_type=kind, outcome=Outcome(outcome), actual=actual)
        for n, (kind, outcome, actual) in enumerate(values)
    )
    store = DuckDBStore(tmp_path)
    store.append_evaluations(
        [evaluation("u1", tasks=tasks), evaluation("u2", tasks=tasks)]
    ).result()
    store.close()
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        connection.execute("ALTER TABLE task_results DROP COLUMN score")
        connection.execute("DELETE FROM migrations WHERE version > ?", [version])

    store = DuckDBStore(tmp_path)
    found = {row.task_id: row.scores.mean for row in store.task_counts(TaskQuery(space=SPACE))}
    (row, _) = store.evaluations(EvaluationQuery(space=SPACE)).items
    store.close()
    wanted = [4, 2.25, 1, 1, 1, 0, 1, 1, None, 1, -0.5, 1]
    assert list(found.values()) == wanted
    assert [task.score for task in row.tasks] == wanted


def test_labels_of_before_have_neither_score_nor_mark(tmp_path: Path) -> None:
    step = next(n for n, sql in enumerate(duckdb_schema.MIGRATIONS) if "labels ADD COLUMN" in sql)
    row = LabelRow(
        space=SPACE, uid="u1", record_id="", alias="answers", task_id="t1", rater="ada",
        is_good=False, notes="so", at_ns=5, by="token-1",
    )  # fmt: skip
    store = DuckDBStore(tmp_path)
    store.append_labels([row])
    store.close()
    with duckdb.connect(str(tmp_path / "scouter.duckdb")) as connection:
        for name in ("score", "is_blind", "queue_order", "stratum", "stratum_size"):
            connection.execute(f"ALTER TABLE labels DROP COLUMN {name}")
        connection.execute("DELETE FROM migrations WHERE version > ?", [step])

    store = DuckDBStore(tmp_path)
    store.append_labels([replace(row, uid="u2", is_good=True, score=4.5)])
    found = store.labels(LabelQuery(space=SPACE))
    store.close()
    assert [(each.uid, each.is_good, each.score, each.is_blind) for each in found] == [
        ("u2", True, 4.5, None), ("u1", False, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize("share", [5, pytest.param(1, marks=pytest.mark.long)])
def test_a_step_that_was_begun_is_done_again(tmp_path: Path, share: int) -> None:
    """The program ended behind any of the statements that bring an old store up to date.

    One in `share` of them, chosen by chance; the long test takes each.
    """

    def columns(folder: Path) -> list[tuple[str, ...]]:
        database = Database(folder, 10**8)
        found = database.read(
            "SELECT table_name, column_index, column_name, data_type FROM duckdb_columns()"
            " WHERE database_name = 'store' ORDER BY ALL"
        )
        database.close()
        return found

    wanted = columns(tmp_path / "new")
    ends = [
        (version, further)
        for version, step in enumerate(duckdb_schema.MIGRATIONS[1:], start=1)
        for further in range(len(list(filter(str.strip, step.split(";")))) + 1)
    ]
    for version, further in random.Random(5).sample(ends, len(ends) // share):
        folder = tmp_path / f"{version}-{further}"
        old_store(folder, version, further)
        assert columns(folder) == wanted, (version, further)


def test_very_long_texts_pass_a_checkpoint(tmp_path: Path) -> None:
    """Ten different texts of 10 MB in a store that may use 128 MB."""
    rng = random.Random(4)
    store = DuckDBStore(tmp_path, 128 * 10**6)
    texts = {f"{n + 1:016x}": rng.randbytes(5 * 10**6).hex() for n in range(10)}
    for n, text in enumerate(texts.values()):
        own = span(n + 1, trace_id=f"{n + 1:032x}", attributes={"text": text})
        store.append_spans(SPACE, [own], 1).result(120)
    store.close()  # writes the last of them into the file proper
    store = DuckDBStore(tmp_path, 128 * 10**6)
    ids = [f"{n + 1:032x}" for n in range(len(texts))]
    with pytest.raises(TooLargeError, match="64 MiB"):
        store.spans_of(SPACE, ids)
    found = [store.spans_of(SPACE, [trace_id])[trace_id][0] for trace_id in ids]
    store.close()

    assert {each.span_id: each.attributes["text"] for each in found} == texts
    assert store.fault() == ""


def test_what_is_written_is_not_written_again(tmp_path: Path) -> None:
    """DuckDB would join small row groups, which stalls writers where contexts are long."""
    store = DuckDBStore(tmp_path)
    for n in range(8):
        uids = [f"{n}-{m}" for m in range(20)]
        store.append_records([record(uid, context={"t": uid * 50_000}) for uid in uids]).result()
        store.checkpoint()
    store.close()
    sql = "SELECT row_group_id FROM pragma_storage_info('records') WHERE column_name = 'context'"
    with duckdb.connect(str(tmp_path / "scouter.duckdb"), read_only=True) as connection:
        groups = [row[0] for row in connection.execute(sql).fetchall()]

    assert len(set(groups)) == 8


@contextmanager
def small_disk() -> Generator[None]:
    """No file of this process may grow beyond 2 MiB, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * 2**20, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_refuses_and_recovers(store: DuckDBStore) -> None:
    """Accepted records are there, refused ones are not; with room again all is well."""
    rng = random.Random(3)
    batches = [
        [span(n * 100 + m, attributes={"text": rng.randbytes(3000).hex()}) for m in range(100)]
        for n in range(8)
    ]
    with small_disk():
        first = store.append_spans(SPACE, batches[0], 1)
        first.exception()  # alone: all of them written together do not fit, and are all refused
        futures = [first] + [store.append_spans(SPACE, batch, 1) for batch in batches[1:]]
        errors = [future.exception() for future in futures]
    assert {type(error) for error in errors} == {type(None), TransientError}
    assert all("cannot write" in str(error) for error in errors if error)

    wait_until(lambda: store.fault() == "", what="room")
    kept = 100 * errors.count(None)
    assert store.conservation(SPACE).spans.stored == kept
    for batch in batches:
        store.append_spans(SPACE, batch, 2).result()
    sheet = store.conservation(SPACE).spans
    assert (sheet.stored, sheet.duplicates) == (800, kept)
    assert store.fault() == ""


def test_what_waits_is_read_within_the_memory_limit(tmp_path: Path) -> None:
    """Page by page, while evaluations on what was read before are written; none is left out."""
    store = DuckDBStore(tmp_path)
    uids = [uuid7() for _ in range(40_000)]
    text = "a context of some length " * 20
    for start in range(0, len(uids), 2_000):
        part = uids[start : start + 2_000]
        rows = [
            record(uid, trace_id=uid.replace("-", ""), context={"a": text + uid}) for uid in part
        ]
        store.append_records(rows).result()
    found: list[str] = []
    after = START
    while page := store.waiting_records(3_750, after):
        assert all(each.record.context is None for each in page)
        found += [each.record.uid for each in page]
        store.append_evaluations([evaluation(each.record.uid) for each in page]).result()
        after = page[-1].place
    waiting = store.waiting_count()
    store.close()
    assert len(found) == len(uids)
    assert set(found) == set(uids)
    assert waiting == 0


def test_a_folder_that_has_filters_and_places_of_spans(tmp_path: Path) -> None:
    """As version 16 of the store left it: they go, what is stored stays."""
    store = DuckDBStore(tmp_path)
    store.append_spans(SPACE, [span(1)], 1).result()
    store.close()
    with duckdb.connect(tmp_path / FILE_NAME) as connection:
        connection.execute("CREATE TABLE blocks (seq BIGINT, of_table VARCHAR, bits_0 BLOB)")
        connection.execute("INSERT INTO blocks VALUES (1, 'spans', 'bits'::BLOB)")
        connection.execute("DELETE FROM migrations WHERE version > 16")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "1-1.places").write_bytes(b"SPL1")
    store = DuckDBStore(tmp_path)
    assert store.spans_of(SPACE, [TRACE]) == {TRACE: [span(1)]}
    tables = {name for (name,) in store._database.read("SHOW TABLES")}  # pyright: ignore[reportPrivateUsage]
    store.close()
    assert "blocks" not in tables
    assert not (tmp_path / "traces").exists()
