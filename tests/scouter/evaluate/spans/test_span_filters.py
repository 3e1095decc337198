"""Span filters against brute force, on trees of every shape."""

import random
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.trace import SpanKind as OtelKind
from pydantic import ValidationError

from scouter.evaluate.spans.about import count_runs
from scouter.evaluate.spans.filters import compile_filter
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.span_filter import LEVEL_LIMIT, SpanFilter, SpanStatus
from scouter.model.span import (
    Attributes,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    StatusCode,
)
from tests.scouter.evaluate.spans_support import MS, TRACE, span

NAMES = ["a", "b", "ab"]
F = SpanFilter


@st.composite
def spans(draw: st.DrawFn) -> list[Span]:
    """Any spans: missing, cyclic and self parents, the same id twice, ties, two traces."""
    made: list[Span] = []
    for _ in range(draw(st.integers(0, 9))):
        start = draw(st.integers(0, 3))
        parent = draw(st.none() | st.integers(0, 9))
        event = draw(st.sampled_from(["", "retry", "exception"]))
        details: Attributes = draw(st.sampled_from([{}, {"n": 1}, {"n": 2}]))
        made.append(
            Span(
                trace_id=draw(st.sampled_from([TRACE, "b" * 32])),
                span_id=f"{draw(st.integers(0, 8)):016x}",
                parent_span_id=None if parent is None else f"{parent:016x}",
                name=draw(st.sampled_from(NAMES)),
                kind=draw(st.sampled_from(SpanKind)),
                start_ns=start * MS,
                end_ns=(start + draw(st.integers(-1, 3))) * MS,
                status=draw(st.sampled_from(StatusCode)),
                attributes=details,
                events=(SpanEvent(name=event, time_ns=start, attributes=details),) if event else (),
                resource=Resource(attributes={"service.name": draw(st.sampled_from(["s", "t"]))}),
                scope=Scope(name="lib", version=draw(st.sampled_from(["1", "2"]))),
            )
        )
    return made


LEAVES: list[tuple[SpanFilter, Callable[[Span], bool]]] = [
    (F.by_name("a"), lambda s: s.name == "a"),
    (F.by_name_pattern("^a"), lambda s: re.search("^a", s.name) is not None),
    (F.with_attribute("n"), lambda s: "n" in s.attributes),
    (F.with_attribute_value("n", 2), lambda s: s.attributes.get("n") == 2),
    (F.with_status(SpanStatus.Error), lambda s: s.status == 2),
    (F.with_duration(min_ms=1, max_ms=2), lambda s: MS <= s.end_ns - s.start_ns <= 2 * MS),
    (F.with_duration(max_ms=0), lambda s: s.end_ns <= s.start_ns),
    (F.by_kind("Client"), lambda s: s.kind == 3),
    (F.by_service("s"), lambda s: s.resource.attributes["service.name"] == "s"),
    (F.by_scope("lib"), lambda s: True),
    (F.by_scope("lib", "2"), lambda s: s.scope.version == "2"),
    (F.with_event("retry"), lambda s: "retry" in [e.name for e in s.events]),
    (
        F.with_event_attribute("retry", "n"),
        lambda s: any(e.name == "retry" and "n" in e.attributes for e in s.events),
    ),
    (
        F.with_event_attribute_value("retry", "n", 1.0),
        lambda s: any(e.name == "retry" and e.attributes.get("n") == 1 for e in s.events),
    ),
]
RELATIONS = ("child_of", "parent_of", "descendant_of", "ancestor_of")


@dataclass(frozen=True)
class Rule:
    """A filter as data: a leaf's number, or a word and its parts."""

    word: str
    parts: tuple["Rule", ...] = ()
    leaf: int = 0


def joined(inner: st.SearchStrategy[Rule]) -> st.SearchStrategy[Rule]:
    one = st.builds(Rule, st.sampled_from(("not_", *RELATIONS)), st.tuples(inner))
    two = st.builds(Rule, st.sampled_from(("and_", "or_")), st.tuples(inner, inner))
    return one | two


RULES = st.recursive(
    st.integers(0, len(LEAVES) - 1).map(lambda number: Rule("leaf", (), number)),
    joined,
    max_leaves=6,
)


