"""The spool: bounds, crashes, forks, damage, and what is reported of losses."""

import contextlib
import os
import resource
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.config import HttpConfig, SpoolConfig
from scouter.transport.drops import NONE_DROPPED, Count, Dropped, joined
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import RecordItem, RemoteTransport, encode_record
from scouter.transport.spool import SpoolTransport
from scouter.transport.spool_table import Batch, Kind, Row, SpoolTable
from scouter.transport.worker import BatchWorker, Send, WorkerLimits
from tests.contracts.transport_data import drops, make_items, make_spans, news
from tests.support.components import ROOT
from tests.support.processes import wait_until

FILE_NAME = "spool-1.sqlite"
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
        self.is_there.wait(120)
        if self.error is not None:
            raise self.error
        if dropped:
            self.drops.append(news(dropped))
            self.reports.append(dropped)
        return self.refuse


def away() -> TransientError:
    return TransientError("nobody there")


def spooled(
    connect: Callable[[], RemoteTransport],
    config: SpoolConfig,
    limits: WorkerLimits = QUICK,
    *,
    clock: Callable[[], float] = time.monotonic,
    patience_s: float = 2.0,
) -> SpoolTransport:
    return SpoolTransport(
        connect, config.folder, config.max_bytes, limits, clock=clock, patience_s=patience_s
    )


@pytest.fixture
def far() -> Far:
    return Far()


@pytest.fixture
def config(tmp_path: Path) -> SpoolConfig:
    return SpoolConfig(folder=tmp_path / "spool", max_bytes=65_536)


def encoded(item: RecordItem) -> str:
    return (encode_record(item) or b"").decode()


def rows_of(*texts: str) -> list[Row]:
    return [Row(Kind.RECORD, 1, text.encode()) for text in texts]


def taken_from(table: SpoolTable) -> list[Batch]:
    """All that waits, as it would be delivered."""
    assert table.lead()
    found: list[Batch] = []
    while (batch := table.oldest()) is not None:
        found.append(batch)
        table.settle(batch, NONE_DROPPED, {})
    return found


def payloads(batches: Sequence[Batch]) -> list[bytes]:
    return [row.payload for batch in batches for row in batch.rows]


@pytest.fixture
def table(config: SpoolConfig) -> Iterator[SpoolTable]:
    made = SpoolTable(config.folder, config.max_bytes)
    yield made
    made.close()


def waits(config: SpoolConfig, count: int) -> Callable[[], bool]:
    def check() -> bool:
        with contextlib.suppress(TransientError):  # a damaged file that nobody has mended yet
            return config.stats().waiting == count
        return False

    return check


# --- the file -----------------------------------------------------------------------------------


