"""Ask a judge about labelled records, as often as wanted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.agent.calibration.identity import needed
from scouter.agent.calibration.labels import Label, Vote
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.engine.compiled_task import Subject, compile_run
from scouter.evaluate.engine.judged import evaluate_records_async
from scouter.evaluate.engine.plan import Plan, compile_plan
from scouter.evaluate.judge.loops import run_apart
from scouter.evaluate.judge.port import AnyJudge
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.paths.path import Path
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord

_OVER_BUDGET: Final = f"{Outcome.SKIPPED}: {Reason.BUDGET}"

Tick: TypeAlias = Callable[[], None]
"""Called once for each outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOutcome:
    """Outcome of a judge on one record."""

    passed: bool | None
    """None where there is no outcome; `why` says why."""
    score: float | None = None
    """Value that the task compared, where it is a number."""
    why: str = ""
    """`errored: parse`, `skipped: gate` and the like."""
    message: str = ""
    """The same at length."""

    @property
    def is_over_budget(self) -> bool:
        """True where no judge was called, as the budget left too little."""
        return self.why == _OVER_BUDGET


def judge_outcome(result: EvalTaskResult) -> JudgeOutcome:
    """Read an outcome from a task's result."""
    if result.outcome in (Outcome.PASSED, Outcome.FAILED):
        actual = result.actual
        score = None if isinstance(actual, bool) or not isinstance(actual, int | float) else actual
        return JudgeOutcome(passed=result.passed, score=score)
    reason = f": {result.reason}" if result.reason else ""
    return JudgeOutcome(passed=None, why=f"{result.outcome}{reason}", message=result.message)


def ask_judge(
    profile: AgentEvalProfile,
    task: LLMJudgeTask,
    contexts: Sequence[JsonValue],
    judge: AnyJudge,
    *,
    repeats: int = 1,
    concurrency: int = 8,
    tick: Tick = lambda: None,
) -> list[list[JudgeOutcome]]:
    """Ask for one task's outcomes on records.

    Only the task and its dependencies run; no other task of the profile costs anything. Each
    labelled record is evaluated: a `sample_rate` is for live traffic, and counts as 1 here.

    Args:
        profile: Profile of the task.
        task: The task that asks.
        contexts: Contexts of the records.
        judge: Answers the questions.
        repeats: Evaluations of each record.
        concurrency: Most questions at a time.
        tick: Called once for each record and repeat.

    Returns:
        For each record its outcomes, in the order of asking.
    """
    plan = plan_of(profile.tasks, task)

    async def ask_all() -> list[list[JudgeOutcome]]:
        rounds: list[list[JudgeOutcome]] = []
        for _ in range(repeats):
            found: list[JudgeOutcome] = []
            # In portions, so that a progress bar moves; each as large as keeps the judge busy.
            for start in range(0, len(contexts), 4 * concurrency):
                part = contexts[start : start + 4 * concurrency]
                records = [EvalRecord(context=context) for context in part]
                results = await evaluate_records_async(
                    plan, records, judge=judge, concurrency=concurrency
                )
                for result in results:
                    found.append(judge_outcome(result[task.id]))
                    tick()
            rounds.append(found)
        return [list(outcomes) for outcomes in zip(*rounds, strict=True)]

    return run_apart(ask_all) if contexts else []


def _on_all(task: Task) -> Task:
    """The task, on all records in place of a part of them."""
    return task.model_copy(update={"sample_rate": 1.0}) if isinstance(task, LLMJudgeTask) else task


def scale_of(task: LLMJudgeTask) -> Callable[[float], bool]:
    """Make the function that turns a score on the judge's scale into an outcome.

    Returns:
        A function that raises `ConfigError` where the task cannot compare the score.
    """
    subject = Subject(task=task, stage=0, assertion=None, label="the score")
    compare = compile_run(subject, lambda _, __, answer: answer).run

    def passes(score: float) -> bool:
        # A whole number is compared as one, as a judge would have written it.
        value = int(score) if score == int(score) else score
        result = compare({}, None, value)
        if result.outcome not in (Outcome.PASSED, Outcome.FAILED):
            raise ConfigError(f"task {task.id!r} cannot compare a score: {result.message}")
        return result.passed

    return passes


def votes_on(
    labels: Sequence[tuple[int, Label]], task: LLMJudgeTask, path: str, problems: list[Exception]
) -> list[Vote]:
    """Pick the labels of one task; a score is compared as the judge's would be.

    Args:
        labels: With their lines.
        task: Labels that name another task are passed over.
        path: Of the file, for messages.
        problems: Gets one for each score that the task cannot compare.

    Returns:
        The labels with their lines, and whether each calls its record good.
    """
    passes = scale_of(task)
    found: list[Vote] = []
    for line, label in labels:
        if label.task and label.task.lower() != task.id:
            continue
        try:
            if label.score is not None:
                found.append(Vote(line=line, label=label, is_good=passes(label.score)))
            elif label.label is not None:
                found.append(Vote(line=line, label=label, is_good=label.label))
        except ConfigError as error:
            problems.append(FileFormatError(path, str(error), line, "score"))
    return found


def plan_of(tasks: Sequence[Task], task: LLMJudgeTask) -> Plan:
    """Compile a judge task and what it depends on; every record is judged, not a part of them."""
    return compile_plan([_on_all(each) for each in needed(tasks, task.id)])


def swapped(context: JsonValue, places: tuple[str, str]) -> JsonValue:
    """Exchange two fields of a context.

    Raises:
        ConfigError: The context has no such field.
    """
    if not isinstance(context, dict) or any(place not in context for place in places):
        keys = ", ".join(context) if isinstance(context, dict) else "no fields"
        raise ConfigError(f"--swap {','.join(places)}: the context has {keys}")
    first, second = places
    return {**context, first: context[second], second: context[first]}


def length_of(context: JsonValue, path: str) -> float | None:
    """Letters of the text that a path leads to, or of the JSON of what is there.

    Returns:
        None where the path leads nowhere.
    """
    from scouter.evaluate.judge.prompt_text import as_text
    from scouter.evaluate.outcome import TaskFault

    try:
        return float(len(as_text(Path(path or None).get(context))))
    except TaskFault:
        return None
