"""The log of one data folder: whose it is, what is in it, and a copy of it."""

from pathlib import Path

import pytest

from collector.log.file_log import FileLog
from collector.log.offline import check_log, copy_log, log_identity
from collector.log.segment import FRAME_BYTES, SEGMENT_HEADER_BYTES
from scouter.errors import ConfigError
from tests.contracts.log import append, entries, item, numbers

SIZE = FRAME_BYTES + len("default") + 50


def fill(folder: Path, count: int, identity: int = 7) -> list[int]:
    """A closed log in segments of ten items; the offset behind each item."""
    log = FileLog(folder, identity=identity, segment_bytes=10 * SIZE)
    offsets = [append(log, [item(number)])[0] for number in range(count)]
    log.close()
    return offsets


def test_a_log_knows_its_data_folder(tmp_path: Path) -> None:
    """No other folder's log is read in its place, whether or not a loss is accepted."""
    assert log_identity(tmp_path / "log") is None
    fill(tmp_path / "log", 25)
    assert log_identity(tmp_path / "log") == 7
    for accept_loss in (False, True):
        with pytest.raises(ConfigError, match="of another data folder"):
            FileLog(tmp_path / "log", identity=8, accept_loss=accept_loss)
    log = FileLog(tmp_path / "log", identity=7)
    assert numbers(log) == list(range(25))
    log.close()


def test_a_copy_has_what_is_behind_an_offset(tmp_path: Path) -> None:
    """At the same places, and nothing of what is before; the copy goes on by itself."""
    offsets = fill(tmp_path / "log", 25)
    log = FileLog(tmp_path / "log", identity=7)
    for name, start, expected in (("some", offsets[11], 13), ("none", offsets[-1], 0)):
        with log.pinned():
            copy_log(log, start, tmp_path / name, 7)
        copy = FileLog(tmp_path / name, start, identity=7)
        assert entries(copy, start) == entries(log, start)
        assert len(entries(copy, start)) == expected
        assert (copy.begin, copy.end, copy.lost) == (start, offsets[-1], None)
        append(copy, [item(99)])
        copy.close()
        content = b"".join(each.read_bytes() for each in (tmp_path / name).iterdir())
        assert item(11).body not in content
        assert {each.stat().st_mode & 0o777 for each in (tmp_path / name).iterdir()} == {0o600}
    log.close()


def test_nothing_is_trimmed_while_a_copy_is_made(tmp_path: Path) -> None:
    """And somebody is called before anything is."""
    calls = list[int]()
    fill(tmp_path / "log", 25)
    log = FileLog(tmp_path / "log", identity=7, before_trim=calls.append)
    with log.pinned():
        log.trim(log.end)
        assert (log.begin, calls) == (0, [])
    log.trim(5 * SIZE)
    assert calls == []
    log.trim(log.end)
    assert (log.begin, calls) == (20 * SIZE, [20 * SIZE])
    log.close()


def test_every_sync_is_measured(tmp_path: Path) -> None:
    syncs = list[float]()
    log = FileLog(tmp_path / "log", on_sync=syncs.append)
    del syncs[:]
    append(log, [item(1)])
    assert len(syncs) == 1
    assert syncs[0] >= 0
    log.close()


def test_a_check_tells_damage_from_a_torn_end(tmp_path: Path) -> None:
    """Three files of ten, ten and five items; a byte of the fourth, then half an item behind."""
    fill(tmp_path / "log", 25)
    found = list(check_log(tmp_path / "log"))
    assert [(each.items, each.damaged_bytes, each.torn_bytes) for each in found] == [
        (10, 0, 0), (10, 0, 0), (5, 0, 0),
    ]  # fmt: skip
    assert [(each.start, each.end) for each in found] == [
        (0, 10 * SIZE), (10 * SIZE, 20 * SIZE), (20 * SIZE, 25 * SIZE),
    ]  # fmt: skip
    first, _, last = (each.path for each in found)
    content = bytearray(first.read_bytes())
    content[SEGMENT_HEADER_BYTES + 4 * SIZE - 1] ^= 1
    first.write_bytes(content)
    last.write_bytes(last.read_bytes() + last.read_bytes()[SEGMENT_HEADER_BYTES:][:70])
    first_found, _, last_found = check_log(tmp_path / "log")
    assert (first_found.items, first_found.damaged_bytes, first_found.identity) == (9, SIZE, 7)
    assert (last_found.items, last_found.damaged_bytes, last_found.end) == (5, 70, 25 * SIZE + 70)
    whole = last.read_bytes()[: SEGMENT_HEADER_BYTES + 5 * SIZE]
    last.write_bytes(whole[:-5])
    *_, last_found = check_log(tmp_path / "log")
    assert (last_found.items, last_found.damaged_bytes, last_found.torn_bytes) == (4, 0, SIZE - 5)
