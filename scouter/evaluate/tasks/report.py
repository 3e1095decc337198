"""ReportTask: hold a report against a reference, field by field."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import JsonValue, ValidationError, model_validator

from scouter.errors import ConfigError
from scouter.evaluate.patterns.pattern import compile_pattern
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.metrics_config import JUDGE, FieldConfig, MetricsConfig
from scouter.evaluate.tasks.scored import ScoredTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import Scope

_PATTERN = "regex"


class ReportTask(ScoredTask):
    """Score a report in the record by a tree of sections and fields; asks no model.

    Without `operator` and `expected_value` it passes where the score is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        metrics: The tree, as a `ReportEvaluator` takes it, with the methods `exact_match`, `f1`,
            `regex`, `non_empty` and `average`.
        reference: What a right report says, or the path in the context that leads to it. The
            patterns of `regex` come from a reference that is written here only.
        report: Path in the context that leads to the report: Markdown, or an object of sections
            and fields.
        operator: How the score is compared.
        expected_value: With what.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: What `report` and `reference` are paths in: a record's context, or a session's.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "metrics", "reference")

    task_type: Literal["Report"] = "Report"
    metrics: dict[str, JsonValue]
    reference: str | dict[str, JsonValue]
    report: str = "report"

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            metrics: Mapping[str, object],
            reference: str | Mapping[str, object],
            *,
            report: str = "report",
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            task_type: Literal["Report"] = "Report",
        ) -> None: ...

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
            if node.allow_dynamic_field_discovery or (node.method or JUDGE) == JUDGE:
                raise ValueError(
                    f"metrics.{path}: {JUDGE}, discovery, and a field without a method ask a "
                    "judge, which this task does not; give the field another method, use a QA or "
                    "LLMJudge task for it, or a ReportEvaluator in Python"
                )
            if node.method == _PATTERN and isinstance(self.reference, str):
                raise ValueError(
                    f"metrics.{path}: {_PATTERN} takes its pattern from the reference, and no "
                    "record gives patterns; write the reference into the task"
                )
        for path, pattern in self.patterns():
            try:
                compile_pattern(pattern)
            except ConfigError as error:
                raise ValueError(f"reference.{path}: {error}") from error
        return self

    @property
    def tree(self) -> MetricsConfig:
        """The metrics, read."""
        return MetricsConfig.of(self.metrics)

    def patterns(self) -> Iterator[tuple[str, str]]:
        """The patterns of the reference: where each stands, and its text."""
        if isinstance(self.reference, dict):
            yield from _patterns("", self.tree.root, self.reference)


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
