"""A disk of a few megabytes that is full, and has room again."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.store import database
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from scouter.errors import TransientError
from tests.contracts.store_data import record
from tests.support.small_disk import SmallDisk, small_disk

MB = 10**6


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    """60 MB of it, and a checkpoint every 4 MB."""
    monkeypatch.setattr(database, "CHECKPOINT_BYTES", 4 * MB)
    with small_disk(tmp_path / "disk", 60) as found:
        yield found


class Filling:
    """Commits of a megabyte; knows which were taken."""

    def __init__(self, store: FileStore) -> None:
        self.store, self.taken, self._rng = store, list[int](), random.Random(7)

    def append(self, number: int) -> None:
        """Raises TransientError if the store does not take it."""
        contexts = [{"t": self._rng.randbytes(25_000).hex()} for _ in range(20)]
        rows = [
            record(f"{number}-{part}", space="a", context=context)
            for part, context in enumerate(contexts)
        ]
        self.store.commit(Commit(offset=number + 1, low_seq=1, records=rows))
        self.taken.append(number)

    def fill(self, start: int) -> str:
        """Append until the store takes no more; says why."""
        for number in range(start, start + 60):
            try:
                self.append(number)
            except TransientError as error:
                return str(error)
        raise AssertionError("60 MB more found room on a disk of 60 MB")

    def check(self) -> None:
        """Everything that was taken is there once, and nothing else."""
        rows = self.store.read("SELECT uid FROM records")
        expected = sorted(f"{number}-{part}" for number in self.taken for part in range(20))
        assert sorted(uid for (uid,) in rows) == expected
        assert self.store.last_seq() == len(self.taken)
        assert self.store.offset == self.taken[-1] + 1


@pytest.mark.parametrize("free", [6 * MB, 0], ids=["no-room-for-a-checkpoint", "no-room-at-all"])
def test_the_store_works_again_without_a_restart(disk: SmallDisk, free: int) -> None:
    """What was refused is not there, and what was taken is, where a checkpoint failed, too."""
    store = FileStore(disk.folder / "data")
    filling = Filling(store)
    for number in range(10):
        filling.append(number)
    disk.leave(free)
    assert "No space left" in filling.fill(100)
    filling.check()
    disk.give_room()
    filling.append(200)
    filling.check()
    store.close()
    filling.store = FileStore(disk.folder / "data")
    filling.check()
    filling.store.close()


def test_a_copy_without_room_leaves_the_store_as_it_is(disk: SmallDisk) -> None:
    store = FileStore(disk.folder / "data")
    filling = Filling(store)
    for number in range(15):
        filling.append(number)
    store.erase(EraseTarget(space="a", record_uid="3-0"))
    disk.leave(10 * MB)
    with pytest.raises(TransientError, match="a copy of the store needs"):
        store.purge()
    assert len(list(disk.folder.glob("data/*.duckdb"))) == 1
    assert store.read("SELECT count(*) FROM records") == [(15 * 20 - 1,)]
    filling.append(15)
    disk.give_room()
    assert store.purge()
    assert store.read("SELECT count(*) FROM records") == [(16 * 20 - 1,)]
    store.close()
