"""The result of a journey: measures, the fate of each goal, and the reasons in words."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from scouter.evaluate.journey.case import Goal
from scouter.evaluate.journey.message import TEXT, TOOL_CALL, TOOL_RESPONSE, JourneyMessage

Measure: TypeAlias = float | int | bool | None
"""None where a measure does not apply, as the recall of a journey without tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentMatch:
    """One expected argument compared with what was passed."""

    path: str
    strategy: str
    expected: JsonValue
    actual: JsonValue
    is_present: bool
    matched: bool
    link: str = ""
    """Link that decided on a fuzzy argument: `equal`, `judge`, `embedding` or `token_ratio`."""
    similarity: float | None = None
    """The similarity that the link measured, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalResult:
    """Result of one goal: the message that met it, or the reason why none did."""

    name: str
    type: str
    met: bool
    message: int | None = None
    """Index of the message that met it."""
    reason: str = ""
    """Reason why the goal was not met; empty where it was."""
    link: str = ""
    """Link that compared the meaning of a text goal with the text that met it, or came nearest."""
    similarity: float | None = None
    """The similarity that the link measured, in [0, 1]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """Result of one tool call: the goal that it met, or the reason why it met none."""

    message: int
    """Index of its message."""
    index: int
    """Its place among the calls of the message, from 0."""
    tool: str
    goal: str | None = None
    """The goal that it met."""
    reason: str = ""
    """Empty for a right call, else `irrelevant tool call`, `incorrect parameter`, `repeated call`
    or `routing` (a handoff that no goal asks for, which is no error)."""
    detail: str = ""
    """The reason in a sentence."""
    arguments: tuple[ArgumentMatch, ...] = ()
    """Arguments against those of the nearest goal, where they are incorrect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """Answer of a judge to one statement."""

    check: str
    passed: bool | None
    """None where no judge could say."""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyResult:
    """The result of a journey.

    `metrics` has every measure under its documented name, with null for those that do not apply.
    Where the original loses a measure to an exception, its profile leaves the name out and says
    so in `problems`.
    """

    name: str
    compat: str
    metrics: Mapping[str, Measure]
    goals: tuple[GoalResult, ...] = ()
    calls: tuple[CallResult, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    broken_edges: tuple[tuple[str, str], ...] = ()
    """Pairs of goals that were both met, and not in this order."""
    text_match: str = "NA"
    """`Summary Matched`, `Partially Match`, `Summary MisMatched`, or `NA` without text goals."""
    message: str = ""
    """The verdict in a sentence."""
    messages: tuple[JourneyMessage, ...] = ()
    reasons: tuple[Mapping[str, JsonValue] | None, ...] = ()
    """Fault of each message, in the order of the messages; None for a right one."""
    missed_tools: tuple[str, ...] = ()
    """Tools of goals that were never called."""
    links: tuple[str, ...] = ()
    """Links of the fuzzy chain that decided anything, in their order."""
    problems: tuple[str, ...] = field(default=())
    """Sentences that say what could not be decided or measured, and why."""

    @property
    def success(self) -> bool | None:
        """True if every goal was met in order; None if that could not be decided."""
        found = self.metrics.get("is_success")
        return None if found is None else bool(found)

    @property
    def completion(self) -> float | None:
        """Share of goals and statements that were met, in [0, 1]."""
        return self._number("journey_completion")

    @property
    def precision(self) -> float | None:
        """Share of the calls that met a goal, in [0, 1]."""
        return self._number("tool_call_precision")

    @property
    def recall(self) -> float | None:
        """Share of the tools' goals that were met, in [0, 1]."""
        return self._number("tool_call_recall")

    @property
    def parameter_f1(self) -> float | None:
        """Mean over goals of the F1 of arguments, in [0, 1]."""
        return self._number("tool_parameter_f1")

    @property
    def routing_f1(self) -> float | None:
        """F1 of the agents that were handed over to, in [0, 1]."""
        return self._number("orchestrate_agent_routing_accuracy")

    @property
    def wrong_calls(self) -> tuple[CallResult, ...]:
        """Calls with a reason, without handoffs."""
        return tuple(call for call in self.calls if call.reason not in ("", "routing"))

    def _number(self, name: str) -> float | None:
        found = self.metrics.get(name)
        return None if found is None else float(found)


_WORDS: Mapping[str, str] = {
    "strict": "Exact", "fuzzy": "Fuzzy", "optional": "Optional", "ignore": "Ignored",
}  # fmt: skip
"""Strategies as result files name them."""


