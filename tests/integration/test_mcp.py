"""`scouter mcp` as coding agents have it: a planted fault is mended by following next calls."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

import collector.demo
from collector.access.caller import Scope
from scouter.client.environment import TOKEN_VARIABLE, URL_VARIABLE
from scouter.drift.profile import AgentEvalProfile
from tests.collector.conftest import Service, Start, start  # noqa: F401  # pyright: ignore[reportUnusedImport] a fixture
from tests.support.components import ROOT
from tests.support.processes import ManagedProcess, wait_until
from tests.support.served import serve

DEMO: Final = Path(collector.demo.__file__).parent
PROFILES: Final = ("support_retriever", "support_writer")
CONVERSATIONS: Final = 40
SPACES: Final = ("shop", "bank")
AGENT: Final = """\
import sys
from pydantic_ai import Agent
from scouter.tracing import get_tracer
from support_desk import RELEASES, SupportDesk

Agent.instrument_all()
answer = SupportDesk(RELEASES["VERSION"], get_tracer("support-desk")).answer
"""
SHORT: Final = """\
alias: short
tasks:
- {task_type: TraceAssertion, id: short, assertion: {TraceSpanCount: {}}, operator: LessThan, expected_value: 99}
"""  # noqa: E501
PROGRAM: Final = [sys.executable, "-m", "scouter.cli.app"]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A project with the demo's agent, whose release 2.0.0 answers every second order vaguely."""
    folder = tmp_path / "desk"
    folder.mkdir()
    source = (DEMO / "support_desk.py").read_text(encoding="utf-8")
    planted = source.replace(
        "lookup_s=0.25, skips_policy=True, vague=True", "lookup_s=0, skips_policy=False, vague=True"
    )
    assert planted != source
    (folder / "support_desk.py").write_text(planted, encoding="utf-8")
    live = (DEMO / "live.py").read_text(encoding="utf-8")
    own = live.replace("from collector.demo.support_desk", "from support_desk")
    (folder / "live.py").write_text(own, encoding="utf-8")
    (folder / "scenarios.yaml").write_bytes((DEMO / "scenarios.yaml").read_bytes())
    for name, version in (("before", "1.0.0"), ("agent", "2.0.0")):
        (folder / f"{name}.py").write_text(AGENT.replace("VERSION", version), encoding="utf-8")
    return folder


def run(folder: Path, *command: str, **env: str) -> None:
    done = subprocess.run(
        [*PROGRAM, *command] if command[0] == "eval" else [sys.executable, *command],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT), **env}, timeout=300, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


class CodingAgent:
    """A script in the place of a model: it follows the next calls, and greps in the project.

    Args:
        client: Of the server.
        folder: The project.
    """

    def __init__(self, client: Client, folder: Path) -> None:
        self._client, self._folder = client, folder
        self.calls: list[str] = []

    async def call(self, tool: str, given: Mapping[str, Any]) -> str:
        self.calls.append(tool)
        done = await self._client.call_tool(tool, dict(given))
        (content,) = done.content
        assert isinstance(content, TextContent)
        assert not done.is_error, content.text
        return content.text

    async def mend(self) -> str:
        """Find what got worse, look at a failure, mend its cause, and have it checked."""
        text = await self.call("what_got_worse", {})
        for tool in ("why", "show_trace"):
            text = await self.call(tool, step(text, tool))
            if tool == "show_trace":
                self.remove_branch_that_says(text)
        text = await self.call("explain_check", step(text, "explain_check"))
        assert step(text, "run_release_check") == {}
        return await self.check()

    async def check(self) -> str:
        given = {"scenarios": "scenarios.yaml", "agent": "agent:answer", "baseline": "b.json"}
        return await self.call("run_release_check", {**given, "profile": list(PROFILES)})

    def remove_branch_that_says(self, trace: str) -> None:
        """Remove the `if` whose body answers with a text that the trace has."""
        file = self._folder / "support_desk.py"
        source = file.read_text(encoding="utf-8")
        branches = re.findall(r'( +if .*:\n +return .*TextPart\("([^"]+)"\).*\n)', source)
        (wrong,) = [branch for branch, said in branches if said in trace]
        file.write_text(source.replace(wrong, ""), encoding="utf-8")


def step(text: str, tool: str) -> dict[str, Any]:
    """The arguments of the first next call of a tool."""
    after = text.rpartition("\nNext:\n")[2]
    found = re.search(rf"^- {tool} (\{{.*?\}}): ", after, re.MULTILINE)
    assert found is not None, f"no next call of {tool} in:\n{text}"
    return json.loads(found[1])


