"""QATask and AccuracyTask: judge tasks whose question is known, so that nobody writes a prompt."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Unpack, cast

from pydantic import JsonValue, model_validator

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.base import ScoredOptions
from scouter.evaluate.tasks.judge import SCORED_ANSWER, LLMJudgeTask, take_short

QA_CRITERIA: Final = """\
Ask yourself: Does the agent's answer state the same facts? Does it have everything that the right \
answer has? Does it mean the same, whatever the words? Numbers of things count exactly, times may \
be 5 seconds off, and yes or no has to be the same.
"""
_ASKED: Final = """\
Judge the answer of an AI agent to a question by the right answer.

Question:
${{{question}}}

Answer of the agent:
${{{answer}}}

Right answer:
${{{ground_truth}}}

"""
_QA: Final = f"""\
{QA_CRITERIA}
Answer with a JSON object. "reasoning" are your steps; "score" is 1 for right and complete, 0 for \
wrong or no answer, and a number between them for a part.
"""
_ACCURACY: Final = """\
Judge its facts, and ignore style.

Answer with a JSON object. "reasoning" are the steps that led to the score; "score" is a number \
from 1 (wrong) to 10 (has all that is expected, and nothing wrong); "is_met" is true if the answer \
has what is expected; "critique" is one piece of advice that would improve the answer.
"""


_PATHS: Final = ("question", "answer", "ground_truth")
_ACCURACY_ANSWER: Final[Mapping[str, JsonValue]] = {
    "type": "object",
    "properties": {
        "reasoning": {"type": "string"},
        "score": {"type": "number"},
        "is_met": {"type": "boolean"},
        "critique": {"type": "string"},
    },
    "required": ["reasoning", "score", "is_met", "critique"],
}


class _JudgedAnswer(LLMJudgeTask):
    """A judge task that makes its prompt of a model and the paths of what is judged."""

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "model", "provider")
    SHORT: ClassVar[tuple[str, ...]] = ("model", "provider", *_PATHS)
    FORM: ClassVar[str] = ""
    SCHEMA: ClassVar[Mapping[str, JsonValue]] = {}
    USUAL: ClassVar[Mapping[str, object]] = {}
    """Fields with another default than those of judge tasks."""

    @model_validator(mode="before")
    @classmethod
    def _make_prompt(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        fields = {**cls.USUAL, **cast("Mapping[str, object]", data)}
        fields, given = take_short(cls, fields, "prompt")
        if given:
            paths = {name: given.pop(name, name) for name in _PATHS}
            text = _ASKED.format(**paths) + cls.FORM
            fields["prompt"] = Prompt(
                text, given["model"], given["provider"], output_type=cls.SCHEMA
            )
        elif fields.get("prompt") is None:
            raise ValueError("expected model and provider, both texts, or a prompt")
        return fields


class QATask(_JudgedAnswer):
    """Ask a judge how right an answer is, from 0 to 1, by the right answer in the record.

    Everything that an `LLMJudgeTask` takes can be given, too.

    Args:
        id: Unique inside one profile; lower-cased.
        model: The judge's model.
        provider: The name of a provider entry.
        question: Path of the question in the record.
        answer: Path of the agent's answer.
        ground_truth: Path of the right answer.
        operator: The comparison of the score; `Equals` if not given.
        expected_value: With what; 1 if not given.
    """

    FORM: ClassVar[str] = _QA
    SCHEMA: ClassVar[Mapping[str, JsonValue]] = SCORED_ANSWER
    USUAL: ClassVar[Mapping[str, object]] = {
        "context_path": "score", "scale": (0, 1), "operator": "Equals", "expected_value": 1,
    }  # fmt: skip

    task_type: Literal["QA"] = "QA"  # pyright: ignore[reportIncompatibleVariableOverride] - its own kind

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            model: str | None = None,
            provider: str | None = None,
            *,
            question: str = "question",
            answer: str = "answer",
            ground_truth: str = "ground_truth",
            prompt: Prompt | None = None,
            max_retries: int | None = None,
            samples: int = 1,
            sample_rate: float = 1.0,
            task_type: Literal["QA"] = "QA",
            **options: Unpack[ScoredOptions],
        ) -> None: ...


class AccuracyTask(_JudgedAnswer):
    """Ask a judge how accurate an answer is, from 1 to 10, by the expected one in the record.

    Everything that an `LLMJudgeTask` takes can be given, too.

    Args:
        id: Unique inside one profile; lower-cased.
        model: The judge's model.
        provider: The name of a provider entry.
        question: Path of the question in the record.
        answer: Path of the agent's answer.
        ground_truth: Path of the expected answer.
        operator: The comparison of the score; `GreaterThanOrEqual` if not given.
        expected_value: With what; 8 if not given.
    """

    FORM: ClassVar[str] = _ACCURACY
    SCHEMA: ClassVar[Mapping[str, JsonValue]] = _ACCURACY_ANSWER
    USUAL: ClassVar[Mapping[str, object]] = {
        "context_path": "score", "scale": (1, 10), "operator": "GreaterThanOrEqual",
        "expected_value": 8,
    }  # fmt: skip

    task_type: Literal["Accuracy"] = "Accuracy"  # pyright: ignore[reportIncompatibleVariableOverride] - its own kind

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            model: str | None = None,
            provider: str | None = None,
            *,
            question: str = "question",
            answer: str = "answer",
            ground_truth: str = "ground_truth",
            prompt: Prompt | None = None,
            max_retries: int | None = None,
            samples: int = 1,
            sample_rate: float = 1.0,
            task_type: Literal["Accuracy"] = "Accuracy",
            **options: Unpack[ScoredOptions],
        ) -> None: ...
