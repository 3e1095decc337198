"""An agent behind HTTP: a file says where it is, how it is called, and where its answer stands."""

import json
import os
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path as FilePath
from typing import Any, Final, Literal, cast
from urllib.parse import quote, urlsplit

import httpx
from opentelemetry import context as otel
from opentelemetry import propagate, trace
from opentelemetry.trace import SpanKind
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.files.read import load_model
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import compile_template, template_paths
from scouter.model.json_value import to_json_value
from scouter.tracing.tracer import get_tracer
from scouter.transport.http_client import MOST_BYTES, Bound, trusted

CONTENT_TYPE: Final = "text/event-stream"
_ANSWER: Final = "data:"
_STEP: Final = "intermediate_data:"
_NANO: Final = 1_000_000_000
_WHOLE: Final = (
    "ask for the whole answer at once (`stream: false` in the body), or ask a workflow of NeMo "
    "Agent Toolkit at its address /generate/full"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a workflow: a model's call, a tool's, a function's."""

    uid: str
    parent: str
    attributes: Mapping[str, str | int]
    start_ns: int
    end_ns: int


def read_stream(text: str) -> tuple[JsonValue, list[Step]]:
    """Read the answer of a workflow of NeMo Agent Toolkit, and its steps, ordered by start.

    Each event of the stream is a line. `data` has a part of the answer as `value`; parts that are
    texts are joined. `intermediate_data` has a step, whose `payload` is JSON in a text.

    Raises:
        DataError: It is another stream, or it has no answer.
    """
    parts: list[JsonValue] = []
    steps: dict[str, Step] = {}
    for line in text.split("\n"):
        if line.startswith(_STEP):
            step = _step(_object(line.removeprefix(_STEP)))
            if step is not None:  # the end comes behind the start, and knows more
                steps[step.uid] = step
        elif line.startswith(_ANSWER):
            event = _object(line.removeprefix(_ANSWER))
            if "value" not in event:
                raise DataError(f"a stream of events without `value` is not read; {_WHOLE}")
            parts.append(event["value"])
    if not parts:
        raise DataError(f"a stream of events without an answer; {_WHOLE}")
    texts = [part for part in parts if isinstance(part, str)]
    answer = "".join(texts) if len(texts) == len(parts) else parts[-1]
    return answer, sorted(steps.values(), key=lambda each: each.start_ns)


def trace_steps(steps: Iterable[Step], tracer: trace.Tracer, begin_ns: int, end_ns: int) -> None:
    """Make a span of each step below the running span, with the names of the toolkit's exporter.

    Args:
        steps: In the order of their start.
        tracer: Makes the spans.
        begin_ns: Moment of the question, in ns since the epoch. Steps outside of question and
            answer were timed by another clock, and are moved to the question.
        end_ns: Moment of the answer.
    """
    listed = list(steps)
    first = min((each.start_ns for each in listed), default=begin_ns)
    last = max((each.end_ns for each in listed), default=end_ns)
    moved = 0 if begin_ns <= first and last <= end_ns else begin_ns - first
    made: dict[str, otel.Context] = {}
    for each in listed:
        span = tracer.start_span(
            str(each.attributes["nat.subspan.name"]),
            context=made.get(each.parent),
            attributes=each.attributes,
            start_time=each.start_ns + moved,
        )
        span.end(each.end_ns + moved)
        made[each.uid] = trace.set_span_in_context(span)


def _step(event: Mapping[str, Any]) -> Step | None:
    """Read a step that began or ended; None of an event in the middle of one."""
    payload = _object(str(event.get("payload") or "{}"))
    data, used = _fields(payload.get("data")), _fields(payload.get("usage_info"))
    usage = _fields(used.get("token_usage"))
    kind, _, state = str(payload.get("event_type") or event.get("type") or "").rpartition("_")
    if state not in ("START", "END"):
        return None
    at_s = float(payload.get("event_timestamp") or 0)
    begin_s = float(payload.get("span_event_timestamp") or at_s)
    name = str(payload.get("name") or event.get("name") or "")
    attributes: dict[str, str | int] = {
        "nat.span.kind": kind, "nat.subspan.name": name, "nat.event_type": f"{kind}_START",
    }  # fmt: skip
    if kind == "LLM":
        attributes["llm.model_name"] = name
        for short in ("prompt", "completion"):
            if count := usage.get(f"{short}_tokens"):
                attributes[f"llm.token_count.{short}"] = int(count)
    for side in ("input", "output"):
        if (value := data.get(side)) is not None:
            attributes[f"{side}.value"] = value if isinstance(value, str) else json.dumps(value)
    return Step(
        uid=str(payload.get("UUID") or event.get("id")),
        parent=str(event.get("parent_id") or ""),
        attributes=attributes,
        start_ns=int(begin_s * _NANO),
        end_ns=int(at_s * _NANO),
    )


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"a stream of events that are no JSON objects is not read; {_WHOLE}")
    return cast("dict[str, Any]", value)


