"""Spans from the Parquet files that a collector writes."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import dataclasses
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.store.bodies import compress
from collector.store.json_text import dump_json, load_json
from collector.store.schema import COLUMNS
from collector.store.span_export import SPAN_COLUMNS, SPAN_SCHEMA, span_table
from scouter.errors import ConfigError, DataError
from scouter.evaluate import SpanFilesError, read_spans
from scouter.evaluate.spans.parquet import parquet_spans
from scouter.model.log_event import EVENT_SCOPE
from scouter.model.otlp import decode_request, encode_request
from scouter.model.span import Attributes, Span
from tests.contracts.store_data import span, spans
from tests.support.store_commits import row_of


def exported(*given: Span) -> pa.Table:
    """The table that a collector makes of spans."""
    body = compress(encode_request(given).SerializeToString())
    names = [name for name, _ in COLUMNS["spans"]]
    rows = [
        tuple(
            1 if name == "seq" else int(row_of("s", each, 1).is_event) if name == "is_event"
            else getattr(each, name, None) if name != "space" else "s"
            for name in SPAN_COLUMNS.split(", ")
        )
        for each in given
    ]  # fmt: skip
    assert set(SPAN_COLUMNS.split(", ")) <= set(names)
    return span_table(rows, [(1, "s", body)])


def plain(values: Attributes) -> object:
    """Attributes as JSON has them."""
    return load_json(dump_json(values))


@settings(deadline=None, max_examples=50)
@given(st.lists(spans, min_size=1, max_size=4, unique_by=lambda each: each.span_id))
def test_spans_come_back_as_they_were(given: list[Span]) -> None:
    """All but values that JSON has no word for, which are what its rule makes of them."""
    sent = decode_request(encode_request(given)).spans
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "spans.parquet"
        pq.write_table(exported(*sent), path, row_group_size=2)
        found = list(parquet_spans(path))
        some = list(parquet_spans(path, {sent[-1].trace_id}))
    assert some == [each for each in found if each.trace_id == sent[-1].trace_id]
    for one, other in zip(sent, found, strict=True):
        bare = {"attributes": {}, "events": (), "links": (), "resource": other.resource}
        assert dataclasses.replace(one, **bare) == dataclasses.replace(other, **bare)
        pairs = [
            (one, other), (one.resource, other.resource),
            *zip(one.events, other.events, strict=True), *zip(one.links, other.links, strict=True),
        ]  # fmt: skip
        for before, after in pairs:
            assert plain(after.attributes) == plain(before.attributes)
        assert [(e.name, e.time_ns) for e in one.events] == [
            (e.name, e.time_ns) for e in other.events
        ]
        assert [(e.trace_id, e.span_id) for e in one.links] == [
            (e.trace_id, e.span_id) for e in other.links
        ]


def test_log_events_become_events_of_their_spans(tmp_path: Path) -> None:
    event = span(2, parent_span_id=f"{1:016x}", name="gen_ai.user.message", scope=EVENT_SCOPE)
    path = tmp_path / "spans.parquet"
    pq.write_table(exported(span(1, attributes={"a": (1, {"b": 2})}), event), path)
    (found,) = read_spans(path)
    assert [each.name for each in found.events] == ["gen_ai.user.message"]
    assert found.attributes == {"a": (1, {"b": 2})}


def test_what_is_no_file_of_spans_is_reported(tmp_path: Path) -> None:
    other, cut, empty = (tmp_path / name for name in ("records", "cut", "empty"))
    pq.write_table(pa.table({"uid": ["u1"]}), other)
    pq.write_table(exported(span(1)), cut)
    cut.write_bytes(cut.read_bytes()[:-100])
    pq.write_table(SPAN_SCHEMA.empty_table(), empty)
    assert read_spans(empty) == ()
    with pytest.raises(SpanFilesError) as caught:
        read_spans(other, cut)
    first, second = map(str, caught.value.faults)
    assert "no file of spans: it has no column trace_id" in first
    assert "broken Parquet" in second
    with pytest.raises(DataError):
        list(parquet_spans(other))


def test_without_the_library_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spans.parquet"
    pq.write_table(exported(span(1)), path)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ConfigError, match="pip install pyarrow"):
        read_spans(path)
