"""The spool: bounds, crashes, forks, damage, and what is told of losses."""

import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.config import HttpConfig
from scouter.transport.drops import NONE_DROPPED, Count, Dropped, joined
from scouter.transport.item import RecordItem
from scouter.transport.otlp.spans import OtlpSpans
from scouter.transport.spool import folder as spool_folder
from scouter.transport.spool.config import SpoolConfig
from scouter.transport.spool.folder import SpoolFolder, waiting_in
from scouter.transport.spool.segment import Frame, FrameKind, Segment
from scouter.transport.spool.spool import SpoolTransport
from scouter.transport.worker import BatchWorker, Send, WorkerLimits
from tests.contracts.transport_data import drops, make_items, make_spans, news
from tests.support.components import ROOT
from tests.support.processes import wait_until

QUICK = WorkerLimits(retry_base_s=0.01, retry_max_s=0.02)


class Far(OtlpSpans):
    """A far side in memory that a test sends away, or has refuse."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.refuse = 0
        self.records: list[RecordItem] = []
        self.spans = 0
        self.drops: list[dict[str, int]] = []
        self.reports: list[Dropped] = []
        self.tries = 0
        self.is_there = threading.Event()  # until then it takes a request and does not answer
        self.is_there.set()

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        refused = self._answer(dropped)
        self.records += items[refused:]
        return refused

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        refused = self._answer(dropped)
        self.spans += count - refused
        return refused

    def close(self) -> None:
        """Nothing is open."""

    def _answer(self, dropped: Dropped) -> int:
        self.tries += 1
        self.is_there.wait(30)
        if self.error is not None:
            raise self.error
        if dropped:
            self.drops.append(news(dropped))
            self.reports.append(dropped)
        return self.refuse


def away() -> TransientError:
    return TransientError("nobody there")


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def config(tmp_path: Path) -> SpoolConfig:
    return SpoolConfig(folder=tmp_path / "spool", max_bytes=65_536)


def record_frames(*texts: str) -> list[Frame]:
    return [Frame(kind=FrameKind.RECORD, payload=text.encode(), count=1) for text in texts]


def waits(config: SpoolConfig, count: int) -> Callable[[], bool]:
    return lambda: config.stats().waiting == count


# --- frames and files ---------------------------------------------------------------------------


def test_files_are_for_their_owner_only(config: SpoolConfig) -> None:
    folder = SpoolFolder(config.folder, config.max_bytes)
    folder.append(record_frames("{}"), {})

    found = [config.folder, *config.folder.rglob("*")]
    modes = {path.relative_to(config.folder.parent): stat.S_IMODE(path.stat().st_mode)
             for path in found}  # fmt: skip
    assert len(modes) == 5  # two folders, two locks, one file
    assert set(modes.values()) == {0o700, 0o600}
    assert all(mode == (0o700 if path.is_dir() else 0o600)
               for path, mode in zip(found, modes.values(), strict=True))  # fmt: skip


def test_a_folder_that_others_can_write_to_is_refused(config: SpoolConfig) -> None:
    config.folder.mkdir(mode=0o700)
    config.folder.chmod(0o777)

    with pytest.raises(ConfigError, match="other users can write"):
        SpoolFolder(config.folder, config.max_bytes)


@pytest.mark.parametrize("cut", range(1, 16))
def test_a_torn_last_frame_costs_only_itself(tmp_path: Path, cut: int) -> None:
    """A kill can cut the file anywhere in the frame that was being written: 13 bytes and 3."""
    segment = Segment(tmp_path / "a")
    segment.append(record_frames("one", "two"))
    segment.append(record_frames("six"))
    with segment.path.open("r+b") as file:
        file.truncate(segment.size_bytes - cut)

    left = Segment(segment.path)

    assert (left.items, [frame.payload for frame in left.frames()]) == (2, [b"one", b"two"])


@pytest.mark.parametrize(
    ("place", "byte"),
    [
        pytest.param(0, ord("?"), id="kind"),
        pytest.param(1, 4, id="size, one more"),
        pytest.param(1, 20, id="size, to the middle of a later frame"),
        pytest.param(4, 0x7F, id="size, beyond the end"),
        pytest.param(5, 2, id="count"),
        pytest.param(8, 0x7F, id="count, of billions"),
        pytest.param(9, 0, id="checksum"),
        pytest.param(15, ord("!"), id="payload"),
    ],
)
@pytest.mark.parametrize("is_done", [False, True])
def test_a_changed_byte_costs_its_frame_only(
    tmp_path: Path, place: int, byte: int, is_done: bool
) -> None:
    """In the second of four frames of 16 bytes, which may be struck out already."""
    segment = Segment(tmp_path / "a")
    segment.append(record_frames("one", "two", "six", "ten"))
    if is_done:
        segment.strike_out(list(segment.frames())[1:2])
    with segment.path.open("r+b") as file:
        file.seek(16 + place)
        file.write(bytes([byte]))

    found = list(Segment(segment.path).frames())

    whole = [frame.payload for frame in found if frame.kind is not FrameKind.DAMAGED]
    assert whole == [b"one", b"six", b"ten"]
    (damage,) = [frame for frame in found if frame.kind is FrameKind.DAMAGED]
    assert (damage.offset, damage.end) == (16, 32)
    assert damage.count in ({0, 1} if is_done else {1, 2})


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    """The limit on file sizes stands in for the disk: the write fails halfway."""
    code = """
