"""Tokens: what lets somebody in, what does not any more, and what is kept of them."""

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


class Clock:
    """Time that the test moves: wall clock and monotonic alike, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def ns(self) -> int:
        return int(self.now * 1e9)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> TokenFile:
    return TokenFile(tmp_path, clock.ns, clock)


def test_a_token_lets_in_with_its_scopes_and_space(tokens: TokenFile) -> None:
    assert not tokens.has_any()
    made, text = tokens.create("ci", [Scope.READ, Scope.INGEST], "shop")
    assert tokens.has_any() is False  # a moment ago: it is followed, not asked each time
    assert tokens.all() == [made]
    found = tokens.find(text)
    assert found is not None
    assert (found.space, found.scopes) == ("shop", {Scope.READ, Scope.INGEST})
    assert tokens.spaces() == {"shop"}


def test_it_ends_when_it_expires(tokens: TokenFile, clock: Clock) -> None:
    _, text = tokens.create("", [Scope.READ], "default", expires_ns=int(1010e9))
    clock.now = 1009.9
    assert tokens.find(text) is not None
    clock.now = 1010.0
    assert tokens.find(text) is None
    assert tokens.has_any()


def test_another_process_that_revokes_it_is_followed(tmp_path: Path, clock: Clock) -> None:
    collector = TokenFile(tmp_path, clock.ns, clock)
    command = TokenFile(tmp_path, clock.ns, clock)
    made, text = command.create("", [Scope.READ], "default")
    clock.now += 0.5
    assert collector.find(text) is not None
    assert command.revoke(made.id)
    assert not command.revoke(made.id)
    clock.now += 0.5
    assert collector.find(text) is None
    assert [each.revoked_ns for each in collector.all()] == [int(1000.5e9)]


def test_a_text_that_is_almost_a_token(tokens: TokenFile, clock: Clock) -> None:
    _, text = tokens.create("", [Scope.READ], "default")
    clock.now += 1
    assert tokens.find(text) is not None
    for wrong in (
        text[:-1],
        text + "A",
        text.swapcase(),
        text.replace("sct_", "sct-", 1),
        text[:17] + "A" * 43,
        "sct_" + "0" * 12 + text[16:],
        f"{text} ",
        "",
    ):
        assert tokens.find(wrong) is None


@given(text=st.text())
def test_no_text_is_a_token_by_chance(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    tokens = TokenFile(tmp_path_factory.getbasetemp() / "chance")
    tokens.create("", [Scope.READ], "default") if not tokens.all() else None
    assert tokens.find(text) is None


def test_secrets_are_not_kept_and_the_file_is_for_its_owner(tmp_path: Path) -> None:
    _, text = TokenFile(tmp_path).create("ci", [Scope.READ], "default")
    secret = text.split("_", 2)[2]
    assert secret.encode() not in (tmp_path / FILE_NAME).read_bytes()
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600


def test_a_token_without_scope_is_refused(tokens: TokenFile) -> None:
    with pytest.raises(ConfigError, match="needs a scope: ingest, read, label, profile, admin"):
        tokens.create("", [], "default")


@pytest.mark.parametrize("space", ["", "a\nb", "\x1b[31m", "\u2028", "x" * 129])
def test_tokens_and_settings_have_one_rule_for_spaces(tokens: TokenFile, space: str) -> None:
    with pytest.raises(ConfigError, match=r"--space.*1 to 128 printable"):
        tokens.create("", [Scope.READ], space)
    with pytest.raises(ConfigError, match=r"--space.*1 to 128 printable"):
        load_settings({"space": space})
    assert not tokens.all()


@pytest.mark.parametrize("space", ["x", "a b", "Zürich / 1", "x" * 128])
def test_spaces_that_both_take(tokens: TokenFile, space: str) -> None:
    assert tokens.create("", [Scope.READ], space)[0].space == load_settings({"space": space}).space


@pytest.mark.parametrize("age_ns", [0, -1, 2**63 - int(1000e9), 2**80])
def test_a_token_that_never_lets_in_or_ends_too_late_is_refused(
    tokens: TokenFile, age_ns: int
) -> None:
    """The clock is at 1000 s; the last nanosecond that a column holds is 2**63 - 1."""
    with pytest.raises(ConfigError, match=r"^--expires: .* before the year 2262"):
        tokens.create("", [Scope.READ], "default", int(1000e9) + age_ns)
    assert not tokens.all()


def test_the_longest_and_the_shortest_life(tokens: TokenFile) -> None:
    for end_ns in (2**63 - 1, int(1000e9) + 1):
        assert tokens.create("", [Scope.READ], "default", end_ns)[0].expires_ns == end_ns
    assert {each.expires_ns for each in tokens.all()} == {2**63 - 1, int(1000e9) + 1}


@pytest.mark.parametrize("age", ["0", "0d", "0.0000000001", "110000d", "9" * 400 + "d"])
def test_an_age_that_is_none_is_refused_by_the_command(tmp_path: Path, age: str) -> None:
    made = ["create", "--scope", "read", "--expires", age, "--data", str(tmp_path / "data")]
    done = CliRunner().invoke(token, made)
    assert isinstance(done.exception, ConfigError), done.output
    assert str(done.exception).startswith("--expires: a token ends after it is made")
    assert not (tmp_path / "data").exists()


def test_a_new_token_says_where_it_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is relative to the working folder is told in full; the token stands alone."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(token, ["create", "--scope", "read", "--data", "here"])
    assert done.exit_code == 0, done.output
    assert f"in the data folder {(tmp_path / 'here').resolve()}, and is not" in done.stderr
    assert TokenFile(tmp_path / "here").find(done.stdout.strip()) is not None


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
    told = json.loads(line)
    assert (told["id"], told["scopes"], told["state"]) == (made.id, "read", "valid")
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
    assert tokens.find(text) is not None  # what it held is good for ten seconds
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
