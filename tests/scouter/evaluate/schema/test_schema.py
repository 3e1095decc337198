"""JSON schemas of strangers: what they decide, what they say, and that they cannot do harm."""

import socket
import time
from contextlib import suppress
from typing import Any, Final, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validators
from pydantic import JsonValue
from referencing import Registry

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.schema.keywords import CHECKS, FORMATS
from scouter.evaluate.schema.schema import MAX_PATTERNS, MAX_SCHEMA, compile_schema
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from tests.support.examples import examples

ORDER: JsonValue = {
    "type": "object",
    "required": ["id", "items"],
    "properties": {
        "id": {"type": "string", "pattern": r"^[A-Z]{3}-\d+$"},
        "items": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["sku"],
                "properties": {"price": {"type": "number", "exclusiveMinimum": 0}},
                "additionalProperties": {"type": "string"},
            },
        },
    },
}
"""Checked below, place by place."""


def evaluate(value: JsonValue, schema: JsonValue) -> EvalTaskResult:
    task = AssertionTask("t", "order", schema, Op.MatchesJsonSchema)
    return evaluate_record(compile_plan([task]), EvalRecord({"order": value})).tasks[0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"id": "ABC-1", "items": [{"sku": "a"}, {"sku": "b", "price": 0}]},
            "'order': at 'items[1].price': 0, expected exclusiveMinimum 0",
        ),
        (
            {"id": "ABC-1", "items": [{"price": 1}]},
            "'order': at 'items[0]': the key \"sku\" is missing; the keys there are [\"price\"]",
        ),
        (
            {"id": "abc-1", "items": []},
            "'order': at 'id': \"abc-1\", expected pattern \"^[A-Z]{3}-\\\\d+$\"",
        ),
        ({"id": "ABC-1", "items": []}, "'order': at 'items': [], expected minItems 1"),
        (
            {"id": "ABC-1", "items": [{"sku": "a", "x.y": 5}]},
            "'order': at 'items[0][\"x.y\"]': 5, expected type \"string\"",
        ),
        ([], "'order': [], expected type \"object\""),
    ],
)
def test_the_message_names_the_first_failing_place(value: JsonValue, message: str) -> None:
    result = evaluate(value, ORDER)

    assert (result.outcome, result.message) == ("failed", message)


