"""Report tasks, compiled: a report of the context against a reference, field by field."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.operators.show import kind_of
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.markdown import read_report
from scouter.evaluate.report.metrics_config import FieldConfig
from scouter.evaluate.report.tree import SectionScore, TreeScorer
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.steps import charge
from scouter.evaluate.tasks.report import ReportTask

MOST_TEXT: Final = 100_000
"""Characters of a report in Markdown."""
_STEPS_PER_CHARACTER: Final = 15
"""Of reading Markdown at its worst, which is one bracket behind another."""
_CHARACTERS_PER_STEP: Final = 4
"""Of comparing values."""
_STEPS_PER_FIELD: Final = 15
_TOLD_FIELDS: Final = 5
"""Fields that are named in the message of a result."""


def compile_report(task: ReportTask, subject: Subject) -> CompiledTask:
    """Turn a report task into a function from record to result.

    Args:
        task: The task.
        subject: What its results share.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    tree = task.tree
    scorer, levels = TreeScorer(config=tree), _levels(tree.root)
    fields = sum(1 for _ in tree.root.nodes())
    path = Path(task.report)
    reference = _reference(task)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        del spans
        report, expected = _read(path, base), reference(scope)
        size = len(as_text(report)) + len(as_text(expected))
        charge(_STEPS_PER_FIELD * fields + levels * size // _CHARACTERS_PER_STEP)
        return _measured(scorer.score_now(expected, report))

    return compile_metric(subject, measure)


def _levels(node: FieldConfig) -> int:
    """How often a value may be looked at: once on each level of the tree."""
    return 1 + max(map(_levels, (node.fields or {}).values()), default=0)


def _reference(task: ReportTask) -> Callable[[JsonValue], JsonValue]:
    given = task.reference
    if not isinstance(given, str):
        return lambda _: given
    path = Path(given)

    def read(scope: JsonValue) -> JsonValue:
        found = path.get(scope)
        if not isinstance(found, dict):
            raise TaskFault(
                Reason.TYPE, f"path {path.text!r}: expected an object, got {kind_of(found)}"
            )
        return found

    return read


def _read(path: Path, base: JsonValue) -> JsonValue:
    found = path.get(base)
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
    charge(_STEPS_PER_CHARACTER * len(found))
    return read_report(found)


def _measured(found: SectionScore) -> Measured:
    fields = list(_fields("", found))
    if found.section_score is None:
        faults = [f"{path}: {each.error}" if path else str(each.error)
                  for path, each in fields if each.error is not None]  # fmt: skip
        told = "; ".join(faults[:_TOLD_FIELDS])
        raise TaskFault(Reason.TYPE, told or "neither report nor reference has what is scored")
    short = (
        f"{path} {each.section_score:g}"
        for path, each in fields
        if path and each.section_score is not None and each.section_score < 1
    )
    return Measured(score=found.section_score, told="; ".join(islice(short, _TOLD_FIELDS)))


def _fields(path: str, found: SectionScore) -> Iterator[tuple[str, SectionScore]]:
    """The values that were compared, by their paths, in the order of the tree."""
    if not found.field_scores:
        yield path, found
    for name, each in found.field_scores.items():
        yield from _fields(f"{path}.{name}" if path else name, each)
