"""Settings of a prompt: what they may do to a request, and what they may not."""

import asyncio
import json
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.agent.budget import output_bound
from scouter.agent.entries import Kind, Price, ProviderEntry
from scouter.agent.model_judge import ModelJudge
from scouter.agent.vendor_settings import to_client_settings
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeError
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from tests.scouter.agent.providers import ENVIRON, KEY, KINDS, MODELS, entry, question

GOOD: dict[str, JsonValue] = {"score": 4, "reason": "good"}
TABLE = Path(__file__).parents[2] / "cases/refused_settings.txt"
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
SENT_LIMIT = {"openai": "max_tokens", "anthropic": "max_tokens", "google": "maxOutputTokens"}
"""The name of a setting in each protocol, at an address of its own."""


def cases() -> Iterator[tuple[Kind, Mapping[str, JsonValue], str]]:
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            protocol, settings, text = (cell.strip() for cell in line.split("|"))
            for kind in KINDS if protocol == "*" else (protocol,):
                yield cast("Kind", kind), json.loads(settings), text


def house(kind: Kind) -> ProviderEntry:
    return ProviderEntry(name="house", kind=kind, base_url="http://127.0.0.1:1", keyless=True)


@pytest.fixture(scope="module")
def server() -> Iterator[LLMTestServer]:
    with LLMTestServer(GOOD, key=KEY) as started:
        yield started


@pytest.mark.parametrize(("kind", "settings", "text"), list(cases()))
def test_settings_that_are_refused(
    server: LLMTestServer, kind: Kind, settings: Mapping[str, JsonValue], text: str
) -> None:
    """At the check before a run, and where a question is put all the same: it never is."""
    named, before = entry(kind, server), server.calls
    judge = ModelJudge([named], environ=ENVIRON)
    with pytest.raises(ConfigError) as refused:
        judge.check(named.name, settings)
    with pytest.raises(JudgeError) as raised:
        asyncio.run(judge.ask(question(kind, settings=settings)))

    assert text in str(refused.value)
    assert text in str(raised.value)
    assert raised.value.permanent
    assert server.calls == before


NAMES = ("model", "messages", "n", "stream", "tools", "max_tokens", "response_format", "system")


@st.composite
def bodies(draw: st.DrawFn) -> JsonValue:
    """Further fields of a request, one of which must not be there, however written and deep."""
    name = draw(st.sampled_from([str, str.upper, str.title]))(draw(st.sampled_from(NAMES)))
    body: JsonValue = {name.replace("_", draw(st.sampled_from(["_", "-", ""]))): "other"}
    for in_list in draw(st.lists(st.booleans(), max_size=4)):
        body = {"temperature": 1, "vendor_setting": [0, [body]] if in_list else body}
    return body


@given(st.sampled_from(("openai", "anthropic")), bodies())
def test_no_way_to_write_or_nest_them_gets_through(kind: Kind, body: JsonValue) -> None:
    with pytest.raises(ConfigError, match=r"model setting 'extra_body\."):
        to_client_settings(house(kind), {"extra_body": body})


FORMS = {
    "openai": "openai.types.chat.completion_create_params:CompletionCreateParamsNonStreaming",
    "anthropic": "anthropic.types.message_create_params:MessageCreateParamsNonStreaming",
}
"""The vendors' requests, by name: to import them takes each worker seconds."""
HARMLESS: dict[Kind, set[str]] = {
    "openai": {
        "frequency_penalty", "logit_bias", "logprobs", "metadata", "moderation",
        "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_options",
        "prompt_cache_retention", "reasoning_effort", "safety_identifier", "seed", "stop", "store",
        "temperature", "top_logprobs", "top_p", "user", "verbosity",
    },
    "anthropic": {
        "cache_control", "diagnostics", "metadata", "stop_sequences", "temperature", "thinking",
        "top_k", "top_p", "user_profile_id", "workspace_id",
    },
}  # fmt: skip
"""Fields of the vendors' requests that take no place of the judge's own, looked at one by one."""


