"""Tokens of a fleet: one set for all processes, good while the database is away."""

import json
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from collector.access.caller import Scope
from collector.access.commands import token
from collector.access.gate import Gate
from collector.access.tokens import TokenFile
from collector.fleet.database import open_beside
from collector.fleet.tokens import FleetTokens
from collector.problem import ProblemError
from scouter.errors import ConfigError, TransientError
from tests.contracts.tokens import Clock, Make, PassTime, TokensContract
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until


class TestFleetTokens(TokensContract):
    """Fulfils the contract."""

    @pytest.fixture
    def made(self) -> Iterator[list[FleetTokens]]:
        made: list[FleetTokens] = []
        yield made
        for each in made:
            each.close()

    @pytest.fixture
    def make(self, url: str, clock: Clock, made: list[FleetTokens]) -> Make:
        def make() -> FleetTokens:
            made.append(FleetTokens(open_beside(url), clock.ns))
            return made[-1]

        return make

    @pytest.fixture
    def pass_time(self, clock: Clock, made: list[FleetTokens]) -> PassTime:
        def pass_time(seconds: float) -> None:
            clock.now += seconds
            for each in made:
                each.look()

        return pass_time


def test_a_thread_follows(url: str) -> None:
    with ExitStack() as stack:
        gateway, command = FleetTokens(open_beside(url)), FleetTokens(open_beside(url))
        stack.callback(command.close)
        stack.callback(gateway.close)
        gateway.start()
        made, text = command.create("", [Scope.INGEST], "shop")
        wait_until(lambda: gateway.find(text), what="the new token is good")
        command.revoke(made.id)
        wait_until(lambda: gateway.find(text) is None, what="the revoked one is not")


