"""Answers of every store to whose, with what attributes and texts, and what belongs to it."""

from typing import Any, Final

import pytest

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.record_queries import RecordQuery, SessionQuery
from collector.store.span_queries import SpanQuery, TraceQuery
from scouter.model.span import Span, SpanLink
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore

ANNA, BERT, OTHER = (f"{n:032x}" for n in (1, 2, 3))
TOOL: Final = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
CALLER: Final = f"00-{ANNA}-{1:016x}-01"


def never() -> bool:
    return False


def found_by(store: AppendingStore, **filters: Any) -> dict[str, list[str]]:
    """What each list has for a filter, by the name of the user."""
    names = {ANNA: "anna", BERT: "bert", OTHER: "other"}
    traces = store.traces(TraceQuery(space=SPACE, **_columns(filters))).items
    records = store.records(RecordQuery(space=SPACE, **filters)).items
    evaluations = store.evaluations(EvaluationQuery(space=SPACE, **filters)).items
    sessions = store.sessions(SessionQuery(space=SPACE, **filters)).items
    return {
        "traces": sorted(names[each.trace_id] for each in traces),
        "records": sorted(each.record.uid for each in records),
        "evaluations": sorted(each.record_uid for each in evaluations),
        "sessions": sorted(each.session_id for each in sessions),
    }


def _columns(filters: dict[str, Any]) -> dict[str, Any]:
    """The filter as that of spans, which have the user as a column."""
    user = filters.get("user_id")
    columns = {} if user is None else {"user_id": user}
    return {"columns": columns, "attributes": filters.get("attributes", ())}


class StoreFindContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            ({"user_id": "anna"}, ["anna"]),
            ({"user_id": "bert"}, ["bert"]),
            ({"user_id": "ann"}, []),
            ({"attributes": (("tenant", "blue"),)}, ["anna", "bert"]),
            ({"attributes": (("tenant", "blue"), ("n", "7"))}, ["anna"]),
            ({"attributes": (("user.id", "anna"),)}, ["anna"]),
            ({"attributes": (("tenant", "blue"),), "user_id": "bert"}, ["bert"]),
            ({"attributes": (("n", "7"),), "user_id": "bert"}, []),
            ({"user_id": "eve"}, []),
        ],
    )
    def test_lists_of_a_user_and_of_attributes(
        self, store: AppendingStore, filters: dict[str, Any], found: list[str]
    ) -> None:
        """Each may be on another span of the trace; another space has another anna."""
        for name, trace_id in (("anna", ANNA), ("bert", BERT)):
            spans = [
                span(1, trace_id=trace_id, attributes={"user.id": name, "tenant": "blue"}),
                span(2, trace_id=trace_id, attributes={"n": 7 if name == "anna" else 8}),
            ]
            store.append_spans(SPACE, spans, 1).result()
            store.append_records([record(name, session_id=name, trace_id=trace_id)]).result()
            store.append_evaluations(
                [evaluation(name, session_id=name, trace_id=trace_id)]
            ).result()
        store.append_records([record("none")]).result()
        eve = span(trace_id=OTHER, attributes={"user.id": "eve"})
        store.append_spans("elsewhere", [eve], 1).result()
        store.append_records([record("spy", trace_id=OTHER)]).result()

        lists = ("traces", "records", "evaluations", "sessions")
        assert found_by(store, **filters) == dict.fromkeys(lists, found)

    def test_users_are_counted_and_shown(self, store: AppendingStore) -> None:
        spans = [
            span(trace_id=trace_id, attributes={"enduser.id": name})
            for trace_id, name in ((ANNA, "anna"), (BERT, "bert"), (OTHER, "anna"))
        ]
        store.append_spans(SPACE, spans, 1).result()
        facets = store.trace_facets(TraceQuery(space=SPACE), lambda _: False)
        assert facets.counts["user_id"] == {"anna": 2, "bert": 1}
        page = store.spans(SpanQuery(space=SPACE, columns={"user_id": "bert"}))
        assert [each.columns["user_id"] for each in page.items] == ["bert"]

    @pytest.mark.parametrize(
        ("texts", "fields", "found"),
        [
            (["refused", "order 7"], {}, [ANNA]),
            (["order 7", "REFUSED"], {}, [ANNA]),
            (["refused"], {}, [BERT, ANNA]),
            (["refused", "nowhere"], {}, []),
            (["refused", "order", "refund"], {"columns": {"tool_name": "refund"}}, [BERT, ANNA]),
            (["refused", "order 7"], {"is_same_span": True}, []),
            (["refused", "refund"], {"is_same_span": True}, [BERT, ANNA]),
        ],
    )
    def test_texts_of_a_trace(
        self, store: AppendingStore, texts: list[str], fields: dict[str, Any], found: list[str]
    ) -> None:
        """The user's words and the tool's result are in spans of their own."""
        for number, trace_id in ((7, ANNA), (8, BERT)):
            tool = {**TOOL, "gen_ai.tool.call.result": "the refund was refused"}
            own = span(1, trace_id=trace_id, attributes={"input.value": f"my order {number}"})
            store.append_spans(SPACE, [own], 1).result()
            made = span(2, trace_id=trace_id, attributes=tool)
            store.append_spans(SPACE, [made], 1).result()
        query = TraceQuery(space=SPACE, **fields)
        page = store.search_traces(query, texts[0], never, texts[1:])
        assert [each.trace_id for each in page.items] == found
        for each in page.items:
            assert each.match is not None
            places = [each.match.text, *(other.text for other in each.more_matches)]
            assert [text.lower() for text in places] == [text.lower() for text in texts]

    def test_pages_of_several_texts_have_each_trace_once(self, store: AppendingStore) -> None:
        ids = [f"{n:032x}" for n in range(1, 10)]
        for n, trace_id in enumerate(ids):
            name = "blue" if n % 2 else "red"
            spans = [span(1, trace_id=trace_id, name=name), span(2, trace_id=trace_id, name="sky")]
            store.append_spans(SPACE, spans, 1).result()
        query, found = TraceQuery(space=SPACE, limit=1), list[str]()
        while True:
            page = store.search_traces(query, "sky", never, ["blue"])
            found += [each.trace_id for each in page.items]
            if page.next_before is None:
                break
            query = TraceQuery(space=SPACE, limit=1, before=page.next_before, as_of=page.as_of)
        assert found == ids[7::-2]

    def test_texts_of_records_and_sessions(self, store: AppendingStore) -> None:
        """A record and its trace have all texts together; two records of a session do not."""
        said = span(trace_id=ANNA, attributes={"output.value": "refused"})
        store.append_spans(SPACE, [said], 1).result()
        rows = [
            record("both", session_id="a", context={"q": "order 7", "a": "refused"}),
            record("half", session_id="b", context={"q": "order 7"}, trace_id=ANNA),
            record("one", session_id="c", context={"q": "order 7"}),
            record("two", session_id="c", context={"a": "refused"}),
        ]
        store.append_records(rows).result()
        records = store.records(RecordQuery(space=SPACE), never, ["refused", "order"])
        assert [each.record.uid for each in records.items] == ["both"]
        (both,) = records.items
        assert [each.where for each in both.more_matches] == ["q"]
        sessions = store.sessions(SessionQuery(space=SPACE), never, ["order", "refused"])
        assert sorted(each.session_id for each in sessions.items) == ["a", "b"]

    @pytest.mark.parametrize(
        ("own", "other"),
        [
            ({}, {"attributes": {"mcp.params._meta": f'{{"traceparent": "{CALLER}"}}'}}),
            ({}, {"attributes": {"input.value": "x" * 999 + f'"traceparent":"{CALLER}"'}}),
            ({}, {"attributes": {"_meta": {"traceparent": CALLER}}}),
            ({}, {"links": (SpanLink(trace_id=ANNA, span_id=f"{1:016x}"),)}),
            ({"attributes": {"a2a.task.id": "t-1"}}, {"attributes": {"a2a.task_id": "t-1"}}),
            (
                {"attributes": {"mcp.session.id": "s", "jsonrpc.request.id": 3}},
                {"attributes": {"mcp.session.id": "s", "jsonrpc.request.id": 3}},
            ),
        ],
    )
    def test_traces_that_belong_together(
        self, store: AppendingStore, own: dict[str, Any], other: dict[str, Any]
    ) -> None:
        """Each finds the other one, and no third, nor one of another space."""
        day_ns = 24 * 3600 * 10**9
        caller = span(1, trace_id=ANNA, **own)
        called = span(2, trace_id=BERT, **other)
        late = span(3, trace_id=OTHER, **(other | {"start_ns": 2 * day_ns, "end_ns": 2 * day_ns}))
        beside = span(4, trace_id=OTHER[:-1] + "4", attributes={"mcp.session.id": "s"})
        crowd = [span(9, trace_id=f"{n:032x}", attributes={"job": "t-1"}) for n in range(1, 31)]
        store.append_spans(SPACE, [*crowd, caller, called, late, beside], 1).result()
        store.append_spans("elsewhere", [span(5, trace_id=OTHER[:-1] + "5", **other)], 1).result()
        assert store.linked_traces(SPACE, [caller]) == [BERT]
        assert store.linked_traces(SPACE, [called]) == [ANNA]

    def test_many_attributes_are_searched_but_for_parts_of_messages(
        self, store: AppendingStore
    ) -> None:
        parts = {f"llm.input_messages.{n}.message.role": "user" for n in range(200)}
        one = span(attributes={**parts, "tenant": "blue"})
        assert isinstance(one, Span)
        store.append_spans(SPACE, [one], 1).result()
        tenant = SpanQuery(space=SPACE, attributes=(("tenant", "blue"),))
        assert len(store.spans(tenant).items) == 1
        last = SpanQuery(space=SPACE, attributes=(("llm.input_messages.199.message.role", "user"),))
        assert store.spans(last).items == ()
