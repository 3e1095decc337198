"""Faults of a ground-truth dataset, with their places, and the order of its goals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.files.field_errors import Loc, short
from scouter.evaluate.files.read import dotted
from scouter.model.visible import or_meant

Edges: TypeAlias = Mapping[str, Sequence[str]]


def find_cycle(edges: Edges) -> tuple[str, ...]:
    """Find goals that each have to come after the other.

    Returns:
        The goals of one cycle, the first one again at its end; empty if there is none.

    Cost: linear in goals and edges.
    """
    try:
        _sorter(edges, pairs(edges)).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def in_order(names: Sequence[str], edges: Edges) -> list[str]:
    """Sort goals so that each comes after those before it; else in the order that they have.

    Goals of a cycle come last.

    Cost: linear in goals and edges.
    """
    known = {*names}
    sorter = _sorter(names, (each for each in pairs(edges) if known.issuperset(each)))
    with suppress(CycleError):  # the goals outside of cycles come out all the same
        sorter.prepare()
    found: list[str] = []
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return [*dict.fromkeys([*found, *names])]


def pairs(edges: Edges) -> list[tuple[str, str]]:
    """Every edge, as the goal that comes first and the one after it."""
    return [(parent, child) for parent, children in edges.items() for child in children]


def _sorter(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> TopologicalSorter[str]:
    sorter = TopologicalSorter(dict.fromkeys(names, ()))
    for parent, child in arrows:
        sorter.add(child, parent)
    return sorter


def flatten(args: Mapping[str, JsonValue], above: str = "") -> dict[str, JsonValue]:
    """Lay nested objects out as dotted paths: `{"a": {"b": 1}}` is `{"a.b": 1}`.

    Lists and null are leaves; an empty object has none.

    Cost: linear in the values.
    """
    flat: dict[str, JsonValue] = {}
    for key, value in args.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            flat.update(flatten(cast("Mapping[str, JsonValue]", value), f"{path}."))
        else:
            flat[path] = value
    return flat


def strategy_of(path: str, strategies: Mapping[str, str]) -> str:
    """The strategy for a leaf: its own, else that of the longest path above it, else `strict`."""
    while path:
        if path in strategies:
            return strategies[path]
        path = path.rpartition(".")[0]
    return "strict"


STRATEGIES: Final = ("strict", "fuzzy", "optional", "ignore")
TYPES: Final = ("tool_call", "text", "interaction", "assert_llm")
DEAD_TYPES: Final = ("tool_response", "conversational_search")
"""Types that are written in datasets and that no message can meet."""
_KINDS: Final = ("observed", "policy")
_SCOPES: Final = ("conversation", "response")

_DATASET_FIELDS: Final = (
    "story", "goals", "goal_details", "agent", "starting_sentence", "dataset_name",
    "max_user_turns", "user_prompts", "tags",
)  # fmt: skip
_GOAL_FIELDS: Final = (
    "name", "type", "tool_name", "args", "arg_matching", "response", "keywords", "summary",
    "identifier",
)  # fmt: skip
_CHECK_FIELDS: Final = ("type", "kind", "check", "scope")

_Object: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong."""

    loc: Loc
    problem: str
    expected: str | None = None

    def __str__(self) -> str:
        wanted = f"; expected {self.expected}" if self.expected else ""
        return f"{dotted(self.loc)}: {self.problem}{wanted}".lstrip(": ")


def faults_of(value: JsonValue, *, is_lenient: bool = False) -> list[Fault]:
    """Find all that is wrong with a dataset.

    Args:
        value: The content of a ground-truth file.
        is_lenient: Look only for what the original refuses.

    Cost: linear in the dataset.
    """
    if not isinstance(value, dict):
        return [Fault(loc=(), problem="it is no object", expected="one ground-truth dataset")]
    found = [*_of_dataset(value, is_lenient=is_lenient)]
    if found:
        return found  # what follows reads the fields
    found = [*_of_details(value, is_lenient=is_lenient)]
    if found:
        return found
    found = [*_of_names(value)]
    return found if is_lenient else [*found, *_of_graph(value)]


def as_check(detail: _Object) -> _Object | None:
    """A goal detail as a statement for a judge; None for all others.

    One that has a field of a goal is a goal to a lenient reader, which nothing can meet.
    """
    is_check = detail.get("type") == "assert_llm" and detail.keys() <= {*_CHECK_FIELDS}
    return detail if is_check else None


