"""The judge that asks language models, by provider entry."""

import asyncio
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from scouter.agent.answer_form import AnswerForm, AnswerForms, to_model_messages
from scouter.agent.budget import Budget, Payment, bound_usd
from scouter.agent.connection import Connection, check_package, judge_loop
from scouter.agent.entries import ProviderEntries, ProviderEntry
from scouter.agent.faults import check_answer, check_ending, is_unpaid, reading, to_fault
from scouter.agent.ledger import Ledger, SqliteLedger, usual_ledger_file
from scouter.agent.limits import Limits, PausedError, limits_of
from scouter.agent.vendor_settings import Sent, system_of, timeout_of, to_client_settings
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, JudgeUsage, Message
from scouter.evaluate.outcome import Reason
from scouter.transport.sqlite_file import IN_MEMORY

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model

_LETTERS_PER_TOKEN: Final = 4
_TOKENS_PER_MESSAGE: Final = 8
_ANSWER_TOKENS: Final = 500
"""Guessed for an answer whose length the prompt does not bound."""
_SHOWN: Final = 300
"""Characters of a provider's message that a result keeps."""
_SHORTEST_KEY: Final = 8
"""Characters of a key that is a secret; `x` or `none`, as local servers want it, is a word."""
_NO_SCHEMA: Final = re.compile(r"^4\d\d .*(response_format|json_schema|output_config|tool)", re.I)
"""Errors of servers that do not know what to do with the JSON schema of a question."""