def build(rule: Rule) -> SpanFilter:
    if rule.word == "leaf":
        return LEAVES[rule.leaf][0]
    first, *others = map(build, rule.parts)
    if rule.word in RELATIONS:
        return getattr(F, rule.word)(first)
    return getattr(first, rule.word)(*others)


def parents_of(tree: SpanTree) -> dict[int, int]:
    """Parents by position, the definition word for word: walk up, and cut each circle once."""
    at = {(s.trace_id, s.span_id): i for i, s in enumerate(tree.spans)}
    up = {
        i: at[s.trace_id, s.parent_span_id]
        for i, s in enumerate(tree.spans)
        if s.parent_span_id is not None and (s.trace_id, s.parent_span_id) in at
    }
    for i in range(len(tree.spans)):  # the first of a circle comes first, and loses its parent
        if i in walk(up, i):
            del up[i]
    return up


def walk(up: Mapping[int, int], i: int) -> list[int]:
    """All ancestors; ends where a circle closes."""
    found: list[int] = []
    while i in up and up[i] not in found:
        i = up[i]
        found.append(i)
    return found


def holds(rule: Rule, i: int, tree: SpanTree, up: Mapping[int, int]) -> bool:
    """The definitions, for one span."""
    every = range(len(tree.spans))
    if rule.word == "leaf":
        return LEAVES[rule.leaf][1](tree.spans[i])
    first, last = rule.parts[0], rule.parts[-1]
    match rule.word:
        case "not_":
            return not holds(first, i, tree, up)
        case "child_of":
            return i in up and holds(first, up[i], tree, up)
        case "parent_of":
            return any(up.get(j) == i and holds(first, j, tree, up) for j in every)
        case "descendant_of":
            return any(holds(first, j, tree, up) for j in walk(up, i))
        case "ancestor_of":
            return any(i in walk(up, j) and holds(first, j, tree, up) for j in every)
        case "and_":
            return holds(first, i, tree, up) and holds(last, i, tree, up)
        case _:
            return holds(first, i, tree, up) or holds(last, i, tree, up)


@given(spans(), RULES)
def test_any_filter_selects_what_its_definition_says(given_spans: list[Span], rule: Rule) -> None:
    """Each relation and join, nested at will, against a search that looks at every pair."""
    tree = SpanTree(given_spans)
    up = parents_of(tree)
    filter = build(rule)

    expected = [s for i, s in enumerate(tree.spans) if holds(rule, i, tree, up)]
    assert compile_filter(filter)(tree) == expected
    assert compile_filter(filter)(tree) == expected  # the second answer comes from the tree
    assert compile_filter(SpanFilter.parse(filter.to_wire()))(tree) == expected


@given(spans(), st.randoms(use_true_random=False))
def test_the_tree_is_the_same_in_any_order_of_arrival(
    given_spans: list[Span], rng: random.Random
) -> None:
    """One span per key; parents of spans that start together come before them."""
    tree = SpanTree(given_spans)
    up = parents_of(tree)
    stored = {(s.trace_id, s.span_id): s for s in tree.spans}

    assert len(stored) == len(tree.spans) == len({(s.trace_id, s.span_id) for s in given_spans})
    for s in given_spans:
        assert stored[s.trace_id, s.span_id].end_ns >= s.end_ns
    assert [s.start_ns for s in tree.spans] == sorted(s.start_ns for s in tree.spans)
    for child, parent in up.items():
        assert tree.parent(tree.spans[child]) == tree.spans[parent]
        if tree.spans[child].start_ns == tree.spans[parent].start_ns:
            assert parent < child
    assert tree.roots == tuple(s for i, s in enumerate(tree.spans) if i not in up)
    assert list(tree.depths) == [len(walk(up, i)) for i in range(len(tree.spans))]
    rng.shuffle(given_spans)
    assert SpanTree(given_spans).spans == tree.spans


@given(st.lists(st.sampled_from("ab"), max_size=12), st.lists(st.sampled_from("ab"), min_size=1))
def test_runs_are_counted_as_windows(found: list[str], wanted: list[str]) -> None:
    width = len(wanted)
    windows = [found[i : i + width] for i in range(len(found) - width + 1)]
    assert count_runs(wanted, found) == windows.count(wanted)


