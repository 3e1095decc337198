"""The cursor of sent results: its port, and the one on disk."""

import json
import logging
import os
from pathlib import Path
from typing import Final, Protocol

from collector.store.rows import FIRST_RESULT, ResultPlace

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "results_otlp.json"
"""Name of the file inside a data folder."""


class Cursor(Protocol):
    """The place of the last evaluation that one endpoint has taken."""

    def read(self) -> ResultPlace:
        """Read the place at which to go on; the beginning if none is known.

        Raises:
            TransientError: It cannot be read now, and may be another time.
        """
        ...

    def write(self, place: ResultPlace) -> None:
        """Keep a place: after a crash it is either this one or one before.

        Raises:
            OSError | TransientError: It cannot be written.
        """
        ...


class CursorFile:
    """A cursor in a file.

    Args:
        path: The file; it is made with the first write.
        endpoint: The endpoint that took it; another one begins with the first evaluation.
    """

    def __init__(self, path: Path, endpoint: str) -> None:
        self._path, self._endpoint = path, endpoint

    def read(self) -> ResultPlace:
        """Read the place at which to go on; the beginning if none is known."""
        try:
            found = json.loads(self._path.read_bytes())
            if found["endpoint"] == self._endpoint:
                return ResultPlace(int(found["seq"]), int(found["ordinal"]))
        except FileNotFoundError:  # nothing was sent yet
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            _log.warning("%s cannot be read, all results are sent again: %s", self._path, error)
        return FIRST_RESULT

    def write(self, place: ResultPlace) -> None:
        """Keep a place: after a crash it is either this one or the one before.

        Raises:
            OSError: It cannot be written.
        """
        content = {"endpoint": self._endpoint, "seq": place.seq, "ordinal": place.ordinal}
        beside = self._path.with_name(f"{self._path.name}.new")
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._path)