def test_what_is_known_stays_good_while_the_database_is_away(
    own_server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    """However long that is; only the end of a token counts. It and its end are reported once."""
    url = own_server.new_database("own")
    caplog.set_level(logging.INFO)
    clock = Clock()
    tokens = FleetTokens(open_beside(url), clock.ns)
    _, text = tokens.create("", [Scope.INGEST], "shop")
    _, short = tokens.create("", [Scope.INGEST], "shop", int((clock.now + 3_600) * 1e9))
    tokens.look()
    own_server.crash()
    for _ in range(3):
        tokens.look()
        clock.now += 1_000
        assert tokens.find(text) is not None
        assert tokens.find(short) is not None
    clock.now += 30 * 86_400
    assert (tokens.find(text) is None, tokens.find(short) is None) == (False, True)
    assert (tokens.has_any(), tokens.spaces()) == (True, {"shop"})
    assert "PostgreSQL at " in tokens.fault
    with pytest.raises(TransientError, match="PostgreSQL at "):
        tokens.all()
    with pytest.raises(TransientError, match="PostgreSQL at "):
        tokens.create("", [Scope.READ], "shop")
    (line,) = caplog.records
    assert "those that are known stay good: PostgreSQL at" in line.getMessage()
    own_server.start()

    def is_read() -> bool:
        tokens.look()
        return not tokens.fault

    wait_until(is_read, what="the database is back")
    assert len(tokens.all()) == 2
    assert [each.getMessage() for each in caplog.records[1:]] == ["tokens are read again"]
    tokens.close()


def test_nobody_waits_while_a_frozen_server_is_called(url: str) -> None:
    """Requests are answered in an event loop: it stands still for no look at the table."""
    session = open_beside(url)
    tokens = FleetTokens(session)
    _, text = tokens.create("", [Scope.INGEST], "shop")
    tokens.look()
    pid = session.read("SELECT pg_backend_pid()")[0][0]
    os.kill(pid, signal.SIGSTOP)
    looking = threading.Thread(target=tokens.look)
    try:
        looking.start()
        assert tokens.find(text) is not None
        assert (tokens.has_any(), tokens.spaces()) == (True, {"shop"})
        assert looking.is_alive()
    finally:
        os.kill(pid, signal.SIGCONT)
    looking.join()
    assert not tokens.fault
    tokens.close()


def test_who_never_read_them_lets_nobody_in(own_server: PostgresqlServer) -> None:
    """It says that it cannot know, and lets in as soon as it can."""
    url = own_server.new_database("own")
    clock = Clock()
    maker = FleetTokens(open_beside(url), clock.ns)
    _, text = maker.create("", [Scope.READ], "shop")
    maker.close()
    own_server.crash()
    tokens = FleetTokens(open_beside(url, clock=clock), clock.ns)
    gate = Gate(tokens, "default", requests_per_s=100, is_reachable=True, clock=clock)
    assert tokens.fault
    with pytest.raises(TransientError, match="cannot be read now"):
        tokens.has_any()
    with pytest.raises(ProblemError) as refused:
        gate.caller(f"Bearer {text}", "192.0.2.1")
    assert refused.value.status == 503
    own_server.start()
    clock.now += 1
    tokens.look()
    assert gate.caller(f"Bearer {text}", "192.0.2.1").space == "shop"
    tokens.close()


def test_that_there_are_none_does_not_stay_good(own_server: PostgresqlServer) -> None:
    """Somebody may make the first one where this process cannot see it."""
    url = own_server.new_database("own")
    tokens = FleetTokens(open_beside(url))
    assert not tokens.has_any()
    own_server.crash()
    tokens.look()
    with pytest.raises(TransientError, match="cannot be read now"):
        tokens.has_any()
    tokens.close()


def test_secrets_are_not_stored(url: str) -> None:
    session = open_beside(url)
    tokens = FleetTokens(session)
    _, text = tokens.create("ci", [Scope.READ], "default")
    rows = session.read("SELECT * FROM access_tokens")
    assert len(rows) == 1
    assert text.split("_", 2)[2] not in repr(rows)
    tokens.close()


def test_the_commands_take_a_database_in_place_of_a_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By option or by environment; what is on the command line goes before the environment."""
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    made = run(token, ["create", "--scope", "read", "--name", "ada", "--postgresql", url])
    assert made.exit_code == 0, made.output
    place = conninfo_to_dict(url)["host"]
    assert f"it is stored in PostgreSQL at {place}" in made.stderr
    tokens = FleetTokens(open_beside(url))
    found = tokens.find(made.stdout.strip())
    assert found is not None
    monkeypatch.setenv("SCOUTER_COLLECTOR_POSTGRESQL", url)
    monkeypatch.setenv("SCOUTER_COLLECTOR_DATA", str(tmp_path / "data"))
    (line,) = run(token, ["list", "--json"]).stdout.splitlines()
    assert (json.loads(line)["id"], json.loads(line)["name"]) == (found.id, "ada")
    assert run(token, ["revoke", found.id]).exit_code == 0
    again = run(token, ["revoke", found.id])
    assert isinstance(again.exception, ConfigError)
    assert f"no valid token '{found.id}' in PostgreSQL at" in str(again.exception)
    assert "revoked" in run(token, ["list"]).stdout
    assert list(tmp_path.iterdir()) == [], "no folder is made"

    here = run(token, ["create", "--scope", "read", "--data", "here"])
    assert TokenFile(tmp_path / "here").find(here.stdout.strip()) is not None
    both = run(token, ["list", "--data", "here", "--postgresql", url])
    assert str(both.exception) == "--data and --postgresql name two places; give one of them"
    tokens.close()


@pytest.mark.parametrize(
    "wrong", ["postgresql:/x:secret@host", "secret", "postgresql://h?no=secret"]
)
def test_a_url_that_is_none_is_refused_without_its_text(wrong: str) -> None:
    done = CliRunner().invoke(token, ["list", "--postgresql", wrong])
    assert isinstance(done.exception, ConfigError)
    assert "expected postgresql://USER@HOST" in str(done.exception)
    assert "secret" not in f"{done.exception} {done.output}"


def test_a_command_without_the_database_says_so(
    own_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its place, and without its password."""
    url = own_server.new_database("own")
    own_server.crash()
    monkeypatch.setenv("SCOUTER_COLLECTOR_POSTGRESQL_PASSWORD", "hunter2")
    for options in ([url], [f"{url} password=hunter2"]):
        done = CliRunner().invoke(token, ["create", "--scope", "read", "--postgresql", *options])
        assert isinstance(done.exception, TransientError)
        assert f"PostgreSQL at {own_server.folder}" in str(done.exception)
        assert "hunter2" not in f"{done.exception} {done.output}"
