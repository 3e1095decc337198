"""The version of a span that stays, against a brute force over everything that came."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.storage.duckdb.span_rows import SpanRows
from collector.storage.duckdb.store import DuckDBStore
from collector.storage.log.span_codec import Preference, encode_batch
from scouter.model.span import Span
from tests.support.examples import examples

SPACE = "default"
Version = tuple[int, int, int]
"""Number of the trace, of the span, and which version."""
BATCHES = st.lists(
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3)), max_size=8),
    min_size=1,
    max_size=5,
)


def version(each: Version) -> Span:
    trace, number, which = each
    return Span(
        trace_id=f"{trace:032x}", span_id=f"{number:016x}", name="chat", start_ns=1, end_ns=which
    )


def best(batches: Sequence[Sequence[Version]]) -> dict[tuple[int, int], Span]:
    """Of each span the version that ends last."""
    found: dict[tuple[int, int], Version] = {}
    for each in (each for batch in batches for each in batch):
        found[each[:2]] = max(each, found.get(each[:2], each))
    return {key: version(each) for key, each in found.items()}


@settings(deadline=None, max_examples=200)
@given(batches=BATCHES)
def test_the_best_version_of_each_span_is_stored(batches: list[list[Version]]) -> None:
    """In one commit; what is told as stored later takes the place of what was told before."""
    rows = SpanRows()
    rows.known = {(SPACE, f"{trace:032x}"): dict[str, Preference]() for trace in range(1, 4)}
    kept: dict[tuple[str, str], Span] = {}
    new = 0
    for frame, batch in enumerate(batches):
        added = rows.add(SPACE, 1, frame, encode_batch([version(each) for each in batch]))
        stored = {(span.trace_id, span.span_id): span for span in added.stored}
        assert len(stored) == len(added.stored)
        kept |= stored
        new += added.new
    expected = best(batches)
    assert new == len(expected)
    assert kept == {(span.trace_id, span.span_id): span for span in expected.values()}
    assert rows.replaced == []


@settings(deadline=None, max_examples=examples(10))
@given(batches=BATCHES, split=st.integers(0, 5))
def test_the_same_over_several_commits(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Version]], split: int
) -> None:
    """As the store shows them, which counts everything else as a duplicate."""
    store = DuckDBStore(tmp_path_factory.mktemp("data"))
    futures = [store.append_spans(SPACE, list(map(version, batch)), 1) for batch in batches[:split]]
    for future in futures:
        future.result(120)
    for batch in batches[split:]:
        store.append_spans(SPACE, list(map(version, batch)), 1).result(120)
    found = store.spans_of(SPACE, [f"{trace:032x}" for trace in range(1, 4)])
    shown = {(s.trace_id, s.span_id): s.end_ns for spans in found.values() for s in spans}
    expected = best(batches)
    assert shown == {(s.trace_id, s.span_id): s.end_ns for s in expected.values()}
    sheet = store.conservation(SPACE).spans
    assert (sheet.accepted, sheet.stored) == (len(expected), len(expected))
    assert sheet.duplicates == sum(map(len, batches)) - len(expected)
    store.close()
