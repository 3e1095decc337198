"""Paths: what they find, what they say where they find nothing, and that they can be written."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.syntax import ALL, MAX_SEGMENTS, Segment, format_path, parse_path
from tests.support.examples import examples

DATA: JsonValue = {
    "a": {"b": [{"c": 1}, {"c": 2}, {"c": 3}]},
    "x.y": {"k k": 5},
    "größe": 7,
    "e-mail": "x",
    "0": "zero",
    "deep": [[{"n": 1}, {"n": 2}], [{"n": 3}]],
    "map": {"p": {"v": 1}, "q": {"v": 2}},
    "nothing": None,
    "1key": 8,
    'quo"te': 9,
    "$x": "dollar",
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a.b[0].c", 1),
        ("a.b.1.c", 2),
        ("a.b[-1].c", 3),
        ("a.b[*].c", [1, 2, 3]),
        ("a.b.*.c", [1, 2, 3]),
        ('["x.y"]["k k"]', 5),
        ("['x.y']['k k']", 5),
        ("größe", 7),
        ("e-mail", "x"),
        ("0", "zero"),
        ("1key", 8),
        ('["quo\\"te"]', 9),
        ("deep[*][*].n", [1, 2, 3]),
        ("map[*].v", [1, 2]),
        ("nothing", None),
        ("a.b[0]", {"c": 1}),
        ('["a"].b[2]["c"]', 3),
        ("a.b[1:3].c", [2, 3]),
        ("a.b[:-1].c", [1, 2]),
        ("a.b[::2].c", [1, 3]),
        ("a.b[::-1].c", [3, 2, 1]),
        ("a.b[5:].c", []),
        ("a.b[-1:]", [{"c": 3}]),
        ("a.b[:]", [{"c": 1}, {"c": 2}, {"c": 3}]),
        ("deep[:1][*].n", [1, 2]),
        ("deep[*][:1].n", [1, 3]),
        ("deep[*][0].n", [1, 3]),
        ('["$x"]', "dollar"),
        (None, DATA),
    ],
)
def test_found(path: str | None, found: JsonValue) -> None:
    assert Path(path).get(DATA) == found


def test_a_list_at_the_top_is_taken_item_by_item() -> None:
    assert Path("c").get([{"c": 1}, {"c": 2}]) == [1, 2]
    assert Path("[1].c").get([{"c": 1}, {"c": 2}]) == 2
    assert Path("1.c").get([{"c": 1}, {"c": 2}]) == 2
    assert Path("[*].c").get([{"c": 1}]) == [1]
    assert Path("a[*]").get({"a": []}) == []


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("a.q", DATA, ["'a.q'", "no q at 'a'", "'b'"]),
        ("a.b[9].c", DATA, ["no [9] at 'a.b'", "list of 3", "0 to 2"]),
        ("a.b[-4]", DATA, ["no [-4]"]),
        ("a.b.c", DATA, ["no c at 'a.b'", "list of 3", "[*]"]),
        ("nothing.x", DATA, ["no x at 'nothing'", "null"]),
        ("e-mail.x", DATA, ["there is a text"]),
        ("a.b[*].d", DATA, ["no d at 'a.b[0]'", "'c'"]),
        ("z", {}, ["the top level", "the object there is empty"]),
        ("a[0]", {"a": []}, ["the list there is empty"]),
        ("x.y.z", DATA, ["no x at the top level"]),
        ("a[*]", {"a": 3}, ["no [*] at 'a'", "a number"]),
        ("a[1:]", {"a": {"b": 1}}, ["no [1:] at 'a'", "the keys there are 'b'"]),
        ("a[:2]", {"a": "text"}, ["no [:2] at 'a'", "a text"]),
        ("a[0]", {"a": "text"}, ["no [0] at 'a'", "a text"]),
        ("a.b[1:].d", DATA, ["no d at 'a.b[1]'", "'c'"]),
        ("c", [{"c": 1}, {"d": 2}], ["no c at '[1]'", "'d'"]),
        ("k", {f"key{i}": i for i in range(30)}, ["'key9'", "and 20 more"]),
    ],
)
def test_missing_says_where_it_stopped_and_what_is_there(
    path: str, value: JsonValue, words: list[str]
) -> None:
    with pytest.raises(TaskFault) as caught:
        Path(path).get(value)
    assert caught.value.reason == "missing_path"
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "path",
    [
        "", ".a", "a.", "a..b", "a b", "a[", "a[b]", "a[1", "a['b", "a[\"b\"", "a]b", "a[1.5]",
        "a[0]b", "a.[0]", "[]", "a[--1]", "a[\"\\q\"]", "x" * 600, ".".join("a" * 33), "a'b",
        "a[²]", "a[1:2:3:4]", "a[::0]", "a[1:x]", "a[:*]", "a[1: 2]",
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="path"):
        Path(path)


def test_the_longest_path_is_accepted() -> None:
    assert len(parse_path(".".join("a" * MAX_SEGMENTS))) == MAX_SEGMENTS


ends = st.none() | st.integers(-9, 9)
slices = st.builds(slice, ends, ends, st.none() | st.integers(-3, 3).filter(bool))
segments: st.SearchStrategy[Segment] = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(-99, 99),
    st.just(ALL),
    slices,
)


@given(st.lists(segments, min_size=1, max_size=8))
def test_round_trip(parts: list[Segment]) -> None:
    """Any segments, written and read, are the same segments."""
    assert parse_path(format_path(tuple(parts))) == tuple(parts)


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_a_config_error(text: str) -> None:
    try:
        parts = parse_path(text)
    except ConfigError:
        return
    assert parse_path(format_path(parts)) == parts


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
    st.recursive(
        st.integers(), lambda inner: st.dictionaries(st.sampled_from("abc"), inner), max_leaves=8
    ),
)
def test_the_quick_way_finds_what_the_long_way_finds(keys: list[str], value: JsonValue) -> None:
    path = Path(".".join(keys))
    outcomes: list[object] = []
    for way in (path.get, path.follow):
        try:
            outcomes.append(way(value))
        except TaskFault as fault:
            outcomes.append(str(fault))
    assert outcomes[0] == outcomes[1]


def brute(value: JsonValue, parts: tuple[Segment, ...]) -> list[JsonValue]:
    """Every value that a path leads to, found by looking everywhere; a LookupError where none."""
    if not parts:
        return [value]
    first, rest = parts[0], parts[1:]
    if first is ALL:
        if not isinstance(value, list | dict):
            raise LookupError
        chosen = list(value.values()) if isinstance(value, dict) else value
        return [found for item in chosen for found in brute(item, rest)]
    if isinstance(first, slice):
        if not isinstance(value, list):
            raise LookupError
        return [found for item in value[first] for found in brute(item, rest)]
    if isinstance(first, int):
        if not isinstance(value, list):
            raise LookupError
        return brute(value[first], rest)
    if not isinstance(value, dict) or first is None:
        raise LookupError
    return brute(value[first], rest)


keys = st.sampled_from("abc")
trees: st.SearchStrategy[JsonValue] = st.recursive(
    st.integers(0, 3) | st.just("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)
steps: st.SearchStrategy[Segment] = st.one_of(keys, st.integers(-2, 2), st.just(ALL), slices)


@settings(max_examples=examples(200))
@given(st.dictionaries(keys, trees, min_size=1), st.lists(steps, min_size=1, max_size=4))
def test_what_is_found_agrees_with_brute_force(
    value: dict[str, JsonValue], parts: list[Segment]
) -> None:
    path = Path(format_path(tuple(parts)))
    try:
        found = brute(value, tuple(parts))
    except LookupError:
        with pytest.raises(TaskFault, match="path"):
            path.get(value)
        return
    spreads = any(part is ALL or isinstance(part, slice) for part in parts)

    assert path.get(value) == (found if spreads else found[0])


def test_a_path_of_many_kinds_is_followed_in_one_go() -> None:
    """The quick way over a list gives up for the long one where an item is of another kind."""
    rows: JsonValue = {"rows": [{"id": 1}, [{"id": 2}], {"id": 3}]}

    with pytest.raises(TaskFault, match=r"no id at 'rows\[1\]'"):
        Path("rows[*].id").get(rows)
    assert Path("rows[0:3:2].id").get(rows) == [1, 3]
    assert Path("map[*].v").get({"map": {"p": {"v": 1}}}) == [1]
