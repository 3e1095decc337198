"""The records that are being evaluated, in a file that the next process reads.

So it knows whose evaluation may have ended this one.
"""

import json
import logging
import os
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

_log: Final = logging.getLogger(__name__)
_NAME: Final = "evaluating.json"
_FATAL: Final = 2
"""Processes that an evaluation may have ended before it is not tried again."""

RecordKey = tuple[str, str]
"""Space and uid, of a record or of a session's evaluations."""
T = TypeVar("T")


class _Noted(NamedTuple):
    """The content of the file."""

    now: Sequence[RecordKey] = ()
    """Being evaluated; more than one if they were evaluated together."""
    suspects: dict[RecordKey, int] = {}  # noqa: RUF012 never changed
    """Processes that the evaluation of a record alone has ended; 0 for one of several."""


class Evaluating:
    """Notes what is being evaluated, and remembers whose evaluation has ended a process.

    One record of those that were evaluated together may have been the cause. So each of them is
    evaluated alone once. A record is poison once two processes ended while it was evaluated alone.

    The file is not synced: it has to outlive the process, not the machine.

    Args:
        folder: Folder of the file; None notes nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._file: int | None = None
        self._suspects: dict[RecordKey, int] = {}
        self.poison: Final[set[RecordKey]] = set()
        """Records that are not evaluated."""
        if folder is None:
            return
        path = folder / _NAME
        noted = _read(path)
        self._suspects = dict(noted.suspects)
        for key in noted.now:
            alone = len(noted.now) == 1
            self._suspects[key] = self._suspects.get(key, 0) + alone
        self.poison.update(key for key, count in self._suspects.items() if count >= _FATAL)
        for key in self.poison:
            del self._suspects[key]
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._write(())

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def is_suspect(self, key: RecordKey) -> bool:
        """True if a process ended while the record was evaluated."""
        return key in self._suspects or key in self.poison

    def parted(self, items: Sequence[T], keys: Sequence[RecordKey]) -> list[Sequence[T]]:
        """Part what was to be evaluated together, so that each suspect is alone.

        Args:
            items: Anything.
            keys: The key of each.
        """
        if not self._suspects:
            return [items]
        is_alone = [key in self._suspects for key in keys]
        together = [item for item, alone in zip(items, is_alone, strict=True) if not alone]
        suspects = [[item] for item, alone in zip(items, is_alone, strict=True) if alone]
        return [together, *suspects] if together else list(suspects)

    @contextmanager
    def noted(self, keys: Collection[RecordKey]) -> Generator[None]:
        """Note what is evaluated within; what ends without the end of the process is forgotten."""
        if self._file is None or not keys:
            yield
            return
        self._write(keys)
        try:
            yield
        finally:
            for key in keys:
                self._suspects.pop(key, None)
            self._write(())

    def _write(self, now: Iterable[RecordKey]) -> None:
        if self._file is None:
            return
        content = b""
        if now or self._suspects:
            suspects = [[*key, count] for key, count in self._suspects.items()]
            content = json.dumps({"now": list(now), "suspects": suspects}).encode()
        with suppress(OSError):  # a full disk must not stop the judging
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, content, 0)


def _read(path: Path) -> _Noted:
    try:
        text = path.read_bytes()
        if not text:
            return _Noted()
        content = json.loads(text)
        now = [(str(space), str(uid)) for space, uid in content["now"]]
        suspects = {(str(space), str(uid)): int(n) for space, uid, n in content["suspects"]}
    except FileNotFoundError:
        return _Noted()
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("%s cannot be read, and is made anew: %s", path, error)
        return _Noted()
    return _Noted(now, suspects)