import resource, signal, sys
from pathlib import Path
from scouter.transport.spool.segment import Frame, FrameKind, Segment
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
segment = Segment(Path(sys.argv[1]))
def put(size):
    segment.append([Frame(kind=FrameKind.RECORD, payload=b"x" * size, count=1)])
put(400)
try:
    put(800)
except OSError:
    put(300)
print([len(frame.payload) for frame in Segment(segment.path).frames()])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a")], cwd=ROOT, capture_output=True,
        text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.strip() == "[400, 300]"


# --- away and back ------------------------------------------------------------------------------


def test_what_waits_is_delivered_in_order_and_before_what_comes_later(
    config: SpoolConfig, far: Far
) -> None:
    items = make_items(30)
    transport = SpoolTransport(lambda: far, config, QUICK)
    far.error = away()
    for item in items[:20]:
        assert transport.send_records([item]) == 0
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    assert transport.send_records(items[20:]) == 0
    transport.close()

    assert far.records == items
    stats = config.stats()
    assert (stats.written, stats.delivered, stats.dropped) == (20, 20, {})


def test_it_does_not_ask_a_far_side_that_is_away_for_each_batch(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    slow = WorkerLimits(retry_base_s=60, retry_max_s=60)
    transport = SpoolTransport(lambda: far, config, slow)
    for item in make_items(50):
        transport.send_records([item])
    transport.close()

    assert far.tries <= 2  # the first batch, and the thread's first try
    assert config.stats().waiting == 50


def test_the_next_process_goes_on(config: SpoolConfig, far: Far) -> None:
    """Also with a far side that cannot even be connected to at first."""
    items = make_items(3)

    def refuse() -> Far:
        raise away()

    first = SpoolTransport(refuse, config, QUICK)
    assert first.send_records(items, drops(full=2)) == 0
    first.close()
    second = SpoolTransport(lambda: far, config, QUICK)
    wait_until(waits(config, 0), what="delivered")
    second.close()

    assert far.records == items
    assert far.drops == [{"full": 2}]


@pytest.mark.parametrize("error", [away(), ConfigError("status 401")])
def test_the_first_batch_is_kept_too(config: SpoolConfig, far: Far, error: Exception) -> None:
    """Whether the far side is away or does not know the token yet."""
    items = make_items(3)
    far.error = error
    transport = SpoolTransport(lambda: far, config, QUICK)
    assert [transport.send_records([item]) for item in items] == [0, 0, 0]
    assert config.stats().waiting == 3
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.records == items


@pytest.mark.pace
def test_a_far_side_that_hangs_holds_nobody_up(config: SpoolConfig, far: Far) -> None:
    """The batch that it was given arrives twice, as its answer came too late to be believed."""
    items = make_items(5)
    transport = SpoolTransport(lambda: far, config, QUICK, patience_s=0.4)
    far.is_there.clear()
    started_s = time.monotonic()
    assert [transport.send_records([item]) for item in items] == [0] * 5
    assert time.monotonic() - started_s < 5
    assert (config.stats().waiting, far.tries) == (5, 1)
    far.is_there.set()
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.records == [items[0], *items]


def test_a_slow_far_side_gets_a_batch_once(config: SpoolConfig, far: Far) -> None:
    """After an answer that nearly came too late, batches go to disk first; until one is quick."""
    items = make_items(3)
    now_s = 0.0

    def slow() -> Far:
        nonlocal now_s
        now_s += 20.0
        return far

    transport = SpoolTransport(slow, config, QUICK, clock=lambda: now_s, patience_s=30.0)
    assert transport.send_records(items[:1]) == 0
    assert config.stats().written == 0
    assert transport.send_records(items[1:2]) == 0
    wait_until(waits(config, 0), what="delivered")
    assert transport.send_records(items[2:]) == 0
    transport.close()

    assert far.records == items
    assert config.stats().written == 1


def test_what_has_no_room_on_disk_waits_for_the_answer(config: SpoolConfig, far: Far) -> None:
    transport = SpoolTransport(lambda: far, config, QUICK, patience_s=0.05)
    far.is_there.clear()
    threading.Timer(0.2, far.is_there.set).start()
    assert transport.send_spans(make_spans(3, "x" * 40_000)) == 0
    assert transport.send_spans(make_spans(3, "x" * 40_000)) == 0  # now that it is known as slow
    transport.close()

    assert (far.spans, config.stats().written) == (6, 0)


def test_without_a_thread_it_sends_by_itself(
    config: SpoolConfig, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the system has no thread to give; what was kept meanwhile needs one."""
    items = make_items(3)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        transport = SpoolTransport(lambda: far, config, QUICK)
        assert transport.send_records(items[:1]) == 0
        assert far.records == items[:1]
        far.error = away()
        assert transport.send_records(items[1:2]) == 0
        far.error = None
    assert transport.send_records(items[2:]) == 0
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.records == items


def test_closing_while_the_far_side_hangs_keeps_all(config: SpoolConfig) -> None:
    """Two batches, at an address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        far = HttpConfig(server_uri=f"http://127.0.0.1:{server.getsockname()[1]}")

        def open_send() -> tuple[Send[RecordItem], Callable[[], None]]:
            transport = SpoolTransport(far.connect, config, patience_s=0.1)
            return transport.send_records, transport.close

        worker = BatchWorker("records", open_send, WorkerLimits(delay_s=60, max_batch_items=10))
        for item in make_items(15):
            worker.put(item, 100)
        assert worker.close(2.0)

    assert (worker.stats.sent, config.stats().waiting) == (15, 15)


def test_what_the_far_side_refuses_for_good_is_counted_and_told(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    transport = SpoolTransport(lambda: far, config, QUICK)
    transport.send_spans(make_spans(5))
    far.error = DataError("too strange")
    wait_until(waits(config, 0), what="given up")
    far.error = away()
    transport.send_records(make_items(4), drops(full=1))
    far.error, far.refuse = None, 1
    wait_until(waits(config, 0), what="delivered")
    far.refuse = 0
    transport.send_records(make_items(1))
    transport.close()

    assert config.stats().dropped == {"permanent": 5, "rejected": 1}
    assert far.drops == [{"full": 1, "permanent": 5}, {"rejected": 1}]


# --- bounds -------------------------------------------------------------------------------------


def test_a_bug_behind_the_spool_does_not_end_its_thread(config: SpoolConfig, far: Far) -> None:
    """The first batch meets it and is counted; the one that is written after it arrives."""
    far.error = away()
    transport = SpoolTransport(lambda: far, config, QUICK)
    transport.send_records(make_items(3))
    far.error = ValueError("a bug")
    wait_until(waits(config, 0), what="the first batch is given up")
    far.error = away()
    transport.send_records(make_items(2))
    far.error = None
    wait_until(waits(config, 0), what="the second batch is delivered")

    assert (len(far.records), config.stats().dropped) == (2, {"internal": 3})
    assert {"internal": 3} in far.drops
    transport.close()


def test_what_could_not_be_read_is_read_again(
    config: SpoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails behind the first of two frames, once."""
    folder = SpoolFolder(config.folder, config.max_bytes)
    folder.append(record_frames("one", "two"), {})
    whole = Segment.frames

    def failing(self: Segment, offset: int = 0) -> Iterator[Frame]:
        yield next(whole(self, offset))
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "frames", failing)
        with pytest.raises(TransientError):
            folder.oldest()
    backlog = folder.oldest()
    assert backlog is not None
    assert [frame.payload for frame in backlog.frames] == [b"one", b"two"]
    assert folder.settle(backlog) == 0
    folder.close()


def test_the_oldest_make_room_and_are_counted(config: SpoolConfig, far: Far) -> None:
    """300 records of about 1.2 kB into 64 KiB: every one is delivered or counted, the last are."""
    items = make_items(300, {"text": "x" * 1000})
    far.error = away()
    transport = SpoolTransport(lambda: far, config, WorkerLimits(retry_base_s=0.3))
    for item in items:
        assert transport.send_records([item]) == 0
        size = sum(path.stat().st_size for path in config.folder.rglob("*.seg"))
        assert size <= config.max_bytes
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    dropped = config.stats().dropped["spool_full"]
    assert len(far.records) == 300 - dropped
    assert len(far.records) > 40  # of the 54 that would fit without files of a sixteenth each
    assert far.records[-30:] == items[-30:]
    assert news(joined(*far.reports)) == {"spool_full": dropped}


def test_what_is_larger_than_the_spool_is_refused(config: SpoolConfig, far: Far) -> None:
    far.error = away()
    transport = SpoolTransport(lambda: far, config, QUICK)
    large = make_items(1, {"text": "x" * 70_000})

    assert transport.send_records([*make_items(2), *large]) == 1
    assert config.stats().waiting == 2
    transport.close()


def test_drops_of_dropped_files_are_still_told(config: SpoolConfig) -> None:
    folder = SpoolFolder(config.folder, config.max_bytes)
    lost = folder.append(record_frames("first"), drops(full=7))
    for _ in range(40):
        lost += folder.append(record_frames("x" * 4000), {})

    reports: list[Dropped] = []
    while (backlog := folder.oldest()) is not None:
        reports.append(backlog.dropped)
        folder.settle(backlog)
    assert lost > 1
    assert news(joined(*reports)) == {"full": 7, "spool_full": lost}


def test_a_file_that_another_writer_delivers_meanwhile_takes_no_room(
    config: SpoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spans and records share a folder, so that this happens in every busy process."""
    folder = SpoolFolder(config.folder, 10_000)
    there = spool_folder._files  # pyright: ignore[reportPrivateUsage]

    def seen(writer: Path) -> list[Path]:
        return [*there(writer), writer / "gone.seg"]

    monkeypatch.setattr(spool_folder, "_files", seen)
    assert folder.append(record_frames("x" * 100), {}) == 0
    folder.close()


def test_a_file_may_grow_while_it_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer goes on behind the end that was seen."""
    segment = Segment(tmp_path / "a.seg")
    segment.append(record_frames("first"))
    stat_of = Path.stat

    def stat_and_grow(path: Path) -> os.stat_result:
        found = stat_of(path)
        monkeypatch.undo()
        segment.append(record_frames("second"))
        return found

    def is_there(_: Path) -> bool:
        return True  # without a look at its size

    monkeypatch.setattr(Path, "exists", is_there)
    monkeypatch.setattr(Path, "stat", stat_and_grow)
    assert Segment(segment.path).items == 1
    assert Segment(segment.path).items == 2


def test_the_bound_holds_for_all_writers_together(config: SpoolConfig) -> None:
    """Two writers that fill the folder in turn: each gives way with what it has."""
    folders = [SpoolFolder(config.folder, config.max_bytes) for _ in range(2)]
    for _ in range(60):
        for folder in folders:
            folder.append(record_frames("x" * 2000), {})
        assert waiting_in(config.folder)[1] <= config.max_bytes


@pytest.mark.parametrize("damaged", range(3))
@pytest.mark.parametrize(
    ("place", "bytes_"),
    [
        pytest.param(0, b"?", id="kind"),
        pytest.param(20, b"\xff", id="payload"),
        pytest.param(0, bytes(40), id="zeros"),
        pytest.param(1, b"\xff\xff\xff\x7f", id="size"),
    ],
)
def test_a_damaged_file_costs_what_is_damaged_and_says_so(
    config: SpoolConfig, far: Far, damaged: int, place: int, bytes_: bytes
) -> None:
    """In the first, second and third of three records."""
    folder = SpoolFolder(config.folder, config.max_bytes)
    items = make_items(3)
    frames = record_frames(*(json.dumps(item.to_wire()) for item in items))
    folder.append(frames, {})
    folder.close()
    (path,) = config.folder.rglob("*.seg")
    data = bytearray(path.read_bytes())
    begin = sum(frame.size_bytes for frame in frames[:damaged]) + place
    data[begin : begin + len(bytes_)] = bytes_
    path.write_bytes(data)

    transport = SpoolTransport(lambda: far, config, QUICK)
    wait_until(waits(config, 0), what="delivered")
    transport.send_records(make_items(1))
    transport.close()

    whole = [item.uid for item in items[:damaged] + items[damaged + 1 :]]
    assert [item.uid for item in far.records[:2]] == whole
    looks_cut_short = damaged == 2 and place == 1  # as a crash leaves it, before it is written
    lost = {} if looks_cut_short else {"spool_corrupt": 1}
    assert config.stats().dropped == lost
    assert far.drops == ([lost] if lost else [])


@pytest.mark.parametrize("size", [0, -1, 1000])
def test_a_bound_that_cannot_work_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValidationError, match="max_bytes"):
        SpoolConfig(folder=tmp_path, max_bytes=size)


# --- what is told of drops ----------------------------------------------------------------------


def test_a_report_that_hangs_is_told_again_as_the_same(config: SpoolConfig, far: Far) -> None:
    """The answer takes longer than the spool waits, and the batch goes to disk with its report."""
    far.is_there.clear()
    transport = SpoolTransport(lambda: far, config, QUICK, patience_s=0.05)
    assert transport.send_records(make_items(1), drops(full=3)) == 0
    assert transport.send_records(make_items(1), {("s1", "full"): Count(3, 4)}) == 0
    far.is_there.set()
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.reports[0] == {("s1", "full"): Count(0, 3)}
    assert joined(*far.reports) == {("s1", "full"): Count(0, 4)}


def test_drops_that_come_with_what_no_spool_holds_are_told_later(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    transport = SpoolTransport(lambda: far, config, QUICK)
    large = make_items(1, {"text": "x" * 70_000})
    assert transport.send_records(large, drops(full=3)) == 1
    far.error = None
    assert transport.send_records(make_items(1)) == 0
    wait_until(lambda: bool(far.records), what="the next batch")
    transport.close()

    assert far.reports == [drops(full=3)]


def test_what_an_earlier_version_left_is_told(config: SpoolConfig, far: Far) -> None:
    """Its reports have no sender: each gets one of its own, the same at every try."""
    folder = SpoolFolder(config.folder, config.max_bytes)
    (record,) = record_frames(json.dumps(make_items(1)[0].to_wire()))
    old = Frame(kind=FrameKind.DROPPED, payload=b'{"full":2,"closed":1}', count=0)
    folder.append([old, record, old], {})
    first, again = folder.oldest(), None
    folder.close()
    assert first is not None
    folder = SpoolFolder(config.folder, config.max_bytes)
    again = folder.oldest()
    folder.close()
    assert again is not None
    assert first.dropped == again.dropped
    assert news(first.dropped) == {"full": 4, "closed": 2}


# --- several processes --------------------------------------------------------------------------

_WRITER = """
import os, sys, threading
from pathlib import Path
from scouter.transport.spool.folder import SpoolFolder
from scouter.transport.spool.segment import Frame, FrameKind
folder = SpoolFolder(Path(sys.argv[1]), 2**30)
number = 0
while True:
    payload = f"{os.getpid()} {number} ".encode() + b"x" * (number * 37 % 5000)
    folder.append([Frame(kind=FrameKind.RECORD, payload=payload, count=1)], {})
    number += 1
    os.write(1, b"%d\\n" % number)  # written: nothing may lose it now
"""


def test_kill_9_loses_nothing_that_was_written(tmp_path: Path) -> None:
    """Four writers at once, each killed in the middle of its work; one heir finds it all."""
    spool = tmp_path / "spool"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(spool)], cwd=ROOT, stdout=subprocess.PIPE
        )
        for _ in range(4)
    ]
    written: dict[int, int] = {}
    for writer in writers:
        assert writer.stdout is not None
        for _ in range(200):
            writer.stdout.readline()
        writer.send_signal(signal.SIGKILL)
        told = writer.stdout.read().split()
        written[writer.pid] = int(told[-1]) if told else 200
        writer.stdout.close()
        writer.wait()

    heir = SpoolFolder(spool, 2**30)
    found: dict[int, list[int]] = {}
    while (backlog := heir.oldest()) is not None:
        for frame in backlog.frames:
            pid, number, text = frame.payload.split(b" ")
            assert len(text) == int(number) * 37 % 5000
            found.setdefault(int(pid), []).append(int(number))
        assert heir.settle(backlog) == 0

    for pid, count in written.items():
        assert sorted(found[pid])[:count] == list(range(count))
        assert len(found[pid]) <= count + 1  # one that was written and not yet told
    assert [path.name for path in spool.iterdir() if path.is_dir()] == [heir.own.name]


def test_what_others_keep_in_the_folder_stays(config: SpoolConfig, far: Far) -> None:
    """Foreign files and folders, empty ones too, also inside of a dead writer's folder."""
    writer = "123-0123456789ab"
    segment = f"{1:020}-01234567.seg"
    foreign = [
        "customers.db", "film.seg", "models/weights.bin", "models/lock", "models/old/" + segment,
        "2024-11-24/film.seg", "123-0123456789abc/" + segment, f"{writer}/notes.txt",
        f"{writer}/film.seg", f"{writer}/cache/{segment}",
    ]  # fmt: skip
    for name in foreign:
        path = config.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (config.folder / "models" / "empty").mkdir()
    (config.folder / "456-0123456789ab").symlink_to(config.folder / "models" / "old")
    config.folder.chmod(0o700)
    item = make_items(1)[0]
    frames = record_frames(json.dumps(item.to_wire()))
    Segment(config.folder / writer / segment).append(frames)
    before = set(config.folder.rglob("*"))

    transport = SpoolTransport(lambda: far, config, QUICK)
    wait_until(lambda: len(far.records) == 1, what="what a dead writer left is delivered")
    transport.close()
    wait_until(
        lambda: len(list(config.folder.iterdir())) == 8, what="the spool has cleared its own away"
    )

    after = set(config.folder.rglob("*"))
    assert before - after == {config.folder / writer / segment}
    assert after - before == {config.folder / "lock"}
    for name in foreign:
        assert (config.folder / name).read_text() == name


def test_a_live_writers_folder_is_not_taken(config: SpoolConfig) -> None:
    first = SpoolFolder(config.folder, config.max_bytes)
    first.append(record_frames("mine"), {})
    second = SpoolFolder(config.folder, config.max_bytes)

    assert second.is_empty
    first.close()
    assert second.adopt() == 1
    assert not second.is_empty


def test_a_forked_child_neither_takes_nor_holds_its_parents_folder(config: SpoolConfig) -> None:
    """The child may live on: the parent's folder is free as soon as the parent lets it go."""
    parent = SpoolFolder(config.folder, config.max_bytes)
    parent.append(record_frames("parent"), {})
    down, up = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child = SpoolFolder(config.folder, config.max_bytes)
            child.append(record_frames("child"), {})
            os.write(up[1], b"+" if waiting_in(child.own)[0] == 0 and not child.adopt() else b"-")
            os.read(down[0], 1)
        finally:
            os._exit(0)
    assert os.read(up[0], 1) == b"+"
    parent.close()
    heir = SpoolFolder(config.folder, config.max_bytes)
    backlog = heir.oldest()
    os.write(down[1], b".")
    os.waitpid(pid, 0)
    for end in (*down, *up):
        os.close(end)

    assert backlog is not None
    assert [frame.payload for frame in backlog.frames] == [b"parent"]
    assert heir.adopt() == 1


def test_a_fork_during_adoption_takes_no_lock_along(
    config: SpoolConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child lives on, with no copy of a lock's file, so that not even a kill leaves one."""
    dead = SpoolFolder(config.folder, config.max_bytes)
    dead.append(record_frames("left"), {})
    dead.close()
    down, up = os.pipe(), os.pipe()
    children: list[int] = []

    def forking(path: Path) -> Segment:
        locks = {lock.stat().st_ino for lock in config.folder.rglob("lock")}
        children.append(os.fork())
        if children[-1] == 0:
            try:
                held = [file for file in range(3, 256) if inode(file) in locks]
                os.write(up[1], b"%d" % len(held))
                os.read(down[0], 1)
            finally:
                os._exit(0)
        return Segment(path)

    monkeypatch.setattr("scouter.transport.spool.folder.Segment", forking)
    heir = SpoolFolder(config.folder, config.max_bytes)
    held = os.read(up[0], 3)
    free: list[Path] = []
    for lock in config.folder.rglob("lock"):
        with lock.open() as file, contextlib.suppress(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(lock)
    os.write(down[1], b".")
    for pid in children:
        os.waitpid(pid, 0)
    for end in (*down, *up):
        os.close(end)

    assert len(children) == 1
    assert held == b"0"
    assert free == [config.folder / "lock"]
    heir.close()


def inode(file: int) -> int | None:
    try:
        return os.fstat(file).st_ino
    except OSError:
        return None


def test_writing_and_delivering_at_once_loses_nothing(config: SpoolConfig, far: Far) -> None:
    """The far side comes and goes while batches keep coming."""
    config = config.model_copy(update={"max_bytes": 2**24})
    items = make_items(2000)
    transport = SpoolTransport(lambda: far, config, WorkerLimits(retry_base_s=0.001))
    done = threading.Event()

    def flicker() -> None:
        while not done.wait(0.003):
            far.error = away() if far.error is None else None

    thread = threading.Thread(target=flicker)
    thread.start()
    for item in items:
        assert transport.send_records([item]) == 0
    done.set()
    thread.join()
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.records == items
    assert config.stats().dropped == {}
