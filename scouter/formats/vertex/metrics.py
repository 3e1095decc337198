"""Metrics of an evaluation: names, tools, functions and judges, brought into one form."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.judge.prompt_text import as_text
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.trajectory.comparison import TrajectoryMetric, compare, uses_tool
from scouter.evaluate.trajectory.rules import TrajectoryRules
from scouter.formats.vertex.dataset import Row
from scouter.formats.vertex.responses import RESPONSE_METRICS, TextMetric, response_metric
from scouter.formats.vertex.template import PointwiseMetricPromptTemplate
from scouter.model.json_value import to_json_value

SINGLE_TOOL_USE: Final = "trajectory_single_tool_use"
PREDICTED, REFERENCE = "predicted_trajectory", "reference_trajectory"

_VARIABLE: Final = re.compile(r"\{([_a-zA-Z][_a-zA-Z0-9]*)\}")
_MARK: Final = re.compile(rf"\$?{_VARIABLE.pattern}|\$\{{")
"""A variable, perhaps written as ours are, or what looks like the begin of one of ours."""
_ANSWER: Final = {
    "type": "object",
    "properties": {"score": {"type": "number"}, "explanation": {"type": "string"}},
    "required": ["explanation", "score"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class TrajectorySingleToolUse:
    """1 if a tool was called, else 0.

    Args:
        tool_name: The tool's name.
    """

    tool_name: str


@dataclass(frozen=True, slots=True)
class CustomMetric:
    """A metric of the user's own.

    Args:
        name: Names its columns.
        metric_function: From a row (an object with the columns of the dataset and what the agent
            gave) to a number, or to an object with the number under the metric's name or
            `score`; its other keys become columns, too.
    """

    name: str
    metric_function: Callable[[Row], object]


@dataclass(frozen=True, slots=True)
class PointwiseMetric:
    """A question to a judge about each row.

    Args:
        metric: Names its columns.
        metric_prompt_template: The question, in one piece or in parts; `{name}` stands for the
            column of that name.
        system_instruction: The first words to the judge.
        model: The judge's model.
        provider: Provider of the model: its name, or an entry of the settings.
    """

    metric: str
    metric_prompt_template: str | PointwiseMetricPromptTemplate
    system_instruction: str | None = None
    model: str = "gpt-4o-mini"
    provider: str = "openai"

    def task(self) -> LLMJudgeTask:
        """Make the engine's task for the metric.

        Raises:
            pydantic.ValidationError: The template or the metric's name is none.
        """
        prompt = Prompt(
            messages=template_of(str(self.metric_prompt_template)),
            model=self.model,
            provider=self.provider,
            system_instructions=self.system_instruction,
            output_type=_ANSWER,
        )
        return LLMJudgeTask(id=self.metric, prompt=prompt, operator="IsNotEmpty")


def template_of(text: str) -> str:
    """Write a template with `{name}` as one of ours, with `${name}`."""
    return _MARK.sub(lambda found: f"${{{found[1]}}}" if found[1] else "$${", text)


def fill_template(text: str, row: Row) -> str:
    """Put a row's columns in for the `{name}` of a template.

    Raises:
        ConfigError: The row has no such column; names those it has.
    """

    def value(found: re.Match[str]) -> str:
        if found[1] not in row:
            raise ConfigError(
                f"prompt_template: no column {found[1]!r}; there are {', '.join(row)}"
            )
        return as_text(row[found[1]])

    return _VARIABLE.sub(value, text)


Metric: TypeAlias = (
    str
    | TrajectorySingleToolUse
    | CustomMetric
    | PointwiseMetric
    | LLMJudgeTask
    | Callable[[Row], object]
)
"""All forms that a metric may have in a list of metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """Score of one metric for one row, or the reason why there is none."""

    score: float | None = None
    """None where there is no score; that is not 0."""
    columns: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Further columns of the metric, such as an `explanation`."""
    error: str = ""
    """Reason why there is no score; empty where none was wanted."""


class RowMetric(Protocol):
    """A metric that scores one row without asking anybody."""

    @property
    def name(self) -> str:
        """Name of the metric, with which its columns begin."""
        ...

    @property
    def needs(self) -> Sequence[str]:
        """Columns without which it can score no row."""
        ...

    def score(self, row: Row) -> Scored:
        """Score a row; a fault may be raised."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeMetric:
    """A metric that asks a judge; the engine does."""

    name: str
    needs: Sequence[str]
    task: LLMJudgeTask


