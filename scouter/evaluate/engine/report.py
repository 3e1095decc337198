"""Report tasks, compiled: a report of the context against a reference, field by field."""

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.engine.asking_task import Asking, AskingTask, ResultAndAnswer
from scouter.evaluate.engine.compiled_task import (
    CompiledTask,
    Measured,
    Metric,
    Subject,
    compile_metric,
    errored,
)
from scouter.evaluate.engine.judge_task import JudgeTask, compile_judge
from scouter.evaluate.judge.ask import JudgeCaller, TaskJudge, result_of
from scouter.evaluate.judge.loops import at_once
from scouter.evaluate.judge.port import JudgeError, sum_of
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.operators.show import kind_of
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.report.field_judge import FieldJudge
from scouter.evaluate.report.field_metrics import AVERAGE, FieldConfig, as_text
from scouter.evaluate.report.tree import SectionScore, TreeScorer, read_report
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask

MOST_TEXT: Final = 100_000
"""Characters of a report in Markdown."""
MOST_COMPARED: Final = 8_000_000
"""Characters of a report and its reference times levels of the tree of fields."""
_SHOWN_FIELDS: Final = 5
"""Fields that are named in the message of a result."""

Pair: TypeAlias = tuple[JsonValue, JsonValue]
"""A report and its reference."""


def compile_report(task: ReportTask, subject: Subject) -> "CompiledTask | JudgedReport":
    """Turn a report task into a function from record to result; one with a judge into its halves.

    Raises:
        ConfigError: A path, a template or the prompt can never work.
    """
    reports = Reports.of(task)
    if task.prompt is not None:
        judge_task = LLMJudgeTask(
            task.id,
            task.prompt,
            0,
            "score",
            "GreaterThanOrEqual",  # passes for every score there is
            max_retries=task.max_retries,
            scale=(0, 1),
            samples=task.samples,
            vote="median",
        )
        field, metric = compile_judge(judge_task, subject.stage), Metric.of(subject)
        return JudgedReport(
            spec=metric.spec, task=task, reports=reports, field=field, metric=metric
        )

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
        reported = "; ".join(
            f"{path}: {each.error}" if path else str(each.error)
            for path, each in faults[:_SHOWN_FIELDS]
        )
        reason = (faults[0][1].reason if faults else None) or Reason.TYPE
        raise TaskFault(reason, reported or "neither report nor reference has what is scored")
    short = (
        f"{path} {each.section_score:g}"
        for path, each in fields
        if path and each.section_score is not None and each.section_score < 1
    )
    return Measured(score=found.section_score, detail="; ".join(islice(short, _SHOWN_FIELDS)))


def _fields(path: str, found: SectionScore) -> Iterator[tuple[str, SectionScore]]:
    """The values that were compared, by their paths, in the order of the tree.

    The error of a section that is an average only repeats those of its fields.
    """
    if not found.field_scores or found.method != AVERAGE:
        yield path, found
    for name, each in found.field_scores.items():
        yield from _fields(f"{path}.{name}" if path else name, each)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReport(AskingTask):
    """Asks about all fields of one report at once, each as a judge task of its own would."""

    task: ReportTask
    reports: Reports
    field: JudgeTask
    """Asks about one value, whose score it takes from the answer."""
    metric: Metric

    def basis(self, scope: JsonValue, base: JsonValue) -> Sequence[JsonValue]:
        """All that an outcome follows from, beside the task, the questions and the answers."""
        return [*AskingTask.basis(self, scope, base), *self.reports.raw(scope, base)]

    def fault(self, error: Exception) -> EvalTaskResult:
        """The result where there is no score; its message begins with the task's label."""
        return errored(self.spec, self.task.expected_value, None, error)

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None = None
    ) -> Asking:
        """Ask about one report until it has a score.

        Raises:
            TaskFault: There is no report or no reference; raised before any call.
        """
        del spans
        fields = _Fields(task=self.field, record_uid=record_uid)
        walk = self.reports.scoring(self.reports.pair(scope, base), fields)
        try:
            score = yield from walk.__await__()
            result = self.metric.result(measured(score), scope)
        except Exception as error:  # noqa: BLE001 — the calls are paid for and has to be reported
            result = self.fault(error)
        for name, (found, _) in fields.in_order:
            if found.outcome is Outcome.SKIPPED:  # not the judge's failure
                result = self._skipped(Reason.BUDGET, f"{name}: {found.message}")
                break
        usages = [found.usage for _, (found, _) in fields.in_order if found.usage is not None]
        if usages:
            result = result.using(sum_of(usages), fields.exchange)
        return result, result.actual


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields(FieldJudge):
    """Asks about fields, each as a judge task of its own would."""

    task: JudgeTask
    record_uid: str
    caller: JudgeCaller = field(default_factory=TaskJudge)
    names: list[str] = field(default_factory=list[str])
    """In the order of their questions."""
    outcomes: dict[int, ResultAndAnswer] = field(default_factory=dict[int, ResultAndAnswer])
    """By the number of the field in that order."""

    async def single(self, name: str, actual: JsonValue, reference: JsonValue) -> float:
        """Ask about one value.

        Raises:
            JudgeError: The judge gave no score.
        """
        given = {"field": name, "reference": reference, "actual": actual}
        value: JsonValue = {key: "" if each is None else each for key, each in given.items()}
        at = len(self.names)
        self.names.append(name)
        try:
            found = await result_of(self.task.ask(value, self.record_uid, value))
        except Exception as error:  # noqa: BLE001 — one field never touches another
            found = self.task.fault(error), None
        self.outcomes[at] = found
        result, _ = found
        if result.outcome is not Outcome.PASSED:
            raise JudgeError(result.reason or Reason.PARSE, result.message)
        return cast("float", result.actual)

    @property
    def in_order(self) -> list[tuple[str, ResultAndAnswer]]:
        """Fields with what came of them."""
        return [(name, self.outcomes[at]) for at, name in enumerate(self.names)]

    @property
    def exchange(self) -> JudgeExchange | None:
        """The question about the first field, and the answers about all."""
        first = next(
            (each.exchange for _, (each, _) in self.in_order if each.exchange is not None), None
        )
        answers: list[JsonValue] = [
            {"field": name, "answer": answer} for name, (_, answer) in self.in_order
        ]
        return None if first is None else JudgeExchange(messages=first.messages, answer=answers)
