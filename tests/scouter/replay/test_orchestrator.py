"""The life of a replay: order of calls, capture, isolation, errors. Everything runs for real."""

import asyncio
import contextvars
import io
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any

import pytest
from pydantic import BaseModel

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, DataError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig, MockConfig
from tests.scouter.replay.bench import Bench, equals, spans_named


class Recorder(EvalOrchestrator):
    """Writes every call down."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.calls: list[str] = []

    def on_scenario_start(self, scenario: EvalScenario) -> None:
        self.calls.append(f"start {scenario.id}")

    def execute_agent(self, scenario: EvalScenario) -> Any:
        self.calls.append(f"agent {scenario.id}")
        return super().execute_agent(scenario)

    def execute_agent_turn(self, scenario: EvalScenario, message: str) -> Any:
        self.calls.append(f"turn {message}")
        return super().execute_agent_turn(scenario, message)

    def execute_simulated_user_turn(
        self, scenario: EvalScenario, initial_query: str, agent_response: Any, history: list[Any]
    ) -> str | None:
        self.calls.append(f"user after {agent_response}, {len(history)} before")
        return super().execute_simulated_user_turn(scenario, initial_query, agent_response, history)

    def build_scenario_response(
        self, scenario: EvalScenario, response: Any, history: list[Any]
    ) -> Any:
        self.calls.append(f"build {response}, {len(history)} before")
        return {"text": response}

    def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
        self.calls.append(f"complete {scenario.id} {response}")

    def on_evaluation_complete(self, results: ScenarioEvalResults) -> ScenarioEvalResults:
        self.calls.append("evaluated")
        return results


def recorder(bench: Bench, *scenarios: EvalScenario, **options: Any) -> Recorder:
    options = {"agent_fn": bench.agent, **options}
    return Recorder(bench.queue, EvalScenarios(scenarios=scenarios), **options)


def leave_soon(query: str, response: Any, history: list[Any]) -> str:
    return "BYE" if history else "more"


def count_up(query: str, response: Any, history: list[Any]) -> str:
    return str(len(history) + 1)


def test_order_of_calls(bench: Bench) -> None:
    """As the document's lifecycle draws it, for both kinds of scenario."""
    orch = recorder(
        bench,
        EvalScenario("q", id="plain"),
        EvalScenario("hi", id="talk", termination_signal="BYE"),
        simulated_user_fn=leave_soon,
    )
    orch.run()
    assert orch.calls == [
        "start plain",
        "agent plain",
        "build re: q, 0 before",
        "complete plain {'text': 're: q'}",
        "start talk",
        "turn hi",
        "user after re: hi, 0 before",
        "turn more",
        "user after re: more, 1 before",
        "build re: more, 1 before",
        "complete talk {'text': 're: more'}",
        "evaluated",
    ]


@pytest.mark.parametrize("max_turns", [1, 2, 4])
def test_the_user_is_not_called_after_the_last_turn(bench: Bench, max_turns: int) -> None:
    """All turns of the agent, one less of the user, where no signal ends it (defect 16)."""
    scenario = EvalScenario("0", simulated_user_persona="curious", max_turns=max_turns)
    orch = recorder(bench, scenario, simulated_user_fn=count_up)
    results = orch.run()
    assert [call for call in orch.calls if call.startswith("turn")] == [
        f"turn {number}" for number in range(max_turns)
    ]
    assert sum(call.startswith("user") for call in orch.calls) == max_turns - 1
    assert len(results.dataset_results["agent"]) == max_turns


def test_each_record_sees_its_own_trace_and_each_scenario_its_own_spans(bench: Bench) -> None:
    """Turns are traces of their own; a scenario sees all of its turns and nothing else."""
    scenarios = [
        EvalScenario("q", [spans_named("step", 3)], id="three", predefined_turns=["r", "s"]),
        EvalScenario("q", [spans_named("step", 1)], id="one"),
    ]
    with bench.tracer.start_as_current_span("around the whole run"):
        results = bench.orchestrator(*scenarios).run()
    assert results.metrics.dataset_pass_rates == {"agent": 1.0}  # `spans` equals 1 for all four
    assert len(results.dataset_results["agent"]) == 4
    assert results.metrics.scenario_pass_rate == 1.0


def test_no_span_is_added_around_a_scenario(bench: Bench) -> None:
    """Everything that a scenario sees was made by the agent."""
    task = TraceAssertionTask(
        id="all",
        assertion=TraceAssertion.trace_span_count(),
        operator=ComparisonOperator.Equals,
        expected_value=1,
    )
    results = bench.orchestrator(EvalScenario("q", [task], id="s")).run()
    assert results.get_scenario_detail("s").passed


