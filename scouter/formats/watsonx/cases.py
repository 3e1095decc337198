"""Datasets as scenarios, and the user who plays their stories.

The journey is a task, `is_success`, which decides. Other tasks measure, under their documented
names, and pass with every number, so that nothing is counted twice.
"""

import copy
import inspect
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from pydantic import JsonValue, ValidationError

from scouter.errors import ConfigError, DataError
from scouter.evaluate.journey.case import SOUND, Case, Compat
from scouter.evaluate.journey.message import PREFIX, TEXT, TOOL_CALL
from scouter.evaluate.results.provenance import name_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.task import Task
from scouter.formats.watsonx.config import Provider, WatsonxConfig
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.agent import names_taken
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.simulated_user import SimulatedUser
from scouter.replay.turn import Line, Turn

SUCCESS: Final = "is_success"
"""The task that decides."""
GIVEN: Final = ("runtime_context", "file_upload")
"""Fields of a dataset that an agent gets as parameters of these names."""
_PROMPTS: Final = "user_prompts"
_TURNS: Final = "turns"
_GOALS: Final = ("story", "goals", "goal_details")
"""The part of a dataset that says how a journey should go."""
_QUESTIONS: Final = 10_000
END: Final = re.compile(r"(?:^|\s)END[\s.!\"')]*$")
"""The original's word for the end, where it is the last one: `Please SEND it` ends nothing."""


class StoryUser:
    """Plays the users of several journeys.

    Args:
        cases: By name; one with `user_prompts` says these, and nothing more.
        user: Plays the others: an object with `reply(scenario, agent_response, history)`, or a
            function of first message, last answer and the exchanges before it; plain or async.
    """

    ends_itself: Final = True
    """A script has an end, and whoever plays a story says `END` or None."""

    def __init__(self, cases: Mapping[str, Case], user: object) -> None:
        self._cases = cases
        self._user = user
        self.name = "" if user is None else str(getattr(user, "name", "") or name_of(user))
        """Name of who plays, for results."""

    async def opening(self, scenario: EvalScenario) -> str:
        """Say the first message of a case without `starting_sentence`."""
        user = self._user
        return await user.opening(scenario) if isinstance(user, SimulatedUser) else ""

    async def reply(
        self, scenario: EvalScenario, agent_response: object, history: Sequence[Turn]
    ) -> str | None:
        """Say what the user says next; None ends the conversation."""
        prompts = self._cases[scenario.id].user_prompts
        if prompts is not None:
            return Line(prompts[len(history)]) if len(history) < len(prompts) else None
        found: Any = getattr(self._user, "reply", None)
        if callable(found):
            answer: Any = found(scenario, agent_response, list(history))
        else:
            answer = cast("Callable[..., Any]", self._user)(
                scenario.initial_query, agent_response, list(history)
            )
        while inspect.isawaitable(answer):
            answer = await answer
        return None if isinstance(answer, str) and END.search(answer) else answer


def scenarios_of(
    cases: Sequence[Case],
    config: WatsonxConfig,
    *,
    compat: Compat = SOUND,
    judge: Provider | None = None,
) -> EvalScenarios:
    """Make a scenario of each case, with all that leads its user.

    Args:
        cases: Their names are unique.
        config: Most user turns, and how fuzzy values are compared.
        compat: See `evaluate_journey`.
        judge: The model that is called for texts, fuzzy arguments and statements; None for none.

    Raises:
        ConfigError: A case has statements, and there is no judge.
    """
    return EvalScenarios([_scenario(case, config, compat, judge) for case in cases])


def _scenario(
    case: Case, config: WatsonxConfig, compat: Compat, judge: Provider | None
) -> EvalScenario:
    reported = {name: case.source[name] for name in (_PROMPTS, *GIVEN) if case.source.get(name)}
    try:
        return EvalScenario(
            case.starting_sentence or "",
            [_journey(case, config, compat, judge), *_measures(case)],
            case.name,
            simulated_user_persona=case.story,
            max_turns=case.max_user_turns or config.max_user_turns,
            metadata=reported or None,
            tags=[tag for tag in case.tags if tag],
        )
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise ConfigError(f"case {case.name[:80]!r}: {field}: {first['msg']}") from error


