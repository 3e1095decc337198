"""Rules for comparing trajectories, as data, and the comparison of arguments by them."""

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, model_validator

from scouter.evaluate.operators.compiled import MAX_SIMILAR, Number, is_number, too_large
from scouter.evaluate.operators.equality import number_key
from scouter.evaluate.operators.numbers import is_within
from scouter.evaluate.operators.similarity import is_similar
from scouter.evaluate.patterns import compile_pattern

ArgumentMode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]
Empty: TypeAlias = Literal["score", "error", "skip"]
Compat: TypeAlias = Literal["sound", "vertex", "agentevals-0.0.9"]

_WORDS: Final = {"exact": {}, "ignore": {"ignore": True}, "optional": {"optional": True}}


def _key_rule(value: object) -> object:
    """Read a word as the rule that it stands for."""
    if isinstance(value, str):
        if value not in _WORDS:
            raise ValueError(f"{value!r} is no rule; expected one of {', '.join(_WORDS)}")
        return _WORDS[value]
    return value


class KeyRule(BaseModel):
    """The rule for comparing one argument; without any field it must be equal.

    Args:
        ignore: It may be anything, or absent.
        fuzzy: Two texts agree from this similarity on, in (0, 1]: twice the common letters, in
            order, by the letters of both.
        tolerance: Two numbers agree within this distance.
        relative: Two numbers agree within this part of the expected one; with `tolerance`, one of
            the two suffices.
        pattern: The called text must hold this pattern (RE2); what was expected is not looked at.
        optional: One of the two may lack it.

    Raises:
        pydantic.ValidationError: Two ways to compare at once, or the pattern is none.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    ignore: bool = False
    fuzzy: float | None = Field(default=None, gt=0, le=1)
    tolerance: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    relative: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    pattern: str | None = None
    optional: bool = False

    @model_validator(mode="after")
    def _is_one_way(self) -> Self:
        numeric = self.tolerance is not None or self.relative is not None
        ways = (self.ignore, self.fuzzy is not None, numeric, self.pattern is not None)
        if sum(ways) > 1:
            raise ValueError("expected one of ignore, fuzzy, tolerance/relative and pattern")
        if self.pattern is not None:
            compile_pattern(self.pattern)
        return self


def _argument_rules(value: object) -> object:
    return {"mode": value} if isinstance(value, str) else value


class ArgumentRules(BaseModel):
    """The rules for comparing the arguments of a call.

    Args:
        mode: For all keys that `keys` does not name. `exact`: the same keys with equal values;
            `ignore`: none is looked at; `subset`: every key of the call is expected, with this
            value; `superset`: every expected key is in the call, with this value.
        keys: Rules of their own for some keys, whatever the mode; `a.b` is the key `b` inside of
            `a`. A rule is an object or one of the words `exact`, `ignore` and `optional`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    mode: ArgumentMode = "exact"
    keys: dict[
        Annotated[str, Field(min_length=1)], Annotated[KeyRule, BeforeValidator(_key_rule)]
    ] = Field(default_factory=dict)

    @property
    def are_exact(self) -> bool:
        """True if calls are the same where name and arguments are equal."""
        return self.mode == "exact" and not self.keys


_Arguments: TypeAlias = Annotated[ArgumentRules, BeforeValidator(_argument_rules)]


class TrajectoryRules(BaseModel):
    """The rules for comparing two trajectories.

    Args:
        arguments: Rules of the comparison of arguments; a word is a mode.
        tools: Other rules for some tools, by name.
        partial_credit: In precision and recall, a call of the right tool counts for the part of
            its arguments that agree.
        empty: Score of an empty trajectory. `score`: the values of the formulas; `error`: none,
            and a message; `skip`: none.
        compat: `sound` follows the documentation. `vertex` compares the texts that Vertex's client
            sends, in single precision, with `empty="error"`; `agentevals-0.0.9` takes calls
            greedily, and True is 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    arguments: _Arguments = Field(default_factory=ArgumentRules)
    tools: dict[str, _Arguments] = Field(default_factory=dict)
    partial_credit: bool = False
    empty: Empty = "score"
    compat: Compat = "sound"

    @model_validator(mode="before")
    @classmethod
    def _vertex_is_plain(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        fields = cast("Mapping[str, object]", data)
        if fields.get("compat") != "vertex":
            return fields
        beside = {"arguments", "tools", "partial_credit"} & fields.keys()
        if beside:
            raise ValueError(
                f"compat 'vertex': Vertex knows no {min(beside)}; leave it out, or take 'sound'"
            )
        return {"empty": "error", **fields}

    def of(self, tool: str) -> ArgumentRules:
        """The rules for the arguments of a tool."""
        return self.tools.get(tool, self.arguments)


class TrajectoryOptions(TypedDict, total=False):
    """Arguments of the functions that compare trajectories: the fields of `TrajectoryRules`."""

    arguments: ArgumentMode | ArgumentRules | Mapping[str, Any]
    tools: Mapping[str, ArgumentMode | ArgumentRules | Mapping[str, Any]]
    partial_credit: bool
    empty: Empty
    compat: Compat


SOUND: Final = TrajectoryRules()


def rules_of(options: TrajectoryOptions) -> TrajectoryRules:
    """Read the options of a function.

    Raises:
        pydantic.ValidationError: One of them is wrong; names it.
    """
    return TrajectoryRules.model_validate(options) if options else SOUND


KeyOf: TypeAlias = Callable[[JsonValue], Hashable]
"""Function to a key of a value: values are the same where their keys are equal.

