"""A disk of a few megabytes that is full, and has room again."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.storage.duckdb import database
from collector.storage.duckdb.store import DuckDBStore
from scouter.errors import TransientError
from tests.collector.conftest import Service
from tests.contracts.store_data import SPACE, record, span
from tests.support.processes import wait_until
from tests.support.small_disk import SmallDisk, small_disk

MB = 10**6
_RNG = random.Random(7)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """80 MB of it."""
    with small_disk(tmp_path / "disk", 80) as found:
        yield found


def noise(size: int) -> str:
    """A text that cannot be made shorter by much."""
    return _RNG.randbytes(size // 2).hex()


def fill_until(says_full: Callable[[], bool], send: Callable[[int], bool]) -> list[int]:
    """Send megabytes until the far side says that its disk is full; those that it took."""
    taken: list[int] = []
    for number in range(100):
        if send(number):
            taken.append(number)
        if says_full():
            return taken
    raise AssertionError("100 MB found room on a disk of 80 MB")


def take(store: DuckDBStore, uid: str) -> bool:
    try:
        rows = [record(f"{uid}-{part}", context={"t": noise(50_000)}) for part in range(20)]
        store.append_records(rows).result(120)
    except TransientError:
        return False
    return True


@pytest.mark.parametrize(
    "free", [12 * MB, 0], ids=["room-for-commits-but-no-checkpoint", "no-room-at-all"]
)
def test_what_was_taken_stays_and_room_is_noticed(disk: SmallDisk, free: int) -> None:
    """The log of 24 MB does not fit into the file, or no commit into the log; nobody sends then."""
    store = DuckDBStore(disk.folder / "data")
    for number in range(14):
        assert take(store, f"before-{number}")
    disk.leave(free)
    taken = fill_until(lambda: bool(store.fault()), lambda n: take(store, f"full-{n}"))
    assert len(taken) < 14
    assert "No space left on device" in store.fault()
    assert not store.is_broken
    kept = 20 * (14 + len(taken))
    wait_until(lambda: accepted(store) == kept, what="reading while nothing can be written")
    assert not take(store, "refused")
    with pytest.raises(TransientError, match="cannot write"):
        store.append_spans(SPACE, [span(1)], 1).result(120)
    disk.give_room()
    wait_until(lambda: store.fault() == "", what="a checkpoint")
    assert take(store, "after")
    store.append_spans(SPACE, [span(1)], 1).result(120)
    assert accepted(store) == kept + 20
    store.close()
    store = DuckDBStore(disk.folder / "data")
    assert (accepted(store), store.conservation(SPACE).spans.stored) == (kept + 20, 1)
    store.close()


def accepted(store: DuckDBStore) -> int:
    try:
        return store.conservation(SPACE).records.accepted
    except TransientError:  # the file is just opened again
        return -1


def test_a_checkpoint_beside_commits_that_fails_is_made_up_for(disk: SmallDisk) -> None:
    """Such as that of retention, whose thread does not commit; again nobody else writes."""
    store = DuckDBStore(disk.folder / "data")
    assert all(take(store, f"{number}") for number in range(10))
    disk.leave(2 * MB)
    with pytest.raises(TransientError, match="no checkpoint"):
        store.checkpoint()
    wait_until(lambda: bool(store.fault()), what="the fault")
    disk.give_room()
    wait_until(lambda: store.fault() == "", what="room")
    assert accepted(store) == 200
    store.close()


def test_a_span_log_without_room_is_a_fault_too(disk: SmallDisk) -> None:
    store = DuckDBStore(disk.folder / "data")
    disk.leave(0)
    with pytest.raises(TransientError, match="No space left"):
        store.append_spans(SPACE, [span(1, attributes={"t": noise(20_000)})], 1).result(120)
    wait_until(lambda: "No space left" in store.fault(), what="the fault")
    disk.give_room()
    wait_until(lambda: store.fault() == "", what="room")
    store.append_spans(SPACE, [span(1)], 1).result(120)
    store.close()


def test_readyz_tells_of_a_full_disk_and_of_room(
    disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason for who may read; the collector goes on, without anything being sent."""
    monkeypatch.setattr(database, "_LOG_BYTES", 4 * MB)
    service = Service(disk.folder)

    def send(number: int) -> bool:
        context = {"t": noise(MB)}
        item = {"uid": f"u{number}", "profile": "none", "context": context}
        answer = service.http.post("/v1/records", json={"records": [item]})
        assert answer.status_code in (200, 503), answer.text
        return answer.status_code == 200

    try:
        assert service.http.get("/readyz").status_code == 200
        assert send(1000)
        disk.leave(4 * MB)
        taken = fill_until(lambda: service.http.get("/readyz").status_code == 503, send)
        assert "No space left on device" in service.http.get("/readyz").json()["detail"]
        assert not send(1001)
        disk.give_room()
        wait_until(
            lambda: service.http.get("/readyz").status_code == 200,
            what="room",
        )
        assert send(1002)
        assert service.get("/api/v1/conservation")["records"]["accepted"] == len(taken) + 2
    finally:
        service.stop()
