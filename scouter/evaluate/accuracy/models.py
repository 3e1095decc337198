"""The results of the three evaluators, and the agent that they run; named as by Upsonic."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field

Compat: TypeAlias = Literal["sound", "upsonic-0.77"]
"""`sound` is right and documented; `upsonic-0.77` gives what Upsonic 0.77 gives."""

COMPATS: Final = ("sound", "upsonic-0.77")


def check_compat(compat: str) -> None:
    """Refuse a profile that there is not."""
    if compat not in COMPATS:
        raise ValueError(f"compat {compat!r}: expected one of {', '.join(COMPATS)}")


def refuse(kind: type[Exception], compat: Compat, ours: str, theirs: str) -> NoReturn:
    """Raise an error about an argument, in our words or in Upsonic's."""
    raise kind(ours if compat == "sound" else theirs)


def check_agent(agent: object, compat: Compat) -> None:
    """Refuse what cannot be called."""
    if not (callable(agent) or hasattr(agent, "do_async")):
        refuse(
            TypeError,
            compat,
            "agent_under_test: expected a function from the query to the answer, or an object "
            f"with `do_async(task)`, got a {type(agent).__name__}",
            "The `agent_under_test` must be an instance of `Agent`, `Graph`, or `Team`.",
        )


def check_count(name: str, value: object, least: int, compat: Compat) -> None:
    """Refuse a number of runs that is none."""
    if isinstance(value, int) and value >= least:
        return
    words = "a positive integer" if least else "a non-negative integer"
    kind = ValueError
    theirs = f"`{name}` must be {words}."
    refuse(kind, compat, f"{name}: expected an integer from {least}, got {value!r}", theirs)


async def time_agent(agent: Any, task: object) -> tuple[object, float]:  # noqa: ANN401 - what can be called
    """Ask an agent once, and take the time; a plain function runs in a thread, with this context.

    Returns:
        The answer and the seconds it took; the way into a thread and back is not among them.
    """
    call: Callable[[object], object] = getattr(agent, "do_async", None) or agent
    own = getattr(call, "__call__", None)  # noqa: B004 - to look at, not to call
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(own):
        answer, seconds = _clocked(call, task)
    else:
        answer, seconds = await asyncio.to_thread(_clocked, call, task)
    started = time.perf_counter()
    while isinstance(answer, Awaitable):
        answer = await cast("Awaitable[object]", answer)
    return answer, seconds + time.perf_counter() - started


def _clocked(call: Callable[[object], object], task: object) -> tuple[object, float]:
    started = time.perf_counter()
    answer = call(task)
    return answer, time.perf_counter() - started


WARNED_FROM: Final = 5.0
PASSED_FROM: Final = 8.0
"""Least average score that passes; from `WARNED_FROM` on it is shown as doubtful."""


class _Result(BaseModel):
    model_config = ConfigDict(from_attributes=True, defer_build=True)


class EvaluationScore(BaseModel):
    """A judge's verdict about one answer.

    Args:
        score: From 1 to 10.
        reasoning: The judge's reason for this score.
        is_met: Whether the answer has what was expected.
        critique: Advice for a better answer.

    Raises:
        pydantic.ValidationError: A field is missing, or the score is outside of 1 to 10.
    """

    model_config = ConfigDict(defer_build=True)

    score: float = Field(ge=1, le=10, allow_inf_nan=False)
    reasoning: str
    is_met: bool
    critique: str


class PerformanceRunResult(BaseModel):
    """One measured run.

    Args:
        latency_seconds: Wall-clock time.
        memory_increase_bytes: Bytes that Python objects of this run still hold at its end.
        memory_peak_bytes: Most bytes of Python objects during the run, above its start.
    """

    model_config = ConfigDict(defer_build=True)

    latency_seconds: float
    memory_increase_bytes: int
    memory_peak_bytes: int


class ToolCallCheck(BaseModel):
    """One expected tool.

    Args:
        tool_name: Its name.
        was_called: Whether it was called at all.
        times_called: Number of its calls.
    """

    model_config = ConfigDict(defer_build=True)

    tool_name: str
    was_called: bool
    times_called: int


class AccuracyEvaluationResult(_Result):
    """The verdicts of all iterations.

    Args:
        evaluation_scores: One for each iteration with a verdict.
        average_score: Mean of their scores, 1 to 10.
        user_query: The question to the agent.
        expected_output: Content of a right answer.
        generated_output: The answer of the last iteration with a verdict.
        errors: Reasons of the iterations without a verdict, in their order.
    """

    evaluation_scores: list[EvaluationScore]
    average_score: float
    user_query: str
    expected_output: str
    generated_output: str
    errors: list[str] = Field(default_factory=list[str])


class PerformanceEvaluationResult(_Result):
    """Time and memory of the measured runs.

    Args:
        all_runs: One for each measured run that did not fail.
        num_iterations: Measured runs that were requested.
        warmup_runs: Runs before them, which are not measured.
        latency_stats: `average`, `median`, `min`, `max` and `std_dev` (n-1) of the seconds.
        memory_increase_stats: The same of the bytes that were stored.
        memory_peak_stats: The same of the peaks in bytes.
        errors: Reasons of the missing runs, in their order.
    """

    all_runs: list[PerformanceRunResult]
    num_iterations: int
    warmup_runs: int
    latency_stats: dict[str, float]
    memory_increase_stats: dict[str, float]
    memory_peak_stats: dict[str, float]
    errors: list[str] = Field(default_factory=list[str])


class ReliabilityEvaluationResult(_Result):
    """The outcome of a check on called tools.

    Args:
        passed: Whether everything was as expected.
        summary: All that was not, in one line.
        expected_tool_calls: Names as expected.
        actual_tool_calls: Names as called, in their order.
        checks: One for each expected name.
        missing_tool_calls: Expected names that were not called.
        unexpected_tool_calls: Names that were called and not expected; only filled by
            `exact_match`.
    """

    passed: bool
    summary: str
    expected_tool_calls: list[str]
    actual_tool_calls: list[str]
    checks: list[ToolCallCheck]
    missing_tool_calls: list[str]
    unexpected_tool_calls: list[str]

    def assert_passed(self) -> None:
        """Fail a test where the evaluation did not pass.

        Raises:
            AssertionError: It did not; holds the summary.
        """
        if not self.passed:
            raise AssertionError(f"Reliability evaluation failed: {self.summary}")
