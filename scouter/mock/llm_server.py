"""A provider of language models on this machine, for tests: real HTTP, made-up answers."""

import asyncio
import hashlib
import inspect
import json
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Any, Final, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import JsonValue

from scouter.mock.llm_protocols import (
    Ending,
    Fault,
    LLMRequest,
    ModelProtocol,
    OpenAIChat,
    protocol_of,
)

_MAX_HEAD: Final = 64 * 1024
MAX_BODY: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """Request of a client to the mock server."""

    method: str
    target: str
    """Path and query."""
    headers: Mapping[str, str]
    """By name in lower case; of several with one name, the last."""
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """Answer of the mock server to one request."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    is_cut: bool = False
    """True sends half of the body that was promised, and hangs up."""


Handle: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]


class HttpServer:
    """Serves on a free port of this machine until it is stopped.

    Args:
        handle: Answers one request; called in the server's own event loop, many at a time.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._ready = threading.Event()
        self._stop: Callable[[], object] = lambda: None
        self._failure: BaseException | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self._thread = threading.Thread(target=self._run, name="scouter-test-server", daemon=True)

    def start(self) -> None:
        """Listen; back when a client can connect."""
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Hang up on everyone, and end the thread."""
        self._stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except OSError as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0, limit=_MAX_HEAD)
        self.port = server.sockets[0].getsockname()[1]
        self._stop = lambda: loop.call_soon_threadsafe(ended.set)
        self._ready.set()
        await ended.wait()
        server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:  # called in a task, always
            return
        self._connections.add(task)
        try:
            # CancelledError too: streams of Python 3.11 would log it as an error of this callback.
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._exchange(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other until one side has enough."""
        while True:
            try:
                request = await _read(reader)
            except (ValueError, asyncio.LimitOverrunError):
                await _write(writer, HttpResponse(body=b"", status=HTTPStatus.BAD_REQUEST))
                return
            response = await self._handle(request)
            await _write(writer, response)
            if response.is_cut or request.headers.get("connection", "").lower() == "close":
                return


async def _read(reader: asyncio.StreamReader) -> HttpRequest:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head[:-4].split("\r\n")
    method, target, _ = first.split(" ", 2)
    headers: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    size = int(headers.get("content-length") or 0)
    if not 0 <= size <= MAX_BODY or "transfer-encoding" in headers:
        raise ValueError("expected a body with a Content-Length that is not too large")
    body = await reader.readexactly(size)
    return HttpRequest(method=method, target=target, headers=headers, body=body)


