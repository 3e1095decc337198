"""A model behind HTTP that asks for the weather once and then answers, in three protocols."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

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
