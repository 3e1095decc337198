"""Tasks that score by a function of the program, by an installed check, or by the called tools."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Unpack

from pydantic import Field, JsonValue, PlainSerializer, PlainValidator, WithJsonSchema

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.base import ScoredOptions, ScoredTask, is_none
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def _function(value: object) -> object:
    if not callable(value):
        raise ValueError("a function of the program that made the task; a file cannot hold one")
    return value


def _name(function: Any) -> str:  # noqa: ANN401 - whatever can be called
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or 'builtins'}:{name}"


class FunctionTask(ScoredTask):
    """Score the context by a function; the score compares with `expected_value` by `operator`.

    It is made in code and runs in the process that made it. Where it is stored, its function is a
    name, for people and for comparisons; nobody runs it from there.

    Args:
        id: Unique inside one profile; lower-cased.
        function: From the context to a number, to an object with the number under `score` or the
            task's id, or to None where the record has no score: the task is then skipped
            (`not_applicable`), with a text that the object may have under `reason`. What it raises
            is the task's error.
        prompt: The judge that the function asks, with the words of its question. The function is
            then a coroutine function that asks by a `TaskJudge`.
        max_retries: Most further tries of a question where the provider failed.
        settings: What the function goes by, as plain data. Like its name and the prompt it says
            whether a task is the one of a baseline.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with; without operator and value the
            score must be 1.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` gives the function the context of a session.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "function")

    task_type: Literal["Function"] = "Function"
    function: Annotated[
        Any,
        PlainValidator(_function),
        PlainSerializer(_name, return_type=str),
        WithJsonSchema({"type": "string"}),
    ] = Field()
    prompt: Prompt | None = Field(default=None, exclude_if=is_none)
    max_retries: int = Field(default=0, ge=0, le=100, exclude_if=(0).__eq__)
    settings: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=lambda value: not value)

    sample_rate: ClassVar[float] = 1.0
    """It judges every record."""
    most_questions: ClassVar[int] = 1
    """Where it is stored; a function may ask as often as it likes."""

    @property
    def judge_prompt(self) -> Prompt | None:
        """The prompt of the judge that the function asks."""
        return self.prompt

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            function: Callable[[Any], object],
            *,
            prompt: Prompt | None = None,
            max_retries: int = 0,
            settings: Mapping[str, JsonValue] = ...,
            task_type: Literal["Function"] = "Function",
            **options: Unpack[ScoredOptions],
        ) -> None: ...


class CodeTask(ScoredTask):
    """Run a check that an installed package has, in a process of its own.

    The check returns true, false or a number; true is 1, false is 0. Without `operator` and
    `expected_value` the task passes where that is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        check: Name of the check, never a place in a program: an entry point of the group
            `scouter.checks`, or offline a function of the module that `--checks` names.
        source: `context` gives the check the record's context, `spans` the spans of the trace,
            too.
        timeout_s: Seconds after which the check is killed and the task is errored.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with.
        description: For people.
        depends_on: Tasks that run before; the check finds their values in the context, by id.
        condition: True makes the task a gate.
        scope: `session` gives the check all records of a session and the spans of their traces.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "check")

    task_type: Literal["Code"] = "Code"
    check: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", max_length=128)
    source: Literal["context", "spans"] = "context"
    timeout_s: float = Field(default=2.0, gt=0, le=10)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            check: str,
            *,
            source: Literal["context", "spans"] = "context",
            timeout_s: float = 2.0,
            task_type: Literal["Code"] = "Code",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @property
    def reads_spans(self) -> bool:
        """True if the check is given the spans of the trace."""
        return self.source == "spans"


class ReliabilityTask(ScoredTask):
    """Compare the names of the called tools with the expected ones; the score is 1 or 0.

    Without `operator` and `expected_value` it passes where the score is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        expected_tool_calls: Names, at least one. A name that stands there twice has to be called
            twice.
        order_matters: Whether the calls have to come in this order; others may come between.
        exact_match: Whether nothing else may be called; a call more than expected is too much.
        predicted: Path in the context that leads to the calls, as a `TrajectoryTask` reads them;
            None takes those that the spans of the trace tell of.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` takes the calls of all traces of a session.
        calls_told_by: Source that tells of the agent's calls, where the rule would choose another.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "expected_tool_calls")

    task_type: Literal["Reliability"] = "Reliability"
    expected_tool_calls: list[str] = Field(min_length=1)
    order_matters: bool = False
    exact_match: bool = False
    predicted: str | None = Field(default=None, exclude_if=is_none)
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=is_none)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            expected_tool_calls: Sequence[str],
            *,
            order_matters: bool = False,
            exact_match: bool = False,
            predicted: str | None = None,
            calls_told_by: CallsToldBy | str | None = None,
            task_type: Literal["Reliability"] = "Reliability",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @property
    def reads_spans(self) -> bool:
        """True if the calls are those of the trace's spans."""
        return self.predicted is None
