"""Functions that tasks are compiled to, for each kind of task."""

from collections.abc import Callable
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.asking_task import AskingTask, conditional
from scouter.evaluate.engine.compiled_task import CompiledTask, Read, Subject, compile_run
from scouter.evaluate.engine.doubt import (
    doubting_absence,
    doubting_aggregate,
    doubting_masks,
    doubting_work,
    on_spans,
)
from scouter.evaluate.engine.judge_task import compile_judge
from scouter.evaluate.engine.trajectory import compile_reliability, compile_trajectory
from scouter.evaluate.operators.show import show, show_name
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.parse import parsed
from scouter.evaluate.responses.read import compile_reader
from scouter.evaluate.responses.sources import compile_sourced
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.about import compile_find, compile_find_work
from scouter.evaluate.spans.filters import attribute_json, has_attribute
from scouter.evaluate.spans.measures import compile_measure
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks import trace
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import Tagged
from scouter.evaluate.tasks.function import CodeTask, FunctionTask, ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.score import ScoreTask
from scouter.evaluate.tasks.task import Task, when_task
from scouter.evaluate.tasks.trace import MultiResponseMode, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask

_LOOKS_AT: Final[dict[str, set[str]]] = {
    "Trajectory": {"metric", "reference", "tool_name", "predicted", "rules"},
    "Journey": {
        "dataset", "measure", "messages", "turns", "similarity_threshold", "enable_fuzzy_matching",
        "compat",
    },
    "Report": {"metrics", "reference", "report"},
    "Reliability": {"expected_tool_calls", "order_matters", "exact_match", "predicted"},
    "Code": {"check", "source"},
    "Function": {"function"},
}  # fmt: skip
"""Fields that say what a task looks at, by the type of the task."""
_OF_JUDGED: Final = {"reference", "predicted", "tool_schemas"}
"""The same of a trajectory task with a judge."""


def compile_task(task: Task, stage: int) -> CompiledTask | AskingTask:
    """Turn a task into a function from record to result; a judge task into its two halves.

    Raises:
        ConfigError: The task can never work; names it.
    """
    try:
        compiled = _compiled(task, stage)
        if task.when is None:
            return compiled
        holds = compile_task(when_task(task.when), stage)
        return conditional(compiled, holds.run, task.expected_value)
    except ConfigError as error:
        if str(error).startswith(f"task {task.id!r}"):
            raise
        raise ConfigError(f"task {task.id!r}: {error}") from error


def _compiled(task: Task, stage: int) -> CompiledTask | AskingTask:  # noqa: C901 a case for each kind
    """Modules that few tasks need are imported with the first of these."""
    match task:
        case AssertionTask():
            return _assertion(task, stage)
        case LLMJudgeTask():
            return compile_judge(task, stage)
        case TraceAssertionTask():
            return _trace(task, stage)
        case AgentAssertionTask():
            return _agent(task, stage)
        case TrajectoryTask() if task.judge_prompt is None:
            return compile_trajectory(task, _measured(task, stage, f"trajectory_{task.metric}"))
        case TrajectoryTask():
            from scouter.evaluate.engine.judged_trajectory import compile_judged

            return compile_judged(task, stage, task.model_dump(mode="json", include=_OF_JUDGED))
        case JourneyTask():
            from scouter.evaluate.engine.journey import compile_journey

            return compile_journey(task, _measured(task, stage, f"journey_{task.measure}"))
        case ReportTask():
            from scouter.evaluate.engine.report import compile_report

            return compile_report(task, _measured(task, stage, "report"))
        case ReliabilityTask():
            return compile_reliability(task, _measured(task, stage, "reliability"))
        case CodeTask():
            from scouter.evaluate.engine.function import compile_code

            return compile_code(task, _measured(task, stage, f"the check {task.check!r}"))
        case FunctionTask():
            from scouter.evaluate.engine.function import compile_function

            return compile_function(task, _measured(task, stage, task.id))
        case ScoreTask():
            raise ConfigError("a score comes from outside; it stands beside tasks, not in them")


