"""Results of offline runs, kept to be compared with what is live."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A file of results, as `scouter eval --save` writes it."""

    space: str
    run_id: str
    """Digest of its content, so that the same file is kept once."""
    name: str
    """For people."""
    added_ns: int
    added_by: str
    """Id of the token that brought it; empty where none was asked for."""
    summary: str
    """Summary for lists, as JSON."""
    body: bytes = b""
    """The file as UTF-8; empty in lists."""


class RunStore(Protocol):
    """Files of results; few, and each is read as a whole."""

    def append_run(self, run: RunRow) -> "Future[bool]":
        """Keep a run; False if one with its id was there, which then stays as it is."""
        ...

    def runs(self, space: str) -> Sequence[RunRow]:
        """All runs of a space without their bodies, the newest first."""
        ...

    def run(self, space: str, run_id: str) -> RunRow | None:
        """A run with its body; None if it is not, or no longer, stored."""
        ...

    def remove_run(self, space: str, run_id: str) -> "Future[bool]":
        """Take a run out; False if there was none."""
        ...