def _journey(
    case: Case, config: WatsonxConfig, compat: Compat, judge: Provider | None
) -> JourneyTask:
    if case.checks and judge is None:
        raise ConfigError(
            f"case {case.name!r} has statements (assert_llm), which a judge decides, and there is "
            "none; give --judge module:name, or a provider_config whose provider is one of your "
            "provider entries"
        )
    return JourneyTask(
        SUCCESS,
        {name: case.source[name] for name in _GOALS},
        turns=_TURNS,
        similarity_threshold=config.similarity_threshold,
        enable_fuzzy_matching=config.enable_fuzzy_matching,
        compat=compat,
        model=None if judge is None else judge.model_id,
        provider=None if judge is None else judge.provider,
        max_questions=_QUESTIONS,
        scope="record",
    )


def _measures(case: Case) -> Iterator[Task]:
    """Tasks for the measures that apply to a case, and of which more is better."""
    tools = case.of_type(TOOL_CALL)
    for name, applies in (
        ("journey_completion", True),
        ("tool_call_recall", bool(tools)),
        ("tool_call_precision", bool(tools)),
        ("tool_parameter_f1", bool(tools)),
        ("orchestrate_agent_routing_accuracy", any(PREFIX in goal.tool_name for goal in tools)),
        ("text_match", bool(case.of_type(TEXT))),
        ("assert_llm", bool(case.checks)),
    ):
        if applies:
            yield FunctionTask(name, _measure(name), operator="IsNumeric", depends_on=[SUCCESS])


def _measure(name: str) -> Callable[[Mapping[str, Any]], JsonValue]:
    def read(context: Mapping[str, Any]) -> JsonValue:
        measures = context[SUCCESS]
        if name not in measures:
            raise DataError("the original loses this measure to an exception")
        return measures[name]

    return read


class JourneyOrchestrator(EvalOrchestrator):
    """Leads journeys: has their users played, and gives the agent what their datasets give it.

    Args:
        cases: Their names are unique.
        queue: Takes the records of the agent.
        scenarios: From `scenarios_of`.
        agent_fn: The agent.
        user: Plays the users of cases without `user_prompts`.

    Raises:
        ConfigError: Nobody plays a user, or the agent does not take what a case gives it.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        queue: ScouterQueue,
        scenarios: EvalScenarios,
        agent_fn: Callable[..., Any],
        user: object = None,
    ) -> None:
        self._cases = {case.name: case for case in cases}
        taken = names_taken(agent_fn, GIVEN)
        for case in cases:
            _refuse_lost(case, taken, user)
        super().__init__(queue, scenarios, agent_fn, StoryUser(self._cases, user))

    def arguments(self, scenario: EvalScenario, turn: int) -> Mapping[str, object]:
        """Give what the dataset gives the agent beside the user's words."""
        source = self._cases[scenario.id].source
        return {name: copy.deepcopy(source.get(name)) for name in GIVEN}


def _refuse_lost(case: Case, taken: Container[str], user: object) -> None:
    """Refuse before the first message what would break off at a later one."""
    if case.user_prompts is None and user is None:
        raise ConfigError(
            f"case {case.name!r} has no user_prompts; say who plays its story, such as "
            "--simulated-user openai/gpt-4o-mini"
        )
    if not case.starting_sentence and not isinstance(user, SimulatedUser):
        raise ConfigError(
            f"case {case.name!r} has no starting_sentence; only a model can make one up, "
            "such as --simulated-user openai/gpt-4o-mini"
        )
    for name in GIVEN:
        if case.source.get(name) and name not in taken:
            raise ConfigError(
                f"case {case.name!r} gives the agent a {name}, and the agent takes none; give it a "
                f"parameter called {name!r}, or remove the field from the dataset"
            )
