"""Sessions with a text: the newest first, for as long as there is time.

A record has the text in its context, or in a span of its trace. A session stands at the place of
its newest record that has it and that the other filters ask for.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from collector.storage.duckdb.evaluations import conditions
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.record_text import Contexts
from collector.storage.duckdb.records import RecordPlace, asked_of_record
from collector.storage.duckdb.session_filter import SESSION
from collector.storage.duckdb.session_list import (
    GROWTH,
    MOST,
    asked_records,
    met_sessions,
    session_summaries,
)
from collector.storage.duckdb.trace_text import traces_with_text
from collector.storage.log.span_text import SpanText
from collector.store.record_queries import SessionPage, SessionQuery
from collector.store.span_queries import SpanQuery
from collector.store.text_match import TextMatch

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_FIRST: Final = 64
_MOST: Final = 1024
"""Records of which contexts and traces are read at once."""
_MOST_BYTES: Final = 4 * 2**20
"""Bytes of spans in a part behind which the next one is smaller."""
_COLUMNS: Final = ", r.uid, r.trace_id"


class _Record(NamedTuple):
    place: RecordPlace
    session_id: str
    received_ns: int
    trace_id: str | None


class _Hit(NamedTuple):
    """A record with the text, and where a span of its trace has it if the context has not."""

    record: _Record
    match: TextMatch | None


def read_session_text_page(
    stored: StoredSpans, query: SessionQuery, text: str, is_over: Callable[[], bool]
) -> SessionPage:
    """One page of the sessions with a text, in either case.

    Args:
        stored: The open file, and the spans.
        query: The other filters, and where the search goes on; says as of when.
        text: Not empty.
        is_over: Asked between two parts; if it is true the search ends there.

    Cost: linear in the bytes of the contexts and spans that are read.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    search = _Search(stored, query, text)
    found: dict[str, _Hit] = {}
    seen: set[str] = set()
    last: _Record | None = None
    next_before, looked_until_ns = None, None
    for part, last_of_part in search.parts():
        if last is not None and is_over():
            next_before, looked_until_ns = last.place[:2], last.received_ns
            break
        new: dict[str, _Hit] = {}
        for hit in search.hits([each for each in part if each.session_id not in seen]):
            new.setdefault(hit.record.session_id, hit)
        seen.update(new)
        earlier = search.shown_before(new, is_over)
        found |= {session_id: hit for session_id, hit in new.items() if session_id not in earlier}
        if len(found) > query.limit:
            next_before = list(found.values())[query.limit - 1].record.place[:2]
            break
        last = last_of_part
    ids = list(found)[: query.limit]
    counts = session_summaries(stored, query.space, ids)
    matches = search.matches([found[each] for each in ids])
    return SessionPage(
        items=tuple(
            replace(counts[each], match=match)
            for each, match in zip(ids, matches, strict=True)
            if each in counts
        ),
        next_before=next_before,
        as_of=query.as_of,
        looked_until_ns=looked_until_ns,
    )


def _record(row: Sequence[Any]) -> _Record:
    seq, uid_hash, session_id, received_ns, uid, trace_id = row
    return _Record(RecordPlace(seq, uid_hash, uid), session_id, received_ns, trace_id)


class _Search:
    """Looks for a text in records and their traces.

    Args:
        stored: The open file, and the spans.
        query: Says in which space, and what is asked of records.
        text: Not empty.
    """

    def __init__(self, stored: StoredSpans, query: SessionQuery, text: str) -> None:
        self._stored, self._query = stored, query
        self._contexts = Contexts(stored.database, query.space, text)
        self._spans = SpanText(stored.log, text)
        self._of_traces = SpanQuery(space=query.space, as_of=query.as_of)
        self._size = _FIRST

    def parts(self) -> Iterator[tuple[Sequence[_Record], _Record]]:
        """Records that are asked for, of sessions that meet the conditions, the newest first.

        With each part comes the last record that was passed over, or is in it. Parts grow, and
        shrink where traces are long.
        """
        database, query = self._stored.database, self._query
        before, size = query.before, 4 * (query.limit + 1)
        while True:
            rows = list(map(_record, asked_records(database, query, before, size, _COLUMNS)))
            met = met_sessions(database, query, {each.session_id for each in rows})
            wanted = [each for each in rows if each.session_id in met]
            while wanted:
                part, wanted = wanted[: self._size], wanted[self._size :]
                searched_bytes = self._spans.searched_bytes
                yield part, part[-1]
                is_long = self._spans.searched_bytes - searched_bytes > _MOST_BYTES
                self._size = (
                    max(1, self._size // GROWTH) if is_long else min(_MOST, self._size * GROWTH)
                )
            if len(rows) < size:
                return
            yield (), rows[-1]
            before, size = rows[-1].place[:2], min(size * GROWTH, MOST)

    def hits(self, records: Sequence[_Record]) -> list[_Hit]:
        """Those of some records that have the text, in the same order."""
        places = [each.place for each in records]
        has_text: set[RecordPlace] = set()
        while places:
            count, hits = self._contexts.search(places)
            has_text |= hits
            places = places[count:]
        left = {each.trace_id for each in records if each.trace_id and each.place not in has_text}
        traces = traces_with_text(self._stored, self._of_traces, self._spans, left)
        return [
            _Hit(each, None if each.place in has_text else traces[each.trace_id or ""])
            for each in records
            if each.place in has_text or each.trace_id in traces
        ]

    def matches(self, hits: Sequence[_Hit]) -> list[TextMatch | None]:
        """Where each of some records has the text."""
        in_contexts = self._contexts.matches([each.record.place for each in hits if not each.match])
        return [each.match or in_contexts.get(each.record.place[:2]) for each in hits]

    def shown_before(self, session_ids: Collection[str], is_over: Callable[[], bool]) -> set[str]:
        """Select the sessions of an earlier page: a newer record of theirs has the text, too.

        Where the time is over, some are not looked at: one of those may be listed a second time.
        """
        before, found = self._query.before, set[str]()
        if before is None or not session_ids:
            return found
        where, given = conditions(*asked_of_record(self._query), ("r.seq >= ?", before[0]))
        rows = self._stored.database.read(
            f"SELECT r.seq, r.uid_hash, k.id, r.received_ns{_COLUMNS} FROM records r"
            f" JOIN (SELECT unnest(?::VARCHAR[]) AS id) k ON k.id = {SESSION}"
            f" WHERE {where} AND (r.seq, r.uid_hash) >= (?, ?)"
            " ORDER BY r.seq DESC, r.uid_hash DESC",
            [list(session_ids), *given, *before],
        )
        newer = list(map(_record, rows))
        for at in range(0, len(newer), _FIRST):
            if at and is_over():
                break
            part = [each for each in newer[at : at + _FIRST] if each.session_id not in found]
            found.update(each.record.session_id for each in self.hits(part))
        return found