def test_what_may_not_be_there_is_named() -> None:
    schema: JsonValue = {"properties": {"a": True}, "additionalProperties": False}

    assert evaluate({"a": 1, "b": [2]}, schema).message == (
        "'order': at 'b': [2] is not allowed here"
    )
    assert evaluate({"a": 1}, schema).passed
    assert evaluate(
        {"a": {"b": 2}}, {"properties": {"a": {"properties": {"b": False}}}}
    ).message == ("'order': at 'a.b': 2 is not allowed here")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "nothing"}, ["'#/type'", "nothing"]),
        ({"properties": {"a": {"minLength": -1}}}, ["'#/properties/a/minLength'", "-1"]),
        ({"properties": {"a": {"pattern": "(?=a)"}}}, ["'#/properties/a/pattern'", "look-around"]),
        ({"patternProperties": {"a++": True}}, ["'#/patternProperties/a++'", "possessive"]),
        ({"items": [{"type": "string"}]}, ["'#/items'"]),
        ({"$ref": "#/$defs/gone"}, ["'#/$ref'", "not inside it"]),
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, ["'#/$schema'", "draft-03"]),
        ({"$schema": "my own"}, ["my own", "2020-12"]),
        ({"properties": {"a": {"$schema": "https://json-schema.org/draft/2020-12/schema"}}},
         ["'#/properties/a'", "only allowed at the top"]),
        ({"unevaluatedProperties": False, "patternProperties": {"a": True}}, ["not supported"]),
        ({"x": {"patternProperties": {"a": True}}, "$ref": "#/x", "unevaluatedProperties": False},
         ["not supported"]),
        ({"x": {"y": {"pattern": "(?=a)"}}, "$ref": "#/x/y"}, ["'#/x/y/pattern'", "look-around"]),
        ({"x": {"type": "nothing"}, "$ref": "#/x"}, ["'#/x/type'", "nothing"]),
        ({"x": {"not": {"$ref": "#/gone"}}, "$ref": "#/x"}, ["'#/x/not/$ref'", "not inside it"]),
        ({"x": [True], "$ref": "#/x"}, ["'#/$ref'", "'#/x'", "no schema"]),
        ({"$id": "http://[::1", "$ref": "#"}, ["MatchesJsonSchema", "IPv6"]),
        ({"allOf": [{"pattern": str(i)} for i in range(MAX_PATTERNS + 1)]}, ["257 patterns"]),
        ("text", ["expects a JSON schema"]),
        ([], ["expects a JSON schema"]),
        ({"enum": ["x" * MAX_SCHEMA]}, [f"at most {MAX_SCHEMA:,}"]),
        ({"const": "${order}"}, ["takes no template"]),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused_when_the_plan_is_built(
    schema: JsonValue, words: list[str]
) -> None:
    with pytest.raises(ConfigError, match="task 't'") as caught:
        evaluate(None, schema)

    for word in words:
        assert word in str(caught.value)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Note and refuse every connection."""
    tried: list[object] = []

    def connect(_: socket.socket, address: object) -> None:
        tried.append(address)
        raise OSError("no network in this test")

    def resolve(host: object, *_: object, **__: object) -> None:
        tried.append(host)
        raise OSError("no names in this test")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return tried


DRAFT = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://127.0.0.1:9/remote.json"},
        {"$ref": "file:///etc/hostname"},
        {"$ref": DRAFT},
        {"$dynamicRef": "http://127.0.0.1:9/remote.json#meta"},
        {"$id": "http://127.0.0.1:9/a.json", "items": {"$ref": "b.json"}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "http://127.0.0.1:9/x"},
        {"$ref": "#/hidden", "hidden": {"$ref": "http://127.0.0.1:9/remote.json"}},
        {"$ref": "#/hidden/0", "hidden": [{"$ref": "http://127.0.0.1:9/remote.json"}]},
        {"$ref": "#/hidden", "hidden": {"$schema": DRAFT, "pattern": "^(a+)+$"}},
    ],
)
def test_nothing_is_ever_fetched(schema: JsonValue, no_network: list[object]) -> None:
    """Neither where a schema should be, nor where a reference makes one of something else."""
    with pytest.raises(ConfigError, match=r"not inside it|only allowed at the top"):
        compile_schema(schema)

    assert not no_network


def test_references_inside_are_followed() -> None:
    tree: JsonValue = {
        "$id": "http://example.com/tree",
        "$defs": {
            "leaf": {"$id": "leaf", "type": "integer"},
            "named": {"$anchor": "n", "maximum": 9},
        },
        "properties": {
            "left": {"$ref": "#"}, "leaf": {"$ref": "leaf"}, "small": {"$ref": "#n"},
        },
    }  # fmt: skip
    schema = compile_schema(tree)

    assert schema.is_valid({"left": {"left": {"leaf": 5}}, "small": 9})
    assert schema.explain({"left": {"left": {"leaf": "5"}}}) == (
        'at \'left.left.leaf\': "5", expected type "integer"'
    )
    assert not schema.is_valid({"small": 10})
    assert schema.explain({}) == ""


def nested(value: JsonValue, levels: int) -> JsonValue:
    """A value inside so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def bomb(levels: int) -> JsonValue:
    """A schema of a few lines that takes 2 to the power of `levels` checks."""
    defs: dict[str, JsonValue] = {"a0": {"type": "integer"}}
    for level in range(1, levels + 1):
        part: JsonValue = {"$ref": f"#/$defs/a{level - 1}"}
        defs[f"a{level}"] = {"allOf": [part, part]}
    return {"$defs": defs, "$ref": f"#/$defs/a{levels}"}


def beside(keywords: tuple[str, str], levels: int) -> JsonValue:
    """The same where it is looked for what the references evaluate, before they are validated."""
    defs: dict[str, JsonValue] = {
        f"a{level}": {keyword: f"#/$defs/a{level - 1}" for keyword in keywords}
        for level in range(1, levels + 1)
    }
    defs["a0"] = True
    return {"unevaluatedProperties": False, "$defs": defs, "$ref": f"#/$defs/a{levels}"}


def dependent(levels: int) -> JsonValue:
    defs: dict[str, JsonValue] = {"a0": True}
    for level in range(1, levels + 1):
        part: JsonValue = {"$ref": f"#/$defs/a{level - 1}"}
        defs[f"a{level}"] = {"dependentSchemas": {"a": part, "b": part}}
    return {"unevaluatedProperties": False, "$defs": defs, "$ref": f"#/$defs/a{levels}"}


