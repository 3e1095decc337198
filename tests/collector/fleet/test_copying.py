"""Copies of a store from a data folder into a fleet's database and back, on real ones."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from typer.testing import CliRunner

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.care.data_folder import open_data
from collector.care.retention import FileNote
from collector.fleet import copy_command, copying
from collector.fleet.copy_command import copy_store
from collector.fleet.copy_command import store as program
from collector.fleet.copying import Plan
from collector.fleet.database import Session, open_beside
from collector.fleet.notes import SENT_TO, FleetNote
from collector.fleet.share import Share
from collector.fleet.store import FleetStore
from collector.fleet.tokens import FleetTokens
from collector.fleet.whole import share_of
from collector.log.port import Item, Kind
from collector.results.sender import FILE_NAME as CURSOR_NAME
from collector.results.sender import Cursor
from collector.store.commit import Commit, RecordId
from collector.store.file_store import FileStore
from collector.store.files import OfflineReads
from collector.store.ledger import LEDGER_NAME
from collector.store.reads import Rows
from collector.store.rows import FIRST_RESULT, ResultPlace
from collector.store.rows import Scope as Judged
from collector.store.schema import COLUMNS, NOT_COPIED
from scouter.agent.ledger import Account, Reserved, SqliteLedger
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.engine.sessions import session_uid
from scouter.transport.kafka_client import partition_of
from tests.collector.conftest import Service, save_answers
from tests.collector.fleet.store_support import rows
from tests.contracts.store_data import SPACE, evaluation, letter, record, span
from tests.support.postgresql_server import PostgresqlServer

PARTITIONS: Final = 4
DAY_NS: Final = 86_400 * 10**9
_OTHERS: Final = (
    "profiles", "alert_events", "drift_states", "drift_events", "drift_deliveries", "labels",
    "runs", "calibrations", "gold_outcomes", "sender_drops", "erased",
)  # fmt: skip
"""Tables that no commit of the worker writes."""
_CHILD: Final = """
import sys
from collector.care.data_folder import open_data
from collector.care.retention import FileNote
from collector.fleet import copy_command, copying
from collector.fleet.copy_command import store
copying.PART_ROWS = 10
real = copy_command.copy_store
def reported(source, target, tell):
    return real(source, target, lambda done, total: print(done, flush=True))
