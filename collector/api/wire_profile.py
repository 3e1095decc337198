"""A profile that came over the network: data from other people, which may cost only so much.

The engine bounds each pattern, path and schema wherever a profile comes from (`docs/operators.md`).
Here is what a file of one's own may do and a stranger's profile may not.
"""

from typing import Final

import pydantic_core
from pydantic import ValidationError

from collector.problem import ProblemError
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ScouterError
from scouter.evaluate.field_errors import first_problem
from scouter.evaluate.files import dotted
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.prompt import Prompt
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

MAX_BYTES: Final = 2**20
"""Of a body."""
MAX_TASKS: Final = 200
MAX_PATTERNS: Final = 50
"""Tasks that search with a pattern."""
MAX_SCHEMAS: Final = 5
"""Tasks that check against a JSON schema, each of which may take seconds for one record."""
MAX_CALLS: Final = 50
"""Calls of judges for one record, repeated ones included."""
MAX_PROMPT: Final = 100_000
"""Characters of a task's prompt, before a record fills it in."""
SETTINGS: Final = frozenset({
    "frequency_penalty", "frequencyPenalty", "max_completion_tokens", "max_output_tokens",
    "max_tokens", "maxOutputTokens", "n", "presence_penalty", "presencePenalty",
    "reasoning_effort", "seed", "stop", "stop_sequences", "stopSequences", "temperature", "top_k",
    "top_p", "topK", "topP", "verbosity",
})  # fmt: skip
"""What may be set of a model: nothing that names an address, a key, a header or another field of
the request, which are the collector's own."""
_PATTERNS: Final = frozenset({ComparisonOperator.Matches})
_SCHEMAS: Final = frozenset({ComparisonOperator.MatchesJsonSchema})


def read_wire_profile(data: bytes) -> AgentEvalProfile:
    """Read a profile as `AgentEvalProfile.save_to_json` writes it.

    Args:
        data: JSON, at most `MAX_BYTES`.

    Raises:
        ProblemError: 413 if it is too large; 422 if it is no profile or one that a file of one's
            own has to be, with the task and the field.

    Cost: linear, about 0.1 ms for a task; a schema some milliseconds.
    """
    if len(data) > MAX_BYTES:
        raise ProblemError(413, f"a profile has at most {MAX_BYTES} bytes")
    try:
        found = AgentEvalProfile.model_validate_json(data)
    except ValidationError as error:
        place, problem, expected = first_problem(error, AgentEvalProfile)
        where = f"{_task_of(data, place)}{dotted(place)}: " if place else ""
        raise _refused(f"{where}{problem}{f'; expected {expected}' if expected else ''}") from error
    except (ScouterError, RecursionError) as error:
        raise _refused(str(error)) from error
    _check(found)
    return found


def _check(profile: AgentEvalProfile) -> None:
    for field, text in (
        ("alias", profile.alias), ("config.name", profile.name), ("config.version", profile.version)
    ):  # fmt: skip
        if not text.isprintable():
            raise _refused(f"{field}: control characters are not allowed here")
    tasks = profile.tasks
    judges = [task for task in tasks if isinstance(task, LLMJudgeTask)]
    for count, most, what in (
        (len(tasks), MAX_TASKS, "tasks"),
        (_count(tasks, _PATTERNS), MAX_PATTERNS, "tasks with patterns"),
        (_count(tasks, _SCHEMAS), MAX_SCHEMAS, "tasks with JSON schemas"),
        (sum(1 + task.max_retries for task in judges), MAX_CALLS, "calls of judges for a record"),
    ):
        if count > most:
            raise _refused(f"{count} {what}; at most {most} are taken over the network")
    for task in judges:
        _check_prompt(task.id, task.prompt)


def _count(tasks: "tuple[Task, ...] | list[Task]", operators: frozenset[ComparisonOperator]) -> int:
    return sum(getattr(task, "operator", None) in operators for task in tasks)


def _check_prompt(task_id: str, prompt: Prompt) -> None:
    size = sum(len(message.content) for message in prompt.all_messages)
    if size > MAX_PROMPT:
        raise _refused(f"task {task_id!r}, prompt: {size} characters; at most {MAX_PROMPT}")
    for name, value in (prompt.model_settings or {}).items():
        if name not in SETTINGS:
            raise _refused(
                f"task {task_id!r}, prompt.model_settings.{name[:100]}: what it sets is the "
                f"collector's own; over the network may be set: {', '.join(sorted(SETTINGS))}"
            )
        if isinstance(value, dict):
            raise _refused(f"task {task_id!r}, prompt.model_settings.{name}: no object is taken")


def _task_of(data: bytes, place: tuple[str | int, ...]) -> str:
    """Name the task that a place is in, where it has an id."""
    if len(place) < 2 or place[0] != "tasks" or not isinstance(place[1], int):
        return ""
    try:
        task = pydantic_core.from_json(data)["tasks"][place[1]]
        return f"task {str(task['id'])[:100]!r}, "
    except (ValueError, LookupError, TypeError):
        return ""


def _refused(detail: str) -> ProblemError:
    return ProblemError(422, detail.encode("utf-8", "replace").decode()[:2000])
