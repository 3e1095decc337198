"""`scouter collector backup`, `restore`, `export` and `check` on real stores."""

import asyncio
import os
import shutil
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.care.data_folder import known_backups
from collector.care.table_export import EXPORTED
from collector.judging.answers import FILE_NAME as ANSWERS_NAME
from collector.settings.model import CollectorSettings
from collector.settings.page import settings_page
from collector.store.erase import EraseTarget
from collector.store.files import FIRST_FILE
from collector.store.ledger import LEDGER_NAME
from scouter.agent.budget import ALL_ENTRIES
from scouter.agent.cache import SqliteCache
from scouter.agent.ledger import Account, Reserved, SqliteLedger
from scouter.cli.app import make_app
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.judge.port import JudgeReply
from tests.collector.conftest import Start
from tests.contracts.store_data import SPACE, evaluation, letter, record, span
from tests.support.served import serve
from tests.support.store_appends import AppendingStore


def run(*words: object) -> tuple[int, str]:
    """Run the program; an error that a person can mend is raised."""
    done = CliRunner().invoke(make_app(), ["collector", *map(str, words)], env={"COLUMNS": "80"})
    if isinstance(done.exception, ConfigError):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A closed store with two records, two spans in two commits, an evaluation and a token."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    store = AppendingStore(folder)
    store.append_records([record("u1", trace_id="a" * 32), record("u2")]).result()
    for number in (1, 2):
        spans = [span(number, trace_id="a" * 32, attributes={"text": "long " * 30})]
        store.append_spans(SPACE, spans, 1).result()
    store.append_evaluations([evaluation("u1")]).result()
    store.append_dead_letters([letter()]).result()
    store.close()
    TokenFile(folder).create("me", [Scope.ADMIN], SPACE)
    return folder


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(whole, tmp_path / "data"))


def change(data: Path, *statements: str) -> None:
    with duckdb.connect(str(data / FIRST_FILE)) as connection:
        for each in statements:
            connection.execute(each)


def test_check_shows_the_sheet_of_a_whole_store(data: Path) -> None:
    before = {file: file.read_bytes() for file in data.rglob("*") if file.is_file()}
    code, output = run("check", "--data", data)
    assert (code, "all is well" in output) == (0, True), output
    rows = {line.split("│")[1].strip(): line.split("│")[2:5] for line in output.splitlines()
            if line.count("│") == 5}  # fmt: skip
    sheet = {name: [cell.strip() for cell in cells] for name, cells in rows.items()}
    assert sheet["accepted"] == ["2", "2", "0"]
    assert (sheet["waiting"], sheet["evaluated"]) == (["1", "", ""], ["1", "", ""])
    assert sheet["stored"] == ["", "2", "0"]
    assert "2 spans, 0 items" in output
    # The spans came at 1 ns, as the fixture says; the records when the test data say.
    assert "received from 1970-01-01T00:00:00" in output
    assert {file: file.read_bytes() for file in data.rglob("*") if file.is_file()} == before


def test_check_shows_names_as_they_are(data: Path) -> None:
    """Neither as rich's markup, of which this one is faulty, nor as orders to the terminal."""
    store = AppendingStore(data)
    store.append_records([record("u\x1b[2J", space="[/]sp\x1b[2J")]).result()
    store.close()
    code, output = run("check", "--data", data)
    assert (code, "space [/]sp\\x1b[2J" in output) == (0, True), output


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        pytest.param(["INSERT INTO records FROM records LIMIT 1"], "2 rows with the key", id="key"),
        pytest.param(["DELETE FROM records WHERE uid = 'u2'"], "2 records were accepted, 1 have",
                     id="lost-record"),
        pytest.param(["DELETE FROM spans"], "2 spans were accepted, 0 are stored", id="lost-spans"),
        pytest.param(["DELETE FROM evaluations"], "1 task results without", id="orphans"),
        pytest.param(["DELETE FROM bodies"], "2 spans whose bytes are gone", id="bodies"),
    ],
)  # fmt: skip
def test_check_finds_what_is_wrong_with_rows(data: Path, statements: list[str], said: str) -> None:
    change(data, *statements)
    code, output = run("check", "--data", data)
    assert (code, said in output) == (1, True), output


