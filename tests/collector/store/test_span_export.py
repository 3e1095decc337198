"""Spans as tables: each once, its best version, with what only its body says."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

import json
from collections.abc import Callable

from collector.store.span_export import span_tables
from scouter.model.span import Scope, SpanEvent, SpanLink, StatusCode
from tests.contracts.store_data import SPACE, TRACE, span
from tests.support.store_appends import AppendingPostgresql, AppendingStore

Open = Callable[[], AppendingStore | AppendingPostgresql]


def test_spans_come_with_what_their_bodies_say(open_store: Open) -> None:
    """A better version takes the place of the first; what comes later is left out."""
    store = open_store()
    full = span(
        1, end_ns=30, status=StatusCode.ERROR, status_message="no", trace_state="a=b",
        attributes={"gen_ai.operation.name": "chat", "long": "x" * 300},
        events=(SpanEvent(name="e", time_ns=12, attributes={"k": 1}),),
        links=(SpanLink(trace_id="1" * 32, span_id="2" * 16, attributes={}),),
        scope=Scope(name="lib", version="2"), parent_is_remote=True,
    )  # fmt: skip
    store.append_spans(SPACE, [span(1), span(2)], 5).result()
    seq = store.append_spans(SPACE, [full], 6).result().seq
    store.append_spans("other", [span(3)], 7).result()
    rows = [row for table in span_tables(store, seq) for row in table.to_pylist()]
    store.close()

    assert [(row["span_id"], row["received_ns"]) for row in rows] == [
        (f"{2:016x}", 5), (f"{1:016x}", 6),
    ]  # fmt: skip
    found = rows[1]
    assert (found["seq"], found["trace_id"], found["end_ns"]) == (seq, TRACE, 30)
    assert (found["operation"], found["status"], found["is_event"]) == ("chat", 2, False)
    assert (found["status_message"], found["trace_state"]) == ("no", "a=b")
    assert (found["scope_name"], found["scope_version"]) == ("lib", "2")
    assert found["parent_is_remote"] is True
    assert json.loads(found["attributes"])["long"] == "x" * 300
    assert json.loads(found["events"]) == [["e", 12, {"k": 1}]]
    assert json.loads(found["links"]) == [["1" * 32, "2" * 16, {}]]


def test_an_empty_store_gives_the_columns(open_store: Open) -> None:
    store = open_store()
    (table,) = span_tables(store, 9)
    store.close()
    assert (table.num_rows, "attributes" in table.column_names) == (0, True)


def test_long_commits_are_parts_of_their_own(open_store: Open) -> None:
    """Of five commits of 2 MB each two are one part; the last one stands alone."""
    store = open_store()
    for n in range(1, 6):
        store.append_spans(SPACE, [span(n, attributes={"said": "x" * 2_000_000})], n).result()
    sizes = [table.num_rows for table in span_tables(store, store.last_seq())]
    store.close()
    assert sizes == [2, 2, 1]
