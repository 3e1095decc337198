"""Every kind of file of a data folder, damaged in every way: nothing is lost without a word."""

import gc
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from collector.metrics import UNCOUNTED, TotalKey, TotalName
from collector.storage.care.check import check_store
from collector.storage.care.losses import Losses
from collector.storage.care.tally import FILE_NAME as TALLY
from collector.storage.care.tally import Held, Tally, read_tally
from collector.storage.duckdb.store import DuckDBStore
from collector.store.opening import LostDataError
from scouter.errors import TransientError
from tests.contracts.store_data import SPACE, evaluation, record, span

LOG_FILE: Final = 4096
FIRST, ALL = 10, 20
"""So many records and spans are in the file proper, and in all: the others are in its log."""


def damage(path: Path, harm: str) -> None:
    """Do one kind of harm to a file."""
    content = bytearray(path.read_bytes())
    if harm == "delete":
        path.unlink()
        return
    if harm.startswith("flip"):
        content[{"flip-head": 5, "flip-middle": len(content) // 2, "flip-tail": -3}[harm]] ^= 0x41
    path.write_bytes({"half": content[: len(content) // 2], "zero": bytes(len(content))}
                     .get(harm, content))  # fmt: skip


HARMS: Final = ("flip-head", "flip-middle", "flip-tail", "half", "zero", "delete")
SERVED, TOLD, REFUSED, NOT = "served", "told", "refused", "not tried"
ANY: Final = f"{REFUSED} {TOLD} {SERVED}"
"""A byte of the database may be in a block that the start reads, or a query, or that is free."""
MATRIX: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("killed", "scouter.duckdb"): (REFUSED, ANY, ANY, REFUSED, REFUSED, REFUSED),
    ("closed", "scouter.duckdb"): (REFUSED, ANY, NOT, REFUSED, NOT, REFUSED),
    ("killed", "scouter.duckdb.wal"): (REFUSED, NOT, REFUSED, REFUSED, NOT, REFUSED),
    # Byte 5 is of the first frame's checksum: its spans are whole. So is the middle of the last.
    ("killed", "first of spans"): (SERVED, TOLD, TOLD, REFUSED, NOT, REFUSED),
    ("killed", "last of spans"): (SERVED, SERVED, TOLD, REFUSED, REFUSED, REFUSED),
    ("killed", TALLY): (NOT, SERVED, NOT, SERVED, NOT, SERVED),
}
CASES: Final = [
    pytest.param(state, file, harm, expected, id=f"{state}-{file}-{harm}")
    for (state, file), outcomes in MATRIX.items()
    for harm, expected in zip(HARMS, outcomes, strict=True)
    if expected != NOT
]


def trace(n: int) -> str:
    return f"{n:032x}"


def fill(store: DuckDBStore, numbers: range) -> None:
    for n in numbers:
        store.append_records([record(f"u{n}", trace_id=trace(n))]).result()
        given = [span(n, trace_id=trace(n), attributes={"text": "long " * 100})]
        store.append_spans(SPACE, given, n).result()
    n = numbers[0]
    judged = evaluation(f"u{n}", trace_id=trace(n), evaluation_id=f"e{n}")
    store.append_evaluations([judged]).result()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Whole folders: as after `kill -9`, as after a stop, and as the database was halfway."""
    folder = tmp_path_factory.mktemp("whole")
    with closing(DuckDBStore(folder / "live", log_file_bytes=LOG_FILE)) as store:
        fill(store, range(1, FIRST + 1))
        store.checkpoint()
        shutil.copytree(folder / "live", folder / "older")
        fill(store, range(FIRST + 1, ALL + 1))
        shutil.copytree(folder / "live", folder / "killed")
    (folder / "live").rename(folder / "closed")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a copy of one of them."""

    def copy(state: str) -> Path:
        return Path(shutil.copytree(whole / state, tmp_path / "data"))

    return copy


def opened(folder: Path, *, accept_loss: bool = False) -> "closing[DuckDBStore]":
    return closing(DuckDBStore(folder, log_file_bytes=LOG_FILE, accept_loss=accept_loss))


def readable(store: DuckDBStore) -> tuple[int, int]:
    """The number of records and spans that are answered, one by one."""
    numbers = range(1, ALL + 1)
    records = store.records_of(SPACE, [f"u{n}" for n in numbers])
    return len(records), sum(len(store.trace(SPACE, trace(n), 9).spans) for n in numbers)


def assert_adds_up(store: DuckDBStore) -> tuple[int, int]:
    """Each sheet adds up, to what was ever accepted; returns what was lost."""
    sheet = store.conservation(SPACE)
    records, spans = sheet.records, sheet.spans
    states = records.waiting + records.evaluated + records.skipped + records.dead_lettered
    assert records.accepted == states + records.expired + records.erased + records.lost == ALL
    assert spans.accepted == spans.stored + spans.expired + spans.erased + spans.lost == ALL
    return records.lost, spans.lost


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in folder.rglob("*")
        if each.is_file()
    }


def find(folder: Path, name: str) -> Path:
    place, _, part = name.partition(" of ")
    if not part:
        return folder / name
    files = sorted((folder / part).iterdir(), key=lambda each: each.stat().st_mtime_ns)
    return files[0] if place == "first" else files[-1]


def start(folder: Path) -> tuple[str, str]:
    """Open a folder and read all of it; returns what became of that, and what was said."""
    try:
        with opened(folder) as store:
            return (SERVED if readable(store) == (ALL, ALL) else TOLD), ""
    except LostDataError as error:
        return REFUSED, str(error)
    except TransientError as error:
        return TOLD, str(error)


@pytest.mark.parametrize(("state", "file", "harm", "expected"), CASES)
def test_damage_is_told(
    data: Callable[[str], Path],
    caplog: pytest.LogCaptureFixture,
    state: str,
    file: str,
    harm: str,
    expected: str,
) -> None:
    """A folder is served whole, or the log names what is not, or it is refused and left alone."""
    folder = data(state)
    damage(find(folder, file), harm)
    before = contents(folder)
    with caplog.at_level(logging.WARNING):
        outcome, said = start(folder)
    assert outcome in expected.split(), said
    if outcome == SERVED:
        return
    if outcome == REFUSED:
        for way in ("scouter collector restore", "scouter collector check", "--accept-loss"):
            assert way in said
        assert contents(folder) == before
    else:
        assert "the store is damaged; stop the collector" in said or " is lost: " in caplog.text

    with opened(folder, accept_loss=True) as store:
        lost, found = assert_adds_up(store), readable(store)
    if outcome == REFUSED and file != "scouter.duckdb":
        assert lost == (ALL - found[0], ALL - found[1])
    elif (
        outcome == REFUSED
    ):  # the two evaluations may be there, and be counted, without their records
        assert 0 <= ALL - found[0] - lost[0] <= 2
        assert (found[1], lost[1]) == (ALL, 0)
    with opened(folder) as store:  # nothing more is lost
        assert (assert_adds_up(store), readable(store)) == (lost, found)
    report = check_store(folder)
    words = f"{lost[0]} records and {lost[1]} spans were lost"
    assert any(words in each for each in report.notes) == any(lost)
    if outcome == REFUSED and file != "scouter.duckdb":
        assert report.problems == []
    elif file != "scouter.duckdb":
        assert any("damaged" in each for each in report.problems)


@pytest.mark.parametrize("state", ["killed", "closed"])
@pytest.mark.parametrize("has_tally", [True, False])
def test_a_whole_folder_starts_without_a_word(
    data: Callable[[str], Path], caplog: pytest.LogCaptureFixture, state: str, has_tally: bool
) -> None:
    """Also one of a version that wrote no counts beside its database, and a backup."""
    folder = data(state)
    if not has_tally:
        (folder / TALLY).unlink()
    with caplog.at_level(logging.WARNING), opened(folder) as store:
        assert readable(store) == (ALL, ALL)
        store.backup(folder.parent / "backup")
    with opened(folder.parent / "backup") as store:
        assert (readable(store), assert_adds_up(store)) == ((ALL, ALL), (0, 0))
    assert caplog.records == []


def test_what_is_lost_with_the_database(data: Callable[[str], Path]) -> None:
    """All spans come back from the log; of 20 records none does."""
    folder = data("killed")
    (folder / "scouter.duckdb").unlink()
    with opened(folder, accept_loss=True) as store:
        assert (assert_adds_up(store), readable(store)) == ((ALL, 0), (0, ALL))
        assert store.totals()[TotalKey(TotalName.LOST, SPACE, label="record")] == ALL
        assert UNCOUNTED not in store.totals()
        assert (before := store.last_seq()) > 2 * ALL, "places in results go on behind the last"
        store.append_records([record("new")]).result()
        assert store.last_seq() > before
    assert (folder / "scouter.duckdb.wal.damaged-1").exists()


def test_an_older_copy_of_the_database(data: Callable[[str], Path], whole: Path) -> None:
    """Its log of spans is newer: they come back, and 10 of 20 records do not."""
    folder = data("closed")
    shutil.copy(whole / "older" / "scouter.duckdb", folder)
    with pytest.raises(LostDataError, match="10 records are missing"):
        opened(folder)
    with opened(folder, accept_loss=True) as store:
        assert (assert_adds_up(store), readable(store)) == ((10, 0), (10, ALL))


def test_a_count_that_nobody_knows(data: Callable[[str], Path]) -> None:
    """Without database and counts the spans are left; the sheet says that something was lost."""
    folder = data("killed")
    for name in ("scouter.duckdb", "scouter.duckdb.wal", TALLY):
        (folder / name).unlink()
    with pytest.raises(LostDataError, match="is gone"):
        opened(folder)
    with opened(folder, accept_loss=True) as store:
        sheet = store.conservation(SPACE)
        assert (sheet.records.lost, sheet.spans.stored, sheet.has_uncounted_losses) == (
            0,
            ALL,
            True,
        )
        assert store.conservation("another").has_uncounted_losses
    assert "something was lost of which nobody knows how much" in check_store(folder).notes


@pytest.mark.parametrize(
    ("older", "lost", "expired"),
    [
        # Of 6 records retention took the first 2; a database without rows lacks the other 4.
        pytest.param(False, 4, 2, id="gone"),
        # The copy has the first 3, of which those 2 go once more; it lacks the last 3.
        pytest.param(True, 3, 0, id="older"),
    ],
)
def test_what_retention_took_is_not_lost(
    tmp_path: Path, older: bool, lost: int, expired: int
) -> None:
    folder = tmp_path / "data"
    with opened(folder) as store:
        for n in range(1, 7):
            store.append_records([record(f"u{n}", received_ns=n)]).result()
            judged = evaluation(f"u{n}", evaluated_ns=n, evaluation_id=f"e{n}")
            store.append_evaluations([judged]).result()
            if n == 3:
                store.checkpoint()
                shutil.copy(folder / "scouter.duckdb", tmp_path / "older")
        assert store.remove_before(3) == 2
    (folder / "scouter.duckdb").unlink()
    if older:
        shutil.copy(tmp_path / "older", folder / "scouter.duckdb")
    with opened(folder, accept_loss=True) as store:
        records = store.conservation(SPACE).records
        assert (records.accepted, records.lost, records.expired) == (6, lost, expired)
        assert records.evaluated == 6 - lost - expired


def test_a_torn_end_of_the_log_is_no_loss(
    data: Callable[[str], Path], caplog: pytest.LogCaptureFixture
) -> None:
    """If the power went while a commit was written, nobody was told of it."""
    folder = data("killed")
    damage(folder / "scouter.duckdb.wal", "flip-tail")
    tally = folder / TALLY
    tally.write_bytes(b"\n".join(tally.read_bytes().split(b"\n")[:-2]) + b"\n")
    with caplog.at_level(logging.WARNING), opened(folder) as store:
        assert readable(store) == (ALL, ALL)
    assert [each.message.split(" ended ")[1] for each in caplog.records] == [
        "with a torn entry, of nothing acknowledged"
    ]
    assert list(folder.glob("*.damaged-*")) == []


def test_damage_in_what_the_database_has_not_taken(
    data: Callable[[str], Path], whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The frames behind it are taken, and the sheet says that something was lost."""
    folder = data("older")
    shutil.rmtree(folder / "spans")
    shutil.copytree(whole / "closed" / "spans", folder / "spans")
    last = find(folder, "last of spans")
    content = bytearray(last.read_bytes())
    content[content.index(b"long ")] ^= 1  # of the file's first span
    last.write_bytes(content)
    with caplog.at_level(logging.ERROR), opened(folder) as store:
        assert readable(store) == (10, ALL - 1)
        assert store.conservation(SPACE).has_uncounted_losses
    assert "are damaged; the spans in them are lost" in caplog.text
    with opened(folder) as store:
        assert store.totals()[UNCOUNTED] == 1, "once"


def test_a_crash_before_a_loss_is_counted(
    data: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next start finds it again, and counts it once."""
    folder = data("killed")
    (folder / "scouter.duckdb").unlink()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Losses, "deltas", crash)
        with pytest.raises(KeyboardInterrupt):
            opened(folder, accept_loss=True)
    gc.collect()  # as the process that crashed is gone
    with pytest.raises(LostDataError, match="20 records are missing"):
        opened(folder)
    with opened(folder, accept_loss=True) as store:
        assert assert_adds_up(store) == (ALL, 0)


def test_commits_are_told_of_as_they_are_made(tmp_path: Path) -> None:
    """Of each space; a commit without rows, and one that retention leaves nothing of, is not."""
    with opened(tmp_path) as store:
        store.append_records([record("u1"), record("u2", space="other")]).result()
        store.append_spans(SPACE, [span(1)], 1).result()
        told = read_tally(tmp_path)
        assert told is not None
        assert told.seq == store.last_seq()
        assert {key: value.received for key, value in told.held.items()} == {
            (SPACE, "record"): 1, ("other", "record"): 1, (SPACE, "span"): 1,
        }  # fmt: skip
        store._care(lambda tx: None).result()  # pyright: ignore[reportPrivateUsage]
        again = read_tally(tmp_path)
        assert again is not None
        assert again.held == told.held


def test_the_counts_are_written_anew_now_and_then(tmp_path: Path) -> None:
    """Once commits have added 64 kB; however many spaces there are, not with every commit."""
    tally = Tally(tmp_path)
    spaces = {TotalKey(TotalName.RECORDS_RECEIVED, f"space {n}"): 1 for n in range(5000)}
    tally.write(1, spaces)
    assert (tmp_path / TALLY).stat().st_size > 64 * 1024
    added = 0
    while not tally.is_due:
        tally.note(2 + added, {TotalKey(TotalName.SPANS_RECEIVED, SPACE): 3})
        added += 1
    tally.close()
    assert 1000 < added < 2000  # lines of about 45 bytes
    told = read_tally(tmp_path)
    assert told is not None
    assert (told.seq, told.is_damaged) == (1 + added, False)
    assert told.held[SPACE, "span"] == Held(3 * added, 0)
    assert told.held["space 7", "record"] == Held(1, 0)


def test_a_line_that_is_torn_or_damaged(tmp_path: Path) -> None:
    """It costs what it said; of one at the end nobody says that it is damaged."""
    tally = Tally(tmp_path)
    tally.write(1, {})
    for seq in (2, 3, 4):
        tally.note(seq, {TotalKey(TotalName.SPANS_RECEIVED, f"space {seq}"): 1})
    tally.close()
    path = tmp_path / TALLY
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    told = read_tally(tmp_path)
    assert told is not None
    assert (told.seq, told.is_damaged) == (3, False)
    path.write_bytes(content.replace(b"space 3", b"space 9"))
    told = read_tally(tmp_path)
    assert told is not None
    assert (told.seq, told.is_damaged) == (4, True)
    assert set(told.held) == {("space 2", "span"), ("space 4", "span")}
