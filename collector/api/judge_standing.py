"""The standing of the judge behind a pass rate: corrected, unknown, or another judge."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from collector.judging.calibrations import KnownJudges
from collector.store.rates import TaskCounts, TaskQuery
from collector.store.store import Store
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.rates import in_force, rate_of_answers, together
from scouter.client.models.evaluations import JudgeStanding
from scouter.evaluate.results.judge_rate import JudgeRate
from scouter.evaluate.statistics.corrected_rate import JudgeCounts

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class JudgeStandings:
    """Looks calibrations up for counts of task results.

    Args:
        store: Has the counts of parts of the time.
        judges: Knows the calibrations of judges.
    """

    def __init__(self, store: Store, judges: KnownJudges) -> None:
        self._store, self._judges = store, judges

    def of(self, counts: TaskCounts, query: TaskQuery) -> JudgeStanding | None:
        """Say what is known of the judge of a task.

        An evaluation before the first calibration of its judge is corrected by that one, any other
        by the last one made before it.

        Args:
            counts: Of the task, by one version of its profile.
            query: The results that were counted.

        Returns:
            None of a task without a judge, and of session-scoped ones, which cannot be
            calibrated.
        """
        space, uid, task_id = query.space, counts.profile_uid, counts.task_id
        identity = self._judges.identity(space, uid, task_id)
        if identity is None:
            return None
        every = _within(self._judges.every(space, uid, task_id), query)
        if not every:
            unfit = self._judges.last(identity)
            return _standing(rate_of_answers(identity, _answers(counts), unfit), 0)
        if len(every) == 1:
            return _standing(rate_of_answers(identity, _answers(counts), every[0]), 1)
        parts = [
            rate_of_answers(identity, _answers(self._counts(counts, part)), known)
            for known, part in _parts(every, query)
        ]
        applied = sum(1 for each in parts if each.judged)
        return _standing(together(parts), max(1, applied))

    def _counts(self, whole: TaskCounts, part: TaskQuery) -> TaskCounts:
        """The counts of a task in a part of the time."""
        found = self._store.task_counts(replace(part, profile=whole.profile_uid))
        none = replace(whole, passed=0, failed=0, errored=0, skipped=0, gated=0)
        return next((each for each in found if each.task_id == whole.task_id), none)


def _within(every: Sequence[Calibration], query: TaskQuery) -> list[Calibration]:
    """Select the calibrations of a judge that were in force while the evaluations were made."""
    if not every:
        return []
    first = in_force(every, _time(query.since_ns or 0))
    until = None if query.until_ns is None else _time(query.until_ns)
    later = (each for each in every if each.created_at > first.created_at)
    return [first, *(each for each in later if until is None or each.created_at < until)]


def _parts(
    every: Sequence[Calibration], query: TaskQuery
) -> Iterator[tuple[Calibration, TaskQuery]]:
    """Cut a time where one calibration follows another."""
    starts = [query.since_ns, *(_ns(each.created_at) for each in every[1:])]
    ends = [*starts[1:], query.until_ns]
    for known, since_ns, until_ns in zip(every, starts, ends, strict=True):
        yield known, replace(query, since_ns=since_ns, until_ns=until_ns)


def _answers(counts: TaskCounts) -> JudgeCounts:
    return JudgeCounts(counts.passed, counts.passed + counts.failed)


def _standing(found: JudgeRate, calibrations: int) -> JudgeStanding:
    lower, upper = found.interval or (None, None)
    return JudgeStanding(
        standing=found.standing,
        why=found.why,
        pass_rate=found.rate,
        lower=lower,
        upper=upper,
        judged=found.judged,
        calibration=found.calibration,
        calibrations=calibrations,
        is_by_record=True,
    )


def _time(ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ns / 10**9, datetime.UTC)


def _ns(time: datetime.datetime) -> int:
    return (time - _EPOCH) // datetime.timedelta(microseconds=1) * 1000
