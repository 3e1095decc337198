"""Stored conversations, and the expected answers that their records and tasks state."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.errors import ScouterError
from scouter.evaluate.engine.plan import reads_spans
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import compile_template, has_template, template_paths
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.task import Task, when_task
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.agent_work import AgentWork, ToolCall
from scouter.model.genai.facts import Kind
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

_QUESTIONS: Final = (
    "input", "question", "query", "prompt", "user_input", "user_message", "user_query", "message",
    "messages",
)  # fmt: skip
"""Keys of a context under which agents store the question, the likeliest first."""
_MODELS: Final = frozenset({Kind.MODEL})
_AGENTS: Final = frozenset({Kind.AGENT, Kind.WORKFLOW})
_ANSWERS: Final = ("response", "answer", "output", "final_answer", "reply", "result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """One conversation up to the record in question."""

    questions: tuple[str, ...]
    """The user's messages, at least one."""
    answer: str | None
    """The agent's last words; None where its last message has none, or nothing has it."""
    tool_calls: tuple[ToolCall, ...]


def read_conversation(spans: Sequence[Span], context: JsonValue) -> Conversation | None:
    """Read a conversation.

    The spans are read first, as they are made by libraries that agree on the names; then the
    context, whose keys are the user's own.

    Args:
        spans: Of the record's trace, in time order; may be empty.
        context: Of the record; None where it is not known.

    Returns:
        None if nobody says what the user said.

    Cost: linear in the size of the messages.
    """
    questions = _questions_of_spans(spans) or questions_of_context(context)
    if not questions:
        return None
    work: AgentWork = agent_work(spans)
    is_known = work.content is not None or any(kind_of(span) is Kind.MODEL for span in spans)
    return Conversation(
        questions=tuple(questions),
        answer=work.content if is_known else _text_under(context, _ANSWERS),
        tool_calls=work.tool_calls,
    )


def _questions_of_spans(spans: Sequence[Span]) -> list[str]:
    """The user's messages as the model calls got them, or else the agents.

    The first model call is the agent's own. A later one goes on with that conversation if it
    begins with the same messages of the user; others are of agents inside of the agent.
    """
    return _questions_of_kinds(spans, _MODELS) or _questions_of_kinds(spans, _AGENTS)


def _questions_of_kinds(spans: Sequence[Span], kinds: Collection[Kind]) -> list[str]:
    questions: list[str] = []
    for span in spans:
        if kind_of(span) in kinds:
            said = _questions_of_messages(read_facts(span).input_messages or [])
            if said[: len(questions)] == questions:
                questions = said
    return questions


def questions_of_context(context: JsonValue) -> list[str]:
    """The user's messages under the usual names of a context; empty where it has none."""
    if not isinstance(context, Mapping):
        return []
    for name in _QUESTIONS:
        value = context.get(name)
        if isinstance(value, str) and value.strip():
            return [value]
        if isinstance(value, list) and (questions := _questions_of_messages(value)):
            return questions
    return []


def _questions_of_messages(messages: list[JsonValue]) -> list[str]:
    log = MessageLog()
    log.read(messages)
    return log.questions


def _text_under(context: JsonValue, names: Sequence[str]) -> str | None:
    if not isinstance(context, Mapping):
        return None
    texts = (context.get(name) for name in names)
    return next((text for text in texts if isinstance(text, str)), None)


RESPONSE = "response"
"""Name under which the tasks of a scenario find the agent's answer."""


def carry(
    tasks: Sequence[Task],
    wanted: Iterable[str],
    context: JsonValue,
    answer: str | None,
) -> list[Task]:
    """Choose the tasks that mean the same in a scenario as in the profile, and adapt them.

    A scenario's tasks read the spans and the agent's answer, not the context of a record. So a
    task on spans is taken as it is. A task that reads the answer from the context gets the path of
    the answer in a scenario. A template is replaced by its value in the record, unless that is the
    answer. Every other task is left to the profile, and so is any task that depends on it.

    Args:
        tasks: Tasks of the profile.
        wanted: Ids of the tasks to take; their dependencies come along.
        context: Context of the record.
        answer: Answer of the agent.

    Returns:
        The tasks, in the profile's order.
    """
    by_id = {task.id: task for task in tasks}
    adapted: dict[str, Task | None] = {}

    def adapt(task_id: str) -> Task | None:
        if task_id not in adapted:
            task = by_id.get(task_id)
            is_whole = task is not None and all(adapt(name) for name in task.depends_on)
            done = _adapt(task, context, answer) if task else None
            adapted[task_id] = done if is_whole else None
        return adapted[task_id]

    taken: set[str] = set()

    def take(task: Task) -> None:
        if task.id not in taken:
            taken.add(task.id)
            for name in task.depends_on:
                take(by_id[name])

    for task_id in wanted:
        if task := adapt(task_id):
            take(task)
    return [found for task in tasks if task.id in taken and (found := adapted[task.id])]


