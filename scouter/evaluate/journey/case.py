"""One journey as it should go: the story, the goals of the agent, and the order of the goals."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.journey.case_faults import as_check, faults_of
from scouter.model.json_value import to_json_value

SOUND: Final = "sound"
WXO: Final = "wxo-1.6.9"
Compat: TypeAlias = Literal["sound", "wxo-1.6.9"]
"""Rules that a conversation is compared by: those documented, or that version of the original."""

UNNAMED: Final = "journey"
"""Name of a case whose dataset has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """One thing that the agent should do or say."""

    name: str
    type: str
    """`tool_call`, `text` or `interaction`; a lenient reading knows other types, never met."""
    tool_name: str = ""
    args: Mapping[str, JsonValue] | None = None
    strategies: Mapping[str, str] = field(default_factory=dict[str, str])
    """`strict`, `fuzzy`, `optional` or `ignore`, by argument or dotted path."""
    response: str | None = None
    keywords: tuple[JsonValue, ...] = ()
    summary: str | None = None
    identifier: tuple[str, JsonValue] | None = None
    """Key and value in the payload of an interaction."""

    @property
    def wanted_text(self) -> str:
        """Text that the agent should say for a text goal; empty where keywords are enough."""
        return self.response or self.summary or ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One statement that a judge decides."""

    text: str
    kind: str = "observed"
    """`observed` (it happened) or `policy` (it was respected)."""
    scope: str = "conversation"
    """Part that the judge sees: `conversation` for all, `response` for the last answer alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One journey as it should go."""

    story: str
    edges: Mapping[str, tuple[str, ...]]
    """Names of the goals that come after each goal."""
    goals: tuple[Goal, ...]
    checks: tuple[Check, ...] = ()
    name: str = UNNAMED
    agent: str | None = None
    starting_sentence: str | None = None
    max_user_turns: int | None = None
    user_prompts: tuple[str, ...] | None = None
    tags: tuple[str, ...] = ()
    source: Mapping[str, JsonValue] = field(
        default_factory=dict[str, JsonValue], compare=False, repr=False
    )
    """The content of its dataset."""

    @property
    def asks(self) -> bool:
        """True if a judge has something to decide: a text, a fuzzy argument or a statement."""
        is_open = any(
            each.wanted_text or each.keywords or "fuzzy" in each.strategies.values()
            for each in self.goals
        )
        return is_open or bool(self.checks)

    def of_type(self, kind: str) -> tuple[Goal, ...]:
        """The goals of one type, in the order of the dataset."""
        return tuple(goal for goal in self.goals if goal.type == kind)

    def without_repeats(self, kind: str) -> tuple[Goal, ...]:
        """The goals of one type; of several with one name the last, in the place of the first."""
        return tuple({goal.name: goal for goal in self.of_type(kind)}.values())


def read_case(dataset: Mapping[str, Any] | Case, *, is_lenient: bool = False) -> Case:
    """Read a ground-truth dataset.

    Args:
        dataset: The content of one ground-truth file, or a case.
        is_lenient: Refuse only what the original refuses: cycles, repeated names, goals that
            nothing can meet and tools without a name are taken.

    Raises:
        ConfigError: Names the place in the dataset, and the rule.
    """
    if isinstance(dataset, Case):
        return dataset
    value = cast("dict[str, JsonValue]", to_json_value(dataset))
    fault = next(iter(faults_of(value, is_lenient=is_lenient)), None)
    if fault is not None:
        raise ConfigError(f"the dataset: {fault}")
    return case_of(value)


def case_of(value: Mapping[str, Any], name: str = "") -> Case:
    """Make a case of a dataset in which `faults_of` found nothing.

    Args:
        value: The dataset.
        name: Name of the case, if the dataset has none.
    """
    details = cast("list[dict[str, Any]]", value["goal_details"])
    prompts = value.get("user_prompts")
    return Case(
        name=value.get("dataset_name") or name or UNNAMED,
        story=value["story"],
        edges={parent: _children(after) for parent, after in value["goals"].items()},
        goals=tuple(_goal(each) for each in details if as_check(each) is None),
        checks=tuple(_check(each) for each in map(as_check, details) if each is not None),
        agent=value.get("agent"),
        starting_sentence=value.get("starting_sentence"),
        max_user_turns=value.get("max_user_turns"),
        user_prompts=None if prompts is None else tuple(prompts),
        tags=tuple(value.get("tags") or ()),
        source=value,
    )


def _children(after: object) -> tuple[str, ...]:
    """Read the goals that come after a goal; a text in place of a list names one per letter."""
    return tuple(cast("Iterable[str]", after or ()))


def _goal(detail: Mapping[str, Any]) -> Goal:
    found = detail.get("identifier")
    return Goal(
        name=detail["name"],
        type=detail["type"],
        tool_name=detail.get("tool_name") or "",
        args=detail.get("args"),
        strategies=detail.get("arg_matching") or {},
        response=detail.get("response"),
        keywords=tuple(detail.get("keywords") or ()),
        summary=detail.get("summary"),
        identifier=None if found is None else (found["key"], found["value"]),
    )


def _check(detail: Mapping[str, Any]) -> Check:
    return Check(
        text=detail["check"], kind=detail["kind"], scope=detail.get("scope") or "conversation"
    )