_SHOWN: Final = 300
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_VARIABLES: Final = "env"
_ASKING: Final = ("message", "messages")
"""Names that have the user's words."""
_GIVEN: Final = (*_ASKING, "session", "history")
_BODY: Final[JsonValue] = {name: f"${{{name}}}" for name in ("message", "session", "history")}


class Endpoint(BaseModel):
    """An address that answers messages.

    Texts of `url`, `headers` and `body` may have templates, as expected values of tasks have them:
    `${message}`, `${session}`, `${history}` (the turns before, as chat messages), `${messages}`
    (these and the message), `${env.NAME}` for a variable of the environment, and the names of
    `remember`.

    Args:
        url: Of the endpoint, http or https; values are put in with percent signs, but for those of
            the environment.
        method: Of the request; a GET has no body.
        headers: Of the request; those that propagate the trace are added. One that is null is not
            sent.
        body: Of the request, as JSON.
        answer: Path of the answer in the JSON of the response; without it all of it is the answer,
            and of a response that is no JSON its text. Of a stream of NeMo Agent Toolkit it is the
            `value` of its events.
        remember: Values for the next request of the same conversation, by name their paths in the
            response; null before the first one.
        timeout_s: Seconds for one answer, from the connect to its last byte.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://")
    method: Literal["POST", "PUT", "GET"] = "POST"
    headers: Mapping[str, str] = {}
    body: JsonValue = _BODY
    answer: str | None = None
    remember: Mapping[str, str] = {}
    timeout_s: float = Field(default=120.0, gt=0)

    @field_validator("url")
    @classmethod
    def _has_no_password(cls, url: str) -> str:
        if "@" in urlsplit(url).netloc:
            raise ValueError(
                "a user or a password in it would stand in every report; send it as a header: "
                '{Authorization: "Basic ${env.NAME}"}'
            )
        return url

    @field_validator("answer")
    @classmethod
    def _is_path(cls, text: str | None) -> str | None:
        Path(text)
        return text

    @field_validator("remember")
    @classmethod
    def _are_paths(cls, paths: Mapping[str, str]) -> Mapping[str, str]:
        for name, text in paths.items():
            if name in (*_GIVEN, _VARIABLES):
                raise ValueError(f"{name!r} is given already; choose another name")
            Path(text)
        return paths

    @staticmethod
    def read(named: str, what: str) -> "Endpoint":
        """Read the file of an endpoint, or take an address alone.

        Args:
            named: The file or the address.
            what: The option that names it; errors begin with it.

        Raises:
            ConfigError: The file or the address is wrong, a template has a name that nothing gives,
                or a variable of the environment is not set.
        """
        if named.startswith(("http://", "https://")):
            try:
                found = Endpoint(url=named)
            except ValidationError as error:
                raise ConfigError(f"{what} {named}: {error.errors()[0]['msg']}") from error
        else:
            found = load_model(FilePath(named), Endpoint)
        found.check(f"{what} {named}")
        return found

    def check(self, lead: str) -> None:
        """Look whether each template can be filled in.

        Args:
            lead: First words of an error.

        Raises:
            ConfigError: One cannot; names it, and the names that there are. Or none has the
                message.
        """
        if self.method == "GET" and "body" in self.model_fields_set:
            raise ConfigError(f"{lead}: a GET has no body; put ${{message}} into its url")
        names, used = [*_GIVEN, *self.remember, _VARIABLES], set[object]()
        for path in template_paths(self._templates):
            first = path.segments[0] if path.segments else None
            used.add(first)
            if first not in names:
                raise ConfigError(
                    f"{lead}: ${{{path.text}}} is nothing that is given; names are "
                    f"{', '.join(names)}"
                )
            if first != _VARIABLES:
                continue
            name = path.segments[1] if len(path.segments) == 2 else ""
            if name not in os.environ:
                raise ConfigError(
                    f"{lead}: the variable {name} is not set; set it: export {name}=…"
                )
        if used.isdisjoint(_ASKING):
            place = "url" if self.method == "GET" else "body"
            raise ConfigError(
                f"{lead}: no request would have the message; put ${{message}} or ${{messages}} "
                f"into its {place}"
            )

    @cached_property
    def fill(self) -> Callable[[JsonValue], dict[str, Any]]:
        """A function from the values by name to address, headers and body."""
        resolve = compile_template(self._templates)

        def fill(given: JsonValue) -> dict[str, Any]:
            return cast("dict[str, Any]", resolve(given) if resolve else self._templates)

        return fill

    @property
    def _templates(self) -> JsonValue:
        body = None if self.method == "GET" else self.body
        return {"url": self.url, "headers": dict(self.headers), "body": body}


class EndpointAgent:
    """A conversation with an endpoint.

    Each request is a span of the operation `invoke_agent` with the message and the answer, so that
    a profile with a `watch` judges it. The request has its trace context (W3C `traceparent`).

    Args:
        endpoint: The address.
        client: Sends requests.
    """

    def __init__(self, endpoint: Endpoint, client: httpx.Client) -> None:
        self._endpoint, self._client = endpoint, client
        self._tracer = get_tracer("scouter.endpoint")
        self._remembered: dict[str, JsonValue] = dict.fromkeys(endpoint.remember)
        self._paths = {name: Path(text) for name, text in endpoint.remember.items()}
        self._answer = Path(endpoint.answer)
        self._cookies = httpx.Cookies()

    def __call__(self, message: str, session: str, history: list[dict[str, Any]]) -> object:
        """Send a message, and give the answer.

        Raises:
            TransientError: The endpoint does not answer now, or is busy.
            DataError: It refuses the request, or its response has no answer.
        """
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.conversation.id": session,
            "gen_ai.input.messages": _messages("user", message),
            "url.full": self._endpoint.url,
        }
        with self._tracer.start_as_current_span(
            "invoke_agent", kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            answer = self._ask(message, session, history)
            span.set_attribute("gen_ai.output.messages", _messages("assistant", answer))
        return answer

    def _ask(self, message: str, session: str, history: list[dict[str, Any]]) -> JsonValue:
        user = {"role": "user", "content": message}
        given = {
            "message": message, "session": session, "history": history,
            "messages": [*history, user], _VARIABLES: dict(os.environ), **self._remembered,
        }  # fmt: skip
        place = f"{self._endpoint.method} {self._endpoint.url}"
        begin_ns = time.time_ns()
        try:
            request = self._request(given)
            self._cookies.set_cookie_header(request)
            response = self._client.send(request)
        except httpx.TimeoutException as error:
            limit = f"{self._endpoint.timeout_s:g} s"
            raise TransientError(f"{place}: no answer in {limit} (timeout_s)") from error
        except httpx.HTTPError as error:
            raise TransientError(f"{place}: {error or type(error).__name__}") from error
        except TransientError as error:
            raise TransientError(f"{place}: {error}") from error
        except (httpx.InvalidURL, DataError, ValueError) as error:
            raise DataError(f"{place}: {error}") from error
        self._cookies.extract_cookies(response)
        return self._read(place, response, begin_ns)

    def _request(self, given: Mapping[str, object]) -> httpx.Request:
        request = self._endpoint.fill(cast("JsonValue", given))
        quoted = {
            name: quote(value, safe="") if isinstance(value, str) else value
            for name, value in given.items()
        }
        headers: dict[str, str] = {}
        for name, value in request["headers"].items():
            text = "" if value is None else str(value).strip()
            if not (text.isascii() and text.isprintable()):  # it may be a secret, and is not shown
                raise DataError(f"the value of the header {name} has letters that no header has")
            if text:
                headers[name] = text
        propagate.inject(headers)
        url = self._endpoint.fill(cast("JsonValue", quoted))["url"]
        return self._client.build_request(
            self._endpoint.method, url, headers=headers, json=request["body"]
        )

    def _read(self, place: str, response: httpx.Response, begin_ns: int) -> JsonValue:
        if not response.is_success:
            kind = TransientError if response.status_code in _BUSY else DataError
            said = _short(response.text)
            if goal := response.headers.get("location"):
                said = f"it redirects to {_short(goal)}, and is not followed; give that as the url"
            raise kind(f"{place}: {response.status_code}: {said}")
        if response.headers.get("content-type", "").startswith(CONTENT_TYPE):
            return self._read_events(place, response.text, begin_ns)
        try:
            value: JsonValue = response.json()
        except (ValueError, RecursionError):
            if self._endpoint.answer is not None or self._paths:
                raise DataError(f"{place}: no JSON: {_short(response.text)}") from None
            return response.text
        return self._found(place, value)

    def _read_events(self, place: str, text: str, begin_ns: int) -> JsonValue:
        """Read a workflow's stream; its steps become spans of the request."""
        try:
            answer, steps = read_stream(text)
        except DataError as error:
            raise DataError(f"{place}: {error}") from error
        trace_steps(steps, self._tracer, begin_ns, time.time_ns())
        found = self._found(place, {"value": answer})
        return answer if self._endpoint.answer is None else found

    def _found(self, place: str, value: JsonValue) -> JsonValue:
        try:
            self._remembered = {name: path.get(value) for name, path in self._paths.items()}
            return self._answer.get(value)
        except TaskFault as fault:
            raise DataError(f"{place}: {fault}") from fault


@contextmanager
def endpoint_agent(named: str, what: str) -> Generator[Callable[..., Any]]:
    """Make the agent of a file or address, and close its connections at the end.

    Returns:
        A maker of agents, one for each conversation.

    Raises:
        ConfigError: See `Endpoint.read`.
    """
    endpoint = Endpoint.read(named, what)
    bound = Bound(most_bytes=MOST_BYTES, most_s=endpoint.timeout_s)
    # Conversations are other people's: each has its own cookies, and the client has none.
    none = CookieJar(DefaultCookiePolicy(allowed_domains=()))
    with httpx.Client(
        verify=trusted(), timeout=endpoint.timeout_s, event_hooks=bound.hooks(), cookies=none,
        limits=httpx.Limits(max_connections=None),  # the run bounds how many calls run at a time
    ) as client:  # fmt: skip

        def conversation(queue: object) -> EndpointAgent:
            del queue  # its parameter says that this makes agents
            return EndpointAgent(endpoint, client)

        yield conversation


def _messages(role: str, content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(to_json_value(content))
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _short(text: str) -> str:
    """The beginning of a body, in one line."""
    line = " ".join(text.split())
    return f"{line[:_SHOWN]}…" if len(line) > _SHOWN else line or "(empty)"