def test_a_damaged_block_is_found_and_reported(data: Path) -> None:
    """One bit of a text that no key and no count has; every other row is whole."""
    store = AppendingStore(data)
    store.append_records([record("u3", context={"text": "MARKER" * 2000})]).result()
    store.close()
    assert run("check", "--data", data)[0] == 0
    file = data / FIRST_FILE
    content = bytearray(file.read_bytes())
    content[content.index(b"MARKERMARKER")] ^= 1
    file.write_bytes(content)
    code, output = run("check", "--data", data)
    assert (code, "table records: the column context is damaged" in output) == (1, True), output
    assert "waiting" in output  # what can be counted is shown all the same
    store = AppendingStore(data)
    with pytest.raises(TransientError, match="the store is damaged; stop the collector"):
        store.records_of(SPACE, ["u3"])
    assert store.conservation(SPACE).records.accepted == 3
    store.close()


def test_check_of_a_store_with_something_erased(data: Path) -> None:
    store = AppendingStore(data)
    store.erase(EraseTarget(space=SPACE, trace_id="a" * 32))
    store.purge()
    store.close()
    code, output = run("check", "--data", data)
    assert (code, "all is well" in output) == (0, True), output


def test_a_backup_is_restored_with_its_tokens(data: Path, tmp_path: Path) -> None:
    code, output = run("backup", tmp_path / "backup", "--data", data)
    assert code == 0, output
    (known,) = known_backups(data)
    assert known.path == str(tmp_path / "backup")
    code, output = run("restore", tmp_path / "backup", "--data", tmp_path / "again")
    assert (code, "one that was revoked since lets in again" in output) == (0, True)
    assert (tmp_path / "again" / FIRST_FILE).read_bytes() == (data / FIRST_FILE).read_bytes()
    assert [each.name for each in TokenFile(tmp_path / "again").all()] == ["me"]
    assert run("check", "--data", tmp_path / "again")[0] == 0


def test_a_backup_has_what_was_spent_and_no_answers(data: Path, tmp_path: Path) -> None:
    """Also what a collector that was killed left in the log beside the ledger."""
    account = Account(name=ALL_ENTRIES, day="2026-11-23", limit_nano_usd=100)
    ledger = SqliteLedger(data / LEDGER_NAME)
    reserved = asyncio.run(ledger.reserve([account], 40))
    assert isinstance(reserved, Reserved)
    asyncio.run(ledger.settle(reserved, 30))
    asyncio.run(ledger.reserve([account], 25))
    cache = SqliteCache(data / ANSWERS_NAME)
    asyncio.run(cache.put(b"key", JudgeReply(response="of an erased record")))
    cache.close()

    assert run("backup", tmp_path / "backup", "--data", data)[0] == 0
    ledger.close()
    assert run("restore", tmp_path / "backup", "--data", tmp_path / "again")[0] == 0

    for folder in (tmp_path / "backup", tmp_path / "again"):
        assert not [file for file in folder.iterdir() if file.name.startswith(ANSWERS_NAME)]
        assert (folder / LEDGER_NAME).stat().st_mode & 0o777 == 0o600
        copy = SqliteLedger(folder / LEDGER_NAME)
        amounts = copy.spent_nano_usd, copy.reserved_nano_usd
        assert [asyncio.run(each(ALL_ENTRIES, account.day)) for each in amounts] == [55, 25]
        copy.close()
    assert (data / ANSWERS_NAME).exists(), "only a copy is without"


