"""A data folder: what is lost of store and log is refused, then counted; and backups of it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.care.data_folder import DataFolder, open_data
from collector.log.port import LostLogError
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.opening import LostDataError
from scouter.client.models.operation import ConservationSheet
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.files import files_with
from tests.support.worker_room import SPACE, WorkerRoom, record, span

Change = Callable[[Path], object]
PROFILES = {SPACE: [AgentEvalProfile([AssertionTask("t", "answer", 42, Op.Equals)], alias="a")]}
SECRET = "nobody may keep this sentence"


def send(room: WorkerRoom, first: int, count: int) -> None:
    """Records with a span each, every one judged; the log has a file for each call."""
    room.log.roll().result(120)
    numbers = range(first, first + count)
    room.records(*(record(f"u{n}", "a", answer=42, text=f"text {n}") for n in numbers))
    room.spans(*(span(n, 1, attributes={"text": f"text {n}"}) for n in numbers))
    room.work()


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a process leaves it that is killed.

    The log was trimmed behind ten records and spans; it has ten more, of which the store has all,
    and two that it has not.
    """
    folder, copy = (tmp_path_factory.mktemp("killed") / name for name in ("data", "copy"))
    room = WorkerRoom(folder, PROFILES)
    send(room, 0, 10)
    send(room, 10, 10)
    room.log.trim(room.store.offset)
    room.records(*(record(f"u{n}", "a", answer=42) for n in (20, 21)))
    shutil.copytree(folder, copy)
    room.close()
    return copy


@pytest.fixture
def data(killed: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(killed, tmp_path / "data"))


def remove(*patterns: str) -> Change:
    def change(folder: Path) -> None:
        for path in [each for pattern in patterns for each in folder.glob(pattern)]:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return change


def sheet_of(folder: Path, *, accept_loss: bool = False) -> ConservationSheet:
    """The sheet once a worker has read all that is left."""
    open_data(folder, accept_loss=accept_loss).close()
    room = WorkerRoom(folder, PROFILES)
    room.work()
    sheet = room.store.conservation(SPACE)
    room.close()
    return sheet


def test_nothing_is_lost_by_a_kill(data: Path) -> None:
    sheet = sheet_of(data)
    assert (sheet.records.accepted, sheet.records.evaluated, sheet.records.lost) == (22, 22, 0)
    assert (sheet.spans.accepted, sheet.spans.stored, sheet.spans.lost) == (20, 20, 0)
    assert not sheet.has_uncounted_losses


@pytest.mark.parametrize(
    ("change", "records", "spans", "is_uncounted"),
    [
        pytest.param(remove("store-*"), (22, 12, 10), (20, 10, 10), False, id="the store"),
        pytest.param(
            remove("store-*", "store.mark"), (12, 12, 0), (10, 10, 0), True,
            id="the store and its mark",
        ),
        pytest.param(remove("store-*.wal"), (22, 12, 10), (20, 10, 10), False, id="its log"),
        pytest.param(remove("log"), (20, 20, 0), (20, 20, 0), True, id="the log"),
        pytest.param(remove("store-*", "log"), (10, 0, 10), (10, 0, 10), True, id="both"),
    ],
)  # fmt: skip
def test_what_is_gone_is_refused_then_counted(
    data: Path,
    change: Change,
    records: tuple[int, int, int],
    spans: tuple[int, int, int],
    is_uncounted: bool,
) -> None:
    """Accepted, stored and lost: ten were in no file of the log any more, two not in the store.

    Nobody knows what was lost where the log is gone, or the mark.
    """
    change(data)
    left = sorted(data.rglob("*"))
    with pytest.raises((LostDataError, LostLogError)) as refused:
        open_data(data)
    assert len(str(refused.value).splitlines()) == 1
    assert "--accept-loss" in str(refused.value)
    assert sorted(data.rglob("*")) == left

    sheet = sheet_of(data, accept_loss=True)
    found = sheet.records
    assert (found.accepted, found.evaluated, found.lost) == records
    assert (sheet.spans.accepted, sheet.spans.stored, sheet.spans.lost) == spans
    assert sheet.has_uncounted_losses is is_uncounted
    assert sheet_of(data) == sheet


