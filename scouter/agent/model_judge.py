"""The judge that asks language models, by provider entry."""

import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from scouter.agent.answer_form import AnswerForm, AnswerForms
from scouter.agent.connection import Connection, check_package
from scouter.agent.entries import ProviderEntries, ProviderEntry
from scouter.agent.faults import to_fault
from scouter.agent.limits import Limits, PausedError, limits_of
from scouter.agent.model_messages import to_model_messages
from scouter.agent.per_loop import PerLoop
from scouter.agent.vendor_settings import Sent, system_of, timeout_of, to_client_settings
from scouter.errors import ConfigError
from scouter.evaluate.judge import JudgeError, JudgeReply, JudgeRequest, Message
from scouter.evaluate.outcome import Reason

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

_LETTERS_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 8
_ANSWER_TOKENS: Final = 500
"""Guessed for an answer whose length the prompt does not bound."""


class ModelJudge:
    """Asks the models of providers; each question goes to the entry that its prompt names.

    Every question is one request by the vendor's own client, which does not retry: the engine
    does. Questions to one entry share its limits, in whichever loop, thread and judge they are
    asked. Keys are read from the environment when an entry is first asked in an event loop.

    Args:
        entries: Entries made in code, or those of a settings file; by default those of this
            user's settings (`ProviderEntries.from_settings`). Well-known names are entries too.
        environ: Where keys are looked up.

    Raises:
        ConfigError: Two entries have one name, or the settings file is wrong.
    """

    def __init__(
        self,
        entries: ProviderEntries | Iterable[ProviderEntry] | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        if entries is None:
            entries = ProviderEntries.from_settings(environ=environ)
        elif not isinstance(entries, ProviderEntries):
            entries = ProviderEntries.of(entries)
        self._entries = entries
        self._environ = environ
        self._askers: dict[str, _Asker] = {}

    def __repr__(self) -> str:
        return f"ModelJudge({', '.join(self._entries.providers) or 'well-known providers'})"

    @property
    def concurrency(self) -> int:
        """Questions at a time that no entry is too slow for; each keeps to its own bound."""
        fields = ProviderEntry.model_fields
        usual: int = fields["concurrency"].default
        return max([usual, *(entry.concurrency for entry in self._entries.providers.values())])

    def check(self, provider: str, settings: Mapping[str, JsonValue] | None = None) -> None:
        """Refuse what could not be asked, before anything is; the network is not used.

        Args:
            provider: An entry's name, as in a prompt.
            settings: Those of the prompt.

        Raises:
            ConfigError: There is no such entry, its key is not set, its vendor's package is not
                installed, or it does not take such settings; says which.
        """
        entry = self._entries.find(provider)
        entry.key(self._environ)
        to_client_settings(entry, settings or {})
        check_package(entry)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask the model that a question names.

        Raises:
            JudgeError: There is no usable answer; the reason says why.
        """
        try:
            asker = self._asker(request.provider)
        except ConfigError as error:
            text = str(error)
        else:
            return await asker.ask(request)
        raise JudgeError(Reason.PROVIDER, text, permanent=True)

    async def close(self) -> None:
        """Close what the running event loop has open; the loop's own end does this as well."""
        for asker in self._askers.values():
            await asker.close()

    def _asker(self, provider: str) -> "_Asker":
        found = self._askers.get(provider)
        if found is None:
            if not provider:
                raise ConfigError("the question names no provider; expected the name of an entry")
            entry = self._entries.find(provider)
            found = self._askers.setdefault(provider, _Asker(entry, self._environ))
        return found


class _Asker:
    """Asks one provider entry, from any event loop."""

    def __init__(self, entry: ProviderEntry, environ: Mapping[str, str]) -> None:
        self._entry = entry
        self._environ = environ
        self._limits: Limits = limits_of(entry)
        self._forms = AnswerForms()
        self._connections: PerLoop[Connection] = PerLoop(self._connect, Connection.close)

    def _connect(self) -> Connection:
        return Connection(self._entry, self._entry.key(self._environ))

    async def close(self) -> None:
        """Close the running loop's connections."""
        await self._connections.close()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, within the entry's limits."""
        try:
            return await self._ask(request)
        except JudgeError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 — a judge's failure is one task's result
            fault = self._fault(error)
        # Outside of the handler: an error of a vendor's client holds the request with its key,
        # and would stay in the context of what is raised there.
        if fault.retry_after_s is not None:
            self._limits.pause(fault.retry_after_s)
        raise JudgeError(
            fault.reason, self._told(request, fault), fault.retry_after_s, fault.permanent
        )

    async def _ask(self, request: JudgeRequest) -> JudgeReply:
        from pydantic_ai.direct import model_request
        from pydantic_ai.settings import ModelSettings

        entry = self._entry
        settings = to_client_settings(entry, request.settings)
        model = (await self._connections.get()).model(request.model)
        form = self._forms.get(request.response_schema, model, entry.structured_output)
        messages = _with_system(
            request.messages, system_of(entry, request.settings), form.instructions
        )
        asked = to_model_messages(messages)
        ticket = await self._limits.enter(_estimate(messages, request.response_schema, settings))
        used: int | None = None
        try:
            async with asyncio.timeout(timeout_of(entry, request.settings)):
                response = await model_request(
                    model,
                    asked,
                    model_settings=ModelSettings(**settings),
                    model_request_parameters=form.parameters,
                    instrument=False,
                )
            used = response.usage.input_tokens + response.usage.output_tokens
        finally:
            ticket.leave(used or None)  # a server that does not count says 0
        return self._reply(request, response, form)

    def _reply(
        self, request: JudgeRequest, response: "ModelResponse", form: AnswerForm
    ) -> JudgeReply:
        _check_ending(response)
        usage = response.usage
        is_counted = usage.has_values()
        return JudgeReply(
            response=form.read(response),
            model=response.model_name or request.model,
            input_tokens=usage.input_tokens if is_counted else None,
            output_tokens=usage.output_tokens if is_counted else None,
            cost_usd=self._entry.cost_usd(
                request.model, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens
            )
            if is_counted
            else None,
        )

    def _fault(self, error: Exception) -> JudgeError:
        if isinstance(error, PausedError):
            longest = f"max_pause_s is {self._entry.max_pause_s:g}"
            text = f"{error.message} of {error.retry_after_s:g} s; {longest}"
            return JudgeError(Reason.PROVIDER, text, permanent=True)
        if isinstance(error, ConfigError):
            return JudgeError(Reason.PROVIDER, str(error), permanent=True)
        return to_fault(error)

    def _told(self, request: JudgeRequest, fault: JudgeError) -> str:
        """Name entry and model, and take out a key that a provider's message repeats."""
        text = fault.message
        for variable in self._entry.key_variables:
            key = self._environ.get(variable, "").strip()
            if key:
                text = text.replace(key, "[key]")
        named = f"provider entry {self._entry.name!r}"
        if named in text:
            return text
        return f"{named}, model {request.model!r}: {text}"


def _with_system(
    messages: tuple[Message, ...], system: str, instructions: str
) -> tuple[Message, ...]:
    """Put in front what the system says besides the prompt's own messages."""
    said = [Message(role="system", content=text) for text in (system, instructions) if text]
    return (*said, *messages)


def _estimate(
    messages: Iterable[Message], schema: Mapping[str, JsonValue] | None, settings: Sent
) -> int:
    """Tokens that a question may take, from its letters and the bound on its answer."""
    letters = sum(len(message["content"]) for message in messages) + len(str(schema or ""))
    overhead = _TOKENS_PER_MESSAGE
    return letters // _LETTERS_PER_TOKEN + overhead + settings.get("max_tokens", _ANSWER_TOKENS)


def _check_ending(response: "ModelResponse") -> None:
    """Refuse an answer that was declined, or is not complete.

    Raises:
        JudgeError: Says how it ended, in the vendor's words where there are any.
    """
    details = response.provider_details or {}
    match response.finish_reason:
        case "content_filter":
            said = details.get("refusal") or details.get("block_reason")
            said = said or details.get("finish_reason") or "content filter"
            raise JudgeError(Reason.REFUSAL, f"the model declined to answer: {said}")
        case "length":
            raise JudgeError(
                Reason.PARSE, "the model's answer is truncated: it ran out of tokens (max_tokens)"
            )
        case "error":
            said = details.get("finish_reason") or "error"
            raise JudgeError(Reason.PARSE, f"the model's answer ended with an error: {said}")
        case _:
            return
