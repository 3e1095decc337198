"""Results of offline runs, stored to be compared with what is live: few, each read as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.store.bodies import compress, decompress
from collector.store.letter_search import LetterSearch
from collector.store.reads import Connection, Reads
from collector.store.run_search import RunSearch

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

_COLUMNS: Final = "space, run_id, name, added_ns, added_by, summary"
_LIST: Final = f"SELECT {_COLUMNS} FROM runs WHERE space = $1 ORDER BY seq DESC"
_ONE: Final = f"SELECT {_COLUMNS}, body FROM runs WHERE space = $1 AND run_id = $2"
_COMMIT: Final = "SELECT seq FROM runs WHERE space = $1 AND run_id = $2"
_COMMITS: Final = "SELECT seq FROM runs WHERE space = $1 ORDER BY seq"
_BODY: Final = "SELECT body FROM runs WHERE space = $1 AND seq = $2"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A file of results, as `scouter eval --save` writes it."""

    space: str
    run_id: str
    """Digest of its content, so that the same file is stored once."""
    name: str
    """For people."""
    added_ns: int
    added_by: str
    """Id of the token that brought it; empty where none was asked for."""
    summary: str
    """Summary for lists, as JSON."""
    body: bytes = b""
    """The file as UTF-8; empty in lists."""


class Runs(Reads):
    """Files of results; each came in a commit of its own."""

    def append_run(self, run: RunRow) -> bool:
        """Store a run; False if one with its id was there, which then stays as it is."""
        row = (
            run.space, run.run_id, run.name, run.added_ns, run.added_by, run.summary,
            compress(run.body),
        )  # fmt: skip
        with self.alone():
            if self.read_for_work(_COMMIT, [run.space, run.run_id]):
                return False
            self.write({"runs": [row]})
            return True

    def runs(self, space: str) -> list[RunRow]:
        """All runs of a space without their bodies, the newest first."""
        return [_run(row) for row in self.read(_LIST, [space])]

    def run(self, space: str, run_id: str) -> RunRow | None:
        """A run with its body; None if it is not, or no longer, stored."""
        rows = self.read(_ONE, [space, run_id])
        return _run(rows[0]) if rows else None

    def remove_run(self, space: str, run_id: str) -> bool:
        """Take a run out; False if there was none."""
        with self.alone():
            commits = [seq for (seq,) in self.read_for_work(_COMMIT, [space, run_id])]

            def removed(connection: Connection) -> None:
                take_runs(connection, commits)

            if commits:
                self.write({}, [removed])
            return bool(commits)

    def runs_about(self, space: str, search: LetterSearch) -> list[int]:
        """The commits of the runs that speak of what is erased.

        A scenario that was harvested from a record bears its uid; what the run says of it cannot be
        told from the rest of the file, so that the run goes as a whole. Only values of fields that
        hold ids are compared (scenario, record, session, trace), and the values in contexts and
        tags: names of fields and expected values may be the same word by chance.

        Cost: linear in all stored runs of the space.
        """
        runs, found = RunSearch(search), list[int]()
        for (seq,) in self.read_for_work(_COMMITS, [space]):  # one body in memory at a time
            ((body,),) = self.read_for_work(_BODY, [space, seq])
            if runs.finds(decompress(body)):
                found.append(seq)
        return found


def take_runs(connection: Connection, commits: Sequence[int]) -> None:
    """Take out the runs that came in some commits."""
    connection.execute("DELETE FROM runs WHERE seq = ANY($1::BIGINT[])", [list(commits)])


def _run(row: Sequence[Any]) -> RunRow:
    space, run_id, name, added_ns, added_by, summary, *body = row
    return RunRow(
        space=space, run_id=run_id, name=name, added_ns=added_ns, added_by=added_by,
        summary=summary, body=decompress(body[0]) if body else b"",
    )  # fmt: skip
