"""JourneyTask: hold a conversation against the goals of a journey and their order."""

from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, TypeAlias, Unpack

from pydantic import Field, JsonValue, model_validator

from scouter.evaluate.journey.case import SOUND, Case, Compat, case_of
from scouter.evaluate.journey.case_faults import faults_of
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.base import Scope, ScoredOptions, ScoredTask, is_none
from scouter.evaluate.tasks.judge import DEFAULT_RETRIES, Retries

JourneyMeasure: TypeAlias = Literal["success", "completion", "recall", "precision", "parameter_f1"]

QUESTIONS: Final = "Whether texts and fuzzy arguments mean the same, and statements are true."
"""The question to a judge, for people."""
_MOST: Final = 20
"""Questions about one conversation that a task may put unless it says another number."""


class JourneyTask(ScoredTask):
    """Measure how a conversation meets the goals of a ground-truth dataset.

    Without `operator` and `expected_value` it passes where the measure is 1. Its actual value are
    all measures by their documented names. With a model, a judge compares texts and fuzzy arguments
    and decides about statements; without, fuzzy values are compared by their tokens.

    Args:
        id: Unique inside one profile; lower-cased.
        dataset: The content of a ground-truth file of watsonx Orchestrate; its `assert_llm` need
            a model.
        measure: `success` is 1 or 0, the others are in [0, 1]; see `JourneyResult`.
        messages: Path to a list of messages; None reads the spans.
        turns: Path to a list of turns, `{"user": message, "agent": answer}`, as a scenario has
            them: what was said is read there, and calls from the spans where these tell them.
        similarity_threshold: Least similarity of a fuzzy argument or text, in [0, 1]; measured by
            tokens.
        enable_fuzzy_matching: False compares fuzzy arguments as strict ones.
        compat: `wxo-1.6.9` measures as that version of the original, with its defects.
        model: The judge's model.
        provider: The name of a provider entry.
        max_questions: Most questions about one conversation, 1 to 10,000; one that has more is
            errored.
        max_retries: Most times to ask again where the provider failed, 0 to 20.
        sample_rate: The part of the records for which a judge is called, in [0, 1]; the others
            are skipped.
        expected_value: The value that the measure is compared with.
        operator: The comparison.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` evaluates the whole conversation once; `record` one record, which in a
            scenario is the attempt.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "dataset", "measure")

    task_type: Literal["Journey"] = "Journey"
    scope: Scope = "session"
    dataset: dict[str, JsonValue]
    measure: JourneyMeasure = "success"
    messages: str | None = None
    turns: str | None = Field(default=None, exclude_if=is_none)
    similarity_threshold: float = Field(default=0.8, ge=0, le=1)
    enable_fuzzy_matching: bool = True
    compat: Compat = Field(default=SOUND, exclude_if=SOUND.__eq__)
    model: str | None = Field(default=None, min_length=1, exclude_if=is_none)
    provider: str | None = Field(default=None, min_length=1, exclude_if=is_none)
    max_questions: int = Field(default=_MOST, ge=1, le=10_000, exclude_if=_MOST.__eq__)
    max_retries: Retries = Field(default=DEFAULT_RETRIES, exclude_if=DEFAULT_RETRIES.__eq__)
    sample_rate: float = Field(default=1.0, ge=0, le=1, exclude_if=(1.0).__eq__)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            dataset: dict[str, JsonValue],
            measure: JourneyMeasure = "success",
            *,
            messages: str | None = None,
            turns: str | None = None,
            similarity_threshold: float = 0.8,
            enable_fuzzy_matching: bool = True,
            compat: Compat = SOUND,
            model: str | None = None,
            provider: str | None = None,
            max_questions: int = ...,
            max_retries: int | None = None,
            sample_rate: float = 1.0,
            task_type: Literal["Journey"] = "Journey",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @model_validator(mode="after")
    def _dataset_is_one(self) -> Self:
        fault = next(iter(faults_of(self.dataset)), None)
        if fault is not None:
            raise ValueError(f"dataset: {fault}")
        if self.messages is not None and self.turns is not None:
            raise ValueError("messages and turns: a conversation is read from one of them")
        if (self.model is None) != (self.provider is None):
            raise ValueError("expected model and provider, or neither")
        if self.model is None and self.case.checks:
            raise ValueError("dataset: assert_llm asks a judge; give model and provider")
        return self

    @property
    def case(self) -> Case:
        """The journey as it should go."""
        return case_of(self.dataset, self.id)

    @property
    def reads_spans(self) -> bool:
        """True if the task looks at spans."""
        return self.messages is None

    @property
    def judge_prompt(self) -> Prompt | None:
        """The model that is called; None where nothing is open to a judge."""
        if self.model is None or self.provider is None or not self.case.asks:
            return None
        return Prompt(QUESTIONS, self.model, self.provider)

    @property
    def most_questions(self) -> int:
        """Most questions to a judge for one record, retries left out."""
        return 0 if self.judge_prompt is None else self.max_questions
