"""Rubrics: criteria that a judge answers one by one, each with a reason."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from scouter.evaluate.judge.shorten import shorten

YES, NO, CANNOT_TELL = "yes", "no", "cannot_tell"
REASON_TOLD: Final = 300
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
    tuple[Criterion, ...], BeforeValidator(_read), Field(min_length=1, max_length=50)
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

    def told(self, verdict: str) -> str:
        """Name the criteria that were answered so, with the reasons, of long ones both ends."""
        return "; ".join(
            f"{name} ({shorten(self.answer[name]['reason'], REASON_TOLD)})"
            for name in self.ids(verdict)
        )
