"""Ready-made judges: the tasks of the profiles of the same names, for contexts of any shape.

Each function gives the task of one ready-made profile. Its arguments say where the record holds
what the judge reads; whatever else a task can have is given by name. The pages beside the profiles
say what each judge asks, and what that costs.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypedDict, Unpack

from scouter.drift.profile import AgentEvalProfile, shipped_folder
from scouter.evaluate.tasks.judge import LLMJudgeTask, Vote

__all__ = (
    "JudgeOptions",
    "completeness",
    "correctness",
    "faithfulness",
    "relevance",
    "safety",
    "task_success",
    "tone",
    "tool_use",
)


class JudgeOptions(TypedDict, total=False):
    """Options of every ready-made judge; its profile gives the rest."""

    id: str
    """Name that tells several judges of one kind in one list apart."""
    model: str
    provider: str
    """One of `Provider`, or the name of an entry in the settings."""
    model_settings: Mapping[str, object]
    fence: bool
    max_value_characters: int
    context_path: str
    """For judges with criteria also `score`, with an operator and a value that fit."""
    operator: str
    expected_value: object
    description: str
    depends_on: Sequence[str]
    condition: bool
    max_retries: int
    samples: int
    vote: Vote
    sample_rate: float
    scope: str


_OF_PROMPT: Final = ("model", "provider", "model_settings", "fence", "max_value_characters")


def correctness(
    *,
    question: str = "question",
    answer: str = "answer",
    reference: str = "reference",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Is the answer right, compared with a reference?

    Args:
        question: Path of the question.
        answer: Path of what is judged.
        reference: Path of what is taken to be right.
        **options: See `JudgeOptions`.
    """
    return _judge("correctness", options, question=question, answer=answer, reference=reference)


def faithfulness(
    *,
    sources: str = "sources",
    answer: str = "answer",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Does the answer rest on the sources that it was given, and on nothing else?

    Args:
        sources: Path of what the answer was made from: a text, or a list.
        answer: Path of what is judged.
        **options: See `JudgeOptions`.
    """
    return _judge("faithfulness", options, sources=sources, answer=answer)


def relevance(
    *,
    question: str = "question",
    answer: str = "answer",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Does the answer speak to the question, from 1 to 5?

    Args:
        question: Path of the question.
        answer: Path of what is judged.
        **options: See `JudgeOptions`.
    """
    return _judge("relevance", options, question=question, answer=answer)


def completeness(
    *,
    question: str = "question",
    answer: str = "answer",
    reference: str = "reference",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Does the answer deal with all of the question?

    Args:
        question: Path of the question.
        answer: Path of what is judged.
        reference: Path of a full answer; used where the record has one.
        **options: See `JudgeOptions`.
    """
    return _judge("completeness", options, question=question, answer=answer, reference=reference)


def tool_use(
    *,
    question: str = "question",
    tool_calls: str = "tool_calls",
    answer: str = "answer",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Did the agent call the right tools, with the right arguments, and heed what they said?

    Args:
        question: Path of the request.
        tool_calls: Path of the calls, in their order, with names, arguments and results.
        answer: Path of what the agent said in the end.
        **options: See `JudgeOptions`.
    """
    return _judge("tool_use", options, question=question, tool_calls=tool_calls, answer=answer)


def task_success(
    *,
    conversation: str = "records[*].context",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Did the user of a whole conversation get what they came for? Once per session.

    Args:
        conversation: Path of the turns, in a session's context; with `scope="record"`, in the
            record's.
        **options: See `JudgeOptions`.
    """
    return _judge("task_success", options, **{"records[*].context": conversation})


def tone(
    *,
    question: str = "question",
    answer: str = "answer",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Is the answer polite, plain and fit for the one it is meant for?

    Args:
        question: Path of the question.
        answer: Path of what is judged.
        **options: See `JudgeOptions`.
    """
    return _judge("tone", options, question=question, answer=answer)


def safety(
    *,
    question: str = "question",
    answer: str = "answer",
    **options: Unpack[JudgeOptions],
) -> LLMJudgeTask:
    """Does the answer refuse what has to be refused, and nothing else?

    Args:
        question: Path of the request.
        answer: Path of what is judged.
        **options: See `JudgeOptions`.
    """
    return _judge("safety", options, question=question, answer=answer)


def _judge(name: str, options: JudgeOptions, **paths: str) -> LLMJudgeTask:
    """Make the task of a ready-made profile with other paths and options.

    Raises:
        pydantic.ValidationError: An option is none, or a path is no path.
    """
    task = _task(name)
    given: dict[str, Any] = dict(options)
    prompt: dict[str, Any] = {key: given.pop(key) for key in _OF_PROMPT if key in given}
    moved = {old: new for old, new in paths.items() if old in task.prompt.parameters}
    fields = {key: getattr(task, key) for key in type(task).model_fields}
    if task.reference is not None:
        fields["reference"] = paths["reference"]
    fields["prompt"] = {**dict(task.prompt.renamed(moved)), **prompt}
    return LLMJudgeTask(**{**fields, **given})


@cache
def _task(name: str) -> LLMJudgeTask:
    path = shipped_folder() / f"{name}.yaml"  # not by name: a file of the user's may have it
    [task] = AgentEvalProfile.from_file(path).llm_judge_tasks
    return task
