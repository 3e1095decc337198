"""Agents that raise, hang and recover: what is recorded, retried and thrown away."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import TransientError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import MockConfig
from scouter.transport.port import MockTransport
from tests.scouter.replay.bench import Bench, equals, spans_named

SOON_S = 120
SIX = ("a", "bad", "b", "bad", "c", "d")


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}], ids=["in turn", "at once"])
def test_one_failure_of_three_is_recorded(
    bench: Bench, options: dict[str, Any], tmp_path: Path
) -> None:
    """The failing scenario's tasks are errored; the others' results are all there."""

    def agent(query: str) -> str:
        answer = bench.agent(query)
        if query == "bad":
            raise LookupError("no such shelf")
        return answer

    scenarios = [
        EvalScenario(name, [equals("response", f"re: {name}")], id=name)
        for name in ("good", "bad", "better")
    ]
    results = bench.orchestrator(*scenarios, agent_fn=agent).run(on_error="record", **options)

    assert [r.outcome for r in results.scenario_results] == ["passed", "errored", "passed"]
    bad = results.get_scenario_detail("bad")
    assert bad.error == "LookupError: no such shelf"
    assert not bad.passed
    assert bad.pass_rate == 0.0
    [task] = bad.task_results
    assert (task.outcome, task.reason) == (Outcome.ERRORED, Reason.AGENT)
    assert task.message == "not judged: LookupError: no such shelf"
    assert len(bad.traces) == 1  # what it did until then can be looked at
    assert results.metrics.scenario_pass_rate == 2 / 3
    assert results.metrics.dataset_pass_rates == {"agent": 1.0}  # its record was judged
    assert results.dataset_results["agent"].scenario_ids == ("good", "bad", "better")
    results.save(tmp_path / "r.json")
    assert ScenarioEvalResults.load(tmp_path / "r.json") == results
    assert ScenarioEvalResults.model_validate_json(results.model_dump_json()) == results


class MuteError(Exception):
    """Cannot be shown."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (MuteError(), "MuteError: <MuteError>"),
        (
            asyncio.CancelledError("inner"),
            "RuntimeError: the agent or a hook raised CancelledError",
        ),
    ],
    ids=["mute", "cancelled"],
)
def test_what_is_hard_to_catch_is_its_scenarios_failure(
    bench: Bench, raised: BaseException, error: str, is_async: bool, options: dict[str, Any]
) -> None:
    """An error that cannot be shown, and one that an event loop takes for its own."""

    def agent(query: str) -> str:
        if query == "bad":
            raise raised
        return query

    async def agent_async(query: str) -> str:
        await asyncio.sleep(0)
        return agent(query)

    scenarios = [EvalScenario(q, [equals("response", q)], id=f"{at}") for at, q in enumerate(SIX)]
    orchestrator = bench.orchestrator(*scenarios, agent_fn=agent_async if is_async else agent)
    results = orchestrator.run(on_error="record", **options)
    assert [found.error for found in results.scenario_results] == [
        error if query == "bad" else None for query in SIX
    ]
    kind = MuteError if isinstance(raised, MuteError) else RuntimeError
    with pytest.raises(kind):
        orchestrator.run(**options)


def test_a_scenario_without_tasks_that_raises_is_a_failure(bench: Bench) -> None:
    """It would be in no figure otherwise, and a crash would look like a success."""

    def agent(query: str) -> str:
        raise LookupError

    results = bench.orchestrator(EvalScenario("q", id="s"), agent_fn=agent).run(on_error="record")
    [result] = results.scenario_results
    assert (result.error, result.outcome, result.task_results) == ("LookupError", "errored", ())
    assert results.metrics.total_scenarios == 1
    assert results.metrics.overall_pass_rate == 0.0


