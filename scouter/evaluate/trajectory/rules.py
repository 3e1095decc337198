"""Rules for comparing trajectories, as data that people write in Python and in files."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeAlias, TypedDict, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

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
