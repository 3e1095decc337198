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
    doubting_work,
    on_spans,
)
from scouter.evaluate.engine.judge_task import compile_judge
from scouter.evaluate.engine.trajectory import compile_trajectory
from scouter.evaluate.operators.show import show, show_name
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.parse import parsed
from scouter.evaluate.responses.read import compile_reader
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.about import compile_find, compile_find_work
from scouter.evaluate.spans.filters import attribute_json, has_attribute
from scouter.evaluate.spans.measures import compile_measure
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import Tagged
from scouter.evaluate.tasks.function import CodeTask, FunctionTask, ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.task import Task, when_task
from scouter.evaluate.tasks.trace import (
    AttributeFilterAssertion,
    ModelCostAssertion,
    ModelTokensAssertion,
    MultiResponseMode,
    SpanAggregationAssertion,
    SpanCountAssertion,
    SpanExistsAssertion,
    TraceAssertionTask,
)
from scouter.evaluate.tasks.trajectory import TrajectoryTask

_OF_TRAJECTORY: Final = {"metric", "reference", "tool_name", "predicted", "rules"}
"""Fields of a trajectory task with a metric that say what it looks at."""
_OF_JUDGED: Final = {"reference", "predicted", "tool_schemas"}
"""Fields of a trajectory task with a judge that say what it looks at."""
_OF_JOURNEY: Final = {
    "dataset", "measure", "messages", "turns", "similarity_threshold", "enable_fuzzy_matching",
    "compat",
}  # fmt: skip
"""Fields of a journey task that say what it looks at."""
_OF_REPORT: Final = {"metrics", "reference", "report"}
"""Fields of a report task that say what it looks at."""
_OF_RELIABILITY: Final = {"expected_tool_calls", "order_matters", "exact_match", "predicted"}
"""Fields of a reliability task that say what it looks at."""
_OF_CODE: Final = {"check", "source"}
"""Fields of a code task that say what it looks at."""


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


def _compiled(task: Task, stage: int) -> CompiledTask | AskingTask:
    match task:
        case AssertionTask():
            return _assertion(task, stage)
        case LLMJudgeTask():
            return compile_judge(task, stage)
        case TraceAssertionTask():
            return _trace(task, stage)
        case AgentAssertionTask():
            return _agent(task, stage)
        case TrajectoryTask():
            return _trajectory(task, stage)
        case JourneyTask():
            from scouter.evaluate.engine.journey import compile_journey  # few need it

            wire = task.model_dump(mode="json", include=_OF_JOURNEY)
            return compile_journey(task, _subject(task, stage, wire, f"journey_{task.measure}"))
        case ReportTask():
            wire = task.model_dump(mode="json", include=_OF_REPORT)
            return _report(task, _subject(task, stage, wire, "report"))
        case ReliabilityTask():
            from scouter.evaluate.engine.trajectory import compile_reliability  # few need it

            wire = task.model_dump(mode="json", include=_OF_RELIABILITY)
            return compile_reliability(task, _subject(task, stage, wire, "reliability"))
        case CodeTask():
            from scouter.evaluate.engine.function import compile_code  # few need it

            wire = task.model_dump(mode="json", include=_OF_CODE)
            return compile_code(task, _subject(task, stage, wire, f"the check {task.check!r}"))
        case FunctionTask():
            from scouter.evaluate.engine.function import (
                AskingFunction,  # few need it
                compile_function,
            )

            wire = task.model_dump(mode="json", include={"function"})
            subject = _subject(task, stage, wire, task.id)
            return (compile_function if task.prompt is None else AskingFunction.of)(task, subject)


def _trajectory(task: TrajectoryTask, stage: int) -> CompiledTask | AskingTask:
    if task.judge_prompt is None:
        wire = task.model_dump(mode="json", include=_OF_TRAJECTORY)
        return compile_trajectory(task, _subject(task, stage, wire, f"trajectory_{task.metric}"))
    from scouter.evaluate.engine.judged_trajectory import compile_judged  # few need it

    return compile_judged(task, stage, task.model_dump(mode="json", include=_OF_JUDGED))


def _report(task: ReportTask, subject: Subject) -> CompiledTask | AskingTask:
    if task.prompt is None:
        from scouter.evaluate.engine.report import compile_report  # few need it

        return compile_report(task, subject)
    from scouter.evaluate.engine.report import JudgedReport  # few need it

    return JudgedReport.of(task, task.prompt, subject)


def _label(assertion: Tagged) -> str:
    """Kind and arguments, as a message begins: `ToolCalled(name="search")`."""
    arguments = assertion.to_wire()[assertion.kind]
    given = arguments if isinstance(arguments, dict) else {}
    shown = (f"{name}={show(value)}" for name, value in given.items() if value is not None)
    return f"{assertion.kind}({', '.join(shown)})"


def _subject(
    task: Task,
    stage: int,
    assertion: JsonValue,
    label: str,
    item: Callable[[JsonValue], JsonValue] | None = None,
) -> Subject:
    return Subject(
        task_id=task.id,
        task_type=task.task_type,
        operator=task.operator,
        expected=task.expected_value,
        condition=task.condition,
        stage=stage,
        assertion=assertion,
        label=label,
        item=item,
    )


def _assertion(task: AssertionTask, stage: int) -> CompiledTask:
    path = Path(task.context_path)
    item = None if task.item_context_path is None else Path(task.item_context_path).get
    label = repr(path.text) if path.text else "the whole context"
    get = path.get
    subject = _subject(task, stage, task.context_path, label, item)
    keys = path.plain_keys if item is None else None
    return compile_run(subject, lambda scope, _, __: get(scope), get, keys)


def _trace(task: TraceAssertionTask, stage: int) -> CompiledTask:
    assertion = task.assertion
    if isinstance(assertion, AttributeFilterAssertion):
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

    compiled = compile_run(_subject(task, stage, assertion.to_wire(), _label(assertion)), read)
    compiled = on_spans(compiled, task, compile_find(assertion))
    if isinstance(assertion, SpanAggregationAssertion | ModelTokensAssertion | ModelCostAssertion):
        return doubting_aggregate(compiled, task.operator, assertion)
    if isinstance(assertion, SpanCountAssertion | SpanExistsAssertion):
        return doubting_absence(compiled, task.operator, assertion)
    return compiled


def _attribute_filter(assertion: AttributeFilterAssertion) -> Callable[[SpanTree], JsonValue]:
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
    read: Read = compile_reader(task)
    compiled = compile_run(_subject(task, stage, assertion.to_wire(), _label(assertion)), read)
    if task.source == "spans":
        compiled = on_spans(compiled, task, compile_find_work(assertion))
    return doubting_work(compiled, task)
