"""Many attempts at a time: nothing is mixed up, whoever runs where and however long."""

import asyncio
import contextvars
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.replay.orchestrator import EvalOrchestrator
from tests.scouter.replay.bench import Bench, equals, spans_named

SOON_S = 120
"""Nothing here takes as long; who waits longer waits for nothing."""


def all_spans(count: int) -> TraceAssertionTask:
    return TraceAssertionTask(
        id="all",
        assertion=TraceAssertion.trace_span_count(),
        operator=ComparisonOperator.Equals,
        expected_value=count,
    )


def numbered(count: int) -> list[EvalScenario]:
    """Scenario n emits n + 1 spans, all of them called `step`, and n + 1 records."""
    return [
        EvalScenario(
            str(n),
            [spans_named("step", n + 1), all_spans(n + 1), equals("response", n)],
            id=f"s{n}",
        )
        for n in range(count)
    ]


def rows_of(results: ScenarioEvalResults) -> dict[tuple[str | None, int], list[Any]]:
    """Per scenario and attempt, what the records say."""
    found: dict[tuple[str | None, int], list[Any]] = {}
    for row in results.dataset_results["agent"]:
        found.setdefault((row.scenario_id, row.attempt), []).append(row.record.record_id)
    return found


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("kind", ["async", "plain", "threads"])
def test_thirty_scenarios_three_times(bench: Bench, kind: str, seed: int) -> None:
    """Each attempt emits its own number of spans and records, whatever the others do meanwhile."""
    chance = random.Random(seed)
    barrier = threading.Barrier(2)

    def step(n: int) -> None:
        with bench.tracer.start_as_current_span("step") as span:
            span.add_queue_item("agent", EvalRecord({"n": n}, id=str(n)))

    async def async_agent(query: str) -> int:
        for _ in range(int(query) + 1):
            for _ in range(chance.randrange(4)):
                await asyncio.sleep(0)
            with bench.tracer.start_as_current_span("step") as span:
                await asyncio.sleep(0)
                span.add_queue_item("agent", EvalRecord({"n": query}, id=query))
        return int(query)

    def plain_agent(query: str) -> int:
        for _ in range(int(query) + 1):
            step(int(query))
            if chance.random() < 0.1:
                try:  # now and then two threads meet, so that others run in between
                    barrier.wait(0.001)
                except threading.BrokenBarrierError:
                    barrier.reset()
        return int(query)

    def agent_with_threads(query: str) -> int:
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(step, int(query)))
            for _ in range(int(query) + 1)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SOON_S)
        return int(query)

    agents: dict[str, Callable[[str], Any]] = {
        "async": async_agent,
        "plain": plain_agent,
        "threads": agent_with_threads,
    }
    scenarios = numbered(30)
    results = bench.orchestrator(*scenarios, agent_fn=agents[kind]).run(concurrency=30, repeats=3)

    assert [(r.scenario_id, r.attempt) for r in results.scenario_results] == [
        (f"s{n}", attempt) for n in range(30) for attempt in range(3)
    ]
    assert [r.outcome for r in results.scenario_results if not r.passed] == []
    assert {len(r.traces) == int(r.scenario_id[1:]) + 1 for r in results.scenario_results} == {True}
    assert rows_of(results) == {
        (f"s{n}", attempt): [str(n)] * (n + 1) for n in range(30) for attempt in range(3)
    }
    assert list(rows_of(results)) == [(f"s{n}", a) for n in range(30) for a in range(3)]
    assert results.repeats == 3
    assert results.metrics.dataset_pass_rates == {"agent": 1.0}
    assert (results.metrics.total_scenarios, results.metrics.passed_scenarios) == (30, 30)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_as_many_as_allowed(bench: Bench, is_async: bool) -> None:
    """Three at a time: three meet, and a fourth never is among them."""
    here = 0
    most = 0
    lock = threading.Lock()
    meeting = threading.Barrier(3)
    meeting_async = asyncio.Barrier(3)

    def come(number: int) -> None:
        nonlocal here, most
        with lock:
            here += number
            most = max(most, here)

    def agent(query: str) -> str:
        come(1)
        meeting.wait(SOON_S)
        come(-1)
        return query

    async def async_agent(query: str) -> str:
        come(1)
        await asyncio.wait_for(meeting_async.wait(), SOON_S)
        come(-1)
        return query

    scenarios = [EvalScenario(str(n), id=f"s{n}") for n in range(9)]
    orch = bench.orchestrator(*scenarios, agent_fn=async_agent if is_async else agent)
    orch.run(concurrency=3)
    assert most == 3