def chain(count: int) -> list[Span]:
    return [span(i + 1, "ab"[i % 2], i or None, (i, count + 1)) for i in range(count)]


def wide(count: int) -> list[Span]:
    return [span(i + 1, "ab"[i % 2], 1 if i else None, (i, count + 1)) for i in range(count)]


def made_at_random(count: int) -> list[Span]:
    rng = random.Random(5)
    return [
        span(i + 1, rng.choice("ab"), rng.randrange(i) + 1 if i else None, (rng.random(), 9))
        for i in range(count)
    ]


@pytest.mark.pace
@pytest.mark.parametrize("shape", [chain, wide, made_at_random])
def test_nested_relations_on_ten_thousand_spans(shape: Callable[[int], list[Span]]) -> None:
    """Five levels; a search from each span would take 50 million steps a level in the chain.

    The bound is generous, as the machine may be busy.
    """
    tree = SpanTree(shape(10_000))
    down, up = F.by_name("a"), F.by_name("b")
    for _ in range(5):
        down, up = F.descendant_of(F.by_name("a").and_(down)), F.ancestor_of(up)
    select_down, select_up = compile_filter(down), compile_filter(up)

    started = time.perf_counter()
    found_down, found_up = select_down(tree), select_up(tree)
    seconds = time.perf_counter() - started

    assert seconds < 1.0
    if shape is chain:  # five of the names a above, each two further up; five levels below a b
        assert len(found_down) == 10_000 - 9
        assert len(found_up) == 10_000 - 5
        assert tree.depth == 9_999


def test_a_circle_of_ten_thousand_is_cut_once() -> None:
    circle = [span(i, "a", (i - 1) % 10_000, (i, i + 1)) for i in range(10_000)]
    tree = SpanTree(circle)
    assert (len(tree.roots), tree.depth) == (1, 9_999)
    assert tree.roots[0].span_id == f"{0:016x}"


def test_a_parent_that_starts_and_ends_with_its_child_comes_first() -> None:
    """Coarse clocks: the ids alone would put the child first, the length the longer child."""
    tree = SpanTree([span(1, "child", 9), span(2, "longer", 9, (0, 5)), span(9, "parent")])
    assert tree.names == ("parent", "longer", "child")


def test_of_two_versions_that_end_together_the_same_is_stored() -> None:
    one, two = span(1, "a", None, (0, 1), {"v": 1}), span(1, "a", None, (0, 1), {"v": 2})
    assert SpanTree([one, two]).spans == SpanTree([two, one]).spans == (two,)


@pytest.mark.parametrize("kind", ["client", "CLIENT", "Client", SpanKind.CLIENT, OtelKind.CLIENT])
def test_kinds_are_taken_in_any_spelling(kind: object) -> None:
    assert F.by_kind(kind) == F.by_kind("Client")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: F.with_duration(), "min_ms, max_ms or both"),
        (lambda: F.with_duration(min_ms=2, max_ms=1), "above max_ms"),
        (lambda: F.with_duration(min_ms=-1), "greater than or equal to 0"),
        (lambda: F.with_duration(max_ms=float("nan")), "finite"),
        (lambda: F.parse({"ByKind": {"span_kind": "Sideways"}}), "'Internal', 'Server'"),
        (lambda: F.sequence([]), "at least 1"),
        (lambda: F.parse({"Near": {"name": "a"}}), "unknown kind 'Near'.*ChildOf"),
    ],
)
def test_filters_that_select_nothing_are_refused(
    make: Callable[[], SpanFilter], words: str
) -> None:
    with pytest.raises((ValidationError, ValueError), match=words):
        make()


def test_nesting_is_bounded_before_it_is_read() -> None:
    """A profile comes from anybody; a hundred thousand levels end in a message, not in a crash."""
    wire: dict[str, object] = {"ByName": {"name": "a"}}
    for _ in range(100_000):
        wire = {"Not": {"filter": wire}}
    with pytest.raises(ValueError, match="64 levels"):
        F.parse(wire)
    filter: SpanFilter = F.by_name("a")
    for _ in range(LEVEL_LIMIT - 1):
        filter = filter.not_()
    assert F.parse(filter.to_wire()) == filter
    with pytest.raises(ValidationError, match="64 levels"):
        filter.not_()
