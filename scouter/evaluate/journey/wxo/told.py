"""The findings of the original's rules as a result: the fate of goals, calls and messages."""

from collections.abc import Mapping

from pydantic import JsonValue

from scouter.evaluate.journey.case import Goal
from scouter.evaluate.journey.graph import pairs
from scouter.evaluate.journey.message import TOOL_RESPONSE, JourneyMessage
from scouter.evaluate.journey.result import CallResult, GoalResult, JourneyResult
from scouter.evaluate.journey.sentences import sentence, why_unmet, why_wrong, written
from scouter.evaluate.journey.sound import text_match_word
from scouter.evaluate.journey.wxo.error_words import ERROR_WORDS
from scouter.evaluate.journey.wxo.run import Run, Tools, first_call


def result_of(run: Run) -> JourneyResult:
    """Put a result together."""
    tools, texts = run.tools or Tools(), run.texts
    has_tags = "is_success" in run.metrics
    count, met = (texts.count, texts.met_count) if texts else (0, 0)
    goals = tuple(_fate(goal, run, tools) for goal in run.case.goals)
    order = {name: at for at, name in enumerate(
        [*tools.met, *run.interactions, *(texts.met if texts else ())]
    )}  # fmt: skip
    broken = tuple(
        (parent, child)
        for parent, child in pairs(run.case.edges)
        if parent in order and child in order and order[parent] >= order[child]
    )
    return JourneyResult(
        name=run.case.name,
        compat="wxo-1.6.9",
        metrics=run.metrics,
        goals=goals,
        calls=tuple(_call(at, run, tools) for at in (*tools.relevant, *tools.irrelevant)),
        checks=run.checks,
        broken_edges=broken,
        text_match=text_match_word(count, met),
        message=sentence(goals, broken, run.checks, bool(run.metrics.get("is_success"))),
        messages=tuple(run.messages),
        reasons=tuple(_tag(at, m, tools) for at, m in enumerate(run.messages)) if has_tags else (),
        missed_tools=tools.missed,
        problems=tuple(run.problems),
    )


def _fate(goal: Goal, run: Run, tools: Tools) -> GoalResult:
    met = {*tools.met, *run.interactions, *(run.texts.met if run.texts else ())}
    is_met = goal.name in met
    wrong = [_call(at, run, tools) for at in tools.incorrect]
    own = [call for call in wrong if call.tool == goal.tool_name and call.arguments]
    return GoalResult(
        name=goal.name, type=goal.type, met=is_met, message=tools.met.get(goal.name),
        reason="" if is_met else why_unmet(goal, own, is_taken=False),
    )  # fmt: skip


def _call(at: int, run: Run, tools: Tools) -> CallResult:
    call = first_call(run.messages[at])
    tool = call.name if call else ""
    goal = next((name for name, place in tools.met.items() if place == at), None)
    matches = tools.incorrect.get(at) or ()
    reason = "irrelevant tool call" if at in tools.irrelevant else ""
    if at in tools.incorrect:
        reason = "repeated call" if tools.incorrect[at] is None else "incorrect parameter"
    detail = why_wrong(reason, tool, matches) if reason else ""
    return CallResult(
        message=at, index=0, tool=tool, goal=goal, reason=reason, detail=detail, arguments=matches
    )


def _tag(at: int, message: JourneyMessage, tools: Tools) -> Mapping[str, JsonValue] | None:
    if at in tools.irrelevant:
        return {"reason": "irrelevant tool call"}
    if at in tools.incorrect:
        matches = tools.incorrect[at]
        if matches is None:
            return None
        return {"reason": "incorrect parameter", "parameters": [written(each) for each in matches]}
    text = message.text.lower() if message.type == TOOL_RESPONSE else ""
    return {"reason": "runtime error"} if any(word in text for word in ERROR_WORDS) else None
