"""Calibrations of the judges behind stored results: those of the settings and of earlier times."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from collector.items.times import time_at
from collector.store.judges import CalibrationRow
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity, identify
from scouter.agent.calibration.rates import (
    Calibrations,
    Unfit,
    digest_of,
    in_force,
    in_short,
    read_calibrations,
)
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown

_log: Final = logging.getLogger(__name__)


def keep_calibrations(store: Store, given: Sequence[Calibration]) -> Calibrations:
    """Store new calibrations, so that old evaluations keep theirs whatever becomes of files.

    Args:
        store: Has those of earlier times.
        given: From the settings.

    Returns:
        All of them.

    Raises:
        TransientError: The store cannot keep them now.
    """
    known = store.calibrations()
    there = {row.digest for row in known}
    new = {digest_of(each): each for each in given}
    rows = [
        CalibrationRow(digest=digest, body=each.model_dump_json(), added_ns=time.time_ns())
        for digest, each in new.items()
        if digest not in there
    ]
    if rows:
        store.append_calibrations(rows)
    found = [*(_read(row) for row in known), *(new[row.digest] for row in rows)]
    return Calibrations(each for each in found if each is not None)


def given_calibrations(path: Path | None) -> list[Calibration]:
    """Read the calibrations of the settings: a file, or a folder, which may be empty still.

    Raises:
        ConfigError: A file cannot be read, or is no calibration.
    """
    if path is None or (path.is_dir() and not any(path.glob("*.json"))):
        return []
    return read_calibrations([path])


def _read(row: CalibrationRow) -> Calibration | None:
    try:
        return Calibration.model_validate_json(row.body)
    except ValueError as error:
        _log.warning("calibration %s of the store cannot be used: %s", row.digest[:12], error)
        return None


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
            None for a task without a judge, for a session-scoped task, which cannot be
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
        return self._described(in_force(every, time_at(row.evaluated_ns)))

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
