"""Records whose context holds a text: the newest first, for as long as there is time.

There is no index of words: the contexts of what the other filters name are read, some at a time.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import JsonValue

from collector.split import split
from collector.store.json_text import dump_json, load_json
from collector.store.record_queries import RecordPage, RecordQuery, SessionPage, SessionQuery
from collector.store.records import GROWTH, MOST, PART_BYTES, Candidate, Place, RecordReads
from collector.store.sessions import SessionReads, SessionRecord
from collector.store.span_queries import SpanQuery, text_match
from collector.store.trace_text import Matches, SpanText, TraceTextReads, all_of, matched
from scouter.client.models.answer import TextMatch

_FIRST: Final = 16
_MOST: Final = 512
"""Records of which the contexts are read together, at first and at most."""
_ESCAPE: Final = "\\u"
"""Characters that JSON may write in more than one way begin so."""


class ContextText:
    """Finds a text in contexts, in upper or lower case.

    Args:
        text: Not empty.
    """

    def __init__(self, text: str) -> None:
        self._text, self._lower = text, text.lower()
        self._form = dump_json(text)[1:-1].lower()

    def match(self, context: str) -> TextMatch | None:
        """The first name or value of a context that has the text, in the order of the context.

        Args:
            context: As the store has it.

        Cost: 3 ms for a megabyte without the text.
        """
        if self._form not in context.lower() and _ESCAPE not in context:
            return None
        left: list[tuple[str, JsonValue]] = [("", load_json(context))]
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
                if self._lower in said.lower():
                    return text_match(path, said, self._text)
        return None


class RecordTextReads(RecordReads):
    """Lists of records."""

    def records(
        self,
        query: RecordQuery,
        is_over: Callable[[], bool] = lambda: False,
        texts: Sequence[str] = (),
    ) -> RecordPage:
        """List accepted records, newest first, each with its state.

        Args:
            query: The filter.
            is_over: Called between two parts; true ends a search by texts there.
            texts: The context has each of them in a value or a name. Not empty; upper and lower
                case are the same.

        Cost: linear in the records that the other filters name, where a state is requested that few
        records have; else in the page. With texts linear in the bytes of the contexts that are
        read.
        """
        finders = [ContextText(each) for each in texts]
        found: list[Candidate] = []
        matches: dict[tuple[int, str], Matches] = {}
        last: Place | None = None
        looked_until_ns = None
        places = self.matching_places(query)
        for part in _parts(places) if finders else places:
            if finders:
                if last is not None and is_over():
                    looked_until_ns = last.received_ns
                    break
                hits = self.context_matches(query.space, part, finders)
                found += self.stated(query, [each for each in part if each.key in hits])
                matches |= hits
                last = part[-1]
            else:
                found += self.stated(query, part)
            if len(found) > query.limit:
                found = found[: query.limit]
                last = found[-1][0]
                break
        else:
            last = None
        contexts: dict[tuple[int, str], str] | None = None
        if (most := query.context_bytes) is not None and found:
            page = next(split(found, lambda each: (each[0].context_bytes,), (most,)))
            last = page[-1][0] if len(page) < len(found) else last
            found, contexts = page, dict(self.contexts(query.space, [place for place, _ in page]))
        items = self.record_summaries(query.space, found, contexts)
        return RecordPage(
            items=tuple(
                matched(each, matches.get((each.record.seq, each.record.uid), ())) for each in items
            ),
            next_before=None if last is None else last[:2],
            looked_until_ns=looked_until_ns,
        )

    def context_matches(
        self, space: str, places: Sequence[Place], finders: Sequence[ContextText]
    ) -> dict[tuple[int, str], Matches]:
        """Places of texts in the contexts of some records, by commit and uid.

        Args:
            space: Their space.
            places: Newest first.
            finders: Look for one text each.
        """
        return {
            key: matches
            for key, context in self.contexts(space, places)
            if (matches := all_of(each.match(context) for each in finders))
        }


def _parts(found: Iterator[Sequence[Place]]) -> Iterator[list[Place]]:
    """Everything that a list holds, in parts that grow, of a few megabytes of contexts each."""
    size = _FIRST
    for left in found:
        while left:
            part = next(split(left, lambda each: (1, each.context_bytes), (size, PART_BYTES)))
            yield part
            left = left[len(part) :]
            size = min(_MOST, size * GROWTH)


_FIRST_TRACES: Final = 64
_MOST_TRACES: Final = 1024
"""Records of which contexts and traces are read at once."""
_MOST_BYTES: Final = 4 * 2**20
"""Bytes of spans in a part behind which the next one is smaller."""


class _Text:
    """A text that is looked for in contexts and in spans."""

    def __init__(self, query: SessionQuery, text: str) -> None:
        self.contexts, self.spans = ContextText(text), SpanText(text)
        self.of_traces = SpanQuery(space=query.space, as_of=query.as_of)


class SessionTextReads(SessionReads, RecordTextReads, TraceTextReads):
    """Lists of sessions."""

    def sessions(
        self,
        query: SessionQuery,
        is_over: Callable[[], bool] = lambda: False,
        texts: Sequence[str] = (),
    ) -> SessionPage:
        """List sessions, the one with the newest record that matches and has all texts first.

        A record without a session id is a session of its own, called by the record's uid. A text
        may be in the record's context, as of `records`, or in a span of its trace, as of
        `search_traces`. Without `as_of` the list is as of now.

        Args:
            query: The filter.
            is_over: Called between two parts; true ends a search there, by texts or by a condition
                on whole sessions.
            texts: Not empty; upper and lower case are the same.

        Cost: a look at the session ids of all records, and at the keys of the evaluations that came
        since the first record of these sessions. With a condition on whole sessions, that of
        `session_tables` for each part; with texts linear in the bytes that are read.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query = replace(query, as_of=as_of)
        finders = [_Text(query, each) for each in texts]
        is_search = bool(texts) or query.asks_of_sessions
        found: dict[str, tuple[SessionRecord, Matches]] = {}
        seen: set[str] = set()
        last: SessionRecord | None = None
        next_before, looked_until_ns = None, None
        for part, last_of_part in self._session_parts(query, finders):
            if is_search and last is not None and is_over():
                next_before, looked_until_ns = last.place[:2], last.place.received_ns
                break
            new: dict[str, tuple[SessionRecord, Matches]] = {}
            for each, match in self._with_texts(
                query.space, finders, [each for each in part if each.session_id not in seen]
            ):
                new.setdefault(each.session_id, (each, match))
            seen.update(new)
            earlier = self._shown_before(query, finders, new, is_over)
            found |= {each: hit for each, hit in new.items() if each not in earlier}
            if len(found) > query.limit:
                record, _ = list(found.values())[query.limit - 1]
                next_before = record.place[:2]
                break
            last = last_of_part
        ids = list(found)[: query.limit]
        counts = self.session_summaries(query.space, ids)
        return SessionPage(
            items=tuple(matched(counts[each], found[each][1]) for each in ids if each in counts),
            next_before=next_before,
            as_of=as_of,
            looked_until_ns=looked_until_ns,
        )

    def _session_parts(
        self, query: SessionQuery, finders: Sequence[_Text]
    ) -> Iterator[tuple[Sequence[SessionRecord], SessionRecord]]:
        """Records that match, of sessions that meet the conditions, the newest first.

        With each part comes the last record that was passed over, or is in it. Parts grow; those
        that texts are looked for in shrink where traces are long.
        """
        before, size, most = query.before, 4 * (query.limit + 1), _FIRST_TRACES
        while rows := self.matching_records(query, before, size):
            met = self.met_sessions(query, {each.session_id for each in rows})
            wanted = [each for each in rows if each.session_id in met]
            while finders and wanted:
                part, wanted = wanted[:most], wanted[most:]
                searched_bytes = finders[0].spans.searched_bytes
                yield part, part[-1]
                is_long = finders[0].spans.searched_bytes - searched_bytes > _MOST_BYTES
                most = max(1, most // GROWTH) if is_long else min(_MOST_TRACES, most * GROWTH)
            if not finders or len(rows) == size:
                yield wanted, rows[-1]
            if len(rows) < size:
                return
            before, size = rows[-1].place[:2], min(size * GROWTH, MOST)

    def _with_texts(
        self, space: str, finders: Sequence[_Text], records: Sequence[SessionRecord]
    ) -> list[tuple[SessionRecord, Matches]]:
        """Those of some records that have each text, in the same order, and where they are."""
        found: dict[SessionRecord, Matches] = dict.fromkeys(records, ())
        for finder in finders:
            also = self._with_text(space, finder, list(found))
            found = {each: found[each] + matches for each, matches in also}
        return list(found.items())

    def _with_text(
        self, space: str, finder: _Text, records: Sequence[SessionRecord]
    ) -> list[tuple[SessionRecord, Matches]]:
        places = [each.place for each in records]
        contexts = self.context_matches(space, places, [finder.contexts]) if places else {}
        left = {
            each.trace_id for each in records if each.trace_id and each.place.key not in contexts
        }
        traces = self.traces_with_text(finder.of_traces, [finder.spans], left) if left else {}
        matches = (
            (
                each,
                contexts.get((each.place.seq, each.place.uid))
                or traces.get(each.trace_id or "", ()),
            )
            for each in records
        )
        return [(each, found) for each, found in matches if found]

    def _shown_before(
        self,
        query: SessionQuery,
        finders: Sequence[_Text],
        session_ids: Mapping[str, object],
        is_over: Callable[[], bool],
    ) -> set[str]:
        """Select the sessions of an earlier page: a newer record of theirs has the text, too.

        Where the time is over, some are not looked at: one of those may be listed a second time.
        """
        newer = self.records_before(query, session_ids)
        if not finders:
            return {each.session_id for each in newer}
        found: set[str] = set()
        for at in range(0, len(newer), _FIRST_TRACES):
            if at and is_over():
                break
            part = [each for each in newer[at : at + _FIRST_TRACES] if each.session_id not in found]
            some = self._with_texts(query.space, finders, part)
            found.update(each.session_id for each, _ in some)
        return found