async def _write(writer: asyncio.StreamWriter, response: HttpResponse) -> None:
    headers = {"Content-Type": "application/json", **response.headers}
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(response.body)}")
    body = response.body[: len(response.body) // 2] if response.is_cut else response.body
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    await writer.drain()


_TEXT: Final = "a text"
_DIMENSIONS: Final = 8
_SECRET_HEADERS: Final = frozenset(
    {"authorization", "x-api-key", "x-goog-api-key", "proxy-authorization", "cookie"}
)
_KEY: Final = "of-a-test"

Reply: TypeAlias = JsonValue | Fault
ReplyFunction: TypeAlias = Callable[[LLMRequest], Reply | Awaitable[Reply]]
Faults: TypeAlias = Mapping[int, Fault] | Callable[[LLMRequest], Fault | None]


class LLMTestServer:
    """Speaks the protocols of OpenAI, Anthropic and Google on a free port.

    `POST /v1/chat/completions`, `/v1/messages` and `…/models/NAME:generateContent`, and OpenAI's
    `/v1/embeddings` and `/v1/models`; the vendors' own client packages work against it. While its
    `with` block lasts, the variables by which these find address and key (`OPENAI_BASE_URL`,
    `OPENAI_API_KEY`, …) point to it.

    Without script and function an answer fits the JSON schema that the request asks for (numbers
    are their smallest allowed value), else it is a short text. An answer that is no text is
    written as JSON. The embedding of a text is made of the text's digest: equal texts have equal
    embeddings.

    Args:
        reply: Answer every question with this value instead; or a function from `LLMRequest` to
            the answer, plain or async, such as `NoisyJudge`. It may give a `Fault`, too.
        script: Answers and faults for the first questions, in the order in which these come.
        faults: Faults by the number of the question, from 0, or a function from `LLMRequest` to a
            fault or None. A fault wins over script and reply, and uses up no answer of the script.
        latency_s: Seconds that every answer takes; questions do not wait for each other.
        key: The one key that is not answered 401; any if not given.
        models: The models that are not answered 404; any if none is given.
    """

    def __init__(
        self,
        reply: JsonValue | ReplyFunction = None,
        *,
        script: Sequence[Reply] = (),
        faults: Faults | None = None,
        latency_s: float = 0.0,
        key: str | None = None,
        models: Sequence[str] = (),
    ) -> None:
        self._reply = reply
        self._script: deque[Reply] = deque(script)
        self._faults: Faults = {} if faults is None else faults
        self._latency_s = latency_s
        self._key = key
        self._models = tuple(models)
        self._server: HttpServer | None = None
        self._before: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests, in the order in which they came."""
        self.questions: list[LLMRequest] = []
        """The questions to models among them, with model, messages and headers; no keys."""
        self.most_at_once = 0
        """The largest number of questions that were being answered at the same time."""
        self._inside = 0

    @property
    def calls(self) -> int:
        """The number of questions so far."""
        return len(self.questions)

    @property
    def root(self) -> str:
        """Address without a path: the `base_url` of Anthropic's and Google's clients.

        Raises:
            RuntimeError: The server is not running.
        """
        if self._server is None:
            raise RuntimeError("LLMTestServer runs inside its `with` block only")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def url(self) -> str:
        """Base address as OpenAI's clients want it.

        Raises:
            RuntimeError: The server is not running.
        """
        return f"{self.root}/v1"

    def __enter__(self) -> "LLMTestServer":
        self._server = HttpServer(self._respond)
        self._server.start()
        key = _KEY if self._key is None else self._key
        for name, value in (
            ("OPENAI_BASE_URL", self.url),
            ("OPENAI_API_KEY", key),
            ("ANTHROPIC_BASE_URL", self.root),
            ("ANTHROPIC_API_KEY", key),
            ("GOOGLE_GEMINI_BASE_URL", self.root),
            ("GOOGLE_VERTEX_BASE_URL", self.root),
            ("GOOGLE_API_KEY", key),
        ):
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
            self._server.stop()
            self._server = None

    async def _respond(self, given: HttpRequest) -> HttpResponse:
        path = urlsplit(given.target).path
        if given.method == "GET" and path == "/v1/models":
            return _json(200, _model_list(self._models))
        protocol = protocol_of(path)
        try:
            body: Any = json.loads(given.body)
        except ValueError:
            return _json(400, (protocol or OpenAIChat()).error(400, "the body is no JSON"))
        if not isinstance(body, dict):
            return _json(400, (protocol or OpenAIChat()).error(400, "the body is no JSON object"))
        found = cast("dict[str, Any]", body)
        if protocol is None:
            with self._lock:
                self.requests.append(found)
            if path == "/v1/embeddings":
                return _json(200, _embeddings(found))
            return _json(404, OpenAIChat().error(404, f"no such endpoint: {path}"))
        return await self._to_model(protocol, path, given, found)

    async def _to_model(
        self, protocol: ModelProtocol, path: str, given: HttpRequest, body: dict[str, Any]
    ) -> HttpResponse:
        question = protocol.read(path, body)
        with self._lock:
            request = LLMRequest(
                number=len(self.questions),
                protocol=protocol.name,
                path=path,
                model=question.model,
                messages=question.messages,
                schema=question.schema,
                tool=question.tool,
                body=body,
                headers={k: v for k, v in given.headers.items() if k not in _SECRET_HEADERS},
            )
            self.questions.append(request)
            self.requests.append(body)
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        try:
            if self._latency_s > 0:
                await asyncio.sleep(self._latency_s)
            return await self._answer(protocol, request, _keys(protocol, given))
        finally:
            self._inside -= 1

    async def _answer(
        self, protocol: ModelProtocol, request: LLMRequest, keys: set[str]
    ) -> HttpResponse:
        if self._key is not None and self._key not in keys:
            return _faulty(protocol, request, Fault(kind="wrong_key"), "")
        if self._models and request.model not in self._models:
            return _faulty(protocol, request, Fault(kind="unknown_model"), "")
        fault = self._fault(request)
        answer = await self._next(request) if fault is None or fault.kind == "slow" else None
        if isinstance(answer, Fault):
            fault, answer = answer, None
        if fault is not None and fault.kind == "slow":
            await asyncio.sleep(fault.seconds)
            fault = None
        text = _written(answer, request)
        if fault is not None:
            return _faulty(protocol, request, fault, text)
        return _json(200, protocol.answer(request, text, "stop"))

    def _fault(self, request: LLMRequest) -> Fault | None:
        faults = self._faults
        if callable(faults):
            return faults(request)
        return faults.get(request.number)

    async def _next(self, request: LLMRequest) -> Reply:
        if self._script:
            return self._script.popleft()
        if not callable(self._reply):
            return self._reply
        answer = self._reply(request)
        return await answer if inspect.isawaitable(answer) else answer


def _keys(protocol: ModelProtocol, given: HttpRequest) -> set[str]:
    found = (given.headers.get(name, "") for name in protocol.key_headers)
    return {value.removeprefix("Bearer ") for value in found}


def _written(answer: JsonValue, request: LLMRequest) -> str:
    if answer is None:
        answer = example_of(request.schema) if request.schema else _TEXT
    return answer if isinstance(answer, str) else json.dumps(answer)


_STATUS: Final = {
    "too_many": (429, "Rate limit reached"),
    "server_error": (500, "The server had an error"),
    "unavailable": (503, "The server is overloaded"),
    "wrong_key": (401, "Incorrect API key provided"),
    "unknown_model": (404, "The model does not exist"),
    "bad_request": (400, "Something in the request is wrong"),
}
_ENDINGS: Final[Mapping[str, Ending]] = {
    "truncated": "length", "refusal": "refusal", "blocked": "blocked", "empty": "stop"
}  # fmt: skip


def _faulty(protocol: ModelProtocol, request: LLMRequest, fault: Fault, text: str) -> HttpResponse:
    """Build the response that a client gets instead of the answer `text`."""
    headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
    if fault.kind in _STATUS:
        status, message = _STATUS[fault.kind]
        return _json(status, protocol.error(status, fault.message or message), headers)
    if fault.kind == "malformed":
        return HttpResponse(body=b'{"id": "x", "choices": [', headers=headers)
    if fault.kind == "cut":
        whole = _json(200, protocol.answer(request, text, "stop"))
        return HttpResponse(body=whole.body, is_cut=True)
    if fault.kind == "wrong_schema":
        return _json(200, protocol.answer(request, json.dumps({"no": ["such", "form"]}), "stop"))
    said = {"truncated": text[: len(text) // 2], "empty": ""}.get(fault.kind, text)
    if fault.kind == "empty" and request.tool:
        said = "{}"
    return _json(200, protocol.answer(request, said, _ENDINGS[fault.kind]))


def _json(status: int, value: JsonValue, headers: Mapping[str, str] | None = None) -> HttpResponse:
    return HttpResponse(body=json.dumps(value).encode(), status=status, headers=headers or {})


def _model_list(models: Sequence[str]) -> JsonValue:
    data: list[JsonValue] = [
        {"id": name, "object": "model", "created": 0, "owned_by": "a test"} for name in models
    ]
    return {"object": "list", "data": data}


def example_of(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None) -> JsonValue:
    """Make a small value that fits a JSON schema as pydantic writes them.

    Args:
        schema: `type`, `properties`, `items`, `enum`, `const`, `anyOf`, `$ref` into `$defs`,
            `minimum`, `minItems` and `minLength` are looked at.
        root: Schema that `$ref` starts in; the schema itself if not given.
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
