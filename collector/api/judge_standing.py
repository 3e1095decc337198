"""The standing of the judge behind a pass rate: corrected, unknown, or another judge."""

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from collector.judging.known_judges import KnownJudges
from collector.storage.port.counts import TaskCounts, TaskQuery
from collector.storage.port.rows import EvaluationRow
from collector.storage.port.store import Store
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity
from scouter.agent.calibration.known import in_force
from scouter.agent.calibration.rates import rate_of_counts, together
from scouter.client.models.tasks import JudgeStanding
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeRate

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST_LABELLED: Final = 10_000
"""Evaluations on records with the ids of labelled ones; a few tens of megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Period and service version of the evaluations that were counted."""

    since_ns: int | None
    until_ns: int | None
    service_version: str | None = None


class JudgeStandings:
    """Looks calibrations up for counts of task results.

    Args:
        store: Has the evaluations on labelled records.
        judges: Knows the calibrations of judges.
    """

    def __init__(self, store: Store, judges: KnownJudges) -> None:
        self._store, self._judges = store, judges

    def reader(self, space: str) -> "StandingReader":
        """For the counts of one answer."""
        return StandingReader(self._store, self._judges, space)


class StandingReader:
    """The same for one answer, which reads evaluations on labelled records once.

    Args:
        store: Has the evaluations on labelled records.
        judges: Knows the calibrations of judges.
        space: Of the counts.
    """

    def __init__(self, store: Store, judges: KnownJudges, space: str) -> None:
        self._store, self._judges, self._space = store, judges, space
        self._labelled: dict[int, Sequence[EvaluationRow] | None] = {}
        """By the calibration; None where its labels name more records than are looked at."""

    def of(self, counts: TaskCounts, span: Span) -> JudgeStanding | None:
        """Say what is known of the judge of a task.

        An evaluation before the first calibration of its judge is corrected by that one, any other
        by the last one made before it.

        Args:
            counts: Of the task, by one version of its profile.
            span: Period of the counts.

        Returns:
            None of a task that asks no judge, and of session-scoped ones, which cannot be
            calibrated.
        """
        uid, task_id = counts.profile_uid, counts.task_id
        identity = self._judges.identity(self._space, uid, task_id)
        if identity is None:
            return None
        every = _within(self._judges.every(self._space, uid, task_id), span)
        if not every:
            unfit = self._judges.last(identity)
            decided = counts.passed + counts.failed
            return _standing(rate_of_counts(identity, counts.passed, decided, unfit), 0)
        if len(every) == 1:
            return _standing(self._rate(identity, every[0], counts, span), 1)
        parts = [
            self._rate(identity, known, self._counts(counts, part), part)
            for known, part in _parts(every, span)
        ]
        applied = sum(1 for each in parts if each.judged)
        return _standing(together(parts), max(1, applied))

    def _counts(self, whole: TaskCounts, part: Span) -> TaskCounts:
        """The counts of a task in a part of the time."""
        query = TaskQuery(
            space=self._space,
            profile=whole.profile_uid,
            service_version=part.service_version,
            since_ns=part.since_ns,
            until_ns=part.until_ns,
        )
        found = self._store.task_counts(query)
        none = replace(whole, passed=0, failed=0, errored=0, skipped=0, gated=0)
        return next((each for each in found if each.task_id == whole.task_id), none)

    def _rate(
        self, identity: Identity, known: Calibration, counts: TaskCounts, span: Span
    ) -> JudgeRate:
        """The rate by one calibration; evaluations on labelled records count as labels only."""
        decided = counts.passed + counts.failed
        rows = self._on_labelled(known)
        if rows is None:
            found = rate_of_counts(identity, counts.passed, decided, known)
            why = (
                f"more than {_MOST_LABELLED:,} evaluations are on records with the ids of labelled "
                "ones, which would have to be left out; name labelled records by uid"
            )
            update = {"standing": "cannot_say", "why": why, "rate": None, "interval": None}
            return found.model_copy(update=update)
        outcomes = [
            task.outcome
            for row in rows
            if row.profile_uid == counts.profile_uid and _is_in(row, span)
            for task in row.tasks
            if task.task_id == counts.task_id
        ]
        passed = outcomes.count(Outcome.PASSED)
        labelled = passed + outcomes.count(Outcome.FAILED)
        return rate_of_counts(identity, counts.passed - passed, decided - labelled, known, labelled)

    def _on_labelled(self, known: Calibration) -> Sequence[EvaluationRow] | None:
        """The evaluations on labelled records, by uid and by the user's id; None for too many."""
        if id(known) not in self._labelled:
            keys = [(self._space, uid) for uid in known.labelled_uids]
            by_uid = self._store.latest_evaluations(keys)
            by_id = self._store.evaluations_of_ids(self._space, known.labelled_ids, _MOST_LABELLED)
            if by_id is None:
                self._labelled[id(known)] = None
            else:
                more = [row for row in by_id if (row.space, row.record_uid) not in by_uid]
                self._labelled[id(known)] = [*by_uid.values(), *more]
        return self._labelled[id(known)]


def _within(every: Sequence[Calibration], span: Span) -> list[Calibration]:
    """Select the calibrations of a judge that were in force while the evaluations were made."""
    if not every:
        return []
    first = in_force(every, _time(span.since_ns or 0))
    until = None if span.until_ns is None else _time(span.until_ns)
    later = (each for each in every if each.created_at > first.created_at)
    return [first, *(each for each in later if until is None or each.created_at < until)]


def _parts(every: Sequence[Calibration], span: Span) -> Iterator[tuple[Calibration, Span]]:
    """Cut a time where one calibration follows another."""
    starts = [span.since_ns, *(_ns(each.created_at) for each in every[1:])]
    ends = [*starts[1:], span.until_ns]
    for known, since_ns, until_ns in zip(every, starts, ends, strict=True):
        yield known, replace(span, since_ns=since_ns, until_ns=until_ns)


def _is_in(row: EvaluationRow, span: Span) -> bool:
    return (
        (span.since_ns is None or row.evaluated_ns >= span.since_ns)
        and (span.until_ns is None or row.evaluated_ns < span.until_ns)
        and span.service_version in (None, row.service_version)
    )


def _standing(found: JudgeRate, calibrations: int) -> JudgeStanding:
    lower, upper = found.interval or (None, None)
    return JudgeStanding(
        standing=found.standing,
        why=found.why,
        pass_rate=found.rate,
        lower=lower,
        upper=upper,
        judged=found.judged,
        labelled=found.labelled,
        calibration=found.calibration,
        calibrations=calibrations,
    )


def _time(ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ns / 10**9, datetime.UTC)


def _ns(time: datetime.datetime) -> int:
    return (time - _EPOCH) // datetime.timedelta(microseconds=1) * 1000
