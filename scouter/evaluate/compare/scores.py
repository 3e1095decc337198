"""Scores in two runs: by how much the mean of a task's scores moved.

Only of tasks whose scores say more than passed or failed; what those do is in the rates. Nothing
is decided by scores.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Final, NamedTuple, Protocol, cast

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.compare.pairing import Identity, Matched, Row
from scouter.evaluate.intervals import Interval
from scouter.evaluate.results.attempt import ScenarioAttempt
from scouter.evaluate.results.run import RunResults
from scouter.evaluate.results.score import ASSERTIONS
from scouter.evaluate.statistics.clustered_mean import clustered_mean

_PLAIN: Final = (0.0, 1.0)


class ScoreChange(BaseModel):
    """One task's scores in both runs.

    A record counts as one, with the mean of its attempts; means and difference are over the
    records that have a score in both runs.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    alias: str | None = None
    """None for tasks of scenarios, and where there is one dataset only."""
    task_id: str
    records: int
    """Records, or scenarios, with a score in both runs."""
    conversations: int
    """Conversations that these records belong to."""
    baseline_count: int
    """Results of the baseline that have a score."""
    comparison_count: int
    baseline_mean: float
    comparison_mean: float
    difference: float
    """New mean minus old mean."""
    interval: Interval | None
    """95 % interval of the difference, for independent conversations; None below six of them."""


class _Scored(Protocol):
    """Fields of a task result that the comparison of scores reads."""

    @property
    def task_id(self) -> str: ...
    @property
    def task_type(self) -> str: ...
    @property
    def score(self) -> float | None: ...


class _RecordKey(NamedTuple):
    """A record, whatever the attempt, and the conversation that it belongs to."""

    record: Hashable
    conversation: Hashable


Scores = dict[str, dict[_RecordKey, list[float]]]
"""Scores of the attempts, by task and record."""


def score_changes(matched: Matched, alias: str | None = None) -> tuple[ScoreChange, ...]:
    """Compare the scores of one alias' tasks.

    Args:
        matched: The records of both runs, side by side.
        alias: Its name, if it has one.

    Returns:
        One row per task with scores other than 0 and 1, in the tasks' order.

    Cost: linear in the number of task results.
    """
    paired, _ = matched.clusters()
    clusters: dict[Identity, Hashable] = {}
    for pair, cluster in zip(matched.pairs, paired, strict=True):
        clusters.setdefault(pair.old.identity, cluster)

    def read(rows: Iterable[Row]) -> Scores:
        return _by_task(
            (_RecordKey(row.identity, clusters.get(row.identity, row.identity)), _tasks_of(row))
            for row in rows
        )

    return tuple(_changes(alias, read(matched.old_rows), read(matched.new_rows)))


def scenario_score_changes(baseline: RunResults, new: RunResults) -> tuple[ScoreChange, ...]:
    """Compare the scores of the scenarios' own tasks; a scenario is a conversation.

    Args:
        baseline: The run to hold against.
        new: The run in question.

    Returns:
        One row per task with scores other than 0 and 1.
    """

    def read(results: Iterable[ScenarioAttempt]) -> Scores:
        return _by_task(
            (_RecordKey(each.scenario_id, each.scenario_id), _own_tasks(each)) for each in results
        )

    old, now = read(baseline.scenario_results), read(new.scenario_results)
    return tuple(_changes(None, old, now))


def _tasks_of(row: Row) -> Mapping[str, _Scored]:
    return cast("Mapping[str, _Scored]", row.tasks)


def _own_tasks(result: ScenarioAttempt) -> Mapping[str, _Scored]:
    """The full results: a summary in an older file knows no score of a judge."""
    rows = () if result.eval_results is None else result.eval_results.records
    return {task.task_id: task for row in rows for task in row.tasks}


def _by_task(rows: Iterable[tuple[_RecordKey, Mapping[str, _Scored]]]) -> Scores:
    found: Scores = {}
    measuring: dict[tuple[str, ...], list[str]] = {}
    """Ids of the tasks of a row that are no assertions, by all its tasks; one run has one plan."""
    for key, tasks in rows:
        names = tuple(tasks)
        if names not in measuring:
            measuring[names] = [n for n in names if tasks[n].task_type not in ASSERTIONS]
        for name in measuring[names]:
            if (score := tasks[name].score) is not None:
                found.setdefault(name, {}).setdefault(key, []).append(score)
    return found


def _changes(alias: str | None, old: Scores, now: Scores) -> Iterator[ScoreChange]:
    for task_id, before in old.items():
        after = now.get(task_id, {})
        both = [key for key in before if key in after]
        if not both or not _says_more(before, after):
            continue
        means = {key: (fmean(before[key]), fmean(after[key])) for key in both}
        clusters: dict[Hashable, list[float]] = {}
        for key, (was, is_now) in means.items():
            clusters.setdefault(key.conversation, []).append(is_now - was)
        found = clustered_mean(list(clusters.values()))
        yield ScoreChange(
            alias=alias,
            task_id=task_id,
            records=len(both),
            conversations=len(clusters),
            baseline_count=sum(map(len, before.values())),
            comparison_count=sum(map(len, after.values())),
            baseline_mean=fmean(was for was, _ in means.values()),
            comparison_mean=fmean(is_now for _, is_now in means.values()),
            difference=found.mean,
            interval=found.interval,
        )


def _says_more(*runs: Mapping[_RecordKey, list[float]]) -> bool:
    return any(score not in _PLAIN for run in runs for scores in run.values() for score in scores)
