"""JSONPath: the standard's own examples, and what of it strangers may not do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.json_path import MAX_LOOKS
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import compile_template
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

BOOKS: list[dict[str, JsonValue]] = [
    {"category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century",
     "price": 8.95},
    {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99},
    {"category": "fiction", "author": "Herman Melville", "title": "Moby Dick",
     "isbn": "0-553-21311-3", "price": 8.99},
    {"category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings",
     "isbn": "0-395-19395-8", "price": 22.99},
]  # fmt: skip
STORE: JsonValue = {"store": {"book": [*BOOKS], "bicycle": {"color": "red", "price": 399}}}
"""RFC 9535, figure 1."""

KIND: JsonValue = {"b": {}}
AUTHORS = [book["author"] for book in BOOKS]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.store.book[*].author", AUTHORS),
        ("$..author", AUTHORS),
        ("$.store.*", [[*BOOKS], {"color": "red", "price": 399}]),
        ("$.store..price", [8.95, 12.99, 8.99, 22.99, 399]),
        ("$..book[2]", [BOOKS[2]]),
        ("$..book[2].author", ["Herman Melville"]),
        ("$..book[2].publisher", []),
        ("$..book[-1]", [BOOKS[3]]),
        ("$..book[0,1]", BOOKS[:2]),
        ("$..book[:2]", BOOKS[:2]),
        ("$..book[?@.isbn]", BOOKS[2:]),
        ("$..book[?@.price<10]", [BOOKS[0], BOOKS[2]]),
    ],
)
def test_the_standards_examples(path: str, found: JsonValue) -> None:
    """RFC 9535, table 2, in its order."""
    assert Path(path).get(STORE) == found


FILTERED: JsonValue = {
    "a": [3, 5, 1, 2, 4, 6, {"b": "j"}, {"b": "k"}, {"b": {}}, {"b": "kilo"}],
    "o": {"p": 1, "q": 2, "r": 3, "s": 5, "t": {"u": 6}},
    "e": "f",
}
"""RFC 9535, section 2.3.5.3."""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ('$.a[?@.b == "kilo"]', [{"b": "kilo"}]),
        ("$.a[?@>3.5]", [5, 4, 6]),
        ("$.a[?@.b]", [{"b": "j"}, {"b": "k"}, KIND, {"b": "kilo"}]),
        ('$.a[?@<2 || @.b == "k"]', [1, {"b": "k"}]),
        ('$.a[?match(@.b, "[jk]")]', [{"b": "j"}, {"b": "k"}]),
        ('$.a[?search(@.b, "[jk]")]', [{"b": "j"}, {"b": "k"}, {"b": "kilo"}]),
        ("$.o[?@>1 && @<4]", [2, 3]),
        ("$.o[?@.u || @.x]", [{"u": 6}]),
        ("$.a[?@.b == $.x]", [3, 5, 1, 2, 4, 6]),
        ("$.a[?@ == @]", [3, 5, 1, 2, 4, 6, {"b": "j"}, {"b": "k"}, KIND, {"b": "kilo"}]),
        ("$.a[?!@.b && @ >= 5]", [5, 6]),
        ("$.a[?length(@.b) > 1]", [{"b": "kilo"}]),
        ("$.o[?@ != 1]", [2, 3, 5, {"u": 6}]),
        ("$.e[0:1]", []),
        ("$['e']", "f"),
        ("$.a[-1].b", "kilo"),
        ("$", FILTERED),
    ],
)
def test_filters(path: str, found: JsonValue) -> None:
    """The table of that section, but for paths with several places in a filter; then our own."""
    assert Path(path).get(FILTERED) == found


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("$[?@ == 1]", [1, 1.0, True, "1"], [1, 1.0]),
        ("$[?@ == [1]]", [[1]], None),
        ("$[?@ < 2]", [True, 1, "1", None], [1]),
        ("$[?@.a == @.b]", [{"a": [1], "b": [1.0]}, {"a": [1], "b": [True]}], 1),
        ("$[?@.a <= null]", [{"a": None}, {"a": 0}, {}], 1),
        ("$[?@ == false]", [False, 0, None], [False]),
    ],
)
def test_comparisons_are_typed(path: str, value: JsonValue, found: object) -> None:
    """A boolean is no number, also inside lists; list literals are not in the standard."""
    if found is None:
        with pytest.raises(ConfigError):
            Path(path)
        return
    got = Path(path).get(value)
    assert isinstance(got, list)
    if isinstance(found, int):
        assert len(got) == found
    else:
        assert [(type(item), item) for item in got] == [(type(item), item) for item in found]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("$.a[?search(@.x, @.y)]", "never used as a pattern"),
        ("$.a[?match(@.x, $.y)]", "never used as a pattern"),
        ("$.a[?search(@.x, '(?=a)')]", "look-around"),
        ("$.a[?search($.x, 'a')]", "outside of the items"),
        ("$.a[?count(@.*) > 1]", "'count' is not defined"),
        ("$.a[?@..b]", "several places"),
        ("$.a[?@.b[*]]", "several places"),
        ("$.a[?@[?@.b]]", "several places"),
        ("$.a[?@.b[0:1] == 1]", "no JSONPath|several places"),
        ("$.a[?@]", "always true"),
        ("$.a[?!@ || @.b]", "always true"),
        ("$.a | $.b", "no JSONPath"),
        ("$.a & $.b", "no JSONPath"),
        ("$.~", "no JSONPath"),
        ("$.a.~b", "no JSONPath"),
        ("$.a[?@.b =~ /x/]", "no JSONPath"),
        ("$.a[?@.b in [1]]", "no JSONPath"),
        ("$.a[?typeof(@.b) == 'x']", "no JSONPath"),
        ("$.a[?_.b]", "no JSONPath"),
        ("$.a[?# > 1]", "no JSONPath"),
        ("$.a[", "no JSONPath"),
        ("$.a ", "no JSONPath"),
        ("$.a[?@ == 1e999]", "no JSONPath"),
        ("$x", r'write \["\$…"\]'),
        ("$." + "a" * 600, "bytes"),
        ("$" + ".a" * 33, "33 segments"),
    ],
)
def test_what_is_not_supported_is_refused(path: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Path(path)


def test_one_place_that_is_missing_is_an_error() -> None:
    with pytest.raises(
        TaskFault, match=r"no \[9\] at 'store.book'; there is a list of 4"
    ) as caught:
        Path("$.store.book[9].title").get(STORE)
    assert caught.value.reason is Reason.MISSING_PATH
    with pytest.raises(TaskFault, match=r"no boat at 'store'; the keys there are 'book'"):
        Path("$.store.boat").get(STORE)
    with pytest.raises(TaskFault, match=r"no \[0\] at 'e'; there is a text"):
        Path("$.e[0]").get(FILTERED)


def test_nothing_found_in_many_places_does_not_pass() -> None:
    task = AssertionTask("t", "$.items[?@.price > 100].price", 1_000, Op.LessThan)
    result = evaluate_record(compile_plan([task]), EvalRecord({"items": [{"price": 5}]})).tasks[0]

    assert result.outcome == "failed"
    assert "nothing to compare" in result.message


def test_a_text_at_the_top_is_no_document() -> None:
    """The library alone would read it as JSON."""
    assert Path("$[*]").get('{"a": 1}') == []
    assert Path("$").get("[1]") == "[1]"
    assert Path("$..a").get("[{}") == []


def test_work_has_a_limit() -> None:
    deep: JsonValue = {}
    ones: list[JsonValue] = [1] * 50
    for _ in range(90):
        deep = {"a": deep, "b": ones}
    with pytest.raises(TaskFault, match=f"more than {MAX_LOOKS:,}") as caught:
        Path("$..a..a..a..x").get(deep)
    assert caught.value.reason is Reason.LIMIT
    assert len(Path("$..b").get(deep)) == 90  # type: ignore[arg-type]


def test_long_keys_are_not_copied_into_every_value() -> None:
    """A path of texts for each value would take 2 GB here."""
    wide: JsonValue = {"k" * 100_000: [*range(20_000)]}
    assert Path("$.*[*]").get(wide) == [*range(20_000)]


def test_in_templates() -> None:
    resolve = compile_template("${$.store.book[?@.price < 9].title}")
    assert resolve is not None
    assert resolve(STORE) == ["Sayings of the Century", "Moby Dick"]
    one = compile_template("by ${$['store'].book[0].author}")
    assert one is not None
    assert one(STORE) == "by Nigel Rees"


trees: st.SearchStrategy[JsonValue] = st.recursive(
    st.integers(0, 3) | st.just("ab"),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=12,
)


def descend(value: JsonValue) -> list[JsonValue]:
    """A value and everything inside it, parents first."""
    children: list[JsonValue] = []
    if isinstance(value, dict):
        children = list(value.values())
    elif isinstance(value, list):
        children = value
    return [value, *(found for child in children for found in descend(child))]


@given(trees)
def test_descendants_agree_with_brute_force(tree: JsonValue) -> None:
    inside = descend(tree)

    named = [value["a"] for value in inside if isinstance(value, dict) and "a" in value]
    assert Path("$..a").get(tree) == named
    large = Path("$..[?@ > 1]").get(tree)
    assert isinstance(large, list)
    assert sorted(map(str, large)) == sorted(
        str(value) for value in inside[1:] if isinstance(value, int) and value > 1
    )
