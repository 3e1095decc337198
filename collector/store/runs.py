"""Results of offline runs, stored to be compared with what is live: few, each read as a whole."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from collector.store.bodies import compress, decompress
from collector.store.letter_reads import LetterSearch
from collector.store.reads import Connection, Reads
from scouter.model.attributes import CONVERSATION_ID, SCENARIO_ID

_IDENTIFIERS: Final = {
    "scenario_id", "record_uid", "record_id", "session_id", "trace_id", "traceId",
}  # fmt: skip
_ATTRIBUTES: Final = {CONVERSATION_ID, SCENARIO_ID, "session.id"}
"""Attributes of a span that name a session or a scenario."""
_FREE: Final = {"contexts", "tags"}
"""Fields whose values are the sender's own: an id may stand anywhere in them."""
_JSON_STARTS: Final = ("{", "[")


class RunSearch:
    """Looks for ids and a tag where the file of a run names records.

    A run is full of words of its own format (`agent`, `failed`), of task ids and of expected
    values. An id that is such a word by chance is not found there.

    Args:
        search: Texts, trace ids and tag that are looked for.
    """

    def __init__(self, search: LetterSearch) -> None:
        self._search = search

    def finds(self, body: bytes) -> bool:
        """Say whether a run speaks of any of it.

        Args:
            body: The file; one that is no JSON is searched as a dead letter is.

        Cost: linear in the file.
        """
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._search.finds(body)
        todo: list[tuple[object, bool]] = [(value, False)]
        while todo:  # no recursion: a context may be nested as deep as it likes
            each, is_free = todo.pop()
            if isinstance(each, str):
                if is_free:
                    if self._search.is_id(each):
                        return True
                    todo += _parsed(each)
            elif isinstance(each, list):
                todo += [(item, is_free) for item in cast(list[object], each)]
            elif isinstance(each, dict):
                items = cast(Mapping[str, Any], each)
                if self._names(items, is_free):
                    return True
                todo += [(item, is_free or key in _FREE) for key, item in items.items()]
        return False

    def _names(self, items: Mapping[str, Any], is_free: bool) -> bool:
        """Say whether an object itself names it, by its own fields."""
        ids: list[object] = [items.get(key) for key in _IDENTIFIERS]
        contexts = items.get("contexts")
        if isinstance(contexts, dict) and not is_free:  # by the uids of their records
            ids += cast(Mapping[str, Any], contexts)
        if any(map(self._is_id, ids)):
            return True
        value = items.get("value")
        if not isinstance(value, dict):
            return is_free and self._search.has_tag(items)
        # An attribute of a span, as OTLP JSON.
        is_named = items.get("key") in _ATTRIBUTES
        text = cast(Mapping[str, Any], value).get("stringValue")
        return (is_named and self._is_id(text)) or self._search.has_tag(items)

    def _is_id(self, value: object) -> bool:
        return isinstance(value, str) and self._search.is_id(value)


def _parsed(text: str) -> list[tuple[object, bool]]:
    """The value of a text that is JSON itself."""
    if not text.startswith(_JSON_STARTS):
        return []
    try:
        return [(json.loads(text), True)]
    except (ValueError, RecursionError):
        return []


_COLUMNS: Final = "space, run_id, name, added_ns, added_by, summary"
_LIST: Final = f"SELECT {_COLUMNS} FROM runs WHERE space = $1 ORDER BY seq DESC"
_ONE: Final = f"SELECT {_COLUMNS}, body FROM runs WHERE space = $1 AND run_id = $2"
_COMMIT: Final = "SELECT seq FROM runs WHERE space = $1 AND run_id = $2"
_COMMITS: Final = "SELECT seq FROM runs WHERE space = $1 ORDER BY seq"
_BODY: Final = "SELECT body FROM runs WHERE space = $1 AND seq = $2"


class RunRow(NamedTuple):
    """A file of results, as `scouter eval --save` writes it."""

    space: str
    run_id: str
    """Digest of its content, so that the same file is stored once."""
    name: str
    """For people."""
    added_ns: int
    added_by: str
    """Id of the token that brought it; empty where none was requested."""
    summary: str
    """Summary for lists, as JSON."""
    body: bytes = b""
    """The file as UTF-8; empty in lists."""


class Runs(Reads):
    """Files of results; each came in a commit of its own."""

    def append_run(self, run: RunRow) -> bool:
        """Store a run; False if one with its id was there, which then stays as it is."""
        row = run._replace(body=compress(run.body))
        with self.alone():
            if self.read_for_work(_COMMIT, [run.space, run.run_id]):
                return False
            self.write({"runs": [row]})
            return True

    def runs(self, space: str) -> list[RunRow]:
        """All runs of a space without their bodies, the newest first."""
        return [RunRow(*row) for row in self.read(_LIST, [space])]

    def run(self, space: str, run_id: str) -> RunRow | None:
        """A run with its body; None if it is not, or no longer, stored."""
        rows = self.read(_ONE, [space, run_id])
        if not rows:
            return None
        found = RunRow(*rows[0])
        return found._replace(body=decompress(found.body))

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
        distinguished from the rest of the file, so that the run goes as a whole. Only values of
        fields that have ids are compared (scenario, record, session, trace), and the values in
        contexts and tags: names of fields and expected values may be the same word by chance.

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
