"""Journeys run: a user plays the story, the agent answers, and its goals are judged."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults, ScenarioResult
from scouter.evaluate.journey.case import Case
from scouter.evaluate.journey.evaluate import SOUND, Compat, evaluate_journey
from scouter.evaluate.journey.message import messages_of_turns
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Reason
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.formats.watsonx.config import WatsonxConfig
from scouter.formats.watsonx.story_user import StoryUser
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
    """Error that ended the conversation early: of the agent, or of the user's player."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Journeys:
    """Journeys that were run, and their verdicts as results of scenarios."""

    runs: tuple[JourneyRun, ...]
    results: ScenarioEvalResults
    """Results with one task a scenario, `journey`, whose actual value is the verdict in words."""


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
    user = StoryUser(named, played)
    scenarios = EvalScenarios([_scenario(case, config.max_user_turns) for case in cases])
    results = run_named(scenarios, replace(run, simulated_user=user))
    runs: list[JourneyRun] = []
    for case in cases:
        for attempt in range(run.repeats):
            said = results.get_scenario_detail(case.name, attempt)
            messages = messages_of_turns(said.turns, said.traces, said.turn_times_ns)
            found = evaluate_journey(
                case, messages, compat=compat, judge=judge, embedder=embedder,
                agents=agents, similarity_threshold=config.similarity_threshold,
                enable_fuzzy_matching=config.enable_fuzzy_matching,
            )  # fmt: skip
            result = _ended(_with_turns(found, said), said, compat)
            runs.append(JourneyRun(result=result, attempt=attempt, error=said.error))
    return Journeys(runs=tuple(runs), results=_judged(scenarios, results, runs))


def _check_users(cases: Sequence[Case], user: object) -> None:
    """Refuse before the first message what would end the run at the second."""
    for case in cases:
        if case.user_prompts is None and user is None:
            raise ConfigError(
                f"case {case.name!r} has no user_prompts; say who plays its story, such as "
                "--simulated-user openai/gpt-4o-mini"
            )
        if not case.starting_sentence and not isinstance(user, SimulatedUser):
            raise ConfigError(
                f"case {case.name!r} has no starting_sentence; only a model can make one up, such "
                "as --simulated-user openai/gpt-4o-mini"
            )


def _scenario(case: Case, most_turns: int) -> EvalScenario:
    """Make the scenario of a case.

    All that leads the user is in it, so that a journal does not answer for a changed case.
    """
    prompts = case.user_prompts
    return EvalScenario(
        case.starting_sentence or "",
        id=case.name,
        simulated_user_persona=case.story,
        max_turns=case.max_user_turns or most_turns,
        metadata=None if prompts is None else {"user_prompts": list[JsonValue](prompts)},
    )


def _with_turns(found: JourneyResult, said: ScenarioResult) -> JourneyResult:
    """The result; undecided where nobody knows in which turn a call was made.

    Journals of earlier versions do not tell when turns ended.
    """
    if len(said.turns) == len(said.turn_times_ns) or len(said.turns) < 2 or not found.calls:
        return found
    problem = "the journal does not tell when turns ended; start a new one to have the order judged"
    return replace(
        found,
        metrics={**found.metrics, "is_success": None},
        message=f"undecided: {problem}",
        problems=(*found.problems, problem),
    )


def _ended(found: JourneyResult, said: ScenarioResult, compat: Compat) -> JourneyResult:
    """The result; a journey that ended early did not succeed, whatever was reached until then.

    If it only ran out of turns, a failure stands, and a success is undecided; the original takes
    that for an end.
    """
    if said.error is None:
        return found
    message = f"the conversation ended early: {said.error_line}"
    is_cut = said.error_reason is Reason.INCOMPLETE
    if is_cut and compat != SOUND:
        return replace(found, problems=(*found.problems, message))
    success = None if is_cut and found.success is not False else False
    return replace(
        found,
        metrics={**found.metrics, "is_success": success},
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
            EvalScenario(_asked(each), [task], each.id, max_turns=each.max_turns)
            for each in scenarios
        ],
        scenarios.collection_id,
    )
    runner = EvalRunner(judged, {}, ())
    by_id = {scenario.id: scenario for scenario in judged}
    for run in runs:
        said = results.get_scenario_detail(run.result.name, run.attempt)
        undecided = run.result.message if run.result.success is None else None
        last: JsonValue = said.turns[-1]["agent"] if said.turns else None
        runner.add_spans(said.traces)
        runner.collect_scenario_data(
            {},
            {"answer": last, "journey": _told(run.result, said.error_reason)},
            by_id[run.result.name],
            attempt=run.attempt,
            turns=said.turns,
            turn_times_ns=said.turn_times_ns,
            error=said.error or undecided,
            error_reason=said.error_reason or Reason.AGENT,
            error_frames=said.error_frames,
            duration_ns=said.duration_ns,
        )
    runner.lost = results.lost
    found = runner.evaluate()
    of_agent = {name: getattr(results.provenance, name) for name in ("agent", "agent_version")}
    provenance = found.provenance.model_copy(update=of_agent)
    return found.model_copy(update={"repeats": results.repeats, "provenance": provenance})


def _asked(scenario: EvalScenario) -> str:
    """The question that people are shown: the story where each attempt has its own."""
    return scenario.initial_query or scenario.simulated_user_persona or ""


def _told(result: JourneyResult, reason: Reason | None) -> dict[str, JsonValue]:
    """The verdict in words; of a conversation that ran out of turns, that of its turns."""
    is_so_far = reason is Reason.INCOMPLETE and result.success is None
    verdict = SUCCEEDED if result.success or is_so_far else result.message or "failed"
    return {"verdict": verdict, **result.metrics}
