"""The findings of the original's rules, and the result that is made of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.journey.case import Case, Goal
from scouter.evaluate.journey.graph import pairs
from scouter.evaluate.journey.message import TOOL_RESPONSE, AskedCall, JourneyMessage
from scouter.evaluate.journey.result import (
    ArgumentMatch,
    CallResult,
    CheckResult,
    GoalResult,
    JourneyResult,
    Measure,
)
from scouter.evaluate.journey.sentences import sentence, why_unmet, why_wrong, written
from scouter.evaluate.journey.sound import text_match_word
from scouter.evaluate.journey.wxo.client import Client


@dataclass(slots=True)
class Run:
    """One evaluation, operator by operator; what raises loses its measures."""

    case: Case
    messages: Sequence[JourneyMessage]
    client: Client
    metrics: dict[str, Measure] = field(default_factory=dict[str, Measure])
    problems: list[str] = field(default_factory=list[str])
    tools: "Tools | None" = None
    texts: "Texts | None" = None
    interactions: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    def operator(self, name: str, work: Callable[[], Iterable[tuple[str, Measure]]]) -> None:
        """Take what an operator measures; what it raises loses its measures."""
        try:
            self.metrics.update(work())
        except Exception as error:  # noqa: BLE001 - the original loses measures to any
            self.problems.append(f"{name}: {type(error).__name__}: {error}")


@dataclass(slots=True)
class Tools:
    """Calls sorted by whether they met a goal of the journey."""

    met: dict[str, int] = field(default_factory=dict[str, int])
    """Message that met each goal, in the order of messages."""
    relevant: list[int] = field(default_factory=list[int])
    irrelevant: list[int] = field(default_factory=list[int])
    incorrect: dict[int, tuple[ArgumentMatch, ...] | None] = field(
        default_factory=dict[int, "tuple[ArgumentMatch, ...] | None"]
    )
    """Arguments of incorrect calls against the nearest goal; None where all its goals are met."""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class Texts:
    """Text goals that were met, and their counts."""

    met: tuple[str, ...]
    """Names of goals, in their order."""
    count: int
    met_count: int


def first_call(message: JourneyMessage) -> AskedCall | None:
    """The one call of a message that the original looks at."""
    return message.calls[0] if message.calls else None


ERROR_WORDS: Final = (
    "abort", "bad request", "broken pipe", "can't", "cannot", "connection refused", "core dumped",
    "crash", "denied", "erroneous", "error", "exceeded", "exceeds limit", "exception", "fail",
    "fatal", "forbidden", "http_code=400", "http_code=401", "http_code=403", "http_code=404",
    "http_code=405", "http_code=408", "http_code=409", "http_code=429", "http_code=500",
    "http_code=503", "http_code=504", "illegal", "incorrect", "infinite recursion", "invalid",
    "missing", "no such file or directory", "not found", "notfound", "oom", "out of memory",
    "overflow", "overrun", "overwrite", "panic", "segfault", "segmentation fault",
    "server is down", "stack trace", "timed out", "timeout", "traceback", "unable", "unauthorized",
    "unavailable", "underflow", "unexpected", "unknown", "unreachable", "unresolved",
    "unsuccessful",
)  # fmt: skip
"""Error words in lower case; each also stands for all words that hold it, as `syntax error`."""


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
