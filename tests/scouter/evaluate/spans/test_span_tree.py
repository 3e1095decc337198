"""The span tree: order, parents, depth, odd input."""

import random
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import MS, agent_trace, span


def names(spans: Iterable[Span]) -> list[str]:
    return [s.name for s in spans]


def test_order_parents_and_sums() -> None:
    tree = agent_trace()

    assert names(tree.spans) == ["run", "chat", "search", "fetch", "chat", "save"]
    assert names(tree.roots) == ["run"]
    parents = [parent and parent.name for parent in map(tree.parent, tree.spans)]
    assert parents == [None, "run", "run", "search", "run", "run"]
    assert (len(tree), tree.depth, tree.orphans) == (6, 2, [])
    assert tree.duration_ns == 250.9 * MS


def test_spans_that_start_together() -> None:
    """The longer one first, then by span id."""
    tree = SpanTree([span(3, "c", 1), span(2, "b", 1), span(1, "a", None, (0, 2))])
    assert names(tree.spans) == ["a", "b", "c"]


def test_missing_parents_and_orphans() -> None:
    tree = SpanTree([span(2, "b", 9, (1, 2)), span(3, "c", 9, (2, 3)), span(4, "d", 2, (1, 2))])
    assert names(tree.roots) == names(tree.orphans) == ["b", "c"]
    assert tree.depth == 1


def test_nothing() -> None:
    tree = SpanTree()
    assert (len(tree), tree.roots, tree.depth, tree.duration_ns) == (0, (), 0, 0)


def test_the_same_span_twice_is_one() -> None:
    tree = SpanTree([span(1, "early", None, (0, 1)), span(1, "late", None, (0, 2))])
    assert names(tree.spans) == ["late"]


def test_several_traces_stay_apart() -> None:
    other = "b" * 32
    tree = SpanTree(
        [span(1, "a"), span(2, "b", 1), span(1, "x", trace=other), span(3, "y", 1, trace=other)]
    )
    assert len(tree) == 4
    assert len(tree.roots) == 2
    parents = {each.name: tree.parent(each) for each in tree.spans}
    assert {name: parent and parent.name for name, parent in parents.items()} == {
        "a": None, "b": "a", "x": None, "y": "x",
    }  # fmt: skip


@given(st.lists(st.integers(0, 6) | st.none(), max_size=7), st.randoms(use_true_random=False))
def test_any_parents_even_in_circles(parents: list[int | None], rng: random.Random) -> None:
    """Every span appears once, after its parent if that is above it; input order is no matter."""
    spans = [span(i, str(i), p, (i, i + 1)) for i, p in enumerate(parents)]
    tree = SpanTree(spans)
    order = [tree.span_ids[at] for at in tree.top_down]

    assert sorted(order) == sorted(s.span_id for s in spans)
    depths = dict(zip(tree.span_ids, tree.depths, strict=True))
    for s in tree.spans:
        parent, depth = tree.parent(s), depths[s.span_id]
        if depth:
            assert parent is not None
            assert depths[parent.span_id] == depth - 1
            assert order.index(parent.span_id) < order.index(s.span_id)
    rng.shuffle(spans)
    assert SpanTree(spans).spans == tree.spans