def test_a_restored_store_knows_its_backups(data: Path, tmp_path: Path) -> None:
    """The one that it is made of, wherever that is now, and those that were made before."""
    for name in ("first", "second"):
        assert run("backup", tmp_path / name, "--data", data)[0] == 0
    times = {Path(each.path).name: each.made_ns for each in known_backups(data)}
    (tmp_path / "second").rename(tmp_path / "moved")
    (tmp_path / "first").rename(tmp_path / "stays")
    for source, others in (("moved", ["first", "second"]), ("stays", ["first"])):
        assert run("restore", tmp_path / source, "--data", tmp_path / f"of {source}")[0] == 0
        known = known_backups(tmp_path / f"of {source}")
        assert [Path(each.path).name for each in known] == [*others, source]
        assert all(times.get(Path(each.path).name, each.made_ns) == each.made_ns for each in known)


@pytest.mark.parametrize("content", ["[", "{}", '[{"path": "x"}]', "7"])
def test_a_list_of_backups_that_cannot_be_read(data: Path, tmp_path: Path, content: str) -> None:
    """Nothing is written in its place: nobody would know of the backups any more."""
    assert run("backup", tmp_path / "whole", "--data", data)[0] == 0
    for folder in (data, tmp_path / "whole"):
        (folder / "backups.json").write_text(content)
    for words in (("backup", tmp_path / "new", "--data", data),
                  ("restore", tmp_path / "whole", "--data", tmp_path / "new")):  # fmt: skip
        with pytest.raises(ConfigError, match=r"backups\.json cannot be read"):
            run(*words)
    assert not (tmp_path / "new").exists()
    assert (data / "backups.json").read_text() == content


def test_no_copy_is_made_of_what_was_erased(data: Path, tmp_path: Path) -> None:
    store = AppendingStore(data)
    store.erase(EraseTarget(space=SPACE, trace_id="a" * 32))
    store.close()
    with pytest.raises(ConfigError, match="still hold bytes of what was erased"):
        run("backup", tmp_path / "backup", "--data", data)
    assert not (tmp_path / "backup").exists()
    store = AppendingStore(data)
    store.purge()
    store.close()
    assert run("backup", tmp_path / "backup", "--data", data)[0] == 0


def test_restore_and_backup_overwrite_nothing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    for words in (("restore", data, "--data", tmp_path / "full"),
                  ("backup", tmp_path / "full", "--data", data)):  # fmt: skip
        with pytest.raises(ConfigError, match="is not empty"):
            run(*words)
    assert [each.name for each in (tmp_path / "full").iterdir()] == ["mine"]
    assert known_backups(data) == []


def test_every_command_refuses_what_is_no_store(tmp_path: Path) -> None:
    """And makes nothing there."""
    for words in (("check",), ("export", tmp_path / "x"), ("backup", tmp_path / "x")):
        with pytest.raises(ConfigError, match="no store in"):
            run(*words, "--data", tmp_path / "none")
    with pytest.raises(ConfigError, match="no store in"):
        run("restore", tmp_path / "none", "--data", tmp_path / "y")
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_a_collector_has_open(start: Start, tmp_path: Path) -> None:
    """In this process DuckDB itself says so; `backup` asks the collector instead."""
    start()
    with pytest.raises(ConfigError, match="cannot open the store"):
        run("check", "--data", tmp_path / "data")


