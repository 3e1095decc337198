"""An agent behind HTTP: a file says where it is, how it is asked, and where its answer stands."""

import json
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path as FilePath
from typing import Any, Final, Literal, cast

import httpx
from opentelemetry import propagate
from opentelemetry.trace import SpanKind
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from scouter.errors import ConfigError, DataError, TransientError
from scouter.evaluate.files.read import load_model
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import compile_template, template_paths
from scouter.model.json_value import to_json_value
from scouter.tracing.tracer import get_tracer
from scouter.transport.http.trust import trusted

_SHOWN: Final = 300
_BUSY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_VARIABLES: Final = "env"
_GIVEN: Final = ("message", "session", "history", "messages")
_BODY: Final[JsonValue] = {name: f"${{{name}}}" for name in ("message", "session", "history")}


class Endpoint(BaseModel):
    """An address that answers messages.

    Texts of `url`, `headers` and `body` may have templates, as expected values of tasks have them:
    `${message}`, `${session}`, `${history}` (the turns before, as chat messages), `${messages}`
    (these and the message), `${env.NAME}` for a variable of the environment, and the names of
    `remember`.

    Args:
        url: Of the endpoint, http or https.
        method: Of the request.
        headers: Of the request; those that propagate the trace are added.
        body: Of the request, as JSON.
        answer: Path of the answer in the JSON of the response; without it all of it is the answer,
            and of a response that is no JSON its text.
        remember: Values for the next request of the same conversation, by name their paths in the
            response; null before the first one.
        timeout_s: Seconds for one answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str = Field(pattern=r"^https?://")
    method: Literal["POST", "PUT", "GET"] = "POST"
    headers: Mapping[str, str] = {}
    body: JsonValue = _BODY
    answer: str | None = None
    remember: Mapping[str, str] = {}
    timeout_s: float = Field(default=120.0, gt=0)

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
            ConfigError: One cannot; names it, and the names that there are.
        """
        names = [*_GIVEN, *self.remember, _VARIABLES]
        for path in template_paths(self._templates):
            first = path.segments[0] if path.segments else None
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

    @cached_property
    def fill(self) -> Callable[[JsonValue], dict[str, Any]]:
        """A function from the values by name to address, headers and body."""
        resolve = compile_template(self._templates)

        def fill(given: JsonValue) -> dict[str, Any]:
            return cast("dict[str, Any]", resolve(given) if resolve else self._templates)

        return fill

    @property
    def _templates(self) -> JsonValue:
        return {"url": self.url, "headers": dict(self.headers), "body": self.body}


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
        request = self._endpoint.fill(cast("JsonValue", given))
        headers: dict[str, str] = {name: str(text) for name, text in request["headers"].items()}
        propagate.inject(headers)
        body = None if self._endpoint.method == "GET" else request["body"]
        place = f"{self._endpoint.method} {self._endpoint.url}"
        try:
            response = self._client.request(
                self._endpoint.method, request["url"], headers=headers, json=body
            )  # fmt: skip
        except httpx.TimeoutException as error:
            limit = f"{self._endpoint.timeout_s:g} s"
            raise TransientError(f"{place}: no answer in {limit} (timeout_s)") from error
        except httpx.HTTPError as error:
            raise TransientError(f"{place}: {error or type(error).__name__}") from error
        except (httpx.InvalidURL, ValueError) as error:
            raise DataError(f"{place}: {error}") from error
        return self._read(place, response)

    def _read(self, place: str, response: httpx.Response) -> JsonValue:
        if not response.is_success:
            kind = TransientError if response.status_code in _BUSY else DataError
            raise kind(f"{place}: {response.status_code}: {_short(response.text)}")
        try:
            value: JsonValue = response.json()
        except ValueError:
            if self._endpoint.answer is not None or self._paths:
                raise DataError(f"{place}: no JSON: {_short(response.text)}") from None
            return response.text
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
    with httpx.Client(verify=trusted(), timeout=endpoint.timeout_s) as client:

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
