"""A judge who compares fields of reports."""

import json
import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from scouter.evaluate.judge.answer_text import read_answer
from scouter.evaluate.judge.asked_judge import AskedJudge
from scouter.evaluate.judge.form import fill_form
from scouter.evaluate.judge.port import JudgeError, JudgeReply
from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.rules import Compat
from scouter.evaluate.report.score_text import read_message, read_score

T = TypeVar("T")

SINGLE_FORM: Final = """\
Compare a value of a generated report with the reference.{field_context}

Reference:
{reference}

Generated:
{actual}

Say how far the generated value means the same as the reference: 1 for the same, 0 for something \
else or nothing, a number between them for a part. Wording and order do not count; numbers, names, \
dates and colors do. End with the number alone on the last line.
"""
DISCOVERY_FORM: Final = """\
A section of a generated report has fields whose names may differ from those of the reference. For \
each generated field find the reference field that is about the same thing, and say how far the \
two mean the same.

Reference section:
{reference_section}

Generated fields:
{actual_fields}

Answer with one JSON object. It has each generated field's name as a key, and as its value an \
object with "score" (0 to 1; 0 where nothing matches) and "reference_field" (the name of the \
matching reference field, or null).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Judge's score of one discovered field, from 0 to 1, and the matching reference field."""

    score: float
    reference_field: str | None


Matches: TypeAlias = dict[str, Match | None]
"""Matches by the field of the report; None where the judge gave no verdict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldJudge:
    """Scores by asking the fields that no metric can compare."""

    asked: AskedJudge
    single_form: str = SINGLE_FORM
    """Text of a question with the blanks `{reference}`, `{actual}` and `{field_context}`."""
    discovery_form: str | None = DISCOVERY_FORM
    """Text of a question with the blanks `{reference_section}` and `{actual_fields}`."""
    compat: Compat = "sound"

    async def gather(self, walks: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Wait for several fields at the same time."""
        return await self.asked.gather(walks)

    async def single(self, name: str, actual: JsonValue, reference: JsonValue) -> float:
        """Score one field or a whole section.

        Returns:
            From 0 to 1; in `vss` whatever number the judge wrote.

        Raises:
            JudgeError: The judge gave no score.
        """
        values = {"reference": _shown(reference), "actual": _shown(actual)}
        context = f"\n\nField being evaluated: {name}" if name else ""
        form = self.single_form.replace("{field_context}", context.replace("{", "{{"))
        messages = fill_form(form, values, fence=self.compat == "sound")
        return await self.asked.ask("report_field", messages, self._read_single)

    def _read_single(self, reply: JudgeReply) -> float:
        if self.compat != "vss":
            return read_score(reply, self.compat)[0]
        answer = reply.response
        content, _ = read_message({"content": answer} if isinstance(answer, str) else answer)
        try:
            return float(content)
        except ValueError as error:
            raise JudgeError(Reason.PARSE, str(error)) from error

    async def discover(
        self,
        reference: Mapping[str, JsonValue],
        actual: Mapping[str, JsonValue],
        fields: Sequence[str],
    ) -> Matches:
        """Score fields of which nobody said beforehand what they are, in one question.

        Args:
            reference: The section of the reference.
            actual: The section of the report.
            fields: Names of the fields to score.

        Returns:
            The usable scores of the judge; in `vss` also an answer without any.

        Raises:
            ValueError: There is no form for the question.
            JudgeError: The answer of the judge has no usable score.
        """
        if not fields:
            return {}
        if self.discovery_form is None:
            raise ValueError(
                "Cannot use evaluate_with_field_discovery: 'multi_field_discovery_prompt' is "
                "required when allow_dynamic_field_discovery is true"
            )
        values = {
            "reference_section": _shown(dict(reference)),
            "actual_fields": _shown({name: actual[name] for name in fields}),
        }
        messages = fill_form(self.discovery_form, values, fence=self.compat == "sound")
        best: Matches = dict.fromkeys(fields)

        def read(reply: JudgeReply) -> Matches:
            found = _matches(reply.response, fields)
            if self.compat == "sound":
                found = {name: _of_reference(each, reference) for name, each in found.items()}
            # Of answers that tell of some fields only, the one with most of them counts.
            if sum(map(bool, found.values())) > sum(map(bool, best.values())):
                best.update(found)
            missing = [name for name, each in found.items() if each is None]
            if missing and self.compat == "sound":
                raise JudgeError(Reason.PARSE, f"the judge has no verdict about {missing}")
            return found

        retries = None if self.compat == "sound" else 0
        try:
            return await self.asked.ask("report_fields", messages, read, _schema(fields), retries)
        except JudgeError:
            if self.compat != "vss" and not any(best.values()):
                raise
            return best


def _shown(value: JsonValue) -> str:
    """Write a value for a judge."""
    is_container = isinstance(value, dict | list)
    return json.dumps(value, indent=2, ensure_ascii=False) if is_container else as_text(value)


def _matches(answer: JsonValue, fields: Sequence[str]) -> Matches:
    if isinstance(answer, str):

        def scores(value: JsonValue) -> Sequence[JsonValue]:
            told = value if isinstance(value, dict) else {}
            found = [_match(told.get(name)) for name in fields]
            return [each and each.score for each in found] if any(found) else ()

        answer = read_answer(answer, scores)
    if not isinstance(answer, dict):
        raise JudgeError(Reason.PARSE, f"the judge's answer is no object: {answer!r}")
    told = cast("Mapping[str, JsonValue]", answer)
    return {name: _match(told.get(name)) for name in fields}


def _match(told: JsonValue) -> Match | None:
    score = told.get("score") if isinstance(told, dict) else None
    if not isinstance(told, dict) or isinstance(score, bool) or not isinstance(score, int | float):
        return None
    if not (math.isfinite(score) and 0 <= score <= 1):
        return None
    field = told.get("reference_field", told.get("reference"))
    return Match(score=float(score), reference_field=None if field is None else str(field))


def _of_reference(match: Match | None, reference: Mapping[str, JsonValue]) -> Match | None:
    """No verdict is a match with a field that the reference does not have."""
    if match is None or match.reference_field is None or match.reference_field in reference:
        return match
    return None


def _schema(fields: Sequence[str]) -> dict[str, JsonValue]:
    one: dict[str, JsonValue] = {
        "type": "object",
        "properties": {
            "score": {"type": "number", "minimum": 0, "maximum": 1},
            "reference_field": {"type": ["string", "null"]},
        },
        "required": ["score", "reference_field"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": dict.fromkeys(fields, one),
        "required": list[JsonValue](fields),
        "additionalProperties": False,
    }
