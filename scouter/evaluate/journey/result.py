"""The result of a journey: measures, the fate of each goal, a reason for each wrong call."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic import JsonValue

from scouter.evaluate.journey.message import JourneyMessage

Measure: TypeAlias = float | int | bool | None
"""None where a measure does not apply, as the recall of a journey without tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentMatch:
    """One expected argument held against what was passed."""

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
