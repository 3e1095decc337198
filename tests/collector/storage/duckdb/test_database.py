"""The file that is closed and opened again while it is used."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collector.storage.duckdb import database
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.duckdb.turns import Turns
from collector.store.letters import LetterQuery
from scouter.errors import ConfigError, TransientError
from tests.contracts.store_care import ERASURES, CareContract
from tests.contracts.store_data import SPACE, letter, record, span
from tests.contracts.store_opened import Open, OpenCopy
from tests.contracts.store_telemetry import TelemetryContract
from tests.support.processes import wait_until


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """After every commit."""
    monkeypatch.setattr(database, "RENEW_ROWS", 1)


@pytest.fixture
def open_store(tmp_path: Path) -> Open:
    return lambda: DuckDBStore(tmp_path / "data")


@pytest.fixture
def open_copy() -> OpenCopy:
    return DuckDBStore


class TestRenewedStore(TelemetryContract, CareContract):
    """The parts of the contract in which rows come, are looked up, and go."""

    erasures = ERASURES[:3]


def test_readers_notice_nothing(open_store: Open) -> None:
    """Four of them, without a pause, while each of 30 commits or more opens the file anew."""
    store = open_store()
    done = threading.Event()
    counts: list[list[int]] = [[] for _ in range(4)]

    def read(mine: list[int]) -> None:
        while not done.is_set():
            mine.append(store.record_sheet(SPACE).waiting)

    readers = [threading.Thread(target=read, args=(mine,)) for mine in counts]
    for each in readers:
        each.start()
    number = 0
    while number < 30 or min(map(len, counts)) < 5:
        store.append_records([record(f"u{number}")]).result()
        number += 1
    done.set()
    for each in readers:
        each.join()
    assert all(mine == sorted(mine) for mine in counts)
    assert store.conservation(SPACE).records.waiting == number
    store.close()


@pytest.mark.pace
def test_a_long_query_is_not_waited_for(tmp_path: Path) -> None:
    file = database.Database(tmp_path, 56 * 10**6)
    inside, go_on = threading.Event(), threading.Event()

    def query() -> None:
        with file.in_use():
            inside.set()
            assert go_on.wait(120)

    reader = threading.Thread(target=query)
    reader.start()
    assert inside.wait(120)
    began = time.monotonic()
    file.wrote(1)
    file.renew()
    assert time.monotonic() - began < 5
    assert file.read("SELECT 1") == [(1,)]
    go_on.set()
    reader.join()
    file.close()


def test_a_commit_and_a_read_of_long_texts_take_turns(tmp_path: Path) -> None:
    """Together they took more memory than there is; other queries run beside both."""
    store = DuckDBStore(tmp_path / "data")
    file = store._database  # pyright: ignore[reportPrivateUsage]
    store.append_records([record("first")]).result()
    with ThreadPoolExecutor(1) as pool:
        with file.heavy:
            waiting = store.append_records([record("second")])
            reading = pool.submit(file.read_long, "SELECT uid FROM records ORDER BY uid")
            with pytest.raises(TimeoutError):
                waiting.result(0.3)
            assert not reading.done()
            assert file.read("SELECT count(*) FROM records") == [(1,)]
        waiting.result(120)
        assert reading.result(120) in ([("first",)], [("first",), ("second",)])
    store.close()


def test_a_file_that_cannot_be_opened_again_is_said(tmp_path: Path) -> None:
    """Nothing is taken any more, and nothing that was taken is lost."""
    store = DuckDBStore(tmp_path / "data")
    store.append_records([record("stays")]).result()
    file = store._database  # pyright: ignore[reportPrivateUsage]
    path, file.path = file.path, tmp_path
    store.append_spans(SPACE, [span()], 1)  # whose commit is the last one, if there is time for it
    wait_until(lambda: store.is_broken, what="the fault")
    assert "directory" in store.fault()
    with pytest.raises(TransientError, match="could not be opened again"):
        store.conservation(SPACE)
    waiting = store.append_records([record("waits")])
    store.close()
    assert isinstance(waiting.exception(), TransientError)
    assert path.exists()
    again = DuckDBStore(tmp_path / "data")
    assert again.conservation(SPACE).records.waiting == 1
    again.close()


def test_what_a_killed_process_had_no_memory_for_does_not_stay(tmp_path: Path) -> None:
    """It sorts texts of 40 MB with 20 MB; while it lives, nobody takes its files away."""
    program = (
        "import sys, time; from pathlib import Path\n"
        "from collector.storage.duckdb.database import Database\n"
        "file = Database(Path(sys.argv[1]), 20 * 10**6)\n"
        "file.read(\"CREATE TEMP TABLE t AS SELECT repeat('SECRET ' || i, 40) AS x"
        ' FROM range(100000) r(i)")\n'
        "print('done', flush=True); time.sleep(60)\n"
    )

    def spilled() -> list[Path]:
        return [each for each in (tmp_path / "spill").glob("*") if each.stat().st_size]

    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[4],
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        left = spilled()
        with pytest.raises(ConfigError, match="has it open"):
            database.Database(tmp_path, 20 * 10**6)
        assert spilled() == left != []
        process.kill()
    assert spilled() == left
    database.Database(tmp_path, 20 * 10**6).close()
    assert spilled() == []


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@given(value=st.one_of(st.integers(-(2**63) + 1, 2**63 - 1), st.text(max_size=20)))
@example(value="'); DROP TABLE spans; --")
@example(value="it''s\\' \0 \u00a0?$1")
def test_a_literal_is_its_value(connection: duckdb.DuckDBPyConnection, value: int | str) -> None:
    """SQL reads any text as that text alone."""
    assert database.run(connection, f"SELECT {database.literal(value)}") == [(value,)]


def test_many_readers_at_once_have_memory_enough(tmp_path: Path) -> None:
    """Each query takes up to 20 MB of 80; sixteen at once took more than there are."""
    file = database.Database(tmp_path, 80 * 10**6)
    rows = "SELECT range, hash(range) AS h FROM range(400000) ORDER BY h"
    sql = f"SELECT len(found) FROM (SELECT list(range) AS found FROM ({rows}))"  # noqa: S608
    counts: list[int] = []

    def read() -> None:
        ((found,),) = file.read(sql)
        counts.append(found)

    readers = [threading.Thread(target=read) for _ in range(16)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert counts == [400_000] * 16
    file.close()


def test_commits_take_no_turn_of_readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many questions are asked, what comes is stored; what was stored before is known."""
    store = DuckDBStore(tmp_path / "data")
    store.append_records([record("u1")]).result()
    store.append_dead_letters([letter(source="1")]).result()
    monkeypatch.setattr(store._database, "_turns", Turns(1))  # pyright: ignore[reportPrivateUsage]
    with store._database._turns:  # pyright: ignore[reportPrivateUsage]
        assert store.append_records([record("u1")]).result(120).duplicates == (0,)
        store.append_spans(SPACE, [span(1)], 1).result(120)
        store.append_dead_letters([letter(source="1"), letter(source="2")]).result(120)
    assert len(store.dead_letters(LetterQuery(space=SPACE))) == 2
    store.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[database.Database]:
    file = database.Database(tmp_path, 56 * 10**6)
    yield file
    file.close()