So many calls are matched by hashing. Unlike the operators' `deep_equal`, no key takes two spellings
of a letter for one: a trajectory is matched by what was sent.
"""

_TRUE, _FALSE = ("true",), ("false",)


def json_key(value: JsonValue) -> Hashable:
    """Give the key of a JSON value: equal for what JSON holds to be the same.

    Numbers count by value (1 and 1.0 are one, integers stay exact), booleans are no numbers, null
    is not an absent key, the order of keys in an object is of no matter.

    Cost: linear in the value.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int | float):
        return number_key(value)
    if isinstance(value, list):
        return ("list", *map(json_key, value))
    return frozenset([(name, json_key(item)) for name, item in value.items()])


def python_key(value: JsonValue) -> Hashable:
    """Give the key of a value as Python's `==` on parsed JSON sees it: True is 1."""
    if isinstance(value, list):
        return ("list", *map(python_key, value))
    if isinstance(value, dict):
        return frozenset([(name, python_key(item)) for name, item in value.items()])
    return value


def wire_key(value: JsonValue) -> Hashable:
    """Give the text that Vertex's client sends: the order of keys counts, and 1 is not 1.0."""
    return json.dumps(value)


AgreesByPath: TypeAlias = dict[str, bool]
"""Result of each compared argument, True if it agrees; arguments that are ignored have none."""
Agreement: TypeAlias = Callable[[JsonValue, JsonValue], AgreesByPath]
"""Function from called and expected arguments to agreements."""

WHOLE: Final = "arguments"
"""Stands for arguments that are no object, in agreements."""


class _Absent:
    """No such key; null is a value."""


ABSENT: Final = _Absent()
_Found: TypeAlias = JsonValue | _Absent


def agreement(rules: ArgumentRules, key_of: KeyOf) -> Agreement:
    """Prepare the comparison of arguments.

    Args:
        rules: Rules of the comparison.
        key_of: Makes a key of a value; values with the same key are equal.

    Returns:
        A function from called and expected arguments to agreements. Raises `TaskFault`
        (`Reason.LIMIT`) for texts that are too long to be compared.
    """
    own = {path: (_split(path), _check(rule, key_of)) for path, rule in rules.keys.items()}

    def compare(called: JsonValue, expected: JsonValue) -> AgreesByPath:
        if not isinstance(called, dict) or not isinstance(expected, dict):
            if rules.mode == "ignore" and not own:
                return {}
            return {WHOLE: key_of(called) == key_of(expected)}
        agreements: AgreesByPath = {}
        rest_called, rest_expected = called, expected
        for path, (parts, check) in own.items():
            way = (path,) if path in called or path in expected else parts
            if check is not None:
                agreements[path] = check(_get(called, way), _get(expected, way))
            rest_called, rest_expected = _without(rest_called, way), _without(rest_expected, way)
        return {**_by_mode(rules, key_of, rest_called, rest_expected), **agreements}

    return compare


def _by_mode(
    rules: ArgumentRules,
    key_of: KeyOf,
    called: Mapping[str, JsonValue],
    expected: Mapping[str, JsonValue],
) -> AgreesByPath:
    if rules.mode == "ignore":
        return {}
    names = {"exact": {**expected, **called}, "subset": called, "superset": expected}[rules.mode]
    return {
        name: name in called and name in expected and key_of(called[name]) == key_of(expected[name])
        for name in names
    }


def _split(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def _get(value: JsonValue, way: tuple[str, ...]) -> _Found:
    for part in way:
        if not isinstance(value, dict) or part not in value:
            return ABSENT
        value = value[part]
    return value


def _without(value: dict[str, JsonValue], way: tuple[str, ...]) -> dict[str, JsonValue]:
    """The object without one key; the key's owner goes too where nothing else was in it."""
    head, *rest = way
    if head not in value:
        return value
    inner = value[head]
    left = {name: item for name, item in value.items() if name != head}
    if not rest:
        return left
    if not isinstance(inner, dict):
        return value
    retained = _without(inner, tuple(rest))
    if retained is inner:
        return value
    return {**left, head: retained} if retained else left


def _check(rule: KeyRule, key_of: KeyOf) -> Callable[[_Found, _Found], bool] | None:
    """The comparison of one argument; None for one that is not compared."""
    if rule.ignore:
        return None
    if rule.pattern is not None:
        found_in = compile_pattern(rule.pattern).found_in
        return lambda called, _: (
            rule.optional if called is ABSENT else isinstance(called, str) and found_in(called)
        )
    alike = _alike(rule, key_of)

    def check(called: _Found, expected: _Found) -> bool:
        if called is ABSENT or expected is ABSENT:
            return rule.optional or called is expected
        return alike(cast("JsonValue", called), cast("JsonValue", expected))

    return check


def _alike(rule: KeyRule, key_of: KeyOf) -> Callable[[JsonValue, JsonValue], bool]:
    def equal(called: JsonValue, expected: JsonValue) -> bool:
        return key_of(called) == key_of(expected)

    def fuzzy(called: JsonValue, expected: JsonValue) -> bool:
        if not isinstance(called, str) or not isinstance(expected, str):
            return equal(called, expected)
        longest = max(len(called), len(expected))
        if longest > MAX_SIMILAR:
            raise too_large("fuzzy", longest, MAX_SIMILAR, "characters")
        return is_similar(called, expected, rule.fuzzy or 1.0)

    def near(called: JsonValue, expected: JsonValue) -> bool:
        if not is_number(called) or not is_number(expected):
            return equal(called, expected)
        left, right = cast("Number", called), cast("Number", expected)
        return is_within(left, right, rule.tolerance or 0, 1) or is_within(
            left, right, rule.relative or 0, abs(right)
        )

    if rule.fuzzy is not None:
        return fuzzy
    return equal if rule.tolerance is None and rule.relative is None else near
