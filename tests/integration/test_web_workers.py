"""The SDK in the workers of real web servers: everything arrives, once, also at the end."""

import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest

from scouter.transport.http_client import trusted
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT
from tests.support.processes import ManagedProcess, free_ports, wait_until
from tests.support.traced_agent import helper_profile

StartCollector = Callable[..., CollectorProcess]
CASES = 60


def uvicorn(port: int) -> list[str]:
    return ["uvicorn", "tests.support.web_agent:asgi", "--workers", "2", "--port", str(port)]


def gunicorn(port: int) -> list[str]:
    """The application is imported before the fork."""
    return ["gunicorn", "tests.support.web_agent:wsgi", "--workers", "2", "--preload",
            "--bind", f"127.0.0.1:{port}", "--no-control-socket"]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "spans_of_a_case"), [(uvicorn, 5), (gunicorn, 4)], ids=["uvicorn", "gunicorn"]
)
def test_every_request_arrives_once(
    start_collector: StartCollector,
    tmp_path: Path,
    command: Callable[[int], Sequence[str]],
    spans_of_a_case: int,
) -> None:
    """Sixty requests over two workers; the server is told to end right after the last answer."""
    collector = start_collector("--profile", helper_profile().save_to_json(tmp_path / "h.json"))
    (port,) = free_ports(1)
    server = ManagedProcess(
        [sys.executable, "-m", *command(port)],
        log=tmp_path / "server.log",
        env={**os.environ, "SCOUTER_URL": collector.url},
        cwd=ROOT,
    )
    try:
        server.wait_ready(lambda: ask(port, "ready"))
        cases = [f"case-{n}" for n in range(CASES)]
        with ThreadPoolExecutor(8) as pool:
            workers = set(pool.map(partial(ask, port), cases))
        wait_until(
            lambda: len(workers | {ask_again(port, cases)}) == 2,
            what="both workers answered",
        )
        cases.append("last")
        ask(port, "last")
        code = server.stop()
    finally:
        server.kill()
    assert code in {0, -15}, server.tail()
    wanted = ["ready", *cases]
    collector.wait_evaluated(len(wanted))
    found = collector.evaluations()

    assert sorted(item["record_id"] for item in found) == sorted(wanted)
    assert {item["outcome"] for item in found} == {"passed"}
    sheet = collector.get("/api/v1/conservation")
    assert sheet["records"]["accepted"] == len(wanted)
    assert sheet["spans"]["stored"] == spans_of_a_case * len(wanted)
    assert not [name for name in collector.metrics() if name.startswith("scouter_queue_dropped")]


def ask(port: int, case: str) -> str:
    """Have a case answered; gives the worker that did it."""
    try:
        url = f"http://127.0.0.1:{port}/{case}"
        answer = httpx.get(url, timeout=120, verify=trusted())
    except httpx.ConnectError as error:
        raise OSError(str(error)) from error
    assert answer.status_code == 200, answer.text
    return answer.text


def ask_again(port: int, cases: list[str]) -> str:
    cases.append(f"again-{len(cases)}")
    return ask(port, cases[-1])
