"""ScoreTask: a score that somebody else gives, another evaluator or a person, as a task."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, Unpack

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.base import JsonInput, Scope, ScoredOptions, TaskBase, is_none

_GIVEN: Final = ("at_least", "at_most", "passed")
_MONTH_S: Final = 31 * 86_400.0
_UNIT: Final = (0.0, 1.0)
WAIT_S: Final = 300.0
"""Scores of evaluators are compared in order so long after what they are about: many are given at
the end of a run, which takes minutes."""
PEOPLE_WAIT_S: Final = 3_600.0
"""The same of scores that people give."""
SCORE: Final = "Score"
FEEDBACK: Final = "Feedback"
"""Types of the results: what an evaluator says, and what a person says."""


class ScoreTask(TaskBase):
    """Watch a score that other evaluators or people give; nothing is evaluated for it.

    Its results come with the scores, so it has none in a replay. Without a rule a score passes
    from the middle of its scale on, and detectors look at its mean.

    Args:
        id: Name of the score; lower-cased.
        operator: The comparison with a number.
        expected_value: The number that is compared with; None for no rule.
        passed: Labels that pass, in place of a number; every other label fails.
        scale: Lower and upper end of its numbers.
        wait_s: Seconds after what it is about until which a score counts for detectors. They take
            scores in the order of what these are about, so they are so long behind. None is
            `WAIT_S` for evaluators and `PEOPLE_WAIT_S` for people.
        description: For people.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "operator", "expected_value")

    task_type: Literal["Score"] = "Score"
    scope: Scope = Field(default="score", exclude_if="score".__eq__)
    operator: ComparisonOperator = ComparisonOperator.GreaterThanOrEqual
    expected_value: JsonInput = None
    passed: tuple[str, ...] = Field(default=(), max_length=100, exclude_if=().__eq__)
    scale: tuple[FiniteFloat, FiniteFloat] = Field(default=_UNIT, exclude_if=_UNIT.__eq__)
    wait_s: float | None = Field(default=None, ge=0, le=_MONTH_S, exclude_if=is_none)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            *,
            passed: Iterable[str] = (),
            scale: tuple[float, float] = ...,
            wait_s: float | None = None,
            task_type: Literal["Score"] = "Score",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.scope != "score" or self.depends_on or self.when is not None or self.condition:
            raise ValueError(
                "a score comes from outside: it has no scope, depends_on, condition or when"
            )
        if not self.scale[0] < self.scale[1]:
            raise ValueError(f"scale: expected [lower end, upper end], got {list(self.scale)}")
        if self.passed and self.expected_value is not None:
            raise ValueError("passed and expected_value: a score passes by its label or its number")
        return self

    @property
    def has_rule(self) -> bool:
        """True if it says which scores pass."""
        return bool(self.passed) or self.expected_value is not None

    def is_on_scale(self, value: object) -> bool:
        """Tell whether a value is a number of its scale; sums of thirds may be a hair beyond."""
        from scouter.evaluate.results.task_result import as_score  # profiles load without results

        (low, high), number = self.scale, as_score(value)
        hair = 1e-9 * (high - low)
        return number is not None and low - hair <= number <= high + hair

    def waits_s(self, task_type: str) -> float:
        """Seconds for which detectors wait for scores of a type."""
        if self.wait_s is not None:
            return self.wait_s
        return PEOPLE_WAIT_S if task_type == FEEDBACK else WAIT_S


class ScoreRule(BaseModel):
    """A score in the `scores` of a profile; at most one of `at_least`, `at_most` and `passed`.

    Args:
        healthy: Healthy pass rate, or healthy mean (0 to 1 on the scale) of a score without a rule.
        at_least: Numbers from this one on pass.
        at_most: Numbers up to this one pass.
        passed: Labels that pass.
        scale: See `ScoreTask`.
        wait_s: See `ScoreTask`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    healthy: float | None = Field(default=None, gt=0, le=1)
    at_least: FiniteFloat | None = None
    at_most: FiniteFloat | None = None
    passed: tuple[str, ...] = Field(default=(), min_length=1)
    scale: tuple[FiniteFloat, FiniteFloat] = _UNIT
    wait_s: float | None = None

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        given = [name for name in _GIVEN if getattr(self, name) not in (None, ())]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)}: expected one of them")
        self.task("score")  # whose errors are those of this rule
        return self

    def task(self, name: str) -> ScoreTask:
        """Make the task of a score."""
        is_falling = self.at_most is not None
        operator = "LessThanOrEqual" if is_falling else "GreaterThanOrEqual"
        bound = self.at_most if is_falling else self.at_least
        return ScoreTask(
            name, operator=operator, expected_value=bound, passed=self.passed, scale=self.scale,
            wait_s=self.wait_s,
        )  # fmt: skip
