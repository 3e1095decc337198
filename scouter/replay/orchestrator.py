"""Run scenarios against an agent and judge what it did."""

import inspect
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.scenario_results import ScenarioEvalResults
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.progress import track
from scouter.replay.runner import EvalRunner
from scouter.tracing.capture import disable_local_span_capture, enable_local_span_capture
from scouter.tracing.scenario import scenario_scope
from scouter.transport.fork import watch

Response: TypeAlias = Any
"""What an agent answers: anything with a JSON form. `Any`, as overriding methods narrow it."""

Turn: TypeAlias = dict[str, Any]
"""One exchange: `{"user": message, "agent": response}`."""

AgentFn: TypeAlias = Callable[[str], Response]
SimulatedUserFn: TypeAlias = Callable[[str, Response, list[Turn]], str | None]


class _Turnstile:
    """Lets one replay at a time into the process, as span capture belongs to the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Start open: a replay of the parent does not go on in a child."""
        self._lock = threading.Lock()

    @contextmanager
    def pass_through(self) -> Generator[None]:
        """Be inside, or raise at once."""
        watch(self)
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise ConfigError(
                "another replay is running in this process, and both would capture each other's "
                "spans; run them one after the other or in processes of their own"
            )
        try:
            yield
        finally:
            lock.release()


_TURNSTILE: Final = _Turnstile()


class EvalOrchestrator:
    """The life of one replay: run every scenario, collect records and spans, evaluate.

    Pass functions, or subclass and override. While a replay runs, the queue and the tracer keep
    records and spans in this process and send nothing. An exception of the agent, the simulated
    user or a hook ends the replay and is raised, after sending has been switched on again. `run`
    can be called any number of times; each run starts from nothing.

    Args:
        queue: The queue that the agent's records go to; its profiles judge them.
        scenarios: What to ask.
        agent_fn: From a message to the agent's answer.
        simulated_user_fn: From first query, last answer and the exchanges before it to the next
            message of the user.
    """

    def __init__(
        self,
        queue: ScouterQueue,
        scenarios: EvalScenarios,
        agent_fn: AgentFn | None = None,
        simulated_user_fn: SimulatedUserFn | None = None,
    ) -> None:
        self.queue = queue
        self.scenarios = scenarios
        self.agent_fn = agent_fn
        self.simulated_user_fn = simulated_user_fn

    def run(self, config: None = None) -> ScenarioEvalResults:
        """Run every scenario in order, one after the other, and evaluate them together.

        Args:
            config: Nothing can be configured so far.

        Returns:
            The results, after `on_evaluation_complete`.

        Raises:
            NotImplementedError: There is neither a function nor an overridden method to call.
            ConfigError: A record went to an alias without profile, or another replay is running
                in this process; that one goes on unharmed.
            DataError: A response has no JSON form.

        Cost: the agent's own time; the evaluation is linear in records, spans and tasks.
        """
        runner = EvalRunner(self.scenarios, self.queue.agent_profiles())
        with _TURNSTILE.pass_through(), self._captured():
            for scenario in track(self.scenarios.scenarios):
                self._run_scenario(scenario, runner)
            self._file_records(runner)
            results = runner.evaluate(config)
            return self.on_evaluation_complete(results)

    # --- what a subclass may replace ---

    def execute_agent(self, scenario: EvalScenario) -> Response:
        """Run a scenario without simulated user: the first query, then each predefined turn.

        Returns:
            The last answer.
        """
        if self.agent_fn is None:
            raise NotImplementedError(_missing("agent_fn", "execute_agent()"))
        response = self.agent_fn(scenario.initial_query)
        for turn in scenario.predefined_turns:
            response = self.agent_fn(turn)
        return response

    def execute_agent_turn(self, scenario: EvalScenario, message: str) -> Response:
        """Answer one message of an interactive scenario."""
        if self.agent_fn is None:
            raise NotImplementedError(_missing("agent_fn", "execute_agent_turn()"))
        return self.agent_fn(message)

    def execute_simulated_user_turn(
        self,
        scenario: EvalScenario,
        initial_query: str,
        agent_response: Response,
        history: list[Turn],
    ) -> str | None:
        """Say what the simulated user says next.

        Args:
            scenario: The interactive scenario.
            initial_query: Its first message.
            agent_response: What the agent said last.
            history: The exchanges before that one, oldest first; empty on the first call.

        Returns:
            The next message. One that holds the scenario's `termination_signal` ends the
            conversation and is not sent to the agent; so does None.
        """
        if self.simulated_user_fn is None:
            raise NotImplementedError(
                _missing("simulated_user_fn", "execute_simulated_user_turn()")
            )
        return self.simulated_user_fn(initial_query, agent_response, history)

    def build_scenario_response(
        self, scenario: EvalScenario, response: Response, history: list[Turn]
    ) -> Response:
        """Turn the last answer into what the scenario's tasks read as `response`.

        Args:
            scenario: The scenario.
            response: The last answer.
            history: The exchanges before the last answer's; `[]` if not interactive.
        """
        return response

    def on_scenario_start(self, scenario: EvalScenario) -> None:
        """Called before the first message of each scenario."""

    def on_scenario_complete(self, scenario: EvalScenario, response: Response) -> None:
        """Called after each scenario with the response that its tasks will read."""

    def on_evaluation_complete(self, results: ScenarioEvalResults) -> ScenarioEvalResults:
        """Called once at the end; what it returns is what `run` returns."""
        return results

    # --- the machinery ---

    @contextmanager
    def _captured(self) -> Generator[None]:
        """Keep records and spans here for a while; warn if records were dropped."""
        before = self.queue.stats.dropped
        try:
            self.queue.enable_capture()
            enable_local_span_capture()
            yield
        finally:
            try:
                self.queue.disable_capture()
            finally:
                disable_local_span_capture()
        _warn_of_drops(before, self.queue.stats.dropped)

    def _run_scenario(self, scenario: EvalScenario, runner: EvalRunner) -> None:
        self.on_scenario_start(scenario)
        self._file_records(runner)  # what no scenario made is in none
        if scenario.is_interactive():
            response, history = self._converse(scenario)
        else:
            history: list[Turn] = []
            with scenario_scope(scenario.id):
                response = _settled(scenario, self.execute_agent(scenario))
        response = self.build_scenario_response(scenario, response, history)
        runner.collect_scenario_data({}, response, scenario)
        self._file_records(runner, scenario)
        self.on_scenario_complete(scenario, response)

    def _file_records(self, runner: EvalRunner, running: EvalScenario | None = None) -> None:
        """Give each captured record to the scenario whose scope it was inserted in.

        A thread that one scenario started may insert while another runs. Records from outside of
        any scope are the running scenario's, if one is.
        """
        found: dict[str, dict[str, list[EvalRecord]]] = {}
        for alias, records in self.queue.drain_with_scenarios().items():
            for scenario_id, record in records:
                if scenario_id is None or not runner.has_data_of(scenario_id):
                    if running is None:
                        continue
                    scenario_id = running.id
                found.setdefault(scenario_id, {}).setdefault(alias, []).append(record)
        for scenario_id, records in found.items():
            runner.add_late_records(records, scenario_id)

    def _converse(self, scenario: EvalScenario) -> tuple[Response, list[Turn]]:
        """Run an interactive scenario.

        The simulated user speaks outside of the scenario's scope, so that the spans of its model
        calls are not taken for the agent's.
        """
        history: list[Turn] = []
        message = scenario.initial_query
        while True:
            with scenario_scope(scenario.id):
                response = _settled(scenario, self.execute_agent_turn(scenario, message))
            if len(history) + 1 >= scenario.max_turns:
                return response, history
            reply = self.execute_simulated_user_turn(
                scenario, scenario.initial_query, response, list(history)
            )
            if reply is None or _ends(scenario, reply):
                return response, history
            history.append({"user": message, "agent": response})
            message = reply


