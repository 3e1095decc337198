"""EvalTask: a dataset, metrics, and an agent that is called if one is given."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Unpack, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.judged import evaluate_records
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.port import usual_judge
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.trajectory.rules import TrajectoryOptions, rules_of
from scouter.formats.vertex.conversations import Leading, conversations_of, lead
from scouter.formats.vertex.dataset import Row, read_dataset
from scouter.formats.vertex.metrics import (
    JudgeMetric,
    Metric,
    RowMetric,
    Scored,
    fill_template,
    read_metrics,
)
from scouter.formats.vertex.result import EvalResult, Summary, summarize
from scouter.formats.vertex.runnable import (
    FAULT,
    GIVEN,
    Patience,
    answers_of,
    caller_of,
    run_agent,
)
from scouter.model.record import EvalRecord

if TYPE_CHECKING:
    from scouter.evaluate.judge.port import AnyJudge

_PROMPT: Final = "prompt"


class EvalTask:
    """An evaluation, as `vertexai.preview.evaluation` has it, run on this machine.

    Args:
        dataset: A dataset that `read_dataset` reads.
        metrics: Names (`trajectory_exact_match`, `rouge_l_sum`, …), `TrajectorySingleToolUse`,
            `CustomMetric`, `PointwiseMetric`, an `LLMJudgeTask` or a function of a row, as many
            of each as wanted.
        metric_column_mapping: From a name that metrics read, such as `prompt`, to the dataset's
            column that has it.
        **options: Rules for comparing trajectories: the fields of `TrajectoryRules`.

    Raises:
        ConfigError: The dataset or a metric cannot be used; names the reason.
        pydantic.ValidationError: An option is wrong.
    """

    def __init__(
        self,
        dataset: object,
        metrics: Iterable[Metric],
        *,
        metric_column_mapping: Mapping[str, str] | None = None,
        **options: Unpack[TrajectoryOptions],
    ) -> None:
        self.metrics: Sequence[RowMetric | JudgeMetric] = read_metrics(metrics, rules_of(options))
        self.rows: list[Row] = _renamed(read_dataset(dataset), metric_column_mapping or {})

    def evaluate(
        self,
        runnable: object = None,
        *,
        prompt_template: str | None = None,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
        retries: int = 0,
        timeout_s: float | None = None,
        simulated_user: object = None,
    ) -> EvalResult:
        """Score every row; a fault of one leaves the others as they are.

        Rows that are turns of a conversation (`eval_id` and `turn`, as `read_eval_set` gives them)
        are asked as one, in their order. The agent is then what every replay asks: parameters
        called `session` and `history` get the conversation, `state`, `app_name`, `user_id` and
        `attachments` what the rows have, and a class is made once for each conversation.

        Args:
            runnable: The agent: a function from the prompt to a text, or to an object with
                `response` and `predicted_trajectory`, plain or async; or an object with
                `query(input=…)` as LangChain's. Without one, the dataset holds what it gave.
            prompt_template: Makes the prompt of a row's columns, as in `Say {this}`.
            judge: Answers judge metrics; by default the models that they name.
            concurrency: Most calls of the agent, and most questions to the judge, at a time.
            retries: Most times that a failed call of the agent is made again.
            timeout_s: Seconds for each call of the agent; one that takes longer has failed.
            simulated_user: Plays the users of conversations that have a plan: a function or an
                object, as for `EvalOrchestrator`.

        Raises:
            ConfigError: A column is in no row that a metric needs, the agent cannot be called, or
                a number is none that it can be.

        Cost: that of the agent and the judge by `concurrency`; else linear in the rows.
        """
        if concurrency < 1:
            raise ConfigError(f"concurrency: expected an integer from 1, got {concurrency!r}")
        patience = Patience(retries=retries, timeout_s=timeout_s)
        rows = [dict(row) for row in self.rows]
        if prompt_template is not None:
            for row in rows:
                row[_PROMPT] = fill_template(prompt_template, row)
        self._check_columns(rows, runnable is not None)
        if runnable is not None:
            conversations = conversations_of(rows)
            if conversations:
                how = Leading(user=simulated_user, concurrency=concurrency, patience=patience)
                told = lead(caller_of(runnable), conversations, how)
                rows, answers = [row for row, _ in told], answers_of([each for _, each in told])
            else:
                prompts = [row.get(_PROMPT) for row in rows]
                answers = run_agent(runnable, prompts, concurrency, patience)
            rows = [_with(row, answer) for row, answer in zip(rows, answers, strict=True)]
        return self._result(rows, self._scores(rows, judge, concurrency), runnable is not None)

    def _check_columns(self, rows: Sequence[Row], has_agent: bool) -> None:
        """Refuse what can score no row, before anybody is called."""
        columns = dict.fromkeys(name for row in rows for name in row)
        given = (*columns, *GIVEN) if has_agent else tuple(columns)
        there = ", ".join(columns) or "none"
        if has_agent and _PROMPT not in columns and rows:
            raise ConfigError(
                f"runnable: the dataset has no column {_PROMPT!r}; its columns are {there}. Give "
                "prompt_template=, or metric_column_mapping={'prompt': …}"
            )
        for metric in self.metrics if rows else ():
            for name in metric.needs:
                if name not in given:
                    raise ConfigError(
                        f"{metric.name}: needs the column {name!r}; the dataset's columns are "
                        f"{there}"
                    )

    def _scores(
        self, rows: Sequence[Row], judge: "AnyJudge | None", concurrency: int
    ) -> dict[str, list[Scored]]:
        """The columns of all metrics, by name, in their order."""
        judged = [each for each in self.metrics if isinstance(each, JudgeMetric)]
        asked = _ask(judged, rows, judge, concurrency) if judged else {}
        return {
            metric.name: asked[metric.name]
            if isinstance(metric, JudgeMetric)
            else [_score(metric, row) for row in rows]
            for metric in self.metrics
        }

    def _result(
        self, rows: list[Row], scores: Mapping[str, Sequence[Scored]], has_agent: bool
    ) -> EvalResult:
        summary: Summary = {"row_count": len(rows)}
        for name, column in scores.items():
            found = [scored.score for scored in column]
            summary |= summarize(name, found)
            summary[f"{name}/n"] = sum(score is not None for score in found)
            summary[f"{name}/n_error"] = sum(bool(scored.error) for scored in column)
            _add(rows, name, column)
        for name in ("latency_in_seconds", "failure") if has_agent else ():
            summary |= summarize(name, [row[name] for row in rows])
        return EvalResult(summary_metrics=summary, rows=rows)


def _renamed(rows: list[Row], mapping: Mapping[str, str]) -> list[Row]:
    columns = {name for row in rows for name in row}
    for name, column in mapping.items():
        if name in columns and name != column:
            raise ConfigError(f"metric_column_mapping: the dataset has a column {name!r} already")
        if column not in columns:
            raise ConfigError(
                f"metric_column_mapping: no column {column!r}; there are {', '.join(columns)}"
            )
    return [{**row, **{name: row.get(mapping[name]) for name in mapping}} for row in rows]


def _with(row: Row, answer: Row) -> Row:
    """A row with what the agent gave; other keys of the answer hide no column.

    The dataset may be the table of an earlier run: that one's failure is not this one's.
    """
    given = {name: answer[name] for name in (*GIVEN, FAULT) if name in answer}
    before = {name: cell for name, cell in row.items() if name != FAULT}
    return {**answer, **before, **given}


def _score(metric: RowMetric, row: Row) -> Scored:
    """Score a row; whatever goes wrong is this row's error."""
    if row.get(FAULT) is not None:
        return Scored(error=f"the agent failed: {row[FAULT]}")
    missing = [name for name in metric.needs if row.get(name) is None]
    if missing:
        return Scored(error=f"the row has no {', '.join(missing)}")
    try:
        return metric.score(row)
    except Exception as error:  # noqa: BLE001 — a user's function may raise anything
        return Scored(error=f"{type(error).__name__}: {error}")


