"""The score and the reasoning in a judge's answer."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.judge.answer_text import NoJsonError, read_answer, under, without_thoughts
from scouter.evaluate.judge.port import JudgeError, JudgeReply
from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.rules import Compat

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
        message: A chat message: `content` (a text, or parts told again in `content_blocks`), and
            perhaps `reasoning_content`, of its own or in `additional_kwargs`.

    Raises:
        JudgeError: It has no content.
    """
    told = message if isinstance(message, dict) else {}
    more = told.get("additional_kwargs")
    reasoning = told.get("reasoning_content")
    if not reasoning and isinstance(more, dict):
        reasoning = more.get("reasoning_content")
    content = told.get("content")
    if isinstance(content, list):
        blocks = told.get("content_blocks") or content
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
    return _last_score(content), reasoning or _said_before(content)


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


def _said_before(content: str) -> str:
    """Give the text of an answer; empty where it is a score alone."""
    return "" if _SCORE.fullmatch(content) else content


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
