"""Traces with a text in their spans: the newest first, for as long as there is time.

There is no index of words: the bodies of traces that the other filters name are read, some commits
at a time. Log events are spans of their own, so that a message is found however it came.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import JsonValue

from collector.split import split
from collector.store.bodies import decompress, trace_hash
from collector.store.reads import ROW_BY_ROW, Values, runs, within
from collector.store.record_queries import RecordSummary, SessionSummary
from collector.store.span_queries import (
    SpanPosition,
    SpanQuery,
    TracePage,
    TraceQuery,
    TraceSummary,
    text_match,
)
from collector.store.spans import commit_steps, span_condition, trace_conditions
from collector.store.traces import TraceReads, of_period
from scouter.client.models.answer import TextMatch
from scouter.model.otlp import decode_request
from scouter.model.span import AttributeValue, Span

_SHORT: Final = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}


class _Pattern(Protocol):
    """The part of `re2` that is used here; it has no types of its own."""

    def search(self, text: bytes | memoryview) -> object: ...


class SpanText:
    """Finds spans that have a text, in upper or lower case.

    Args:
        text: Not empty.
    """

    def __init__(self, text: str) -> None:
        import re2  # slow to load, and few search

        self._text, self._lower = text, text.lower()
        self.searched_bytes = 0
        """Bytes that were searched so far."""
        compiled = re2.compile(f"(?i){''.join(map(_ways, text))}".encode())
        self._search: Callable[[bytes | memoryview], object] = cast(_Pattern, compiled).search

    def may_be_in(self, data: bytes | memoryview) -> bool:
        """Tell whether the bytes of some spans have something like the text."""
        self.searched_bytes += len(data)
        return self._search(data) is not None

    def match(self, span: Span) -> TextMatch | None:
        """The first place of a span that has the text."""
        for where, value in _values(span):
            text = self._in_value(value)
            if text is not None:
                return text_match(where, text, self._text)
        return None

    def _in_value(self, value: AttributeValue) -> str | None:
        """The text with the one that is looked for: a value, or a name or a value inside it."""
        if isinstance(value, str):
            read = _json_of(value)
            if read is not None:
                return self._in_json(read)
            return value if self._lower in value.lower() else None
        inner: Iterable[AttributeValue] = ()
        if isinstance(value, Mapping):
            inner = chain.from_iterable(value.items())
        elif isinstance(value, tuple):
            inner = value
        return next((each for each in map(self._in_value, inner) if each is not None), None)

    def _in_json(self, value: JsonValue) -> str | None:
        """Search names and values, each by itself: quotes and commas of JSON are no text."""
        left = [value]
        while left:
            each = left.pop()
            if isinstance(each, dict):
                left += reversed(list(chain.from_iterable(each.items())))
            elif isinstance(each, list):
                left += reversed(each)
            else:
                found = self._in_value(each if isinstance(each, str) else json.dumps(each))
                if found is not None:
                    return found
        return None


def _values(span: Span) -> Iterator[tuple[str, AttributeValue]]:
    """Everything in a span that is searched, by its name."""
    yield "name", span.name
    yield "status", span.status_message
    yield from span.attributes.items()
    for event in span.events:
        yield "event", event.name
        yield from event.attributes.items()


def _json_of(text: str) -> JsonValue:
    """An object or a list that is written as JSON; None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # cut, or no JSON after all
        return None


def _ways(letter: str) -> str:
    """A pattern for a character as it is, or as JSON may write it, inside other JSON or not."""
    plain = letter if letter.isalnum() else f"\\x{{{ord(letter):x}}}"
    if letter.isascii() and (letter.isalnum() or letter == " "):
        return plain
    units = letter.encode("utf-16-be").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    ways = [rf"\\*{plain}", escaped]
    if letter in _SHORT:
        ways.append(rf"\\+{_SHORT[letter]}")
    for other in {letter.lower(), letter.upper()} - {letter}:  # an escape tells them apart
        if len(other) == 1:
            units = other.encode("utf-16-be").hex()
            ways += ["".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))]
    return f"(?:{'|'.join(ways)})"


_FIRST_BYTES: Final = 2**18
_MOST_BYTES: Final = 4 * 2**20
_GROWTH: Final = 4
_MOST_COMMITS: Final = 1024
"""Of which the traces are looked up at once."""
_MOST_NS: Final = 2**63 - 2
_TEXTS: Final = "TEXT[]"
_BODIES: Final = f"""
    SELECT seq, trace_id, body FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND space = $3 AND trace_id IN (SELECT unnest($4::TEXT[]))
      AND {ROW_BY_ROW.format("size_bytes")}
"""
_COMMITS: Final = """
    SELECT DISTINCT seq FROM bodies
    WHERE seq BETWEEN $1 AND $2 AND trace_hash IN (SELECT unnest($3::BIGINT[]))
"""

