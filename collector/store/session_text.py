"""Sessions with a text: the newest first, for as long as there is time.

A record has the text in its context, or in a span of its trace. A session stands at the place of
its newest record that has it and that the other filters ask for.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collector.store.record_queries import SessionPage, SessionQuery
from collector.store.record_text import ContextText, RecordTextReads
from collector.store.records import GROWTH, MOST, Place
from collector.store.sessions import SessionReads
from collector.store.span_queries import SpanQuery
from collector.store.span_text import SpanText
from collector.store.text_match import TextMatch
from collector.store.trace_text import TraceTextReads

_FIRST: Final = 64
_MOST: Final = 1024
"""Records of which contexts and traces are read at once."""
_MOST_BYTES: Final = 4 * 2**20
"""Bytes of spans in a part behind which the next one is smaller."""


class _Record(NamedTuple):
    place: Place
    session_id: str
    trace_id: str | None


class _Text:
    """A text that is looked for in contexts and in spans."""

    def __init__(self, query: SessionQuery, text: str) -> None:
        self.contexts, self.spans = ContextText(text), SpanText(text)
        self.of_traces = SpanQuery(space=query.space, as_of=query.as_of)


class SessionTextReads(SessionReads, RecordTextReads, TraceTextReads):
    """Searches of sessions."""

    def search_sessions(
        self, query: SessionQuery, text: str, is_over: Callable[[], bool]
    ) -> SessionPage:
        """List sessions, the one with the newest record first that has a text and is asked for.

        The text may be in the record's context, as of `search_records`, or in a span of its trace,
        as of `search_traces`. Without `as_of` the list is as of now.

        Args:
            query: The other filters.
            text: Not empty; upper and lower case are the same.
            is_over: Asked between two parts; true ends the search there.

        Cost: linear in the bytes of the contexts and spans that are read.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query = replace(query, as_of=as_of)
        finder = _Text(query, text)
        found: dict[str, tuple[_Record, TextMatch]] = {}
        seen: set[str] = set()
        last: _Record | None = None
        next_before, looked_until_ns = None, None
        for part, last_of_part in self._session_parts(query, finder):
            if last is not None and is_over():
                next_before, looked_until_ns = last.place[:2], last.place.received_ns
                break
            new: dict[str, tuple[_Record, TextMatch]] = {}
            for each, match in self._with_text(
                query.space, finder, [each for each in part if each.session_id not in seen]
            ):
                new.setdefault(each.session_id, (each, match))
            seen.update(new)
            earlier = self._shown_before(query, finder, new, is_over)
            found |= {each: hit for each, hit in new.items() if each not in earlier}
            if len(found) > query.limit:
                record, _ = list(found.values())[query.limit - 1]
                next_before = record.place[:2]
                break
            last = last_of_part
        ids = list(found)[: query.limit]
        counts = self.session_summaries(query.space, ids)
        return SessionPage(
            items=tuple(
                replace(counts[each], match=found[each][1]) for each in ids if each in counts
            ),
            next_before=next_before,
            as_of=as_of,
            looked_until_ns=looked_until_ns,
        )

    def _session_parts(
        self, query: SessionQuery, finder: _Text
    ) -> Iterator[tuple[Sequence[_Record], _Record]]:
        """Records that are asked for, of sessions that meet the conditions, the newest first.

        With each part comes the last record that was passed over, or is in it. Parts grow, and
        shrink where traces are long.
        """
        before, size, most = query.before, 4 * (query.limit + 1), _FIRST
        while True:
            rows = [_Record(*row) for row in self.asked_records(query, before, size)]
            met = self.met_sessions(query, {each.session_id for each in rows})
            wanted = [each for each in rows if each.session_id in met]
            while wanted:
                part, wanted = wanted[:most], wanted[most:]
                searched_bytes = finder.spans.searched_bytes
                yield part, part[-1]
                is_long = finder.spans.searched_bytes - searched_bytes > _MOST_BYTES
                most = max(1, most // GROWTH) if is_long else min(_MOST, most * GROWTH)
            if len(rows) < size:
                return
            yield (), rows[-1]
            before, size = rows[-1].place[:2], min(size * GROWTH, MOST)

    def _with_text(
        self, space: str, finder: _Text, records: Sequence[_Record]
    ) -> list[tuple[_Record, TextMatch]]:
        """Those of some records that have the text, in the same order, and where it is."""
        places = [each.place for each in records]
        contexts = self.context_matches(space, places, finder.contexts) if places else {}
        left = {
            each.trace_id for each in records if each.trace_id and each.place.key not in contexts
        }
        traces = self.traces_with_text(finder.of_traces, finder.spans, left) if left else {}
        matches = (
            (
                each,
                contexts.get((each.place.seq, each.place.uid)) or traces.get(each.trace_id or ""),
            )
            for each in records
        )
        return [(each, match) for each, match in matches if match is not None]

    def _shown_before(
        self,
        query: SessionQuery,
        finder: _Text,
        session_ids: Mapping[str, object],
        is_over: Callable[[], bool],
    ) -> set[str]:
        """Select the sessions of an earlier page: a newer record of theirs has the text, too.

        Where the time is over, some are not looked at: one of those may be listed a second time.
        """
        found: set[str] = set()
        newer = [_Record(*row) for row in self.records_before(query, session_ids)]
        for at in range(0, len(newer), _FIRST):
            if at and is_over():
                break
            part = [each for each in newer[at : at + _FIRST] if each.session_id not in found]
            found.update(each.session_id for each, _ in self._with_text(query.space, finder, part))
        return found
