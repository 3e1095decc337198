"""Report tasks, compiled: a report of the context against a reference, field by field."""

from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.judge.task_judge import at_once
from scouter.evaluate.operators.show import kind_of
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.report.field_judge import FieldJudge
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.markdown import read_report
from scouter.evaluate.report.metrics_config import AVERAGE, FieldConfig
from scouter.evaluate.report.tree import SectionScore, TreeScorer
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.report import ReportTask

MOST_TEXT: Final = 100_000
"""Characters of a report in Markdown."""
MOST_COMPARED: Final = 8_000_000
"""Characters of a report and its reference times levels of the tree of fields."""
_TOLD_FIELDS: Final = 5
"""Fields that are named in the message of a result."""

Pair: TypeAlias = tuple[JsonValue, JsonValue]
"""A report and its reference."""


def compile_report(task: ReportTask, subject: Subject) -> CompiledTask:
    """Turn a report task that asks no judge into a function from record to result.

    Args:
        task: The task.
        subject: Fields that its results share.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    reports = Reports.of(task)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        del spans
        return measured(at_once(reports.scoring(reports.pair(scope, base))))

    return compile_metric(subject, measure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Finds reports and references in records, and scores them."""

    scorer: TreeScorer
    path: Path
    reference: Path | Mapping[str, JsonValue]
    levels: int

    @staticmethod
    def of(task: ReportTask) -> "Reports":
        """Prepare for one task.

        Raises:
            ConfigError: A path that can never work.
        """
        tree = task.tree
        return Reports(
            scorer=TreeScorer(config=tree),
            path=Path(task.report),
            reference=Path(given) if isinstance(given := task.reference, str) else given,
            levels=_levels(tree.root),
        )

    def pair(self, scope: JsonValue, base: JsonValue) -> Pair:
        """Find the report in a record's own context, and the reference in the task's scope.

        Raises:
            TaskFault: One of them is not there, is of another kind, or is too large.
        """
        given, expected = self.raw(scope, base)
        report = _read(self.path, given)
        if not isinstance(expected, dict):
            path = self.reference.text if isinstance(self.reference, Path) else ""
            text = f"path {path!r}: expected an object, got {kind_of(expected)}"
            raise TaskFault(Reason.TYPE, text)
        return report, expected

    def raw(self, scope: JsonValue, base: JsonValue) -> Pair:
        """Give report and reference as they stand in a record, whatever they are.

        Raises:
            TaskFault: One of them is not there.
        """
        own = self.reference
        return self.path.get(base), own.get(scope) if isinstance(own, Path) else dict(own)

    def scoring(
        self, pair: Pair, judge: FieldJudge | None = None
    ) -> Coroutine[Any, Any, SectionScore]:
        """Begin to score a report; it waits for nothing but the judge.

        Args:
            pair: The report and the reference.
            judge: Scores fields.

        Raises:
            TaskFault: Both are too large for a tree of so many levels (`Reason.LIMIT`).
        """
        report, expected = pair
        size = len(as_text(report)) + len(as_text(expected))
        if size * self.levels > MOST_COMPARED:
            raise TaskFault(
                Reason.LIMIT,
                f"the report and its reference have {size:,} characters; at most "
                f"{MOST_COMPARED // self.levels:,} are compared in {self.levels} levels",
            )
        return replace(self.scorer, judge=judge).score(expected, report)


def _levels(node: FieldConfig) -> int:
    """Most times that one value is looked at: once on each level of the tree."""
    return 1 + max(map(_levels, (node.fields or {}).values()), default=0)


def _read(path: Path, found: JsonValue) -> JsonValue:
    if isinstance(found, dict):
        return found
    if not isinstance(found, str):
        raise TaskFault(
            Reason.TYPE,
            f"path {path.text!r}: expected Markdown or an object, got {kind_of(found)}",
        )
    if len(found) > MOST_TEXT:
        raise TaskFault(
            Reason.LIMIT,
            f"path {path.text!r}: the report has {len(found):,} characters; at most "
            f"{MOST_TEXT:,} are read",
        )
    return read_report(found)


def measured(found: SectionScore) -> Measured:
    """Take the score of a whole report, and say which fields are below 1.

    Raises:
        TaskFault: There is no score, or a field that should have one has none; names the fields.
    """
    fields = list(_fields("", found))
    faults = [(path, each) for path, each in fields if each.error is not None]
    if found.section_score is None or faults:
        told = "; ".join(
            f"{path}: {each.error}" if path else str(each.error)
            for path, each in faults[:_TOLD_FIELDS]
        )
        reason = (faults[0][1].reason if faults else None) or Reason.TYPE
        raise TaskFault(reason, told or "neither report nor reference has what is scored")
    short = (
        f"{path} {each.section_score:g}"
        for path, each in fields
        if path and each.section_score is not None and each.section_score < 1
    )
    return Measured(score=found.section_score, told="; ".join(islice(short, _TOLD_FIELDS)))


def _fields(path: str, found: SectionScore) -> Iterator[tuple[str, SectionScore]]:
    """The values that were compared, by their paths, in the order of the tree.

    The error of a section that is an average only repeats those of its fields.
    """
    if not found.field_scores or found.method != AVERAGE:
        yield path, found
    for name, each in found.field_scores.items():
        yield from _fields(f"{path}.{name}" if path else name, each)
