"""ReportTask: hold a report against a reference, field by field."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self, Unpack, cast

from pydantic import (
    Field,
    JsonValue,
    ValidationError,
    model_validator,
)

from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.paths.path import Path
from scouter.evaluate.patterns import compile_pattern
from scouter.evaluate.report.field_metrics import JUDGE, FieldConfig, MetricsConfig, as_text
from scouter.evaluate.tasks.base import ScoredOptions, ScoredTask, is_none
from scouter.evaluate.tasks.judge import (
    DEFAULT_RETRIES,
    SCORED_ANSWER,
    Retries,
    TaskPrompt,
    take_short,
)

_PATTERN: Final = "regex"
_VARIABLES: Final = {("field",), ("reference",), ("actual",)}
_ASKED: Final = """\
Compare a value of a generated report with what a right report says there.

Name of the field or section:
${field}

Right value:
${reference}

Value of the report:
${actual}

Say how far the report's value means the same. Wording and order do not count; numbers, names, \
dates and colors do.

Answer with a JSON object. "reasoning" are your steps; "score" is 1 for the same, 0 for something \
else or nothing, and a number between them for a part.
"""


class ReportTask(ScoredTask):
    """Score a report in the record by a tree of sections and fields.

    Without `operator` and `expected_value` it passes where the score is 1. Where one field's judge
    gives no score, the whole task is errored.

    Args:
        id: Unique inside one profile; lower-cased.
        metrics: The tree, as a `ReportEvaluator` takes it, with the methods `exact_match`, `f1`,
            `regex`, `non_empty`, `average` and `llm_judge`; a field without a method is judged.
        reference: Content of a right report, or the path in the context that leads to it. The
            patterns of `regex` come only from a reference that is written here.
        report: Path in the context that leads to the report: Markdown, or an object of sections
            and fields.
        model: The judge's model; needed where a field asks a judge.
        provider: The name of a provider entry.
        prompt: Another question than the usual one, in place of both. Its variables are
            `${field}`, `${reference}` and `${actual}`; `score` of the answer is from 0 to 1.
        max_retries: Most times to ask again where the provider failed, 0 to 20.
        samples: Number of times that a question is put, 1 to 25; the median of the scores counts.
        sample_rate: The part of the records that are evaluated, in [0, 1]; the others are skipped
            (sampled), with all of their fields.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `record` reads `report` and `reference` from a record's context, `session` from a
            session's.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "metrics", "reference")
    SHORT: ClassVar[tuple[str, ...]] = ("model", "provider")

    task_type: Literal["Report"] = "Report"
    metrics: dict[str, JsonValue]
    reference: str | dict[str, JsonValue]
    report: str = "report"
    prompt: TaskPrompt | None = Field(default=None, exclude_if=is_none)
    max_retries: Retries = Field(default=DEFAULT_RETRIES, exclude_if=DEFAULT_RETRIES.__eq__)
    samples: int = Field(default=1, ge=1, le=25, exclude_if=(1).__eq__)
    sample_rate: float = Field(default=1.0, ge=0, le=1, exclude_if=(1.0).__eq__)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            metrics: Mapping[str, object],
            reference: str | Mapping[str, object],
            *,
            report: str = "report",
            model: str | None = None,
            provider: str | None = None,
            prompt: Prompt | None = None,
            max_retries: int | None = None,
            samples: int = 1,
            sample_rate: float = 1.0,
            task_type: Literal["Report"] = "Report",
            **options: Unpack[ScoredOptions],
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _make_prompt(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        fields, given = take_short(cls, cast("Mapping[str, object]", data), "prompt")
        if given:
            fields["prompt"] = Prompt(
                _ASKED, given["model"], given["provider"], output_type=SCORED_ANSWER
            )
        return fields

    @model_validator(mode="after")
    def _tree_is_one(self) -> Self:
        try:
            tree = self.tree
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, (*self.metrics, *first["loc"])))
            raise ValueError(f"metrics.{where}: {first['msg']}") from error
        except ConfigError as error:
            raise ValueError(f"metrics: {error}") from error
        for path, node in _nodes(tree.root_key, tree.root):
            if node.allow_dynamic_field_discovery:
                raise ValueError(
                    f"metrics.{path}: this task discovers no fields; list them, or use a "
                    "ReportEvaluator in Python"
                )
            if self.prompt is None and asks_judge(node):
                raise ValueError(
                    f"metrics.{path}: {JUDGE}, and a field without a method, ask a judge; give the "
                    "task a model and a provider, or the field another method"
                )
            if node.method == _PATTERN and isinstance(self.reference, str):
                raise ValueError(
                    f"metrics.{path}: {_PATTERN} takes its pattern from the reference, and no "
                    "record gives patterns; write the reference into the task"
                )
        self._check_judge()
        for path, pattern in self.patterns():
            try:
                compile_pattern(pattern)
            except ConfigError as error:
                raise ValueError(f"reference.{path}: {error}") from error
        return self

    def _check_judge(self) -> None:
        if self.prompt is None:
            if self.samples > 1 or self.sample_rate < 1:
                raise ValueError("samples and sample_rate: no field asks a judge")
            return
        if not self.most_questions:
            raise ValueError(f"prompt: no field asks a judge; give one the method {JUDGE}")
        read = {Path(text).segments[:1] for text in self.prompt.parameters}
        if not {("actual",)} <= read <= _VARIABLES:
            raise ValueError(
                "prompt: its variables are ${actual}, and if wanted ${reference} and ${field}; "
                f"it has {', '.join(self.prompt.parameters) or 'none'}"
            )

    @property
    def judge_prompt(self) -> Prompt | None:
        """The prompt of the judge; None where no field asks one."""
        return self.prompt

    @property
    def most_questions(self) -> int:
        """Most questions to a judge for one record, retries left out."""
        return self.samples * sum(map(asks_judge, self.tree.root.nodes()))

    @property
    def tree(self) -> MetricsConfig:
        """The metrics, read."""
        return MetricsConfig.of(self.metrics)

    def patterns(self) -> Iterator[tuple[str, str]]:
        """The patterns of the reference: where each stands, and its text."""
        if isinstance(self.reference, dict):
            yield from _patterns("", self.tree.root, self.reference)


def asks_judge(node: FieldConfig) -> bool:
    """Tell whether a section or field as a whole is compared by a judge."""
    return (node.method or JUDGE) == JUDGE


def _nodes(path: str, node: FieldConfig) -> Iterator[tuple[str, FieldConfig]]:
    """A node and all below it, by their paths."""
    yield path, node
    for name, each in (node.fields or {}).items():
        yield from _nodes(f"{path}.fields.{name}", each)


def _patterns(path: str, node: FieldConfig, value: JsonValue) -> Iterator[tuple[str, str]]:
    if node.method == _PATTERN:
        yield path, as_text(value)
    for name, each in (node.fields or {}).items():
        inner = value.get(name) if isinstance(value, dict) else None
        yield from _patterns(f"{path}.{name}" if path else name, each, inner)
