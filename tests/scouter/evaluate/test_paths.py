"""Paths: what they find, what they say where they find nothing, and that they can be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.fault import TaskFault
from scouter.evaluate.path_syntax import ALL, MAX_SEGMENTS, Segment, format_path, parse_path
from scouter.evaluate.paths import Path

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
        "a[²]",
    ],
)  # fmt: skip
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="path"):
        Path(path)


def test_the_longest_path_is_accepted() -> None:
    assert len(parse_path(".".join("a" * MAX_SEGMENTS))) == MAX_SEGMENTS


segments: st.SearchStrategy[Segment] = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    st.integers(-99, 99),
    st.just(ALL),
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