@pytest.mark.parametrize(("kind", "harmless"), list(HARMLESS.items()))
def test_every_field_of_the_vendors_requests_is_decided_on(kind: Kind, harmless: set[str]) -> None:
    """A field that a newer client has, and that nobody has looked at, fails here."""
    form = pkgutil.resolve_name(FORMS[kind])
    passed: set[str] = set()
    for name in form.__required_keys__ | form.__optional_keys__:
        try:
            to_client_settings(house(kind), {"extra_body": {name: "other"}})
        except ConfigError:
            continue
        passed.add(name)
    assert passed <= harmless


def test_settings_of_a_servers_own_arrive(server: LLMTestServer) -> None:
    """Pairs stored with a request, and a router's wishes, may be called like its fields."""
    own: dict[str, JsonValue] = {
        "repetition_penalty": 1.1,
        "chat_template_kwargs": {"enable_thinking": False},
        "metadata": {"model": "ours", "n": "7"},
    }
    body: dict[str, JsonValue] = {"provider": {"max_price": {"prompt": 1}}, "n": 1, "stream": None}
    settings = {**own, "n": 1, "service_tier": "flex", "extra_body": body}
    asyncio.run(
        ModelJudge([entry("openai", server)], environ=ENVIRON).ask(
            question("openai", settings=settings)
        )
    )
    sent = server.requests[-1]
    wanted = {**own, "service_tier": "flex", "provider": body["provider"]}
    assert {name: sent[name] for name in wanted} == wanted
    assert "n" not in sent


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        *((kind, {word: 37}) for kind in KINDS for word in LIMITS),
        ("google", {"generation_config": {"maxOutputTokens": 37}}),
        ("google", {"max_tokens": 37, "generationConfig": {"max_output_tokens": 37}}),
    ],
)
def test_the_limit_that_is_reserved_is_the_one_that_is_sent(
    server: LLMTestServer, kind: Kind, settings: dict[str, JsonValue]
) -> None:
    """By whatever name, and once."""
    named = entry(kind, server)
    asyncio.run(ModelJudge([named], environ=ENVIRON).ask(question(kind, settings=settings)))
    body = server.requests[-1]
    config = body.get("generationConfig", body)
    limits = {name: value for name, value in config.items() if "tokens" in name.lower()}
    assert limits == {SENT_LIMIT[kind]: 37}
    assert output_bound(to_client_settings(named, settings)) == 37


@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_an_entry_says_which_name_its_server_heeds(
    server: LLMTestServer, field: str, word: str
) -> None:
    named = entry("openai", server, limit_field=field)
    asyncio.run(ModelJudge([named], environ=ENVIRON).ask(question("openai", settings={word: 37})))
    sent = server.requests[-1]
    assert {name: sent[name] for name in LIMITS if name in sent} == {field: 37}


@pytest.mark.parametrize("word", LIMITS)
@pytest.mark.parametrize("kind", KINDS)
def test_no_name_of_the_limit_goes_beyond_the_budget(kind: Kind, word: str) -> None:
    """A model that writes as much as it may: 100 tokens at $100 a million, $0.01 an answer.

    The question adds bytes for at most 22 + 2 * 16 + 64 tokens, $0.0000118 at $0.1 a million, so
    that 4 answers fit into $0.045, and without a limit not one.
    """

    def answer(request: LLMRequest) -> str:
        config = request.body.get("generationConfig", request.body)
        return "four" * config.get(SENT_LIMIT[kind], 20_000)

    price = Price(input_per_million=0.1, output_per_million=100)
    with LLMTestServer(answer, key=KEY) as server:
        named = entry(kind, server, prices={MODELS[kind]: price})
        judge = ModelJudge([named], environ=ENVIRON, budget_usd=0.045)
        sent = question(kind, settings={word: 100}, response_schema=None)

        async def run() -> list[float | None]:
            costs: list[float | None] = []
            for _ in range(9):
                try:
                    costs.append((await judge.ask(sent)).cost_usd)
                except JudgeError as error:
                    assert error.reason == "budget"  # noqa: PT017 — of some questions
            return costs

        costs = asyncio.run(run())
    assert len(costs) == server.calls == 4
    assert sum(cost or 1 for cost in costs) <= 0.045
