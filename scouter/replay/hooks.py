"""The methods of an orchestrator that a run calls, and that a subclass may replace."""

import inspect
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Final, TypeAlias

from scouter.errors import ConfigError, TransientError
from scouter.evaluate.results.provenance import name_of
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.agent import answering as agent_of
from scouter.replay.at_once import is_async, over_at_once
from scouter.replay.turn import Turn, running_conversation

if TYPE_CHECKING:
    from scouter.evaluate.api.replay import ScenarioEvalResults
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0

Response: TypeAlias = Any
"""An agent's answer: anything with a JSON form. `Any`, as overriding methods narrow it."""

AgentFn: TypeAlias = Callable[Concatenate[str, ...], Response] | type[Any]
"""A plain or an async function of the message and, by name, of `session`, `history` and `queue`; or
a class that is called like one, of which each conversation gets an instance."""
SimulatedUserFn: TypeAlias = Callable[[str, Response, list[Turn]], Any]
"""A plain or an async function, or an object with the method
`reply(scenario, agent_response, history)`, plain or async."""


class MissingFunctionError(ConfigError, NotImplementedError):
    """There is neither a function nor an overridden method to call."""


def missing(argument: str, method: str) -> str:
    """Say that nothing is there to be called."""
    return f"Either pass {argument} to EvalOrchestrator() or subclass and override {method}"


