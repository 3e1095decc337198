"""A provider of language models on this machine, for tests: real HTTP, made-up answers."""

import hashlib
import json
import os
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, cast

from pydantic import JsonValue

_TEXT: Final = "a text"
_DIMENSIONS: Final = 8
_MAX_BODY: Final = 16 * 1024 * 1024


class LLMTestServer:
    """Speaks OpenAI's protocol on a free port: chat completions and embeddings.

    While its `with` block lasts `OPENAI_BASE_URL` and `OPENAI_API_KEY` point to it, so that a
    client that takes its settings from there asks this server. An answer fits the JSON schema
    that the request asks for (numbers are their smallest allowed value), else it is a short text.
    The embedding of a text is made of the text's digest: equal texts have equal embeddings.

    Args:
        reply: Answer every chat completion with this value instead.
    """

    def __init__(self, reply: JsonValue = None) -> None:
        self._reply = reply
        self._server: ThreadingHTTPServer | None = None
        self._before: dict[str, str | None] = {}
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests, in the order in which they came."""

    @property
    def url(self) -> str:
        """Base address, as a client's `base_url`.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._server is None:
            raise RuntimeError("LLMTestServer runs inside its `with` block only")
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> "LLMTestServer":
        owner = self

        class Handler(_Handler):
            server_of_the_test = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        for name, value in (("OPENAI_BASE_URL", self.url), ("OPENAI_API_KEY", "of-a-test")):
            self._before[name] = os.environ.get(name)
            os.environ[name] = value
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, JsonValue]:
        """Status and body of the response to one request."""
        self.requests.append(body)
        match path:
            case "/v1/chat/completions":
                return 200, self._completion(body)
            case "/v1/embeddings":
                return 200, _embeddings(body)
            case _:
                return 404, {"error": {"message": f"no such endpoint: {path}", "code": None}}

    def _completion(self, body: dict[str, Any]) -> JsonValue:
        wanted = cast("dict[str, Any]", body.get("response_format") or {})
        schema = cast("dict[str, Any]", wanted.get("json_schema") or {}).get("schema")
        answer = example_of(schema) if self._reply is None and schema else self._reply
        text = (
            answer if isinstance(answer, str) else _TEXT if answer is None else json.dumps(answer)
        )
        return {
            "id": f"chatcmpl-{len(self.requests)}",
            "object": "chat.completion",
            "created": 0,
            "model": str(body.get("model", "")),
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop",
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    server_of_the_test: LLMTestServer

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MAX_BODY:
            self._send(413, {"error": {"message": "the request is too large"}})
            return
        try:
            body = json.loads(self.rfile.read(size))
        except ValueError:
            self._send(400, {"error": {"message": "the body is no JSON"}})
            return
        self._send(*self.server_of_the_test.answer(self.path, body))

    def _send(self, status: int, value: JsonValue) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


def example_of(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> JsonValue:
    """Make a small value that fits a JSON schema as pydantic writes them.

    Args:
        schema: `type`, `properties`, `items`, `enum`, `const`, `anyOf`, `$ref` into `$defs`,
            `minimum`, `minItems` and `minLength` are looked at.
        root: Where `$ref` starts; the schema itself if not given.
    """
    root = schema if root is None else root
    if "$ref" in schema:
        target: Any = root
        for part in str(schema["$ref"]).removeprefix("#/").split("/"):
            target = target[part]
        return example_of(target, root)
    if "const" in schema:
        return cast("JsonValue", schema["const"])
    if schema.get("enum"):
        return cast("JsonValue", schema["enum"][0])
    choices = cast("Sequence[Mapping[str, Any]]", schema.get("anyOf") or schema.get("oneOf") or ())
    if choices:
        return example_of(choices[0], root)
    kind: Any = schema.get("type")
    first = str(kind[0] if isinstance(kind, list) else kind)  # pyright: ignore[reportUnknownArgumentType] - JSON
    match first:
        case "object":
            fields = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
            return {name: example_of(field, root) for name, field in fields.items()}
        case "array":
            items = cast("Mapping[str, Any]", schema.get("items") or {})
            return [example_of(items, root) for _ in range(schema.get("minItems", 1))]
        case "string":
            return _TEXT.ljust(schema.get("minLength", 0), ".")
        case "integer":
            return int(schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))
        case "number":
            return float(schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1))
        case "boolean":
            return True
        case _:
            return None


def _embeddings(body: dict[str, Any]) -> JsonValue:
    given = body.get("input", "")
    texts = [given] if isinstance(given, str) else cast("list[object]", given)
    size = int(body.get("dimensions") or _DIMENSIONS)
    return {
        "object": "list",
        "model": str(body.get("model", "")),
        "data": [
            {"object": "embedding", "index": at, "embedding": _embedding(str(text), size)}
            for at, text in enumerate(texts)
        ],
        "usage": {"prompt_tokens": len(texts), "total_tokens": len(texts)},
    }


def _embedding(text: str, size: int) -> JsonValue:
    """Numbers in [-1, 1] from the digest of a text."""
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(size)
    return [byte / 127.5 - 1.0 for byte in digest]