@pytest.mark.parametrize("where", ["start", "build", "complete", "response"])
def test_a_failing_hook_is_its_scenarios_failure(bench: Bench, where: str) -> None:
    """And is not tried again: what a hook does may not be meant to be done twice."""
    calls: list[str] = []

    class Failing(EvalOrchestrator):
        def _fail(self, at: str, scenario: EvalScenario) -> None:
            calls.append(at)
            if at == where and scenario.id == "bad":
                raise LookupError(at)

        def on_scenario_start(self, scenario: EvalScenario) -> None:
            self._fail("start", scenario)

        def build_scenario_response(
            self, scenario: EvalScenario, response: Any, history: Any
        ) -> Any:
            self._fail("build", scenario)
            return object() if where == "response" and scenario.id == "bad" else response

        def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            self._fail("complete", scenario)

    scenarios = EvalScenarios(
        [EvalScenario("q", [equals("response", "re: q")], id=name) for name in ("bad", "good")]
    )
    results = Failing(bench.queue, scenarios, bench.agent).run(on_error="record", retries=3)
    assert [r.outcome for r in results.scenario_results] == ["errored", "passed"]
    error = results.scenario_results[0].error or ""
    if where == "response":
        assert error.startswith("DataError: scenario 'bad', response: the top level: 'object'")
    else:
        assert error == f"LookupError: {where}"
    assert calls.count("start") == 2


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_time_runs_out(bench: Bench, is_async: bool) -> None:
    """Late records of a thread that cannot be stopped are in no result of any attempt."""
    hang = threading.Event()
    threads: list[threading.Thread] = []
    here = threading.Event()

    def agent(query: str) -> str:
        if query == "slow":
            threads.append(threading.current_thread())
            bench.agent("before the limit")
            assert hang.wait(SOON_S)
            bench.agent("after the limit")
            here.set()
        elif query == "last":
            hang.set()
            assert here.wait(SOON_S)
        return bench.agent(query)

    async def async_agent(query: str) -> str:
        if query == "slow":
            bench.agent("before the limit")
            await asyncio.Event().wait()
        return bench.agent(query)

    tasks = [spans_named("step", 1)]
    scenarios = [EvalScenario(name, tasks, id=name) for name in ("slow", "next", "last")]
    orch = bench.orchestrator(*scenarios, agent_fn=async_agent if is_async else agent)
    results = orch.run(on_error="record", timeout_s=1)
    assert [r.outcome for r in results.scenario_results] == ["errored", "passed", "passed"]
    assert results.scenario_results[0].error == (
        "TimeoutError: scenario 'slow' took longer than timeout_s=1"
    )
    assert results.dataset_results["agent"].scenario_ids == ("slow", "next", "last")
    assert [len(r.traces) for r in results.scenario_results] == [1, 1, 1]


def test_time_runs_out_in_code(bench: Bench) -> None:
    """By default the run ends with the exception, without waiting for the thread."""
    release = threading.Event()

    def agent(query: str) -> str:
        release.wait(SOON_S)
        return query

    with pytest.raises(TimeoutError, match=r"scenario 's' took longer than timeout_s=0\.01"):
        bench.orchestrator(EvalScenario("q", id="s"), agent_fn=agent).run(timeout_s=0.01)
    assert not bench.is_capturing
    release.set()


def test_an_agents_own_timeout_keeps_its_words(bench: Bench) -> None:
    """The limit did not run out; what the agent raised is the agent's."""

    async def agent(query: str) -> str:
        raise TimeoutError("the shop did not answer")

    orch = bench.orchestrator(EvalScenario("q", id="s"), agent_fn=agent)
    results = orch.run(on_error="record", timeout_s=SOON_S)
    assert results.scenario_results[0].error == "TimeoutError: the shop did not answer"


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_retries(bench: Bench, options: dict[str, Any]) -> None:
    """Two failures, then success: only the third try's spans, records and turns count."""
    messages: list[str] = []
    starts: list[str] = []
    pauses: list[float] = []

    class Counting(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            starts.append(scenario.id)

        def backoff_s(self, failures: int, error: Exception) -> float:
            assert str(error) == f"failure {failures}"
            return failures

    def agent(message: str) -> str:
        messages.append(message)
        answer = bench.agent(message)
        if message == "b" and messages.count("b") <= 2:
            raise OSError(f"failure {messages.count('b')}")
        return answer

    scenario = EvalScenario("a", [spans_named("step", 2)], id="s", predefined_turns=["b"])
    orch = Counting(bench.queue, EvalScenarios([scenario]), agent, sleep=pauses.append)
    results = orch.run(retries=2, **options)
    assert messages == ["a", "b"] * 3
    assert starts == ["s"] * 3  # a fresh session for each try
    assert pauses == [1, 2]
    [result] = results.scenario_results
    assert result.passed
    assert len(result.turns) == 2
    assert len(result.traces) == 2
    assert len(results.dataset_results["agent"]) == 2
    messages.clear()
    with pytest.raises(OSError, match="failure 2"):
        orch.run(retries=1, **options)


def test_a_late_try_does_not_disturb_the_next(bench: Bench) -> None:
    """The try that ran out of time emits while the retry runs; only the retry counts."""
    tries: list[threading.Event] = []
    done = threading.Event()

    def agent(query: str) -> str:
        tries.append(threading.Event())
        if len(tries) == 1:
            assert tries[0].wait(SOON_S)
            bench.agent("late")
            bare = threading.Thread(target=bench.agent, args=("late and bare",))
            bare.start()
            bare.join(SOON_S)
            done.set()
        else:
            tries[0].set()
            assert done.wait(SOON_S)
        return bench.agent(query)

    scenario = EvalScenario("q", [spans_named("step", 1)], id="s")
    pauses: list[float] = []
    orch = bench.orchestrator(scenario, agent_fn=agent, sleep=pauses.append)
    with pytest.warns(UserWarning, match="1 record of unknown origin"):
        results = orch.run(timeout_s=1, retries=1)
    assert results.get_scenario_detail("s").passed
    assert len(results.dataset_results["agent"]) == 1


def test_backoff(bench: Bench) -> None:
    """Half to all of 1, 2, 4 … 30 seconds; at least what the far side requested."""
    orch = bench.orchestrator(EvalScenario("q"))
    for failures, longest in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (500, 30)]:
        for _ in range(20):
            assert longest / 2 <= orch.backoff_s(failures, OSError()) <= longest
    assert orch.backoff_s(1, TransientError("busy", retry_after_s=77)) == 77
    assert orch.backoff_s(1, TransientError("busy")) <= 1


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_without_a_sleep_of_ones_own(bench: Bench, options: dict[str, Any]) -> None:
    """The process waits itself, here for no time."""
    failures = [LookupError()]

    class AtOnce(EvalOrchestrator):
        def backoff_s(self, failures: int, error: Exception) -> float:
            return 0.0

    def agent(query: str) -> str:
        if failures:
            raise failures.pop()
        return bench.agent(query)

    orch = AtOnce(bench.queue, EvalScenarios([EvalScenario("q", id="s")]), agent)
    assert len(orch.run(retries=1, **options).dataset_results["agent"]) == 1


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_sleep_may_be_async(bench: Bench, options: dict[str, Any]) -> None:
    """An async pause is awaited."""
    pauses: list[float] = []
    failures = [LookupError()]

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(0)
        pauses.append(seconds)

    def agent(query: str) -> str:
        if failures:
            raise failures.pop()
        return query

    orch = bench.orchestrator(EvalScenario("q"), agent_fn=agent, sleep=sleep)
    orch.run(retries=1, **options)
    assert len(pauses) == 1


