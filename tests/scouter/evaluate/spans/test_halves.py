"""Traces that belong together, and one view over them."""

from collections.abc import Mapping
from typing import Any

import pytest

from scouter.evaluate.spans.halves import By, Half, find_halves, join_halves
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span, SpanKind, SpanLink

OWN, OTHER, THIRD = (f"{n:032x}" for n in (1, 2, 3))


def span(number: int, trace_id: str = OWN, parent: int | None = None, **fields: Any) -> Span:
    given: dict[str, Any] = {"name": f"span {number}", "start_ns": number, "end_ns": 100} | fields
    return Span(
        trace_id=trace_id, span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}", **given,
    )  # fmt: skip


def parent(trace_id: str = OWN, number: int = 2) -> str:
    return f"00-{trace_id}-{number:016x}-01"


REQUEST = {"mcp.session.id": "s", "jsonrpc.request.id": 3, "mcp.method.name": "tools/call"}
TASK = {"a2a.task.id": "t-1"}


@pytest.mark.parametrize(
    ("own", "other", "found"),
    [
        pytest.param({}, {"params._meta": f'{{"traceparent":"{parent()}"}}'},
                     (By.TRACEPARENT, parent(), False, 12, 2), id="meta-as-json"),
        pytest.param({}, {"_meta": {"traceparent": parent()}},
                     (By.TRACEPARENT, parent(), False, 12, 2), id="meta-as-object"),
        pytest.param({"mcp.traceparent": parent(OTHER, 12)}, {},
                     (By.TRACEPARENT, parent(OTHER, 12), True, 12, 2), id="called-by-it"),
        pytest.param(TASK, TASK, (By.TASK, "t-1", False, 12, 2), id="task"),
        pytest.param(TASK, {"a2a.task_id": "t-1"}, (By.TASK, "t-1", False, 12, 2), id="task-id"),
        pytest.param(REQUEST, REQUEST | {"jsonrpc.request.id": "3"},
                     (By.REQUEST, "s 3", False, 12, 2), id="request"),
        pytest.param(TASK, {"a2a.task.id": "t-2"}, None, id="another-task"),
        pytest.param(TASK, {"task.id": "t-1"}, None, id="no-task-of-a2a"),
        pytest.param(REQUEST, REQUEST | {"jsonrpc.request.id": 4}, None, id="another-request"),
        pytest.param({"jsonrpc.request.id": 3}, {"jsonrpc.request.id": 3}, None, id="no-session"),
        pytest.param({}, {"traceparent": parent(THIRD)}, None, id="a-third-trace"),
        pytest.param({}, {"note": parent()}, None, id="no-traceparent"),
        pytest.param({}, {"traceparent": "00-zz-1-01"}, None, id="broken"),
    ],
)  # fmt: skip
def test_find_halves(
    own: Mapping[str, Any], other: Mapping[str, Any], found: tuple[Any, ...] | None
) -> None:
    """The caller's half began first; span 2 of it and span 12 of the other are where they meet."""
    spans = [span(1), span(2, parent=1, attributes=own)]
    others = {OTHER: [span(11, OTHER), span(12, OTHER, parent=11, attributes=other)]}
    wanted: list[Half] = []
    if found is not None:
        by, value, is_caller, number, of = found
        wanted = [
            Half(
                trace_id=OTHER, by=by, value=value, is_caller=is_caller,
                span_id=f"{number:016x}", of_span_id=f"{of:016x}",
            )
        ]  # fmt: skip
    assert find_halves(spans, others) == wanted


def test_a_link_leads_to_the_caller() -> None:
    link = SpanLink(trace_id=OWN, span_id=f"{2:016x}")
    spans, theirs = [span(2)], [span(11, OTHER, links=(link,))]
    (half,) = find_halves(spans, {OTHER: theirs})
    assert (half.by, half.value, half.is_caller) == (By.LINK, "", False)
    (half,) = find_halves(theirs, {OWN: spans})
    assert (half.is_caller, half.span_id, half.of_span_id) == (True, f"{2:016x}", f"{11:016x}")


@pytest.mark.parametrize("kind", [SpanKind.CLIENT, SpanKind.SERVER])
def test_the_kind_tells_the_caller_where_clocks_do_not(kind: SpanKind) -> None:
    other = SpanKind.SERVER if kind is SpanKind.CLIENT else SpanKind.CLIENT
    own = span(2, kind=kind, attributes=TASK)
    theirs = span(1, OTHER, kind=other, attributes=TASK)
    (half,) = find_halves([own], {OTHER: [theirs]})
    assert half.is_caller is (kind is SpanKind.SERVER)


def test_traces_are_found_once_in_the_order_of_their_begin() -> None:
    others = {
        THIRD: [span(30, THIRD, attributes=TASK)],
        OTHER: [span(20, OTHER, attributes={"traceparent": parent(), **TASK})],
    }
    found = find_halves([span(2, attributes=TASK)], others)
    assert [(each.trace_id, each.by) for each in found] == [
        (OTHER, By.TRACEPARENT),
        (THIRD, By.TASK),
    ]


def test_a_called_trace_stands_below_its_caller_from_either_side() -> None:
    """The top of the called trace is put there, with all that is below it."""
    caller = [span(1), span(2, parent=1)]
    called = [
        span(11, OTHER),
        span(12, OTHER, parent=11, attributes={"traceparent": parent()}),
        span(13, OTHER, parent=12),
    ]
    for own, others in ((caller, {OTHER: called}), (called, {OWN: caller})):
        tree = SpanTree(join_halves(own, others, find_halves(own, others)))
        depths = dict(zip(tree.names, tree.depths, strict=True))
        assert depths == {"span 1": 0, "span 2": 1, "span 11": 2, "span 12": 3, "span 13": 4}
        assert tree.trace_ids == (own[0].trace_id,)
        assert len(tree.orphans) == 0


def test_a_span_that_is_not_stored_leaves_an_orphan() -> None:
    called = [span(11, OTHER, attributes={"traceparent": parent(number=9)})]
    found = find_halves([span(1)], {OTHER: called})
    tree = SpanTree(join_halves([span(1)], {OTHER: called}, found))
    assert [each.name for each in tree.orphans] == ["span 11"]
