"""Care: erasure, retention, copies, size and age."""

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Protocol

from collector.store.erase import Erased, EraseTarget


class CareStore(Protocol):
    """The life of a store: nothing here is asked while a span or record comes in."""

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names, with its evaluations; no read sees it then.

        Everything that was durable before this call goes. A trace goes with the last of its
        records. An evaluation that stays, although it has read something that goes, keeps its
        outcomes and loses its texts. An item that comes again later is a duplicate, whatever its
        content.
        `TotalName.ERASED` counts records and spans; other counts stay, rates lose the evaluations.
        """
        ...

    def remove_before(self, before_ns: int) -> int:
        """Take out what is older than a time: records that are decided, and spans without a record.

        `TotalName.EXPIRED` counts them. A record that waits stays; a trace stays with its last
        record, an evaluation on a session goes with the last record of it.

        Args:
            before_ns: Time of arrival or decision, nanoseconds since the epoch.

        Returns:
            The number of records and spans that went.
        """
        ...

    def keep_within(self, max_bytes: int) -> int:
        """Take out the oldest, as `remove_before`, if the store is larger; and a tenth more.

        Returns:
            The number of records and spans that went; 0 where the store is small enough.
        """
        ...

    def compact(self) -> "Future[None]":
        """Let what was written in small pieces take less room; no answer changes."""
        ...

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be on the disk."""
        ...

    def remove_rests(self) -> None:
        """Take the bytes of what was erased off the disk; a start after a crash repeats it.

        Raises:
            TransientError: It cannot be done now; it is still to be done then.
        """
        ...

    def checkpoint(self) -> None:
        """Have what was taken out leave its room.

        Raises:
            TransientError: It cannot be done now.
        """
        ...

    def backup(self, folder: Path) -> Path:
        """Copy the store as it is now; writes go on, and what was erased is not in the copy.

        Args:
            folder: Gets a store that the next collector can be started on; must hold no store yet.

        Returns:
            The file of the copy that was written last.

        Raises:
            ConfigError: The folder holds a store or cannot be written.
            TransientError: The copy failed; nothing is left of it.
        """
        ...

    def export(self, folder: Path, tell: Callable[[str], None] = ...) -> list[Path]:
        """Write every table as it is now into a Parquet file.

        Args:
            folder: Gets the files.
            tell: Is told how far it is.
        """
        ...

    def size_bytes(self) -> int:
        """Bytes that hold rows, which `keep_within` compares."""
        ...

    def file_bytes(self) -> int:
        """Bytes on the disk, all logs included."""
        ...

    def oldest_ns(self) -> int | None:
        """Time at which the oldest record or span was received; None in an empty or closed store.

        While something is stored, the answer may be ten seconds old.
        """
        ...

    def newest_ns(self) -> int | None:
        """Time at which the newest record or span was received; None in an empty store."""
        ...

    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""
        ...

    def pending_bytes(self) -> int:
        """Size of the spans that were acknowledged and are in no commit yet."""
        ...

    @property
    def is_broken(self) -> bool:
        """True once the store takes nothing any more, and only a new process helps."""
        ...

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each commit takes, in the thread that commits."""
        ...

    def observe_syncs(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each sync before an acknowledgement takes."""
        ...

    def close(self) -> None:
        """Commit what was appended, then close; later calls raise TransientError."""
        ...