def test_a_running_collector_is_backed_up(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name below the collector's folder of backups; what is restored is whole."""
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    service = start(backups=tmp_path / "backups", deadline_s="1h")
    service.send(*({"uid": f"u{n}", "profile": "later"} for n in range(3)))
    service.wait_for(3, "accepted")
    with serve(service.collector.app) as url:
        done = run("backup", "monday", "--server", url)
        assert done == (0, f"{tmp_path / 'backups' / 'monday'}, on the collector's machine\n")
        for name in ("monday", "../elsewhere", str(tmp_path / "elsewhere"), ""):
            code, _ = run("backup", name, "--server", url)
            assert code != 0, name
        assert [each.name for each in (tmp_path / "backups").iterdir()] == ["monday"]
    code, _ = run("backup", "tuesday", "--server", url)
    assert code != 0
    assert run("restore", tmp_path / "backups" / "monday", "--data", tmp_path / "y")[0] == 0
    code, output = run("check", "--data", tmp_path / "y")
    assert (code, "all is well" in output) == (0, True)
    store = AppendingStore(tmp_path / "y")
    assert {row.uid for row in store.records_of(SPACE, ["u0", "u1", "u2"])} == {"u0", "u1", "u2"}
    store.close()


def test_a_backup_by_nobody_names_the_option_that_the_command_has() -> None:
    done = CliRunner().invoke(
        make_app(), ["collector", "backup", "monday", "--server", "http://127.0.0.1:1"]
    )
    assert isinstance(done.exception, TransientError)
    message = str(done.exception)
    assert message.startswith("--server http://127.0.0.1:1: ConnectError: ")
    assert "url" not in message


def test_a_backup_of_a_guarded_collector_needs_its_token(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One with the scope `admin`, from the environment and never from the command line."""
    monkeypatch.delenv("SCOUTER_AUTH_TOKEN", raising=False)
    tokens = TokenFile(tmp_path / "data")
    texts = {each: tokens.create(each, [each], SPACE)[1] for each in (Scope.READ, Scope.ADMIN)}
    with serve(start(backups=tmp_path / "backups").collector.app) as url:
        codes = [run("backup", "none", "--server", url)[0]]
        for name, made in texts.items():
            monkeypatch.setenv("SCOUTER_AUTH_TOKEN", made)
            codes.append(run("backup", name, "--server", url)[0])
    assert [code == 0 for code in codes] == [False, False, True]
    assert [each.name for each in (tmp_path / "backups").iterdir()] == ["admin"]


def test_what_a_command_writes_is_for_nobody_else(data: Path, tmp_path: Path) -> None:
    """It holds for any umask, and in folders that others may read; the old umask is back then."""
    old = os.umask(0o022)
    try:
        (tmp_path / "tables").mkdir(mode=0o755)
        assert run("export", tmp_path / "tables", "--data", data)[0] == 0
        assert run("backup", tmp_path / "copy", "--data", data)[0] == 0
        assert run("restore", tmp_path / "copy", "--data", tmp_path / "again")[0] == 0
    finally:
        assert os.umask(old) == 0o022
    for folder in ("tables", "copy", "again"):
        files = [each for each in (tmp_path / folder).rglob("*") if each.is_file()]
        assert files
        assert [each for each in files if each.stat().st_mode & 0o077] == []


def test_export_writes_every_table(data: Path, tmp_path: Path) -> None:
    code, output = run("export", tmp_path / "tables", "--data", data)
    assert code == 0, output
    assert {file.stem for file in (tmp_path / "tables").iterdir()} == set(EXPORTED)


def test_help_cuts_no_name_off() -> None:
    """At 80 columns every setting that has a flag is there with its variable and its default."""
    output = run("--help")[1]
    words = output.replace("[", " ").replace("]", " ").replace(";", " ").split()
    for name, field in CollectorSettings.model_fields.items():
        if "SecretStr" not in str(field.annotation) and name != "providers":
            assert f"SCOUTER_COLLECTOR_{name.upper()}" in words, name
            assert f"--{name.replace('_', '-')}" in words
    assert "default: 127.0.0.1:4318]" in " ".join(output.split())
    assert max(map(len, output.splitlines())) <= 80
    for command in ("backup", "restore", "export", "check"):
        assert f"scouter collector {command} " in run(command, "--help")[1]


def test_settings_in_front_of_a_command_are_refused(data: Path) -> None:
    with pytest.raises(ConfigError, match="--space in front of a command"):
        run("--space", "x", "check", "--data", data)


def test_the_page_of_settings_is_up_to_date() -> None:
    """Else: python -m collector.settings.page > docs/settings.md."""
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text(encoding="utf-8") == settings_page()
    for name in CollectorSettings.model_fields:
        assert f"| `{name}` |" in settings_page()


def test_an_empty_folder_is_no_backup(data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "copy")
    (tmp_path / "copy" / FIRST_FILE).write_bytes(b"no database")
    with pytest.raises(ConfigError, match="cannot open"):
        run("restore", tmp_path / "copy", "--data", tmp_path / "new")
