"""Asking again: the suite where it fell, then each scenario that has not passed once."""

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage
from pydantic import JsonValue

from scouter.agent.cache import SqliteCache
from scouter.agent.cached_judge import CachedJudge
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.judge.port import JudgeError, JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.run import Confirmation, Loss
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.attributes import SCENARIO_ATTEMPT
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.options import RunOptions
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.reasks import ReasksInterrupted
from scouter.replay.run import Run
from tests.scouter.replay.bench import Bench, equals

NAMES = tuple("abcdefghij")
"""One failure of ten scenarios is a fall of 10 points: the suite does not run again."""
FURTHER = 7
"""Further attempts until one of ten scenarios is broken, as `test_asking` works out."""


def scenarios(*names: str, **changed: Any) -> list[EvalScenario]:
    """The answer to each is to be `yes`."""
    return [EvalScenario(name, [equals("response", "yes")], id=name, **changed) for name in names]


class Agent:
    """Answers `yes`, and something else in the attempts that `bad` names.

    Args:
        bench: Takes its records.
        bad: Per scenario, the answers of its first attempts; an exception is raised.
    """

    def __init__(self, bench: Bench, **bad: list[str | BaseException]) -> None:
        self._bench = bench
        self._bad = bad
        self.messages: list[str] = []
        self.attempts: list[str] = []

    def __call__(self, message: str) -> str:
        self.messages.append(message)
        self.attempts.append(f"{message}{baggage.get_baggage(SCENARIO_ATTEMPT)}")
        self._bench.agent(message)
        left = self._bad.get(message, [])
        said = left.pop(0) if left else "yes"
        if isinstance(said, BaseException):
            raise said
        return said


def compared(
    bench: Bench, agent: Any, baseline: ScenarioEvalResults, *names: str, **options: Any
) -> ScenarioEvalResults:
    """Replay against a baseline."""
    options = {"on_error": "record", **options}
    orchestrator = bench.orchestrator(*scenarios(*(names or NAMES)), agent_fn=agent)
    return orchestrator.run(baseline=baseline, **options)


@pytest.fixture
def good(bench: Bench) -> ScenarioEvalResults:
    """The baseline: everything passes."""
    return bench.orchestrator(*scenarios(*NAMES), agent_fn=Agent(bench)).run()


def repeats(results: ScenarioEvalResults) -> dict[str, tuple[int, int]]:
    """Per scenario: asked, passed."""
    return {c.scenario_id: (c.asked, c.passed) for c in results.confirmations}


BROKEN = {"b": (FURTHER, 0)}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_broken_and_unlucky(bench: Bench, good: ScenarioEvalResults, concurrency: int) -> None:
    """`b` is broken; the one failure of `b` in another run was bad luck."""
    agent = Agent(bench, b=["no"] * 99)
    results = compared(bench, agent, good, concurrency=concurrency)
    assert repeats(results) == BROKEN
    assert [found.is_broken for found in results.confirmations] == [True]
    assert Counter(agent.messages) == {**dict.fromkeys(NAMES, 1), "b": 1 + FURTHER}
    assert sorted(agent.attempts) == sorted(
        [*(f"{name}0" for name in NAMES), *(f"b{at + 1}" for at in range(FURTHER))]
    )
    unlucky = compared(bench, Agent(bench, b=["no", "no"]), good, concurrency=concurrency)
    assert repeats(unlucky) == {"b": (2, 1)}
    assert not unlucky.confirmations[0].is_broken
    assert [unlucky.compare_to(good).exit_code, results.compare_to(good).exit_code] == [0, 1]


def test_the_whole_suite_runs_again(bench: Bench, good: ScenarioEvalResults) -> None:
    """Kind: one pass clears a scenario, and the failures before it count for nothing.

    Half of the scenarios fail. They pass in the second round, and fail in the third one. All
    attempts count: 20 of 30, where 10 of 10 passed before.
    """
    answers: dict[str, list[str | BaseException]] = {name: ["no", "yes", "no"] for name in "abcde"}
    agent = Agent(bench, **answers)
    results = compared(bench, agent, good)
    assert (results.rounds, results.repeats, results.confirmations) == (3, 3, ())
    assert Counter(agent.messages) == dict.fromkeys(NAMES, 3)
    assert sorted(agent.attempts)[:3] == ["a0", "a1", "a2"]
    passed = [item.passed for item in results.scenario_results if item.scenario_id == "a"]
    assert passed == [False, True, False]
    comparison = results.compare_to(good)
    whole = comparison.rates[0]
    assert (whole.comparison_passed, whole.comparison_count) == (20, 30)
    assert comparison.exit_code in {1, 3}, "never 0 over a fall of 33 points"


