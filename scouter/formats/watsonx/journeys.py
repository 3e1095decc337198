"""Journeys run: a user plays the story, the agent answers, and its goals are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults, ScenarioResult
from scouter.evaluate.journey.asking import run_apart
from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.evaluate import SOUND, Compat, evaluate_journey
from scouter.evaluate.journey.message import messages_of_turns
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.formats.watsonx.config import WatsonxConfig
from scouter.formats.watsonx.story_user import StoryUser, Times
from scouter.replay.named_run import NamedRun, named_user, run_named
from scouter.replay.runner import EvalRunner
from scouter.replay.simulated_user import SimulatedUser

TASK_ID: Final = "journey"
SUCCEEDED: Final = "succeeded"
_VERDICT: Final = "response.journey.verdict"


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyRun:
    """One journey that was run."""

    result: JourneyResult
    attempt: int = 0
    error: str | None = None
    """What ended the conversation early: the agent's exception, or that of who plays the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journeys:
    """Journeys that were run, and their verdicts as results of scenarios."""

    runs: tuple[JourneyRun, ...]
    results: ScenarioEvalResults
    """With one task a scenario, `journey`, whose actual value is the verdict in words."""


def run_journeys(
    cases: Sequence[Case],
    run: NamedRun,
    config: WatsonxConfig,
    *,
    compat: Compat = SOUND,
    judge: Any = None,  # noqa: ANN401 - any judge, or none
    embedder: object = None,
    agents: Mapping[str, Any] | None = None,
) -> Journeys:
    """Run journeys against an agent, and judge them.

    The first message is the case's `starting_sentence`; who plays the user has the story for a
    persona. A journey whose agent raises counts as failed.

    Args:
        cases: Their names are unique.
        run: The agent, who plays the user, and how to run.
        config: Most user turns, and how fuzzy values are compared.
        compat: See `evaluate_journey`.
        judge: See `evaluate_journey`.
        embedder: See `evaluate_journey`.
        agents: See `evaluate_journey`.

    Raises:
        ScouterError: A name or an argument is wrong, or nobody plays the user of a case that needs
            one.
    """
    named = {case.name: case for case in cases}
    played = named_user(run)
    _check_users(cases, played)
    firsts = {case.name: _first_message(case, played) for case in cases}
    user = StoryUser(named, played)
    scenarios = EvalScenarios(
        [_scenario(case, firsts[case.name], config.max_user_turns) for case in cases]
    )
    results = run_named(scenarios, replace(run, simulated_user=user))
    runs: list[JourneyRun] = []
    for case in cases:
        for attempt in range(run.repeats):
            said = results.get_scenario_detail(case.name, attempt)
            times = user.times.get((case.name, attempt), Times())
            found = evaluate_journey(
                case, _messages(said, times), compat=compat, judge=judge, embedder=embedder,
                agents=agents, similarity_threshold=config.similarity_threshold,
                enable_fuzzy_matching=config.enable_fuzzy_matching,
            )  # fmt: skip
            runs.append(JourneyRun(result=_ended(found, said), attempt=attempt, error=said.error))
    return Journeys(runs=tuple(runs), results=_judged(scenarios, results, runs))


def _check_users(cases: Sequence[Case], user: object) -> None:
    """Refuse before the first message what would end the run at the second."""
    for case in cases:
        if case.user_prompts is None and user is None:
            raise ConfigError(
                f"case {case.name!r} has no user_prompts; say who plays its story, such as "
                "--simulated-user openai/gpt-4o-mini"
            )
        if case.starting_sentence is None and not isinstance(user, SimulatedUser):
            raise ConfigError(
                f"case {case.name!r} has no starting_sentence; only a model can make one up, such "
                "as --simulated-user openai/gpt-4o-mini"
            )


def _first_message(case: Case, user: object) -> str:
    if case.starting_sentence is None and isinstance(user, SimulatedUser):
        return run_apart(user.opening(case.story))
    return case.starting_sentence or ""


def _scenario(case: Case, first: str, most_turns: int) -> EvalScenario:
    return EvalScenario(
        first,
        id=case.name,
        simulated_user_persona=case.story,
        max_turns=case.max_user_turns or most_turns,
    )


def _messages(said: ScenarioResult, times: Times) -> Sequence[Any]:
    return messages_of_turns(
        said.turns,
        said.traces,
        times.ends_ns,
        times.seconds(len(said.turns), said.duration_ns),
    )


def _ended(found: JourneyResult, said: ScenarioResult) -> JourneyResult:
    """The result; a journey that ended early did not succeed, whatever was reached until then."""
    if said.error is None:
        return found
    message = f"the conversation ended early: {said.error_line}"
    return replace(
        found,
        metrics={**found.metrics, "is_success": False},
        message=f"{message}; {found.message}" if found.message else message,
        problems=(*found.problems, message),
    )


def _judged(
    scenarios: EvalScenarios, results: ScenarioEvalResults, runs: Sequence[JourneyRun]
) -> ScenarioEvalResults:
    """The verdicts as results of the same scenarios, for reports, gates and comparisons."""
    task = AssertionTask(TASK_ID, _VERDICT, SUCCEEDED, ComparisonOperator.Equals)
    judged = EvalScenarios(
        [
            EvalScenario(each.initial_query, [task], each.id, max_turns=each.max_turns)
            for each in scenarios
        ],
        scenarios.collection_id,
    )
    runner = EvalRunner(judged, {}, ())
    by_id = {scenario.id: scenario for scenario in judged}
    for run in runs:
        said = results.get_scenario_detail(run.result.name, run.attempt)
        undecided = f"undecided: {run.result.message}" if run.result.success is None else None
        last: JsonValue = said.turns[-1]["agent"] if said.turns else None
        runner.add_spans(said.traces)
        runner.collect_scenario_data(
            {},
            {"answer": last, "journey": _told(run.result)},
            by_id[run.result.name],
            attempt=run.attempt,
            turns=said.turns,
            error=said.error or undecided,
            error_frames=said.error_frames,
            duration_ns=said.duration_ns,
        )
    runner.lost = results.lost
    found = runner.evaluate()
    of_agent = {name: getattr(results.provenance, name) for name in ("agent", "agent_version")}
    provenance = found.provenance.model_copy(update=of_agent)
    return found.model_copy(update={"repeats": results.repeats, "provenance": provenance})


def _told(result: JourneyResult) -> dict[str, JsonValue]:
    verdict = SUCCEEDED if result.success else result.message or "failed"
    return {"verdict": verdict, **result.metrics}
