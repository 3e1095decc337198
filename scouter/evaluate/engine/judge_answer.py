"""A judge's answers, parsed by their schema, and what many of them amount to."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import Final, TypeAlias, TypeGuard, cast

from pydantic import JsonValue

from scouter.evaluate.judge.answer_text import read_answer, without_thoughts
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeUsage, sum_of
from scouter.evaluate.judge.shorten import shorten
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import DECIDED, Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.results.task_result import EvalTaskResult, as_score
from scouter.evaluate.tasks.judge import (
    CANNOT_TELL,
    NO,
    YES,
    Criterion,
    LLMJudgeTask,
    Marks,
    rubric_note,
    rubric_schema,
)
from scouter.model.json_value import plain_texts

Check: TypeAlias = Callable[[JsonValue], str]
"""Function from a judge's answer to its fault in words, "" for none; raises `TaskFault`."""

ABSTAIN: Final = "abstain"
"""Name of the field by which an answer says that it is none."""

MAX_SHOWN_CHARS: Final = 2_000
"""Characters of an answer, and of a reason, that a result's message keeps."""

_ABSTAIN_NOTE: Final = (
    'Where what you are given does not let you tell, do not guess: answer "abstain": true, and '
    'say why under "reason".'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """Form of the answers to a judge task: its schema, its description and its reader."""

    schema: dict[str, JsonValue] | None
    """JSON schema that is sent with the question; None leaves the form of the answer free."""
    notes: tuple[str, ...]
    """Instructions on the form of the answer, in words, that the judge receives."""
    path: Path
    """Path to the compared value inside the answer."""
    is_structured: bool
    """True if a text has to be read as JSON: there is a schema, or a path into the answer."""
    abstains: bool
    """True if the judge may abstain."""
    check: Check | None
    scale: tuple[float, float] | None
    rubric: tuple[Criterion, ...] | None

    def read(self, reply: JudgeReply | JudgeError) -> JsonValue:
        """Take the answer out of a reply.

        Returns:
            The answer; with a rubric, `Marks.summary` of it.

        Raises:
            TaskFault: There is none, it is not of the wanted form, or it abstains.
        """
        if isinstance(reply, JudgeError):
            raise TaskFault(reply.reason, reply.message)
        answer = plain_texts(reply.response)
        if isinstance(answer, str):
            try:
                answer = plain_texts(self._of_text(answer))
            except JudgeError as error:
                raise TaskFault(error.reason, error.message) from error
        if self.abstains and _is_abstention(answer):
            raise TaskFault(Reason.ABSTAINED, f"the judge abstained: {_why(answer)}")
        problem = "" if self.check is None else self.check(answer)
        if problem:
            raise TaskFault(
                Reason.PARSE,
                f"the judge's answer is not of the wanted form: {problem}; it is {show(answer)}",
            )
        return answer if self.rubric is None else self._marks(answer).summary()

    def _of_text(self, text: str) -> JsonValue:
        """Read a text: as JSON where structure is wanted, or where it abstains."""
        if self.is_structured:
            return read_answer(text, self._decisive)
        if self.abstains:
            with suppress(JudgeError):
                found = read_answer(text, _abstention)
                if _is_abstention(found):
                    return found
        return without_thoughts(text)[1]

    def _decisive(self, answer: JsonValue) -> Sequence[JsonValue]:
        """What of a JSON value decides; nothing of one that is no answer to this task."""
        if self.abstains and _is_abstention(answer):
            return _abstention(answer)
        if self.rubric is not None:
            marks = answer if isinstance(answer, dict) else {}
            found = [marks.get(each.id) for each in self.rubric]
            answers = [each.get("verdict") if isinstance(each, dict) else None for each in found]
            return answers if any(each.id in marks for each in self.rubric) else ()
        if not self.path.text:
            return () if self.check is not None and self.check(answer) else (answer,)
        try:
            return (self.path.get(answer),)
        except TaskFault:
            return ()

    def value(self, answer: JsonValue) -> JsonValue:
        """Take the value that is compared out of an answer.

        Raises:
            TaskFault: It is not there, or beyond the scale.
        """
        found = self.path.get(answer)
        if self.scale is not None:
            least, most = self.scale
            if not is_number(found) or not least <= found <= most:
                raise TaskFault(
                    Reason.PARSE,
                    f"the judge's answer is beyond its scale: {_named(self.path)} is a number "
                    f"from {least:g} to {most:g}, the judge answered {show(found)}",
                )
        return found

    def bounds(self, answer: JsonValue) -> tuple[JsonValue, JsonValue] | None:
        """Say between what a value lies where the judge could not tell some criteria.

        Returns:
            The value if all of those failed, and if all were met; None where there are none.
        """
        if self.rubric is None or not isinstance(answer, dict) or not answer["unclear"]:
            return None
        marks = self._marks(answer["criteria"])
        return self.path.get(marks.summary(NO)), self.path.get(marks.summary(YES))

    def score(self, answer: JsonValue) -> float | None:
        """The part of the rubric's weights that is met, whatever of it the task compares.

        Criteria that the judge could not tell are not met. None without a rubric: then the score
        is what the task compares.
        """
        if self.rubric is None or not isinstance(answer, dict):
            return None
        return as_score(answer["score"])

    def unmet(self, answer: JsonValue) -> str:
        """Name the criteria that are not met, and why; "" without a rubric, or where all are."""
        if self.rubric is None or not isinstance(answer, dict):
            return ""
        marks = self._marks(answer["criteria"])
        failed, unclear = marks.criteria_of(NO), marks.criteria_of(CANNOT_TELL)
        parts = [f"not met: {failed}"] if failed else []
        reported = "; ".join(parts + ([f"cannot tell: {unclear}"] if unclear else []))
        return shorten(reported, MAX_SHOWN_CHARS)

    def _marks(self, answer: JsonValue) -> Marks:
        return Marks(self.rubric or (), cast("dict[str, dict[str, str]]", answer))


def is_number(value: JsonValue) -> TypeGuard[int | float]:
    """Tell whether a value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def answer_form(task: LLMJudgeTask) -> AnswerForm:
    """Work out what a task's answers have to look like.

    Raises:
        ConfigError: A path or the schema of the answer can never work.
    """
    path = Path(task.context_path)
    given = task.prompt.output_type if task.rubric is None else rubric_schema(task.rubric)
    offered = given is not None and _offers_abstaining(given)
    schema = checked = given
    notes: list[str] = []
    if task.rubric is not None:
        notes.append(rubric_note(task.rubric))
    if task.scale is not None:
        schema = checked = _with_scale(schema, path, task.scale)
        least, most = task.scale
        notes.append(f"{_named(path)} is a number from {least:g} to {most:g}, and no other.")
    if task.may_abstain:
        if schema is not None and not offered:
            # Required in what is sent, as strict structured output wants it; a model that was
            # only described in words may leave it out.
            checked = _with_abstaining(schema, is_required=False)
            schema = _with_abstaining(schema, is_required=True)
        notes.append(_ABSTAIN_NOTE)
    return AnswerForm(
        schema=schema,
        notes=tuple(notes),
        path=path,
        is_structured=bool(path.text) or (schema is not None and not _wants_text(schema)),
        abstains=task.may_abstain or offered,
        check=None if checked is None else _compile_check(checked),
        scale=task.scale,
        rubric=task.rubric,
    )


def _named(path: Path) -> str:
    return f'"{path.text}" of the answer' if path.text else "The answer"


def _wants_text(schema: dict[str, JsonValue]) -> bool:
    return schema.get("type") == "string"


def _properties(schema: JsonValue) -> dict[str, JsonValue]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _offers_abstaining(schema: dict[str, JsonValue]) -> bool:
    field = _properties(schema).get(ABSTAIN)
    return isinstance(field, dict) and field.get("type") == "boolean"


def _with_abstaining(schema: dict[str, JsonValue], *, is_required: bool) -> dict[str, JsonValue]:
    field: JsonValue = {
        "type": "boolean",
        "description": "True where what is given does not let you tell; the rest does not count.",
    }
    wider: dict[str, JsonValue] = {
        **schema,
        "properties": {**_properties(schema), ABSTAIN: field},
    }
    if is_required:
        required = schema.get("required")
        wider["required"] = [*(required if isinstance(required, list) else []), ABSTAIN]
    return wider


def _with_scale(
    schema: dict[str, JsonValue] | None, path: Path, scale: tuple[float, float]
) -> dict[str, JsonValue] | None:
    """Say the scale in the schema too, where the path is the name of one of its fields."""
    properties = _properties(schema)
    field = properties.get(path.text)
    if schema is None or not isinstance(field, dict) or "$ref" in field:
        return schema
    least, most = (int(bound) if bound.is_integer() else bound for bound in scale)
    bounded: JsonValue = {**field, "minimum": least, "maximum": most}
    return {**schema, "properties": {**properties, path.text: bounded}}


def _abstention(answer: JsonValue) -> Sequence[JsonValue]:
    return (ABSTAIN,) if _is_abstention(answer) else ()


def _is_abstention(answer: JsonValue) -> bool:
    return isinstance(answer, dict) and answer.get(ABSTAIN) is True


def _why(answer: JsonValue) -> str:
    why = answer.get("reason") if isinstance(answer, dict) else None
    return why[:MAX_SHOWN_CHARS] if isinstance(why, str) and why else "it gives no reason"


def _compile_check(schema: dict[str, JsonValue]) -> Check:
    # Loaded here, as it takes a tenth of a second and only answers with a schema need it.
    from scouter.evaluate.schema.schema import compile_schema

    return compile_schema(schema, "prompt.output_type").explain


@dataclass(frozen=True, slots=True)
class Vote:
    """Vote of one sample of a judge task."""

    result: EvalTaskResult
    """Errored where the sample has no vote."""
    answer: JsonValue
    """The judge's whole answer, for dependent tasks."""


def majority_of(samples: int) -> int:
    """The least number of votes that is more than half."""
    return samples // 2 + 1


def still_needed(votes: Sequence[Vote], samples: int) -> int:
    """Count the samples that must still be called for at once for a majority.

    Returns:
        As many as would decide if they agreed with those in front; 0 where the majority is
        there, or can no more be reached.
    """
    lead = max(count(votes, Outcome.PASSED), count(votes, Outcome.FAILED))
    needed = majority_of(samples) - lead
    return needed if 0 < needed <= samples - len(votes) else 0


def count(votes: Sequence[Vote], outcome: Outcome) -> int:
    """Count the votes for an outcome."""
    return sum(vote.result.outcome is outcome for vote in votes)


def winner(votes: Sequence[Vote], samples: int) -> Vote:
    """Find the first vote for the outcome that more than half of all samples have.

    Raises:
        TaskFault: There is none. `ABSTAINED` for a tie; where samples errored, the reason that
            most of them have.
    """
    for outcome in (Outcome.PASSED, Outcome.FAILED):
        if count(votes, outcome) >= majority_of(samples):
            return next(vote for vote in votes if vote.result.outcome is outcome)
    raise _undecided(votes, f"no majority in {samples} samples: {tally(votes)}")


def middle(votes: Sequence[Vote], samples: int) -> tuple[float, Vote]:
    """Find the median of what the votes compared, and the first vote that is nearest to it.

    Raises:
        TaskFault: Fewer than a majority of the samples have a value; or one is no number.
    """
    valid = [vote for vote in votes if vote.result.outcome is not Outcome.ERRORED]
    numbers: list[float] = []
    for vote in valid:
        value = vote.result.actual
        if not is_number(value):
            raise TaskFault(Reason.TYPE, f"the median is of numbers, a sample has {value!r:.100}")
        numbers.append(value)
    if len(numbers) < majority_of(samples):
        raise _undecided(votes, f"{len(numbers)} of {samples} samples have a number")
    found = median(numbers)
    nearest = min(range(len(numbers)), key=lambda at: abs(numbers[at] - found))
    return found, valid[nearest]


def _undecided(votes: Sequence[Vote], text: str) -> TaskFault:
    errored = [vote.result for vote in votes if vote.result.outcome is Outcome.ERRORED]
    if not errored:
        return TaskFault(Reason.ABSTAINED, f"{text}; a tie is no outcome")
    reasons = Counter(str(result.reason) for result in errored)
    reason = Reason(reasons.most_common(1)[0][0])
    first = next(result for result in errored if result.reason is reason)
    return TaskFault(reason, f"{text}; {first.message}")


def tally(votes: Sequence[Vote]) -> str:
    """Say how the votes are spread: `2 passed, 1 failed`."""
    counts = ((count(votes, outcome), outcome) for outcome in DECIDED)
    return ", ".join(f"{number} {outcome}" for number, outcome in counts if number)


def usage_of(replies: Sequence[JudgeReply | JudgeError]) -> JudgeUsage | None:
    """Add up what replies tell of what they took.

    Returns:
        None where no judge was called and nothing was there.
    """
    total = sum_of(reply.taken for reply in replies)
    return total if total.calls or total.cached else None