def test_a_suite_that_recovers(bench: Bench, good: ScenarioEvalResults) -> None:
    """Two of ten fail once: 20 points fell. In the second round all pass, which ends it."""
    agent = Agent(bench, a=["no"], b=["no"])
    results = compared(bench, agent, good)
    assert (results.rounds, results.confirmations) == (2, ())
    assert results.compare_to(good).exit_code == 0
    assert results.compare_to(good).decision_reason.startswith("a fall of more than")


def test_attempts_at_single_scenarios_are_in_no_rate(
    bench: Bench, good: ScenarioEvalResults
) -> None:
    results = compared(bench, Agent(bench, b=["no"] * 3), good)
    assert (results.metrics.passed_scenarios, results.metrics.total_scenarios) == (9, 10)
    assert (results.repeats, results.rounds, len(results.dataset_results["agent"])) == (1, 1, 10)
    again = results.reasked
    assert again is not None
    assert [(r.scenario_id, r.attempt, r.passed) for r in again.scenario_results] == [
        ("b", 0, False), ("b", 1, False), ("b", 2, True),
    ]  # fmt: skip
    assert len(again.dataset_results["agent"]) == 3
    assert all(item.traces for item in again.scenario_results)
    assert again.lost == results.lost == ()


def test_nothing_changed_costs_one_repetition(bench: Bench, good: ScenarioEvalResults) -> None:
    agent = Agent(bench)
    results = compared(bench, agent, good)
    assert agent.messages == list(NAMES)
    assert (results.confirmations, results.reasked) == ((), None)


@pytest.mark.parametrize(("confirm", "code"), [(0, 0), (1, 0), (6, 3), (7, 1), (20, 1)])
def test_the_number_can_be_bounded(
    bench: Bench, good: ScenarioEvalResults, confirm: int, code: int
) -> None:
    """One failure is no news, seven in a row are nearly enough, and eight are."""
    agent = Agent(bench, b=["no"] * 99)
    results = compared(bench, agent, good, confirm=confirm)
    further = min(confirm, FURTHER)
    assert agent.messages.count("b") == 1 + further
    assert repeats(results) == ({"b": (further, 0)} if confirm else {})
    assert results.compare_to(good).exit_code == code


@pytest.mark.parametrize("confirm", [-1, 1.5, True, 1001])
def test_a_number_that_is_none(bench: Bench, good: ScenarioEvalResults, confirm: Any) -> None:
    with pytest.raises(ConfigError, match="confirm is"):
        compared(bench, Agent(bench), good, confirm=confirm)


def test_a_baseline_that_is_none(bench: Bench) -> None:
    with pytest.raises(ConfigError, match="baseline is a str; expected the results of a replay"):
        compared(bench, Agent(bench), "b.json")  # type: ignore[arg-type]


def test_repeats_need_fewer_further_attempts(bench: Bench) -> None:
    """Three attempts each: `a` fails all of them, which says enough."""
    baseline = bench.orchestrator(*scenarios(*NAMES), agent_fn=Agent(bench)).run(repeats=3)
    agent = Agent(bench, a=["no"] * 9)
    results = compared(bench, agent, baseline, repeats=3)
    assert Counter(agent.messages) == dict.fromkeys(NAMES, 3)
    assert repeats(results) == {}
    comparison = results.compare_to(baseline)
    assert comparison.exit_code == 1
    assert "scenario 'a' is broken: it passed 3 of 3 attempts before" in comparison.decision_reason


def test_an_agent_that_raises_did_not_pass(bench: Bench, good: ScenarioEvalResults) -> None:
    agent = Agent(bench, c=["no", *(LookupError("c is shy") for _ in range(FURTHER))])
    results = compared(bench, agent, good)
    assert repeats(results) == {"c": (FURTHER, 0)}
    assert results.reasked is not None
    errors = {item.error for item in results.reasked.scenario_results}
    assert errors == {"LookupError: c is shy"}


