"""LLMJudgeTask: ask a language model, and compare what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    Unpack,
    cast,
)

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    model_validator,
)
from typing_extensions import TypedDict

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.tasks.base import TaskBase, TaskOptions, is_none, read_prompt

if TYPE_CHECKING:
    from scouter.evaluate.operators.comparison import ComparisonOperator


YES, NO, CANNOT_TELL = "yes", "no", "cannot_tell"
REASON_CHARS: Final = 300
"""Characters of one criterion's reason that a message keeps."""


class Criterion(BaseModel):
    """One question that is answered with yes, no or cannot_tell.

    Args:
        id: Name of the criterion in results: letters, digits and `_`.
        text: The question, so that yes is good.
        weight: Its part of the score, beside those of the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    id: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    text: str = Field(min_length=1, max_length=2_000)
    weight: float = Field(default=1.0, gt=0, le=1_000, allow_inf_nan=False)


def _read(value: object) -> object:
    """Read `{id: question}` as a list of criteria."""
    if isinstance(value, Mapping):
        fields = cast("Mapping[object, object]", value)
        return [{"id": name, "text": text} for name, text in fields.items()]
    return value


Rubric: TypeAlias = Annotated[
    tuple[Criterion, ...],
    BeforeValidator(_read, json_schema_input_type=list[Criterion] | dict[str, str]),
    Field(min_length=1, max_length=50),
]

_NOTE: Final = (
    "Answer each of these criteria by itself: first a reason of one or two sentences, then the "
    "verdict yes or no, or cannot_tell where what you are given does not let you decide."
)


def rubric_note(rubric: Sequence[Criterion]) -> str:
    """Tell a judge the criteria."""
    return "\n".join([_NOTE, *(f"- {each.id}: {each.text}" for each in rubric)])


def rubric_schema(rubric: Sequence[Criterion]) -> dict[str, JsonValue]:
    """Make the schema of the answer: under each criterion's id its reason, then its verdict."""
    one: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "verdict": {"type": "string", "enum": [YES, NO, CANNOT_TELL]},
        },
        "required": ["reason", "verdict"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {each.id: one for each in rubric},
        "required": [each.id for each in rubric],
        "additionalProperties": False,
    }


@dataclass(frozen=True, slots=True)
class Marks:
    """The answers to all criteria of a rubric.

    Args:
        rubric: The criteria.
        answer: Of the form of `rubric_schema`.
    """

    rubric: Sequence[Criterion]
    answer: Mapping[str, Mapping[str, str]]

    def ids(self, verdict: str) -> list[str]:
        """The criteria that were answered so."""
        return [each.id for each in self.rubric if self.answer[each.id]["verdict"] == verdict]

    def summary(self, unclear_as: str = CANNOT_TELL) -> JsonValue:
        """Sum the answers up, as a task's `context_path` reads them.

        Args:
            unclear_as: The answer that `cannot_tell` counts as.

        Returns:
            `score`, the part in [0, 1] of the weights that is met; `all_met`; the ids of the
            criteria that are `failed` and `unclear`; and under `criteria` each one's `reason`
            and `verdict`.
        """
        marks = {
            each.id: {
                "reason": self.answer[each.id]["reason"],
                "verdict": self._verdict(each, unclear_as),
            }
            for each in self.rubric
        }
        total = sum(each.weight for each in self.rubric)
        met = sum(each.weight for each in self.rubric if marks[each.id]["verdict"] == YES)
        found = {
            "score": met / total,
            "all_met": all(mark["verdict"] == YES for mark in marks.values()),
            "failed": [name for name, mark in marks.items() if mark["verdict"] == NO],
            "unclear": [name for name, mark in marks.items() if mark["verdict"] == CANNOT_TELL],
            "criteria": marks,
        }
        return cast(JsonValue, found)

    def _verdict(self, criterion: Criterion, unclear_as: str) -> str:
        verdict = self.answer[criterion.id]["verdict"]
        return unclear_as if verdict == CANNOT_TELL else verdict

    def criteria_of(self, verdict: str) -> str:
        """Name the criteria that were answered so, with the reasons, of long ones both ends."""
        return "; ".join(
            f"{name} ({shorten(self.answer[name]['reason'], REASON_CHARS)})"
            for name in self.ids(verdict)
        )


