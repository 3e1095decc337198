"""Reliability: the agent called the tools that it has to call, or not."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from scouter.evaluate.accuracy.models import (
    Compat,
    ReliabilityEvaluationResult,
    ToolCallCheck,
    check_compat,
)
from scouter.evaluate.responses.read import is_subsequence
from scouter.model.agent_work import ToolCall
from scouter.model.genai.names import known_as
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

_CAPTURED: Final = "scouter.replay.captured:captured_run"
"""Name of the function that captures spans, which this lower package may not import."""
PASSED: Final = "All reliability checks passed."
OUT_OF_ORDER: Final = "Tools were not called in the expected order."


class ReliabilityEvaluator:
    """Holds the tools that an agent called against those that it has to call, by name.

    Args:
        expected_tool_calls: Names, at least one. A name that stands there twice has to be called
            twice.
        order_matters: Whether the calls have to come in this order; others may come between.
        exact_match: Whether nothing else may be called; a call more than expected is too much.
        compat: `sound`, or `upsonic-0.77`: without `order_matters` one call is enough for a name
            that stands there twice, and `exact_match` minds other names only, not repeats.

    Raises:
        TypeError: No list of names.
        ValueError: The list is empty.
    """

    def __init__(
        self,
        expected_tool_calls: list[str],
        order_matters: bool = False,
        exact_match: bool = False,
        *,
        compat: Compat = "sound",
    ) -> None:
        check_compat(compat)
        names = cast("Sequence[object]", expected_tool_calls)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise TypeError("`expected_tool_calls` must be a list of strings.")
        if not expected_tool_calls:
            raise ValueError("`expected_tool_calls` cannot be an empty list.")
        self._expected = list(expected_tool_calls)
        self._in_order, self._exact, self._compat = order_matters, exact_match, compat

    def run(self, run_result: object, print_results: bool = True) -> ReliabilityEvaluationResult:
        """Check the calls of a run.

        Args:
            run_result: A function without parameters that runs the agent: its spans are captured
                and read, whatever instrumentation made them. Or the calls of a run that is over:
                spans, `ToolCall`s, `{"tool_name": …}` objects, or one or more tasks with such a
                list in `tool_calls`.
            print_results: Whether a table goes to standard output.

        Raises:
            TypeError: The argument tells of no calls.
            KeyError: A call has no `tool_name`.
            Exception: The error that the agent raised.
        """
        result = self.check(tool_names(run_result))
        if print_results:
            from scouter.evaluate.accuracy.shown import print_reliability  # rich loads on demand

            print_reliability(result)
        return result

    def check(self, actual: Sequence[str]) -> ReliabilityEvaluationResult:
        """Check names as called, in their order; `mcp__shop__pay` is `pay` where that is expected.

        Cost: linear in the names.
        """
        expected, wanted = self._expected, Counter(self._expected)
        is_sound = self._compat == "sound"
        called = [known_as(name, wanted) for name in actual] if is_sound else actual
        times = Counter(called)
        missing = (
            _beyond(expected, times) if is_sound else [name for name in expected if not times[name]]
        )
        unexpected: list[str] = []
        if self._exact:
            unexpected = sorted(
                _beyond(called, wanted) if is_sound else times.keys() - wanted.keys()
            )
        messages: list[str] = []
        if missing:
            messages.append(f"Missing expected tool calls: {', '.join(missing)}.")
        if self._in_order and not is_subsequence(expected, called):
            messages.append(OUT_OF_ORDER)
        if unexpected:
            messages.append(f"Unexpected tools were called: {', '.join(unexpected)}.")
        return ReliabilityEvaluationResult(
            passed=not messages,
            summary=" ".join(messages) or PASSED,
            expected_tool_calls=expected,
            actual_tool_calls=list(actual),
            checks=[
                ToolCallCheck(tool_name=name, was_called=times[name] > 0, times_called=times[name])
                for name in expected
            ],
            missing_tool_calls=missing,
            unexpected_tool_calls=unexpected,
        )


def _beyond(names: Iterable[str], allowed: Mapping[str, int]) -> list[str]:
    """The names that stand there more often than others allow, once for each time."""
    seen = Counter[str]()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        if seen[name] > allowed[name]:
            found.append(name)
    return found


def tool_names(run_result: object) -> list[str]:
    """The names of the tools that a run called, in their order; runs it where it is a function.

    Raises:
        TypeError: Something that tells of no calls.
        KeyError: A call has no `tool_name`.
    """
    kind = type(run_result).__name__
    if hasattr(run_result, "tool_calls"):
        return _names_of(cast("Any", run_result).tool_calls)
    if isinstance(run_result, Sequence) and not isinstance(run_result, str | bytes):
        items = cast("Sequence[object]", run_result)
        if any(isinstance(item, Span) for item in items):
            return _names_of(agent_work(cast("Sequence[Span]", items)).tool_calls)
        have = [hasattr(item, "tool_calls") for item in items]
        if all(have):
            return [name for item in items for name in _names_of(cast("Any", item).tool_calls)]
        if not any(have):
            return _names_of(items)
    elif callable(run_result):
        from pkgutil import resolve_name  # needed only where an agent is run

        run: Callable[[Callable[[], object]], list[Span]] = resolve_name(_CAPTURED)
        return _names_of(agent_work(run(run_result)).tool_calls)
    raise TypeError(
        "Unsupported `run_result` type for reliability evaluation: "
        f"{kind}. Expected Task, List[Task], or Graph."
    )


def _names_of(calls: object) -> list[str]:
    names: list[str] = []
    for call in cast("Iterable[object]", calls):
        if isinstance(call, ToolCall):
            names.append(call.name)
        elif isinstance(call, Mapping):
            names.append(str(cast("Mapping[str, object]", call)["tool_name"]))
        elif isinstance(call, str):
            names.append(call)
        else:
            raise TypeError(
                f"a tool call is a {type(call).__name__}; expected a ToolCall, a name, or an "
                'object with "tool_name"'
            )
    return names