def test_retries_and_time_limits_hold(bench: Bench, good: ScenarioEvalResults) -> None:
    """One attempt with a retry is one further attempt; one that takes too long fails."""
    pauses: list[object] = []
    agent = Agent(bench, a=["no", LookupError("once")])
    orchestrator = bench.orchestrator(*scenarios(*NAMES), agent_fn=agent, sleep=pauses.append)
    results = orchestrator.run(baseline=good, on_error="record", retries=1)
    assert repeats(results) == {"a": (1, 1)}
    assert (agent.messages.count("a"), len(pauses)) == (3, 1)

    async def slow(message: str) -> str:
        bench.agent(message)
        if message == "a":
            await asyncio.Event().wait()
        return "yes"

    results = compared(bench, slow, good, timeout_s=0.05, confirm=2)
    assert repeats(results) == {"a": (2, 0)}


def test_an_agent_without_the_records_of_before_did_not_pass(
    bench: Bench, good: ScenarioEvalResults
) -> None:
    """The answers are right; `a` stopped to leave its record."""

    def silent(message: str) -> str:
        if message != "a":
            bench.agent(message)
        return "yes"

    assert repeats(compared(bench, silent, good)) == {"a": (FURTHER, 0)}


def test_a_class_is_made_for_each_attempt(bench: Bench, good: ScenarioEvalResults) -> None:
    made: list[object] = []

    class Once:
        def __init__(self) -> None:
            made.append(self)
            self.calls = 0

        def __call__(self, message: str) -> str:
            bench.agent(message)
            self.calls += 1
            return "no" if message == "a" else "yes" * self.calls

    assert repeats(compared(bench, Once, good)) == {"a": (FURTHER, 0)}
    assert len(made) == len(NAMES) + FURTHER


@pytest.mark.parametrize("concurrency", [1, 2])
def test_async_agents_keep_their_loop(
    bench: Bench, good: ScenarioEvalResults, concurrency: int
) -> None:
    """A client that is bound to the loop of the run would fail in another one."""
    loops: set[asyncio.AbstractEventLoop] = set()

    async def agent(message: str) -> str:
        loops.add(asyncio.get_running_loop())
        bench.agent(message)
        return "no" if message == "b" else "yes"

    assert repeats(compared(bench, agent, good, concurrency=concurrency)) == BROKEN
    assert len(loops) == 1


def test_inside_of_an_event_loop(bench: Bench, good: ScenarioEvalResults) -> None:
    async def main() -> tuple[ScenarioEvalResults, ScenarioEvalResults]:
        first = compared(bench, Agent(bench, b=["no"] * 9), good)
        orchestrator = bench.orchestrator(*scenarios(*NAMES), agent_fn=Agent(bench, b=["no"] * 9))
        return first, await orchestrator.run_async(baseline=good, confirm=2)

    first, second = asyncio.run(main())
    assert (repeats(first), repeats(second)) == (BROKEN, {"b": (2, 0)})


def test_the_hook_sees_the_confirmations(bench: Bench, good: ScenarioEvalResults) -> None:
    seen: list[tuple[Confirmation, ...]] = []

    class Own(EvalOrchestrator):
        def on_evaluation_complete(self, results: ScenarioEvalResults) -> ScenarioEvalResults:
            seen.append(results.confirmations)
            return results

    Own(bench.queue, EvalScenarios(scenarios(*NAMES)), Agent(bench, b=["no"] * 9)).run(
        baseline=good
    )
    assert [[found.scenario_id for found in each] for each in seen] == [["b"]]


def test_what_comes_for_a_judged_attempt_is_lost(bench: Bench, good: ScenarioEvalResults) -> None:
    """A thread of the first attempt leaves its record while the second one runs."""
    may_go, has_gone = threading.Event(), threading.Event()

    def work(queue: ScouterQueue) -> None:
        may_go.wait(120)
        queue["agent"].insert(EvalRecord(context={"late": 1}))
        has_gone.set()

    attempts = Counter[str]()

    def agent(message: str) -> str:
        attempts[message] += 1
        bench.agent(message)
        if message == "a" and attempts["a"] == 1:
            threading.Thread(target=work, args=(bench.queue,)).start()
            return "no"
        if attempts["a"] == 2:
            may_go.set()
            assert has_gone.wait(120)
        return "yes"

    with pytest.warns(UserWarning, match="that came when all had been judged"):
        results = compared(bench, agent, good, grace_s=0.01)
    assert repeats(results) == {"a": (1, 1)}
    assert {lost.reason: lost.count for lost in results.lost} == {Loss.TOO_LATE: 1}
    assert results.reasked is not None
    assert len(results.reasked.dataset_results["agent"]) == 1