def test_repeats_by_hand(bench: Bench) -> None:
    """Attempts of "flaky": pass, fail, raise. Of "sure": three passes. 4 of 6 pass."""
    seen: list[str] = []

    def agent(query: str) -> str:
        seen.append(query)
        answer = bench.agent(query)
        if query == "flaky" and seen.count(query) == 3:
            raise LookupError
        return "other" if query == "flaky" and seen.count(query) == 2 else answer

    scenarios = [
        EvalScenario(name, [equals("response", f"re: {name}", "answer")], id=name)
        for name in ("flaky", "sure")
    ]
    results = bench.orchestrator(*scenarios, agent_fn=agent).run(repeats=3, on_error="record")
    assert seen == ["flaky", "sure"] * 3  # one round after the other
    metrics = results.metrics
    assert (metrics.passed_scenarios, metrics.total_scenarios) == (1, 2)
    assert metrics.scenario_pass_rate == 1 / 2
    assert metrics.scenario_task_pass_rates == {"flaky": {"answer": 1 / 3}, "sure": {"answer": 1.0}}
    assert results.get_scenario_detail("flaky", attempt=1).outcome == "failed"
    assert results.get_scenario_detail("flaky", attempt=2).error == "LookupError"
    rows = results.dataset_results["agent"]
    assert rows.scenario_ids == ("flaky",) * 3 + ("sure",) * 3
    assert rows.attempts == (0, 1, 2) * 2
    shown = {
        (r.scenario_id, r.alias, r.task_id): (r.passed, r.attempts) for r in results.reliability()
    }
    assert shown == {
        ("flaky", None, ""): (1, 3),
        ("flaky", None, "answer"): (1, 3),
        ("flaky", "agent", "spans"): (3, 3),
        ("sure", None, ""): (3, 3),
        ("sure", None, "answer"): (3, 3),
        ("sure", "agent", "spans"): (3, 3),
    }
    first = results.reliability()[0]
    assert first.pass_at == pytest.approx({1: 1 / 3, 2: 2 / 3, 3: 1.0})
    assert first.pass_hat == pytest.approx({1: 1 / 3, 2: 0.0, 3: 0.0})
    assert first.flaky
    assert first.flakiness == pytest.approx(2 / 3)
    with pytest.raises(KeyError, match="attempt 3 of flaky; there are attempts 0 to 2"):
        results.get_scenario_detail("flaky", attempt=3)


def test_nothing_of_a_replay_is_sent_afterwards() -> None:
    """A thread that was left over goes on when sending is switched on; it sends nothing."""
    sent = MockTransport()

    class Counted(MockConfig):
        def open(self) -> MockTransport:
            return sent

    config = Counted()
    profile = AgentEvalProfile(alias="agent", tasks=[spans_named("step", 1)])
    queue = ScouterQueue.from_profile([profile], transport_config=config)
    bench = Bench(
        queue, init_tracer(service_name="s", scouter_queue=queue, transport_config=config)
    )
    release, done = threading.Event(), threading.Event()

    def agent(query: str) -> str:
        assert release.wait(SOON_S)
        bench.agent("left over")
        done.set()
        return query

    try:
        with pytest.raises(TimeoutError):
            bench.orchestrator(EvalScenario("q"), agent_fn=agent).run(timeout_s=0.01)
        release.set()
        assert done.wait(SOON_S)
        bench.agent("live")
        assert queue.flush()
        flush_tracer()
        assert (sent.records, sent.spans) == (1, 1)
        assert queue.stats.dropped == {"replay_over": 1}
    finally:
        shutdown_tracer()
        queue.shutdown()
