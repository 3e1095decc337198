"""The checks on a stranger's tasks: names that they use, and their cost together."""

import re
from collections.abc import Mapping
from dataclasses import fields
from math import isfinite
from typing import Final, cast

from pydantic import JsonValue

from scouter.drift.watch import Watch
from scouter.drift.wire_limits import WireLimits, schema_parts
from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.tasks.agent import AgentAssertionTask, ResponseFieldAssertion
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import ScoredTask
from scouter.evaluate.tasks.function import CodeTask, FunctionTask, ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask, rubric_schema
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.score import ScoreTask
from scouter.evaluate.tasks.span_filter import ByNamePatternFilter, SpanFilter
from scouter.evaluate.tasks.task import Task, when_task
from scouter.evaluate.tasks.trace import AttributeFilterAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.evaluate.trajectory.call import read_reference

_MODEL: Final = re.compile(r"(?!.*(?://|\.\.))[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
"""A model's name: no address and no place in a file system."""
_WORD: Final = re.compile(r"[A-Za-z_]{1,40}")

_NUMBER, _FLAG, _TERM, _STOPS, _GROUP = "a number", "true or false", "a word", "texts", "an object"
_TOKENS: Final = "a number of tokens"
_SETTINGS: Final = {
    **dict.fromkeys(
        (
            "temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed",
        ),
        _NUMBER,
    ),
    **dict.fromkeys(
        (
            "max_tokens", "max_completion_tokens", "max_output_tokens", "budget_tokens",
            "thinking_budget",
        ),
        _TOKENS,
    ),
    "include_thoughts": _FLAG,
    **dict.fromkeys(("reasoning_effort", "verbosity", "thinking_level", "type"), _TERM),
    **dict.fromkeys(("stop", "stop_sequences"), _STOPS),
    **dict.fromkeys(("generation_config", "thinking", "thinking_config"), _GROUP),
}  # fmt: skip
"""Settings of a model that a stranger may choose: they change how it answers and nothing else."""


class WireProfileError(ConfigError):
    """A profile from the network is refused.

    Args:
        problem: The fault, and a right form.
        task_id: The task that it is about, where there is one.
        field: Dotted path of the field, inside the task where there is one.
    """

    def __init__(self, problem: str, task_id: str = "", field: str = "") -> None:
        super().__init__(problem, task_id, field)
        self.problem, self.task_id, self.field = problem, task_id, field

    def __str__(self) -> str:
        task = f"task {self.task_id!r}" if self.task_id else ""
        field = f"field {self.field!r}" if self.field else ""
        where = ", ".join(part for part in (task, field) if part)
        return f"{where}: {self.problem}" if where else self.problem


class TaskCosts:
    """Adds up what tasks cost, and refuses the one that goes beyond a limit.

    Args:
        limits: The limits of all tasks together.
    """

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._used = {field.name: 0 for field in fields(limits)}
        self._task_id = ""

    def add_task(self, task_id: str) -> None:
        """Count a task that has not been read yet.

        Raises:
            WireProfileError: There are too many.
        """
        self._task_id = task_id
        if not task_id.isprintable():
            raise WireProfileError("an id has no control characters", task_id, "id")
        self._spend("tasks", 1, "")

    def add(self, task: Task) -> None:
        """Look at everything that a task names, and count what it costs.

        Raises:
            WireProfileError: It names what no stranger may, or costs too much.
        """
        self._add(task, "")

    def _add(self, task: Task, inside: str) -> None:
        self._expected(task, inside)
        self._when(task, inside)
        if not isinstance(task, TraceAssertionTask | ScoredTask | ScoreTask):
            self._path(f"{inside}context_path", task.context_path)
        match task:
            case AssertionTask():
                self._path(f"{inside}item_context_path", task.item_context_path)
            case LLMJudgeTask():
                self._judge(task)
            case AgentAssertionTask():
                if isinstance(task.assertion, ResponseFieldAssertion):
                    self._path(f"{inside}assertion.ResponseField.path", task.assertion.path)
            case TraceAssertionTask():
                self._trace(task)
            case TrajectoryTask():
                self._trajectory(task)
            case JourneyTask():
                self._journey(task)
            case ReportTask():
                self._report(task)
            case ReliabilityTask():
                self._path("predicted", task.predicted)
                names = len(task.expected_tool_calls)
                self._spend("reference_calls", names, "expected_tool_calls")
            case CodeTask() | FunctionTask() | ScoreTask():
                pass  # a check, a number and labels by name; a function is refused where it is read

    def _when(self, task: Task, inside: str) -> None:
        if task.when is not None:
            self._spend("tasks", 1, "when")
            self._add(when_task(task.when), f"{inside}when.")

    def _trajectory(self, task: TrajectoryTask) -> None:
        self._path("predicted", task.predicted)
        if isinstance(task.tool_schemas, str):
            self._path("tool_schemas", task.tool_schemas)
        for name, prompt in task.prompts.items():
            self._prompt(prompt, name)
        calls = task.most_questions * (1 + task.max_retries)
        self._spend("judge_calls", calls, "max_retries")
        rules = task.rules
        for where, each in (("rules.arguments", rules.arguments), *rules.tools.items()):
            for key, rule in each.keys.items():
                if rule.pattern is not None:
                    self._pattern(f"{where}.keys.{key}"[:200], rule.pattern)
        if not isinstance(task.reference, list):
            self._path("reference", task.reference)
            return
        calls = read_reference(task.reference, "reference")
        self._spend("reference_calls", len(calls), "reference")
        if task.judge_prompt is not None:
            return
        is_paired = rules.partial_credit or rules.compat == "agentevals-0.0.9"
        assigned = sum(is_paired or not rules.of(call.name).are_exact for call in calls)
        self._spend("assigned_calls", assigned, "reference")

    def _journey(self, task: JourneyTask) -> None:
        self._path("messages", task.messages)
        self._path("turns", task.turns)
        self._spend("journey_goals", len(task.case.goals), "dataset.goal_details")
        if task.judge_prompt is not None:
            self._prompt(task.judge_prompt, "model")
        calls = task.most_questions * (1 + task.max_retries)
        self._spend("judge_calls", calls, "max_questions")

    def _report(self, task: ReportTask) -> None:
        self._path("report", task.report)
        if isinstance(task.reference, str):
            self._path("reference", task.reference)
        self._spend("report_fields", sum(1 for _ in task.tree.root.nodes()), "metrics")
        for where, pattern in task.patterns():
            self._pattern(f"reference.{where}"[:200], pattern)
        if task.prompt is not None:
            self._prompt(task.prompt)
            self._spend("judge_calls", task.most_questions * (1 + task.max_retries), "max_retries")

    def _trace(self, task: TraceAssertionTask) -> None:
        assertion = task.assertion
        where = f"assertion.{assertion.kind}"
        if isinstance(assertion, AttributeFilterAssertion):
            self._spend("tasks", 1, where)
            inner = assertion.task.task
            self._add(inner, f"{where}.task.{inner.task_type}.")
        found = getattr(assertion, "filter", None)
        if isinstance(found, SpanFilter):
            self._filter(f"{where}.filter", found)

    def add_watch(self, watch: Watch) -> None:
        """Count what it costs to look for the traces of a watch.

        Raises:
            WireProfileError: It costs too much.
        """
        self._task_id = ""
        if watch.match.span_filter is not None:
            self._filter("watch.match", watch.match.span_filter)

    def _filter(self, where: str, filter: SpanFilter) -> None:
        waiting = [filter]
        while waiting:
            each = waiting.pop()
            self._spend("filters", 1, where)
            waiting += each.inner()
            if isinstance(each, ByNamePatternFilter):
                self._pattern(where, each.pattern)

    def _expected(self, task: Task, inside: str) -> None:
        where, expected = f"{inside}expected_value", task.expected_value
        if task.operator in (Op.Matches, Op.MatchesRegex) and isinstance(expected, str):
            self._pattern(where, expected)
        elif task.operator is Op.MatchesJsonSchema:
            self._schema(where, expected)

    def _path(self, field: str, path: str | None) -> None:
        if path is not None and path.startswith("$"):
            self._spend("json_paths", 1, field)

    def _pattern(self, field: str, pattern: str) -> None:
        limits = self._limits
        self._spend("patterns", 1, field)
        if len(pattern) > limits.pattern_characters:
            raise self._refused(
                field, f"a pattern has at most {limits.pattern_characters:,} characters"
            )
        try:
            size = compile_pattern(pattern).size
        except ConfigError as error:
            raise self._refused(field, str(error)) from error
        if size > limits.pattern_instructions:
            raise self._refused(
                field,
                f"the pattern becomes {size:,} instructions, at most "
                f"{limits.pattern_instructions:,} are taken; use smaller counts in {{…}}",
            )

    def _schema(self, field: str, schema: JsonValue) -> None:
        self._spend("schemas", 1, field)
        keywords, patterns = schema_parts(schema)
        self._spend("schema_keywords", keywords, field)
        for pattern in patterns:
            self._pattern(field, pattern)

    # --- judges -----------------------------------------------------------------------------

    def _judge(self, task: LLMJudgeTask) -> None:
        self._prompt(task.prompt)
        self._path("reference", task.reference)
        if task.rubric is not None:
            self._schema("rubric", rubric_schema(task.rubric))
            size = sum(len(each.text) for each in task.rubric)
            self._spend("prompts_characters", size, "rubric")
        self._spend("judge_calls", task.most_questions * (1 + task.max_retries), "max_retries")

    def _prompt(self, prompt: Prompt, where: str = "prompt") -> None:
        if not _MODEL.fullmatch(prompt.model):
            raise self._refused(
                f"{where}.model", "a model's name, such as gpt-4o-mini; no address and no path"
            )
        self._settings(f"{where}.model_settings", prompt.model_settings or {})
        if prompt.output_type is not None:
            self._schema(f"{where}.output_type", prompt.output_type)
        size = sum(len(each.content) for each in prompt.all_messages)
        self._spend("prompts_characters", size, f"{where}.messages")

    def _settings(self, where: str, settings: Mapping[str, JsonValue]) -> None:
        for name, value in settings.items():
            wanted = _SETTINGS.get(_snake(name))
            if wanted is None:
                raise self._refused(
                    f"{where}.{name[:100]}",
                    "not taken from the network: addresses, keys, headers, tools and whatever else "
                    "goes to a provider stand in the collector's own settings, under the "
                    f"provider's name; taken are {', '.join(sorted(_SETTINGS))}",
                )
            if value is None:
                continue
            if not _fits(value, wanted):
                raise self._refused(f"{where}.{name}", f"expected {wanted}")
            most = self._limits.answer_tokens
            if wanted == _TOKENS and cast("float", value) > most:
                raise self._refused(f"{where}.{name}", f"expected at most {most:,} tokens")
            if wanted == _GROUP:
                self._settings(f"{where}.{name}", cast("Mapping[str, JsonValue]", value))

    # --- inside -----------------------------------------------------------------------------

    def _spend(self, limit: str, count: int, field: str) -> None:
        self._used[limit] += count
        most = getattr(self._limits, limit)
        if self._used[limit] > most:
            what = limit.replace("_", " ")
            raise self._refused(field, f"a profile has at most {most:,} {what}, all tasks together")

    def _refused(self, field: str, problem: str) -> WireProfileError:
        return WireProfileError(problem, self._task_id, field)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name[:100]).lower()


def _fits(value: JsonValue, wanted: str) -> bool:
    match wanted:
        case "a number" | "a number of tokens":
            return isinstance(value, int | float) and not isinstance(value, bool) and _finite(value)
        case "true or false":
            return isinstance(value, bool)
        case "a word":
            return isinstance(value, str) and _WORD.fullmatch(value) is not None
        case "texts":
            texts = value if isinstance(value, list) else [value]
            return len(texts) <= 8 and all(isinstance(t, str) and len(t) <= 256 for t in texts)
        case _:
            return isinstance(value, dict)


def _finite(value: float) -> bool:
    return abs(value) <= 2**63 and isfinite(value)
