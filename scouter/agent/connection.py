"""The vendors' own clients, one for each provider entry, and the event loop that they live in."""

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import finalize

from scouter.agent.entries import Kind, ProviderEntry
from scouter.agent.faults import read_answer
from scouter.errors import ConfigError
from scouter.transport.process import watch

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

    ModelMaker = Callable[[str], Model]
    _Prepared = tuple[ModelSettings | None, ModelRequestParameters]

_KEPT: Final = 256
_KEPT_S: Final = 30.0
"""Seconds that an unused connection stays open."""

_PACKAGES: Final[dict[Kind, tuple[str, str]]] = {
    "openai": ("openai", "pydantic_ai.models.openai"),
    "anthropic": ("anthropic", "pydantic_ai.models.anthropic"),
    "google": ("google", "pydantic_ai.models.google"),
    "vertex": ("google", "pydantic_ai.models.google"),
}
"""By kind, the extra that installs its client, and the module that stands on it."""


_T = TypeVar("_T")


class JudgeLoop:
    """The event loop in which every provider is called, in a thread of its own.

    Connections belong to the loop that opened them, while a judge is called from many loops and
    threads: each synchronous evaluation has a loop of its own. A forked child begins another loop.
    """

    def __init__(self) -> None:
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Forget the loop, whose thread is the parent's."""
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                run = self._loop.run_forever
                threading.Thread(target=run, name="scouter-judges", daemon=True).start()
            return self._loop

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something there; whoever is cancelled meanwhile waits until it has cleaned up."""
        loop, started = self._running(), list[asyncio.Task[_T]]()
        ended: Future[asyncio.Task[_T]] = Future()
        ended.set_running_or_notify_cancel()  # it is the work that is cancelled

        def begin() -> None:
            started.append(loop.create_task(work))
            started[0].add_done_callback(ended.set_result)

        loop.call_soon_threadsafe(begin)
        waiting = asyncio.wrap_future(ended)
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(lambda: started[0].cancel())
            await waiting
            _ = (
                started[0].cancelled() or started[0].exception()
            )  # nobody is left to be notified of it
            raise
        return started[0].result()


@cache
def judge_loop() -> JudgeLoop:
    """The loop of this process."""
    return JudgeLoop()


class Connection:
    """Asks one provider from the loop that it is made in, over one pool of connections.

    The pool is closed in its loop when nobody has the connection any more.

    Args:
        entry: The provider entry.
        key: The provider's key; stored by the vendor's client alone.

    Raises:
        ConfigError: The vendor's package is not installed; names the extra.
    """

    def __init__(self, entry: ProviderEntry, key: str) -> None:
        check_package(entry)
        self.loop: Final = asyncio.get_running_loop()
        self._http = _http_client(entry)
        self._make: ModelMaker = _MAKERS[entry.kind](entry, key, self._http)
        self._models: dict[str, Model] = {}
        self._end = finalize(self, _close_later, self.loop, self._http)
        self._end.atexit = False  # all ends then

    def model(self, name: str) -> "Model":
        """The model of a name; the same object each time, as making one takes a while."""
        found = self._models.get(name)
        if found is None:
            found = self._models[name] = _remembering(self._make(name))
        return found

    async def close(self) -> None:
        """Close all connections."""
        self._end.detach()
        await self._http.aclose()


def _close_later(loop: asyncio.AbstractEventLoop, http: "httpx2.AsyncClient") -> None:
    loop.call_soon_threadsafe(lambda: loop.create_task(http.aclose()))


def check_package(entry: ProviderEntry) -> None:
    """Import what an entry's kind needs.

    Raises:
        ConfigError: It is not installed; names the extra.

    Cost: about a second the first time.
    """
    extra, module = _PACKAGES[entry.kind]
    try:
        import_module("pydantic_ai.direct")
        import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"provider entry {entry.name!r} needs packages that are not installed "
            f"({error.name or error}): pip install 'scouter-agents[{extra}]'"
        ) from error


@cache
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Authorities that judges' providers are checked by; to read them takes 20 ms."""
    import httpx2

    del file, folder  # variables of the environment that httpx2 reads itself
    return httpx2.create_ssl_context()