def test_files_are_for_their_owner_only(config: SpoolConfig, table: SpoolTable) -> None:
    table.append(rows_of("{}"), {})
    assert table.lead()

    found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in config.folder.iterdir()}
    assert found == dict.fromkeys([FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"], 0o600)
    assert stat.S_IMODE(config.folder.stat().st_mode) == 0o700


def test_a_folder_that_others_can_write_to_is_refused(config: SpoolConfig) -> None:
    config.folder.mkdir(mode=0o700)
    config.folder.chmod(0o777)

    with pytest.raises(ConfigError, match="other users can write"):
        SpoolTable(config.folder, config.max_bytes)


def test_another_programs_file_is_refused_and_stays(config: SpoolConfig, far: Far) -> None:
    config.folder.mkdir(mode=0o700)
    with contextlib.closing(sqlite3.connect(config.folder / FILE_NAME)) as db:
        db.execute("CREATE TABLE customers (name TEXT)")
    before = (config.folder / FILE_NAME).read_bytes()

    with pytest.raises(ConfigError, match="another program's"):
        spooled(lambda: far, config)
    assert (config.folder / FILE_NAME).read_bytes() == before


def test_a_full_disk_leaves_what_was_there(config: SpoolConfig) -> None:
    """The limit on file sizes stands in for the disk: the write fails halfway."""
    code = """
import resource, signal, sys
from pathlib import Path
from scouter.errors import TransientError
from scouter.transport.spool_table import Kind, Row, SpoolTable
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
table = SpoolTable(Path(sys.argv[1]), 2**30)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
def put(size):
    table.append([Row(Kind.RECORD, 1, b"x" * size)], {})
put(20_000)
try:
    put(400_000)
except TransientError:
    put(30_000)
table.lead()
print([len(row.payload) for row in table.oldest().rows])
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(config.folder)], cwd=ROOT, capture_output=True,
        text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "[20000, 30000]"


def test_the_room_of_what_was_delivered_is_given_back(config: SpoolConfig) -> None:
    table = SpoolTable(config.folder, 2**24)
    for _ in range(10):
        table.append(rows_of(*["x" * 10_000] * 100), {})
    assert (config.folder / FILE_NAME).stat().st_size > 5_000_000
    taken_from(table)

    assert (config.folder / FILE_NAME).stat().st_size < 100_000
    table.close()


# --- away and back ------------------------------------------------------------------------------


def test_what_waits_is_delivered_in_order_and_before_what_comes_later(
    config: SpoolConfig, far: Far
) -> None:
    items = make_items(30)
    transport = spooled(lambda: far, config)
    far.error = away()
    for item in items[:20]:
        assert transport.send_records([item]) == 0
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    assert transport.send_records(items[20:]) == 0
    transport.close()

    assert far.records == items
    # The last ten pass the file, or go by it where its thread had just emptied it.
    stats = config.stats()
    assert (stats.delivered, stats.dropped) == (stats.written, {})
    assert stats.written in (20, 30)


def test_it_does_not_ask_a_far_side_that_is_away_for_each_batch(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    slow = WorkerLimits(retry_base_s=60, retry_max_s=60)
    transport = spooled(lambda: far, config, slow)
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

    first = spooled(refuse, config)
    assert first.send_records(items, drops(full=2)) == 0
    first.close()
    second = spooled(lambda: far, config)
    wait_until(waits(config, 0), what="delivered")
    second.close()

    assert far.records == items
    assert far.drops == [{"full": 2}]


@pytest.mark.parametrize("error", [away(), ConfigError("status 401")])
def test_the_first_batch_is_stored_too(config: SpoolConfig, far: Far, error: Exception) -> None:
    """A far side that is away, and one that does not know the token yet."""
    items = make_items(3)
    far.error = error
    transport = spooled(lambda: far, config)
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
    transport = spooled(lambda: far, config, patience_s=0.4)
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

    transport = spooled(slow, config, clock=lambda: now_s, patience_s=30.0)
    assert transport.send_records(items[:1]) == 0
    assert config.stats().written == 0
    assert transport.send_records(items[1:2]) == 0
    assert config.stats().written == 1

    def goes_past_the_disk() -> bool:
        before = config.stats().written
        assert transport.send_records(items[2:]) == 0
        return config.stats().written == before

    wait_until(goes_past_the_disk, what="what was on disk is delivered")
    transport.close()

    assert far.records[:2] == items[:2]
    assert all(each == items[2] for each in far.records[2:])


def test_what_has_no_room_on_disk_waits_for_the_answer(config: SpoolConfig, far: Far) -> None:
    transport = spooled(lambda: far, config, patience_s=0.05)
    far.is_there.clear()
    threading.Timer(0.2, far.is_there.set).start()
    assert transport.send_spans(make_spans(3, "x" * 40_000)) == 0
    assert transport.send_spans(make_spans(3, "x" * 40_000)) == 0  # now that it is known as slow
    transport.close()

    assert (far.spans, config.stats().written) == (6, 0)


def test_without_a_thread_it_sends_by_itself(
    config: SpoolConfig, far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the system has no thread to give; what was stored meanwhile needs one."""
    items = make_items(3)

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        transport = spooled(lambda: far, config)
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
            transport = spooled(far.connect, config, patience_s=0.1)
            return transport.send_records, transport.close

        worker = BatchWorker("records", open_send, WorkerLimits(delay_s=60, max_batch_items=10))
        for item in make_items(15):
            worker.put(item, 100)
        assert worker.close(2.0)

    assert (worker.stats.sent, config.stats().waiting) == (15, 15)


def test_what_the_far_side_refuses_for_good_is_counted_and_reported(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    transport = spooled(lambda: far, config)
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
    transport = spooled(lambda: far, config)
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


def test_a_disk_that_fails_holds_nothing_up(config: SpoolConfig, far: Far) -> None:
    """While the far side is there, batches arrive; what has to wait is given back meanwhile."""
    items = make_items(3)
    transport = spooled(lambda: far, config)
    for path in config.folder.iterdir():
        path.unlink()
    (config.folder / FILE_NAME).mkdir()
    assert transport.send_records(items[:1], drops(full=2)) == 0
    far.error = away()
    with pytest.raises(TransientError, match="Is a directory"):
        transport.send_records(items[1:2])
    (config.folder / FILE_NAME).rmdir()
    assert transport.send_records(items[1:2]) == 0
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    assert transport.send_records(items[2:]) == 0
    transport.close()

    assert far.records == items


def test_a_disk_that_fails_lets_what_is_new_pass_what_waits(config: SpoolConfig, far: Far) -> None:
    """Once the far side is back, also while the disk still fails."""
    items = make_items(3)
    transport = spooled(lambda: far, config)
    far.error = away()
    assert transport.send_records(items[:1]) == 0  # waits on disk
    for path in config.folder.iterdir():
        path.unlink()
    (config.folder / FILE_NAME).mkdir()
    with pytest.raises(TransientError, match="Is a directory"):
        transport.send_records(items[1:2])
    far.error = None
    assert transport.send_records(items[1:2]) == 0
    assert far.records == items[1:2]
    transport.close()


@contextlib.contextmanager
def no_file_grows(beyond: Path) -> Generator[None]:
    """As on a full disk: what a file has may be written again, but not a byte more."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond.stat().st_size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


def test_a_full_disk_does_not_hold_up_what_waits_there(tmp_path: Path, far: Far) -> None:
    """It is delivered once, in order, and removed when there is room again."""
    config = SpoolConfig(folder=tmp_path / "spool")
    items = make_items(2_000)
    transport = spooled(lambda: far, config)
    far.error = away()
    for at in range(0, 2_000, 500):
        assert transport.send_records(items[at : at + 500]) == 0
    with no_file_grows(config.folder / f"{FILE_NAME}-wal"):
        with pytest.raises(TransientError, match="disk"):
            transport.send_records(make_items(10_000))
        far.error = None
        wait_until(lambda: len(far.records) >= len(items), what="what waited was delivered")
        assert config.stats().waiting == len(items)
        direct = make_items(21)
        for item in direct[:20]:  # each goes at once, as it would without a spool
            assert transport.send_records([item]) == 0
        far.error = away()
        with pytest.raises(TransientError, match="disk"):
            transport.send_records(make_items(1))
        far.error = None
        assert transport.send_records(direct[20:]) == 0
    more = make_items(10)
    assert transport.send_records(more) == 0
    wait_until(lambda: config.stats().waiting == 0, what="the spool is empty")
    assert far.records == items + direct + more
    transport.close()


def test_refusals_on_a_full_disk_are_reported_later(tmp_path: Path, far: Far) -> None:
    """Three are refused while the report has no room, one later: the far side hears of four."""
    table = SpoolTable(tmp_path / "spool", 2**20)
    table.append([Row(Kind.RECORD, 1, b"{}")] * 4, NONE_DROPPED)
    first = table.oldest()
    assert first is not None
    three = first._replace(rows=first.rows[:3], last=3)
    with no_file_grows(tmp_path / "spool" / f"{FILE_NAME}-wal"):
        table.settle(three, NONE_DROPPED, {"rejected": 3})
    second = table.oldest()
    assert second is not None
    table.settle(second, NONE_DROPPED, {"rejected": 1})
    (count,) = table.look()[1].values()
    assert count == Count(0, 4)
    assert table.oldest() is None
    table.close()


def test_a_folder_that_was_removed_is_made_anew(config: SpoolConfig, far: Far) -> None:
    items = make_items(2)
    far.error = away()
    transport = spooled(lambda: far, config)
    assert transport.send_records(items[:1]) == 0
    config.folder.rename(config.folder.with_name("removed"))  # at once, whoever writes into it
    wait_until(lambda: transport.send_records(items[1:]) == 0, what="there is a folder again")
    far.error = None
    wait_until(lambda: items[1] in far.records, what="delivered")
    transport.close()


def test_the_oldest_make_room_and_are_counted(config: SpoolConfig, far: Far) -> None:
    """300 records of about 1.2 kB into 64 KiB: every one is delivered or counted, the last are."""
    items = make_items(300, {"text": "x" * 1000})
    far.error = away()
    transport = spooled(lambda: far, config, WorkerLimits(retry_base_s=0.3))
    for item in items:
        assert transport.send_records([item]) == 0
        assert (config.folder / FILE_NAME).stat().st_size <= config.max_bytes + 8 * 4096
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    dropped = config.stats().dropped["spool_full"]
    assert len(far.records) == 300 - dropped
    assert len(far.records) > 40  # of the 54 that would fit without the pages' own room
    assert far.records[-30:] == items[-30:]
    assert news(joined(*far.reports)) == {"spool_full": dropped}


def test_what_is_larger_than_the_spool_is_refused(config: SpoolConfig, far: Far) -> None:
    far.error = away()
    transport = spooled(lambda: far, config)
    large = make_items(1, {"text": "x" * 70_000})

    assert transport.send_records([*make_items(2), *large]) == 1
    assert config.stats().waiting == 2
    transport.close()


def test_drops_that_came_with_dropped_rows_are_still_reported(table: SpoolTable) -> None:
    table.append(rows_of("first"), drops(full=7))
    for _ in range(40):
        table.append(rows_of("x" * 4000), {})

    lost = 41 - len(payloads(taken_from(table)))
    assert lost > 1
    assert news(table.look()[1]) == {"full": 7, "spool_full": lost}


def test_what_is_on_its_way_is_not_dropped(config: SpoolConfig, table: SpoolTable) -> None:
    """Or else it would arrive and be counted as lost; neither by another writer."""
    other = SpoolTable(config.folder, config.max_bytes)
    table.append(rows_of("first"), {})
    assert table.lead()
    batch = table.oldest()
    for _ in range(40):
        other.append(rows_of("x" * 4000), {})
    assert batch is not None
    assert payloads([batch]) == [b"first"]
    table.settle(batch, NONE_DROPPED, {})
    left = len(payloads(taken_from(table)))
    assert news(table.look()[1]) == {"spool_full": 40 - left}
    other.close()


def test_the_bound_holds_for_all_writers_together(config: SpoolConfig) -> None:
    """Two writers that fill the folder in turn: the oldest gives way, whoever wrote it."""
    tables = [SpoolTable(config.folder, config.max_bytes) for _ in range(2)]
    for number in range(60):
        for table in tables:
            table.append(rows_of(f"{number} ".ljust(2000)), {})
        assert config.stats().waiting_bytes <= config.max_bytes
    numbers = [int(text.split()[0]) for text in payloads(taken_from(tables[0]))]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 59
    for table in tables:
        table.close()


# --- damage -------------------------------------------------------------------------------------


def spoil(config: SpoolConfig, old: bytes, new: bytes) -> None:
    """Overwrite bytes where a text stands in the closed file."""
    path = config.folder / FILE_NAME
    data = path.read_bytes()
    assert data.count(old) == 1
    place = data.index(old)
    path.write_bytes(data[:place] + new + data[place + len(new) :])


def fill(config: SpoolConfig, items: Sequence[RecordItem]) -> None:
    table = SpoolTable(config.folder, config.max_bytes)
    table.append(rows_of(*map(encoded, items)), {})
    table.close()


@pytest.mark.parametrize("damaged", range(3))
@pytest.mark.parametrize("new", [b"!", b"\xff\xff"])
def test_a_damaged_row_costs_itself_and_says_so(
    config: SpoolConfig, far: Far, damaged: int, new: bytes
) -> None:
    """The first, second or third of three records."""
    items = make_items(3)
    fill(config, items)
    spoil(config, items[damaged].uid.encode(), new)

    transport = spooled(lambda: far, config)
    wait_until(waits(config, 0), what="delivered")
    transport.send_records(make_items(1))
    transport.close()

    whole = [item.uid for item in items[:damaged] + items[damaged + 1 :]]
    assert [item.uid for item in far.records[:2]] == whole
    assert config.stats().dropped == {"spool_corrupt": 1}
    assert far.drops == [{"spool_corrupt": 1}]


@pytest.mark.parametrize("page", range(3, 20))
def test_a_damaged_page_costs_its_rows_and_says_so(
    config: SpoolConfig, far: Far, page: int
) -> None:
    """Of a file of 100 records of about 1.2 kB; the damaged file stays."""
    config = config.model_copy(update={"max_bytes": 2**20})
    items = make_items(100, {"text": "x" * 1000})
    fill(config, items)
    data = bytearray((config.folder / FILE_NAME).read_bytes())
    assert len(data) > 24 * 4096
    data[page * 4096 : (page + 1) * 4096] = b"\xff" * 4096
    (config.folder / FILE_NAME).write_bytes(data)

    transport = spooled(lambda: far, config)
    later = make_items(1)[0]
    wait_until(lambda: sends(transport, later), what="it works again")
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    known = [item.uid for item in items]
    arrived = [known.index(item.uid) for item in far.records if item.uid in known]
    assert arrived == sorted(arrived)
    lost = 100 - len(arrived)
    assert lost <= 3, "more than a page has room for"
    assert (config.folder / "spool-2.sqlite").exists() or not lost
    assert config.stats().dropped == ({"spool_corrupt": lost} if lost else {})


def test_a_file_that_is_none_any_more_is_left_behind(config: SpoolConfig, far: Far) -> None:
    """The two that come after it too: the damaged one before the last is removed."""
    for number in range(1, 4):
        fill(config, make_items(1))
        (config.folder / f"spool-{number}.sqlite").write_bytes(b"?" * 8192)
        transport = spooled(lambda: far, config)
        item = make_items(1)[0]
        wait_until(lambda t=transport, item=item: sends(t, item), what="it works")
        wait_until(waits(config, 0), what="delivered")
        transport.close()
        assert far.records[-1] == item

    assert config.stats().dropped == {"spool_corrupt": 3}
    found = sorted(path.name for path in config.folder.iterdir())
    assert found == ["spool-3.sqlite", "spool-4.sqlite"]


def sends(transport: SpoolTransport, item: RecordItem) -> bool:
    try:
        return transport.send_records([item]) == 0
    except TransientError:
        return False


@pytest.mark.parametrize("size", [0, -1, 1000])
def test_a_bound_that_cannot_work_is_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValidationError, match="max_bytes"):
        SpoolConfig(folder=tmp_path, max_bytes=size)


# --- what is reported of drops --------------------------------------------------------------------


def test_a_report_that_hangs_is_reported_again_as_the_same(config: SpoolConfig, far: Far) -> None:
    """The answer takes longer than the spool waits, and the batch goes to disk with its report."""
    far.is_there.clear()
    transport = spooled(lambda: far, config, patience_s=0.05)
    assert transport.send_records(make_items(1), drops(full=3)) == 0
    assert transport.send_records(make_items(1), {("s1", "full"): Count(3, 4)}) == 0
    far.is_there.set()
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert far.reports[0] == {("s1", "full"): Count(0, 3)}
    assert joined(*far.reports) == {("s1", "full"): Count(0, 4)}


def test_drops_that_come_with_what_no_spool_holds_are_reported_later(
    config: SpoolConfig, far: Far
) -> None:
    far.error = away()
    transport = spooled(lambda: far, config)
    large = make_items(1, {"text": "x" * 70_000})
    assert transport.send_records(large, drops(full=3)) == 1
    far.error = None
    assert transport.send_records(make_items(1)) == 0
    wait_until(lambda: bool(far.records), what="the next batch")
    transport.close()

    assert far.reports == [drops(full=3)]


# --- several processes --------------------------------------------------------------------------

_WRITER = """
import os, sys, threading
from pathlib import Path
from scouter.transport.spool_table import Kind, Row, SpoolTable
table = SpoolTable(Path(sys.argv[1]), 2**30)
number = 0
while True:
    payload = f"{os.getpid()} {number} ".encode() + b"x" * (number * 37 % 5000)
    table.append([Row(Kind.RECORD, 1, payload)], {})
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
        printed = writer.stdout.read().split()
        written[writer.pid] = int(printed[-1]) if printed else 200
        writer.stdout.close()
        writer.wait()

    heir = SpoolTable(spool, 2**30)
    found: dict[int, list[int]] = {}
    for payload in payloads(taken_from(heir)):
        pid, number, text = payload.split(b" ")
        assert len(text) == int(number) * 37 % 5000
        found.setdefault(int(pid), []).append(int(number))
    heir.close()

    for pid, count in written.items():
        assert found[pid][:count] == list(range(count))
        assert len(found[pid]) <= count + 1  # one that was written and not yet reported
    assert [path.name for path in spool.iterdir()] == [FILE_NAME]


def test_who_was_killed_while_it_delivered_is_followed(config: SpoolConfig, far: Far) -> None:
    """The next process sends the batch that was on its way, before later ones."""
    code = """
import sys
from pathlib import Path
from scouter.transport.spool_table import Kind, Row, SpoolTable
table = SpoolTable(Path(sys.argv[1]), 2**20)
table.append([Row(Kind.RECORD, 1, sys.argv[2].encode())], {})
print(table.lead(), len(table.oldest().rows), flush=True)
sys.stdin.read()
"""
    items = make_items(2)
    first = subprocess.Popen(
        [sys.executable, "-c", code, str(config.folder), encoded(items[0])],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert first.stdout is not None
    assert first.stdin is not None
    assert first.stdout.readline() == "True 1\n"
    transport = spooled(lambda: far, config)
    assert transport.send_records(items[1:]) == 0
    assert far.tries == 0
    first.kill()
    wait_until(waits(config, 0), what="delivered")
    transport.close()
    first.wait()
    first.stdin.close()
    first.stdout.close()

    assert far.records == items


def test_what_others_keep_in_the_folder_stays(config: SpoolConfig, far: Far) -> None:
    """Foreign files and folders, empty ones too."""
    foreign = ["customers.db", "film.seg", "spool-x.sqlite", "models/weights.bin", "models/lock"]
    for name in foreign:
        path = config.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (config.folder / "models" / "empty").mkdir()
    config.folder.chmod(0o700)
    before = set(config.folder.rglob("*"))

    far.error = away()
    transport = spooled(lambda: far, config)
    transport.send_records(make_items(1))
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    transport.close()

    assert set(config.folder.rglob("*")) - before == {config.folder / FILE_NAME}
    for name in foreign:
        assert (config.folder / name).read_text() == name


def test_one_delivers_at_a_time(config: SpoolConfig, table: SpoolTable) -> None:
    other = SpoolTable(config.folder, config.max_bytes)
    assert table.lead()
    assert not other.lead()
    assert table.oldest() is None
    assert other.lead()
    other.close()
    assert table.lead()


def test_who_cannot_deliver_lets_another_one(config: SpoolConfig, far: Far) -> None:
    """Two processes share the folder, and one of them has a wrong token."""
    items = make_items(4)

    def refuse() -> Far:
        raise ConfigError("status 401")

    wrong = spooled(refuse, config)
    assert wrong.send_records(items[:2]) == 0
    far.error = away()
    right = spooled(lambda: far, config)
    assert right.send_records(items[2:]) == 0
    far.error = None
    wait_until(waits(config, 0), what="delivered")
    right.close()
    wrong.close()

    assert far.records == items


def test_a_forked_child_neither_takes_nor_holds_its_parents_part(config: SpoolConfig) -> None:
    """The child may live on: another one may deliver as soon as the parent lets it."""
    parent = SpoolTable(config.folder, config.max_bytes)
    parent.append(rows_of("parent"), {})
    assert parent.lead()
    down, up = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            child = SpoolTable(config.folder, config.max_bytes)
            child.append(rows_of("child"), {})
            os.write(up[1], b"-" if child.lead() else b"+")
            os.read(down[0], 1)
        finally:
            os._exit(0)
    assert os.read(up[0], 1) == b"+"
    parent.close()
    heir = SpoolTable(config.folder, config.max_bytes)
    found = payloads(taken_from(heir))
    os.write(down[1], b".")
    os.waitpid(pid, 0)
    for end in (*down, *up):
        os.close(end)
    heir.close()

    assert found == [b"parent", b"child"]


_FORKING = """
import os, sys, threading
from pathlib import Path
from scouter.transport.spool_table import Kind, Row, SpoolTable
folder = Path(sys.argv[1])
table = SpoolTable(folder, 2**30)
done = threading.Event()

def put(table, who, number):
    table.append([Row(Kind.RECORD, 1, b"%s %d" % (who, number))], {})

def write():
    number = 0
    while not done.is_set():
        put(table, b"parent", number)
        number += 1
    print(number)

thread = threading.Thread(target=write)
thread.start()
children = []
for child in range(8):
    pid = os.fork()
    if pid == 0:
        own = SpoolTable(folder, 2**30)
        for number in range(25):
            put(own, b"child%d" % child, number)
            if number == 12:
                own.close()
        os._exit(0)
    children.append(pid)
codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
done.set()
thread.join()
table.close()
print(codes)
"""


def test_forks_while_another_thread_writes_lose_nothing(config: SpoolConfig) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKING, str(config.folder)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    count, codes = done.stdout.splitlines()
    assert codes == str([0] * 8)
    table = SpoolTable(config.folder, 2**30)
    found: dict[bytes, list[int]] = {}
    for payload in payloads(taken_from(table)):
        who, number = payload.split()
        found.setdefault(who, []).append(int(number))
    table.close()

    expected = {b"child%d" % child: list(range(25)) for child in range(8)}
    assert found == {**expected, b"parent": list(range(int(count)))}


def test_writing_and_delivering_at_once_loses_nothing(config: SpoolConfig, far: Far) -> None:
    """The far side comes and goes while batches keep coming."""
    config = config.model_copy(update={"max_bytes": 2**24})
    items = make_items(2000)
    transport = spooled(lambda: far, config, WorkerLimits(retry_base_s=0.001))
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