@dataclass(frozen=True, slots=True)
class _Trajectory:
    name: str
    rules: TrajectoryRules
    needs: Sequence[str] = (PREDICTED, REFERENCE)

    def score(self, row: Row) -> Scored:
        found = compare(row[PREDICTED], row[REFERENCE], self.rules)
        return Scored(score=found.score(self.name), columns={"explanation": found.explain()})


@dataclass(frozen=True, slots=True)
class _Tool:
    name: str
    tool_name: str
    rules: TrajectoryRules
    needs: Sequence[str] = (PREDICTED,)

    def score(self, row: Row) -> Scored:
        return Scored(score=uses_tool(row[PREDICTED], self.tool_name, self.rules))


@dataclass(frozen=True, slots=True)
class _Response:
    name: str
    measure: TextMetric
    needs: Sequence[str] = ("response", "reference")

    def score(self, row: Row) -> Scored:
        response, reference = (_text(row, name) for name in self.needs)
        return Scored(score=self.measure(response, reference))


@dataclass(frozen=True, slots=True)
class _Custom:
    name: str
    function: Callable[[Row], object]
    needs: Sequence[str] = ()

    def score(self, row: Row) -> Scored:
        found = to_json_value(self.function(dict(row)))
        if not isinstance(found, dict):
            return Scored(score=_number(found, "it"))
        key = self.name if self.name in found else "score"
        if key not in found:
            raise DataError(f"it gave the keys {', '.join(found)}; expected {self.name!r}")
        rest = {name: value for name, value in found.items() if name != key}
        return Scored(score=_number(found[key], repr(key)), columns=rest)


def _text(row: Row, name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise DataError(f"{name}: expected a text, got {type(value).__name__}")
    return value


def _number(value: JsonValue, what: str) -> float | None:
    if value is None:
        return None
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise DataError(f"{what} is no number but {type(value).__name__}")
    return float(value)


def read_metrics(
    metrics: Iterable[Metric], rules: TrajectoryRules
) -> list[RowMetric | JudgeMetric]:
    """Bring the metrics of a list into one form.

    Args:
        metrics: In the order of their columns.
        rules: Rules for comparing trajectories.

    Raises:
        ConfigError: Something that is no metric, an unknown name (says which there are), two
            metrics of one name, a library that is missing, or no metric at all.
    """
    given = list(metrics)
    tools = sum(isinstance(each, TrajectorySingleToolUse) for each in given)
    found = [_read(each, rules, has_many_tools=tools > 1) for each in given]
    names = [each.name.lower() for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"metrics: two are called {name!r}; give one of them another name")
    if not found:
        raise ConfigError("metrics: there are none")
    return found


def _read(metric: object, rules: TrajectoryRules, has_many_tools: bool) -> RowMetric | JudgeMetric:
    if isinstance(metric, str):
        return _by_name(metric, rules)
    if isinstance(metric, TrajectorySingleToolUse):
        many = f"{SINGLE_TOOL_USE}({metric.tool_name})"
        return _Tool(many if has_many_tools else SINGLE_TOOL_USE, metric.tool_name, rules)
    if isinstance(metric, PointwiseMetric):
        needs = list(dict.fromkeys(_VARIABLE.findall(str(metric.metric_prompt_template))))
        return JudgeMetric(metric.metric, needs, metric.task())
    if isinstance(metric, LLMJudgeTask):
        return JudgeMetric(metric.id, (), metric)
    if isinstance(metric, CustomMetric):
        return _Custom(metric.name, metric.metric_function)
    name = getattr(metric, "__name__", None)
    if callable(metric) and isinstance(name, str) and not isinstance(metric, type):
        return _Custom(name, cast("Callable[[Row], object]", metric))
    raise ConfigError(
        f"metrics: {metric!r} is none; expected a name, TrajectorySingleToolUse, CustomMetric, "
        "PointwiseMetric, LLMJudgeTask or a function with a name"
    )


def _by_name(name: str, rules: TrajectoryRules) -> RowMetric:
    if name in tuple(TrajectoryMetric):
        return _Trajectory(name, rules)
    if name in RESPONSE_METRICS:
        return _Response(name, response_metric(name))
    if name == SINGLE_TOOL_USE:
        raise ConfigError(f"metrics: {name!r} needs a tool: TrajectorySingleToolUse(tool_name=…)")
    known = ", ".join((*TrajectoryMetric, *RESPONSE_METRICS))
    raise ConfigError(
        f"metrics: no metric is called {name!r}; the names are {known}. A question to a model is a "
        "PointwiseMetric"
    )