def _http_client(entry: ProviderEntry) -> "httpx2.AsyncClient":
    import httpx2  # comes with pydantic-ai

    from scouter.transport.http_client import ASKED_PACKING

    return httpx2.AsyncClient(
        headers=ASKED_PACKING,
        timeout=httpx2.Timeout(entry.timeout_s),
        verify=_trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")),
        # The entry's own limits bound the calls at a time; the pool must not wait as well.
        limits=httpx2.Limits(
            max_connections=None,
            max_keepalive_connections=entry.concurrency,
            keepalive_expiry=_KEPT_S,
        ),
        # Some vendors' key headers would go along to whatever host a redirect names.
        follow_redirects=False,
        event_hooks={"response": [read_answer]},
    )


def _openai(entry: ProviderEntry, key: str, http: "httpx2.AsyncClient") -> "ModelMaker":
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.openai import OpenAIProvider

    from scouter.agent.openai_client import PlainOpenAI

    client = PlainOpenAI(
        api_key=key or "none", base_url=entry.base_url, max_retries=0, http_client=http
    )
    provider = OpenAIProvider(openai_client=client)
    profile = OpenAIModelProfile(
        openai_chat_supports_max_completion_tokens=entry.sent_limit == "max_completion_tokens",
        # Some servers refuse a second message of the system: those at the beginning are one.
        openai_chat_supports_multiple_system_messages=False,
        # Of no answer: `read_answer` parts thoughts from it, and leaves texts inside of JSON whole.
        thinking_tags=("\0", "\0"),
    )
    return lambda name: OpenAIChatModel(name, provider=provider, profile=profile)


def _anthropic(entry: ProviderEntry, key: str, http: "httpx2.AsyncClient") -> "ModelMaker":
    from anthropic import AsyncAnthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = AsyncAnthropic(
        api_key=key or "none", base_url=entry.base_url, max_retries=0, http_client=http
    )
    provider = AnthropicProvider(anthropic_client=client)
    return lambda name: AnthropicModel(name, provider=provider)


def _google(entry: ProviderEntry, key: str, http: "httpx2.AsyncClient") -> "ModelMaker":
    from google.genai import Client
    from google.genai.types import HttpOptions, HttpRetryOptions
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    from scouter.transport.http_client import trusted

    client = Client(
        vertexai=entry.kind == "vertex",
        api_key=key or "none",
        http_options=HttpOptions(
            base_url=entry.base_url,
            httpx_async_client=http,
            client_args={"verify": trusted()},  # of a client beside it, which asks nothing
            timeout=int(entry.timeout_s * 1000),
            retry_options=HttpRetryOptions(attempts=1),
        ),
    )
    provider = GoogleProvider(client=client)
    return lambda name: GoogleModel(name, provider=provider)


def _remembering(model: "Model") -> "Model":
    """Have a model fit settings and the form of an answer to its vendor once, not at every call.

    The fit takes a fifth of the time that pydantic-ai adds to a call. Its result is the same for
    all questions of a task: `AnswerForms` keeps the forms, and gives the same object each time.
    """
    prepare = model.prepare_request
    # The form is stored, so that its id stays its own.
    retained: dict[tuple[int, str], tuple[ModelRequestParameters, _Prepared]] = {}

    def remembered(
        model_settings: "ModelSettings | None",
        model_request_parameters: "ModelRequestParameters",
    ) -> "_Prepared":
        key = id(model_request_parameters), repr(model_settings)
        found = retained.get(key)
        if found is None:
            if len(retained) >= _KEPT:
                retained.clear()
            prepared = prepare(model_settings, model_request_parameters)
            found = retained[key] = model_request_parameters, prepared
        settings, parameters = found[1]
        return (None if settings is None else settings.copy()), parameters

    model.prepare_request = remembered
    return model


_MAKERS: Final[dict[Kind, Callable[[ProviderEntry, str, "httpx2.AsyncClient"], "ModelMaker"]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "google": _google,
    "vertex": _google,
}