def _ask(
    metrics: Sequence[JudgeMetric],
    rows: Sequence[Row],
    judge: "AnyJudge | None",
    concurrency: int,
) -> dict[str, list[Scored]]:
    """Ask the judge about each row whose agent did not fail, all metrics at a time."""
    places = [at for at, row in enumerate(rows) if row.get(FAULT) is None]
    records = [EvalRecord(context=rows[at]) for at in places]
    plan = compile_plan([metric.task for metric in metrics])
    found = evaluate_records(plan, records, None, judge or usual_judge(), concurrency)
    by_place = dict(zip(places, found, strict=True))
    return {
        metric.name: [
            _judged(by_place[at][metric.task.id])
            if at in by_place
            else Scored(error=f"the agent failed: {row[FAULT]}")
            for at, row in enumerate(rows)
        ]
        for metric in metrics
    }


def _judged(result: EvalTaskResult) -> Scored:
    """The judge's answer as a score: its number, or what its task says of it."""
    if result.outcome not in (Outcome.PASSED, Outcome.FAILED):
        return Scored(error=result.message)
    answer = result.actual
    if not isinstance(answer, dict):
        is_number = isinstance(answer, int | float) and not isinstance(answer, bool)
        score = float(cast("float", answer)) if is_number else float(result.outcome == "passed")
        return Scored(score=score)
    score = answer.get("score")
    if not isinstance(score, int | float):
        return Scored(error=f"the judge gave no score but the keys {', '.join(answer)}")
    return Scored(score=float(score), columns={k: v for k, v in answer.items() if k != "score"})


def _add(rows: Sequence[Row], name: str, column: Sequence[Scored]) -> None:
    """Write a metric's columns, the same ones for every row."""
    names = dict.fromkeys(key for scored in column for key in scored.columns)
    has_errors = any(scored.error for scored in column)
    for row, scored in zip(rows, column, strict=True):
        row.pop(f"{name}/error", None)  # of an earlier run, whose table is this dataset
        cells: dict[str, JsonValue] = {"score": scored.score}
        cells |= {key: scored.columns.get(key) for key in names}
        if has_errors:
            cells["error"] = scored.error or None
        row.update({f"{name}/{key}": value for key, value in cells.items()})
