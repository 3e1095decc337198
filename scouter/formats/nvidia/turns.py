"""Conversations: rows with several turns, and which rows and turns a run wants."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast
from uuid import uuid4

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.report.evaluator import METHODS_KEY, EvalItem
from scouter.formats.nvidia.config import Structure
from scouter.formats.nvidia.dataset import CONVERSATION_KEY

FILTER_VARIABLE: Final = "DATASET_FILTER"
CONVERSATION_ID_KEY: Final = "_multi_turn_conversation_id"
_ALL: Final = "all"
_METHODS: Final = (_ALL, "qa", "trajectory", "report")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Turns that one agent answers, one after the other."""

    id: str
    turns: tuple[EvalItem, ...]
    is_single: bool = True
    """The row is no conversation, and is its one turn itself."""


def wanted_methods(environ: Mapping[str, str]) -> frozenset[str]:
    """Read `DATASET_FILTER`.

    Returns:
        The methods that are wanted; empty for all.

    Raises:
        ConfigError: There is no such method, or `all` stands beside others.
    """
    text = environ.get(FILTER_VARIABLE, _ALL)
    names = {part.strip().lower() for part in text.split(",")} - {""}
    unknown = names - set(_METHODS)
    if unknown:
        shown = "{" + ", ".join(repr(name) for name in sorted(unknown)) + "}"
        raise ConfigError(
            f"Invalid DATASET_FILTER values: {shown}. Must be one of: {list(_METHODS)}"
        )
    if _ALL in names and len(names) > 1:
        raise ConfigError("DATASET_FILTER='all' cannot be combined with other values")
    return frozenset(names - {_ALL})


def conversations_of(
    items: Sequence[EvalItem],
    wanted: frozenset[str] = frozenset(),
    structure: Structure | None = None,
) -> list[Conversation]:
    """Expand rows into their turns, and keep those with a wanted method.

    A conversation is stored as a whole if any of its turns is wanted, as the agent has to hear all
    of them. Methods that are not wanted are taken out of the turns, so that evaluators skip these.
    With a filter, rows that are no conversations come first.

    Args:
        items: The rows.
        wanted: Methods; empty for all.
        structure: Names of the columns of turns; those of VSS where it is not given.

    Raises:
        ConfigError: A turn is no object.
    """
    named = structure or Structure(question_key="query", answer_key="ground_truth")
    found = [_expanded(item, named) for item in items]
    if not wanted:
        return found
    retained = [each for each in found if any(wanted & _methods(turn) for turn in each.turns)]
    retained.sort(key=lambda each: not each.is_single)
    return [
        replace(each, turns=tuple(_narrowed(turn, wanted) for turn in each.turns))
        for each in retained
    ]


def _methods(item: EvalItem) -> frozenset[str]:
    found = item.entry.get(METHODS_KEY)
    return frozenset(map(str, found)) if isinstance(found, list) else frozenset()


def _narrowed(item: EvalItem, wanted: frozenset[str]) -> EvalItem:
    found = item.entry.get(METHODS_KEY)
    methods = [each for each in found if each in wanted] if isinstance(found, list) else []
    return replace(item, entry={**item.entry, METHODS_KEY: methods})


def turn_id(turn: EvalItem, at: int) -> str:
    """The id of a turn in its conversation.

    Args:
        turn: The turn.
        at: Its number, from 0.
    """
    return str(turn.entry.get("turn_id") or f"turn_{at + 1}")


def stored_conversations(items: Sequence[EvalItem]) -> list[Conversation]:
    """Put rows together that an earlier run made of one conversation; others are their own.

    Args:
        items: Rows of a `workflow_output.json`.
    """
    found: list[list[EvalItem]] = []
    key: object = None
    for item in items:
        same = item.entry.get(CONVERSATION_ID_KEY)
        if same is not None and same == key:
            found[-1].append(item)
        else:
            found.append([item])
        key = same
    return [_rejoined(turns) for turns in found]


def _rejoined(turns: Sequence[EvalItem]) -> Conversation:
    first = turns[0]
    if CONVERSATION_ID_KEY not in first.entry:
        return Conversation(id=str(first.id), turns=(first,))
    name = str(first.id).removesuffix(f"_{turn_id(first, 0)}")
    return Conversation(id=name, turns=tuple(turns), is_single=False)


def _expanded(item: EvalItem, structure: Structure) -> Conversation:
    reported = item.entry.get(CONVERSATION_KEY)
    if not isinstance(reported, list) or not reported:
        return Conversation(id=str(item.id), turns=(item,))
    key = f"multi_turn_{item.id}_{uuid4().hex[:8]}"
    turns: list[EvalItem] = []
    for at, turn in enumerate(reported, start=1):
        if not isinstance(turn, dict):
            raise ConfigError(f"item {item.id!r}: turn {at} is no object")
        entry = {**turn, CONVERSATION_ID_KEY: cast("JsonValue", key)}
        turns.append(
            EvalItem(
                id=f"{item.id}_{turn.get('turn_id') or f'turn_{at}'}",
                question=turn.get("query", turn.get(structure.question_key)) or "",
                ground_truth=turn.get("ground_truth", turn.get(structure.answer_key)),
                entry=entry,
            )
        )
    return Conversation(id=str(item.id), turns=tuple(turns), is_single=False)