def _warn_of_drops(before: Mapping[str, int], after: Mapping[str, int]) -> None:
    """Say which records were dropped and why; leaving some out by a ratio was somebody's wish."""
    dropped = Counter(after)
    dropped.subtract(before)
    found = [
        f"{count} {reason} ({_DROPS[reason]})" if reason in _DROPS else f"{count} {reason}"
        for reason, count in dropped.items()
        if count > 0 and reason != "sampled"
    ]
    if found:
        warnings.warn(
            f"records were dropped during this replay and are in no result: {', '.join(found)}; "
            "the log says more",
            stacklevel=5,
        )


_DROPS: Final = {
    "invalid": "no record, or a context without JSON form",
    "internal": "an error in this package",
}
"""What the reasons mean that can drop a captured record."""


def _settled(scenario: EvalScenario, response: Response) -> Response:
    """Refuse an answer that is still a promise."""
    if inspect.isawaitable(response):
        if inspect.iscoroutine(response):
            response.close()
        raise ConfigError(
            f"scenario {scenario.id!r}: the agent returned a {type(response).__name__}, which "
            "nobody awaits; pass a plain function, such as lambda query: asyncio.run(agent(query))"
        )
    return response


def _ends(scenario: EvalScenario, reply: object) -> bool:
    """Tell whether the simulated user's message ends the conversation."""
    if not isinstance(reply, str):
        raise ConfigError(
            f"scenario {scenario.id!r}: the simulated user returned a {type(reply).__name__}; "
            "expected the next message as text, or None to end the conversation"
        )
    return scenario.termination_signal is not None and scenario.termination_signal in reply


def _missing(argument: str, method: str) -> str:
    return f"Either pass {argument} to EvalOrchestrator() or subclass and override {method}"