def _of_dataset(value: _Object, *, is_lenient: bool) -> Iterator[Fault]:
    story, goals, details = (value.get(name) for name in ("story", "goals", "goal_details"))
    if not isinstance(story, str) or not story:
        yield _missing(value, ("story",), "a text of at least one letter")
    if not isinstance(goals, dict):
        yield _missing(value, ("goals",), "an object from each goal to the goals after it")
    if not isinstance(details, list) or not details:
        yield _missing(value, ("goal_details",), "a list of at least one goal")
    elif not goals and not all(
        isinstance(each, dict) and as_check(cast("_Object", each))
        for each in cast("list[object]", details)
    ):
        yield Fault(loc=("goals",), problem="it is empty", expected="at least one goal")
    for name in ("agent", "starting_sentence", "dataset_name"):
        if not isinstance(value.get(name), str | None):
            yield Fault(loc=(name,), problem="it is no text", expected="a text")
    turns = value.get("max_user_turns")
    least = -(10**9) if is_lenient else 1
    if turns is not None and (type(turns) is not int or turns < least):
        yield Fault(loc=("max_user_turns",), problem=f"{turns!r} does not fit",
                    expected="a whole number from 1")  # fmt: skip
    for name in ("user_prompts", "tags"):
        if not _is_texts(value.get(name)):
            yield Fault(loc=(name,), problem="it is no list of texts", expected="a list of texts")
    if not is_lenient:
        yield from _of_spelling(value, (), _DATASET_FIELDS)


def _of_details(value: _Object, *, is_lenient: bool) -> Iterator[Fault]:
    for at, detail in enumerate(cast("list[object]", value["goal_details"])):
        loc = ("goal_details", at)
        if not isinstance(detail, dict):
            yield Fault(loc=loc, problem="it is no object", expected="a goal")
            continue
        goal = cast("dict[str, Any]", detail)
        kind = goal.get("type")
        if kind not in (*TYPES, *DEAD_TYPES):
            expected = _one_of(TYPES) + or_meant(str(kind), TYPES)
            yield _missing(goal, (*loc, "type"), expected)
        elif as_check(goal) is not None or (kind == "assert_llm" and not is_lenient):
            yield from _of_check(goal, loc)
        else:
            yield from _of_goal(goal, loc)
            if not is_lenient:
                yield from _of_strict_goal(goal, loc)


def _of_check(check: _Object, loc: Loc) -> Iterator[Fault]:
    if not isinstance(check.get("check"), str) or not check["check"]:
        yield _missing(check, (*loc, "check"), "the statement, a text")
    for name, words in (("kind", _KINDS), ("scope", _SCOPES)):
        if check.get(name) not in words and (name == "kind" or name in check):
            yield _missing(check, (*loc, name), _one_of(words))
    for name in check.keys() - {*_CHECK_FIELDS}:
        yield Fault(loc=(*loc, name), problem="an assert_llm has no such field",
                    expected=_one_of(_CHECK_FIELDS))  # fmt: skip


def _of_goal(goal: _Object, loc: Loc) -> Iterator[Fault]:
    if not isinstance(goal.get("name"), str):
        yield _missing(goal, (*loc, "name"), "a text")
    for name in ("tool_name", "response", "summary"):
        if not isinstance(goal.get(name), str | None):
            yield Fault(loc=(*loc, name), problem="it is no text", expected="a text")
    if not isinstance(goal.get("args"), dict | None):
        yield Fault(loc=(*loc, "args"), problem="it is no object", expected="an object")
    if not isinstance(goal.get("keywords"), list | None):
        yield Fault(loc=(*loc, "keywords"), problem="it is no list", expected="a list of texts")
    yield from _of_identifier(goal, loc)
    strategies = goal.get("arg_matching")
    if not isinstance(strategies, dict | None):
        yield Fault(loc=(*loc, "arg_matching"), problem="it is no object", expected="an object")
        return
    args = cast("object", goal.get("args"))
    yield from _of_strategies(
        cast("dict[str, object]", strategies or {}),
        cast("dict[str, Any]", args) if isinstance(args, dict) else {},
        (*loc, "arg_matching"),
    )


def _of_strategies(
    strategies: Mapping[str, object], args: Mapping[str, Any], loc: Loc
) -> Iterator[Fault]:
    flat = flatten(args)
    for name, strategy in strategies.items():
        if strategy not in STRATEGIES:
            words = _one_of(STRATEGIES) + or_meant(str(strategy), STRATEGIES)
            yield Fault(loc=(*loc, name), problem=f"{strategy!r} is no strategy", expected=words)
        known = name in flat or name in args or any(path.startswith(f"{name}.") for path in flat)
        if args and not known:
            yield Fault(loc=(*loc, name), problem=f"args has no {name!r}",
                        expected=_one_of((*map(repr, args),)))  # fmt: skip