def test_spans_of_the_simulated_user_are_not_the_agents(bench: Bench) -> None:
    """The user's own model call is traced, too, and is in no scenario."""

    def user(query: str, response: str, history: list[Any]) -> str:
        with bench.tracer.start_as_current_span("step"):
            return "more"

    scenario = EvalScenario(
        "q", [spans_named("step", 2)], id="s", simulated_user_persona="p", max_turns=2
    )
    results = bench.orchestrator(scenario, simulated_user_fn=user).run()
    assert results.get_scenario_detail("s").passed


def test_run_twice(bench: Bench) -> None:
    """The second run starts from nothing (defect 6)."""
    orch = bench.orchestrator(EvalScenario("q", [equals("response", "re: q")], id="s"))
    first, second = orch.run(), orch.run()
    assert first.metrics == second.metrics
    assert len(second.dataset_results["agent"]) == 1
    assert not second.compare_to(first).regressed


@pytest.mark.parametrize("where", ["agent", "start", "complete", "evaluated", "user"])
def test_an_exception_is_raised_after_capture_is_off(bench: Bench, where: str) -> None:
    """Wherever the user's own code fails, the process sends records and spans again."""

    class Failing(EvalOrchestrator):
        def _fail(self, at: str) -> None:
            assert bench.is_capturing
            if at == where:
                raise LookupError(at)

        def on_scenario_start(self, scenario: EvalScenario) -> None:
            self._fail("start")

        def execute_agent_turn(self, scenario: EvalScenario, message: str) -> str:
            self._fail("agent")
            return "x"

        def execute_simulated_user_turn(
            self, scenario: EvalScenario, initial_query: str, agent_response: Any, history: Any
        ) -> str:
            self._fail("user")
            return "DONE"

        def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            self._fail("complete")

        def on_evaluation_complete(self, results: ScenarioEvalResults) -> ScenarioEvalResults:
            self._fail("evaluated")
            return results

    scenarios = EvalScenarios([EvalScenario("q", termination_signal="DONE")])
    with pytest.raises(LookupError, match=where):
        Failing(bench.queue, scenarios).run()
    assert not bench.is_capturing


@pytest.mark.parametrize(
    ("scenario", "options", "words"),
    [
        (
            EvalScenario("q"),
            {"agent_fn": None},
            "Either pass agent_fn to EvalOrchestrator() or subclass and override execute_agent()",
        ),
        (
            EvalScenario("q", termination_signal="X"),
            {"agent_fn": None},
            "Either pass agent_fn to EvalOrchestrator() or subclass and override"
            " execute_agent_turn()",
        ),
        (
            EvalScenario("q", termination_signal="X", id="x"),
            {},
            "Either pass simulated_user_fn to EvalOrchestrator() or subclass and override"
            " execute_simulated_user_turn(): scenario 'x' is interactive, and nobody plays the"
            " user; scouter eval takes --simulated-user, pytest --scouter-simulated-user",
        ),
    ],
)
def test_what_is_not_given(
    bench: Bench, scenario: EvalScenario, options: dict[str, Any], words: str
) -> None:
    """The original's texts."""
    with pytest.raises(NotImplementedError) as caught:
        bench.orchestrator(scenario, **options).run()
    assert str(caught.value) == words
    assert not bench.is_capturing


def test_unreviewed_scenarios_are_refused_unless_requested(bench: Bench) -> None:
    """As the command does: a model made them, and nothing runs before a person looked."""
    made = EvalScenario("hi", [equals("response", "re: hi")], id="story-1", unreviewed=True)
    orchestrator = bench.orchestrator(made, EvalScenario("ho", id="own"))
    words = r"1 unreviewed scenario of 2: 'story-1'.*allow_unreviewed=True"
    with pytest.raises(ConfigError, match=words):
        orchestrator.run()
    with pytest.raises(ConfigError, match=words):
        asyncio.run(orchestrator.run_async())
    assert not bench.is_capturing
    for results in (
        orchestrator.run(allow_unreviewed=True),
        asyncio.run(orchestrator.run_async(allow_unreviewed=True)),
    ):
        assert results.get_scenario_detail("story-1").passed


def no_user(initial_query: str) -> str:
    raise AssertionError(initial_query)