# --- judges ---


def judged(*names: str) -> list[EvalScenario]:
    """A judge says whether an answer is good."""
    task = LLMJudgeTask(
        id="good",
        prompt=Prompt("Good? ${response}", model="m", provider="openai"),
        expected_value="good",
        operator="Equals",
        context_path="response",
    )
    return [EvalScenario(name, [task], id=name) for name in names]


class Judge:
    """Says `good` of the answer `yes`.

    Args:
        refuses: From this question on there is no answer; counted from 1.
        reason: Why.
    """

    def __init__(self, refuses: int = 1000, reason: Reason = Reason.BUDGET) -> None:
        self.messages: list[str] = []
        self._refuses = refuses
        self._reason = reason

    def __call__(self, request: JudgeRequest) -> JsonValue:
        self.messages.append(request.messages[-1]["content"])
        if len(self.messages) >= self._refuses:
            raise JudgeError(self._reason, "no", permanent=True)
        return {"response": "good" if "yes" in self.messages[-1] else "bad"}


def run_judged(
    bench: Bench, judge: Any, baseline: ScenarioEvalResults | None, agent: Any
) -> ScenarioEvalResults:
    orchestrator = bench.orchestrator(*judged(*NAMES), agent_fn=agent)
    return orchestrator.run(judge=judge, baseline=baseline, on_error="record")


def test_a_cache_answers_for_the_same_answer_only(bench: Bench, tmp_path: Path) -> None:
    """`no` is put once for all attempts; another answer is another question."""
    baseline = run_judged(bench, Judge(), None, Agent(bench))
    judge = Judge()
    cache = SqliteCache(tmp_path / "judge.db")
    agent = Agent(bench, a=["no", "no", "no", "yes"])
    results = run_judged(bench, CachedJudge(judge, cache), baseline, agent)
    cache.close()
    assert repeats(results) == {"a": (3, 1)}
    assert len(judge.messages) == 2, "one for yes, one for no"


def test_a_spent_budget_confirms_nothing(bench: Bench) -> None:
    """Ten questions for the run, one for the first further attempt; then the money is gone."""
    baseline = run_judged(bench, Judge(), None, Agent(bench))
    agent = Agent(bench, a=["no"] * 9)
    results = run_judged(bench, Judge(refuses=12), baseline, agent)
    assert repeats(results) == {"a": (1, 0)}
    assert not results.confirmations[0].is_broken
    assert not results.confirmations[0].is_settled
    assert results.compare_to(baseline).exit_code == 3
    assert agent.messages.count("a") == 3, "no agent is called when nobody can judge"


def test_a_judge_that_does_not_answer_confirms_nothing(bench: Bench) -> None:
    baseline = run_judged(bench, Judge(), None, Agent(bench))
    agent = Agent(bench, a=["no"] * 9)
    results = run_judged(bench, Judge(refuses=11, reason=Reason.PROVIDER), baseline, agent)
    assert repeats(results) == {"a": (0, 0)}
    assert agent.messages.count("a") == 2, "a second answer would not be judged, either"
    assert results.compare_to(baseline).exit_code == 3


# --- interruptions ---


@pytest.mark.parametrize("run_in", ["thread", "loop"])
def test_ctrl_c_keeps_the_run(bench: Bench, good: ScenarioEvalResults, run_in: str) -> None:
    def said(message: str, attempts: int) -> str:
        bench.agent(message)
        if message == "b" and attempts == 3:
            signal.raise_signal(signal.SIGINT)
        return "no" if message == "b" else "yes"

    counts = Counter[str]()

    def agent(message: str) -> str:
        counts[message] += 1
        return said(message, counts[message])

    async def in_loop(message: str) -> str:
        answer = agent(message)
        await asyncio.sleep(0)
        return answer

    options = {"concurrency": 2} if run_in == "loop" else {}
    with pytest.raises(ReasksInterrupted) as caught:
        compared(bench, in_loop if run_in == "loop" else agent, good, **options)
    results = caught.value.results
    assert repeats(results) == {"b": (1, 0)}
    assert not results.confirmations[0].is_settled
    assert results.metrics.total_scenarios == 10
    assert not bench.is_capturing


