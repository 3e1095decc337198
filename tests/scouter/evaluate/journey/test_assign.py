"""Assignments against all there are: as many goals as can be, in order where there is an order."""

from itertools import pairwise, product

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.journey.case_faults import find_cycle, in_order, pairs
from scouter.evaluate.journey.sound import Place, assign

NAMES = ("a", "b", "c", "d")
EDGES = [(NAMES[i], NAMES[j]) for i in range(4) for j in range(i + 1, 4)]

candidates = st.fixed_dictionaries(
    {name: st.lists(st.integers(0, 4), unique=True, max_size=4).map(sorted) for name in NAMES}
)
edges = st.lists(st.sampled_from(EDGES), unique=True, max_size=4)


@given(candidates, edges)
def test_against_every_assignment(
    places: dict[str, list[int]], drawn: list[tuple[str, str]]
) -> None:
    options = {name: [(at, 0) for at in found] for name, found in places.items()}
    after = {name: [child for parent, child in drawn if parent == name] for name in NAMES}
    found, is_sure = assign(options, frozenset(), after)
    assert is_sure

    assert all(place in options[name] for name, place in found.items())
    assert len(set(found.values())) == len(found)
    largest, is_possible = 0, False
    choices: list[list[Place | None]] = [[None, *options[name]] for name in NAMES]
    for chosen in product(*choices):
        taken = {name: place for name, place in zip(NAMES, chosen, strict=True) if place}
        if len(set(taken.values())) < len(taken):
            continue
        largest = max(largest, len(taken))
        if len(taken) == len(NAMES) and all(taken[p] < taken[c] for p, c in drawn):
            is_possible = True
    assert len(found) == largest
    if is_possible:
        assert all(found[parent] < found[child] for parent, child in drawn)


def test_texts_may_share_a_message_and_calls_may_not() -> None:
    options: dict[str, list[Place]] = {"a": [(1, 0)], "b": [(1, 0)]}
    assert len(assign(options, frozenset("ab"), {"a": ["b"]})[0]) == 2
    assert len(assign(options, frozenset(), {})[0]) == 1


def test_a_thousand_goals_take_no_time() -> None:
    """A chain in which each goal has one call; and one goal too many, which moves all along."""
    names = [f"g{at}" for at in range(1000)]
    chain = {name: [after] for name, after in pairwise(names)}
    places: dict[str, list[Place]] = {name: [(at, 0)] for at, name in enumerate(names)}
    assert assign(places, frozenset(), chain) == ({n: p[0] for n, p in places.items()}, True)
    moved: dict[str, list[Place]] = {name: [(at, 0), (at + 1, 0)] for at, name in enumerate(names)}
    moved["late"] = [(0, 0)]
    assert len(assign(moved, frozenset(), {})[0]) == 1001


def test_a_search_without_end_is_given_up() -> None:
    """Twelve calls are alike, and the last goal has to come before all of them and does not."""
    names = [f"g{at}" for at in range(12)]
    places: dict[str, list[Place]] = {name: [(at, 0) for at in range(12)] for name in names}
    places["first"] = [(12, 0)]
    edges = {"first": names[-1:], names[0]: ["first"]}
    found, is_sure = assign(places, frozenset(), edges)
    assert (len(found), is_sure) == (13, False)


@given(st.lists(st.sampled_from([*EDGES, ("d", "a"), ("b", "b")]), unique=True))
def test_a_cycle_is_one_and_an_order_is_one(drawn: list[tuple[str, str]]) -> None:
    after = {name: [child for parent, child in drawn if parent == name] for name in NAMES}
    cycle = find_cycle(after)
    if cycle:
        assert cycle[0] == cycle[-1]
        assert set(pairwise(cycle)) <= set(drawn)
    else:
        order = in_order(NAMES, after)
        assert all(order.index(parent) < order.index(child) for parent, child in pairs(after))
    assert sorted(in_order(NAMES, after)) == sorted(NAMES)