DEFAULT_RETRIES: Final = 3


class _PromptFile(TypedDict):
    path: str


def _write(prompt: Prompt) -> dict[str, Any]:
    return prompt.model_dump(mode="json")


def _retries(value: object) -> object:
    return DEFAULT_RETRIES if value is None else value


TaskPrompt: TypeAlias = Annotated[
    Prompt,
    PlainValidator(read_prompt, json_schema_input_type=Prompt | _PromptFile),
    PlainSerializer(_write),
]
"""A judge's question, as a task has it."""
Retries: TypeAlias = Annotated[int, BeforeValidator(_retries), Field(ge=0, le=20)]
"""Most times to ask again where the provider failed; None is the usual number."""


def _ordered(scale: tuple[float, float]) -> tuple[float, float]:
    if scale[0] >= scale[1]:
        raise ValueError(f"a scale goes from less to more, got {scale[0]:g} to {scale[1]:g}")
    return scale


_Bound: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Vote: TypeAlias = Literal["majority", "median"]


SCORED_ANSWER: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {"reasoning": {"type": "string"}, "score": {"type": "number"}},
    "required": ["reasoning", "score"],
}
"""JSON schema of the answer to a question whose prompt is made."""


def take_short(
    kind: type[TaskBase], data: Mapping[str, object], *prompts: str
) -> tuple[dict[str, object], dict[str, str]]:
    """Take out of a task's fields the texts of which its prompt is made (`SHORT`).

    Args:
        kind: Kind of the task.
        data: Fields of the task.
        prompts: Names of the fields that hold a prompt.

    Returns:
        The other fields, and these texts; there is no text, or model and provider are there.

    Raises:
        ValueError: They stand beside a prompt, one is no text, or model or provider is missing.
    """
    fields = dict(data)
    given = {name: text for name in kind.SHORT if (text := fields.pop(name, None)) is not None}
    if given and any(fields.get(name) is not None for name in prompts):
        raise ValueError(f"{min(given)} stands in the prompt, where there is one")
    named = given.get("model"), given.get("provider"), *given.values()
    if given and not all(isinstance(each, str) for each in named):
        raise ValueError("expected model and provider, both texts")
    return fields, cast("dict[str, str]", given)


