"""A start on files that are gone, older, damaged, or of another folder or version."""

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from collector.store import file_store
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.opening import FILE_NAME, LostDataError, read_mark
from scouter.errors import ConfigError
from tests.contracts.store_data import record

Change = Callable[[Path], object]


def commit(store: FileStore, uid: str, offset: int) -> int:
    return store.commit(Commit(offset=offset, low_seq=1, records=[record(uid, space="a")]))


def uids(store: FileStore) -> list[str]:
    return [uid for (uid,) in store.read("SELECT uid FROM records ORDER BY seq")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a process leaves it that is killed: u1 is in the file, u2 and u3 in its log."""
    folder, copy = (tmp_path_factory.mktemp("killed") / name for name in ("data", "copy"))
    store = FileStore(folder)
    commit(store, "u1", 10)
    store.close()
    store = FileStore(folder)
    commit(store, "u2", 20)
    commit(store, "u3", 30)
    shutil.copytree(folder, copy)
    store.close()
    return copy


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store of another folder, with more commits."""
    folder = tmp_path_factory.mktemp("other") / "data"
    store = FileStore(folder)
    for number in range(9):
        commit(store, f"x{number}", number + 1)
    store.close()
    return folder


def content_of(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def remove(*names: str) -> Change:
    def change(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return change


def spoil(name: str, at: int, size: int = 1) -> Change:
    """Turn bytes of a file around; a place below 0 counts from its end."""

    def change(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        at_byte = at % len(content)
        content[at_byte : at_byte + size] = bytes(
            255 - each for each in content[at_byte : at_byte + size]
        )
        (folder / name).write_bytes(content)

    return change


FILE, LOG = "store-1.duckdb", "store-1.duckdb.wal"


def test_what_a_killed_process_leaves_is_whole(data: Path) -> None:
    store = FileStore(data)
    assert (uids(store), store.last_seq(), store.offset) == (["u1", "u2", "u3"], 3, 30)
    store.close()


@pytest.mark.parametrize(
    ("change", "said", "left", "offset"),
    [
        pytest.param(remove(FILE, LOG), "is gone", [], 0, id="all of it"),
        pytest.param(remove(FILE), "is gone", [], 0, id="the file"),
        pytest.param(remove(LOG), "ends with commit 1, and 3 were made", ["u1"], 10, id="its log"),
        pytest.param(spoil(FILE, 9_000, 6_000), "Corrupt", [], 0, id="a damaged file"),
        pytest.param(spoil(LOG, 60, 8), "ends with commit 1, and", ["u1"], 10, id="a damaged log"),
        pytest.param(spoil(LOG, 0, 16), "ends with commit 1, and", ["u1"], 10, id="its log's head"),
        pytest.param(
            spoil(LOG, -40, 8), "ends with commit 2, and 3 were", ["u1", "u2"], 20, id="its end"
        ),
    ],
)
def test_a_loss_is_refused_until_somebody_accepts_it(
    data: Path, change: Change, said: str, left: list[str], offset: int
) -> None:
    """In one line, and nothing is changed; then numbers of commits go on behind the old ones."""
    change(data)
    before = content_of(data)
    with pytest.raises(LostDataError, match=said):
        FileStore(data)
    with pytest.raises(LostDataError, match=said) as refused:
        FileStore(data)
    assert content_of(data) == before
    assert len(str(refused.value).splitlines()) == 1
    for way in ("restore", "check --data", "--accept-loss"):
        assert way in str(refused.value)

    store = FileStore(data, accept_loss=True)
    assert (uids(store), store.offset) == (left, offset)
    assert commit(store, "later", 40) > 3
    store.close()
    store = FileStore(data)
    assert uids(store) == [*left, "later"]
    store.close()


def test_an_older_copy_of_the_store_is_refused(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    store = FileStore(data)
    commit(store, "u4", 40)
    store.close()
    for name in (FILE, LOG):
        shutil.copy(tmp_path / "copy" / name, data / name)
    with pytest.raises(LostDataError, match="ends with commit 3, and 4 were made"):
        FileStore(data)
    store = FileStore(data, accept_loss=True)
    assert uids(store) == ["u1", "u2", "u3"]
    store.close()


def test_a_store_of_another_folder_is_refused(data: Path, other: Path) -> None:
    """Though it has more commits."""
    remove(LOG)(data)
    shutil.copy(other / FILE, data / FILE)
    with pytest.raises(LostDataError, match="of another data folder"):
        FileStore(data)
    store = FileStore(data, accept_loss=True)
    assert len(uids(store)) == 9
    store.close()
    FileStore(data).close()


@pytest.mark.parametrize("change", [remove(FILE_NAME), spoil(FILE_NAME, -5)])
def test_the_mark_itself_may_be_lost(data: Path, change: Change) -> None:
    change(data)
    store = FileStore(data)
    assert uids(store) == ["u1", "u2", "u3"]
    store.close()
    mark = read_mark(data)
    assert mark is not None
    assert (mark.identity, mark.seq) == (store.identity, 3)
    assert (data / FILE_NAME).stat().st_mode & 0o777 == 0o600


def test_a_power_cut_may_leave_the_mark_behind(data: Path) -> None:
    """Its first line is not synced: an old one, or what is none, says nothing."""
    content = (data / FILE_NAME).read_bytes()
    (data / FILE_NAME).write_bytes(b"\0" * content.index(b"\n") + content[content.index(b"\n") :])
    store = FileStore(data)
    assert uids(store) == ["u1", "u2", "u3"]
    store.close()


def test_one_process_has_a_folder(data: Path) -> None:
    """In this process DuckDB itself says so."""
    store = FileStore(data)
    with pytest.raises(ConfigError, match="cannot open the store"):
        FileStore(data)
    store.close()


@pytest.mark.parametrize(
    "statement", ["UPDATE identity SET version = version + 1", "DROP TABLE identity"]
)
def test_a_store_of_another_version_is_refused(data: Path, statement: str) -> None:
    """With what to do."""
    FileStore(data).close()
    with duckdb.connect(str(data / FILE)) as connection:
        connection.execute(statement)
    before = content_of(data)
    for accept_loss in (False, True):
        with pytest.raises(ConfigError, match="written by another version") as refused:
            FileStore(data, accept_loss=accept_loss)
        assert "scouter collector export" in str(refused.value)
        assert len(str(refused.value).splitlines()) == 1
    assert content_of(data) == before


@pytest.mark.parametrize("few_rows", [file_store.FEW_ROWS, 0])
def test_keys_are_known_after_a_start(
    data: Path, monkeypatch: pytest.MonkeyPatch, few_rows: int
) -> None:
    """Whoever sets the bits of the filters, this process or DuckDB."""
    monkeypatch.setattr(file_store, "FEW_ROWS", few_rows)
    store = FileStore(data)
    hashes = [number for (number,) in store.read("SELECT uid_hash FROM records ORDER BY seq")]
    assert len(hashes) == 3
    assert store.maybe("records", [*hashes, *(number ^ 1 for number in hashes)]) == hashes
    store.close()


def test_columns_that_came_later_are_added(data: Path) -> None:
    """Behind all others, and empty; a table with other columns is of another version."""
    FileStore(data).close()
    with duckdb.connect(str(data / FILE)) as connection:
        connection.execute("ALTER TABLE records DROP COLUMN context")
        connection.execute("DROP TABLE begun")
    store = FileStore(data)
    assert store.read("SELECT uid, context FROM records WHERE uid = 'u2'") == [("u2", None)]
    commit(store, "u4", 40)
    store.erase(EraseTarget(space="a", record_uid="u1"))
    assert store.purge()
    assert uids(store) == ["u2", "u3", "u4"]
    store.close()
    with duckdb.connect(str(data / "store-2.duckdb")) as connection:
        connection.execute("ALTER TABLE records RENAME COLUMN uid TO other")
    with pytest.raises(ConfigError, match="another version"):
        FileStore(data)


def test_what_a_process_left_of_its_memory_is_removed(data: Path) -> None:
    """It may hold what was erased."""
    (data / "spill").mkdir()
    (data / "spill" / "duckdb_temp_block-1.block").write_bytes(b"secret")
    FileStore(data).close()
    assert not (data / "spill" / "duckdb_temp_block-1.block").exists()
