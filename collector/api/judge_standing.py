"""What is known of the judge behind a pass rate."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from collector.pipeline.profiles import ProfileRegistry
from collector.receivers.times import format_time
from collector.storage.port import Store
from collector.storage.rows import EvaluationRow, TaskCounts
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity, identify
from scouter.agent.calibration.known import Calibrations
from scouter.agent.calibration.rates import rate_of_counts
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.judge_rate import JudgeKnown, JudgeRate, Standing
from scouter.evaluate.outcome import Outcome

_ENTRY: Final = ""
"""A collector's judges are provider entries, and never a callable of somebody's."""


class JudgeStanding(BaseModel):
    """The rate that people would give, as far as a calibration of this very judge can tell."""

    model_config = ConfigDict(frozen=True)

    standing: Standing = Field(
        description="corrected; cannot_say: the labels are too few, or several calibrations were "
        "in force; another_judge: the calibrated judge was asked otherwise, and nothing of it is "
        "applied; not_calibrated."
    )
    why: str = Field(description="Why there is no corrected rate; empty if there is one.")
    pass_rate: float | None = Field(description="As people would say.")
    lower: float | None = Field(description="Of its 95 % interval.")
    upper: float | None
    judged: int = Field(description="Records that the judge passed or failed, labelled ones not.")
    labelled: int = Field(description="Of the results, those on labelled records.")
    calibration: JudgeKnown | None = Field(description="What was applied.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Of the verdicts that were counted: when they were made, and on which service version."""

    since_ns: int | None
    until_ns: int | None
    service_version: str | None = None


class JudgeStandings:
    """Looks calibrations up for counts of task results.

    Args:
        store: Has the verdicts on labelled records.
        registry: The profiles that judged.
        calibrations: All there are.
    """

    def __init__(self, store: Store, registry: ProfileRegistry, calibrations: Calibrations) -> None:
        self._store, self._registry, self._calibrations = store, registry, calibrations

    def reader(self, space: str) -> "StandingReader":
        """For the counts of one answer."""
        return StandingReader(self._store, self._registry, self._calibrations, space)


class StandingReader:
    """The same for one answer, which reads verdicts on labelled records once.

    Args:
        store: Has the verdicts on labelled records.
        registry: The profiles that judged.
        calibrations: All there are.
        space: Of the counts.
    """

    def __init__(
        self, store: Store, registry: ProfileRegistry, calibrations: Calibrations, space: str
    ) -> None:
        self._store, self._registry, self._space = store, registry, space
        self._calibrations = calibrations
        self._identities: dict[str, Mapping[str, Identity]] = {}
        """By uid of the profile and task."""
        self._labelled: dict[int, Mapping[tuple[str, str], EvaluationRow]] = {}

    def of(self, counts: TaskCounts, span: Span) -> JudgeStanding | None:
        """Say what is known of the judge of a task.

        Verdicts before the first calibration of their judge are held against that one, all others
        against the last one made before them.

        Args:
            counts: Of the task, by one version of its profile.
            span: What was counted.

        Returns:
            None of a task that asks no judge, and of session-scoped ones, which cannot be
            calibrated.
        """
        uid = counts.profile_uid
        if uid not in self._identities:
            registered = self._registry.get(self._space, uid)
            self._identities[uid] = {} if registered is None else _identities(registered.profile)
        identity = self._identities[uid].get(counts.task_id)
        if identity is None:
            return None
        decided = counts.passed + counts.failed
        in_force = self._in_force(identity, span)
        if len(in_force) > 1:
            return _several(decided, in_force)
        if not in_force:
            unfit = self._calibrations.of(identity)
            return _standing(rate_of_counts(identity, counts.passed, decided, unfit))
        (known,) = in_force
        passed, labelled = self._on_labelled(known, counts, span)
        found = rate_of_counts(
            identity, counts.passed - passed, decided - labelled, known, labelled
        )
        return _standing(found)

    def _in_force(self, identity: Identity, span: Span) -> list[Calibration]:
        """The calibrations that verdicts of a time were made under, the oldest first."""
        every = self._calibrations.every(identity)
        if not every:
            return []
        since = _time(span.since_ns or 0)
        first = next((each for each in reversed(every) if each.created_at <= since), every[0])
        until = None if span.until_ns is None else _time(span.until_ns)
        later = (each for each in every if each.created_at > first.created_at)
        return [first, *(each for each in later if until is None or each.created_at < until)]

    def _on_labelled(self, known: Calibration, counts: TaskCounts, span: Span) -> tuple[int, int]:
        """How many of the counted verdicts are on labelled records: passed, and decided."""
        if id(known) not in self._labelled:
            keys = [(self._space, uid) for uid in known.labelled_uids]
            self._labelled[id(known)] = self._store.latest_verdicts(keys) if keys else {}
        passed = decided = 0
        for row in self._labelled[id(known)].values():
            if row.profile_uid == counts.profile_uid and _is_in(row, span):
                for task in row.tasks:
                    if task.task_id == counts.task_id:
                        passed += task.outcome is Outcome.PASSED
                        decided += task.outcome in (Outcome.PASSED, Outcome.FAILED)
        return passed, decided


def _is_in(row: EvaluationRow, span: Span) -> bool:
    return (
        (span.since_ns is None or row.evaluated_ns >= span.since_ns)
        and (span.until_ns is None or row.evaluated_ns < span.until_ns)
        and span.service_version in (None, row.service_version)
    )


def _identities(profile: AgentEvalProfile) -> Mapping[str, Identity]:
    return {
        task.id: identify(profile, task, _ENTRY)
        for task in profile.llm_judge_tasks
        if task.scope == "record"
    }


def _standing(found: JudgeRate) -> JudgeStanding:
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
    )


def _several(decided: int, in_force: list[Calibration]) -> JudgeStanding:
    last = format_time(int(in_force[-1].created_at.timestamp() * 10**9))
    return JudgeStanding(
        standing="cannot_say",
        why=f"{len(in_force)} calibrations were in force in this time; ask for a part of it, such "
        f"as since={last}, when the last one was made",
        pass_rate=None,
        lower=None,
        upper=None,
        judged=decided,
        labelled=0,
        calibration=None,
    )


def _time(ns: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(ns / 10**9, datetime.UTC)
