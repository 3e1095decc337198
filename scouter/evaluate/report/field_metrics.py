"""Metrics of one field: texts in, a score from 0 to 1 out."""

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.report.rules import Compat

Metric: TypeAlias = Callable[[Any, Any], float]
"""Function from the value in the report and the value in the reference to a score, 0 to 1."""

_SPACES: Final = re.compile(r"\s+")
_WORDS: Final = re.compile(r"\b\w+\b")


def exact_match(actual: str, reference: str) -> float:
    """1 where both are the same text but for the number of spaces between words, else 0."""
    return float(_plain(actual) == _plain(reference))


def f1(actual: str, reference: str) -> float:
    """The share of words that both have: harmonic mean of precision and recall over their sets.

    Case does not count, nor does how often a word stands there. Two empty texts score 1.
    """
    ours, theirs = set(_WORDS.findall(actual.lower())), set(_WORDS.findall(reference.lower()))
    if not ours and not theirs:
        return 1.0
    common = len(ours & theirs)
    return 2 * common / (len(ours) + len(theirs))


def regex(actual: str, reference: str) -> float:
    """1 where the whole text is what the pattern in the reference describes, else 0.

    Raises:
        ConfigError: The pattern is none, by RE2's syntax.
    """
    return float(compile_pattern(rf"\A(?:{reference})\z").found_in(actual))


def non_empty(actual: str, reference: str) -> float:
    """1 where the report says anything, else 0; the reference does not count."""
    return float(bool(actual and actual.strip()))


def _regex_of_python(actual: str, reference: str) -> float:
    try:
        return float(re.fullmatch(reference, actual) is not None)
    except re.error:
        return 0.0


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text.strip())


METRICS: Final[Mapping[str, Metric]] = {
    "exact_match": exact_match, "f1": f1, "non_empty": non_empty, "regex": regex,
}  # fmt: skip
"""Metrics that ask no judge, by name."""


def metric_of(name: str, compat: Compat) -> Metric:
    """The metric of a name, as a profile of compatibility has it."""
    return _regex_of_python if name == "regex" and compat == "vss" else METRICS[name]


def field_score(
    name: str, actual: JsonValue, reference: JsonValue, compat: Compat = "sound"
) -> float:
    """Score one field.

    Args:
        name: Of a metric.
        actual: The value in the report; None where it is missing.
        reference: The value in the reference; None where it is missing.
        compat: In `sound` lists and objects are compared as JSON. `vss` writes lists as Python
            does, puts environment variables into the reference, and can do nothing with objects.

    Raises:
        ConfigError: The reference is no pattern.
        AttributeError: An object, in `vss`.
        TypeError: The same, for a pattern.
    """
    metric = metric_of(name, compat)
    if compat != "vss":
        return metric(as_text(actual), as_text(reference))
    if isinstance(actual, dict) or isinstance(reference, dict):
        return metric(actual, reference)
    expanded = os.path.expandvars("" if reference is None else str(reference))
    return metric("" if actual is None else str(actual), expanded)


def as_text(value: JsonValue) -> str:
    """Write a field's value as metrics compare it."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, sort_keys=True) if value else ""
    return "" if value is None else str(value)
