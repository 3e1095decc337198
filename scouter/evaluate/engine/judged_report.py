"""Report tasks with a judge: its questions before it is asked, the score of the report after."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import JsonValue

from scouter.evaluate.engine.asking_task import Asking, AskingTask, ResultAndAnswer
from scouter.evaluate.engine.compiled_task import Subject, errored
from scouter.evaluate.engine.judge_task import JudgeTask, compile_judge
from scouter.evaluate.engine.metric import Metric
from scouter.evaluate.engine.report import Reports, measured
from scouter.evaluate.judge.asked_judge import AskedJudge
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.judge.talk import JudgeTalk
from scouter.evaluate.judge.task_judge import TaskJudge
from scouter.evaluate.judge.usage import sum_of
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.report.field_judge import FieldJudge
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedReport(AskingTask):
    """Asks about all fields of one report at once, each as a judge task of its own would."""

    task: ReportTask
    reports: Reports
    field: JudgeTask
    """Asks about one value, whose score it takes from the answer."""
    metric: Metric

    @staticmethod
    def of(task: ReportTask, prompt: Prompt, subject: Subject) -> "JudgedReport":
        """Prepare for many records.

        Args:
            task: The task.
            prompt: The question about one value.
            subject: Fields that the task's results share.

        Raises:
            ConfigError: A path, a template or the prompt can never work.
        """
        metric = Metric.of(subject)
        asked = LLMJudgeTask(
            task.id,
            prompt,
            0,
            "score",
            "GreaterThanOrEqual",  # passes for every score there is
            max_retries=task.max_retries,
            scale=(0, 1),
            samples=task.samples,
            vote="median",
        )
        return JudgedReport(
            spec=metric.spec,
            task=task,
            reports=Reports.of(task),
            field=compile_judge(asked, subject.stage),
            metric=metric,
        )

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
            TaskFault: There is no report or no reference; raised before anything is asked.
        """
        del spans
        fields = _Fields(task=self.field, record_uid=record_uid)
        walk = self.reports.scoring(self.reports.pair(scope, base), fields)
        try:
            score = yield from walk.__await__()
            result = self.metric.result(measured(score), scope)
        except Exception as error:  # noqa: BLE001 — what was asked is paid for and has to be told
            result = self.fault(error)
        for name, (found, _) in fields.in_order:
            if found.outcome is Outcome.SKIPPED:  # not the judge's failure
                result = self._skipped(Reason.BUDGET, f"{name}: {found.message}")
                break
        usages = [found.usage for _, (found, _) in fields.in_order if found.usage is not None]
        if usages:
            result = result.using(sum_of(usages), fields.talk)
        return result, result.actual


@dataclass(frozen=True, slots=True)
class _Asked:
    """Waits for what comes of the questions about one field."""

    steps: Asking

    def __await__(self) -> Asking:
        return self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields(FieldJudge):
    """Asks about fields, each as a judge task of its own would."""

    task: JudgeTask
    record_uid: str
    asked: AskedJudge = field(default_factory=TaskJudge)
    names: list[str] = field(default_factory=list[str])
    """In the order in which they were asked about."""
    outcomes: dict[int, ResultAndAnswer] = field(default_factory=dict[int, ResultAndAnswer])
    """By the number of the field in that order."""

    async def single(self, name: str, actual: JsonValue, reference: JsonValue) -> float:
        """Ask about one value.

        Raises:
            JudgeError: The judge gave no score.
        """
        given: dict[str, JsonValue] = {"field": name, "reference": reference, "actual": actual}
        value: dict[str, JsonValue] = {
            key: "" if each is None else each for key, each in given.items()
        }
        at = len(self.names)
        self.names.append(name)
        try:
            found = await _Asked(self.task.ask(value, self.record_uid, value))
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
    def talk(self) -> JudgeTalk | None:
        """The question about the first field, and the answers about all."""
        first = next((each.talk for _, (each, _) in self.in_order if each.talk is not None), None)
        answers: list[JsonValue] = [
            {"field": name, "answer": answer} for name, (_, answer) in self.in_order
        ]
        return None if first is None else JudgeTalk(messages=first.messages, answer=answers)
