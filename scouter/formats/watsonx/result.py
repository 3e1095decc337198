"""Journeys of a run, read from its attempts: what the documented files are written of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.api.replay import ScenarioEvalResults, ScenarioResult
from scouter.evaluate.engine.journey import GivenAnswers, journey_of
from scouter.evaluate.journey.case import SOUND, Case
from scouter.evaluate.journey.message import messages_of_turns
from scouter.evaluate.journey.result import JourneyResult
from scouter.evaluate.outcome import Reason
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.formats.watsonx.cases import SUCCESS

ENDED_EARLY: Final = "the conversation ended early: "
"""First words of what the file of errors says of a conversation that did not come to its end."""
CUT_SHORT: Final = "the conversation was cut short: "
"""First words there of one that used up its turns, so that its end was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyRun:
    """One journey that was run."""

    result: JourneyResult
    attempt: int = 0
    error: str | None = None
    """Error that ended the conversation early: of the agent, or of the user's player."""


def journeys_of(
    run: ScenarioEvalResults, cases: Sequence[Case], scenarios: EvalScenarios
) -> Iterator[JourneyRun]:
    """Read the journeys of a run, by case and attempt.

    Nobody is asked: the answers of the judge are those of the run.

    Args:
        run: The run.
        cases: Those that were run.
        scenarios: Made of these cases, in their order.
    """
    for case, scenario in zip(cases, scenarios, strict=True):
        task = scenario.tasks[0]
        assert isinstance(task, JourneyTask)  # noqa: S101 - `scenarios_of` puts it first
        for attempt in range(run.repeats):
            said = run.get_scenario_detail(case.name, attempt)
            messages = messages_of_turns(said.turns, said.traces, said.turn_times_ns)
            given = _given(said)
            answers = None if given is None else GivenAnswers(given)
            result = _ended(journey_of(task, case, messages, answers), said)
            yield JourneyRun(result=result, attempt=attempt, error=said.error)


def _given(said: ScenarioResult) -> JsonValue:
    """The answers of the judge about an attempt; None without a judge."""
    if said.eval_results is None:
        return None
    talks = (
        task.talk
        for record in said.eval_results.records
        for task in record.tasks
        if task.task_id == SUCCESS
    )
    return next((talk.answer for talk in talks if talk is not None), None)


def _ended(found: JourneyResult, said: ScenarioResult) -> JourneyResult:
    """The result; a journey that ended early did not succeed, whatever was reached until then.

    If it only ran out of turns, a failure stands, and a success is undecided; the original takes
    that for an end.
    """
    if said.error is None:
        return found
    is_cut = said.error_reason is Reason.INCOMPLETE
    message = f"{CUT_SHORT if is_cut else ENDED_EARLY}{said.error_line}"
    if is_cut and found.compat != SOUND:
        return replace(found, problems=(*found.problems, message))
    success = None if is_cut and found.success is not False else False
    return replace(
        found,
        metrics={**found.metrics, SUCCESS: success},
        message=f"{message}; {found.message}" if found.message else message,
        problems=(*found.problems, message),
    )