copy_command.copy_store = reported
store()
"""
"""The command, which says after each part how far it is."""
_HOLDER: Final = """
import sys
from pathlib import Path
from collector.store.file_store import FileStore
store = FileStore(Path(sys.argv[1]))
print("waits", flush=True)
sys.stdin.read()
store.close()
"""


def _trace(number: int) -> str:
    return f"{number:032x}"


def _value(kind: str, number: int) -> object:
    match kind:
        case "BIGINT":
            return number
        case "TEXT":
            return f'tëxt "{number}"\\,\n' if number % 3 else None
        case "DOUBLE PRECISION":
            return number / 3
        case "BYTEA":
            return bytes([number % 256, 0, 255])
        case _:
            return [f"tag={number}", ""]


def _fill(folder: Path, records: int = 30) -> None:
    """A store with rows in every table, of three days, and work that is left."""
    store = FileStore(folder)
    for number in range(1, records + 1):
        trace = _trace(number) if number % 3 else None
        spans = [] if trace is None else [span(each, trace_id=trace) for each in (1, 2)]
        row = record(
            f"u{number}",
            trace_id=trace,
            session_id=f"s{number % 5}",
            received_ns=number * DAY_NS // 10,
        )
        made = [] if number % 4 == 0 else [evaluation(f"u{number}", trace_id=trace)]
        store.commit(
            rows(SPACE, spans, [row], made, number * DAY_NS // 10, offset=number, low_seq=1)
        )
    store.commit(
        Commit(
            letters=[
                letter(),
                letter(uid="u4", was_accepted=True, reason="unstorable"),
                letter(uid=_trace(5), reason="refused"),
            ],
            evaluations=[
                evaluation(f"of s{each}", session_id=f"s{each}", scope=Judged.SESSION)
                for each in range(5)
            ],
            started=[
                RecordId(SPACE, "u8"),
                RecordId(SPACE, session_uid(PROFILE, "s2")),
                RecordId(SPACE, session_uid(PROFILE, "nobody's")),
                RecordId("", "log:7"),
            ],
        )
    )
    for table in _OTHERS:
        own = [
            tuple(
                SPACE if name == "space" else "record" if (table, name) == ("erased", "kind")
                else _value(kind, number)
                for name, kind in COLUMNS[table][1:]
            )
            for number in range(1, 4)
        ]  # fmt: skip
        store.write({table: own})
    store.write({}, low_seq=3)
    store.close()
    TokenFile(folder).create("me", [Scope.READ], SPACE)
    revoked, _ = TokenFile(folder).create("you", [Scope.ADMIN], SPACE)
    TokenFile(folder).revoke(revoked.id)
    ledger = SqliteLedger(folder / LEDGER_NAME)
    account = Account(name="provider entry x", day="2999-01-01", limit_nano_usd=100)
    assert isinstance(asyncio.run(ledger.reserve([account], 7)), Reserved)
    ledger.close()
    Cursor(FileNote(folder / CURSOR_NAME), "http://there").write(ResultPlace(9, 2))


PROFILE: Final = str(_value("TEXT", 1))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "data"
    _fill(folder)
    return folder


@pytest.fixture
def folder(filled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(filled, tmp_path / "data"))


@pytest.fixture
def url(postgresql_server: PostgresqlServer, url: str) -> str:
    """The address of an empty database, as people give it."""
    return f"postgresql://postgres@/{url.rpartition('=')[2]}?host={postgresql_server.folder}"


def run(source: object, target: object, expected: int = 0) -> str:
    """Run the command; an error that a person can mend is raised."""
    words = ["copy", "--from", str(source), "--to", str(target), "--partitions", str(PARTITIONS)]
    done = CliRunner().invoke(program, words)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == expected, done.output
    return done.output


def rows_of(folder: Path) -> dict[str, Rows]:
    """Every row of a folder's store, but for those of its place alone."""
    with OfflineReads(folder) as store:
        found = {
            table: sorted(store.read(f"SELECT * FROM {table}"), key=lambda row: (row[0], repr(row)))  # noqa: S608
            for table in COLUMNS
            if table not in {*NOT_COPIED, "identity"}
        }
    found["offsets"] = [(seq, low, at) for seq, _, low, at in found["offsets"]]
    found["begun"] = [row for row in found["begun"] if row[1]]
    return found


@pytest.fixture
def opened(url: str) -> Iterator[Callable[[], FleetStore]]:
    """Opens the store of the database; closed at the end."""
    made: list[FleetStore] = []

    def one() -> FleetStore:
        made.append(FleetStore(url))
        return made[-1]

    yield one
    for each in made:
        each.close()


def test_there_and_back_is_the_same(folder: Path, url: str, tmp_path: Path) -> None:
    """Rows of all tables with the numbers of their commits; tokens, money, and cursors."""
    before = rows_of(folder)
    assert all(before.values()), [table for table, found in before.items() if not found]

    assert "both sides are alike" in run(folder, url)
    assert "both sides are alike" in run(url, tmp_path / "back")
    after = rows_of(tmp_path / "back")

    last = before["offsets"][-1][0]
    assert [row for row in after["offsets"] if row[0] <= last] == before["offsets"]
    assert len(after["offsets"]) == len(before["offsets"]) + PARTITIONS + 1
    for table in set(before) - {"offsets"}:
        assert after[table] == before[table], table
    assert rows_of(folder) == before
    assert TokenFile(tmp_path / "back").all() == TokenFile(folder).all()
    ledgers = [SqliteLedger(each / LEDGER_NAME) for each in (folder, tmp_path / "back")]
    assert ledgers[0].balances() == ledgers[1].balances()
    for each in ledgers:
        each.close()
    cursor = Cursor(FileNote(tmp_path / "back" / CURSOR_NAME), "http://there")
    assert cursor.read() == ResultPlace(9, 2)


