"""Datasets as scenarios: the story for a persona, the journey for a task, its measures for others.

The task `is_success` decides. The others measure, under their documented names, and pass with
every number, so that nothing is counted twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import JsonValue, ValidationError

from scouter.errors import ConfigError, DataError
from scouter.evaluate.journey.case import SOUND, Case, Compat
from scouter.evaluate.journey.message import PREFIX, TEXT, TOOL_CALL
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.function import FunctionTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.task import Task
from scouter.formats.watsonx.config import Provider, WatsonxConfig
from scouter.formats.watsonx.story_user import StoryUser
from scouter.replay.simulated_user import SimulatedUser

SUCCESS: Final = "is_success"
"""The task that decides."""
_TURNS: Final = "turns"
_GOALS: Final = ("story", "goals", "goal_details")
"""The part of a dataset that says how a journey should go."""
_QUESTIONS: Final = 10_000


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
        judge: The model that is asked about texts, fuzzy arguments and statements; None for none.

    Raises:
        ConfigError: A case has statements, and there is no judge.
    """
    return EvalScenarios([_scenario(case, config, compat, judge) for case in cases])


def _scenario(
    case: Case, config: WatsonxConfig, compat: Compat, judge: Provider | None
) -> EvalScenario:
    prompts = case.user_prompts
    try:
        return EvalScenario(
            case.starting_sentence or "",
            [_journey(case, config, compat, judge), *_measures(case)],
            case.name,
            simulated_user_persona=case.story,
            max_turns=case.max_user_turns or config.max_user_turns,
            metadata=None if prompts is None else {"user_prompts": list[JsonValue](prompts)},
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


def player_of(cases: Sequence[Case]) -> Callable[[object], StoryUser]:
    """Give the function that has somebody play the users of all cases.

    It raises `ConfigError` where nobody plays the user of a case that needs one: that is refused
    before the first message, and not at the second.

    Args:
        cases: The cases.
    """

    def play(user: object) -> StoryUser:
        for case in cases:
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
        return StoryUser({case.name: case for case in cases}, user)

    return play
