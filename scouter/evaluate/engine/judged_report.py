"""Report tasks with a judge: its questions before it is asked, the score of the report after."""

from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.engine.asking_task import Asking, AskingTask, Reply, ResultAndAnswer, together
from scouter.evaluate.engine.compiled_task import Subject
from scouter.evaluate.engine.judge_task import JudgeTask, compile_judge
from scouter.evaluate.engine.metric import Metric
from scouter.evaluate.engine.report import Pair, Reports, measured
from scouter.evaluate.judge.port import JudgeError, JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.judge.talk import JudgeTalk
from scouter.evaluate.judge.usage import sum_of
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.report import ReportTask

_Rounds: TypeAlias = Generator[
    Sequence[JudgeRequest], Sequence[Reply], Mapping[int, ResultAndAnswer]
]
_T = TypeVar("_T")
_NOT_YET: Final = 0.0
"""Stands for a score while it is only noted what to ask; no question depends on it."""


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

    def ask(
        self, scope: JsonValue, record_uid: str, base: JsonValue, spans: SpanTree | None = None
    ) -> Asking:
        """Ask about one report until it has a score.

        Raises:
            TaskFault: There is no report or no reference; raised before anything is asked.
        """
        del spans
        pair = self.reports.pair(scope, base)
        values = self._values(pair)
        asking = {at: self.field.ask(value, record_uid, value) for at, value in enumerate(values)}
        outcomes = yield from _requests(asking, self.field)
        found = [outcomes[at] for at in range(len(values))]
        result = self._result(values, found, pair, scope)
        usages = [each.usage for each, _ in found if each.usage is not None]
        if usages:
            result = result.using(sum_of(usages), _talk(values, found))
        return result, result.actual

    def _values(self, pair: Pair) -> list[dict[str, JsonValue]]:
        """The values that the judge is asked about, in the order of the tree."""
        noted = _Noted()
        self.reports.score(pair, noted)
        return noted.values

    def _result(
        self,
        values: Sequence[Mapping[str, JsonValue]],
        found: Sequence[ResultAndAnswer],
        pair: Pair,
        scope: JsonValue,
    ) -> EvalTaskResult:
        for value, (result, _) in zip(values, found, strict=True):
            if result.outcome is Outcome.SKIPPED:  # not the judge's failure
                return self._skipped(Reason.BUDGET, f"{value['field']}: {result.message}")
        try:
            score = self.reports.score(pair, _Told(iter(found)))
            return self.metric.result(measured(score), scope)
        except Exception as error:  # noqa: BLE001 — what was asked is paid for and has to be told
            return self.fault(error)


def _requests(asking: Mapping[int, Asking], field: JudgeTask) -> _Rounds:
    """Ask about all fields together."""
    steps = together(asking, lambda _, error: field.fault(error))
    try:
        asked = next(steps)
        while True:
            asked = steps.send((yield [request for _, request in asked]))
    except StopIteration as end:
        return cast("Mapping[int, ResultAndAnswer]", end.value)


class _Judge:
    """A judge of fields who is never waited for."""

    async def discover(
        self,
        reference: Mapping[str, JsonValue],
        actual: Mapping[str, JsonValue],
        fields: Sequence[str],
    ) -> NoReturn:
        """Refuse: a task with such fields cannot be made."""
        raise DataError("a Report task discovers no fields")

    async def gather(self, walks: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
        """Go through the fields in turn, as each answer is that of a question in this order."""
        return [await walk for walk in walks]


@dataclass(slots=True)
class _Noted(_Judge):
    """Notes what is to be asked."""

    values: list[dict[str, JsonValue]] = field(default_factory=list[dict[str, JsonValue]])

    async def single(self, name: str, actual: JsonValue, reference: JsonValue) -> float:
        """Note one value."""
        value: dict[str, JsonValue] = {"field": name, "reference": reference, "actual": actual}
        self.values.append({key: "" if each is None else each for key, each in value.items()})
        return _NOT_YET


@dataclass(slots=True)
class _Told(_Judge):
    """Tells the scores that a judge gave, in the order in which they were noted."""

    outcomes: Iterator[ResultAndAnswer]

    async def single(self, name: str, actual: JsonValue, reference: JsonValue) -> float:
        """Tell the next score.

        Raises:
            JudgeError: The judge gave none.
        """
        result, _ = next(self.outcomes)
        if result.outcome is not Outcome.PASSED:
            raise JudgeError(result.reason or Reason.PARSE, result.message)
        return cast("float", result.actual)


def _talk(
    values: Sequence[Mapping[str, JsonValue]], found: Sequence[ResultAndAnswer]
) -> JudgeTalk | None:
    """The question about the first field, and the answers about all."""
    first = next((each.talk for each, _ in found if each.talk is not None), None)
    answers: list[JsonValue] = [
        {"field": value["field"], "answer": answer}
        for value, (_, answer) in zip(values, found, strict=True)
    ]
    return None if first is None else JudgeTalk(messages=first.messages, answer=answers)