@pytest.mark.pace
@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (bomb(40), 5, "checks"),
        (beside(("$ref", "$dynamicRef"), 40), {"a": 1}, "checks"),
        (dependent(40), {"a": 1, "b": 1}, "checks"),
        ({"items": {"enum": [*range(2_000)]}}, [1_999] * 1_000, "checks"),
        ({"$ref": "#"}, 5, "without end"),
        ({"allOf": [{"$ref": "#"}]}, 5, "without end"),
        ({"unevaluatedProperties": True}, {str(i): i for i in range(200_000)}, "checks"),
        ({"items": {}}, [0] * 300_000, "checks"),
        ({"patternProperties": {str(i): True for i in range(MAX_PATTERNS)}},
         {str(i): i for i in range(1_000)}, "checks"),
        ({"$defs": {"a": {"const": [[0] * 1_000]}}, "allOf": [{"$ref": "#/$defs/a"}] * 300},
         [[0] * 1_000], "checks"),
        ({"uniqueItems": True, "items": {"$ref": "#"}}, nested([*[0] * 100_000], 80), "checks"),
        ({"$defs": {"a": {"pattern": "c|[ab]*a[ab]{900}d"}}, "allOf": [{"not": {"$ref":
          "#/$defs/a"}}] * 20}, "ab" * 50_000, "checks"),
        ({"items": {"format": "regex"}}, [f"a{i}" for i in range(10_000)], "checks"),
    ],
    ids=["bomb", "beside", "dependent", "enum", "self", "inner-self", "unevaluated", "items",
         "patterns", "const", "unique", "searches", "regex"],
)  # fmt: skip
def test_work_has_a_limit(schema: JsonValue, value: JsonValue, words: str) -> None:
    started = time.perf_counter()
    with pytest.raises(TaskFault, match=words) as caught:
        compile_schema(schema).is_valid(value)

    assert caught.value.reason is Reason.LIMIT
    assert time.perf_counter() - started < 20


_OLD: JsonValue = "https://json-schema.org/draft/2019-09/schema"


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": True}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"unevaluatedProperties": {"type": "integer"}}, {"b": 1}, {"b": "x"}),
        ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, {"a": 1},
         {"a": 1, "b": 1}),
        ({"anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": True}}],
          "unevaluatedProperties": False}, {"a": 1, "b": 1}, {"a": "x"}),
        ({"dependentSchemas": {"a": {"properties": {"a": True, "b": True}}},
          "unevaluatedProperties": False}, {"a": 1, "b": 1}, {"b": 1}),
        ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
          "then": {"properties": {"b": True}}, "else": {"properties": {"a": True, "c": True}},
          "unevaluatedProperties": False}, {"a": 1, "b": 1}, {"a": 1, "c": 1}),
        ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]},
          "then": {"properties": {"b": True}}, "else": {"properties": {"a": True, "c": True}},
          "unevaluatedProperties": False}, {"a": 2, "c": 1}, {"a": 2, "b": 1}),
        ({"$defs": {"x": {"properties": {"a": True}}}, "$ref": "#/$defs/x",
          "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"not": {"properties": {"a": {"type": "string"}}, "required": ["a"]},
          "unevaluatedProperties": False}, {}, {"a": 1}),
        ({"$schema": _OLD, "additionalProperties": {"type": "integer"},
          "unevaluatedProperties": False}, {"a": 1}, {"a": "x"}),
        ({"$schema": _OLD, "$recursiveAnchor": True, "properties": {"a": {"$recursiveRef": "#"}},
          "unevaluatedProperties": False}, {"a": {"a": {}}}, {"a": {"b": 1}}),
        ({"prefixItems": [True], "unevaluatedItems": False}, [1], [1, 2]),
        ({"prefixItems": [True, True], "contains": {"const": 9}, "unevaluatedItems": False},
         [9, 2, 9], [9, 2, 3]),
        ({"items": True, "unevaluatedItems": False}, [1, 2], 0),
        ({"allOf": [{"prefixItems": [True]}], "unevaluatedItems": {"type": "integer"}}, ["x", 1],
         ["x", "y"]),
        ({"$schema": _OLD, "items": [True], "unevaluatedItems": False}, [1], [1, 2]),
        ({"$schema": _OLD, "items": [True], "additionalItems": True, "unevaluatedItems": False},
         [1, 2], 0),
    ],
)  # fmt: skip
def test_what_no_schema_evaluates(schema: JsonValue, good: JsonValue, bad: JsonValue) -> None:
    """By the standard; a value that is no list and no object, as 0, has nothing of it."""
    assert compile_schema(schema).is_valid(good)
    assert compile_schema(schema).is_valid(bad) is (bad == 0)