def test_a_planted_fault_is_mended_in_ten_calls(
    start_collector: Callable[..., Any], desk: Path
) -> None:
    """The agent of the demo, live in two releases; the release check stops it, then lets it go."""
    server = start_collector(*(flag for name in PROFILES for flag in ("--profile", name)))
    for count, version in enumerate(("1.0.0", "2.0.0"), start=1):
        resource = f"service.name=support-desk,service.version={version}"
        command = ("live.py", version, str(CONVERSATIONS), server.url)
        run(desk, *command, OTEL_RESOURCE_ATTRIBUTES=resource)
        server.wait_evaluated(count * CONVERSATIONS * len(PROFILES))
    profiles = [flag for name in PROFILES for flag in ("--profile", name)]
    run(desk, "eval", "scenarios.yaml", "--agent", "before:answer", "--save", "b.json", *profiles)
    wait_until(lambda: server.get("/api/v1/alerts")["drift"], what="an alert")

    async def mended() -> tuple[str, str, list[str], str]:
        command = StdioServerParameters(
            command=sys.executable, args=[*PROGRAM[1:], "mcp", "--allow-run"], cwd=desk,
            env={URL_VARIABLE: server.url, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        async with Client(command) as client:
            agent = CodingAgent(client, desk)
            stopped, text, calls = await agent.check(), await agent.mend(), [*agent.calls]
            mutated = await agent.call("mutate_profile", {"profile": SHORT, "since": "1h"})
            return stopped, text, calls, mutated

    stopped, mended_text, calls, mutated = asyncio.run(mended())
    assert stopped.startswith("Exit code 1: stop"), stopped
    assert mended_text.startswith("Exit code 0: go"), mended_text
    assert len(calls) <= 10
    assert re.match(r"\d+ of \d+ kinds of faults are seen \(exit code 0\)", mutated), mutated


# --- over HTTP, with tokens ---


@pytest.fixture
def service(start: Start) -> Service:  # noqa: F811
    """Two spaces, each with a profile of its own."""
    service = start()
    made = [service.collector.tokens.create("", [Scope.PROFILE], each) for each in SPACES]
    # Until it knows a token it is open to everybody, and all is of one space.
    wait_until(lambda: status_of(service, "nobody") == 401, what="the collector asks for tokens")
    profile = AgentEvalProfile.from_file("support_writer").model_dump(mode="json")
    for space, (_, token) in zip(SPACES, made, strict=True):
        body = {**profile, "alias": f"of-{space}"}

        def pushed(token: str = token, body: dict[str, Any] = body) -> bool:
            headers = {"Authorization": f"Bearer {token}"}
            path = "/api/v1/profiles?activate=true"
            return service.http.post(path, json=body, headers=headers).is_success

        wait_until(pushed, what="the collector knows the token")  # it looks twice a second
    return service


def status_of(service: Service, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    return service.http.get("/api/v1/profiles", headers=headers).status_code


def over_http(url: str, token: str, use: Callable[[Client], Awaitable[str]]) -> str:
    async def run() -> str:
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=240) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            return await use(client)

    return asyncio.run(run())


async def checks(client: Client) -> str:
    (content,) = (await client.call_tool("list_checks", {})).content
    assert isinstance(content, TextContent)
    return content.text


def test_over_http_each_caller_sees_the_space_of_their_token(
    service: Service, tmp_path: Path
) -> None:
    """The server's own token is lent to nobody, and what is no token of a reader is refused."""
    tokens = service.collector.tokens
    _, shop = tokens.create("", [Scope.READ], "shop")
    _, bank = tokens.create("", [Scope.READ], "bank")
    _, sender = tokens.create("", [Scope.INGEST], "shop")
    wait_until(
        lambda: [status_of(service, each) for each in (shop, bank, sender)] == [200, 200, 403],
        what="the collector knows the tokens",
    )
    log = tmp_path / "mcp.log"
    with serve(service.collector.app) as url:
        process = ManagedProcess(
            [*PROGRAM, "mcp", "--http", "127.0.0.1:0"], log=log,
            env={**os.environ, URL_VARIABLE: url, TOKEN_VARIABLE: shop},
        )  # fmt: skip
        try:
            (address,) = wait_until(
                lambda: re.findall(r"http://\S+/mcp", log.read_text("utf-8")), what="it listens"
            )
            for _ in range(2):
                assert "of-shop" in (seen := over_http(address, shop, checks))
                assert "of-bank" not in seen
                assert "of-bank" in (seen := over_http(address, bank, checks))
                assert "of-shop" not in seen
            for header, status in (
                ({}, 401), ({"Authorization": "Bearer nobody"}, 401),
                ({"Authorization": f"Bearer {sender}"}, 403),
            ):  # fmt: skip
                assert (
                    httpx.post(address, json={}, headers=header, timeout=240).status_code == status
                )
            rebound = {"Authorization": f"Bearer {shop}", "Host": "evil.example"}
            assert httpx.post(address, json={}, headers=rebound, timeout=240).status_code == 421
        finally:
            process.stop()
    assert shop not in log.read_text("utf-8")
