"""Metrics of an evaluation: names, tools, functions and judges, each a task of the run."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.agent import judges
from scouter.errors import ConfigError, DataError
from scouter.evaluate.engine.checks import GROUP, check_names
from scouter.evaluate.engine.function import score_key
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.judge.prompt_text import as_text
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.function import CodeTask, FunctionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.comparison import TrajectoryMetric, compare, uses_tool
from scouter.evaluate.trajectory.rules import TrajectoryRules
from scouter.formats.vertex.cases import PREDICTED
from scouter.formats.vertex.dataset import Row
from scouter.formats.vertex.responses import RESPONSE_METRICS, TextMetric, response_metric

_INSTRUCTION: Final = (
    "You are an expert evaluator. Judge what an agent did by the criteria below, and give it one "
    "of the scores of the rubric."
)
_STEPS: Final = {
    "1": "Hold what was done against each of the criteria.",
    "2": "Explain what speaks for it and what against it.",
    "3": "Choose the score of the rubric that fits best.",
}
SINGLE_TOOL_USE: Final = "trajectory_single_tool_use"
REFERENCE: Final = "reference_trajectory"
RESPONSE: Final = "response"

_VARIABLE: Final = re.compile(r"\{([_a-zA-Z][_a-zA-Z0-9]*)\}")
_MARK: Final = re.compile(rf"\$?{_VARIABLE.pattern}|\$\{{")
"""A variable, perhaps written as ours are, or what looks like the begin of one of ours."""
_ANSWER: Final = {
    "type": "object",
    "properties": {"score": {"type": "number"}, "explanation": {"type": "string"}},
    "required": ["explanation", "score"],
    "additionalProperties": False,
}
_JUDGES: Final[Mapping[str, Callable[[], LLMJudgeTask]]] = {
    "safety": lambda: judges.safety(question="prompt", answer=RESPONSE),
    "groundedness": lambda: judges.faithfulness(
        id="groundedness", sources="prompt", answer=RESPONSE
    ),
    "instruction_following": lambda: judges.completeness(
        id="instruction_following", question="prompt", answer=RESPONSE, reference="reference"
    ),
    "question_answering_quality": lambda: judges.relevance(
        id="question_answering_quality", question="prompt", answer=RESPONSE
    ),
}
"""Metrics of Google's models that a ready-made judge asks for here."""
_OWN_QUESTION: Final = (
    "coherence", "fluency", "verbosity", "text_quality", "summarization_quality",
    "multi_turn_chat_quality", "multi_turn_safety",
)  # fmt: skip
"""Metrics of Google's models that no ready-made judge asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseMetricPromptTemplate:
    """A judge's question in sections; `str` of it is the template.

    Args:
        criteria: The criteria, by name.
        rating_rubric: Meaning of each score.
        input_variables: Columns that the judge sees, such as `prompt` and `predicted_trajectory`.
        instruction: Role of the judge; a usual one by default.
        metric_definition: The metric in a sentence.
        evaluation_steps: Steps of the judge, by name; usual ones by default.
        few_shot_examples: Examples with their scores.
    """

    criteria: Mapping[str, str]
    rating_rubric: Mapping[str, str]
    input_variables: Sequence[str] = ("prompt",)
    instruction: str = _INSTRUCTION
    metric_definition: str | None = None
    evaluation_steps: Mapping[str, str] | None = None
    few_shot_examples: Sequence[str] = ()

    def __str__(self) -> str:
        return "\n\n".join(self._parts())

    @property
    def prompt_data(self) -> str:
        """The template."""
        return str(self)

    def _parts(self) -> Iterator[str]:
        yield f"# Instruction\n{self.instruction}"
        yield "# Evaluation"
        if self.metric_definition is not None:
            yield f"## Metric Definition\n{self.metric_definition}"
        yield f"## Criteria\n{_lines(self.criteria)}"
        yield f"## Rating Rubric\n{_lines(self.rating_rubric)}"
        steps = _STEPS if self.evaluation_steps is None else self.evaluation_steps
        yield f"## Evaluation Steps\n{_lines(steps)}"
        if self.few_shot_examples:
            examples = "\n\n".join(self.few_shot_examples)
            yield f"## Evaluation Examples\n{examples}"
        yield "# Inputs"
        for name in self.input_variables:
            yield f"## {name}\n{{{name}}}"


def _lines(parts: Mapping[str, str]) -> str:
    return "\n".join(f"{name}: {text}" for name, text in parts.items())


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
        return LLMJudgeTask(
            id=self.metric, prompt=prompt, context_path="score", operator="IsNumeric"
        )


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

_Task: TypeAlias = TrajectoryTask | FunctionTask | LLMJudgeTask | CodeTask


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMetric:
    """A metric with the task that scores a row by it."""

    name: str
    """Begins its columns."""
    task: _Task
    needs: Sequence[str] = ()
    """Columns without which it can score no row."""
    measure: Callable[[Row], object] | None = None
    """Scores a row without a judge."""
    explain: Callable[[Row], str] | None = None
    decides: bool = True
    """False where nobody said when a score is good enough, so that every score passes."""

    def at_least(self, least: float | None) -> "RowMetric":
        """Pass from a score on, where the metric itself does not say when it passes."""
        if least is None or (self.decides and isinstance(self.task, LLMJudgeTask)):
            return self
        return self._compared(ComparisonOperator.GreaterThanOrEqual, least)

    def undecided(self) -> "RowMetric":
        """Pass with every score, where something else decides."""
        return self._compared(ComparisonOperator.IsNumeric, None)

    def _compared(self, operator: ComparisonOperator, expected: float | None) -> "RowMetric":
        update = {"operator": operator, "expected_value": expected}
        return replace(self, task=self.task.model_copy(update=update))

    def of_case(self, least: float) -> FunctionTask:
        """Make the task that compares the mean over a case's rows.

        Args:
            least: The mean from which on a case passes.
        """
        measure = self.measure
        assert measure is not None  # noqa: S101 - criteria name metrics without a judge

        def mean(session: Mapping[str, Any]) -> float | None:
            found = [measure(each["context"]) for each in session["records"]]
            scores = [score for score in found if isinstance(score, int | float)]
            return fmean(scores) if scores else None

        return FunctionTask(
            f"mean of {self.name}", mean, scope="session", operator="GreaterThanOrEqual",
            expected_value=least,
        )  # fmt: skip

    def columns(self, result: EvalTaskResult, row: Row) -> Mapping[str, JsonValue]:
        """Give what a result says beside the score."""
        if self.explain is not None:
            return {"explanation": self.explain(row)}
        if isinstance(self.task, CodeTask):
            return {"explanation": result.message}
        exchange = result.exchange
        given = result.actual if exchange is None else exchange.answer
        if not isinstance(given, dict):
            return {}
        key = score_key(given, self.task.id) if exchange is None else "score"
        return {name: value for name, value in given.items() if name != key}


def read_metrics(metrics: Iterable[Metric], rules: TrajectoryRules) -> list[RowMetric]:
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
    names = [each.task.id for each in found]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"metrics: two are called {name!r}; give one of them another name")
    if not found:
        raise ConfigError("metrics: there are none")
    return found


def _read(metric: object, rules: TrajectoryRules, has_many_tools: bool) -> RowMetric:
    if isinstance(metric, str):
        return _by_name(metric, rules)
    if isinstance(metric, TrajectorySingleToolUse):
        many = f"{SINGLE_TOOL_USE}({metric.tool_name})"
        return _tool(many if has_many_tools else SINGLE_TOOL_USE, metric.tool_name, rules)
    if isinstance(metric, PointwiseMetric):
        needs = list(dict.fromkeys(_VARIABLE.findall(str(metric.metric_prompt_template))))
        return RowMetric(name=metric.metric, task=metric.task(), needs=needs, decides=False)
    if isinstance(metric, LLMJudgeTask):
        return RowMetric(name=metric.id, task=metric)
    if isinstance(metric, CustomMetric):
        return _function(metric.name, metric.metric_function)
    name = getattr(metric, "__name__", None)
    if callable(metric) and isinstance(name, str) and not isinstance(metric, type):
        return _function(name, cast("Callable[[Row], object]", metric))
    raise ConfigError(
        f"metrics: {metric!r} is none; expected a name, TrajectorySingleToolUse, CustomMetric, "
        "PointwiseMetric, LLMJudgeTask or a function with a name"
    )


def _by_name(name: str, rules: TrajectoryRules) -> RowMetric:
    if name in tuple(TrajectoryMetric):
        return _trajectory(name, rules)
    if name in RESPONSE_METRICS:
        return _response(name, response_metric(name))
    if name in _JUDGES:
        return RowMetric(name=name, task=_JUDGES[name](), needs=("prompt", RESPONSE))
    if name in check_names():
        return RowMetric(name=name, task=CodeTask(name, name))
    if name == SINGLE_TOOL_USE:
        raise ConfigError(f"metrics: {name!r} needs a tool: TrajectorySingleToolUse(tool_name=…)")
    if name in _OWN_QUESTION or name.startswith("pairwise_"):
        raise ConfigError(
            f"metrics: no ready-made judge asks for {name!r}; put the question yourself, with "
            f"PointwiseMetric({name!r}, template)"
        )
    known = ", ".join((*TrajectoryMetric, *RESPONSE_METRICS, *_JUDGES, *check_names()))
    raise ConfigError(
        f"metrics: no metric is called {name!r}; the names are {known}. A question to a model is a "
        "PointwiseMetric, and your own measure a function, or a check in Python of an installed "
        f"package (entry points {GROUP!r})"
    )


def _trajectory(name: str, rules: TrajectoryRules) -> RowMetric:
    def measure(row: Row) -> float | None:
        return compare(row[PREDICTED], row[REFERENCE], rules).score(name)

    task: _Task = FunctionTask(name, measure)
    if rules.empty != "skip":  # a task has a score or an error
        task = TrajectoryTask(name, name, REFERENCE, predicted=PREDICTED, rules=rules)
    return RowMetric(
        name=name, task=task, needs=(PREDICTED, REFERENCE), measure=measure,
        explain=lambda row: compare(row[PREDICTED], row[REFERENCE], rules).explain(),
    )  # fmt: skip


def _tool(name: str, tool: str, rules: TrajectoryRules) -> RowMetric:
    def measure(row: Row) -> float | None:
        return uses_tool(row[PREDICTED], tool, rules)

    task: _Task = FunctionTask(name, measure)
    if rules.empty == "score":  # the task's own metric scores empty trajectories, too
        task = TrajectoryTask(
            name, SINGLE_TOOL_USE, tool_name=tool, predicted=PREDICTED, rules=rules
        )
    return RowMetric(name=name, task=task, needs=(PREDICTED,), measure=measure)


def _response(name: str, text_metric: TextMetric) -> RowMetric:
    def measure(row: Row) -> float:
        return text_metric(_text(row, RESPONSE), _text(row, "reference"))

    found = _function(name, measure)
    return replace(found, needs=(RESPONSE, "reference"), measure=measure)


def _function(name: str, function: Callable[[Row], object]) -> RowMetric:
    task = FunctionTask(name, function, operator="IsNumeric")
    return RowMetric(name=name, task=task, decides=False)


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"{name}: expected a text, got {type(value).__name__}")
    return value
