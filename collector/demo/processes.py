"""The demo's other processes: the collector, and one agent process per release."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scouter.errors import ScouterError

_START_S: Final = 300.0
_STOP_S: Final = 15.0


class DemoError(ScouterError):
    """A part of the demo did not do its work; says which, and what it printed."""


@contextmanager
def running_collector(data: Path, profiles: tuple[str, ...]) -> Generator[str]:
    """Run `scouter collector` on a free port of this machine, and stop it afterwards.

    Args:
        data: Its folder; logs go there too.
        profiles: Names of ready-made profiles.

    Yields:
        Its address, such as `http://127.0.0.1:40123`.

    Raises:
        DemoError: It did not start; carries the end of its log.
    """
    ready, log = data / "ready.json", data / "collector.log"
    flags = [flag for name in profiles for flag in ("--profile", name)]
    command = [sys.executable, "-m", "scouter.cli.app", "collector", "--listen", "127.0.0.1:0",
               "--grpc", "off", "--session-quiet-s", "2s"]  # fmt: skip
    command += ["--data", str(data / "store"), "--ready-file", str(ready), *flags]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 our own command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        yield f"http://{_wait_until_ready(process, ready, log)}"
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_agent(release: str, count: int, collector_url: str, on_answer: Callable[[], None]) -> None:
    """Run one release of the agent in a process of its own until it has answered everything.

    Args:
        release: Version of the agent.
        count: Number of questions that it gets.
        collector_url: Address of the collector that gets its spans and records.
        on_answer: Called after each answer.

    Raises:
        DemoError: It failed; carries what it printed.
    """
    resource = f"service.name=support-desk,service.version={release}"
    process = subprocess.Popen(  # noqa: S603 our own command
        [sys.executable, "-m", "collector.demo.live", release, str(count), collector_url],
        env=os.environ | {"OTEL_RESOURCE_ATTRIBUTES": resource},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    )
    printed: list[str] = []
    assert process.stdout is not None  # noqa: S101 PIPE was requested
    with process, process.stdout as lines:
        for line in lines:
            printed.append(line)
            on_answer()
    if process.returncode != 0:
        text = "".join(printed[-20:])
        raise DemoError(f"the agent {release} ended with code {process.returncode}:\n{text}")


def _wait_until_ready(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        if ready.exists():
            return str(json.loads(ready.read_text(encoding="utf-8"))["listen"])
        time.sleep(0.02)
    text = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise DemoError(f"the collector did not start within {_START_S:g} s:\n{text}")
