"""A judge who compares fields of reports, and the score in its answer."""

import json
import math
import re
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from scouter.evaluate.judge.answer_text import NoJsonError, read_answer, under, without_thoughts
from scouter.evaluate.judge.ask import JudgeCaller
from scouter.evaluate.judge.port import JudgeError, JudgeReply
from scouter.evaluate.judge.render import fill_form
from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.field_metrics import Compat, as_text

_THINK: Final = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_FIRST: Final = re.compile(r"[0-9]+\.?[0-9]*")
_NUMBER: Final = r"(?>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"
"""Atomic, so that no part of a number is taken for one."""
_SCORE: Final = re.compile(
    rf"(?<![\w.])(?P<value>{_NUMBER})(?![\w%])(?:\s*(?:/|out\s+of)\s*(?P<whole>{_NUMBER}))?(?!\s*%)",
    re.IGNORECASE,
)
_SCALE: Final = re.compile(
    rf"(?:scale|range|between|from)\b[^.\n]{{0,20}}?{_NUMBER}\s*(?:to|and|-|–)\s*{_NUMBER}",
    re.IGNORECASE,
)
_LABEL: Final = re.compile(
    r"(?:score|rating|final|grade|verdict|result)\b[^\d.\n]{0,24}$", re.IGNORECASE
)


def read_message(message: JsonValue, compat: Compat = "vss") -> tuple[str, str]:
    """The content of a model's message, and its reasoning where it tells that apart.

    Args:
        compat: `vss` takes the first `<think>` with its end for the reasoning; `sound` all that
            stands before the last end of a thought.
        message: A chat message: `content` (a text, or parts repeated in `content_blocks`), and
            perhaps `reasoning_content`, of its own or in `additional_kwargs`.

    Raises:
        JudgeError: It has no content.
    """
    reported = message if isinstance(message, dict) else {}
    more = reported.get("additional_kwargs")
    reasoning = reported.get("reasoning_content")
    if not reasoning and isinstance(more, dict):
        reasoning = more.get("reasoning_content")
    content = reported.get("content")
    if isinstance(content, list):
        blocks = reported.get("content_blocks") or content
        content = "".join(_of_blocks(blocks, "text"))
        reasoning = reasoning or "".join(_of_blocks(blocks, "reasoning"))
    if isinstance(content, str) and compat == "sound":
        thought, content = without_thoughts(content)
        reasoning = reasoning or thought
    elif isinstance(content, str) and (think := _THINK.search(content)):
        reasoning = reasoning or think[1]
        content = _THINK.sub("", content)
    if not (isinstance(content, str) and content.strip()):
        text = f"No actual content found. Expected score. Full text: {message}"
        raise JudgeError(Reason.PARSE, text)
    return content.strip(), reasoning.strip() if isinstance(reasoning, str) else ""


def _of_blocks(blocks: JsonValue, kind: str) -> Iterator[str]:
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") == kind:
            yield str(block.get(kind) or "")


def read_score(reply: JudgeReply, compat: Compat = "sound") -> tuple[float, str]:
    """Read a judge's answer.

    Args:
        reply: A number, an object with `score` and `reasoning`, a text, or a chat message.
        compat: `vss` takes the first number of the text. `sound` takes a JSON object's `score`,
            else the number behind the last word like *score* or *final*, else the last line's,
            else the last number; a fraction counts only of 1.

    Returns:
        The score, from 0 to 1, and the reasoning ("" where there is none).

    Raises:
        JudgeError: There is no such number.
    """
    answer = reply.response
    if compat == "sound" and isinstance(answer, int | float):
        return _checked(answer, str(answer)), ""
    if compat == "sound" and isinstance(answer, dict) and "content" not in answer:
        return _of_object(answer)
    message: JsonValue = {"content": answer} if isinstance(answer, str) else answer
    content, reasoning = read_message(message, compat)
    if compat == "vss":
        return _first_number(content), reasoning
    found = _of_json(content)
    if found is not None:
        score, said = _of_object(found)
        return score, reasoning or said
    is_score_alone = _SCORE.fullmatch(content) is not None
    return _last_score(content), reasoning or ("" if is_score_alone else content)


def _first_number(content: str) -> float:
    found = _FIRST.search(content)
    if found is None:
        raise _no_score(content)
    value = float(found[0])
    if not 0 <= value <= 1:
        raise JudgeError(Reason.PARSE, f"Could not convert score to float: {found[0]}")
    return value


def _of_json(content: str) -> Mapping[str, JsonValue] | None:
    """The object with a score, if any; an answer that is an object alone has to have one."""
    has_score = under("score")
    try:
        value = read_answer(content, has_score)
    except NoJsonError:
        return None
    is_alone = content.startswith(("{", "```"))
    return value if isinstance(value, dict) and (is_alone or has_score(value)) else None


def _of_object(answer: Mapping[str, JsonValue]) -> tuple[float, str]:
    score = answer.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise _no_score(json.dumps(answer))
    reasoning = answer.get("reasoning") or answer.get("reason") or ""
    return _checked(score, json.dumps(answer)), str(reasoning)


def _last_score(content: str) -> float:
    text = _SCALE.sub(lambda found: " " * len(found[0]), content)
    found = list(_SCORE.finditer(text))
    labelled = [each for each in found if _LABEL.search(text[: each.start()])]
    last_line = text.rstrip().rpartition("\n")[2].strip(" *_`.")
    alone = [each for each in found if each[0] == last_line]
    chosen = (alone or labelled or found)[-1:]
    if not chosen:
        raise _no_score(content)
    whole = chosen[0]["whole"]
    if whole is not None and float(whole) != 1:
        raise _no_score(content)
    return _checked(float(chosen[0]["value"]), content)


def _checked(score: float, content: str) -> float:
    if not 0 <= score <= 1:
        raise _no_score(content)
    return float(score)


def _no_score(content: str) -> JudgeError:
    return JudgeError(
        Reason.PARSE,
        "Could not extract score from output. Expected a number between 0.0 and 1.0. Got: "
        f"{content[:300]}",
    )


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

    caller: JudgeCaller
    single_form: str = SINGLE_FORM
    """Text of a question with the blanks `{reference}`, `{actual}` and `{field_context}`."""
    discovery_form: str | None = DISCOVERY_FORM
    """Text of a question with the blanks `{reference_section}` and `{actual_fields}`."""
    compat: Compat = "sound"

    async def gather(self, walks: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Wait for several fields at the same time."""
        return await self.caller.gather(walks)

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
        return await self.caller.ask("report_field", messages, self._read_single)

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
            return await self.caller.ask("report_fields", messages, read, _schema(fields), retries)
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
            reported = value if isinstance(value, dict) else {}
            found = [_match(reported.get(name)) for name in fields]
            return [each and each.score for each in found] if any(found) else ()

        answer = read_answer(answer, scores)
    if not isinstance(answer, dict):
        raise JudgeError(Reason.PARSE, f"the judge's answer is no object: {answer!r}")
    reported = cast("Mapping[str, JsonValue]", answer)
    return {name: _match(reported.get(name)) for name in fields}


def _match(answer: JsonValue) -> Match | None:
    score = answer.get("score") if isinstance(answer, dict) else None
    if (
        not isinstance(answer, dict)
        or isinstance(score, bool)
        or not isinstance(score, int | float)
    ):
        return None
    if not (math.isfinite(score) and 0 <= score <= 1):
        return None
    field = answer.get("reference_field", answer.get("reference"))
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
