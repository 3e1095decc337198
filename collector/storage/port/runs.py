"""Results of offline runs."""

from collections.abc import Sequence
from typing import Protocol

from collector.store.runs import RunRow


class RunStore(Protocol):
    """Files of results; few, and each is read as a whole."""

    def append_run(self, run: RunRow) -> bool:
        """Keep a run; False if one with its id was there, which then stays as it is."""
        ...

    def runs(self, space: str) -> Sequence[RunRow]:
        """All runs of a space without their bodies, the newest first."""
        ...

    def run(self, space: str, run_id: str) -> RunRow | None:
        """A run with its body; None if it is not, or no longer, stored."""
        ...

    def remove_run(self, space: str, run_id: str) -> bool:
        """Take a run out; False if there was none."""
        ...