@pytest.mark.parametrize(
    ("bad", "options", "reason"),
    [
        pytest.param(
            "b", {"repeats": 3, "sequential": True}, "not confirmed: ", id="in the second round"
        ),
        pytest.param("abc", {"repeats": 3}, "not decided: ", id="while the suite runs again"),
    ],
)
def test_ctrl_c_before_a_decision_is_no_go(
    bench: Bench, thrice: ScenarioEvalResults, bad: str, options: dict[str, Any], reason: str
) -> None:
    """Kind: attempts that the rule wanted were not made, and what there is looks like a pass."""
    first = 1 if "sequential" in options else 3
    stopped: list[str | BaseException] = [*["yes"] * first, KeyboardInterrupt()]

    def agent(**more: list[str | BaseException]) -> Agent:
        fails: dict[str, list[str | BaseException]] = {name: ["no"] for name in bad}
        return Agent(bench, **fails, **more)

    with pytest.raises(ReasksInterrupted) as caught:
        compared(bench, agent(j=stopped), thrice, **options)
    results = caught.value.results
    assert (results.repeats, results.rounds, results.is_unfinished) == (first, 1, True)
    comparison = results.compare_to(thrice)
    assert comparison.exit_code == 3
    assert comparison.decision_reasons[0].startswith(reason)
    finished = compared(bench, agent(), thrice, **options)
    assert not finished.is_unfinished
    assert finished.compare_to(thrice).exit_code == 0


def test_ctrl_c_in_the_run_itself(bench: Bench, good: ScenarioEvalResults) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        compared(bench, Agent(bench, b=[KeyboardInterrupt()]), good)
    assert not isinstance(caught.value, ReasksInterrupted)


def test_a_journal_holds_further_attempts(
    bench: Bench, good: ScenarioEvalResults, tmp_path: Path
) -> None:
    """After Ctrl-C in the middle of them, only what is left runs."""
    journal = tmp_path / "run.jsonl"
    stopping = Agent(bench, b=["no", "no", "no", KeyboardInterrupt()])
    stopping_name = {"agent_fn": stopping}
    with pytest.raises(ReasksInterrupted):
        bench.orchestrator(*scenarios(*NAMES), **stopping_name).run(
            baseline=good, on_error="record", resume=journal
        )
    assert stopping.attempts == [*(f"{name}0" for name in NAMES), "b1", "b2", "b3"]
    agent = Agent(bench, b=["no"] * 9)
    resumed = compared(bench, agent, good, resume=journal)
    assert agent.attempts == [f"b{at}" for at in range(3, FURTHER + 1)]
    assert repeats(resumed) == BROKEN
    third = Agent(bench)
    assert repeats(compared(bench, third, good, resume=journal)) == repeats(resumed)
    assert third.messages == []
    assert resumed.reasked is not None
    assert len(resumed.reasked.dataset_results["agent"]) == FURTHER


def test_a_journal_holds_rounds_of_the_suite(
    bench: Bench, good: ScenarioEvalResults, tmp_path: Path
) -> None:
    """After Ctrl-C in the second round only the rest of it runs."""
    journal = tmp_path / "run.jsonl"
    stopping = Agent(bench, a=["no"], b=["no"], c=["yes", KeyboardInterrupt()])
    with pytest.raises(ReasksInterrupted):
        compared(bench, stopping, good, resume=journal)
    agent = Agent(bench)
    resumed = compared(bench, agent, good, resume=journal)
    assert agent.attempts == [f"{name}1" for name in NAMES[2:]]
    assert (resumed.rounds, resumed.repeats) == (2, 2)


def test_a_journal_tells_further_attempts_from_repeats(
    bench: Bench, good: ScenarioEvalResults, tmp_path: Path
) -> None:
    """They were made as the first one failed, so that they can be no repeats of another run."""
    journal = tmp_path / "run.jsonl"
    compared(bench, Agent(bench, b=["no"] * 9), good, resume=journal)
    agent = Agent(bench)
    results = compared(bench, agent, good, resume=journal, repeats=2)
    assert agent.attempts == [f"{name}1" for name in NAMES]
    assert results.confirmations == ()


