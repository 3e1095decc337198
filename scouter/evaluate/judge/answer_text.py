"""The answer in a model's text: what it says behind its thoughts, and the JSON in that.

An agent's answer may hold a verdict, and a judge may quote it. So the last complete JSON value with
a verdict counts only where no other one contradicts it, and none inside of a malformed object.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.files.json_text import STRICT, JsonFault, load_strictly, parse
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.operators.show import show
from scouter.evaluate.outcome import Reason

DecisiveOf: TypeAlias = Callable[[JsonValue], Sequence[JsonValue]]
"""Takes out of a value what of it decides; empty for a value that holds no verdict."""

_TAG: Final = r"(?:\w{1,16}:)?(?:think(?:ing)?|thoughts?|reasoning|scratchpad)"
_THOUGHT_END: Final = re.compile(
    rf"</{_TAG}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|channel\|>final<\|message\|>",
    re.IGNORECASE,
)
_THOUGHT: Final = re.compile(
    rf"(?:\A|\n)[ \t`]{{0,16}}(?:<{_TAG}(?:\s[^<>]{{0,80}})?>|\[THINK\]|◁think▷"
    r"|<\|begin_of_thought\|>|<\|channel\|>analysis<\|message\|>)",
    re.IGNORECASE,
)
"""Begins a thought where it begins a line; models write of such marks within one.

Source: the chat templates of DeepSeek, Qwen, Mistral, Kimi, Seed, OpenThinker and gpt-oss.
"""
_FENCE: Final = "```"
_LANGUAGE: Final = re.compile(r"[A-Za-z]\w*(?=[\s\[{\"])")
"""Behind a fence; it ends in front of the JSON."""
_SPACE: Final = " \t\r\n\ufeff"
"""White space that may stand around JSON, and a byte order mark, which some servers write."""
_BRACKET: Final = re.compile(r"[{}\[]")
_LIKE_OBJECT: Final = re.compile(r"\{\s*([\"'])")
_MOST_FAULTS: Final = 1_000
"""Of JSON in one text; the place of each is looked for from its beginning."""


class NoJsonError(JudgeError):
    """A text holds no complete JSON value that stands in no malformed one."""


def without_thoughts(text: str) -> tuple[str, str]:
    """Part a text behind the last mark that ends a thought, whether one begins it or not.

    Returns:
        The thought, "" where there is none, and what is said.

    Raises:
        JudgeError: `PARSE`: the thought does not end, or nothing is said behind it.
    """
    ends = [found.end() for found in _THOUGHT_END.finditer(text)]
    end = ends[-1] if ends else 0
    said = text[end:].strip(_SPACE)
    if opened := _THOUGHT.search(said.partition("{")[0]):
        shown = show(said[opened.start() :].strip())
        raise JudgeError(Reason.PARSE, f"the model's thought does not end: {shown}")
    if ends and not said:
        raise JudgeError(Reason.PARSE, "the model says nothing behind its thought")
    thought = _THOUGHT_END.sub("", _THOUGHT.sub("", text[:end], 1))
    return thought.strip(), said


def read_answer(text: str, decisive_of: DecisiveOf) -> JsonValue:
    """Read the JSON of an answer, with prose around it or not, between fences or not.

    Args:
        text: As the model wrote it.
        decisive_of: Tells verdicts from other JSON, and one verdict from another.

    Returns:
        The last value with a verdict; without one, the last value.

    Raises:
        JudgeError: `PARSE`: there is no complete JSON value, two verdicts differ, or a malformed
            object holds or follows them.

    Cost: linear.
    """
    values, malformed = _values_in(text)
    reported = [(decisive_of(value), value, end) for value, end in values]
    reported = [each for each in reported if each[0]]
    for decisive, value, _ in reported:
        if decisive != reported[-1][0]:
            raise JudgeError(
                Reason.PARSE,
                "the judge's answer holds verdicts that differ, so that nobody knows which counts: "
                f"{show(value)} and {show(reported[-1][1])}",
            )
    if reported and reported[-1][2] < malformed:
        text = f"the judge's answer has a malformed object behind its verdict: {show(text)}"
        raise JudgeError(Reason.PARSE, text)
    if not values:
        raise _no_json(text)
    return reported[-1][1] if reported else values[-1][0]


def under(name: str) -> DecisiveOf:
    """The verdicts that objects have under a key; they decide as a whole."""

    def found(value: JsonValue) -> Sequence[JsonValue]:
        return (value[name],) if isinstance(value, dict) and name in value else ()

    return found


def only_value(text: str) -> JsonValue:
    """The JSON of an answer if there is one value alone, else the text, for who knows verdicts.

    Raises:
        JudgeError: `PARSE`: there is no complete JSON value.
    """
    values, malformed = _values_in(text)
    if not values:
        raise _no_json(text)
    return values[0][0] if len(values) == 1 and malformed < 0 else text


def _no_json(text: str) -> NoJsonError:
    return NoJsonError(Reason.PARSE, f"the judge's answer is no JSON: {show(text)}")


def _unclear(problem: str, text: str) -> JudgeError:
    return JudgeError(Reason.PARSE, f"the judge's answer: {problem}: {show(text)}")


def _values_in(text: str) -> tuple[list[tuple[JsonValue, int]], int]:
    """Find the complete JSON values of a text that stand in no other.

    Returns:
        Each value and its end: one of any kind if it is all that is said, else objects and lists.
        And the place of the last malformed object, -1 for none.
    """
    try:
        return [(load_strictly(text.strip(_SPACE)), len(text))], -1
    except (ValueError, RecursionError):
        _, said = without_thoughts(text)
    whole, inside = said, said.strip("`")
    if said.startswith(_FENCE) and said.endswith(_FENCE) and _FENCE not in inside:
        language = _LANGUAGE.match(inside)
        whole = inside[language.end() if language else 0 :].strip(_SPACE)
    try:
        return [(parse(whole), len(said))], -1
    except JsonFault as fault:
        if not isinstance(fault.__cause__, json.JSONDecodeError):
            raise _unclear(fault.problem, said) from fault
    return _scan(said)


def _scan(said: str) -> tuple[list[tuple[JsonValue, int]], int]:
    found: list[tuple[JsonValue, int, int]] = []
    """Value, end, and how many malformed objects are open around it."""
    is_object: list[bool] = []
    """Of each open brace that opens no JSON: whether it is that of a malformed object."""
    at, depth, malformed, faults = 0, 0, -1, 0
    while bracket := _BRACKET.search(said, at):
        start, at = bracket.start(), bracket.end()
        like = _LIKE_OBJECT.match(said, start)
        if bracket[0] == "}":
            if not is_object:  # it closes what looked like text, with all that was found
                found.clear()
                malformed = start
                continue
            depth -= is_object.pop()
            while found and found[-1][2] > depth:
                found.pop()
            continue
        if bracket[0] == "[" or (like and like[1] == '"'):
            try:
                value, at = STRICT.raw_decode(said, start)
                found.append((value, at, depth))
                continue
            except json.JSONDecodeError as error:
                # What was read up to the fault belongs to the value that is at fault.
                at, faults = max(at, error.pos), faults + 1
            except (ValueError, RecursionError) as error:
                raise _unclear(str(error), said) from error
            if faults > _MOST_FAULTS:
                raise _unclear("more malformed JSON than anybody reads", said)
        if bracket[0] == "{":
            is_object.append(like is not None)
            if like:
                depth, malformed = depth + 1, start
    return [(value, end) for value, end, _ in found], malformed
