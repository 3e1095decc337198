"""TrajectoryTask: score the calls of an agent, by a metric or by a judge."""

from collections.abc import Mapping
from typing import (
    TYPE_CHECKING,
    Annotated,
    ClassVar,
    Final,
    Literal,
    Self,
    Unpack,
    cast,
    get_args,
)

from pydantic import (
    BeforeValidator,
    Field,
    JsonValue,
    model_validator,
)

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.paths.path import Path
from scouter.evaluate.tasks.base import ScoredOptions, ScoredTask, is_none
from scouter.evaluate.tasks.judge import (
    DEFAULT_RETRIES,
    SCORED_ANSWER,
    Retries,
    TaskPrompt,
    take_short,
)
from scouter.evaluate.trajectory.call import read_reference
from scouter.evaluate.trajectory.rules import TrajectoryRules
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from collections.abc import Sequence


CALLS: Final = "agent_trajectory"
REFERENCE: Final = "reference"
TOOLS: Final = "tool_schemas"
HISTORY: Final = "conversation_history"
"""Variables that a task fills in itself; all others are paths in the record."""

WITH_REFERENCE: Final = """\
Judge the calls of tools that an AI agent made by those that were expected.

Question:
{question}

Expected calls:
{reference}

Calls that were made:
{agent_trajectory}

Final answer of the agent:
{answer}

Calls with one step number were made at once. Take off for tools that were not called, for others \
that were, for wrong parameters, and for a wrong order of steps. Parameters in free words have to \
mean the same; all others have to be the same. 1 means all as expected, 0 nothing as expected.
"""
WITHOUT_REFERENCE: Final = """\
Judge how well an AI agent chose and called its tools.

Conversation before:
{conversation_history}

Question:
{question}

Tools that it has, with their parameters:
{tool_schemas}

Its actions:
{agent_trajectory}

Its final answer:
{answer}

Ask yourself: Were these the right tools? Are the parameters right, and do they fit the schemas? \
Was any call needless, or missing? Does the answer follow from what the tools gave back? 1 means \
nothing to improve, 0 nothing right.
"""
NO_HISTORY: Final = "(no previous turns)"
NO_TOOLS: Final = "(not known: nothing tells of them; judge no parameter by a schema)"
_FORM: Final = """
Answer with a JSON object. "reasoning" are your steps; "score" is that number.
"""
_BLANKS: Final = {name: f"${{{name}}}" for name in (CALLS, REFERENCE, TOOLS, HISTORY)}


def usual_prompt(form: str, model: str, provider: str, question: str, answer: str) -> Prompt:
    """Make the prompt that asks one of the usual questions.

    Args:
        form: `WITH_REFERENCE` or `WITHOUT_REFERENCE`.
        model: The judge's model.
        provider: The name of a provider entry.
        question: Path of the user's question in the record.
        answer: Path of the agent's answer.
    """
    paths = {"question": f"${{{question}}}", "answer": f"${{{answer}}}"}
    text = form.format(**_BLANKS, **paths) + _FORM
    return Prompt(text, model, provider, output_type=SCORED_ANSWER)


def reads(prompt: Prompt, variable: str) -> bool:
    """Tell whether a prompt has a variable, or a part of what it stands for."""
    return any(Path(text).segments[:1] == (variable,) for text in prompt.parameters)


TrajectoryMetricName = Literal[
    "exact_match", "in_order_match", "any_order_match", "precision", "recall", "single_tool_use"
]
_PREFIX: Final = "trajectory_"
_DEFINITIONS: Final = "tool_definitions"


def _metric(value: object) -> object:
    return value.removeprefix(_PREFIX) if isinstance(value, str) else value


def _is_usual(schemas: object) -> bool:
    return schemas == _DEFINITIONS