class Hooks:
    """The part of an `EvalOrchestrator` that leads single conversations.

    Its methods may be replaced by plain or async ones.
    """

    agent_name: str = ""
    """Name of the agent in a journal; `resume` refuses the answers of another one.

    By default the name of the agent's function, or of the class that runs the scenarios itself.
    """

    def __init__(
        self,
        queue: ScouterQueue,
        scenarios: "EvalScenarios",
        agent_fn: AgentFn | None = None,
        simulated_user_fn: SimulatedUserFn | object | None = None,
        *,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.queue = queue
        self.scenarios = scenarios
        self.agent_fn = agent_fn
        self.simulated_user_fn = simulated_user_fn
        self.sleep = sleep

    @over_at_once(lambda self: is_async(self.agent_fn))
    def execute_agent(self, scenario: "EvalScenario") -> Response:
        """Run a scenario without simulated user: the first query, then each predefined turn.

        Returns:
            The last answer; an awaitable of it if `agent_fn` is async.
        """
        agent = self.answering(scenario, "execute_agent()")
        first, *more = scenario.initial_query, *scenario.predefined_turns
        response = agent(first)
        if inspect.isawaitable(response):
            return _go_on(agent, response, more)
        for turn in more:
            response = agent(turn)
        return response

    @over_at_once(lambda self: is_async(self.agent_fn))
    def execute_agent_turn(self, scenario: "EvalScenario", message: str) -> Response:
        """Answer one message of an interactive scenario.

        An `execute_agent` of one's own can call it, too, once for each message.

        Returns:
            The answer; an awaitable of it if `agent_fn` is async.
        """
        return self.answering(scenario, "execute_agent_turn()")(message)

    def session_id(self) -> str:
        """Id of the conversation that calls this, as `session` gets it; a new one outside a run."""
        return running_conversation().session

    def arguments(self, scenario: "EvalScenario", turn: int) -> Mapping[str, object]:
        """Give further values for the agent by name, such as the state of a session.

        Args:
            scenario: The scenario; every turn of it has the same names.
            turn: Number of the turn, from 0.

        Returns:
            Values of parameters that the agent may have beside `session`, `history` and `queue`.
        """
        return {}

    def answering(self, scenario: "EvalScenario", method: str) -> Callable[[str], Response]:
        """Give the function that answers in the running conversation, or make it.

        Args:
            scenario: The scenario.
            method: The method that asks, for an error.
        """
        conversation = running_conversation()
        if conversation.agent is None:
            if self.agent_fn is None:
                raise MissingFunctionError(missing("agent_fn", method))
            conversation.agent = agent_of(self.agent_fn, self.queue, conversation)
        return conversation.agent

    @over_at_once(lambda self: is_async(getattr(self.simulated_user_fn, "opening", None)))
    def execute_simulated_user_opening(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - text, or an awaitable of it
        """Give the first message of an interactive scenario whose `initial_query` is empty.

        Returns:
            Result of the method `opening(scenario)` of the simulated user, plain or async; the
            empty message where there is no such method.
        """
        opening = getattr(self.simulated_user_fn, "opening", None)
        return opening(scenario) if callable(opening) else scenario.initial_query

    @over_at_once(lambda self: is_async(self.simulated_user()))
    def execute_simulated_user_turn(
        self,
        scenario: "EvalScenario",
        initial_query: str,
        agent_response: Response,
        history: list[Turn],
    ) -> Any:  # noqa: ANN401 - text or None, or an awaitable of it
        """Give the next message of the simulated user.

        Args:
            scenario: The interactive scenario.
            initial_query: Its first message.
            agent_response: The agent's last answer.
            history: The exchanges before that one, oldest first; empty on the first call.

        Returns:
            The next message, or an awaitable of it. One that holds the scenario's
            `termination_signal` ends the conversation and is not sent to the agent; so does None.
        """
        user = self.simulated_user()
        if not callable(user):
            raise MissingFunctionError(
                missing("simulated_user_fn", "execute_simulated_user_turn()")
            )
        if user is self.simulated_user_fn:
            return user(initial_query, agent_response, history)
        return user(scenario, agent_response, history)

    def simulated_user(self) -> object:
        """The function that speaks for the user: the object itself, or its method `reply`."""
        reply = getattr(self.simulated_user_fn, "reply", None)
        return reply if callable(reply) else self.simulated_user_fn

    @over_at_once()
    def build_scenario_response(
        self, scenario: "EvalScenario", response: Response, history: list[Turn]
    ) -> Response:
        """Turn the last answer into what the scenario's tasks read as `response`.

        Args:
            scenario: The scenario.
            response: The last answer.
            history: The exchanges before the last answer's; `[]` if not interactive.
        """
        return response

    @over_at_once()
    def on_scenario_start(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - may be async
        """Called before the first message of each try of each attempt."""

    @over_at_once()
    def on_scenario_complete(self, scenario: "EvalScenario", response: Response) -> Any:  # noqa: ANN401 - may be async
        """Called after each attempt that did not fail, with the response that its tasks read."""

    @over_at_once()
    def on_evaluation_complete(self, results: "ScenarioEvalResults") -> Any:  # noqa: ANN401 - may be async
        """Called once at the end; the results that it returns are what `run` returns."""
        return results

    def overrides(self, method: str) -> bool:
        """Tell whether a subclass or this object has a method of its own, by the method's name."""
        own = getattr(getattr(self, method), "__func__", None)
        return own is not getattr(Hooks, method)

    def backoff_s(self, failures: int, error: Exception) -> float:
        """Give the wait before the next try of an attempt.

        Args:
            failures: Number of tries that have failed, at least 1.
            error: The error of the last one.

        Returns:
            Seconds: from half of to all of 1, 2, 4 … 30, by chance, so that attempts that failed
            together do not come back together; at least what a `TransientError` asks for.
        """
        longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures - 1, 10))
        pause = random.uniform(longest / 2, longest)  # noqa: S311 - no secret
        wanted = error.retry_after_s if isinstance(error, TransientError) else None
        return max(pause, wanted or 0.0)


async def _go_on(
    agent: Callable[[str], Response], response: Awaitable[Response], more: Iterable[str]
) -> Response:
    """Await an async agent's answers to fixed messages."""
    answer = await response
    for turn in more:
        answer = agent(turn)
        if inspect.isawaitable(answer):
            answer = await answer
    return answer


def agent_name(hooks: Hooks) -> str:
    """Name the agent: `agent_name` where it is set, else the agent and a class of one's own."""
    if hooks.agent_name:
        return hooks.agent_name
    is_own = type(hooks).__module__ != "scouter.replay.orchestrator"
    parts = [*([type(hooks)] if is_own else []), *([hooks.agent_fn] if hooks.agent_fn else [])]
    return ", ".join(map(name_of, parts))


def user_name(hooks: Hooks) -> str:
    """Name who plays the user: the attribute `name` of what does, else its function or class."""
    if hooks.overrides("execute_simulated_user_turn"):
        return name_of(type(hooks))
    user = hooks.simulated_user_fn
    return "" if user is None else str(getattr(user, "name", "") or name_of(user))
