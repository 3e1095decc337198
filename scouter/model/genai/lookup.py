"""The tables of all conventions put together, so that one look at an attribute tells its use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from typing import Final, TypeAlias

from scouter.model.genai.conventions import CONVENTIONS
from scouter.model.genai.facts import ASKING_KINDS, Convention, Field, Kind, Names
from scouter.model.genai.tool_definitions import LISTS, NUMBERED
from scouter.model.span import Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Use of an attribute on spans of one kind: the field that it fills, and how."""

    field: Field
    name: str
    """The attribute; empty for a prefix."""
    rank: int
    """Rank among the attributes of the same field; the lowest counts."""
    convention: Convention
    prefix: str = ""
    """Prefix of attributes that hold messages together."""
    is_messages: bool = False
    """True if the attribute holds a list of messages and no text."""
    is_text: bool = False
    """True if the attribute holds what was said and nothing around, so that JSON may be a part."""


_TEXTS: Final = (".text", "model_output", "user_prompt", "final_result")
"""Ends of attributes with what was said."""
Uses: TypeAlias = Mapping[str, tuple[Use, ...]]
"""Uses of attributes, by the attribute or by the prefix of attributes."""


@dataclass(frozen=True, slots=True)
class KindKey:
    """An attribute that says the kind of its span."""

    name: str
    values: Mapping[str, Kind | None]
    endings: tuple[tuple[str, Kind | None], ...]
    convention: Convention

    def kind_of(self, value: str) -> Kind | None:
        """The kind that a value stands for; None if it stands for none."""
        found = self.values.get(value)
        if found is not None:
            return found
        plain = value.strip('"').lower()  # MLflow writes JSON
        found = self.values.get(plain)
        if found is not None or plain in self.values:
            return found
        return next((kind for ending, kind in self.endings if plain.endswith(ending)), None)


def _names_of(convention: Convention, kind: Kind) -> Iterator[Names]:
    yield convention.fields
    if kind is Kind.TOOL:
        yield convention.tools
    if kind in (Kind.AGENT, Kind.WORKFLOW):
        yield convention.agents
    if kind in ASKING_KINDS:
        yield {field: (prefix,) for prefix, field in convention.numbered.items()}
        yield convention.models


def _uses_of(kind: Kind) -> Uses:
    found: dict[str, tuple[Use, ...]] = {}
    rank = 0
    for convention in CONVENTIONS:
        for names in _names_of(convention, kind):
            is_numbered = names.keys() <= {Field.INPUT, Field.OUTPUT} and any(
                prefix in convention.numbered for group in names.values() for prefix in group
            )
            for target, attributes in names.items():
                for attribute in attributes:
                    rank += 1
                    prefix = f"{attribute}." if is_numbered else ""
                    use = Use(
                        field=target,
                        name="" if prefix else attribute,
                        rank=rank,
                        convention=convention,
                        prefix=prefix,
                        is_messages=attribute.endswith("messages"),
                        is_text=attribute.endswith(_TEXTS),
                    )
                    key = prefix or attribute
                    found[key] = (*found.get(key, ()), use)
    return found


USES: Final[Mapping[Kind, Uses]] = {kind: _uses_of(kind) for kind in Kind}
KIND_KEYS: Final = tuple(
    KindKey(
        name,
        {value: kind for value, kind in values.items() if not value.startswith("*")},
        tuple((value[1:], kind) for value, kind in values.items() if value.startswith("*")),
        convention,
    )
    for convention in CONVENTIONS
    for name, values in convention.kinds.items()
)
SPAN_NAMES: Final[Mapping[str, tuple[Kind, Convention]]] = {
    name: (kind, convention)
    for convention in CONVENTIONS
    for name, kind in convention.span_names.items()
}
MARKS: Final[Mapping[str, tuple[Kind, Convention]]] = {
    name: (kind, convention)
    for convention in CONVENTIONS
    for name, kind in convention.marks.items()
}
TELLING: Final = frozenset((*(key.name for key in KIND_KEYS), *MARKS))
"""Attributes that can tell the kind of a span."""
PREFIXES: Final = tuple(
    f"{prefix}." for convention in CONVENTIONS for prefix in convention.numbered
)
PARAMETERS: Final = tuple(prefix for each in CONVENTIONS for prefix in each.parameters)
KNOWN: Final = frozenset(
    {*TELLING, *(name for uses in USES.values() for name in uses),
     *(name for convention in CONVENTIONS for name in convention.only_with)}
)  # fmt: skip
"""Attributes of any use."""
_READ: Final = KNOWN.union(LISTS)
_NUMBERED: Final = (*PREFIXES, *NUMBERED)
Plan: TypeAlias = Mapping[Field, tuple[Use, ...]]
"""Uses of the attributes that fill a field, the one that counts most first."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Names of attributes that many spans have alike, as those of one instrumentor do.

    Each name is looked up once for all of them.
    """

    names: frozenset[str]
    """Those of any use."""
    prefixes: frozenset[str]
    """Prefixes of attributes that hold messages together."""
    kind_keys: tuple[KindKey, ...]
    mark: tuple[Kind, Convention] | None
    """Kind that the attributes are a sign of."""
    has_tools: bool
    """True if some tell definitions of tools."""
    plans: dict[Kind, Plan] = field(default_factory=dict[Kind, Plan])

    def plan(self, kind: Kind) -> Plan:
        """Give the uses that the attributes have on spans of one kind."""
        found = self.plans.get(kind)
        if found is None:
            found = self.plans[kind] = self._plan(kind)
        return found

    def _plan(self, kind: Kind) -> Plan:
        uses, found = USES[kind], dict[Field, list[Use]]()
        for name in (*self.names, *self.prefixes):
            for use in uses.get(name, ()):
                needed = use.convention.only_with
                if not needed or not self.names.isdisjoint(needed):
                    found.setdefault(use.field, []).append(use)
        by_rank = attrgetter("rank")
        return {target: tuple(sorted(each, key=by_rank)) for target, each in found.items()}


def shape_of(attributes: Attributes) -> Shape:
    """Find the shape of a span's attributes. Cost: about 2 µs for fifteen attributes."""
    names = _READ.intersection(attributes)
    numbered = [name for name in attributes if name.startswith(_NUMBERED)]
    return _shape(names, frozenset(map(_prefix, numbered)) if numbered else _NO_PREFIXES)


_NO_PREFIXES: Final = frozenset[str]()


@lru_cache(maxsize=1024)
def _shape(names: frozenset[str], prefixes: frozenset[str]) -> Shape:
    keys = tuple(key for key in KIND_KEYS if key.name in names)
    mark = next((kind for name, kind in MARKS.items() if name in names), None)
    has_tools = not (names.isdisjoint(LISTS) and prefixes.isdisjoint(NUMBERED))
    return Shape(names, prefixes, keys, mark, has_tools)


def _prefix(name: str) -> str:
    return next(each for each in _NUMBERED if name.startswith(each))


WITH_SPAN_PER_CALL: Final = frozenset(
    convention.name for convention in CONVENTIONS if convention.has_span_per_call
)
"""Names of the conventions that make a span for every call of a tool."""
