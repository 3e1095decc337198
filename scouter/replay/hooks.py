"""The orchestrator as a run sees it: its settings, and the methods that a run calls."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeAlias

from scouter.errors import ConfigError
from scouter.evaluate.results.provenance import name_of
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.turn import Turn

if TYPE_CHECKING:
    from scouter.evaluate.api.replay import ScenarioEvalResults
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios

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


class Hooks(Protocol):
    """An `EvalOrchestrator`, where each member is documented; its methods may be async."""

    agent_name: str
    queue: ScouterQueue
    scenarios: "EvalScenarios"
    agent_fn: AgentFn | None
    simulated_user_fn: SimulatedUserFn | object | None
    sleep: Callable[[float], object] | None

    def arguments(self, scenario: "EvalScenario", turn: int) -> Mapping[str, object]:
        """Give further values for the agent by name."""
        ...

    def execute_agent(self, scenario: "EvalScenario") -> Response:
        """Run a scenario without simulated user."""
        ...

    def execute_agent_turn(self, scenario: "EvalScenario", message: str) -> Response:
        """Answer one message."""
        ...

    def execute_simulated_user_opening(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - text, or an awaitable of it
        """Say the first message of the user."""
        ...

    def execute_simulated_user_turn(
        self,
        scenario: "EvalScenario",
        initial_query: str,
        agent_response: Response,
        history: list[Turn],
    ) -> Any:  # noqa: ANN401 - text or None, or an awaitable of it
        """Say the next message of the user."""
        ...

    def simulated_user(self) -> object:
        """Give the function that speaks for the user."""
        ...

    def build_scenario_response(
        self, scenario: "EvalScenario", response: Response, history: list[Turn]
    ) -> Response:
        """Make the response that the tasks read."""
        ...

    def on_scenario_start(self, scenario: "EvalScenario") -> Any:  # noqa: ANN401 - may be async
        """Take note of a try."""
        ...

    def on_scenario_complete(self, scenario: "EvalScenario", response: Response) -> Any:  # noqa: ANN401 - may be async
        """Take note of an answer."""
        ...

    def on_evaluation_complete(self, results: "ScenarioEvalResults") -> Any:  # noqa: ANN401 - may be async
        """Give the results that the run returns."""
        ...

    def backoff_s(self, failures: int, error: Exception) -> float:
        """Say how long to wait before the next try."""
        ...

    def overrides(self, method: str) -> bool:
        """Tell whether a method is another one than `EvalOrchestrator` has."""
        ...


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
