"""Questions and answers through the vendors' own clients, to a real server on this machine."""

import asyncio
import gc
import json
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.agent.anthropic import AnthropicSettings
from scouter.agent.cache import MemoryCache
from scouter.agent.cached_judge import CachedJudge
from scouter.agent.entries import Kind, Price, ProviderEntry
from scouter.agent.google import GeminiSettings, GenerationConfig
from scouter.agent.model_judge import ModelJudge
from scouter.agent.openai import OpenAIChatSettings
from scouter.agent.vendor_settings import ModelSettings
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.judged import evaluate_records_async
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.ask import Backoff
from scouter.evaluate.judge.ask import ask as ask_judge
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, Message
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import Fault, LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.scouter.agent.providers import ENVIRON, KEY, KINDS, MODELS, entry, question

GOOD: dict[str, JsonValue] = {"score": 4, "reason": "good"}
SETTINGS: dict[Kind, Mapping[str, JsonValue]] = {
    "openai": OpenAIChatSettings(
        max_completion_tokens=50, temperature=0.5, seed=7, stop_sequences=["END"],
        reasoning_effort="low", metadata={"team": "a"}, extra_body={"guided": True},
    ).model_dump(mode="json"),
    "anthropic": AnthropicSettings(
        max_tokens=50, temperature=0.5, top_k=5, stop_sequences=["END"], system="Be strict.",
        extra_body={"guided": True},
    ).model_dump(mode="json"),
    "google": GeminiSettings(
        generation_config=GenerationConfig(
            max_output_tokens=50, temperature=0.5, top_k=5, seed=7, stop_sequences=["END"]
        ),
        labels={"team": "a"},
    ).model_dump(mode="json"),
}  # fmt: skip


def ask(entry: ProviderEntry, request: JudgeRequest) -> JudgeReply:
    return asyncio.run(ModelJudge([entry], environ=ENVIRON).ask(request))


@pytest.mark.parametrize("structured", ["auto", "schema", "tool", "text"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_of_the_wanted_form(kind: Kind, structured: str) -> None:
    """The form is requested in the way that the entry names, and the answer read back the same."""
    with LLMTestServer(GOOD, key=KEY) as server:
        reply = ask(entry(kind, server, structured_output=structured), question(kind))

    (sent,) = server.questions
    fields = ["reason", "score"]
    if structured == "text":
        assert (sent.schema, sent.tool) == (None, "")
        assert json.dumps(Score.model_json_schema()["properties"]) in sent.text
        assert reply.response == json.dumps(GOOD), "the engine reads texts as JSON"
    else:
        assert sent.schema is not None
        assert sorted(sent.schema["properties"]) == sorted(sent.schema["required"]) == fields
        assert bool(sent.tool) == (structured == "tool")
        assert reply.response == GOOD
    assert reply.model == MODELS[kind]
    assert (sent.messages[-1]["role"], sent.messages[-1]["content"]) == (
        "user",
        "How good is it?",
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("schema", "answer"),
    [
        ({"type": "boolean"}, True),
        ({"type": "string"}, "a text"),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
        (
            {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}], "$defs": {"N": {"enum": [1, 2]}}},
            2,
        ),
    ],
    ids=["boolean", "text", "array", "reference"],
)
def test_an_answer_that_is_no_object(
    kind: Kind, schema: dict[str, JsonValue], answer: JsonValue
) -> None:
    """Vendors hold a model to objects only; a judge's task may want any value."""
    with LLMTestServer({"answer": answer}, key=KEY) as server:
        reply = ask(entry(kind, server), question(kind, response_schema=schema))

    assert reply.response == answer
    assert server.questions[0].schema is not None
    assert server.questions[0].schema["type"] == "object"


@pytest.mark.parametrize("kind", KINDS)
def test_roles(kind: Kind) -> None:
    """Roles and texts arrive in each protocol's form (the server reads them by its own rules)."""
    messages = (
        Message(role="system", content="s"),
        Message(role="developer", content="d"),
        Message(role="user", content="u"),
        Message(role="assistant", content="a"),
        Message(role="tool", content="t"),
        Message(role="model", content="m"),
        Message(role="user", content="v"),
    )
    with LLMTestServer("fine", key=KEY) as server:
        reply = ask(entry(kind, server), question(kind, messages=messages, response_schema=None))

    assert reply.response == "fine"
    model = "model" if kind == "google" else "assistant"
    said = [
        (message["role"], each)
        for message in server.questions[0].messages
        for each in message["content"].split("\n")
        if each
    ]
    assert said == [
        ("system", "s"), ("system", "d"), ("user", "u"), (model, "a"), ("user", "t"), (model, "m"),
        ("user", "v"),
    ]  # fmt: skip


