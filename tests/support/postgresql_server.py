"""A real PostgreSQL server with a cluster of its own, behind a socket in its folder."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import psycopg

from tests.support.components import require
from tests.support.processes import ManagedProcess, wait_until

_DEBIAN: Final = Path("/usr/lib/postgresql")
"""Folder in which Debian has a folder of programs for each version."""
_USER: Final = "postgres"
"""The user that the server runs as where the tests are root's: it refuses to be root."""


def _program(name: str) -> Path:
    on_path = shutil.which(name)
    found = [Path(on_path)] if on_path else sorted(_DEBIAN.glob(f"*/bin/{name}"), reverse=True)
    require("postgresql", present=bool(found), detail=f"no program {name!r}")
    return found[0]


_AS_USER: Final = ("runuser", "-u", _USER, "--") if os.geteuid() == 0 else ()


@cache
def _new_cluster() -> Path:
    """Folder of a cluster as `initdb` makes it, which takes longer than to copy it."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    atexit.register(shutil.rmtree, folder)
    if _AS_USER:
        shutil.chown(folder, _USER)
    subprocess.run(
        [*_AS_USER, _program("initdb"), "--pgdata", folder / "data", "--username", _USER,
         "--auth", "trust", "--encoding", "UTF8", "--no-sync"],
        cwd=folder, check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return folder / "data"


class PostgresqlServer:
    """A server of our own: nothing that it writes outlives it.

    Args:
        settings: Settings of PostgreSQL, as `NAME=VALUE`.
    """

    def __init__(self, *settings: str) -> None:
        self._settings = [word for each in ("fsync=off", *settings) for word in ("-c", each)]
        self._postgres = _program("postgres")
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))  # its path must be short for a socket
        if _AS_USER:
            shutil.chown(self.folder, _USER)
        self._data = self.folder / "data"
        subprocess.run(["cp", "-a", _new_cluster(), self._data], check=True)  # with the owner
        self.start()

    def start(self) -> None:
        """Begin, also again after a crash."""
        self._process = ManagedProcess(
            [*_AS_USER, self._postgres, "-D", self._data, "-k", self.folder,
             "-c", "listen_addresses=", *self._settings],
            log=self.folder / "output", cwd=self.folder,
        )  # fmt: skip
        self._process.wait_ready(self._answers)

    def crash(self) -> None:
        """End as a power cut would: nothing is finished; what was committed is there again."""
        self._end(signal.SIGQUIT)

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        """A connection of which every statement is a transaction; parameters are `$1` and so on."""
        return psycopg.connect(
            host=str(self.folder), user=_USER, dbname="postgres", autocommit=True,
            cursor_factory=psycopg.RawCursor,
        )  # fmt: skip

    def new_database(self, name: str, pattern: str = "template1") -> str:
        """Make a database like another one; returns its address."""
        self._run(f"CREATE DATABASE {name} TEMPLATE {pattern} STRATEGY FILE_COPY")
        return f"host={self.folder} user={_USER} dbname={name}"

    def drop_database(self, name: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with self.connect() as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        """End the server and remove its folder."""
        self._end(signal.SIGINT)
        shutil.rmtree(self.folder)

    def _end(self, how: signal.Signals) -> None:
        """End the server; told itself, as `runuser` takes two seconds to pass anything on."""
        if self._process.is_running:
            os.kill(int((self._data / "postmaster.pid").read_text().split()[0]), how)
            wait_until(lambda: not self._process.is_running, what="the server has ended")
        self._process.stop()

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True