NUMBERS = "SELECT range FROM range(?) WHERE range >= ? ORDER BY range"


def test_a_parsed_query_has_the_values_of_its_time(file: database.Database) -> None:
    """From several threads at once, and whatever the type of a value."""
    found: list[bool] = []

    def read(count: int) -> None:
        for first in (*range(count), *range(count)):
            rows = file.read(NUMBERS, [count, first])
            found.append(rows == [(n,) for n in range(first, count)])

    readers = [threading.Thread(target=read, args=(count,)) for count in (10, 20, 30)]
    for each in readers:
        each.start()
    for each in readers:
        each.join()
    assert found == [True] * 120
    for value in (1, "one", None, 2**63, [1, 2]):
        assert file.read("SELECT ?", [value]) == [(value,)]


def test_two_queries_side_by_side(file: database.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one query at a time has a turn."""
    pair = database.Query(NUMBERS, [4, 2]), database.Query("SELECT 'other'")
    assert file.read_both(*pair) == ([(2,), (3,)], [("other",)])
    monkeypatch.setattr(file, "_turns", Turns(1))
    for _ in range(20):
        assert file.read_both(*pair) == ([(2,), (3,)], [("other",)])


@pytest.mark.parametrize("place", [0, 1])
def test_a_fault_in_one_of_two_queries_is_that_of_both(place: int, file: database.Database) -> None:
    """And the next two know nothing of it."""
    queries = [database.Query("SELECT 1"), database.Query("SELECT 2")]
    broken = [*queries]
    broken[place] = database.Query("SELECT error('on purpose')")
    with pytest.raises(duckdb.Error, match="on purpose"):
        file.read_both(*broken)
    assert file.read_both(*queries) == ([(1,)], [(2,)])


def test_two_queries_of_a_closed_file(tmp_path: Path) -> None:
    file = database.Database(tmp_path, 56 * 10**6)
    file.close()
    with pytest.raises(TransientError, match="the store is closed"):
        file.read_both(database.Query("SELECT 1"), database.Query("SELECT 2"))
