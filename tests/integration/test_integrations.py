"""Each page of docs/integrations: its program under the real framework, judged by its spans."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.components import ROOT
from tests.support.frameworks import OWN, framework_python
from tests.support.processes import wait_until

ARGUMENTS: Final = {"city": "Paris"}
ANSWER: Final = "It is sunny in Paris, 21 degrees."
MODEL: Final = "gpt-4o-mini"
INPUT, OUTPUT, CACHED = 60, 9, 20
"""Tokens of each call."""


def _chat(asked: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's chat completions."""
    is_done = any(message["role"] == "tool" for message in asked["messages"])
    function = {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)}
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER if is_done else None}
    if not is_done:
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    return {
        "id": "chatcmpl-2" if is_done else "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": "stop" if is_done else "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": INPUT,
            "completion_tokens": OUTPUT,
            "total_tokens": INPUT + OUTPUT,
            "prompt_tokens_details": {"cached_tokens": CACHED},
        },
    }


def _responses(asked: dict[str, Any]) -> dict[str, Any]:
    """OpenAI's responses."""
    given: Any = asked["input"]
    is_done = not isinstance(given, str) and any(
        item.get("type") == "function_call_output" for item in given
    )
    said: dict[str, Any] = {"type": "output_text", "text": ANSWER, "annotations": []}
    item: dict[str, Any] = {
        "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
        "content": [said],
    } if is_done else {
        "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "get_weather",
        "arguments": json.dumps(ARGUMENTS), "status": "completed",
    }  # fmt: skip
    return {
        "id": "resp_2" if is_done else "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": INPUT,
            "output_tokens": OUTPUT,
            "total_tokens": INPUT + OUTPUT,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


def _gemini(asked: dict[str, Any]) -> dict[str, Any]:
    """Gemini's generateContent."""
    parts = [part for content in asked["contents"] for part in content["parts"]]
    is_done = any("functionResponse" in part for part in parts)
    call = {"functionCall": {"name": "get_weather", "args": ARGUMENTS}}
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": ANSWER} if is_done else call]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": INPUT,
            "candidatesTokenCount": OUTPUT,
            "totalTokenCount": INPUT + OUTPUT,
        },
        "modelVersion": "gemini-2.0-flash",
        "responseId": "r2" if is_done else "r1",
    }


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        if path.endswith("/chat/completions"):
            answer = _chat(asked)
        elif path.endswith("/responses"):
            answer = _responses(asked)
        elif path.endswith(":generateContent"):
            answer = _gemini(asked)
        else:
            self.send_error(404)
            return
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - says nothing
        pass


@contextmanager
def scripted_model() -> Generator[str]:
    """Serve the model.

    Returns:
        The server's address, without a path.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


PAGES: Final = ROOT / "docs" / "integrations"
PROGRAMS: Final = tuple(
    sorted(page.stem for page in PAGES.glob("*.md") if "```python" in page.read_text())
)


def block(page: str, language: str) -> str:
    """The first block of code of a page."""
    found = re.search(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert found, f"{page} has no {language}"
    return found[1]


def exports(page: str) -> dict[str, str]:
    """The variables that a page sets, but those of the first page."""
    lines = re.findall(r"^    export (\S+)=(\S+)$", (PAGES / page).read_text(), re.MULTILINE)
    return dict(lines)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The scripted model's address."""
    with scripted_model() as url:
        yield url


@pytest.mark.timeout(600)  # an environment may have to be made first
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page(name: str, model: str, tmp_path: Path) -> None:
    """The program runs as printed; every task of the first page's profile passes."""
    python = framework_python(name) if name in OWN else Path(sys.executable)
    program, profile = tmp_path / "agent.py", tmp_path / "weather.yaml"
    program.write_text(block(f"{name}.md", "python"))
    profile.write_text(block("README.md", "yaml"))
    collector = CollectorProcess(tmp_path, "--profile", profile)
    collector.start()
    try:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "weather",
            "OPENAI_BASE_URL": f"{model}/v1",
            "OPENAI_API_BASE": f"{model}/v1",  # its name in LlamaIndex
            "OPENAI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": model,
            "GOOGLE_API_KEY": "none",
            "CREWAI_DISABLE_TELEMETRY": "true",
            **exports(f"{name}.md"),
        }
        done = subprocess.run(
            [python, program], env=environ, cwd=tmp_path, capture_output=True, text=True,
            check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        if name != "opentelemetry":  # which asks no model
            assert ANSWER in done.stdout
        wait_until(lambda: bool(collector.evaluations()), what="an evaluation")
        (evaluation,) = collector.evaluations()
        tasks = tasks_by_id(evaluation)
        wrong = {key: task["message"] for key, task in tasks.items() if task["outcome"] != "passed"}
        assert not wrong
        assert evaluation["outcome"] == "passed"
        assert len(tasks) == 5
    finally:
        collector.close()


def test_every_page_is_in_the_index() -> None:
    listed = set(re.findall(r"^\| \[.*?\]\((\w+)\.md\)", (PAGES / "README.md").read_text(), re.M))
    assert listed == {page.stem for page in PAGES.glob("*.md")} - {"README"}