@pytest.mark.pace
def test_patterns_are_linear() -> None:
    """The library alone takes seconds for 26 letters, and years for 60."""
    value: JsonValue = "a" * 50_000 + "!"
    key: JsonValue = {"a" * 50_000 + "!": 1}
    slow = "^(a+)+$"
    started = time.perf_counter()

    assert not compile_schema({"pattern": slow}).is_valid(value)
    assert compile_schema({"patternProperties": {slow: False}}).is_valid(key)
    assert not compile_schema(
        {"patternProperties": {slow: True}, "additionalProperties": False}
    ).is_valid(key)
    assert compile_schema({"propertyNames": {"not": {"pattern": slow}}}).is_valid(key)
    assert time.perf_counter() - started < 5


@pytest.mark.pace
def test_unique_items_are_linear() -> None:
    items: list[JsonValue] = [{"n": i} for i in range(100_000)]
    schema = compile_schema({"uniqueItems": True})
    started = time.perf_counter()

    assert schema.is_valid(items)
    assert not schema.is_valid([*items, {"n": 0}])
    assert time.perf_counter() - started < 60  # pair by pair it would take hours


HOSTILE: dict[str, tuple[Any, Any]] = {
    "references": (bomb(14), 5),
    "all-of-many": ({"items": {"allOf": [{"type": "integer"}] * 50}}, [1] * 9_000),
    "any-of-many": ({"items": {"anyOf": [{"type": "string"}] * 50 + [True]}}, [1] * 9_000),
    "one-of-many": ({"items": {"oneOf": [{"const": 2}] * 50 + [{"const": 1}]}}, [1] * 9_000),
    "not-not": ({"items": {"not": {"not": {"not": {"not": {}}}}}}, [1] * 90_000),
    "if-many": ({"items": {"allOf": [{"if": {"type": "string"}}] * 50}}, [1] * 9_000),
    "contains": ({"items": {"contains": False, "minContains": 0}}, [[1] * 50] * 9_000),
    "properties": (
        {"additionalProperties": {"properties": {f"{n}": {"minimum": 0} for n in range(50)}}},
        {f"{k}": {f"{n}": 1 for n in range(50)} for k in range(4_000)},
    ),
    "unevaluated": (
        {"items": {"allOf": [{"properties": {"a": {}}}] * 30, "unevaluatedProperties": True}},
        [{f"{n}": 1 for n in range(30)}] * 3_000,
    ),
    "decimals": ({"items": {"allOf": [{"multipleOf": 0.01}] * 50}}, [19.99] * 9_000),
    "dates": ({"items": {"allOf": [{"format": "date"}] * 50}}, ["2024-02-29"] * 9_000),
    "patterns": ({"items": {"allOf": [{"pattern": "(a|b)*c"}] * 50}}, ["ab" * 20 + "c"] * 9_000),
    "key-patterns": (
        {"patternProperties": {f"a{{{n}}}b": True for n in range(1, 100)}},
        {f"{'a' * 40}{n}": 1 for n in range(4_000)},
    ),
    "enum": ({"items": {"enum": [*range(2_000)]}}, [1_999] * 1_000),
    "unique": ({"items": {"uniqueItems": True}}, [[*range(1_000)]] * 600),
}


@pytest.mark.pace
@pytest.mark.parametrize("name", HOSTILE)
def test_a_schema_and_a_value_that_are_large_together_end_soon(name: str) -> None:
    """Refused before the work, or judged; without a bound some of these take minutes."""
    schema, value = HOSTILE[name]
    compiled = compile_schema(schema)
    began = time.process_time()
    with suppress(TaskFault):
        compiled.is_valid(value)
    assert time.process_time() - began < 8


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date", ["2024-02-29"], ["2023-02-29", "20240229", "2024-02-29T00:00:00Z", "2024-W09-4"]),
        ("time", ["23:59:59Z", "00:00:00.123+01:00", "12:00:00z"],
         ["24:00:00Z", "12:00:00", "12:00Z"]),
        ("date-time", ["1985-04-12T23:20:50.52Z", "1996-12-19t16:39:57-08:00"],
         ["1985-04-12 23:20:50Z", "1985-04-12T23:20:50", "1985-04-12"]),
        ("email", ["a.b@example.com"], ["a@b", "a b@example.com", "@example.com"]),
        ("idn-email", ["grüße@exämple.com"], ["grüße"]),
        ("ipv4", ["127.0.0.1"], ["256.0.0.1", "1.2.3", "01.2.3.4"]),
        ("ipv6", ["::1", "2001:db8::8a2e:370:7334"], ["::1%eth0", "1::2::3"]),
        ("uuid", ["f47ac10b-58cc-4372-a567-0e02b2c3d479"], ["f47ac10b58cc4372a5670e02b2c3d479"]),
        ("regex", ["^a+$"], ["(", "(?=a)"]),
    ],
)  # fmt: skip
def test_formats(name: str, good: list[str], bad: list[str]) -> None:
    """Examples of RFC 3339, section 5.8, and hand-made ones."""
    check = FORMATS[name]

    assert [text for text in good if not check(text)] == []
    assert [text for text in bad if check(text)] == []
    assert compile_schema({"format": name}).is_valid(5), "only texts have a format"


