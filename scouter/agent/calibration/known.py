"""Calibrations to look up by the judge that they are of; one of another judge is never given."""

import datetime
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity
from scouter.errors import ConfigError


class Unfit(NamedTuple):
    """There is no calibration of this judge."""

    differences: tuple[str, ...]
    """In what the nearest one of the same task was asked otherwise; empty if there is none."""

    @property
    def why(self) -> str:
        """The same in a sentence."""
        if not self.differences:
            return "no calibration of this task is known"
        return f"{'; '.join(self.differences)}; calibrate this judge"


class Calibrations:
    """Some calibrations.

    Args:
        known: In any order.
    """

    def __init__(self, known: Iterable[Calibration] = ()) -> None:
        self._known = sorted(known, key=lambda each: each.created_at)

    def __len__(self) -> int:
        return len(self._known)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "Calibrations":
        """Read files, and all `.json` files of folders (not of folders in them).

        Raises:
            ConfigError: A folder holds none, or a file is no calibration; names file and field.
        """
        return cls(read_calibrations(paths))

    def of(self, identity: Identity) -> Calibration | Unfit:
        """Find the latest calibration of a judge."""
        every = self.every(identity)
        return every[-1] if every else self._nearest(identity)

    def at(self, identity: Identity, when: datetime.datetime) -> Calibration | Unfit:
        """Find the calibration that an outcome of some time was made under.

        It is the last one made until then; before the first one it is the first.
        """
        every = self.every(identity)
        return in_force(every, when) if every else self._nearest(identity)

    def every(self, identity: Identity) -> Sequence[Calibration]:
        """All calibrations of a judge, the oldest first."""
        return [each for each in self._known if not each.identity.differences(identity)]

    def _nearest(self, identity: Identity) -> Unfit:
        """In what the latest one differs, of those that differ in the least."""
        found = [
            tuple(each.identity.differences(identity))
            for each in reversed(self._known)
            if each.identity.task_id == identity.task_id
        ]
        return Unfit(min(found, key=len, default=()))


def in_force(every: Sequence[Calibration], when: datetime.datetime) -> Calibration:
    """Choose the calibration that was in force when a judge gave an outcome.

    If the outcome is older than every calibration, the first calibration is taken.

    Args:
        every: At least one, the oldest first.
        when: Time of the outcome.
    """
    return next((each for each in reversed(every) if each.created_at <= when), every[0])


def read_calibrations(paths: Iterable[Path]) -> list[Calibration]:
    """Read files, and all `.json` files of folders (not of folders in them).

    Raises:
        ConfigError: A folder holds none, or a file is no calibration; names file and field.
    """
    found: list[Calibration] = []
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(path.glob("*.json"))
            if not files:
                raise ConfigError(
                    f"{path}: no calibration (*.json) in this folder; scouter judge calibrate "
                    "--save makes one"
                )
        found += map(Calibration.load, files)
    return found
