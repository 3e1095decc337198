"""Erasing, retention and the copy that removes the bytes: what goes, and what files have."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from collector.store import database
from collector.store.bodies import decompress
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.file_store import FileStore
from collector.store.rows import RecordState, TaskRow
from collector.store.schema import duckdb_tables
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Resource, Span
from tests.contracts.store_data import evaluation, letter, record
from tests.support.store_appends import AppendingPostgresql, AppendingStore
from tests.support.store_commits import Engine, Sent, body_of, row_of
from tests.support.store_engines import PostgresqlStore

Own = AppendingStore | AppendingPostgresql
Open = Callable[[], Own]
SECRET = "the secret that nobody may find"
TRACES = [f"{number:032x}" for number in range(1, 5)]


@pytest.fixture
def store(open_store: Open) -> Iterator[Own]:
    """On each database in turn."""
    store = open_store()
    yield store
    store.close()


@pytest.fixture
def of_files(folder: Path) -> Iterator[FileStore]:
    """On DuckDB, whose files it is about."""
    store = FileStore(folder)
    yield store
    store.close()


def span(trace: int, number: int = 1, **attributes: str) -> Span:
    return Span(
        trace_id=TRACES[trace], span_id=f"{number:016x}", name="step", start_ns=10, end_ns=20,
        attributes=attributes, resource=Resource(attributes={"service.name": "desk"}),
    )  # fmt: skip


def quoting(uid: str, space: str, trace: int | None, **fields: object) -> object:
    task = TaskRow(
        task_id="t1", task_type="Assertion", outcome=Outcome.FAILED, actual=SECRET, message=SECRET
    )
    return evaluation(
        uid, Outcome.FAILED, (task,), space=space, evaluation_id=f"{space} {uid}", reads_spans=True,
        trace_id=None if trace is None else TRACES[trace], **fields,
    )  # fmt: skip


def fill(engine: Engine, space: str) -> Sent:
    """Two sessions; the second trace has spans of both, and a record of each."""
    sent = Sent(space=space)
    records = [
        record("r0", space=space, session_id="ann", trace_id=TRACES[0], context={"q": SECRET}),
        record("r1", space=space, session_id="ann", trace_id=TRACES[1], context={"q": SECRET}),
        record("r2", space=space, session_id="bob", trace_id=TRACES[1], tags={"case": "7"}),
        record("r3", space=space, session_id="bob", trace_id=TRACES[2]),
    ]
    spans = [
        span(0, 1, text=SECRET), span(0, 2), span(1, 1, **{"session.id": "ann", "text": SECRET}),
        span(1, 2, **{"session.id": "bob"}), span(2, 1), span(3, 1),
    ]  # fmt: skip
    sent.append(engine, spans, records=records)
    sent.append(
        engine,
        evaluations=[quoting("r0", space, 0), quoting("r2", space, 1), quoting("r3", space, 2)],  # type: ignore[list-item]
        letters=[
            letter(space=space, uid="x", payload=b'{"session_id": "ann"}'),
            letter(space=space, uid="y", payload=b'{"session_id": "annex"}'),
        ],
    )
    return sent


def left(engine: Engine, space: str) -> dict[str, object]:
    return {
        "records": {uid for uid in ("r0", "r1", "r2", "r3") if engine.record_history(space, uid)},
        "spans": {
            (trace, found.span_id)
            for trace, trace_id in enumerate(TRACES)
            for found in engine.trace(space, trace_id, 9).spans
        },
        "evaluations": {
            row.record_uid: row.tasks[0].message
            for row in engine.evaluations(EvaluationQuery(space=space, limit=99)).items
        },
        "letters": sum(engine.conservation(space).dead_letters.values()),
    }


ONE, TWO = f"{1:016x}", f"{2:016x}"
ALL = {(0, ONE), (0, TWO), (1, ONE), (1, TWO), (2, ONE), (3, ONE)}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param(
            {"session_id": "ann"},
            {
                "records": {"r2", "r3"},
                "spans": ALL - {(0, ONE), (0, TWO), (1, ONE)},
                "evaluations": {"r2": "", "r3": SECRET},
                "letters": 1,
            },
            id="session",
        ),
        pytest.param(
            {"trace_id": TRACES[1]},
            {
                "records": {"r0", "r3"},
                "spans": ALL - {(1, ONE), (1, TWO)},
                "evaluations": {"r0": SECRET, "r3": SECRET},
                "letters": 2,
            },
            id="trace",
        ),
        pytest.param(
            {"record_uid": "r1"},
            {
                "records": {"r0", "r2", "r3"},
                "spans": ALL,
                "evaluations": {"r0": SECRET, "r2": SECRET, "r3": SECRET},
                "letters": 2,
            },
            id="record of a trace that another one has",
        ),
        pytest.param(
            {"tag": ("case", "7")},
            {
                "records": {"r0", "r1", "r3"},
                "spans": ALL,
                "evaluations": {"r0": SECRET, "r3": SECRET},
                "letters": 2,
            },
            id="tag",
        ),
    ],
)
def test_an_erasure_takes_what_it_names(
    engine: Engine, target: dict[str, object], expected: dict[str, object]
) -> None:
    """Worked out by hand; the same on both databases, and nothing of another space."""
    space, other = (f"erase {name} {sorted(target)}" for name in ("a", "b"))
    fill(engine, space)
    fill(engine, other)
    before = left(engine, other)
    engine.erase(EraseTarget(space=space, **target))  # type: ignore[arg-type]
    assert left(engine, space) == expected
    assert left(engine, other) == before


def test_the_sheet_counts_what_was_erased(store: Own) -> None:
    fill(store, "a")
    erased = store.erase(EraseTarget(space="a", session_id="ann"))
    assert (erased.uids, erased.spans, erased.evaluations, erased.dead_letters) == (
        {"r0", "r1"}, 3, 1, 1,
    )  # fmt: skip
    sheet = store.conservation("a")
    records, spans = sheet.records, sheet.spans
    assert (records.accepted, records.erased, records.waiting, records.evaluated) == (4, 2, 0, 2)
    assert (spans.accepted, spans.stored, spans.erased) == (6, 3, 3)


def test_what_others_replaced_leaves_no_rests(of_files: FileStore) -> None:
    """Nobody requested that its bytes go: the file is not written anew for each such record."""
    fill(of_files, "a")
    erased = of_files.erase(EraseTarget(space="a", superseded=("r3",)))
    assert (erased.uids, of_files.has_rests()) == ({"r3"}, False)
    of_files.erase(EraseTarget(space="a", record_uid="r0"))
    assert of_files.has_rests()


def texts_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_the_bytes_are_gone_from_every_file(of_files: FileStore, folder: Path) -> None:
    """Contexts and attributes are stored as they are; bodies are read one by one."""
    fill(of_files, "a")
    of_files.erase(EraseTarget(space="a", session_id="ann"))
    of_files.erase(EraseTarget(space="a", session_id="bob"))
    of_files.erase(EraseTarget(space="a", trace_id=TRACES[3]))
    assert SECRET.encode() in texts_in(folder)

    assert of_files.purge()
    assert SECRET.encode() not in texts_in(folder)
    bodies = of_files.read("SELECT body FROM bodies")
    assert all(SECRET.encode() not in decompress(body) for (body,) in bodies)
    assert not of_files.purge()  # nothing is left to do
    assert len(list(folder.glob("store-*.duckdb"))) == 1


def test_erased_stays_erased(open_store: Open) -> None:
    """What comes again is refused, also when its rows were made before the erasure."""
    store = open_store()
    sent = fill(store, "a")
    store.erase(EraseTarget(space="a", session_id="ann"))
    for new in ("new", "newer"):
        again = [span(0, 1, text=SECRET), span(1, 1, text=SECRET), span(1, 3)]
        rows = [record(uid, space="a") for uid in ("r0", new)]
        store.commit(
            Commit(
                offset=9,
                low_seq=1,
                spans=[row_of("a", each, 1) for each in again],
                bodies=[body_of("a", again[:1]), body_of("a", again[1:])],
                records=rows,
                evaluations=[quoting("r1", "a", 1)],  # type: ignore[list-item]
            )
        )
        assert store.record_history("a", "r0") is None
        assert store.evaluation("a", "a r1") is None
        assert store.record_history("a", new) is not None
        assert [each.span_id for each in store.trace("a", TRACES[0], 9).spans] == []
        found = {each.span_id: each for each in store.trace("a", TRACES[1], 9).spans}
        assert set(found) == {TWO, f"{3:016x}"}
        marks = store.share.tombstones if isinstance(store, PostgresqlStore) else store.tombstones
        assert marks.has_record("a", "r0")
        assert marks.has_span("a", TRACES[0], "any")
        assert not marks.has_span("a", TRACES[1], TWO)
        if isinstance(store, FileStore):
            store.purge()
        store.close()
        store = open_store()
    store.close()
    assert sent.space == "a"


def test_commits_and_erasures_go_on_while_the_file_is_copied(folder: Path) -> None:
    """What comes in between is in the copy, once, and what is erased in between is not."""
    store = FileStore(folder)
    sent = fill(store, "a")
    for number in range(3, 9):
        sent.append(store, [span(3, number)])
    steps = iter(range(1, 9))

    def is_over() -> bool:
        """Called between two steps of the copy."""
        step = next(steps)
        if step == 1:
            better = replace(span(3, 5), end_ns=21)
            sent.append(store, [better])  # takes the place of one that was copied
            store.erase(EraseTarget(space="a", session_id="ann"))
            for number in range(10, 20):
                sent.append(store, [span(3, number)])
        return False

    store.erase(EraseTarget(space="a", record_uid="r3"))
    assert store.purge(is_over)
    for _ in range(2):
        expected = {(each.trace_id, each.span_id) for _, each in sent.stored.values()}
        gone = {(TRACES[0], ONE), (TRACES[0], TWO), (TRACES[1], ONE), (TRACES[2], ONE)}
        rows = store.read("SELECT trace_id, span_id, end_ns FROM spans")
        assert sorted(row[:2] for row in rows) == sorted(expected - gone)
        assert [row[2] for row in rows if row[:2] == (TRACES[3], f"{5:016x}")] == [21]
        sheet = store.conservation("a")
        assert sheet.spans.accepted == sheet.spans.stored + sheet.spans.erased
        assert sheet.records.accepted == 4
        store.close()
        store = FileStore(folder)
    assert store.purge()  # for the erasure that came while the file was copied
    store.close()
    assert SECRET.encode() not in texts_in(folder)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_start_goes_on_with_the_newest_whole_file(folder: Path, is_whole: bool) -> None:
    """A process may end before a copy is whole, or before it removed the old file."""
    store = FileStore(folder)
    fill(store, "a")
    before = left(store, "a")
    old = folder / "store-1.duckdb"
    store.close()
    old_bytes = old.read_bytes()
    store = FileStore(folder)
    store.erase(EraseTarget(space="a", trace_id=TRACES[3]))
    if is_whole:
        store.purge()
    store.close()
    if is_whole:
        old.write_bytes(old_bytes)
    else:
        with duckdb.connect(str(folder / "store-2.duckdb")) as half:
            for statement in duckdb_tables():
                half.execute(statement)
    store = FileStore(folder)
    spans = before["spans"]
    assert isinstance(spans, set)
    assert left(store, "a") == before | {"spans": spans - {(3, ONE)}}
    assert [path.name for path in folder.glob("store-*.duckdb")] == [
        "store-2.duckdb" if is_whole else "store-1.duckdb"
    ]
    store.close()


def test_a_copy_that_is_given_up_changes_nothing(of_files: FileStore, folder: Path) -> None:
    sent = fill(of_files, "a")
    for number in range(3, 9):
        sent.append(of_files, [span(3, number)])
    of_files.erase(EraseTarget(space="a", session_id="ann"))
    before = left(of_files, "a")
    assert not of_files.purge(lambda: True)
    assert left(of_files, "a") == before
    assert [path.name for path in folder.glob("store-*.duckdb")] == ["store-1.duckdb"]
    assert of_files.purge()


def test_reads_go_on_while_the_file_is_changed(of_files: FileStore) -> None:
    """Reads of other threads, on connections that know the old file."""
    fill(of_files, "a")
    expected, faults, done = left(of_files, "a"), list[object](), threading.Event()

    def read() -> None:
        while not done.is_set():
            try:
                if left(of_files, "a") != expected:
                    faults.append("another answer")
            except Exception as error:  # noqa: BLE001 any fault of the of_files is what is looked for
                faults.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for number in range(4):
            fill(of_files, f"another {number}")
            of_files.erase(EraseTarget(space=f"another {number}", session_id="ann"))
            assert of_files.purge()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert faults == []


# --- retention -----------------------------------------------------------------------------------


def test_retention_takes_whole_commits_and_what_was_decided(store: Own) -> None:
    """Records go with their evaluations, whenever those were made; the last commit stays."""
    sent, unit = Sent(space="a"), store.unit
    old = [record(uid, space="a", received_ns=10 * unit) for uid in ("r0", "r1")]
    sent.append(store, [span(0)], records=old, received_ns=10 * unit)
    sent.append(
        store,
        [span(1)],
        records=[record("r2", space="a", received_ns=20 * unit)],
        received_ns=20 * unit,
    )
    sent.append(
        store,
        evaluations=[evaluation("r0", space="a"), evaluation("r2", space="a", evaluation_id="2")],
    )
    sent.append(store, [span(2)], received_ns=30 * unit)
    low = store.low_seq
    assert low == 0
    assert store.remove_before(25 * unit) == 0  # the join needs all of it
    store.commit(Commit(offset=99, low_seq=store.last_seq() + 1))

    assert store.remove_before(10 * unit) == 0
    assert store.remove_before(11 * unit) == 1
    assert store.record_history("a", "r0") is None
    found = store.record_history("a", "r2")
    assert found is not None
    assert found.state is RecordState.EVALUATED
    sheet = store.conservation("a")
    assert (sheet.spans.stored, sheet.spans.expired, sheet.spans.accepted) == (2, 1, 3)
    records = sheet.records
    assert (records.accepted, records.expired, records.evaluated, records.waiting) == (3, 2, 1, 0)
    assert store.remove_before(11 * unit) == 0

    assert store.remove_before(1_000 * unit) == 2
    assert store.conservation("a").spans.expired == 3
    assert store.conservation("a").records.expired == 3


def test_retention_gives_room_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of four days; when three are gone, the file is smaller by as much."""
    monkeypatch.setattr(database, "ROW_GROUP", 2_048)
    store, sent, text = FileStore(folder), Sent(space="a"), "x" * 200
    for day in range(4):
        trace_id = f"{day + 1:032x}"
        spans = [replace(span(0, at, text=f"{text}{at}"), trace_id=trace_id) for at in range(4_096)]
        sent.append(store, spans, received_ns=day)
    store.commit(Commit(offset=99, low_seq=store.last_seq() + 1))
    store.close()
    before = sum(path.stat().st_size for path in folder.glob("store-*"))

    store = FileStore(folder)
    assert store.remove_before(3) == 3 * 4_096
    store.close()
    store = FileStore(folder)
    assert store.purge()
    store.close()
    after = sum(path.stat().st_size for path in folder.glob("store-*"))
    assert after < before / 2