scalars = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "ab", 0.5])
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def _keywords(inner: st.SearchStrategy[JsonValue]) -> st.SearchStrategy[JsonValue]:
    small = st.integers(0, 2)
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    optional: dict[str, st.SearchStrategy[object]] = {
        "type": st.sampled_from(["object", "array", "string", "integer", "number", "null"]),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values, "minimum": small, "exclusiveMaximum": small, "multipleOf": st.just(2),
        "minLength": small, "pattern": st.sampled_from(["a", "^b", "b$"]),
        "minItems": small, "uniqueItems": st.booleans(), "items": inner, "prefixItems": several,
        "contains": inner, "required": st.just(["a"]), "properties": named,
        "patternProperties": named, "additionalProperties": inner, "maxProperties": small,
        "propertyNames": inner, "allOf": several, "anyOf": several, "oneOf": several, "not": inner,
        "if": inner, "then": inner, "else": inner, "dependentSchemas": named,
        "unevaluatedItems": inner,
    }  # fmt: skip
    chosen = st.lists(st.sampled_from(sorted(optional)), max_size=3, unique=True)

    def of(names: list[str]) -> st.SearchStrategy[JsonValue]:
        made = st.fixed_dictionaries({name: optional[name] for name in names})
        return cast("st.SearchStrategy[JsonValue]", made)

    return chosen.flatmap(of)


schemas: st.SearchStrategy[JsonValue] = st.recursive(st.booleans(), _keywords, max_leaves=6)


@settings(max_examples=examples(150))
@given(schema=schemas, candidates=st.lists(values, min_size=1, max_size=5))
def test_verdicts_are_those_of_the_library(schema: JsonValue, candidates: list[JsonValue]) -> None:
    """Our keywords and limits change nothing for schemas without the points where we differ."""
    ours = compile_schema(schema)
    assert isinstance(schema, dict | bool)
    theirs = Draft202012Validator(schema, registry=Registry())

    for value in candidates:
        assert ours.is_valid(value) is theirs.is_valid(value)
        assert bool(ours.explain(value)) is not ours.is_valid(value)


COUNTED: set[str] = set(Draft202012Validator.VALIDATORS) - {"$ref", "$dynamicRef"}


def meetings_of(schema: JsonValue, value: JsonValue) -> int:
    """Keywords that are run where a value is validated to its end, counted one by one."""
    count = 0

    def counted(keyword: Any) -> Any:
        def run(*given: Any) -> Any:
            nonlocal count
            count += 1
            return keyword(*given)

        return run

    known: Any = Draft202012Validator.VALIDATORS
    library: Any = validators
    draft = library.extend(Draft202012Validator, {name: counted(known[name]) for name in COUNTED})
    registry: Registry[Any] = Registry()
    list(draft(schema, registry=registry).iter_errors(value))
    return count


@settings(max_examples=examples(150))
@given(schema=schemas, candidates=st.lists(values, min_size=1, max_size=5))
def test_every_keyword_that_meets_a_value_is_counted(
    schema: JsonValue, candidates: list[JsonValue]
) -> None:
    """The work is counted a second time by the library's own validator."""
    compiled = compile_schema(schema)
    for value in candidates:
        if not compiled.faults(value):  # else only the first faults are looked for
            assert meetings_of(schema, value) <= CHECKS.count


TREE: Final[JsonValue] = {
    "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "leaf": {"type": "integer"}},
    "additionalProperties": False,
}


def test_a_schema_that_refers_to_itself_judges_trees_and_has_an_end() -> None:
    """A tree is looked at once; two alternatives that go down double the work of each level."""
    tree: Any = {"leaf": 1}
    chain: Any = {"leaf": 1}
    for _ in range(10):
        tree = {"left": tree, "right": tree}
    for _ in range(20):
        chain = {"left": chain}
    assert compile_schema(TREE).is_valid(tree)
    twice = compile_schema({"anyOf": [{**cast(Any, TREE), "required": ["op"]}, TREE]})
    assert twice.is_valid({"left": {"leaf": 1}})
    with pytest.raises(TaskFault, match="250,000 checks") as caught:
        twice.is_valid(chain)
    assert caught.value.reason is Reason.LIMIT
    assert twice.is_valid({"left": {"leaf": 1}}), "the next value is counted anew"