class PairSwap(BaseModel):
    """Two texts that a judge compares, put in both orders.

    Args:
        first: The variable of the prompt that stands first, such as `answer`.
        second: The one that stands second; for the other order their values change places.
        labels: Answer of the judge where the first text is better, and where the second one is.
        tie: Answer of the judge where neither is better. If given, it is the result also where the
            choice changes with the order; else such a task is errored as abstained.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    first: str
    second: str
    labels: tuple[str, str] = ("A", "B")
    tie: str | None = None

    @model_validator(mode="after")
    def _is_a_pair(self) -> Self:
        words = [*self.labels, *([] if self.tie is None else [self.tie])]
        if self.first == self.second or len(set(words)) < len(words):
            raise ValueError("swap: two variables, and different words for each outcome")
        return self


class LLMJudgeTask(TaskBase):
    """Ask a model about the record, and compare its answer with an expected value.

    The prompt's variables read the record's context and, under their ids, the values that the tasks
    in `depends_on` compared. Tasks that depend on this one read the judge's whole answer under its
    id. The caller that starts the evaluation chooses the judge.

    Args:
        id: Unique inside one profile; lower-cased.
        prompt: The question to the judge. In a file of tasks also `{path: judge.yaml}`.
        expected_value: The value to compare with; `${path}` inside texts is read from the record.
        context_path: Path of the compared value in the judge's answer, such as `score`; None
            compares the whole answer.
        operator: The comparison.
        description: For people.
        depends_on: Tasks that run before.
        max_retries: Most times to ask again where the provider failed, 0 to 20.
        condition: True makes the task a gate.
        required: True stops a release wherever the task does not pass.
        scope: `session` evaluates all records of a session together, once.
        scale: The least and the greatest number at `context_path`; the prompt states it, and an
            answer beyond them is errored (parse).
        may_abstain: True lets the judge answer `"abstain": true`, which is errored (abstained).
        rubric: Criteria that are answered one by one, `{id: question}` or a list of `Criterion`;
            they make the answer's schema. `context_path` then reads `score`, `all_met`,
            `failed`, `unclear` or `criteria`.
        reference: Path of a reference in the record. A reference is put behind the messages; if
            there is none, the prompt says so.
        samples: Number of times that the question is put, 1 to 25.
        vote: Result of the samples. `majority`: the outcome of more than half of `samples`;
            asking ends when it is decided. `median`: that of the numbers at `context_path`.
        swap: Asks in both orders of two texts, and counts only an answer that holds in both.
        sample_rate: The part of the records that are evaluated, in [0, 1]; the others are skipped
            (sampled). Record and task alone decide, in every process alike.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = (
        "id", "prompt", "expected_value", "context_path", "operator", "description", "depends_on",
        "max_retries", "condition",
    )  # fmt: skip

    task_type: Literal["LLMJudge"] = "LLMJudge"
    prompt: TaskPrompt
    context_path: str | None = None
    max_retries: Retries = DEFAULT_RETRIES
    scale: Annotated[tuple[_Bound, _Bound], AfterValidator(_ordered)] | None = Field(
        default=None, exclude_if=is_none
    )
    may_abstain: bool = Field(default=False, exclude_if=False.__eq__)
    rubric: Rubric | None = Field(default=None, exclude_if=is_none)
    reference: str | None = Field(default=None, exclude_if=is_none)
    samples: int = Field(default=1, ge=1, le=25, exclude_if=(1).__eq__)
    vote: Vote = Field(default="majority", exclude_if="majority".__eq__)
    swap: PairSwap | None = Field(default=None, exclude_if=is_none)
    sample_rate: float = Field(default=1.0, ge=0, le=1, exclude_if=(1.0).__eq__)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            prompt: Prompt,
            expected_value: object = None,
            context_path: str | None = None,
            operator: ComparisonOperator | str = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            max_retries: int | None = None,
            condition: bool | None = None,
            *,
            scale: tuple[float, float] | None = None,
            may_abstain: bool = False,
            rubric: Mapping[str, str] | Sequence[object] | None = None,
            reference: str | None = None,
            samples: int = 1,
            vote: Vote = "majority",
            swap: PairSwap | Mapping[str, object] | None = None,
            sample_rate: float = 1.0,
            task_type: Literal["LLMJudge"] = "LLMJudge",
            **options: Unpack[TaskOptions],
        ) -> None: ...

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        """Refuse what says two things at once."""
        schema = self.prompt.output_type
        if self.rubric is not None:
            self._rubric_is_alone()
        if self.may_abstain and schema is not None and "properties" not in schema:
            raise ValueError("may_abstain: the prompt's output_type is no object that could say so")
        if self.swap is not None:
            if self.vote == "median":
                raise ValueError("swap: an outcome of two orders has no median; use vote: majority")
            missing = {self.swap.first, self.swap.second} - set(self.prompt.parameters)
            if missing:
                known = ", ".join(self.prompt.parameters) or "none"
                raise ValueError(
                    f"swap: the prompt has no variable {min(missing)!r}; its variables are {known}"
                )
        return self

    def _rubric_is_alone(self) -> None:
        ids = [each.id for each in self.rubric or ()]
        if len(set(ids)) < len(ids):
            raise ValueError("rubric: an id is there twice")
        if self.prompt.output_type is not None:
            raise ValueError("rubric: it makes the schema of the answer; leave output_type out")
        for name, given in (
            ("scale", self.scale is not None),
            ("may_abstain", self.may_abstain),
            ("swap", self.swap is not None),
        ):
            if given:
                raise ValueError(f"rubric: its criteria answer for themselves; leave {name} out")

    @property
    def judge_prompt(self) -> Prompt:
        """The prompt of the judge."""
        return self.prompt

    @property
    def most_questions(self) -> int:
        """The most questions to a judge for one record, without retries."""
        return self.samples * (1 if self.swap is None else 2)