_Key: TypeAlias = tuple[int, str, str]
"""Commit, trace and span."""


Matches: TypeAlias = tuple[TextMatch, ...]
"""A place of each text that is looked for, in their order."""
_Summary = TypeVar("_Summary", TraceSummary, RecordSummary, SessionSummary)


def all_of(found: Iterable[TextMatch | None]) -> Matches:
    """The places of some texts; none of them where one is missing."""
    matches: list[TextMatch] = []
    for each in found:
        if each is None:
            return ()
        matches.append(each)
    return tuple(matches)


def matched(summary: _Summary, matches: Matches) -> _Summary:
    """A summary with the places of the texts, if any was looked for."""
    if not matches:
        return summary
    return replace(summary, match=matches[0], more_matches=matches[1:])


class _Place(NamedTuple):
    """Spans of a trace in a commit, which other filters name."""

    seq: int
    trace_id: str
    size_bytes: int
    received_ns: int


class _Found(NamedTuple):
    """The newest span of a trace that has the text."""

    position: SpanPosition
    matches: Matches


class TraceTextReads(TraceReads):
    """Searches of traces."""

    def search_traces(
        self, query: TraceQuery, text: str, is_over: Callable[[], bool], more: Sequence[str] = ()
    ) -> TracePage:
        """List traces that meet all conditions with a text in a span, as the newest such came.

        The text may be in a span's name or status, in the value of an attribute, in an event or a
        log event; of values that are JSON, in a name or a value inside.

        Args:
            query: The other conditions.
            text: Not empty; upper and lower case are the same.
            is_over: Called between two parts; true ends the search there.
            more: Texts that a span of the trace has, too; the same span with `is_same_span`.

        Cost: linear in the bytes of the spans that are read, 100 MB a second.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query, finders = replace(query, as_of=as_of), [SpanText(each) for each in (text, *more)]
        finders, beside = (finders, []) if query.is_same_span else (finders[:1], finders[1:])
        own, others = _conditions(query)
        places: dict[str, _Found] = {}
        seen: set[str] = set()
        next_before, looked_until_ns = None, None
        for part in self._text_parts(query, own, others):
            found = self._newest_with(
                finders, own, [each for each in part if each.trace_id not in seen]
            )
            seen.update(found)
            earlier: Collection[str] = ()
            if query.before is not None:
                found = {
                    each: at for each, at in found.items() if at.position < query.before
                }  # the rest is requested by nobody
                earlier = self.traces_with_text(own, finders, found, query.before)
            for finder in beside:
                also = self.traces_with_text(own, [finder], found)
                found = {
                    each: at._replace(matches=at.matches + also[each])
                    for each, at in found.items()
                    if each in also
                }
            places |= {
                each: found[each]
                for each in sorted(found, key=lambda each: found[each].position, reverse=True)
                if each not in earlier
            }
            if len(places) > query.limit:
                break
            if is_over():
                next_before, looked_until_ns = _behind(part[-1].seq), part[-1].received_ns
                break
        page = list(places)[: query.limit]
        if len(places) > len(page):
            next_before = places[page[-1]].position
        summaries = self.trace_summaries(query.space, page)
        return TracePage(
            items=tuple(
                matched(summary, places[each].matches) for each, summary in summaries.items()
            ),
            next_before=next_before,
            as_of=as_of,
            looked_until_ns=looked_until_ns,
        )

    def traces_with_text(
        self,
        query: SpanQuery,
        finders: Sequence[SpanText],
        trace_ids: Collection[str],
        since: SpanPosition | None = None,
    ) -> dict[str, Matches]:
        """Select the traces that have a span, or a log event, with some texts; says where.

        Args:
            query: The other filters; its place is not looked at.
            finders: Look into spans, one for each text.
            trace_ids: The traces.
            since: Only spans from this place on.

        Cost: linear in the bytes of the spans that are read.
        """
        first = 0 if since is None else since.seq
        last = self.last_seq() if query.as_of is None else query.as_of
        hashes = self.maybe("traces", [trace_hash(each) for each in trace_ids])
        commits = self.read(_COMMITS, [first, last, hashes]) if hashes else []
        found: dict[str, Matches] = {}
        for each in reversed(list(runs(seq for (seq,) in commits))):
            left = [trace_id for trace_id in trace_ids if trace_id not in found]
            if not left:
                break
            values = Values()
            more = f" AND trace_id IN (SELECT unnest({values.of(left, _TEXTS)}))"
            places = self._text_places(query, each, values, more)
            new = self._newest_with(finders, query, places, since)
            found |= {trace_id: at.matches for trace_id, at in new.items()}
        return found

    def _text_parts(
        self, query: TraceQuery, own: SpanQuery, others: Sequence[SpanQuery]
    ) -> Iterator[Sequence[_Place]]:
        """Everything that the other filters name, newest first, in parts of whole commits."""
        assert query.as_of is not None  # noqa: S101 the search has filled it in
        newest = query.as_of if query.before is None else min(query.as_of, query.before.seq)
        most = _FIRST_BYTES
        for first, last in commit_steps(newest, _MOST_COMMITS):
            values = Values()
            more = ""
            if others or query.without_tool is not None:
                around = self.commits_around(query, first, last)
                more = trace_conditions(query, others, around, values)
            part: list[_Place] = []
            size = 0
            for place in self._text_places(own, (first, last), values, more):
                if size >= most and place.seq != part[-1].seq:
                    yield part
                    part, size, most = [], 0, min(most * _GROWTH, _MOST_BYTES)
                part.append(place)
                size += place.size_bytes
            if part:
                yield part

    def _text_places(
        self, query: SpanQuery, commits: tuple[int, int], values: Values, more: str
    ) -> list[_Place]:
        """Places of the spans that a filter names, newest first.

        Args:
            query: The filter.
            commits: The first and the last commit that are looked at.
            values: Values of parameters in `more`.
            more: SQL of further conditions.
        """
        first, last = (values.of(each, "BIGINT") for each in commits)
        rows = self.read(
            "SELECT seq, trace_id, sum(size_bytes)::BIGINT, max(received_ns) FROM spans"
            f" WHERE seq BETWEEN {first} AND {last}"
            f" AND {span_condition(query, values, has_events=True)}{more}"
            " GROUP BY seq, trace_id ORDER BY seq DESC, trace_id",
            values,
        )
        return [_Place(*row) for row in rows]

    def _newest_with(
        self,
        finders: Sequence[SpanText],
        query: SpanQuery,
        places: Sequence[_Place],
        since: SpanPosition | None = None,
    ) -> dict[str, _Found]:
        """By trace its newest span with the texts at some places, and from a position on."""
        found: dict[str, _Found] = {}
        for part in split(places, lambda place: (place.size_bytes,), (_MOST_BYTES,)):
            matches = self._text_matches(finders, query.space, part)
            for position in self._text_positions(query, matches):
                before = found.get(position.trace_id)
                is_newer = before is None or before.position < position
                if is_newer and (since is None or position >= since):
                    key = position.seq, position.trace_id, position.span_id
                    found[position.trace_id] = _Found(position, matches[key])
        return found

    def _text_matches(
        self, finders: Sequence[SpanText], space: str, places: Sequence[_Place]
    ) -> dict[_Key, Matches]:
        """The spans with the texts in the bodies at some places."""
        wanted = {(place.seq, place.trace_id) for place in places}
        seqs, trace_ids = [seq for seq, _ in wanted], list({each for _, each in wanted})
        found: dict[_Key, Matches] = {}
        for seq, trace_id, body in self.read(_BODIES, [min(seqs), max(seqs), space, trace_ids]):
            message = decompress(body) if (seq, trace_id) in wanted else b""
            if all(each.may_be_in(message) for each in finders):
                for span in decode_request(ExportTraceServiceRequest.FromString(message)).spans:
                    if matches := all_of(each.match(span) for each in finders):
                        found[seq, trace_id, span.span_id] = matches
        return found

    def _text_positions(self, query: SpanQuery, keys: Collection[_Key]) -> list[SpanPosition]:
        """Those of some spans that a filter names; a better version took the place of others."""
        if not keys:
            return []
        values = Values()
        where = (
            f"{within((seq for seq, _, _ in keys), values)}"
            f" AND {span_condition(query, values, has_events=True)}"
            f" AND trace_id IN (SELECT unnest({values.of([each for _, each, _ in keys], _TEXTS)}))"
            f" AND span_id IN (SELECT unnest({values.of([each for *_, each in keys], _TEXTS)}))"
        )
        rows = self.read(
            f"SELECT seq, start_ns, trace_id, span_id FROM spans WHERE {where}", values
        )
        return [SpanPosition(*row) for row in rows if (row[0], *row[2:]) in keys]


def _conditions(query: TraceQuery) -> tuple[SpanQuery, Sequence[SpanQuery]]:
    """The filter of the spans that are searched, and those of other spans of their traces."""
    criteria = query.criteria()
    if query.is_same_span and criteria:
        return replace(criteria[0], judged=query.judged), ()
    return of_period(query), criteria


def _behind(seq: int) -> SpanPosition:
    """Behind all spans of a commit, before those of the one that came earlier."""
    return SpanPosition(seq - 1, _MOST_NS, "f" * 32, "f" * 16)