def cursor_of(session: Session, endpoint: str) -> Cursor:
    return Cursor(FleetNote(session, f"{SENT_TO}{endpoint}"), endpoint)


def test_notes_of_a_fleet_come_back(
    folder: Path, url: str, tmp_path: Path, postgresql_server: PostgresqlServer
) -> None:
    """A folder has no use for them; a later fleet has, as for the files of its past days."""
    run(folder, url)
    session = open_beside(url)
    FleetNote(session, "past erasure").write("7")
    cursor_of(session, "http://other").write(ResultPlace(3, 1))
    session.close()
    run(url, tmp_path / "back")
    name = f"again_{url.partition('?')[0].rpartition('/')[2]}"
    postgresql_server.new_database(name)
    again = f"postgresql://postgres@/{name}?host={postgresql_server.folder}"
    run(tmp_path / "back", again)

    session = open_beside(again)
    assert FleetNote(session, "past erasure").read() == "7"
    assert cursor_of(session, "http://other").read() == ResultPlace(3, 1)
    assert cursor_of(session, "http://there").read() == ResultPlace(9, 2)
    session.close()


def test_numbers_go_on_behind_the_highest(
    folder: Path, url: str, tmp_path: Path, opened: Callable[[], FleetStore]
) -> None:
    """Whoever has seen results up to a place sees none of them again, on both sides."""
    store = FileStore(folder)
    last = store.last_seq()
    seen = store.results_after(FIRST_RESULT, 100)
    store.close()
    run(folder, url)

    fleet = opened()
    assert fleet.last_seq() == last + PARTITIONS
    assert fleet.results_after(FIRST_RESULT, 100) == seen
    share = fleet.take(1, "me", "topic")
    assert share.commit(Commit(offset=1, low_seq=1)) > last + PARTITIONS
    share.close()
    fleet.close()
    run(url, tmp_path / "back")
    back = FileStore(tmp_path / "back")
    assert (back.last_seq(), back.offset) == (last + PARTITIONS + 2, 0)
    assert back.commit(Commit(offset=1)) == last + PARTITIONS + 3
    back.close()


def test_each_partition_has_what_is_its_own(
    folder: Path, url: str, opened: Callable[[], FleetStore]
) -> None:
    """What waits is found by the owner of its partition, and nothing by two of them."""
    store = FileStore(folder)
    waiting = {each.uid: each for each in store.undecided(0)}
    starts = store.started(store.low_seq)
    store.close()
    assert waiting
    run(folder, url)

    fleet = opened()
    shares: list[Share] = [fleet.take(part, "me", "topic") for part in range(PARTITIONS)]
    found = {each.uid: share.part for share in shares for each in share.undecided(0)}
    assert found == {
        uid: partition_of((row.trace_id or uid).encode(), PARTITIONS)
        for uid, row in waiting.items()
    }
    noted = {key: share.part for share in shares for key in share.started(share.low_seq)}
    lost = RecordId(SPACE, session_uid(PROFILE, "nobody's"))
    assert {*noted, lost, RecordId("", "log:7")} == set(starts)
    assert noted == {
        RecordId(SPACE, "u8"): found["u8"],
        RecordId(SPACE, session_uid(PROFILE, "s2")): share_of(SPACE, "s2", PARTITIONS),
    }
    assert all((share.offset, share.low_seq, share.epoch) == (0, 1, 1) for share in shares)
    sessions = fleet.read("SELECT session_id, part FROM evaluations WHERE scope = 'session'")
    assert len(sessions) == 5
    assert all(part == share_of(SPACE, each, PARTITIONS) for each, part in sessions)
    astray = fleet.read("""
        SELECT 1 FROM task_results t JOIN evaluations e USING (space, evaluation_id)
        WHERE t.part <> e.part
        UNION ALL
        SELECT 1 FROM evaluations e JOIN records r ON r.space = e.space AND r.uid = e.record_uid
        WHERE r.part <> e.part
        UNION ALL
        SELECT 1 FROM bodies b JOIN spans s USING (space, trace_id)
        WHERE b.part <> s.part OR b.received_ns <> s.received_ns
    """)
    assert astray == []
    parts = fleet.read("SELECT reason, part FROM dead_letters ORDER BY reason")
    assert parts == [
        ("invalid_record", -1),
        ("refused", partition_of(_trace(5).encode(), PARTITIONS)),
        ("unstorable", partition_of(_trace(4).encode(), PARTITIONS)),
    ]
    tokens = FleetTokens(open_beside(url))
    assert tokens.all() == TokenFile(folder).all()
    tokens.close()
    for share in shares:
        share.close()