def _adapt(task: Task, context: JsonValue, answer: str | None) -> Task | None:
    if task.when is not None and not reads_spans(when_task(task.when)):
        return None  # a scenario has no context of which the condition could hold
    changes: dict[str, object] = {}
    if has_template(task.expected_value):
        try:
            value = resolved_expected(task, context)
            is_observed = _puts_in(task, context, answer)
        except (TaskFault, ScouterError):
            return None
        if has_template(value) or is_observed:
            return None  # it would be taken for a template; an answer is no expectation
        changes["expected_value"] = value
    moved = None if task.scope == "session" else _moved(task, context, answer)
    return None if moved is None else task.model_copy(update={**changes, **moved})


def _moved(task: Task, context: JsonValue, answer: str | None) -> dict[str, object] | None:
    """Say what a task reads in a scenario in place of the record; None where it cannot."""
    match task:
        case AssertionTask() if task.item_context_path is None:
            return _read_there("context_path", task.context_path, context, answer)
        case ReportTask() if not isinstance(task.reference, str):
            return _read_there("report", task.report, context, answer)
        case TraceAssertionTask():
            return {}
        case AgentAssertionTask() if task.source == "spans":
            return {}
        case TrajectoryTask() if task.judge_prompt is not None:
            return None  # its question reads the record's own paths
        case TrajectoryTask() if task.reads_spans and not isinstance(task.reference, str):
            return {}
        case JourneyTask() if task.turns is not None:
            return None  # they are the record's own
        case JourneyTask() | ReliabilityTask() if task.reads_spans:
            return {}
        case _:
            return None


def resolved_expected(task: Task, context: JsonValue) -> JsonValue:
    """Say what a task wanted of a record.

    The evaluation would keep of a large value two ends, and of an erased one nothing.

    Raises:
        TaskFault: The record does not say: a path leads nowhere, or to what another task found.
    """
    resolve = compile_template(task.expected_value)
    return resolve(_scope(task, context)) if resolve else task.expected_value


def _scope(task: Task, context: JsonValue) -> JsonValue:
    """Select the values that a task's templates read, without the results of other tasks."""
    if not task.depends_on:
        return context
    base = context if isinstance(context, dict) else {"context": context}
    return {key: value for key, value in base.items() if key not in task.depends_on}


def _puts_in(task: Task, context: JsonValue, answer: str | None) -> bool:
    """Tell whether a template reads the answer: it may have been wrong."""
    scope = _scope(task, context)
    return bool(answer) and any(
        path.get(scope) == answer for path in template_paths(task.expected_value)
    )


def _read_there(
    field: str, path: str | None, context: JsonValue, answer: str | None
) -> dict[str, object] | None:
    """Let a field read the answer in a scenario, if that is what its path leads to here."""
    if not answer or path is None:
        return None
    try:
        is_answer = Path(path).get(context) == answer
    except (TaskFault, ScouterError):
        return None
    return {field: RESPONSE} if is_answer else None


_KEYS: Final = (
    "expected_outcome", "expected_answer", "expected_output", "expected_response", "expected",
    "reference_answer", "reference", "ground_truth", "golden_answer", "gold_answer",
)  # fmt: skip
"""Keys of a context under which a right answer usually stands, the likeliest first."""
_WHOLE: Final = frozenset({ComparisonOperator.Equals, ComparisonOperator.DeepEquals})
_PART: Final = frozenset({ComparisonOperator.Contains})


def expected_answer(tasks: Sequence[Task], context: JsonValue, answer: str | None) -> str | None:
    """Read the expected answer from the context, a judge's reference, or a task's value.

    Args:
        tasks: Tasks of the profile that evaluated the record.
        context: Context of the record.
        answer: Answer of the agent; it says which tasks are about the answer.

    Returns:
        The expected answer; None if none of them says it. The agent's own answer is no expected
        one.
    """
    if isinstance(context, Mapping):
        for key in _KEYS:
            if (text := _text(context.get(key))) is not None:
                return text
    for task in tasks:
        if isinstance(task, LLMJudgeTask) and task.reference is not None:
            text = _text(_at(task.reference, context))
            if text is not None:
                return text
    about = [
        task for task in tasks if isinstance(task, AssertionTask) and _reads(task, context, answer)
    ]
    for operators in (_WHOLE, _PART):
        for task in about:
            if task.operator in operators and (text := _wanted(task, context)) is not None:
                return text
    return None


def _reads(task: AssertionTask, context: JsonValue, answer: str | None) -> bool:
    return bool(answer and task.context_path) and _at(task.context_path, context) == answer


def _wanted(task: AssertionTask, context: JsonValue) -> str | None:
    try:
        return _text(resolved_expected(task, context))
    except (TaskFault, ScouterError):
        return None


def _at(path: str | None, context: JsonValue) -> JsonValue:
    try:
        return Path(path).get(context)
    except (TaskFault, ScouterError):
        return None


def _text(value: JsonValue) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    return None
