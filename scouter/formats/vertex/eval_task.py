"""EvalTask: a dataset, metrics, and an agent that is called if one is given."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest, as_judge, usual_judge
from scouter.evaluate.trajectory.rules import TrajectoryOptions, rules_of
from scouter.formats.turns import ALIAS
from scouter.formats.vertex.asking import RowOrchestrator
from scouter.formats.vertex.cases import GIVEN, NAMES, PROMPT, cases_of
from scouter.formats.vertex.dataset import Row, read_dataset, refuse_elsewhere
from scouter.formats.vertex.metrics import Metric, RowMetric, fill_template, read_metrics
from scouter.formats.vertex.result import EvalResult, result_of, write_results
from scouter.replay.named_run import NamedRun, Ran, run_both
from scouter.replay.recorded import judge_stored

if TYPE_CHECKING:
    from scouter.evaluate.judge.port import AnyJudge

_COPY: Final = "give a folder, and copy it with `gcloud storage cp -r FOLDER {}`"
_QUIET: Final = "none"
"""No file keeps a judge's answers where nobody named one."""


class EvalTask:
    """An evaluation, as `vertexai.preview.evaluation` has it, run on this machine.

    Args:
        dataset: A dataset that `read_dataset` reads.
        metrics: Names (`trajectory_exact_match`, `rouge_l_sum`, `safety`, …),
            `TrajectorySingleToolUse`, `CustomMetric`, `PointwiseMetric`, an `LLMJudgeTask` or a
            function of a row, as many of each as wanted.
        metric_column_mapping: From a name that metrics read, such as `prompt`, to the dataset's
            column that has it.
        experiment: Name of the evaluation; runs of one name belong together.
        output_uri_prefix: Folder for the rows and the summary of each run.
        min_scores: By metric, the score from which on a row passes, where the metric does not say
            it itself.
        criteria: By metric, the mean over its rows from which on a case passes; it decides then,
            and no row's score does.
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
        experiment: str | None = None,
        output_uri_prefix: str | Path | None = None,
        min_scores: Mapping[str, float] | None = None,
        criteria: Mapping[str, float] | None = None,
        **options: Unpack[TrajectoryOptions],
    ) -> None:
        if output_uri_prefix is not None:
            refuse_elsewhere(str(output_uri_prefix), _COPY)
        least, criteria = min_scores or {}, criteria or {}
        found = read_metrics(metrics, rules_of(options))
        known = [metric.name for metric in found]
        for name in least:
            if name not in known:
                raise ConfigError(f"no metric {name!r} is scored; they are {', '.join(known)}")
        self.metrics: Sequence[RowMetric] = [
            each.undecided() if each.name in criteria else each.at_least(least.get(each.name))
            for each in found
        ]
        tasks = [each.task for each in self.metrics]
        tasks += [each.of_case(criteria[each.name]) for each in found if each.name in criteria]
        self.profile = AgentEvalProfile(tasks, alias=ALIAS)
        self.rows: list[Row] = _renamed(read_dataset(dataset), metric_column_mapping or {})
        self.experiment, self.output = experiment, output_uri_prefix

    def evaluate(
        self,
        runnable: Any = None,  # noqa: ANN401 - a function, or an object with `query`
        *,
        prompt_template: str | None = None,
        judge: "AnyJudge | None" = None,
        concurrency: int = 8,
        retries: int = 0,
        timeout_s: float | None = None,
        simulated_user: object = None,
        experiment_run_name: str | None = None,
        evaluation_service_qps: float | None = None,
    ) -> EvalResult:
        """Score every row; a fault of one leaves the others as they are.

        Rows that are turns of a conversation (`eval_id` and `turn`, as `read_eval_set` gives them)
        are led as one, in their order. The agent is what every replay asks: parameters called
        `session` and `history` get the conversation, `state`, `app_name`, `user_id` and
        `attachments` what the rows have, and a class is made once for each conversation. Calls
        that its answer does not tell are read from its spans.

        Args:
            runnable: The agent: a function from the prompt to a text, or to an object with
                `response` and `predicted_trajectory`, plain or async; or an object with
                `query(input=…)` as LangChain's. Without one, the dataset holds what it gave.
            prompt_template: Makes the prompt of a row's columns, as in `Say {this}`.
            judge: Answers judge metrics; by default the models that they name.
            concurrency: Most cases, and most questions to the judge, at a time.
            retries: Most times that a case whose agent failed runs again.
            timeout_s: Seconds for each case; one that takes longer has failed.
            simulated_user: Plays the users of conversations that have a plan: a function or an
                object, as for `EvalOrchestrator`.
            experiment_run_name: Name of the run: the agent's version in its results.
            evaluation_service_qps: Most questions to the judge in a second.

        Raises:
            ConfigError: A column is in no row that a metric needs, the agent cannot be called, or
                a number is none that it can be.

        Cost: that of the agent and the judge by `concurrency`; else linear in the rows.
        """
        if concurrency < 1:
            raise ConfigError(f"concurrency: expected an integer from 1, got {concurrency!r}")
        if evaluation_service_qps is not None:
            judge = PacedJudge(judge or usual_judge(), evaluation_service_qps)
        run = NamedRun(
            agent=runnable,
            judge=judge,
            judge_cache=_QUIET,
            simulated_user=simulated_user,
            concurrency=concurrency,
            retries=retries,
            timeout_s=timeout_s,
            progress=False,
            agent_version=experiment_run_name or "",
        )
        _, found = self.run(run, has_agent=runnable is not None, prompt_template=prompt_template)
        names = {"experiment": self.experiment, "experiment_run": experiment_run_name}
        given = {name: value for name, value in names.items() if value is not None}
        found = replace(found, metadata=given or None)
        if self.output is not None:
            write_results(Path(self.output) / (experiment_run_name or ""), found)
        return found

    def run(
        self, run: NamedRun, *, has_agent: bool, prompt_template: str | None = None
    ) -> tuple[Ran, EvalResult]:
        """Do what `evaluate` does, by a run whose parts may be named.

        Args:
            run: The agent, the judge, and how to run; its profiles judge beside the metrics.
            has_agent: False scores the answers that the dataset holds.
            prompt_template: See `evaluate`.
        """
        rows = [dict(row) for row in self.rows]
        if prompt_template is not None:
            for row in rows:
                row[PROMPT] = fill_template(prompt_template, row)
        self._check_columns(rows, has_agent)
        cases = cases_of(rows)
        scenarios = cases.scenarios(self.experiment)
        run = replace(run, profiles=(self.profile, *run.profiles))
        if has_agent:
            lead = partial(RowOrchestrator, cases)
            ran = run_both(scenarios, replace(run, orchestrator=lead, arguments=NAMES))
        else:
            results = judge_stored(scenarios, run, cases.collect_stored)
            ran = Ran(results=results, baseline=run.baseline)
        return ran, result_of(ran.results, cases, self.metrics, has_agent=has_agent)

    def _check_columns(self, rows: Sequence[Row], has_agent: bool) -> None:
        """Refuse what can score no row, before anybody is called."""
        columns = dict.fromkeys(name for row in rows for name in row)
        given = (*columns, *GIVEN) if has_agent else tuple(columns)
        there = ", ".join(columns) or "none"
        if has_agent and PROMPT not in columns and rows:
            raise ConfigError(
                f"runnable: the dataset has no column {PROMPT!r}; its columns are {there}. Give "
                "prompt_template=, or metric_column_mapping={'prompt': …}"
            )
        for metric in self.metrics if rows else ():
            for name in metric.needs:
                if name not in given:
                    raise ConfigError(
                        f"{metric.name}: needs the column {name!r}; the dataset's columns are "
                        f"{there}"
                    )


class PacedJudge:
    """A judge that gets so many questions a second at most.

    Args:
        judge: Answers.
        per_second: Most questions.
        clock: Gives seconds.
        sleep: Waits seconds.

    Raises:
        ConfigError: The number is not above 0, or there is no such judge.
    """

    def __init__(
        self,
        judge: "AnyJudge",
        per_second: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        if not per_second > 0:
            raise ConfigError(f"evaluation_service_qps: expected a number above 0: {per_second!r}")
        self.judge = as_judge(judge)
        self._gap_s, self._clock, self._sleep = 1 / per_second, clock, sleep
        self._free = clock()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask when it is the question's turn."""
        now = self._clock()
        begin = max(now, self._free)
        self._free = begin + self._gap_s
        await self._sleep(begin - now)
        return await self.judge.ask(request)


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