class TrajectoryTask(ScoredTask):
    """Score the calls of tools; the score compares with `expected_value` by `operator`.

    A `metric` gives the score, or a judge does: then there is a `model` and a `provider`. The judge
    compares with the expected calls where a record has some, and looks at the calls alone where it
    has none. It is not called if calls may be missing: where spans are known to be missing, or
    nobody tells of the calls, the task is errored.

    Args:
        id: Unique inside one profile; lower-cased.
        metric: A metric of trajectories, with or without `trajectory_` before it.
        reference: The expected calls, or the path in the context that leads to them. In a
            scenario `expected_trajectory` has the calls that the scenario expects. None is for a
            judge that never compares.
        tool_name: The tool of `single_tool_use`, which needs no reference.
        predicted: Path in the context that leads to the calls; None takes those that the spans of
            the trace tell of.
        rules: Rules of a metric for comparing calls.
        model: The judge's model.
        provider: The name of a provider entry.
        question: Path of the user's question in the record, for the usual prompts.
        answer: Path of the agent's answer, for the usual prompts.
        prompt: Another question about records with expected calls. It has the variables
            `${agent_trajectory}` and `${reference}`; `${tool_schemas}` and
            `${conversation_history}` are known, too, and all others are paths in the record.
            `score` of the answer is from 0 to 1.
        prompt_without_reference: The same for records without expected calls. A record for which
            there is no prompt is errored.
        tool_schemas: Definitions of the agent's tools, or the path in the context that leads to
            them. Where there are none, the spans' count if the calls are theirs, too.
        max_retries: Most times to ask again where the provider failed, 0 to 20.
        samples: Number of times that a question is put, 1 to 25; the median of the scores counts.
        sample_rate: The part of the records that are evaluated, in [0, 1]; the others are skipped
            (sampled).
        operator: The comparison of the score.
        expected_value: The value that the score is compared with; without operator and value the
            score must be 1.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` takes the calls of all traces of a session.
        calls_told_by: Source that tells of the agent's calls, where the rule would choose another.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "metric", "reference")
    SHORT: ClassVar[tuple[str, ...]] = ("model", "provider", "question", "answer")

    task_type: Literal["Trajectory"] = "Trajectory"
    metric: Annotated[TrajectoryMetricName | None, BeforeValidator(_metric)] = Field(
        default=None, exclude_if=is_none
    )
    reference: str | list[JsonValue] | None = "expected_trajectory"
    tool_name: str | None = Field(default=None, min_length=1, exclude_if=is_none)
    predicted: str | None = Field(default=None, exclude_if=is_none)
    rules: TrajectoryRules = Field(default_factory=TrajectoryRules)
    prompt: TaskPrompt | None = Field(default=None, exclude_if=is_none)
    prompt_without_reference: TaskPrompt | None = Field(default=None, exclude_if=is_none)
    tool_schemas: str | list[JsonValue] = Field(default=_DEFINITIONS, exclude_if=_is_usual)
    max_retries: Retries = Field(default=DEFAULT_RETRIES, exclude_if=DEFAULT_RETRIES.__eq__)
    samples: int = Field(default=1, ge=1, le=25, exclude_if=(1).__eq__)
    sample_rate: float = Field(default=1.0, ge=0, le=1, exclude_if=(1.0).__eq__)
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=is_none)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            metric: str | None = None,
            reference: str | Sequence[object] | None = ...,
            *,
            tool_name: str | None = None,
            predicted: str | None = None,
            rules: TrajectoryRules | Mapping[str, object] = ...,
            model: str | None = None,
            provider: str | None = None,
            question: str = "question",
            answer: str = "answer",
            prompt: Prompt | None = None,
            prompt_without_reference: Prompt | None = None,
            tool_schemas: str | Sequence[object] = ...,
            max_retries: int | None = None,
            samples: int = 1,
            sample_rate: float = 1.0,
            calls_told_by: CallsToldBy | str | None = None,
            task_type: Literal["Trajectory"] = "Trajectory",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _make_prompts(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        prompts = {"prompt": WITH_REFERENCE, "prompt_without_reference": WITHOUT_REFERENCE}
        fields, given = take_short(cls, cast("Mapping[str, object]", data), *prompts)
        texts = {"question": "question", "answer": "answer", **given}
        if fields.get("reference", ...) is None:
            del prompts["prompt"]
        for name, form in prompts.items() if given else ():
            fields[name] = usual_prompt(form, **texts)
        return fields

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.tool_name is not None) != (self.metric == "single_tool_use"):
            raise ValueError("tool_name: single_tool_use needs one, and no other metric has one")
        if self.rules.empty == "skip":
            raise ValueError("rules.empty: a task has a score or an error; expected score or error")
        if isinstance(self.reference, list):
            read_reference(self.reference, "reference", is_wire=self.rules.compat == "vertex")
        if self.judge_prompt is None:
            self._check_metric()
        else:
            self._check_judge()
        return self

    def _check_metric(self) -> None:
        if self.metric is None:
            known = ", ".join(get_args(TrajectoryMetricName))
            raise ValueError(f"metric: expected {known}, or a model and a provider to judge")
        if self.reference is None:
            raise ValueError("reference: a metric compares; expected calls, or a path to them")
        if self.samples > 1 or self.sample_rate < 1 or self.tool_schemas != _DEFINITIONS:
            raise ValueError("samples, sample_rate and tool_schemas: no judge is called")

    def _check_judge(self) -> None:
        if self.metric is not None:
            raise ValueError("metric: a judge gives the score; leave one of them out")
        if self.rules != TrajectoryRules():
            raise ValueError("rules: they are a metric's; a judge compares as its prompt says")
        first, second = self.prompt, self.prompt_without_reference
        if self.reference is None and first is not None:
            raise ValueError("prompt: there is no reference; give prompt_without_reference only")
        if isinstance(self.reference, list) and first is None:
            raise ValueError("prompt: the reference stands in the task, and no prompt compares")
        for name, prompt in self.prompts.items():
            compares = name == "prompt"
            if not (reads(prompt, CALLS) and reads(prompt, REFERENCE) is compares):
                raise ValueError(
                    f"{name}: expected the variable ${{{CALLS}}}, and ${{{REFERENCE}}} in prompt "
                    f"only; it has {', '.join(prompt.parameters) or 'none'}"
                )
        if first is not None and second is not None and _asks(first) != _asks(second):
            raise ValueError(
                "prompt_without_reference: one judge answers both; expected the model, the "
                "provider and the model_settings of prompt"
            )

    @property
    def reads_spans(self) -> bool:
        """True if the calls are those of the trace's spans."""
        return self.predicted is None

    @property
    def judge_prompt(self) -> Prompt | None:
        """The prompt of the judge for most records; None where a metric scores."""
        return self.prompt or self.prompt_without_reference

    @property
    def prompts(self) -> dict[str, Prompt]:
        """Prompts of the judge, by field of the task; none where a metric scores."""
        both = {
            "prompt": self.prompt,
            "prompt_without_reference": self.prompt_without_reference,
        }
        return {name: each for name, each in both.items() if each is not None}

    @property
    def most_questions(self) -> int:
        """Most questions to a judge for one record, retries left out."""
        return 0 if self.judge_prompt is None else self.samples


def _asks(prompt: Prompt) -> tuple[object, ...]:
    return prompt.model, prompt.provider, prompt.model_settings
