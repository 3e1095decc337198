"""Calibrations of the judges behind stored results."""

import datetime
from collections.abc import Mapping, Sequence
from typing import Final

from collector.store.rows import EvaluationRow, TaskRow
from collector.worker.profiles import ProfileRegistry
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity, identify
from scouter.agent.calibration.known import Calibrations, Unfit, in_force
from scouter.agent.calibration.rates import in_short
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown

_ENTRY: Final = ""
"""A collector's judges are provider entries, and never a callable of somebody's."""


class KnownJudges:
    """Looks calibrations up for task results; any thread may ask.

    Args:
        registry: The profiles that judged.
        calibrations: All there are.
    """

    def __init__(self, registry: ProfileRegistry, calibrations: Calibrations) -> None:
        self._registry, self._calibrations = registry, calibrations
        self._identities: dict[tuple[str, str], Mapping[str, Identity]] = {}
        """By space and uid of the profile, then by task; a profile with a uid never changes."""
        self._every: dict[tuple[str, str, str], Sequence[Calibration]] = {}
        self._short: dict[int, JudgeKnown] = {}
        """By the calibration."""

    def identity(self, space: str, profile_uid: str, task_id: str) -> Identity | None:
        """Describe the judge task as calibrations identify it.

        Returns:
            None for a task that asks no judge, for a session-scoped task, which cannot be
            calibrated, and for a profile that is not registered.
        """
        key = (space, profile_uid)
        if key not in self._identities:
            registered = self._registry.get(space, profile_uid)
            if registered is None:
                return None
            self._identities[key] = _identities(registered.profile)
        return self._identities[key].get(task_id)

    def every(self, space: str, profile_uid: str, task_id: str) -> Sequence[Calibration]:
        """All calibrations of a task's judge, the oldest first; none if it has no identity."""
        key = (space, profile_uid, task_id)
        if key not in self._every:
            identity = self.identity(space, profile_uid, task_id)
            if identity is None:
                return ()
            self._every[key] = self._calibrations.every(identity)
        return self._every[key]

    def last(self, identity: Identity) -> Calibration | Unfit:
        """The latest calibration of a judge, or why there is none."""
        return self._calibrations.of(identity)

    def newest(self, space: str, profile_uid: str, task_id: str) -> JudgeKnown | None:
        """Describe the latest calibration of a task's judge; None if it has none."""
        every = self.every(space, profile_uid, task_id)
        return self._described(every[-1]) if every else None

    def behind(self, row: EvaluationRow, task: TaskRow) -> JudgeKnown | None:
        """Describe the calibration of the judge at the time when it decided a task.

        Returns:
            The calibration in force at the time of the evaluation. None if this very judge has no
            calibration, or if no judge decided the task.
        """
        if task.outcome not in (Outcome.PASSED, Outcome.FAILED):
            return None
        every = self.every(row.space, row.profile_uid, task.task_id)
        if not every:
            return None
        when = datetime.datetime.fromtimestamp(row.evaluated_ns / 10**9, datetime.UTC)
        found = in_force(every, when)
        return self._described(found)

    def _described(self, known: Calibration) -> JudgeKnown:
        if id(known) not in self._short:
            self._short[id(known)] = in_short(known)
        return self._short[id(known)]


def _identities(profile: AgentEvalProfile) -> Mapping[str, Identity]:
    return {
        task.id: identify(profile, task, _ENTRY)
        for task in profile.llm_judge_tasks
        if task.scope == "record"
    }
