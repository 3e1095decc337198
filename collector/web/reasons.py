"""Messages of tasks as people read them: filters in words, units, patterns as they were written."""

import json
import re
from collections.abc import Mapping
from typing import Final

from scouter.evaluate.show.words import plain, selected

_OF_SPANS: Final = re.compile(r"(Span[A-Za-z]+)\(filter=(?=\{)")
_OF_TIME: Final = re.compile(r"((?:Span|Trace)Duration\()")
_NUMBER: Final = re.compile(r"( is |(?:Than|Equal|Equals) )(-?\d+(?:\.\d+)?)(?![\d.])")
_REGEX: Final = re.compile(r'( Matches(?:Regex)? )("(?:[^"\\]|\\.)*")')
_DECODER: Final = json.JSONDecoder()
_MEASURES: Final = {
    "SpanDuration": "Duration of", "SpanCount": "Number of", "SpanExists": "Existence of",
}  # fmt: skip
_CAUSES: Final[Mapping[str, str]] = {
    "missing_path": "a path leads nowhere in the record",
    "type": "a value has another type",
    "expected": "the expected value does not fit",
    "limit": "a value is too large",
    "no_spans": "there are no spans",
    "incomplete": "spans, or the end of a conversation, are missing",
    "not_told": "nobody reports the calls",
    "parse": "an answer has another form",
    "provider": "nobody answered for the judge",
    "refusal": "the judge declined",
    "abstained": "the judge cannot tell",
    "dependency": "a task before it errored",
    "check": "the check raised or took too long",
    "agent": "the agent raised",
    "user": "the simulated user raised or left its brief",
    "gate": "a gate before it did not pass",
    "sampled": "not among the sampled records",
    "budget": "the judges' budget is spent",
    "not_applicable": "the task is not about such records",
}


def cause(reason: str) -> str:
    """The reason of a result that did not decide, in words; one of a later kind as it is.

    Args:
        reason: `missing_path`.
    """
    return _CAUSES.get(reason, reason)


def reason(message: str) -> str:
    """A task's message for a reader.

    Args:
        message: `SpanDuration(filter={"ByName": {"name": "look"}}) is 250, expected LessThan 150`.

    Returns:
        `Duration of spans named “look” is 250 ms, expected LessThan 150 ms`; a message of another
        form as it is.
    """
    label, rest = _label(message)
    if _OF_TIME.match(message):
        rest = _NUMBER.sub(r"\1\2 ms", rest)
    return label + _REGEX.sub(lambda found: found[1] + _as_written(found[2]), rest)


def _label(message: str) -> tuple[str, str]:
    """The words for a measure on spans, and what the message says of it."""
    found = _OF_SPANS.match(message)
    if found is None:
        return "", message
    try:
        given, end = _DECODER.raw_decode(message, found.end())
        spans = f"spans {plain(selected(given))}"
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):  # it was cut
        return "", message
    if message[end : end + 1] == ")" and found[1] in _MEASURES:
        return f"{_MEASURES[found[1]]} {spans}", message[end + 1 :]
    return f"{found[1]}({spans}", message[end:]


def _as_written(text: str) -> str:
    """A pattern without the escapes of JSON."""
    try:
        return f"/{json.loads(text)}/"
    except ValueError:
        return text