def test_what_expired_before_is_not_lost(data: Path) -> None:
    """Five of the ten records that the log has not were erased while there was a store."""
    opened = open_data(data)
    for n in range(5):
        opened.store.erase(EraseTarget(space=SPACE, record_uid=f"u{n}"))
    opened.store.note_totals()
    opened.close()
    remove("store-*")(data)
    sheet = sheet_of(data, accept_loss=True)
    assert (sheet.records.accepted, sheet.records.erased, sheet.records.lost) == (22, 5, 15)


def test_a_log_of_another_folder_is_refused(data: Path, tmp_path: Path) -> None:
    """Whatever is accepted: its items would be mixed with those of this one."""
    other = WorkerRoom(tmp_path / "other", PROFILES)
    send(other, 0, 3)
    other.close()
    shutil.rmtree(data / "log")
    shutil.copytree(tmp_path / "other" / "log", data / "log")
    for accept_loss in (False, True):
        with pytest.raises(ConfigError, match="of another data folder"):
            open_data(data, accept_loss=accept_loss)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    room = WorkerRoom(tmp_path / "data", PROFILES)
    yield room
    room.close()


def test_a_backup_is_one_moment_of_store_and_log(data: Path, tmp_path: Path) -> None:
    """What only the log has is in it; what comes later is not; only its owner reads it."""
    opened = open_data(data)
    opened.backup(tmp_path / "backup")
    with pytest.raises(ConfigError, match="exists"):
        opened.backup(tmp_path / "backup")
    opened.close()
    later = WorkerRoom(data, PROFILES)
    send(later, 30, 1)
    later.close()
    files = [each for each in (tmp_path / "backup").rglob("*") if each.is_file()]
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    assert not (tmp_path / "backup" / "store.mark").exists()
    sheet = sheet_of(tmp_path / "backup")
    assert (sheet.records.accepted, sheet.records.evaluated, sheet.records.lost) == (22, 22, 0)
    assert sheet.spans.stored == 20


class BusyStore(FileStore):
    """Has something done between the copy of its rows and that of the log."""

    then: Callable[[], object]

    def copy_to(self, folder: Path, at_end: Callable[[], None] = lambda: None) -> None:
        super().copy_to(folder, at_end)
        self.then()


def test_a_backup_is_made_while_commits_go_on(tmp_path: Path) -> None:
    """The log is not trimmed before it is copied."""
    room = WorkerRoom(tmp_path / "data", PROFILES, store=BusyStore)
    send(room, 0, 10)
    assert isinstance(room.store, BusyStore)
    room.store.then = lambda: [send(room, n, 1) for n in range(10, 13)]
    DataFolder(room.store, room.log).backup(tmp_path / "backup")
    room.close()
    sheet = sheet_of(tmp_path / "backup")
    assert (sheet.records.accepted, sheet.records.evaluated, sheet.spans.stored) == (13, 13, 13)


def test_a_backup_has_nothing_of_what_was_erased(room: WorkerRoom, tmp_path: Path) -> None:
    """Though files of the folder still have it; in the copy it does not come again either."""
    room.records(record("u1", "a", 0, answer=42, text=SECRET), record("u2", "a", 1, text="stays"))
    room.spans(span(0, 1, attributes={"text": SECRET}), span(1, 1))
    room.work()
    room.store.erase(EraseTarget(space=SPACE, record_uid="u1"))
    assert files_with(room.folder, SECRET.encode()) != []
    DataFolder(room.store, room.log).backup(tmp_path / "backup")
    assert files_with(tmp_path / "backup", SECRET.encode()) == []
    assert files_with(tmp_path / "backup", b"stays") != []
    copy = WorkerRoom(tmp_path / "backup", PROFILES)
    copy.records(record("u1", "a", 0, answer=42, text=SECRET))
    copy.spans(span(0, 1))
    copy.work()
    sheet = copy.store.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.duplicates, sheet.records.erased) == (2, 1, 1)
    assert sheet.spans.stored == 1
    copy.close()