def sentence(
    goals: Sequence[GoalResult],
    broken: Sequence[tuple[str, str]],
    checks: Sequence[CheckResult],
    success: bool | None,
    open_questions: Sequence[str] = (),
) -> str:
    """Say how a journey went; first what left it undecided."""
    parts = [f"undecided: {question}" for question in open_questions]
    parts += [f"goal {goal.name!r} is not met: {goal.reason}" for goal in goals if not goal.met]
    met_by = {goal.name: goal.message for goal in goals}
    parts += [_of_edge(parent, child, met_by) for parent, child in broken]
    parts += [
        f"not true: {c.check} ({c.reason or 'no reason'})" for c in checks if c.passed is False
    ]
    parts += [f"undecided: {c.check} ({c.reason})" for c in checks if c.passed is None]
    if success:
        return "every goal is met, in order"
    return "; ".join(parts)


def _of_edge(parent: str, child: str, met_by: Mapping[str, int | None]) -> str:
    first, second = met_by[parent], met_by[child]
    where = "" if None in (first, second) else f" (by messages {first} and {second})"
    return f"goal {parent!r} has to come before {child!r}, and was not met before it{where}"


def why_unmet(goal: Goal, wrong: Sequence[CallResult], *, is_taken: bool, nearest: str = "") -> str:
    """Say why no message meets a goal; `nearest` tells of a text that comes near."""
    if is_taken:
        return "every message that would meet it meets another goal"
    if goal.type == TEXT:
        if nearest:
            return f"no message of the agent says {goal.wanted_text!r}; {nearest}"
        words = f"the keywords {list(goal.keywords)}" if goal.keywords else ""
        wanted = repr(goal.wanted_text) if goal.wanted_text else ""
        return f"no message of the agent says {' and '.join(filter(None, (words, wanted)))}"
    if goal.type != TOOL_CALL:
        key, value = goal.identifier or ("", None)
        return f"no interaction has {key!r}: {value!r}"
    if wrong:
        return wrong[-1].detail
    return f"{goal.tool_name!r} was not called"


def why_wrong(reason: str, tool: str, arguments: Sequence[ArgumentMatch]) -> str:
    """Say in a sentence what is wrong with a call."""
    if reason == "irrelevant tool call":
        return f"no goal asks for {tool!r}"
    if reason == "repeated call":
        return f"{tool!r} was called as a goal asks for, which another call meets already"
    if reason == "routing":
        return f"{tool!r} hands over to another agent, for which no goal asks"
    return f"{tool!r} was called with {', '.join(_differences(arguments))}"


def _differences(arguments: Sequence[ArgumentMatch]) -> list[str]:
    return [
        f"{each.path} {_shown(each.actual)} in place of {_shown(each.expected)}"
        f"{in_brackets(alike(each.link, each.similarity))}"
        if each.is_present
        else f"no {each.path}, which should be {_shown(each.expected)}"
        for each in arguments
        if not each.matched
    ]


def alike(link: str, similarity: float | None) -> str:
    """Say what a link of the fuzzy chain found; the empty text where none decided."""
    if not link:
        return ""
    measured = "not alike" if similarity is None else f"alike {similarity:.2f}"
    return f"{measured} by {link}"


def in_brackets(text: str) -> str:
    """A remark behind something; nothing for the empty one."""
    return f" ({text})" if text else ""


def _shown(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"


def reasons_of(
    messages: Sequence[JourneyMessage], calls: Sequence[CallResult]
) -> tuple[Mapping[str, JsonValue] | None, ...]:
    """Say of each message what is wrong with it, as result files do."""
    wrong: dict[int, CallResult] = {}
    for call in calls:
        if call.reason not in ("", "routing"):
            wrong.setdefault(call.message, call)
    return tuple(
        _of_call(wrong[at])
        if at in wrong
        else {"reason": "runtime error", "detail": message.error}
        if message.type == TOOL_RESPONSE and message.error
        else None
        for at, message in enumerate(messages)
    )


def _of_call(call: CallResult) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {"reason": call.reason, "detail": call.detail}
    if call.arguments:
        found["parameters"] = [written(each) for each in call.arguments]
    return found


def written(match: ArgumentMatch) -> dict[str, JsonValue]:
    """An argument as result files have it; a fuzzy one with the link that decided."""
    found: dict[str, JsonValue] = {
        "name": match.path, "expected": match.expected, "actual": match.actual,
        "match_type": _WORDS.get(match.strategy, match.strategy), "matched": match.matched,
    }  # fmt: skip
    if match.link:
        found["link"] = match.link
    if match.similarity is not None:
        found["similarity"] = match.similarity
    return found
