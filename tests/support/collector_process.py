"""`scouter collector` as a program of its own, and its API as a test asks it."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, cast

import httpx

from tests.support.forked import ManagedFork
from tests.support.processes import PATIENCE_S, ManagedProcess, free_ports, wait_until

_WAITS: Final = (
    "--settle-s", "100ms", "--foreign-settle-s", "500ms", "--quiet-s", "1h", "--deadline-s", "1h",
)  # fmt: skip
"""Later flags win. A whole trace is judged soon, and none because the machine is busy."""
_BEHIND_S: Final = 60.0


def deliver(url: str, **body: Any) -> httpx.Response:
    """The answer to a request that is sent until it is accepted, as every exporter does.

    A gateway answers 503 while its broker is slow, which on a busy machine it is.
    """

    def accepted() -> httpx.Response | None:
        answer = httpx.post(url, timeout=120, **body)
        return None if answer.status_code in (429, 503) else answer.raise_for_status()

    return wait_until(accepted, what=f"{url} to accept", every_s=0.5)


class CollectorProcess:
    """A collector with its data in a folder; `start` again after `stop` or `kill` resumes.

    Args:
        folder: For data, output and the ready file.
        flags: Further flags of `scouter collector`.
    """

    module: ClassVar[str] = "scouter.cli.app"
    """Name of the program's module."""

    def __init__(self, folder: Path, *flags: str | Path) -> None:
        self.folder = folder
        self._flags = tuple(str(flag) for flag in flags)
        self._process: ManagedProcess | None = None
        self._http: httpx.Client | None = None
        (port,) = free_ports(1)
        self._listen = f"127.0.0.1:{port}"
        self._grpc: str = "off"

    @property
    def url(self) -> str:
        """`http://host:port`, also after a restart."""
        return f"http://{self._listen}"

    @property
    def address(self) -> str:
        """`host:port`."""
        return self._listen

    @property
    def grpc(self) -> str:
        """`host:port` of OTLP/gRPC, with the flag `--grpc 127.0.0.1:0`."""
        return self._grpc

    @property
    def process(self) -> ManagedProcess:
        """The running program."""
        assert self._process is not None, "the collector is not running"
        return self._process

    def command(self) -> list[str]:
        """The command that runs a module, whose name and arguments follow; none for a fork."""
        return []

    def environ(self) -> dict[str, str]:
        """The variables that it runs with."""
        found = {k: v for k, v in os.environ.items() if not k.startswith("SCOUTER_COLLECTOR_")}
        found.pop("PYTHONDONTWRITEBYTECODE", None)  # as installed, where all is compiled
        return found

    def start(self) -> None:
        """Start it and wait until it takes requests; always on the same port."""
        self._close_client()
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        command = self.command()
        run = ManagedProcess if command else ManagedFork
        self._process = run(
            [*command, self.module, "collector", *_WAITS,
             "--data", self.folder / "data", "--listen", self._listen, "--grpc", self._grpc,
             "--ready-file", ready,
             *self._flags],
            log=self.folder / "collector.log",
            env=self.environ(),
        )  # fmt: skip
        told = self._process.wait_ready(lambda: _read_json(ready))
        self._listen = str(told["listen"])
        self._grpc = str(told["grpc"] or "off")
        self._http = httpx.Client(base_url=self.url, timeout=120)

    def stop(self) -> int:
        """Ask it to end; returns its exit code."""
        self._close_client()
        process, self._process = self.process, None
        return process.stop()

    def kill(self) -> None:
        """`kill -9`, as a crash would."""
        self._close_client()
        process, self._process = self.process, None
        process.kill()

    def close(self) -> None:
        """End it if it runs."""
        if self._process is not None:
            self.stop()

    def _close_client(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None

    # --- what it says ---

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> dict[str, Any]:
        """One answer of the API, asked again while it may lack what was acknowledged before it."""
        assert self._http is not None, "the collector is not running"
        until = time.monotonic() + _BEHIND_S
        while True:
            answer = self._http.get(path, params=params)
            is_behind = "Scouter-Behind" in answer.headers
            if not is_behind or time.monotonic() > until:
                break
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return cast(dict[str, Any], answer.json())

    def evaluations(self, **filters: str) -> list[dict[str, Any]]:
        """All evaluations, page by page."""
        items: list[dict[str, Any]] = []
        params: dict[str, str | int] = {"limit": 100, **filters}
        while True:
            page = self.get("/api/v1/evaluations", params)
            items += page["items"]
            if not page["next_cursor"]:
                return items
            params["cursor"] = page["next_cursor"]

    def records(self) -> dict[str, int]:
        """The number of records in each state."""
        return cast(dict[str, int], self.get("/api/v1/conservation")["records"])

    def wait_evaluated(self, count: int, *, timeout_s: float = PATIENCE_S) -> None:
        """Wait until so many records are evaluated.

        Raises:
            AssertionError: They are not in time; shows every state and the last output.
        """

        def enough() -> bool:
            assert self._http is not None
            answer = self._http.get("/api/v1/conservation")
            if answer.status_code == 503:  # a store that is short of memory answers later
                return False
            assert answer.is_success, answer.text
            return answer.json()["records"]["evaluated"] >= count

        try:
            wait_until(enough, what=f"{count} records evaluated", timeout_s=timeout_s, every_s=0.05)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; {self.get('/api/v1/conservation')}\n{self.process.tail()}"
            ) from None

    def metrics(self) -> dict[str, float]:
        """All samples of `/metrics` by their text, such as `scouter_spans_received_total{…}`."""
        assert self._http is not None
        lines = self._http.get("/metrics").text.splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        return {name: float(value) for name, value in pairs}


class CollectorProgram(CollectorProcess):
    """A collector whose interpreter is started, too, as a user starts it: for benchmarks."""

    def command(self) -> list[str]:
        return [sys.executable, "-m"]


def tasks_by_id(evaluation: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The task results of one evaluation by task id."""
    tasks = cast(Sequence[dict[str, Any]], evaluation["tasks"])
    return {task["task_id"]: task for task in tasks}


def _read_json(path: Path) -> dict[str, Any] | None:
    """The file's content once it is complete."""
    try:
        return cast(dict[str, Any], json.loads(path.read_text()))
    except (FileNotFoundError, json.JSONDecodeError):
        return None