# --- rounds that stop once they decide ---

ROUNDS: dict[str, Any] = {"repeats": 3, "sequential": True}


@pytest.fixture
def thrice(bench: Bench) -> ScenarioEvalResults:
    """A baseline of three attempts each."""
    return bench.orchestrator(*scenarios(*NAMES), agent_fn=Agent(bench)).run(repeats=3)


def test_a_good_suite_needs_one_round(bench: Bench, thrice: ScenarioEvalResults) -> None:
    agent = Agent(bench)
    results = compared(bench, agent, thrice, **ROUNDS)
    assert agent.attempts == [f"{name}0" for name in NAMES]
    assert (results.repeats, results.rounds, results.planned) == (1, 1, 3)
    assert results.compare_to(thrice).exit_code == 0


def test_a_suite_that_fell_far_needs_one_round(bench: Bench, thrice: ScenarioEvalResults) -> None:
    """Four of ten fail, with a chance of (1/4)^4 / 2 = 1/512; the level of the look is 1/400."""
    agent = Agent(bench, a=["no"], b=["no"], c=["no"], d=["no"])
    results = compared(bench, agent, thrice, **ROUNDS)
    assert Counter(agent.messages) == dict.fromkeys(NAMES, 1)
    assert results.compare_to(thrice).exit_code == 1


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_doubt_takes_all_rounds(
    bench: Bench, thrice: ScenarioEvalResults, concurrency: int
) -> None:
    """One of ten fails each time: it is broken by the third failure."""
    agent = Agent(bench, b=["no"] * 9)
    results = compared(bench, agent, thrice, concurrency=concurrency, **ROUNDS)
    assert sorted(agent.attempts) == [f"{name}{at}" for name in NAMES for at in range(3)]
    assert (results.repeats, results.rounds, results.confirmations) == (3, 1, ())
    assert results.compare_to(thrice).exit_code == 1


def test_no_attempt_of_a_round_is_thrown_away(bench: Bench, thrice: ScenarioEvalResults) -> None:
    """One of ten fails in the first round only: p is 1/8, 1/5 and, after the third round, 1/4."""
    results = compared(bench, Agent(bench, b=["no"]), thrice, **ROUNDS)
    assert (results.rounds, results.repeats) == (1, 3)
    comparison = results.compare_to(thrice)
    whole = comparison.rates[0]
    assert (whole.comparison_passed, whole.comparison_count) == (29, 30)
    assert comparison.exit_code == 0


def test_the_whole_suite_runs_again_after_the_rounds(
    bench: Bench, thrice: ScenarioEvalResults
) -> None:
    """With three that fail once p is (1/2)^3 / 2 after the third round, and (2/3)^3 / 2 later."""
    agent = Agent(bench, a=["no"], b=["no"], c=["no"])
    results = compared(bench, agent, thrice, **ROUNDS)
    assert (results.planned, results.repeats, results.rounds) == (3, 6, 2)
    assert Counter(agent.messages) == dict.fromkeys(NAMES, 6)


def test_a_task_that_fell_keeps_the_rounds_going(bench: Bench) -> None:
    """Kind: the scenarios say nothing, as they failed before, and a task of theirs fell.

    Each scenario fails its first task before and now. The second one passed in all attempts, and
    fails now in three of ten: (1/4)^3 / 2 is below 5 %, and (1/4)^3 is not below Holm's level.
    """
    both = [equals("response", "never"), equals("response", "yes", "other")]

    def run(agent: Any, **options: Any) -> ScenarioEvalResults:
        made = [EvalScenario(name, both, id=name) for name in NAMES]
        return bench.orchestrator(*made, agent_fn=agent).run(on_error="record", **options)

    before = run(Agent(bench), repeats=3)
    agent = Agent(bench, a=["no"], b=["no"], c=["no"])
    assert run(Agent(bench), baseline=before, **ROUNDS).repeats == 1
    assert run(agent, baseline=before, **ROUNDS).repeats > 1


def test_rounds_without_a_baseline_are_all_made(bench: Bench) -> None:
    results = bench.orchestrator(*scenarios(*NAMES), agent_fn=Agent(bench)).run(**ROUNDS)
    assert (results.repeats, results.planned) == (3, 0)