def test_what_the_system_says_first_is_one_message() -> None:
    """Some servers that speak OpenAI's protocol refuse a second message of the system."""
    messages = (
        Message(role="system", content="s"),
        Message(role="developer", content="d"),
        Message(role="user", content="u"),
    )
    with LLMTestServer("fine", key=KEY) as server:
        ask(
            entry("openai", server),
            question("openai", messages=messages, response_schema=None),
        )

    assert server.requests[0]["messages"] == [
        {"role": "system", "content": "s\n\nd"},
        {"role": "user", "content": "u"},
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_each_question_has_its_own_settings(kind: Kind) -> None:
    """Also where one judge asks them for answers of the same form, which it fits only once."""
    schema = Score.model_json_schema()
    given: list[dict[str, JsonValue]] = [
        {"temperature": 0.5, "max_tokens": 100},
        {"temperature": 0.25, "max_tokens": 200},
        {"temperature": 0.5, "max_tokens": 100},
    ]

    async def run(judge: ModelJudge) -> None:
        for settings in given:
            await judge.ask(question(kind, settings=settings, response_schema=schema))

    with LLMTestServer(GOOD, key=KEY) as server:
        asyncio.run(run(ModelJudge([entry(kind, server)], environ=ENVIRON)))

    sent = [body.get("generationConfig", body) for body in server.requests]
    most = "maxOutputTokens" if kind == "google" else "max_tokens"
    assert [{"temperature": s["temperature"], "max_tokens": s[most]} for s in sent] == given


def test_settings_reach_openai() -> None:
    with LLMTestServer(GOOD, key=KEY) as server:
        ask(entry("openai", server), question("openai", settings=SETTINGS["openai"]))
        ask(entry("openai", server), question("openai", settings={"max_tokens": 9, "top_k": 3}))

    first, second = server.requests
    wanted: dict[str, Any] = {
        "max_tokens": 50, "temperature": 0.5, "seed": 7, "stop": ["END"],
        "reasoning_effort": "low", "metadata": {"team": "a"}, "guided": True,
    }  # fmt: skip
    assert {name: first.get(name) for name in wanted} == wanted
    assert (second["max_tokens"], second["top_k"]) == (9, 3)


def test_the_vendors_own_service_gets_its_own_word_for_tokens() -> None:
    with LLMTestServer(GOOD) as server:  # its variables lead the well-known entry here
        asyncio.run(ModelJudge([]).ask(question("openai", provider="openai")))

    assert server.requests[0]["max_completion_tokens"] == 100
    assert "max_tokens" not in server.requests[0]


def test_settings_reach_anthropic() -> None:
    with LLMTestServer(GOOD, key=KEY) as server:
        ask(entry("anthropic", server), question("anthropic", settings=SETTINGS["anthropic"]))
        ask(entry("anthropic", server), question("anthropic", settings={}))

    first, second = server.requests
    wanted: dict[str, Any] = {
        "max_tokens": 50, "temperature": 0.5, "top_k": 5, "stop_sequences": ["END"], "guided": True
    }  # fmt: skip
    assert {name: first.get(name) for name in wanted} == wanted
    assert server.questions[0].messages[0]["content"].startswith("Be strict.")
    assert second["max_tokens"] == 4096


def test_settings_reach_google() -> None:
    with LLMTestServer(GOOD, key=KEY) as server:
        ask(entry("google", server), question("google", settings=SETTINGS["google"]))

    config = server.requests[0]["generationConfig"]
    wanted = {
        "maxOutputTokens": 50, "temperature": 0.5, "topK": 5, "seed": 7, "stopSequences": ["END"]
    }  # fmt: skip
    assert {name: config.get(name) for name in wanted} == wanted


def test_google_cloud_is_called_by_its_own_path() -> None:
    with LLMTestServer(GOOD, key=KEY) as server:
        vertex = entry("google", server).model_copy(update={"kind": "vertex"})
        reply = ask(vertex, question("google"))

    assert reply.response == GOOD
    assert "/publishers/google/models/gemini-2.5-flash:generateContent" in server.questions[0].path


def test_settings_without_effect_are_no_error() -> None:
    dumped = ModelSettings(OpenAIChatSettings(n=1, stream=False)).model_dump(mode="json")
    with LLMTestServer(GOOD, key=KEY) as server:
        assert ask(entry("openai", server), question("openai", settings=dumped)).response == GOOD


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_cost(kind: Kind) -> None:
    """40 letters in are 10 tokens here, 8 letters out are 2: at 2 and 10 dollars, 40 millionths."""
    content = "x" * 40
    request = question(
        kind, messages=(Message(role="user", content=content),), response_schema=None
    )
    price = Price(input_per_million=2, output_per_million=10)
    with LLMTestServer("y" * 8, key=KEY) as server:
        priced = ask(entry(kind, server, prices={MODELS[kind]: price}), request)
        unpriced = ask(entry(kind, server, prices={"another": price}), request)

    assert (priced.input_tokens, priced.output_tokens) == (10, 2)
    assert priced.cost_usd == pytest.approx(40e-6)
    assert (unpriced.input_tokens, unpriced.cost_usd) == (10, None)


def test_tokens_from_the_providers_cache_have_a_price_of_their_own() -> None:
    """1,000 of input, 600 of them cached, 100 answered: 400*2 + 600*0.5 + 100*10 millionths."""
    price = Price(input_per_million=2, cached_input_per_million=0.5, output_per_million=10)
    assert price.cost_usd(1000, 100, 600) == pytest.approx(2100e-6)


def test_a_judge_outlives_the_loops_that_it_is_called_from() -> None:
    """It may be closed between two questions; a leak would be a ResourceWarning here."""

    async def twice(judge: ModelJudge) -> None:
        await asyncio.gather(*(judge.ask(question("openai")) for _ in range(3)))
        await judge.close()
        await judge.ask(question("openai"))

    with LLMTestServer(GOOD, key=KEY) as server:
        judge = ModelJudge([entry("openai", server)], environ=ENVIRON)
        for _ in range(3):
            asyncio.run(twice(judge))
        gc.collect()

    assert server.calls == 12


@pytest.mark.parametrize("kind", KINDS)
def test_a_cancelled_question_gives_its_place_back(kind: Kind) -> None:
    async def main(judge: ModelJudge) -> JudgeReply:
        for _ in range(3):
            asking = asyncio.create_task(judge.ask(question(kind)))
            await asyncio.to_thread(came.acquire)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        async with asyncio.timeout(120):
            return await judge.ask(question(kind))

    came = threading.Semaphore(0)

    def slow(request: LLMRequest) -> Fault | None:
        came.release()
        return Fault(kind="slow", seconds=60) if request.number < 3 else None

    with LLMTestServer(GOOD, faults=slow, key=KEY) as server:
        judge = ModelJudge([entry(kind, server, concurrency=1)], environ=ENVIRON)
        assert asyncio.run(main(judge)).response == GOOD


@pytest.mark.parametrize("kind", KINDS)
def test_judges_that_are_let_go_of_take_no_answer_from_the_next(kind: Kind) -> None:
    """Their sockets are closed, and no new one that has the number of such a one goes unread."""

    async def main(server: LLMTestServer) -> None:
        for _ in range(5):
            judge = ModelJudge([entry(kind, server, timeout_s=120)], environ=ENVIRON)
            async with asyncio.timeout(120):  # an answer that goes unread takes longer
                await asyncio.gather(*(judge.ask(question(kind)) for _ in range(30)))
            del judge
            gc.collect()
        await asyncio.sleep(0.3)  # for the last one to close its connections in

    gc.collect()
    gc.freeze()  # five searches for cycles among what this test makes, not among all that there is
    with LLMTestServer(GOOD, latency_s=0.05, key=KEY) as server:
        asyncio.run(main(server))

    assert server.calls == 150, "no call was repeated"


def test_retry_after_holds_back_the_whole_entry() -> None:
    """One of ten has to wait for a second: none of those that come later is sent before."""

    async def main(judge: ModelJudge) -> float:
        with pytest.raises(JudgeError, match="429"):
            await judge.ask(question("openai"))
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.gather(*(judge.ask(question("openai")) for _ in range(10)))
        return loop.time() - start

    faults = {0: Fault(kind="too_many", retry_after="1")}
    with LLMTestServer(GOOD, faults=faults, key=KEY) as server:
        judge = ModelJudge([entry("openai", server)], environ=ENVIRON)
        assert asyncio.run(main(judge)) >= 0.9

    assert server.calls == 11


def test_a_pause_of_a_day_is_not_waited_for() -> None:
    async def main(judge: ModelJudge) -> None:
        with pytest.raises(JudgeError, match="429"):
            await judge.ask(question("openai"))
        with pytest.raises(JudgeError, match="max_pause_s is 120") as raised:
            await judge.ask(question("openai"))
        assert raised.value.permanent

    with LLMTestServer(faults={0: Fault(kind="too_many", retry_after="86400")}, key=KEY) as server:
        asyncio.run(main(ModelJudge([entry("openai", server)], environ=ENVIRON)))

    assert server.calls == 1, "nobody else was sent there"


@pytest.mark.parametrize("pause", ["8", "1" + "0" * 20, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_the_engine_does_not_sleep_through_a_pause_that_is_too_long(pause: str) -> None:
    """The fault says that asking again is useless, and by what."""
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    fault = Fault(kind="too_many", retry_after=pause)
    with LLMTestServer(GOOD, faults={0: fault}, key=KEY) as server:
        judge = ModelJudge([entry("openai", server, max_pause_s=1)], environ=ENVIRON)
        found = asyncio.run(
            ask_judge(judge, question("openai"), 5, Backoff(sleep=sleep), asyncio.Semaphore())
        )

    assert isinstance(found, JudgeError)
    assert "max_pause_s is 1" in found.message
    assert (server.calls, slept) == (1, [])


@pytest.mark.parametrize("kind", KINDS)
def test_a_cached_answer_is_that_of_an_address(kind: Kind) -> None:
    """Also where the address is one that the vendor's client finds in the environment."""
    cache = MemoryCache()
    found: list[JsonValue] = []
    for score in (1, 5):
        with LLMTestServer({"score": score, "reason": ""}):
            for _ in range(2):
                judge = CachedJudge(ModelJudge(), cache)
                reply = asyncio.run(judge.ask(question(kind, provider=kind)))
                found.append(reply.response)

    assert [each["score"] for each in found if isinstance(each, dict)] == [1, 1, 5, 5]


def test_a_server_that_takes_no_schema() -> None:
    """The message says which setting helps; with it the same server is called without one."""
    fault = Fault(kind="bad_request", message="response_format is not supported by this model")
    with LLMTestServer(script=[fault], key=KEY) as server, pytest.raises(JudgeError) as raised:
        asyncio.run(ModelJudge([entry("openai", server)], environ=ENVIRON).ask(question("openai")))

    assert "structured_output: text" in raised.value.message
    assert raised.value.permanent
    with LLMTestServer(GOOD, key=KEY) as server:
        judge = ModelJudge([entry("openai", server, structured_output="text")], environ=ENVIRON)
        asyncio.run(judge.ask(question("openai")))
        assert "response_format" not in server.questions[0].body


def test_the_bound_of_an_entry_holds_for_all_tasks() -> None:
    """Two tasks of twenty records, 30 at a time by the run, 4 by the entry."""
    tasks = [
        LLMJudgeTask(
            id=name,
            prompt=Prompt("Is ${answer} good?", "gpt-4o", "our-openai", output_type=Score),
            expected_value=3,
            context_path="score",
            operator=ComparisonOperator.GreaterThan,
        )
        for name in ("a", "b")
    ]
    records = [EvalRecord(context={"answer": f"answer {at}"}) for at in range(20)]
    with LLMTestServer(GOOD, latency_s=0.01, key=KEY) as server:
        judge = ModelJudge([entry("openai", server, concurrency=4)], environ=ENVIRON)
        found = asyncio.run(
            evaluate_records_async(compile_plan(tasks), records, judge=judge, concurrency=30)
        )

    assert all(result.outcome is Outcome.PASSED for result in found)
    assert (server.calls, server.most_at_once) == (40, 4)


def test_a_dataset_is_judged_by_provider_entries() -> None:
    """The same task in code, without a running loop: one call fails once and is repeated."""
    task = LLMJudgeTask(
        id="quality",
        prompt=Prompt("Is ${answer} good?", "claude-sonnet-4-6", "anthropic", output_type=Score),
        expected_value=3,
        context_path="score",
        operator=ComparisonOperator.GreaterThan,
    )
    records = [EvalRecord(context={"answer": "yes"})]
    with LLMTestServer(GOOD, script=[Fault(kind="unavailable")]) as server:
        results = EvalDataset(records=records, tasks=[task]).evaluate(judge=ModelJudge([]))

    assert server.calls == 2
    assert [result.outcome for result in results.records] == [Outcome.PASSED]


def test_what_the_judge_does_not_know() -> None:
    judge = ModelJudge([], environ={})
    for provider, text in (
        ("", "names no provider"),
        ("nobody", "there is no provider entry 'nobody'; there are anthropic, gemini"),
        (
            "openai",
            "provider entry 'openai' has no key: set the environment variable OPENAI_API_KEY",
        ),
    ):
        with pytest.raises(JudgeError, match=text) as raised:
            asyncio.run(judge.ask(question("openai", provider=provider)))
        assert raised.value.permanent


def test_a_models_name_that_leads_elsewhere() -> None:
    """Google's protocol has the model's name in the path; the client refuses what is no name."""
    with LLMTestServer(GOOD, key=KEY) as server, pytest.raises(JudgeError) as raised:
        ask(entry("google", server), question("google", model="../../v1/secrets"))

    assert not raised.value.is_worth_retrying
