"""Completeness span by span: versions replace each other, and cost nothing extra."""

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.worker.trace_facts import TraceFacts
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.contracts.store_data import span


@st.composite
def versions(draw: st.DrawFn) -> Span:
    """Any version of one of five spans, of one of two processes of ours or of another SDK."""
    process = draw(st.sampled_from(["p", "q", None]))
    parent = draw(st.sampled_from([None, 1, 2, 3, 4, 5, 9]))
    count = draw(st.sampled_from([0, 1, 2, 3]))
    return span(
        draw(st.integers(1, 5)),
        parent_span_id=None if parent is None else f"{parent:016x}",
        parent_is_remote=draw(st.sampled_from([None, False, True])),
        attributes={PROCESS_SPAN_COUNT: count} if count else {},
        resource=Resource(attributes={PROCESS_ID: process} if process else {}),
    )


def facts_of(spans: list[Span]) -> tuple[int, bool, bool, bool, int]:
    facts = TraceFacts()
    for each in spans:
        facts.add(each)
    flags = facts.is_foreign, facts.is_complete, facts.has_gaps
    return facts.missing_parents, *flags, len(facts)


@given(st.lists(versions(), max_size=20))
def test_what_counts_are_the_last_versions_in_any_order(spans: list[Span]) -> None:
    """As counted anew from the last version of each span; missing parents by brute force."""
    last = {each.span_id: each for each in spans}
    spans_left = list(last.values())
    random.Random(len(spans)).shuffle(spans_left)
    found = facts_of(spans)
    assert found == facts_of(spans_left)
    assert found[3] is bool(SpanTree(spans_left).gaps.spans)
    assert found[0] == len({each.parent_span_id for each in spans_left} - {None} - set(last))


@pytest.mark.pace
def test_versions_that_end_ever_later_cost_no_more_than_new_spans() -> None:
    """The same span 20,000 times in a trace of 2,000; counted anew each time it took minutes."""
    facts = TraceFacts()
    for n in range(1, 2_001):
        facts.add(span(n, parent_span_id=None if n == 1 else f"{1:016x}"))
    started = time.perf_counter()
    for n in range(20_000):
        facts.add(span(2, parent_span_id=f"{n % 3 + 1:016x}", end_ns=100 + n))
    assert time.perf_counter() - started < 10
    assert (len(facts), facts.missing_parents, facts.is_complete) == (2_000, 0, True)
