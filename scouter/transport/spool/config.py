"""Settings of the spool: the folder for data that the far side cannot take, and its bounds."""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from scouter.transport.spool.stats import SpoolStats


class SpoolConfig(BaseModel):
    """A folder on disk behind a transport: `HttpConfig(spool=SpoolConfig(folder="spool"))`.

    Batches that the far side cannot take go there and are delivered when it is back, also by the
    next process after a crash. Processes may share the folder if all send to one far side. Files
    are readable by their owner only. A killed process loses nothing that was written; a machine
    that loses its power may lose the last seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    folder: Path
    """Made if it is not there; nobody else may be able to write to it. Other files in it stay."""
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=65_536)
    """Bound of what waits; the oldest is dropped for what is new, and counted. Beside it SQLite's
    log may take 4 MiB; a damaged file stays there, and is as large."""

    def stats(self) -> "SpoolStats":
        """Count the items that this process has put into the spool, and those that wait there now.

        Raises:
            TransientError: The file cannot be read.

        Cost: linear in the records and requests that wait.
        """
        from scouter.transport.spool.stats import counts_of
        from scouter.transport.spool.table import waiting_in

        return counts_of(self.folder).stats(*waiting_in(self.folder))
