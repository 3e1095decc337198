"""Answers of every store about traces with a text in their spans."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.store.record_queries import SessionQuery
from collector.store.span_queries import JudgedBy, TraceQuery
from scouter.evaluate.outcome import Outcome
from scouter.model.log_event import EVENT_SCOPE
from scouter.model.span import Resource, SpanEvent
from tests.contracts.store_data import SPACE, TRACE, evaluation, record, span
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore

_IN_CLASS = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,
    ],
)


def never() -> bool:
    return False


def found(store: AppendingStore, text: str, **filters: Any) -> list[str]:
    page = store.search_traces(TraceQuery(space=SPACE, **filters), text, never)
    assert page.looked_until_ns is None
    return [each.trace_id for each in page.items]


def trace(number: int) -> str:
    return f"{number:032x}"


_MATCHES: Sequence[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"name": "chat Blue"}, ("name", "chat ", "Blue", "")),
    ({"status_message": "it is blue"}, ("status", "it is ", "blue", "")),
    ({"attributes": {"no": "red", "said": ("red", "Blue!")}}, ("said", "", "Blue", "!")),
    ({"attributes": {"said": json.dumps({"a": "1 blue", "blue": 2})}},
     ("said", "1 ", "blue", "")),
    ({"attributes": {"said": json.dumps([{"b": "blue 1"}, "blue 2"])}},
     ("said", "", "blue", " 1")),
    ({"events": (SpanEvent(name="blue", time_ns=1),)}, ("event", "", "blue", "")),
    ({"events": (SpanEvent(name="x", time_ns=1, attributes={"k": "x" * 61 + "blue"}),)},
     ("k", "…" + "x" * 60, "blue", "")),
]  # fmt: skip
"""Fields of a span with the text, and where it is."""


class StoreTraceTextContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @pytest.mark.parametrize(
        ("value", "text", "is_found"),
        [
            ("The refund is late", "REFUND IS", True),
            ("The refund is late", "refund  is", False),
            ("line\nname", "\n", True),
            ("São Paulo", "SÃO", True),
            ("100% (a.b)*", "% (a.b)*", True),
            ("axb", "a.b", False),
            ("\x00\x1b", "\x00\x1b", True),
            ("🙂", "🙂", True),
            ('say "yes"', '"yes"', True),
            ("c:\\now", "\\n", True),
            ("c:\\now", "\n", False),
            (("a", "the refund"), "refund", True),
            ({"city": "Oslo"}, "oslo", True),
            ({"city": "Oslo"}, "city", True),
            (json.dumps({"a": "line\nothing"}), "nothing", False),
            (json.dumps({"a": "line\nothing"}), "\nothing", True),
            (json.dumps({"a": "São 🙂"}), "são 🙂", True),
            (json.dumps({"a": "São"}, ensure_ascii=False), "SÃO", True),
            (json.dumps({"a": {"b": "c"}}), '"b":', False),
            (json.dumps({"order_id": 712}), "order", True),
            (json.dumps({"order_id": 712}), "712", True),
            (json.dumps([{"arguments": json.dumps({"say": '"São"\n'})}]), '"são"\n', True),
            ('{"cut": "the refund', "refund", True),
            ('{"a": "\\u003cb\\/"}', "<b/", True),
        ],
    )
    def test_texts(self, store: AppendingStore, value: Any, text: str, is_found: bool) -> None:
        """In an attribute, an event and a log event; inside JSON by its names and values alone."""
        said = {"said": value}
        event = SpanEvent(name="x", time_ns=1, attributes=said)
        rows = [
            span(1, trace_id=trace(1), attributes=said),
            span(2, trace_id=trace(2), events=(event,)),
        ]
        store.append_spans(SPACE, [*rows, span(3, trace_id=trace(3))], 1).result()
        logged = span(4, trace_id=trace(3), attributes=said, scope=EVENT_SCOPE)
        store.append_spans(SPACE, [logged], 2).result()
        assert sorted(found(store, text)) == [trace(1), trace(2), trace(3)] * is_found

    def test_names_and_messages_are_texts_and_keys_are_none(self, store: AppendingStore) -> None:
        store.append_spans(
            SPACE,
            [
                span(1, trace_id=trace(1), name="chat Blue"),
                span(2, trace_id=trace(2), status_message="it is blue"),
                span(3, trace_id=trace(3), events=(SpanEvent(name="blue", time_ns=1),)),
                span(4, trace_id=trace(4), attributes={"blue": "red"}),
                span(5, trace_id=trace(5), resource=Resource(attributes={"a": "blue"})),
            ],
            1,
        ).result()
        assert sorted(found(store, "blue")) == [trace(1), trace(2), trace(3)]

    @pytest.mark.parametrize(("fields", "match"), _MATCHES)
    def test_a_trace_tells_where_its_text_is(
        self, store: AppendingStore, fields: dict[str, Any], match: tuple[str, ...]
    ) -> None:
        """In the newest span with it."""
        rows = [span(1, name="blue of before"), span(2, **fields), span(3)]
        for seq, row in enumerate(rows):
            store.append_spans(SPACE, [row], seq).result()
        (trace,) = store.search_traces(TraceQuery(space=SPACE), "blue", never).items
        assert trace.match is not None
        assert tuple(dict(trace.match).values()) == match

    @_IN_CLASS
    @given(said=st.text(max_size=12), text=st.text(min_size=1, max_size=3), data=st.data())
    def test_a_text_is_found_where_python_finds_it(
        self, store: AppendingStore, said: str, text: str, data: st.DataObject
    ) -> None:
        """Plain, as JSON, and as JSON in JSON; letters of two cases are left to the table."""
        if not (said + text).isascii() and (said + text).lower() != said + text:
            return
        if said.lstrip()[:1] in ("{", "["):
            return  # maybe JSON, which is searched by its parts
        value = said
        for _ in range(data.draw(st.integers(0, 2))):
            value = json.dumps({"": value}, ensure_ascii=data.draw(st.booleans()))
        number = store.last_seq() + 1
        row = span(number, trace_id=trace(number), name="", attributes={"said": value})
        store.append_spans(SPACE, [row], 1).result()
        wanted = [trace(number)] * (text.lower() in said.lower())
        assert found(store, text, attributes=(("said", value),)) == wanted

    def test_other_filters_and_pages_join_the_text(self, store: AppendingStore) -> None:
        """Every third of 60 traces has the word, in two of its spans; every second one failed."""
        for n in range(60):
            said = {"said": "blue" if n % 3 == 0 else "red", "gen_ai.operation.name": "chat"}
            for part in (0, 100):
                row = span(n + part, trace_id=trace(n + 1), attributes=said, start_ns=n, end_ns=n)
                store.append_spans(SPACE, [row], n + part).result()
            if n % 2 == 0:
                row = evaluation(f"u{n}", Outcome.FAILED, trace_id=trace(n + 1))
                store.append_evaluations([replace(row, evaluation_id=f"e{n}")]).result()
        query = TraceQuery(
            space=SPACE, limit=3, since_ns=10, until_ns=50, columns={"operation": "chat"},
            judged=JudgedBy(outcome=Outcome.FAILED),
        )  # fmt: skip
        numbers: list[int] = []
        while True:
            page = store.search_traces(query, "blue", never)
            assert len(page.items) <= 3
            numbers += [int(each.trace_id, 16) - 1 for each in page.items]
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before, as_of=page.as_of)
        assert numbers == list(range(48, 11, -6))
        assert found(store, "blue", columns={"operation": "embeddings"}) == []

    @_IN_CLASS
    @given(data=st.data())
    def test_searches_that_end_early_are_the_whole_together(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Time is always up; each trace is listed once, at the place of its newest such span."""
        space = f"space {store.last_seq()}"
        wanted: list[str] = []
        for number in range(1, data.draw(st.integers(1, 10))):
            rows = [
                span(
                    number * 10 + n, trace_id=trace(data.draw(st.integers(1, 3))), start_ns=n,
                    end_ns=n, attributes={"said": data.draw(st.sampled_from(["blue", "red"]))},
                )
                for n in range(data.draw(st.integers(1, 3)))
            ]  # fmt: skip
            store.append_spans(space, rows, number).result()
            for row in rows:
                if row.attributes["said"] == "blue":
                    wanted = [row.trace_id, *(each for each in wanted if each != row.trace_id)]
        query = TraceQuery(space=space, limit=data.draw(st.integers(1, 2)))
        is_over = data.draw(st.booleans())
        pages: list[str] = []
        while True:
            page = store.search_traces(query, "BLUE", lambda: is_over)
            pages += [each.trace_id for each in page.items]
            if page.next_before is None:
                break
            query = replace(query, before=page.next_before, as_of=page.as_of)
        assert pages == wanted

    def test_a_search_that_ends_early_says_how_far_it_looked(self, store: AppendingStore) -> None:
        """Thirty traces of 100 kB, the oldest of which has the word."""
        for n in range(30):
            said = {"said": "x" * 100_000 + ("needle" if n == 0 else "")}
            row = span(1, trace_id=trace(n + 1), attributes=said)
            store.append_spans(SPACE, [row], 1000 + n).result()
        query, reached = TraceQuery(space=SPACE), list[int]()
        while (page := store.search_traces(query, "needle", lambda: True)).looked_until_ns:
            reached.append(page.looked_until_ns)
            if page.items:
                break
            query = replace(query, before=page.next_before, as_of=page.as_of)
        assert [each.trace_id for each in page.items] == [trace(1)]
        assert len(reached) > 2
        assert reached == sorted(set(reached), reverse=True)
        assert found(store, "nobody says this", since_ns=5) == []

    def test_nothing_of_another_space_is_found(self, store: AppendingStore) -> None:
        store.append_spans("other", [span(1, attributes={"said": "blue"})], 1).result()
        assert found(store, "blue") == []
        page = store.search_traces(TraceQuery(space="other"), "blue", never)
        assert [each.trace_id for each in page.items] == [TRACE]


class StoreSessionMatchContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @pytest.mark.parametrize(("fields", "match"), _MATCHES)
    def test_a_conversation_tells_where_a_span_has_its_text(
        self, store: AppendingStore, fields: dict[str, Any], match: tuple[str, ...]
    ) -> None:
        """In the newest span with it, of a trace of its records."""
        rows = [span(1, name="blue of before"), span(2, **fields), span(3)]
        for seq, row in enumerate(rows):
            store.append_spans(SPACE, [row], seq).result()
        store.append_records([record(trace_id=TRACE)]).result()
        (session,) = store.sessions(SessionQuery(space=SPACE), never, ["blue"]).items
        assert session.match is not None
        assert tuple(dict(session.match).values()) == match
