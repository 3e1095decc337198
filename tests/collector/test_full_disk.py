"""A collector on a disk of a few megabytes that is full, and has room again."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.collector.conftest import Service
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


def test_readyz_tells_of_a_full_disk_and_of_room(disk: SmallDisk) -> None:
    """With the reason for who may read; the collector goes on, without anything being sent."""
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
        assert "Make room" in service.http.get("/readyz").json()["detail"]
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