def test_who_is_called_where(bench: Bench) -> None:
    """Plain functions: directly, or in a thread per attempt. Async ones: in one event loop."""
    calls: list[tuple[str, str]] = []

    class Watching(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            calls.append((f"start {scenario.id}", threading.current_thread().name))

        def execute_agent(self, scenario: EvalScenario) -> str:
            calls.append((f"agent {scenario.id}", threading.current_thread().name))
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return asyncio.run(self._answer())  # nobody else's loop is in the way

        async def _answer(self) -> str:
            return "x"

        async def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            calls.append((f"complete {scenario.id}", threading.current_thread().name))

    scenarios = EvalScenarios([EvalScenario("q", id="a"), EvalScenario("q", id="b")])
    orch = Watching(bench.queue, scenarios)
    here = threading.current_thread().name
    orch.run()
    assert {name for _, name in calls} == {here}
    assert [call for call, _ in calls] == [
        "start a", "agent a", "complete a", "start b", "agent b", "complete b",
    ]  # fmt: skip
    calls.clear()
    orch.run(timeout_s=SOON_S)
    assert [name == here for _, name in calls] == [False, False, True] * 2


def test_async_everywhere(bench: Bench) -> None:
    """Every method may be async, in the plain `run`, in `run_async`, and many at a time."""
    calls: list[str] = []

    class Async(EvalOrchestrator):
        async def on_scenario_start(self, scenario: EvalScenario) -> None:
            calls.append("start")

        async def execute_agent_turn(self, scenario: EvalScenario, message: str) -> str:
            await asyncio.sleep(0)
            return bench.agent(message)

        async def execute_simulated_user_turn(
            self, scenario: EvalScenario, initial_query: str, agent_response: Any, history: Any
        ) -> str:
            await asyncio.sleep(0)
            return "more" if not history else "BYE"

        async def build_scenario_response(
            self, scenario: EvalScenario, response: Any, history: Any
        ) -> Any:
            return {"said": response, "before": history}

        async def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            calls.append(f"complete {response['said']}")

        async def on_evaluation_complete(self, results: ScenarioEvalResults) -> Any:
            calls.append("evaluated")
            return results

    tasks = [equals("response.before[0].agent", "re: hi"), spans_named("step", 2)]
    scenarios = EvalScenarios([EvalScenario("hi", tasks, id="s", termination_signal="BYE")])
    orch = Async(bench.queue, scenarios)
    expected = ["start", "complete re: more", "evaluated"]
    for run in (
        orch.run,
        lambda: orch.run(concurrency=2),
        lambda: asyncio.run(orch.run_async()),
        lambda: asyncio.run(in_loop(orch.run)),
    ):
        results = run()
        assert calls == expected
        assert results.metrics.overall_pass_rate == 1.0, results.scenario_results
        [result] = results.scenario_results
        assert result.turns == (
            {"user": "hi", "agent": "re: hi"},
            {"user": "more", "agent": "re: more"},
        )
        calls.clear()


async def in_loop(run: Callable[[], ScenarioEvalResults]) -> ScenarioEvalResults:
    """Call a plain function where a loop runs, as a notebook does."""
    return run()


def test_async_agent_with_fixed_turns(bench: Bench) -> None:
    """The orchestrator's own `execute_agent` awaits each answer before the next message."""
    messages: list[str] = []

    async def agent(message: str) -> str:
        messages.append(message)
        await asyncio.sleep(0)
        return bench.agent(message)

    scenario = EvalScenario(
        "a",
        [equals("response", "re: c"), spans_named("step", 3)],
        id="s",
        predefined_turns=["b", "c"],
    )
    results = bench.orchestrator(scenario, agent_fn=agent).run()
    assert results.get_scenario_detail("s").passed
    assert messages == ["a", "b", "c"]
    assert [turn["user"] for turn in results.scenario_results[0].turns] == ["a", "b", "c"]


def test_one_loop_for_all_calls(bench: Bench) -> None:
    """Clients that are bound to a loop work through a whole run."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def agent(message: str) -> str:
        loops.append(asyncio.get_running_loop())
        return message

    bench.orchestrator(EvalScenario("a", id="a"), EvalScenario("b", id="b"), agent_fn=agent).run()
    assert len(loops) == 2
    assert loops[0] is loops[1]
    assert loops[0].is_closed()


def test_bare_threads_are_mentioned(bench: Bench) -> None:
    """Whose records are they? With two attempts under way nobody knows, and the run says so."""
    meeting = threading.Barrier(2)

    def agent(query: str) -> str:
        meeting.wait(SOON_S)
        thread = threading.Thread(target=bench.agent, args=(query,))
        thread.start()
        thread.join(SOON_S)
        meeting.wait(SOON_S)
        return query

    scenarios = [EvalScenario("q", id=name) for name in "ab"]
    with pytest.warns(UserWarning, match=r"2 records of unknown origin.*copy_context") as caught:
        results = bench.orchestrator(*scenarios, agent_fn=agent).run(concurrency=2)
    assert results.dataset_results == {}
    assert [warning.filename for warning in caught] == [__file__]


def test_the_first_failure_is_raised_and_the_others_are_cancelled(bench: Bench) -> None:
    """The very object, after capture was switched off; nobody waits for the slow ones."""
    problem = LookupError("no")
    cancelled: list[str] = []

    async def agent(query: str) -> str:
        if query == "bad":
            await asyncio.sleep(0)
            raise problem
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(query)
            raise
        return query

    scenarios = [EvalScenario(name, id=name) for name in ("slow", "bad", "slower", "never started")]
    with pytest.raises(LookupError) as caught:
        bench.orchestrator(*scenarios, agent_fn=agent).run(concurrency=3)
    assert caught.value is problem
    assert sorted(cancelled) == ["slow", "slower"]
    assert not bench.is_capturing


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
def test_setup_mistakes_always_raise(bench: Bench, options: dict[str, Any]) -> None:
    """`on_error="record"` is for agents, not for a run that cannot work."""

    def agent(query: str) -> str:
        bench.queue["unknown"].insert(EvalRecord())
        return query

    with pytest.raises(ConfigError, match="no profile has the alias 'unknown'"):
        bench.orchestrator(EvalScenario("q"), agent_fn=agent).run(on_error="record", **options)
    with pytest.raises(NotImplementedError, match="Either pass agent_fn"):
        bench.orchestrator(EvalScenario("q"), agent_fn=None).run(on_error="record", **options)
    assert not bench.is_capturing


@pytest.mark.parametrize("options", [{}, {"concurrency": 2}], ids=["in turn", "at once"])
@pytest.mark.parametrize("is_async", [True, False], ids=["async", "plain"])
def test_an_interrupted_run_sends_again(
    bench: Bench, is_async: bool, options: dict[str, Any]
) -> None:
    """Ctrl-C ends the run at once, even where a plain agent cannot be stopped."""
    release = threading.Event()

    def agent(query: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        assert release.wait(SOON_S)
        return query

    async def async_agent(query: str) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()
        return query

    orch = bench.orchestrator(EvalScenario("q"), agent_fn=async_agent if is_async else agent)
    with pytest.raises(KeyboardInterrupt):
        orch.run(on_error="record", **options)
    assert not bench.is_capturing
    release.set()
    orch.agent_fn = bench.agent
    assert len(orch.run().dataset_results["agent"]) == 1  # and another run may begin


def test_the_stop_button_of_a_notebook(bench: Bench) -> None:
    """The cell ends at once; the attempt under way is the last one."""
    release = threading.Event()
    messages: list[str] = []

    def agent(query: str) -> str:
        messages.append(query)
        until_main_waits()
        os.kill(os.getpid(), signal.SIGINT)
        assert release.wait(SOON_S)
        return bench.agent(query)

    orch = bench.orchestrator(EvalScenario("a", id="a"), EvalScenario("b", id="b"), agent_fn=agent)
    loop = asyncio.new_event_loop()  # as in a notebook, where nobody handles the signal
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(in_loop(orch.run))
    loop.close()
    assert not bench.is_capturing
    release.set()
    second = bench.orchestrator(EvalScenario("c", id="c"))
    assert len(as_soon_as_possible(second.run).dataset_results["agent"]) == 1
    assert messages == ["a"]


def until_main_waits() -> None:
    """Wait until the main thread sleeps: on its way there a signal would wake it too early."""
    stat = Path(f"/proc/self/task/{threading.main_thread().native_id}/stat")
    while stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "S":
        pass


def as_soon_as_possible(run: Callable[[], ScenarioEvalResults]) -> ScenarioEvalResults:
    """Run when the run before has ended; its thread cannot be joined, as a wait for it broke."""
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        with suppress(ConfigError):
            return run()
    return run()


def test_a_cancelled_run_sends_again(bench: Bench) -> None:
    """A caller that awaits `run_async` may give up."""

    async def give_up() -> None:
        is_running = asyncio.Event()

        async def agent(query: str) -> None:
            is_running.set()
            await asyncio.Event().wait()

        orch = bench.orchestrator(EvalScenario("q"), agent_fn=agent)
        run = asyncio.create_task(orch.run_async())
        await is_running.wait()
        assert bench.is_capturing
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(give_up())
    assert not bench.is_capturing


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_error": "ignore"}, "on_error is 'ignore'; expected 'raise' or 'record'"),
        ({"repeats": 0}, "repeats is 0; expected a whole number from 1"),
        ({"concurrency": 1.5}, "concurrency is 1.5; expected a whole number from 1"),
        ({"concurrency": True}, "concurrency is True; expected"),
        ({"retries": -1}, "retries is -1; expected a whole number from 0"),
        ({"timeout_s": 0}, "timeout_s is 0; expected seconds above 0"),
        ({"timeout_s": float("nan")}, "timeout_s is nan; expected seconds above 0"),
    ],
)
def test_wrong_arguments(bench: Bench, options: dict[str, Any], words: str) -> None:
    """Named with their value, before anything runs."""
    with pytest.raises(ConfigError, match=words):
        bench.orchestrator(EvalScenario("q")).run(**options)