@pytest.mark.parametrize("is_back", [False, True], ids=["there", "back"])
def test_a_copy_that_was_killed_goes_on(
    folder: Path, url: str, tmp_path: Path, is_back: bool
) -> None:
    """At whatever part; what is half there is refused by whoever would start on it."""
    before = rows_of(folder)
    source, target = folder, url
    if is_back:
        run(folder, url)
        source, target = url, tmp_path / "back"
    for parts in (1, 2, 5):
        _kill_after(parts, source, target)
    with pytest.raises(ConfigError, match="scouter store copy"):
        FileStore(tmp_path / "back") if is_back else FleetStore(url)

    assert "both sides are alike" in run(source, target)
    assert "both sides are alike" in run(source, target), "a third one changes nothing"
    if not is_back:
        run(url, tmp_path / "back")
    after = rows_of(tmp_path / "back")
    for table in set(before) - {"offsets"}:
        assert after[table] == before[table], table


def _kill_after(parts: int, source: object, target: object) -> None:
    """Run the command, and kill it once it has stored so many parts, in the middle of the next."""
    words = ["copy", "--from", source, "--to", target, "--partitions", PARTITIONS]
    with subprocess.Popen(
        [sys.executable, "-c", _CHILD, *map(str, words)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        for _ in range(parts + 1):
            assert child.stdout.readline()
        os.kill(child.pid, signal.SIGKILL)
        child.wait(120)


def test_a_collector_on_the_copy_answers_as_before(url: str, tmp_path: Path) -> None:
    """A real one; what came before comes as a duplicate, and what is new is judged."""
    profile = str(save_answers(tmp_path))
    records = [
        {"uid": f"u{each}", "record_id": f"r{each}", "profile": "answers", "context": {"answer": n}}
        for each, n in enumerate((42, 42, 7))
    ]
    service = Service(tmp_path, profile=[profile])
    try:
        service.send(*records)
        service.wait_for(3)
        before = _answers(service)
        shown = service.get("/api/v1/records/u2")
    finally:
        service.stop()
    run(tmp_path / "data", url)
    run(url, tmp_path / "again" / "data")

    again = Service(tmp_path / "again", profile=[profile])
    try:
        assert _answers(again) == before
        assert again.get("/api/v1/records/u2") == shown
        again.send(*records, {**records[0], "uid": "u9", "record_id": "r9"})
        again.wait_for(4)
        sheet = again.get("/api/v1/conservation")["records"]
        assert (sheet["accepted"], sheet["evaluated"], sheet["duplicates"]) == (4, 4, 3)
    finally:
        again.stop()


def _answers(service: Service) -> dict[str, Any]:
    paths = ("records", "evaluations", "conservation", "dead-letters", "profiles")
    return {path: service.get(f"/api/v1/{path}") for path in paths}


@contextmanager
def _open(folder: Path) -> Generator[None]:
    """Have another process hold a store, as a collector does."""
    words = [sys.executable, "-c", _HOLDER, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline()
        yield
        child.communicate(b"end", 120)


def test_what_is_in_the_way_is_refused_with_what_to_do(
    folder: Path, url: str, tmp_path: Path, opened: Callable[[], FleetStore]
) -> None:
    """A collector that runs, a target with other data, two of one kind, a fleet that runs."""
    with _open(folder), pytest.raises(ConfigError, match=r"another collector .* has it open"):
        run(folder, url)
    with pytest.raises(ConfigError, match="one of them is a data folder"):
        run(folder, tmp_path / "x")
    with pytest.raises(ConfigError, match="no data of a fleet"):
        run(url, tmp_path / "x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    run(folder, url)
    with pytest.raises(ConfigError, match="is not empty"):
        run(url, tmp_path / "full")
    with pytest.raises(ConfigError, match="has a store of its own"):
        run(url, folder)
    _fill(tmp_path / "other", 3)
    with pytest.raises(ConfigError, match=r"has data of its own.*createdb"):
        run(tmp_path / "other", url)
    fleet = opened()
    share = fleet.take(1, "me", "topic")
    with pytest.raises(ConfigError, match=r"connections of Scouter: stop gateways"):
        run(url, tmp_path / "x")
    share.report_behind(5)
    share.close()
    fleet.close()
    with pytest.raises(ConfigError, match="partitions 1 of the fleet were behind"):
        run(url, tmp_path / "x")


def test_a_log_that_was_not_read_is_refused(tmp_path: Path, url: str) -> None:
    """What is in it alone would be missing; a collector reads it."""
    data = open_data(tmp_path / "data")
    data.log.append(Item(Kind.RECORDS, SPACE, 1, b"{}")).result(120)
    data.close()
    with pytest.raises(ConfigError, match=r"start a collector on it.*lag\.log_bytes"):
        run(tmp_path / "data", url)


def test_a_source_that_changed_meanwhile_is_refused(folder: Path, url: str) -> None:
    """Parts of two states are no copy of either."""
    _kill_after(2, folder, url)
    store = FileStore(folder)
    store.commit(Commit(records=[record("new")]))
    store.close()
    with pytest.raises(ConfigError, match="has changed since a part of it went to"):
        run(folder, url)
    other = folder.parent / "other"
    _fill(other, 3)
    with pytest.raises(ConfigError, match="a part of the data of another source"):
        run(other, url)


def test_a_database_that_goes_away_is_reported_with_what_to_do(
    folder: Path, own_server: PostgresqlServer
) -> None:
    """Nothing goes on by itself, as it does in a fleet."""
    own_server.new_database("x")
    url = f"postgresql://postgres@/x?host={own_server.folder}"
    parts: list[int] = []

    def crash(source: Any, target: Any, tell: Callable[[int, int], None]) -> Plan:
        def tell_once(done: int, total: int) -> None:
            tell(done, total)
            parts.append(done)
            if len(parts) == 3:
                own_server.crash()

        return copy_store(source, target, tell_once)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "PART_ROWS", 10)
        patch.setattr(copy_command, "copy_store", crash)
        with pytest.raises(TransientError, match=r"\): run this again, it goes on where it was$"):
            run(folder, url)
    own_server.start()
    assert "both sides are alike" in run(folder, url)


def test_what_differs_is_reported_with_exit_code_1(folder: Path, url: str) -> None:
    """The words name table, total and sheet."""
    run(folder, url)
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM records WHERE uid = 'u1'")
    output = run(folder, url, expected=1)
    assert "records: 30 rows in the source, 29 in the target" in output
    assert "sheet of space 'default', records" in output


def test_parts_follow_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit is in one part, and a part has no more rows than the bound, or one commit."""
    monkeypatch.setattr(copying, "PART_ROWS", 5)
    with closing(FileStore(tmp_path / "few")) as store:
        for n in (4, 8, 1, 0):  # and one of each commit itself
            store.write({"begun": [(SPACE, "u")] * n})
        parts = copying.parts_of(store, "offsets", -1, 6)
        assert [(each.after, each.until, each.rows, sorted(each.tables)) for each in parts] == [
            (-1, 1, 5, ["begun", "offsets"]),
            (1, 2, 9, ["begun", "offsets"]),
            (2, 6, 3, ["begun", "offsets"]),
        ]
        rest = copying.parts_of(store, "offsets", 2, 6)
        assert [(each.after, each.until) for each in rest] == [(2, 6)]
        assert list(copying.parts_of(store, "offsets", 4, 4)) == []