class NoReply:
    def reply(self, scenario: EvalScenario, answer: str) -> str:
        raise AssertionError(scenario, answer)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"simulated_user_fn": None}, "scenarios '1', '2', '3' and 1 more are interactive"),
        (
            {"simulated_user_fn": no_user},
            "simulated_user_fn is no_user(initial_query: str) -> str; expected a function of "
            "(initial_query, agent_response, history): too many positional arguments",
        ),
        (
            {"simulated_user_fn": NoReply()},
            "expected a function of (scenario, agent_response, history): too many",
        ),
        ({"agent_fn": lambda: ""}, "agent_fn is <lambda>(); expected a function of (message): "),
    ],
)
def test_functions_that_do_not_fit_are_refused_before_the_first_message(
    bench: Bench, options: dict[str, Any], words: str
) -> None:
    """The plain scenario stands first, and would have run for nothing."""
    messages: list[str] = []

    def agent(message: str) -> str:
        messages.append(message)
        return message

    interactive = [EvalScenario("q", simulated_user_persona="p", id=f"{at}") for at in range(1, 5)]
    with pytest.raises(ConfigError) as caught:
        bench.orchestrator(
            EvalScenario("q", id="0"), *interactive, **{"agent_fn": agent, **options}
        ).run()
    assert words in str(caught.value)
    assert not messages

    class Late(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            self.agent_fn, self.simulated_user_fn = agent, lambda query, answer, history: None  # pyright: ignore[reportUnknownLambdaType]

    Late(bench.queue, EvalScenarios(interactive[:1])).run()
    assert messages == ["q"]
    only = EvalScenario("q", simulated_user_persona="p", max_turns=1)  # nobody is to answer
    bench.orchestrator(only, agent_fn=agent).run()
    assert messages == ["q", "q"]


def always(response: object) -> Callable[[str], object]:
    """An agent that says one thing."""
    return lambda query: response


class Answer(BaseModel):
    """A structured response."""

    text: str
    scores: tuple[float, ...]


@pytest.mark.parametrize(
    ("response", "path", "value"),
    [
        (Answer(text="é", scores=(0.5, 1.0)), "response.scores[1]", 1.0),
        ({"a": [1, {"b": "日本"}]}, "response.a[1].b", "日本"),
        (7, "response", 7),
        (None, "response", None),
        ("text", "metadata.tier", "gold"),
        ("right", "expected_outcome", "${response}"),
    ],
)
def test_responses_of_any_shape(bench: Bench, response: object, path: str, value: object) -> None:
    """Tasks walk into whatever came back, and into what the scenario says."""
    scenario = EvalScenario(
        "q",
        [equals(path, value)],
        id="s",
        expected_outcome="right",
        metadata={"tier": "gold"},
    )
    results = bench.orchestrator(scenario, agent_fn=always(response)).run()
    detail = results.get_scenario_detail("s")
    assert detail.passed, detail.task_results


def test_a_response_without_json_form_names_the_scenario(bench: Bench) -> None:
    """And the place inside of it."""
    orch = bench.orchestrator(EvalScenario("q", id="s"), agent_fn=always({"a": object()}))
    with pytest.raises(DataError, match=r"scenario 's', response: a: .*object.* has no JSON form"):
        orch.run()


def test_a_user_says_text(bench: Bench) -> None:
    """A number is neither a message nor an end."""

    def count(query: str, response: Any, history: list[Any]) -> int:
        return 3

    scenario = EvalScenario("q", id="s", termination_signal="X")
    orch = bench.orchestrator(scenario, simulated_user_fn=count)
    with pytest.raises(ConfigError, match="scenario 's': the simulated user returned a int"):
        orch.run()


def test_records_that_could_not_be_taken_are_mentioned(bench: Bench) -> None:
    """A context without JSON form is in no result, so the run says so."""

    def agent(query: str) -> str:
        bench.queue["agent"].insert(EvalRecord(context={"a": object()}))
        return query

    with pytest.warns(
        UserWarning, match=r"1 record that could not be taken: .*no JSON form"
    ) as caught:
        bench.orchestrator(EvalScenario("q"), agent_fn=agent).run()
    assert [warning.filename for warning in caught] == [__file__]


def test_losses_for_any_reason_are_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Two that this package itself failed to keep, beside one invalid; what was before is not."""
    bench.queue["agent"].insert(EvalRecord(context={"before": object()}))

    def fail(self: ScouterQueue, alias: str, record: EvalRecord) -> None:
        raise LookupError(alias)

    def agent(query: str) -> str:
        bench.queue["agent"].insert(EvalRecord(context={"a": object()}))
        with monkeypatch.context() as patch:
            patch.setattr(ScouterQueue, "_capture", fail)
            bench.agent("one")
            bench.agent("two")
        return query

    with pytest.warns(UserWarning, match="in no result") as caught:
        results = bench.orchestrator(EvalScenario("q"), agent_fn=agent).run()
    assert {each.reason: each.count for each in results.lost} == {"invalid": 1, "internal": 2}
    assert len(caught) == 2


def test_a_second_replay_at_once_is_refused_and_the_first_unharmed(bench: Bench) -> None:
    """From another thread and from within the agent, over another queue or the same."""
    profile = AgentEvalProfile(alias="other", tasks=[equals("x", 1)])
    other = ScouterQueue.from_profile([profile], transport_config=MockConfig())
    refused: list[str] = []

    def try_one(queue: ScouterQueue) -> None:
        try:
            EvalOrchestrator(queue, EvalScenarios([EvalScenario("q")]), lambda query: query).run()
        except ConfigError as error:
            refused.append(str(error))

    def agent(query: str) -> str:
        answer = bench.agent(query)
        thread = threading.Thread(target=try_one, args=(other,))
        thread.start()
        thread.join(120)
        try_one(bench.queue)
        assert bench.is_capturing
        return answer

    scenarios = [EvalScenario("q", [spans_named("step", 1)], id=name) for name in "ab"]
    results = bench.orchestrator(*scenarios, agent_fn=agent).run()
    assert len(refused) == 4
    assert "another replay is running in this process" in refused[0]
    assert results.metrics.overall_pass_rate == 1.0
    assert len(results.dataset_results["agent"]) == 2
    try_one(other)  # and afterwards it may
    assert len(refused) == 4


@pytest.mark.pace
def test_a_collector_that_is_away_does_not_hold_a_replay_up() -> None:
    """A span waits for a collector that nobody runs; the replay needs nothing of it."""
    profile = AgentEvalProfile(alias="agent", tasks=[spans_named("step", 1)])
    nobody = HttpConfig(server_uri="http://127.0.0.1:9")
    bench = Bench(
        queue := ScouterQueue.from_profile([profile], transport_config=nobody),
        init_tracer(service_name="replay", scouter_queue=queue),
    )
    try:
        with bench.tracer.start_as_current_span("before"):
            pass
        started = time.monotonic()
        results = bench.orchestrator(EvalScenario("q", id="s")).run()
        assert time.monotonic() - started < 5  # it was ten seconds
        assert results.metrics.dataset_pass_rates == {"agent": 1.0}
    finally:
        shutdown_tracer(timeout_s=0.1)
        queue.shutdown(timeout_s=0.1)


def test_records_from_outside_are_in_no_scenario(bench: Bench) -> None:
    """Records of a start hook are not the agent's."""

    class Noisy(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            bench.agent("from the hook")

    results = Noisy(bench.queue, EvalScenarios([EvalScenario("q")]), bench.agent).run()
    assert len(results.dataset_results["agent"]) == 1


def in_background(work: Callable[[], object]) -> threading.Thread:
    """Start a thread that runs in the scope of the code that starts it."""
    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    return thread


@pytest.mark.parametrize("ends_in", ["middle", "last"])
def test_a_late_record_is_its_own_scenarios(bench: Bench, ends_in: str) -> None:
    """A thread of the first scenario inserts while another one runs, or after it was collected."""
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def late() -> None:
        assert go_on.wait(120)
        bench.agent("late")

    def agent(query: str) -> str:
        if query == "first":
            threads.append(in_background(late))
        elif query == ends_in:
            go_on.set()
            threads[0].join(120)
        return bench.agent(query)

    names = ["first", "middle", "last"]
    results = bench.orchestrator(*(EvalScenario(n, id=n) for n in names), agent_fn=agent).run()
    rows = results.dataset_results["agent"]
    assert rows.scenario_ids == ("first", "first", "middle", "last")
    assert results.metrics.dataset_pass_rates == {"agent": 1.0}


def test_a_record_that_arrives_after_the_last_scenario(bench: Bench) -> None:
    """It is found by the scope that it was inserted in, as long as nothing was evaluated yet."""
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def late() -> None:
        assert go_on.wait(120)
        bench.agent("late")

    class Patient(EvalOrchestrator):
        def execute_agent(self, scenario: EvalScenario) -> str:
            if scenario.id == "first":
                threads.append(in_background(late))
            return scenario.id

        def on_scenario_complete(self, scenario: EvalScenario, response: Any) -> None:
            if scenario.id == "last":
                go_on.set()
                threads[0].join(120)

    scenarios = EvalScenarios([EvalScenario("q", id=name) for name in ("first", "last")])
    results = Patient(bench.queue, scenarios).run()
    assert results.dataset_results["agent"].scenario_ids == ("first",)


def test_records_without_a_scope_are_the_running_scenarios(bench: Bench) -> None:
    """A bare thread knows no scenario; while one runs it can only be that one's."""

    def agent(query: str) -> str:
        thread = threading.Thread(target=bench.agent, args=("bare",))
        thread.start()
        thread.join(120)
        return query

    results = bench.orchestrator(EvalScenario("q", id="s"), agent_fn=agent).run()
    assert results.dataset_results["agent"].scenario_ids == ("s",)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()], ids=["terminal", "pipe"])
def test_progress_is_for_people(bench: Bench, stream: io.StringIO) -> None:
    """A bar with the scenario's id on a terminal, nothing in a log."""
    with redirect_stderr(stream):
        bench.orchestrator(EvalScenario("q", id="größe [1]")).run()
        assert sys.stderr is stream
    assert ("größe [1]" in stream.getvalue()) == stream.isatty()
