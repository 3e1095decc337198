"""Tokens: what lets somebody in, what does not any more, and what is stored of them."""

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from collector.access.caller import Scope
from collector.access.commands import token
from collector.access.tokens import FILE_NAME, TokenFile
from collector.settings.load import load_settings
from scouter.errors import ConfigError, TransientError
from tests.contracts.tokens import Clock, Make, PassTime, TokensContract


class TestTokenFile(TokensContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, tmp_path: Path, clock: Clock) -> Make:
        return lambda: TokenFile(tmp_path, clock.ns, clock)

    @pytest.fixture
    def pass_time(self, clock: Clock) -> PassTime:
        def pass_time(seconds: float) -> None:
            clock.now += seconds

        return pass_time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@given(text=st.text())
def test_no_text_is_a_token_by_chance(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    tokens = TokenFile(tmp_path_factory.getbasetemp() / "chance")
    tokens.create("", [Scope.READ], "default") if not tokens.all() else None
    assert tokens.find(text) is None


def test_secrets_are_not_stored_and_the_file_is_for_its_owner(tmp_path: Path) -> None:
    _, text = TokenFile(tmp_path).create("ci", [Scope.READ], "default")
    secret = text.split("_", 2)[2]
    assert secret.encode() not in (tmp_path / FILE_NAME).read_bytes()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("space", ["", "a\nb", "\x1b[31m", "\u2028", "x" * 129])
def test_tokens_and_settings_have_one_rule_for_spaces(tmp_path: Path, space: str) -> None:
    with pytest.raises(ConfigError, match=r"--space.*1 to 128 printable"):
        TokenFile(tmp_path).create("", [Scope.READ], space)
    with pytest.raises(ConfigError, match=r"--space.*1 to 128 printable"):
        load_settings({"space": space})


@pytest.mark.parametrize("space", ["x", "a b", "Zürich / 1", "x" * 128])
def test_spaces_that_both_take(tmp_path: Path, space: str) -> None:
    made, _ = TokenFile(tmp_path).create("", [Scope.READ], space)
    assert made.space == load_settings({"space": space}).space


@pytest.mark.parametrize("age", ["0", "0d", "0.0000000001", "110000d", "9" * 400 + "d"])
def test_an_age_that_is_none_is_refused_by_the_command(tmp_path: Path, age: str) -> None:
    made = ["create", "--scope", "read", "--expires", age, "--data", str(tmp_path / "data")]
    done = CliRunner().invoke(token, made)
    assert isinstance(done.exception, ConfigError), done.output
    assert str(done.exception).startswith("--expires: a token ends after it is made")
    assert not (tmp_path / "data").exists()


def test_a_new_token_says_where_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is relative to the working folder is shown in full; the token stands alone."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(token, ["create", "--scope", "read", "--data", "here"])
    assert done.exit_code == 0, done.output
    assert f"in the data folder {(tmp_path / 'here').resolve()}, and is not" in done.stderr
    assert TokenFile(tmp_path / "here").find(done.stdout.strip()) is not None


def test_the_first_token_says_that_it_closes_the_collector(tmp_path: Path) -> None:
    """Once: the second one changes nothing for others, also if the first one is revoked."""
    makes = ["create", "--scope", "ingest", "--data", str(tmp_path)]
    first = CliRunner().invoke(token, makes)
    assert "from now on the collector asks every caller for a token" in first.stderr
    (made,) = TokenFile(tmp_path).all()
    assert TokenFile(tmp_path).revoke(made.id)
    assert "from now on" not in CliRunner().invoke(token, makes).stderr


def test_reading_writes_nothing(tmp_path: Path) -> None:
    """Neither where there is no token yet, nor where there is one."""
    for arguments in (["list"], ["revoke", "3f9c2ab04d11"]):
        CliRunner().invoke(token, [*arguments, "--data", str(tmp_path)])
        assert list(tmp_path.iterdir()) == []
    tokens = TokenFile(tmp_path / "none")
    assert not tokens.has_any()
    assert not tokens.revoke("3f9c2ab04d11")
    assert (tokens.all(), tokens.spaces()) == ([], frozenset())
    assert not (tmp_path / "none").exists()
    made, _ = TokenFile(tmp_path).create("", [Scope.READ], "default")
    file = tmp_path / FILE_NAME
    before = file.stat(), file.read_bytes()
    done = CliRunner().invoke(token, ["list", "--data", str(tmp_path)])
    assert made.id in done.output
    done = CliRunner().invoke(token, ["list", "--json", "--data", str(tmp_path)])
    (line,) = done.stdout.splitlines()
    listed = json.loads(line)
    assert (listed["id"], listed["scopes"], listed["state"]) == (made.id, "read", "valid")
    assert (file.stat().st_mtime_ns, file.read_bytes()) == (before[0].st_mtime_ns, before[1])


def test_what_a_killed_writer_left_is_taken_back(tmp_path: Path) -> None:
    """Its journal is beside the file; without undoing that, nothing of the file could be read."""
    made, _ = TokenFile(tmp_path / "a").create("", [Scope.READ], "default")
    (tmp_path / "b").mkdir()
    with closing(sqlite3.connect(tmp_path / "a" / FILE_NAME)) as writer:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN IMMEDIATE")
        writer.executemany(
            "INSERT INTO tokens VALUES (?, '', x'00', 'read', 'default', 0, NULL, NULL)",
            ((f"{n:0500}",) for n in range(500)),
        )
        for file in (tmp_path / "a").iterdir():  # as they are at this moment
            shutil.copy(file, tmp_path / "b")
        writer.rollback()
    assert (tmp_path / "b" / f"{FILE_NAME}-journal").stat().st_size > 0
    assert TokenFile(tmp_path / "b").all() == [made]


def test_nobody_is_let_in_while_the_file_cannot_be_read(tmp_path: Path, clock: Clock) -> None:
    """Neither with a token nor without one: it may say that one is needed."""
    tokens = TokenFile(tmp_path, clock.ns, clock)
    _, text = tokens.create("", [Scope.READ], "default")
    clock.now += 1
    assert tokens.find(text) is not None
    os.replace(tmp_path / FILE_NAME, tmp_path / "elsewhere")
    clock.now += 9
    assert tokens.find(text) is not None  # what it had is good for ten seconds
    clock.now += 1.5
    with pytest.raises(TransientError, match="tokens cannot be read"):
        tokens.find(text)
    with pytest.raises(TransientError):
        tokens.has_any()
    os.replace(tmp_path / "elsewhere", tmp_path / FILE_NAME)
    assert tokens.find(text) is not None


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a database" * 100)
    with pytest.raises(ConfigError, match=r"cannot use the tokens in .*access\.db"):
        TokenFile(tmp_path)


def test_a_file_that_is_locked_can_be_written_later(tmp_path: Path, clock: Clock) -> None:
    tokens = TokenFile(tmp_path, clock.ns, clock)
    other = sqlite3.connect(tmp_path / FILE_NAME)
    other.execute("BEGIN EXCLUSIVE")
    other.rollback()
    other.close()
    tokens.create("", [Scope.READ], "default")
    assert len(tokens.all()) == 1