def _of_identifier(goal: _Object, loc: Loc) -> Iterator[Fault]:
    found = cast("object", goal.get("identifier"))
    if found is None:
        if goal["type"] == "interaction":
            yield _missing(goal, (*loc, "identifier"), 'an object {"key": …, "value": …}')
        return
    keys = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    if not isinstance(keys.get("key"), str) or "value" not in keys:
        yield Fault(loc=(*loc, "identifier"), problem="key or value is missing",
                    expected='an object {"key": …, "value": …}')  # fmt: skip


def _of_strict_goal(goal: _Object, loc: Loc) -> Iterator[Fault]:
    kind = goal["type"]
    if kind in DEAD_TYPES:
        yield Fault(
            loc=(*loc, "type"),
            problem=f"no message can meet a goal of the type {kind!r}, so that the journey could "
            "never succeed",
            expected=_one_of(TYPES),
        )
    if kind == "tool_call" and not str(goal.get("tool_name") or "").strip():
        yield _missing(goal, (*loc, "tool_name"), "the name of the tool")
    if not _is_texts(goal.get("keywords")):
        yield Fault(loc=(*loc, "keywords"), problem="it holds more than texts",
                    expected="a list of texts")  # fmt: skip
    if kind == "text" and not any(map(goal.get, ("response", "summary", "keywords"))):
        yield Fault(loc=loc, problem="any text would meet this goal",
                    expected="response, summary or keywords")  # fmt: skip
    yield from _of_spelling(goal, loc, _GOAL_FIELDS)


def _of_spelling(value: _Object, loc: Loc, known: Sequence[str]) -> Iterator[Fault]:
    """Unknown fields are foreign notes, but for those that are nearly a field."""
    for name in value.keys() - {*known}:
        hint = or_meant(name, [each for each in known if value.get(each) is None])
        if hint:
            yield Fault(loc=(*loc, name), problem=f"there is no such field{hint}")


def _of_names(value: _Object) -> Iterator[Fault]:
    """Names in the graph and names of details have to be the same."""
    details = cast("list[dict[str, Any]]", value["goal_details"])
    goals = {each["name"]: at for at, each in enumerate(details) if as_check(each) is None}
    after = cast("dict[str, object]", value["goals"])
    drawn = {*after}
    for parent, children in after.items():
        if parent not in goals:
            yield _unknown(("goals", parent), parent, goals)
        for at, child in enumerate(cast("list[object]", children if _is_list(children) else [])):
            drawn.add(str(child))
            if child not in goals:
                yield _unknown(("goals", parent, at), child, goals)
    for name, at in goals.items():
        if name not in drawn:
            yield Fault(loc=("goal_details", at, "name"), problem=f"goals does not have {name!r}",
                        expected="every goal in goals, as a key or after one")  # fmt: skip


def _of_graph(value: _Object) -> Iterator[Fault]:
    """Find faults that the original accepts, but that no agent can meet."""
    details = cast("list[dict[str, Any]]", value["goal_details"])
    names = [each["name"] for each in details if as_check(each) is None]
    for name, count in Counter(names).items():
        if count > 1:
            at = len(details) - 1 - [each.get("name") for each in reversed(details)].index(name)
            yield Fault(loc=("goal_details", at, "name"), expected="names that are unique",
                        problem=f"{count} goals are called {name!r}")  # fmt: skip
    after = cast("dict[str, object]", value["goals"])
    lists: dict[str, Sequence[str]] = {}
    for parent, children in after.items():
        if children is None or _is_list(children):
            lists[parent] = cast("list[str]", children or [])
        else:
            yield Fault(loc=("goals", parent), problem=f"{children!r} is no list",
                        expected="a list of the goals that come after it")  # fmt: skip
    cycle = find_cycle(lists)
    if cycle:
        yield Fault(
            loc=("goals", cycle[0]),
            problem=f"the goals go in a circle, so that none can come first: {' → '.join(cycle)}",
        )


def _missing(holder: _Object, loc: Loc, expected: str) -> Fault:
    name = loc[-1]
    found = cast("object", holder.get(str(name)))
    problem = "the field is missing" if name not in holder else f"{short(found)} does not fit"
    return Fault(loc=loc, problem=problem, expected=expected)


def _unknown(loc: Loc, name: object, known: Mapping[str, object]) -> Fault:
    problem = f"goal_details has no {name!r}{or_meant(str(name), known)}"
    return Fault(loc=loc, problem=problem, expected="names of goal_details")


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_texts(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, list) and all(
        isinstance(each, str) for each in cast("list[object]", value)
    )


def _one_of(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + (" or " if words[:-1] else "") + "".join(words[-1:])
