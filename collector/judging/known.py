"""Calibrations that a collector has: those of its settings, and those of earlier times."""

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from collector.store.judges import CalibrationRow
from collector.store.store import Store
from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.known import Calibrations, read_calibrations
from scouter.agent.calibration.rates import digest_of

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
