"""Checks, copies and exports of data folders that no collector has open."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import duckdb
import pytest

from collector.care.check import check_data, copy_data
from collector.care.table_export import EXPORTED, export_tables
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.worker_room import SPACE, WorkerRoom, record, span, trace_id

PROFILES = {SPACE: [AgentEvalProfile([AssertionTask("t", "answer", 42, Op.Equals)], alias="a")]}
SERVICE = '{"service.name":"desk"}'


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two records, one judged and one that waits for its profile, and two spans of one trace."""
    room = WorkerRoom(tmp_path_factory.mktemp("whole") / "data", PROFILES)
    room.records(record("u1", "a", answer=42, text="MARKER" * 2_000), record("u2", "unknown"))
    room.spans(span(0, 1), span(0, 2))
    room.work()
    room.close()
    return room.folder


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def content_of(folder: Path) -> dict[Path, bytes]:
    return {
        file.relative_to(folder): file.read_bytes() for file in folder.rglob("*") if file.is_file()
    }


def test_a_whole_folder_is_well_and_stays_as_it_is(data: Path) -> None:
    before = content_of(data)
    report = check_data(data)
    assert (report.problems, report.notes) == ([], [])
    assert (report.spans, report.items) == (2, 2)
    sheet = report.sheets[SPACE]
    assert (sheet.records.accepted, sheet.records.waiting, sheet.records.evaluated) == (2, 1, 1)
    assert content_of(data) == before


def change(*statements: str) -> Callable[[Path], None]:
    def work(data: Path) -> None:
        with duckdb.connect(str(data / "store-1.duckdb")) as connection:
            for statement in statements:
                connection.execute(statement)

    return work


def spoil(data: Path) -> None:
    file = data / "store-1.duckdb"
    content = bytearray(file.read_bytes())
    content[content.index(b"MARKERMARKER")] ^= 1
    file.write_bytes(content)


def spoil_log(data: Path) -> None:
    (file,) = (data / "log").iterdir()
    content = bytearray(file.read_bytes())
    content[content.index(b"MARKER")] ^= 1
    file.write_bytes(content)


def remove_log(data: Path) -> None:
    shutil.rmtree(data / "log")


def remove_store(data: Path) -> None:
    (data / "store-1.duckdb").unlink()


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (change("INSERT INTO records FROM records LIMIT 1"), ["2 rows with the key"]),
        (change("DELETE FROM records WHERE uid = 'u2'"), ["2 records were accepted, 1 have"]),
        (change("DELETE FROM spans"), ["2 spans were accepted, 0 are stored"]),
        (change("DELETE FROM bodies"), ["2 spans whose bytes are gone"]),
        (change("DELETE FROM evaluations"), ["1 task results without"]),
        (change("DELETE FROM offsets WHERE seq > 0"), ["ends with commit 0"]),
        (spoil, ["the column context is damaged"]),
        (spoil_log, ["bytes are damaged"]),
        (remove_log, ["the log in", "is gone"]),
        (remove_store, ["the store in", "is gone"]),
    ],
)
def test_a_check_finds_what_is_wrong(
    data: Path, work: Callable[[Path], object], said: Sequence[str]
) -> None:
    work(data)
    problems = "\n".join(check_data(data).problems)
    assert all(each in problems for each in said), problems


def test_a_copy_is_a_data_folder(data: Path, tmp_path: Path) -> None:
    """Of the file that is whole, under its first name; the mark stays with the original."""
    copied = copy_data(data, tmp_path / "copy")
    assert copied.files == 2
    files = [each for each in (tmp_path / "copy").rglob("*") if each.is_file()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert sorted(each.name for each in files) == [f"{0:020d}.log", "store-1.duckdb"]
    assert check_data(tmp_path / "copy").problems == []
    room = WorkerRoom(tmp_path / "copy", PROFILES)
    assert room.count("records") == 2
    room.close()
    with pytest.raises(ConfigError, match="is not empty"):
        copy_data(data, tmp_path / "copy")


def test_no_copy_is_made_of_what_was_erased(data: Path, tmp_path: Path) -> None:
    store = FileStore(data)
    store.erase(EraseTarget(space=SPACE, trace_id=trace_id(0)))
    store.close()
    with pytest.raises(ConfigError, match="still hold bytes of what was erased"):
        copy_data(data, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    store = FileStore(data)
    store.purge()
    store.close()
    assert copy_data(data, tmp_path / "copy").files == 2
    assert (tmp_path / "copy" / "store-1.duckdb").exists()


def test_every_table_is_exported(data: Path, tmp_path: Path) -> None:
    files = export_tables(data, tmp_path / "out")
    assert {each.name for each in files} == {f"{table}.parquet" for table in EXPORTED}
    assert {each.name for each in (tmp_path / "out").iterdir()} == {each.name for each in files}
    with duckdb.connect() as connection:
        for table, columns, expected in (
            ("spans", "span_id[-1:], resource", [("2", SERVICE), ("3", SERVICE)]),
            ("records", "uid", [("u1",), ("u2",)]),
            ("task_results", "task_id, outcome, expected, actual", [("t", "passed", "42", "42")]),
        ):  # fmt: skip
            path = str(tmp_path / "out" / f"{table}.parquet")
            sql = f"SELECT {columns} FROM read_parquet('{path}') ORDER BY 1"  # noqa: S608 our own words
            assert connection.execute(sql).fetchall() == expected


def test_what_is_no_data_folder_is_refused(tmp_path: Path) -> None:
    """And nothing is made there."""
    for work in (
        lambda: check_data(tmp_path / "none"),
        lambda: copy_data(tmp_path / "none", tmp_path / "copy"),
        lambda: export_tables(tmp_path / "none", tmp_path / "out"),
    ):
        with pytest.raises(ConfigError, match="no store in"):
            work()
    assert list(tmp_path.iterdir()) == []
