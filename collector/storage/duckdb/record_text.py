"""Records whose context holds a text: the newest first, for as long as there is time.

There is no index of words: the contexts of what the other filters name are read, some at a time.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from collector.storage.duckdb.database import Database, NoMemoryError
from collector.storage.duckdb.part_reads import LongRow, read_within
from collector.storage.duckdb.records import (
    Candidate,
    RecordPlace,
    matching_records,
    record_summaries,
)
from collector.store.json_text import dump_json, load_json
from collector.store.record_queries import RecordQuery, TextPage
from collector.store.text_match import TextMatch, text_match

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_FIRST: Final = 16
_MOST: Final = 512
_GROWTH: Final = 4
_MATCH_BYTES: Final = 2**17
_MATCHES_BYTES: Final = 2**20
_OF_PLACES: Final = (
    "SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = r.uid_hash"
    " WHERE r.seq BETWEEN ? AND ? AND r.space = ?"
)
_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]|()])")


def read_text_page(
    database: Database, query: RecordQuery, text: str, is_over: Callable[[], bool]
) -> TextPage:
    """One page of the records with a text in their context, in either case.

    Args:
        database: The open file.
        query: The other filters, and where the search goes on.
        text: Not empty.
        is_over: Asked between two parts; if it is true the search ends there.

    Cost: linear in the bytes of the contexts that are read.
    """
    contexts = Contexts(database, query.space, text)
    found: list[Candidate] = []
    last: Candidate | None = None
    for candidates in matching_records(database, query):
        done = 0
        while done < len(candidates):
            if last is not None and contexts.oldest_ns is not None and is_over():
                return _page(contexts, query, found, last, contexts.oldest_ns)
            count, hits = contexts.search([place for place, _ in candidates[done:]])
            part = candidates[done : done + count]
            found += [each for each in part if each[0] in hits]
            done += count
            last = part[-1]
            if len(found) > query.limit:
                page = found[: query.limit]
                return _page(contexts, query, page, page[-1], None)
    return _page(contexts, query, found, None, None)


def _pattern_of(text: str) -> str:
    """A regular expression that finds a text in JSON, where some characters are escaped.

    It reads escapes as wholes, from the beginning on: `n` is not found in a line break.
    """
    forms = sorted({dump_json(text)[1:-1], json.dumps(text)[1:-1]})
    escaped = "|".join(_SPECIAL.sub(r"\\\1", each) for each in forms)
    return rf"^(?:[^\\]|\\[^u]|\\u[0-9a-f]{{4}})*?(?:{escaped})"


def _page(
    contexts: "Contexts",
    query: RecordQuery,
    found: Sequence[Candidate],
    last: Candidate | None,
    looked_until_ns: int | None,
) -> TextPage:
    matches = contexts.matches([place for place, _ in found])
    items = record_summaries(contexts.database, query.space, found)
    return TextPage(
        items=tuple(replace(each, match=matches.get(each.place)) for each in items),
        next_before=None if last is None else last[0][:2],
        looked_until_ns=looked_until_ns,
    )


class Contexts:
    """Searches contexts in parts that grow, and shrink where memory is short.

    Args:
        database: The open file.
        space: Of the records.
        text: Not empty.
    """

    def __init__(self, database: Database, space: str, text: str) -> None:
        self.database, self._space = database, space
        self._text, self._pattern = text, _pattern_of(text)
        self._size = _FIRST
        self.oldest_ns: int | None = None
        """Arrival of the oldest record of the last part."""

    def search(self, places: Sequence[RecordPlace]) -> tuple[int, set[RecordPlace]]:
        """Read the contexts of the first of some records.

        Args:
            places: Newest first.

        Returns:
            The number of these records, at least one, and those of them that have the text.

        Raises:
            NoMemoryError: There is no memory even for one context.
        """
        while True:
            part = places[: self._size]
            try:
                hits = self._hits(part)
            except NoMemoryError:
                if len(part) == 1:
                    raise
                self._size = max(1, len(part) // _GROWTH)
                continue
            self._size = min(_MOST, self._size * _GROWTH)
            return len(part), hits

    def matches(self, places: Sequence[RecordPlace]) -> dict[tuple[int, int], TextMatch]:
        """Find where in their contexts some records have the text, by their places.

        Args:
            places: Newest first. Long contexts, and all behind so many bytes, are left out.
        """

        def read(part: Sequence[RecordPlace]) -> list[LongRow]:
            rows = self.database.read_long(
                f"SELECT r.seq, r.uid_hash, r.context FROM records r {_OF_PLACES}"
                " AND strlen(r.context) <= ?",
                [*self._given(part), _MATCH_BYTES],
            )
            return [LongRow((seq, of), text) for seq, of, text in rows]

        rows, _ = read_within(places, read, _MATCHES_BYTES)
        found = {row.place: _match(load_json(row.text), self._text) for row in rows}
        return {place: match for place, match in found.items() if match is not None}

    def _hits(self, places: Sequence[RecordPlace]) -> set[RecordPlace]:
        rows = self.database.read_long(
            "SELECT r.seq, r.uid, r.received_ns, regexp_matches(r.context, ?, 'i') FROM records r"
            f" {_OF_PLACES}",
            [self._pattern, *self._given(places)],
        )
        self.oldest_ns = min((row[2] for row in rows), default=self.oldest_ns)
        hits = {(seq, uid) for seq, uid, _, is_hit in rows if is_hit}
        return {each for each in places if (each.seq, each.uid) in hits}

    def _given(self, places: Sequence[RecordPlace]) -> list[object]:
        hashes = [place.uid_hash for place in places]
        return [hashes, places[-1].seq, places[0].seq, self._space]


def _match(context: JsonValue, text: str) -> TextMatch | None:
    """The first name or value of a context that has a text, in the order of the context."""
    lower = text.lower()
    left: list[tuple[str, JsonValue]] = [("", context)]
    while left:
        path, value = left.pop()
        if isinstance(value, dict):
            for name, inner in reversed(value.items()):
                below = f"{path}.{name}" if path else name
                left += [(below, inner), (below, name)]
        elif isinstance(value, list):
            left += [(f"{path}[{at}]", each) for at, each in reversed(list(enumerate(value)))]
        else:
            said = value if isinstance(value, str) else json.dumps(value)
            if lower in said.lower():
                return text_match(path, said, text)
    return None