def _measured(task: Task, stage: int, label: str) -> Subject:
    wire = task.model_dump(mode="json", include=_LOOKS_AT[task.task_type])
    return Subject(task=task, stage=stage, assertion=wire, label=label)


def _of_assertion(task: Task, stage: int, assertion: Tagged) -> Subject:
    """Kind and arguments, as a message begins: `ToolCalled(name="search")`."""
    wire = assertion.to_wire()
    arguments = wire[assertion.kind]
    given = arguments if isinstance(arguments, dict) else {}
    shown = (f"{name}={show(value)}" for name, value in given.items() if value is not None)
    label = f"{assertion.kind}({', '.join(shown)})"
    return Subject(task=task, stage=stage, assertion=wire, label=label)


def _assertion(task: AssertionTask, stage: int) -> CompiledTask:
    path = Path(task.context_path)
    item = None if task.item_context_path is None else Path(task.item_context_path).get
    label = repr(path.text) if path.text else "the whole context"
    get = path.get
    subject = Subject(task=task, stage=stage, assertion=task.context_path, label=label, item=item)
    return compile_run(subject, lambda scope, _, __: get(scope))


def _trace(task: TraceAssertionTask, stage: int) -> CompiledTask:
    assertion = task.assertion
    if isinstance(assertion, trace.AttributeFilterAssertion):
        measure = _attribute_filter(assertion)
    else:
        measure = compile_measure(assertion)
    whose = "session's traces have" if task.scope == "session" else "record's trace has"

    def read(_: JsonValue, spans: SpanTree | None, __: JsonValue) -> JsonValue:
        if spans is not None and spans.unread:
            raise TaskFault(Reason.LIMIT, spans.unread)
        if spans is None or not spans.spans:
            raise TaskFault(
                Reason.NO_SPANS,
                f"the {whose} no spans here; record the work under a tracer, and give "
                "the record its trace id",
            )
        return measure(spans)

    compiled = compile_run(_of_assertion(task, stage, assertion), read)
    compiled = on_spans(compiled, task, compile_find(assertion))
    if isinstance(
        assertion,
        trace.SpanAggregationAssertion | trace.ModelTokensAssertion | trace.ModelCostAssertion,
    ):
        return doubting_aggregate(compiled, task.operator, assertion)
    if isinstance(assertion, trace.SpanCountAssertion | trace.SpanExistsAssertion):
        return doubting_absence(compiled, task.operator, assertion)
    if isinstance(assertion, trace.SpanAttributeAssertion | trace.TraceAttributeAssertion):
        return doubting_masks(compiled)
    return compiled


def _attribute_filter(assertion: trace.AttributeFilterAssertion) -> Callable[[SpanTree], JsonValue]:
    key, mode = assertion.key, assertion.mode
    if assertion.task.task.scope != "record":
        raise ConfigError("the task inside AttributeFilter judges attributes; it has no scope")
    run = compile_task(assertion.task.task, 0).run

    deciding = Outcome.PASSED if mode is MultiResponseMode.Any else Outcome.FAILED

    def measure(tree: SpanTree) -> JsonValue:
        """Any or all; an errored result decides nothing unless the others already decide."""
        found = [span.attributes[key] for span in tree.spans if has_attribute(span.attributes, key)]
        if not found:
            raise TaskFault(Reason.MISSING_PATH, f"no span has the attribute {show_name(key)}")
        fault: EvalTaskResult | None = None
        for attribute in found:
            value = parsed(attribute_json(attribute))
            result = run(value, tree, value)
            if result.outcome is deciding:
                return mode is MultiResponseMode.Any
            if fault is None and result.outcome is Outcome.ERRORED:
                fault = result
        if fault is not None:
            raise TaskFault(fault.reason or Reason.TYPE, fault.message)
        return mode is not MultiResponseMode.Any

    return measure


def _agent(task: AgentAssertionTask, stage: int) -> CompiledTask:
    assertion = task.assertion
    read: Read = compile_sourced(task) or compile_reader(task)
    compiled = compile_run(_of_assertion(task, stage, assertion), read)
    if task.source == "spans":
        compiled = on_spans(compiled, task, compile_find_work(assertion))
    return doubting_work(compiled, task)
