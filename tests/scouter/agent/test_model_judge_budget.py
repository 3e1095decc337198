"""A budget of the judge that calls models, against a real server on this machine."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from scouter.agent.budget import ALL_ENTRIES, account_of, today
from scouter.agent.cache import MemoryCache
from scouter.agent.cached_judge import CachedJudge
from scouter.agent.entries import Kind, Price, ProviderEntries, ProviderEntry
from scouter.agent.ledger import NANO, SqliteLedger
from scouter.agent.model_judge import ModelJudge
from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeError, JudgeUsage
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.run import judge_totals
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_protocols import Fault, FaultKind
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.scouter.agent.providers import ENVIRON, KINDS, MODELS, entry, question

GOOD: dict[str, JsonValue] = {"score": 4, "reason": "good"}
PRICE = Price(input_per_million=100.0, output_per_million=1000.0)


def priced(kind: Kind, server: LLMTestServer, **fields: Any) -> ProviderEntry:
    return entry(kind, server, prices={MODELS[kind]: PRICE}, **fields)


def spent(ledger: SqliteLedger, name: str) -> float:
    return asyncio.run(ledger.spent_nano_usd(name, today())) / NANO


def ask(judge: ModelJudge, kind: Kind = "openai") -> JudgeUsage | None:
    """Ask once; what it took, answered or not."""

    async def run() -> JudgeUsage | None:
        try:
            reply = await judge.ask(question(kind))
        except JudgeError as error:
            return error.usage
        return JudgeUsage(
            calls=1,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cost_usd=reply.cost_usd,
        )

    return asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
def test_the_bill_takes_the_place_of_the_reservation(kind: Kind) -> None:
    ledger = SqliteLedger(":memory:")
    with LLMTestServer(GOOD) as server:
        entries = ProviderEntries(
            providers={f"our-{kind}": priced(kind, server)}, daily_budget_usd=10.0
        )
        took = ask(ModelJudge(entries, environ=ENVIRON, ledger=ledger), kind)
    assert took is not None
    assert took.input_tokens
    assert took.output_tokens
    cost = (took.input_tokens * 100 + took.output_tokens * 1000) / 1_000_000
    assert took.cost_usd == pytest.approx(cost)
    assert spent(ledger, ALL_ENTRIES) == pytest.approx(cost, abs=2e-9)


FAILURES = [
    ("refusal", "refusal", "billed"),
    ("truncated", "parse", "billed"),
    ("empty", "parse", "billed"),
    ("too_many", "provider", "free"),
    ("server_error", "provider", "free"),
    ("unavailable", "provider", "free"),
    ("wrong_key", "provider", "free"),
    ("slow", "provider", "reserved"),
    ("malformed", "provider", "reserved"),
    ("cut", "provider", "reserved"),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("failure", "reason", "paid"), FAILURES)
def test_failures_are_settled_too(kind: Kind, failure: FaultKind, reason: str, paid: str) -> None:
    """An answer of no use is billed, a status of an error is not; of a time limit nobody knows."""
    ledger = SqliteLedger(":memory:")
    with LLMTestServer(GOOD, script=[Fault(kind=failure, seconds=1)]) as server:
        limit_s = 0.5 if failure == "slow" else 120.0  # an answer of a busy machine is none
        house = priced(kind, server, daily_budget_usd=10.0, timeout_s=limit_s)
        judge = ModelJudge([house], environ=ENVIRON, ledger=ledger)
        with pytest.raises(JudgeError) as caught:
            asyncio.run(judge.ask(question(kind)))
    assert caught.value.reason == reason
    took = caught.value.usage
    cost = spent(ledger, account_of(f"our-{kind}"))
    match paid:
        case "billed":
            assert took is not None
            assert took.cost_usd
            assert (took.calls, cost) == (1, pytest.approx(took.cost_usd, abs=2e-9))
        case "free":
            assert took == JudgeUsage(calls=1, input_tokens=0, output_tokens=0, cost_usd=0.0)
            assert cost == 0
        case _:
            assert took is None
            assert cost > 0.1, "100 tokens of an answer at a tenth of a cent, and the question"


@pytest.mark.parametrize("kind", KINDS)
def test_where_nobody_listens_nothing_is_paid(kind: Kind) -> None:
    ledger = SqliteLedger(":memory:")
    with LLMTestServer(GOOD) as server:
        house = priced(kind, server, daily_budget_usd=10.0)
    took = ask(ModelJudge([house], environ=ENVIRON, ledger=ledger), kind)
    assert took == JudgeUsage(calls=1, input_tokens=0, output_tokens=0, cost_usd=0.0)
    assert spent(ledger, account_of(f"our-{kind}")) == 0


def dataset(count: int, **fields: Any) -> EvalDataset:
    prompt = Prompt("How? ${n}", "gpt-4o", "our-openai", None, {"max_tokens": 100}, Score)
    task = LLMJudgeTask("quality", prompt, 3, "score", "GreaterThanOrEqual", **fields)
    return EvalDataset([EvalRecord({"n": at}) for at in range(count)], [task])


def test_tasks_are_skipped_when_it_is_spent() -> None:
    """Each answer is billed at the same price; the budget is for five of them and a half."""
    with LLMTestServer(GOOD) as server:
        house = priced("openai", server)
        free = dataset(1).evaluate(judge=ModelJudge([house], environ=ENVIRON))
        price = free.records[0].tasks[0].usage
        assert price is not None
        assert price.cost_usd is not None
        most = 0.5  # a question may cost that at the most: 100 tokens answered are 0.1
        judge = ModelJudge([house], environ=ENVIRON, budget_usd=most)
        found = dataset(400).evaluate(judge=judge)
    tasks = [record.tasks[0] for record in found.records]
    counts = Counter((task.outcome, task.reason) for task in tasks)
    passed, skipped = counts[Outcome.PASSED, None], counts[Outcome.SKIPPED, Reason.BUDGET]
    assert passed + skipped == 400
    assert passed >= 1
    assert skipped >= 1
    assert server.calls == passed + 1, "no model is called for the others"
    billed = sum(task.usage.cost_usd or 0 for task in tasks if task.usage)
    assert billed <= most
    assert billed > most - 0.3, "what is left is less than a question may cost"
    assert found.pass_rate == 1.0, "of those that were judged"
    assert all(task.usage is None for task in tasks if task.outcome is Outcome.SKIPPED)
    assert "does not fit the budget of this run" in [t for t in tasks if t.reason][0].message  # noqa: RUF015


def test_every_attempt_is_settled() -> None:
    """Two refusals by a full server, which are free, and then an answer."""
    ledger = SqliteLedger(":memory:")
    script = [Fault(kind="unavailable"), Fault(kind="unavailable"), GOOD]
    with LLMTestServer(GOOD, script=script) as server:
        house = priced("openai", server, daily_budget_usd=1.0)
        judge = ModelJudge([house], environ=ENVIRON, ledger=ledger)
        found = dataset(1, max_retries=2).evaluate(judge=judge)
    usage = found.records[0].tasks[0].usage
    assert usage is not None
    assert (server.calls, usage.calls, usage.unpriced_calls) == (3, 3, 0)
    assert spent(ledger, account_of("our-openai")) == pytest.approx(usage.cost_usd, abs=2e-9)


def test_attempts_whose_cost_is_not_known_are_seen() -> None:
    """Two broken connections, which may be paid for, and then an answer, whose price is known."""
    ledger = SqliteLedger(":memory:")
    script = [Fault(kind="cut"), Fault(kind="cut"), GOOD]
    with LLMTestServer(GOOD, script=script) as server:
        house = priced("openai", server, daily_budget_usd=1.0)
        judge = ModelJudge([house], environ=ENVIRON, ledger=ledger)
        (result,) = dataset(1, max_retries=2).evaluate(judge=judge).records[0].tasks
        (alone,) = dataset(1).evaluate(judge=ModelJudge([house], environ=ENVIRON)).records[0].tasks
    assert (result.outcome, server.calls) == (Outcome.PASSED, 4)
    usage, answer = result.usage, alone.usage
    assert usage is not None
    assert answer is not None
    assert answer.cost_usd
    assert (answer.calls, answer.unpriced_calls) == (1, 0)
    assert usage == replace(answer, calls=3, unpriced_calls=2)
    assert spent(ledger, account_of("our-openai")) > answer.cost_usd + 0.2, "two are reserved still"
    totals = judge_totals([result])
    assert totals is not None
    assert totals.text.startswith("judges: 3 calls, 0 cached, ")
    assert totals.text.endswith(f"${answer.cost_usd:.4f}, cost of 2 not known")


def test_a_model_without_a_price_is_refused() -> None:
    with LLMTestServer(GOOD) as server:
        house = entry("openai", server, prices={"gpt-4o-mini": PRICE}, daily_budget_usd=1.0)
        judge = ModelJudge([house], environ=ENVIRON, ledger=SqliteLedger(":memory:"))
        with pytest.raises(ConfigError, match="'our-openai' has no price for the model 'gpt-4o'"):
            judge.check("our-openai", {}, "gpt-4o")
        judge.check("our-openai", {}, "gpt-4o-mini")
        result = dataset(1).evaluate(judge=judge).records[0].tasks[0]
        assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PROVIDER)
        assert server.calls == 0
        ModelJudge([entry("openai", server)], environ=ENVIRON).check("our-openai", {}, "gpt-4o")


def test_a_day_is_shared_by_judges_through_the_users_file(tmp_path: Path) -> None:
    environ = {**ENVIRON, "XDG_STATE_HOME": str(tmp_path)}
    with LLMTestServer(GOOD) as server:
        house = priced("openai", server, daily_budget_usd=0.4)
        took = [ask(ModelJudge([house], environ=environ)) for _ in range(40)]
    called = [each for each in took if each is not None and each.calls]
    assert 1 <= len(called) < 40
    assert server.calls == len(called)
    ledger = SqliteLedger(tmp_path / "scouter/budget.db")
    billed = sum(each.cost_usd or 0 for each in called)
    assert spent(ledger, account_of("our-openai")) == pytest.approx(billed, abs=1e-6)
    assert billed <= 0.4
    ledger.close()


def test_a_cached_second_run_makes_no_call_and_costs_nothing() -> None:
    ledger = SqliteLedger(":memory:")
    with LLMTestServer(GOOD) as server:
        house = priced("openai", server, daily_budget_usd=100.0)
        judge = CachedJudge(ModelJudge([house], environ=ENVIRON, ledger=ledger), MemoryCache())
        first = dataset(20, samples=3).evaluate(judge=judge)
        calls, cost = server.calls, spent(ledger, account_of("our-openai"))
        second = dataset(20, samples=3).evaluate(judge=judge)
    assert (calls, server.calls) == (40, 40), "two samples agree, for each record"
    assert spent(ledger, account_of("our-openai")) == cost > 0
    assert [r.outcome for r in second.records] == [r.outcome for r in first.records]


def test_an_entry_that_was_changed_is_another_question() -> None:
    """An address of the same name may be another model; limits and prices change no answer."""
    cache = MemoryCache()
    with LLMTestServer(GOOD) as one, LLMTestServer(GOOD) as two:
        for house in (
            entry("openai", one), entry("openai", one, concurrency=2), entry("openai", two),
        ):  # fmt: skip
            judge = CachedJudge(ModelJudge([house], environ=ENVIRON), cache)
            dataset(1).evaluate(judge=judge)
        assert (one.calls, two.calls) == (1, 1)


def test_samples_that_were_requested_decide() -> None:
    """Of three samples the budget is for some: a majority is a verdict, less is skipped."""

    def judge_of(answers: Sequence[JsonValue]) -> Any:
        left = list(answers)

        def judge(_: object) -> JsonValue:
            if not left:
                raise JudgeError(Reason.BUDGET, "the budget is spent", usage=JudgeUsage())
            return left.pop(0)

        return judge

    yes: JsonValue = {"score": 5}
    no: JsonValue = {"score": 1}
    for answers, outcome, reason, calls in (
        ([yes, yes], Outcome.PASSED, None, 2),
        ([yes, no], Outcome.SKIPPED, Reason.BUDGET, 2),
        ([yes], Outcome.SKIPPED, Reason.BUDGET, 1),
        ([no, yes, no], Outcome.FAILED, None, 3),
    ):
        prompt = Prompt("How? ${n}", "m", "openai")
        task = LLMJudgeTask("j", prompt, 3, "score", "GreaterThanOrEqual", samples=3)
        (record,) = (
            EvalDataset([EvalRecord({"n": 1})], [task])
            .evaluate(judge=judge_of(answers), concurrency=1)
            .records
        )
        (result,) = record.tasks
        assert (result.outcome, result.reason) == (outcome, reason)
        assert result.usage == JudgeUsage(calls=calls)
