"""The results of the three evaluators; the field names are those of Upsonic's evaluation models."""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

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
        memory_peak_bytes: Most bytes that Python objects held during the run, above its start.
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
        num_iterations: Measured runs that were asked for.
        warmup_runs: Runs before them, which are not measured.
        latency_stats: `average`, `median`, `min`, `max` and `std_dev` (n-1) of the seconds.
        memory_increase_stats: The same of the bytes that were kept.
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
