"""Metrics of the fields of a report, and the tree that says how each is scored."""

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, Self, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from scouter.errors import ConfigError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.patterns import compile_pattern

Compat: TypeAlias = Literal["sound", "vss", "nat-1.9"]
"""`sound` is right and documented. `nat-1.9` reads datasets and takes means as NeMo Agent Toolkit
1.9 does, and `vss` scores as the evaluators of VSS on it do as well."""

COMPATS: Final = ("sound", "vss", "nat-1.9")


def check_compat(compat: str) -> None:
    """Refuse a profile that there is not.

    Raises:
        ConfigError: Names those there are.
    """
    if compat not in COMPATS:
        raise ConfigError(f"compat {compat!r}: expected one of {', '.join(COMPATS)}")


def mean_score(scores: Iterable[object], compat: Compat) -> float | None:
    """The mean of the scores that there are.

    Args:
        scores: Of all items; None for one without a score.
        compat: In `sound` a number that is not finite counts as no score, and the mean is exact.
            The others round to two decimals, and one NaN makes the mean NaN.

    Returns:
        None where no item has a score.
    """
    numbers = [float(score) for score in scores if isinstance(score, int | float)]
    if compat == "sound":
        numbers = [score for score in numbers if math.isfinite(score)]
        return fmean(numbers) if numbers else None
    return round(sum(numbers) / len(numbers), 2) if numbers else None


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


AVERAGE: Final = "average"
JUDGE: Final = "llm_judge"
_KNOWN: Final = (*sorted(METRICS), AVERAGE, JUDGE)


class FieldConfig(BaseModel):
    """One section or field.

    Args:
        method: `exact_match`, `f1`, `regex`, `non_empty`, `llm_judge`, or `average` of the fields
            inside; without one the judge compares the whole.
        fields: Those inside, by name.
        allow_dynamic_field_discovery: Whether fields of the report that are not listed are judged
            as well: the judge finds their counterparts.
        recall_penalty: Whether a reference's field that no discovered field matches counts 0 in
            the average.

    Raises:
        pydantic.ValidationError: There is no such key, or nothing to take the average of.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str | None = None
    fields: "dict[str, FieldConfig] | None" = Field(default=None)
    allow_dynamic_field_discovery: bool = False
    recall_penalty: bool = False

    @model_validator(mode="before")
    @classmethod
    def _has_fields(cls, data: object) -> object:
        if isinstance(data, Mapping):
            given = cast("Mapping[str, object]", data)
            if "fields" in given and not given["fields"]:
                raise ValueError("If 'fields' is specified, it must contain at least one field.")
        return cast("object", data)

    @model_validator(mode="after")
    def _averages_something(self) -> Self:
        if self.method == AVERAGE and not (self.fields or self.allow_dynamic_field_discovery):
            raise ValueError(
                "method 'average' needs 'fields', or allow_dynamic_field_discovery: true"
            )
        return self

    def nodes(self) -> "Iterator[FieldConfig]":
        """This node and all below it."""
        yield self
        for field in (self.fields or {}).values():
            yield from field.nodes()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """The whole tree, under the name of its root."""

    root_key: str
    root: FieldConfig

    @staticmethod
    def of(data: object, compat: Compat = "sound") -> "MetricsConfig":
        """Read the tree from plain data.

        Raises:
            ConfigError: There is not exactly one root, or no such method.
            pydantic.ValidationError: A node is wrong.
        """
        given = dict(cast("Mapping[str, object]", data)) if isinstance(data, Mapping) else {}
        if len(given) != 1:
            raise ConfigError(
                f"Config must have exactly one root key, found {len(given)}: {list(given)}"
            )
        [(root_key, node)] = given.items()
        found = MetricsConfig(root_key=root_key, root=FieldConfig.model_validate(node))
        unknown = [name for name in found.methods(compat) if name not in _KNOWN]
        if unknown and compat == "sound":
            raise ConfigError(f"method {unknown[0]!r}: expected one of {', '.join(_KNOWN)}")
        return found

    @staticmethod
    def from_file(path: str | Path, compat: Compat = "sound") -> "MetricsConfig":
        """Read the tree from a YAML or JSON file.

        Raises:
            FileFormatError: Names file, line and field.
        """
        document = read_document(path)
        try:
            return MetricsConfig.of(document.value, compat)
        except ValidationError as error:
            root = next(iter(cast("dict[str, object]", document.value)))
            raise document.wrap(error, (root,), FieldConfig) from error
        except ConfigError as error:
            raise document.error(str(error)) from error

    def methods(self, compat: Compat = "sound") -> list[str]:
        """The metrics that have to be there, sorted.

        In `sound` those that will be used; the originals want a judge wherever an average is
        taken.
        """
        found = set[str]()
        for node in self.root.nodes():
            asks = node.method is None or node.allow_dynamic_field_discovery
            if asks or (node.method == AVERAGE and compat != "sound"):
                found.add(JUDGE)
            if node.method is not None and node.method != AVERAGE:
                found.add(node.method)
        return sorted(found)