def test_a_journal_holds_rounds(bench: Bench, thrice: ScenarioEvalResults, tmp_path: Path) -> None:
    """After Ctrl-C in the second round only the rest of it, and the third one, run."""
    journal = tmp_path / "run.jsonl"
    stopping = Agent(bench, a=["no"] * 9, c=["yes", KeyboardInterrupt()])
    with pytest.raises(ReasksInterrupted):
        compared(bench, stopping, thrice, resume=journal, **ROUNDS)
    agent = Agent(bench, a=["no"] * 9)
    resumed = compared(bench, agent, thrice, resume=journal, **ROUNDS)
    assert agent.attempts == [*(f"{name}1" for name in NAMES[2:]), *(f"{name}2" for name in NAMES)]
    assert (resumed.rounds, resumed.repeats) == (1, 3)


# --- two versions alternately ---


def interleaved(
    bench: Bench, new: Callable[[str], str], old: Callable[[str], str], **options: Any
) -> tuple[ScenarioEvalResults, ScenarioEvalResults]:
    asking = EvalScenarios(scenarios(*NAMES))
    run = Run(
        EvalOrchestrator(bench.queue, asking, new),
        RunOptions(on_error="record", **options),
        beside=EvalOrchestrator(bench.queue, asking, old),
    )
    results = run.lead()
    assert run.baseline is not None
    assert asking.metrics == results.metrics
    return results, run.baseline


@pytest.mark.parametrize("concurrency", [1, 3])
def test_both_versions_run_in_turn(bench: Bench, concurrency: int) -> None:
    order: list[str] = []

    def version(name: str, wrong: str) -> Callable[[str], str]:
        def answer(message: str) -> str:
            order.append(f"{name}{message}")
            bench.agent(message)
            return "no" if message == wrong else "yes"

        return answer

    new, old = version("n", "b"), version("o", "d")
    results, baseline = interleaved(bench, new, old, repeats=2, concurrency=concurrency)
    if concurrency == 1:
        assert " ".join(order[:10]) == "oa na nb ob oc nc nd od oe ne"
        assert " ".join(order[20:30]) == "na oa ob nb nc oc od nd ne oe"
    assert {*order[40:]} == {"nb"}, "only the new version runs again"
    assert repeats(results) == {"b": (len(order) - 40, 0)}
    for found, wrong in ((results, "b"), (baseline, "d")):
        assert found.repeats == 2
        assert [(r.scenario_id, r.attempt, r.passed) for r in found.scenario_results] == [
            (name, at, name != wrong) for name in NAMES for at in (0, 1)
        ]
        rows = found.dataset_results["agent"]
        assert [(row.scenario_id, row.attempt) for row in rows] == [
            (name, at) for name in NAMES for at in (0, 1)
        ]
        assert len(found.contexts) == 20
        assert (found.metrics.passed_scenarios, found.metrics.total_scenarios) == (9, 10)


def test_both_versions_in_a_journal(bench: Bench, tmp_path: Path) -> None:
    journal = tmp_path / "run.jsonl"
    new, old = Agent(bench, b=["no"] * 9), Agent(bench)
    first = interleaved(bench, new, old, resume=journal)
    new, old = Agent(bench), Agent(bench)
    again = interleaved(bench, new, old, resume=journal)
    assert (new.messages, old.messages) == ([], [])
    assert [repeats(found) for found in again] == [repeats(found) for found in first]
    with pytest.raises(ConfigError, match="this journal holds answers of the agent"):
        compared(bench, Agent(bench), again[1], resume=journal)


def test_both_versions_in_rounds(bench: Bench) -> None:
    """Kind: rounds that stop in one version only, so that the baseline is of other attempts."""
    new, old = Agent(bench), Agent(bench, b=["no"])
    results, baseline = interleaved(bench, new, old, **ROUNDS)
    assert new.attempts == [f"{name}0" for name in NAMES]
    assert (results.repeats, baseline.repeats, results.planned) == (1, 1, 3)
    new, old = Agent(bench, b=["no"] * 9), Agent(bench)
    results, baseline = interleaved(bench, new, old, **ROUNDS)
    assert Counter(old.messages) == dict.fromkeys(NAMES, 3)
    assert [(r.scenario_id, r.attempt) for r in baseline.scenario_results] == [
        (name, at) for name in NAMES for at in range(3)
    ]
    assert baseline.runs == results.runs == 1
    assert results.compare_to(baseline).exit_code == 1