class ModelJudge:
    """Asks the models of providers; each question goes to the entry that its prompt names.

    Every question is one request by the vendor's own client, which does not retry: the engine
    does. Questions to one entry share its limits, in whichever loop, thread and judge they are
    called. Keys are read from the environment when an entry is first called.

    Args:
        entries: Entries made in code, or those of a settings file; by default those of this
            user's settings (`ProviderEntries.from_settings`). Well-known names are entries too.
        environ: Holds the keys.
        budget_usd: Most that this judge may spend in this process; no bound if not given.
        timeout_s: Longest time for one answer, of every entry, in place of the entries' own.
        ledger: Counts the spending; by default this user's file where entries have a budget
            for a day, else memory.

    Raises:
        ConfigError: Two entries have one name, or the settings file is wrong.
    """

    def __init__(
        self,
        entries: ProviderEntries | Iterable[ProviderEntry] | None = None,
        *,
        environ: Mapping[str, str] = os.environ,
        budget_usd: float | None = None,
        timeout_s: float | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        if entries is None:
            entries = ProviderEntries.from_settings(environ=environ)
        elif not isinstance(entries, ProviderEntries):
            entries = ProviderEntries.of(entries)
        self._entries = entries
        self._environ = environ
        self._timeout_s = timeout_s
        self._askers: dict[str, _Asker] = {}
        self._budget = _budget(entries, budget_usd, ledger, environ)

    time_limit_s: Final = None
    """Entries bound each request; a question may wait for their limits and for its budget."""

    def __repr__(self) -> str:
        return f"ModelJudge({', '.join(self._entries.providers) or 'well-known providers'})"

    @property
    def concurrency(self) -> int:
        """Questions at a time that no entry is too slow for; each keeps to its own bound."""
        fields = ProviderEntry.model_fields
        usual: int = fields["concurrency"].default
        return max([usual, *(entry.concurrency for entry in self._entries.providers.values())])

    def identity(self, provider: str) -> str:
        """The text for a provider entry in the keys of a cache.

        Raises:
            ConfigError: There is no such entry.
        """
        return self._entries.find(provider).identity

    def check(
        self, provider: str, settings: Mapping[str, JsonValue] | None = None, model: str = ""
    ) -> None:
        """Refuse what could not be sent, before anything is; the network is not used.

        Args:
            provider: An entry's name, as in a prompt.
            settings: Those of the prompt.
            model: The model; not looked at if not given.

        Raises:
            ConfigError: There is no such entry, its key is not set, its vendor's package is not
                installed, it does not take such settings, or there is a budget and the model has
                no price; says which.
        """
        entry = self._entries.find(provider)
        if model and self._budget is not None and self._budget.bounds(entry.name):
            entry.price_of(model)
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
            return await judge_loop().run(asker.ask(request))
        raise JudgeError(Reason.PROVIDER, text, permanent=True, usage=JudgeUsage())

    async def close(self) -> None:
        """Close what is open; a later question opens it again."""
        for asker in self._askers.values():
            await judge_loop().run(asker.close())
        if self._budget is not None:
            self._budget.close()

    def _asker(self, provider: str) -> "_Asker":
        found = self._askers.get(provider)
        if found is None:
            if not provider:
                raise ConfigError("the question names no provider; expected the name of an entry")
            entry = self._entries.find(provider)
            if self._timeout_s is not None:
                entry = entry.model_copy(update={"timeout_s": self._timeout_s})
            found = self._askers.setdefault(provider, _Asker(entry, self._environ, self._budget))
        return found


@dataclass(slots=True)
class _Question:
    """One question, as it goes to a vendor's client."""

    request: JudgeRequest
    settings: Sent
    model: "Model"
    form: AnswerForm
    messages: tuple[Message, ...]
    cost_usd: float | None = 0.0
    """Cost of the question in dollars: 0 before it is sent, None while or where it is not known."""


class _Asker:
    """Asks one provider entry, in the loop of the judges."""

    def __init__(
        self, entry: ProviderEntry, environ: Mapping[str, str], budget: Budget | None
    ) -> None:
        self._entry = entry
        self._budget = budget
        self._environ = environ
        self._limits: Limits = limits_of(entry)
        self._forms = AnswerForms()
        self._connection: Connection | None = None

    def _connected(self) -> Connection:
        """The connection of this loop: the one of a parent process is not used in a child."""
        found = self._connection
        if found is None or found.loop is not asyncio.get_running_loop():
            found = Connection(self._entry, self._entry.key(self._environ))
            self._connection = found
        return found

    async def close(self) -> None:
        """Close the connections."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, within the entry's limits and its budget."""
        try:
            question = self._question(request)
            payment = await self._reserve(question)
            try:
                return await self._put(question)
            finally:
                if payment is not None:
                    await payment.settle(question.cost_usd)
        except JudgeError as error:
            fault = error
        except Exception as error:  # noqa: BLE001 — a judge's failure is one task's result
            fault = self._fault(error)
        # Outside of the handler: an error of a vendor's client holds the request with its key,
        # and would stay in the context of what is raised there.
        if fault.retry_after_s is not None:
            self._limits.pause(fault.retry_after_s)
        text, usage = self._described(request, fault), self._priced(request, fault.usage)
        is_long = (fault.retry_after_s or 0.0) > self._entry.max_pause_s
        raise JudgeError(fault.reason, text, fault.retry_after_s, fault.permanent or is_long, usage)

    def _question(self, request: JudgeRequest) -> "_Question":
        settings = to_client_settings(self._entry, request.settings)
        model = self._connected().model(request.model)
        form = self._forms.get(request.response_schema, model, self._entry.structured_output)
        system = system_of(self._entry, request.settings)
        messages = _with_system(request.messages, system, form.instructions)
        return _Question(request, settings, model, form, messages)

    async def _reserve(self, question: "_Question") -> Payment | None:
        """Put aside what a question may cost, where there is a budget."""
        budget, entry, request = self._budget, self._entry, question.request
        if budget is None or not budget.bounds(entry.name):
            return None
        price = entry.price_of(request.model)
        most = bound_usd(price, question.messages, request.response_schema, question.settings)
        return await budget.reserve(entry.name, most)

    async def _put(self, question: "_Question") -> JudgeReply:
        """Put a question once there is a place for it, and read the answer."""
        from pydantic_ai.direct import model_request
        from pydantic_ai.settings import ModelSettings

        request, settings, form = question.request, question.settings, question.form
        messages = to_model_messages(question.messages)
        schema = request.response_schema
        ticket = await self._limits.enter(_estimate(question.messages, schema, settings))
        used: int | None = None
        question.cost_usd = None
        try:
            async with asyncio.timeout(timeout_of(self._entry, request.settings)):
                with reading():
                    response = await model_request(
                        question.model,
                        messages,
                        model_settings=ModelSettings(**settings),
                        model_request_parameters=form.parameters,
                        instrument=False,
                    )
                    check_answer(response)
            used = response.usage.input_tokens + response.usage.output_tokens
        except Exception as error:
            if is_unpaid(error):
                question.cost_usd = 0.0
            raise
        finally:
            ticket.leave(used or None)  # a server that does not count says 0
        taken = self._taken(request, response)
        question.cost_usd = taken.cost_usd
        try:
            check_ending(response)
            answer = form.read(response)
        except JudgeError as error:
            error.usage = taken  # what is of no use is paid for all the same
            raise
        return JudgeReply(
            response=self._cleaned(answer),
            model=self._without_keys(response.model_name or request.model),
            input_tokens=taken.input_tokens,
            output_tokens=taken.output_tokens,
            cost_usd=taken.cost_usd,
        )

    def _taken(self, request: JudgeRequest, response: "ModelResponse") -> JudgeUsage:
        usage = response.usage
        if not usage.has_values():
            return JudgeUsage(calls=1)
        read, written = usage.input_tokens, usage.output_tokens
        cost_usd = self._entry.cost_usd(request.model, read, written, usage.cache_read_tokens)
        return JudgeUsage(calls=1, input_tokens=read, output_tokens=written, cost_usd=cost_usd)

    def _priced(self, request: JudgeRequest, usage: JudgeUsage | None) -> JudgeUsage | None:
        """Say what a failure cost that is known to have taken no tokens."""
        if usage is None or usage.cost_usd is not None or usage.input_tokens != 0:
            return usage
        cost_usd = self._entry.cost_usd(request.model, 0, 0)
        return usage if cost_usd is None else replace(usage, cost_usd=cost_usd, unpriced_calls=0)

    def _fault(self, error: Exception) -> JudgeError:
        if isinstance(error, PausedError):
            longest = f"max_pause_s is {self._entry.max_pause_s:g}"
            text = f"{error.message} of {error.retry_after_s:g} s; {longest}"
            return JudgeError(Reason.PROVIDER, text, permanent=True, usage=JudgeUsage())
        if isinstance(error, ConfigError):
            return JudgeError(Reason.PROVIDER, str(error), permanent=True, usage=JudgeUsage())
        return to_fault(error)

    def _described(self, request: JudgeRequest, fault: JudgeError) -> str:
        """Name entry and model, and take out a key that a provider's message repeats."""
        entry, text = self._entry, self._without_keys(fault.message)
        text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        if (fault.retry_after_s or 0.0) > entry.max_pause_s:
            text += f" (asks for a pause of {fault.retry_after_s:g} s; max_pause_s is "
            text += f"{entry.max_pause_s:g})"
        if fault.permanent and request.response_schema is not None and _NO_SCHEMA.search(text):
            text += "; a server that takes no schema needs an entry with structured_output: text"
        named = f"provider entry {self._entry.name!r}"
        if named in text:
            return text
        return f"{named}, model {request.model!r}: {text}"

    def _without_keys(self, text: str) -> str:
        for key in self._keys():
            text = text.replace(key, "[key]")
        return text

    def _cleaned(self, answer: JsonValue) -> JsonValue:
        """Take out a key that an answer repeats, as answers are stored."""
        keys = self._keys()
        text = json.dumps(answer) if keys else ""
        is_there = any(json.dumps(key)[1:-1] in text for key in keys)
        return self._walked(answer) if is_there else answer

    def _walked(self, value: JsonValue) -> JsonValue:
        if isinstance(value, str):
            return self._without_keys(value)
        if isinstance(value, list):
            return [self._walked(each) for each in value]
        if isinstance(value, dict):
            return {self._without_keys(name): self._walked(each) for name, each in value.items()}
        return value

    def _keys(self) -> list[str]:
        found = (self._environ.get(each, "").strip() for each in self._entry.key_variables)
        return [key for key in found if len(key) >= _SHORTEST_KEY]


def _budget(
    entries: ProviderEntries,
    run_usd: float | None,
    ledger: Ledger | None,
    environ: Mapping[str, str],
) -> Budget | None:
    """The budget of a judge: what its entries and who made it allow; None for no bound."""
    daily_usd, of_entries = entries.daily_budget_usd, entries.daily_budgets_usd
    is_daily = daily_usd is not None or bool(of_entries)
    if run_usd is None and not is_daily:
        return None
    if ledger is None:
        ledger = SqliteLedger(usual_ledger_file(environ) if is_daily else IN_MEMORY)
    return Budget(ledger, run_usd=run_usd, daily_usd=daily_usd, daily_usd_of=of_entries)


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
