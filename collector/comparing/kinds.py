"""Flips of one kind: the same tasks end otherwise, after the same calls of tools."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from collector.comparing.comparison import FlippedRecord, FlippedScenario
from collector.comparing.side import Side
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult

Flip: TypeAlias = FlippedRecord | FlippedScenario
_Change: TypeAlias = tuple[str, Outcome, Outcome]
_Key: TypeAlias = tuple[bool, tuple[_Change, ...], tuple[str, ...], tuple[str, ...]]

_MOST: Final = 200
"""Flips that are looked at; of more, the first ones."""


def kinds_of(
    store: Store, space: str, sides: tuple[Side, Side], flips: Sequence[Flip]
) -> list[list[Flip]]:
    """Bring flips of one kind together; each scenario, and each record of a run, stands alone.

    Args:
        store: Has the spans of live records.
        space: Whose.
        sides: The baseline and the side in question.
        flips: Those for the worse first.

    Returns:
        Kinds for the worse first, then the larger ones; of each the newest flip first.

    Cost: a look at the traces of 200 flips.
    """
    looked = flips[:_MOST]
    if all(side.run is not None for side in sides):
        return [[each] for each in looked]
    records = [each for each in looked if isinstance(each, FlippedRecord)]
    tools = _tools(store, space, records)
    kinds: defaultdict[_Key, list[Flip]] = defaultdict(list)
    for each in sorted(records, key=lambda flip: -flip.after.created_ns):
        kinds[_key(each, tools)].append(each)
    return sorted(kinds.values(), key=lambda kind: (not kind[0].is_worse, -len(kind)))


def _tools(
    store: Store, space: str, records: Sequence[FlippedRecord]
) -> Mapping[str, tuple[str, ...]]:
    """The tools that were called in the traces of records, by trace."""
    both = (side for each in records for side in (each.before, each.after))
    steps = store.trace_steps(space, {side.trace_id for side in both if side.trace_id})
    return {
        trace_id: tuple(step.tool for step in some if step.tool) for trace_id, some in steps.items()
    }


def _key(flip: FlippedRecord, tools: Mapping[str, tuple[str, ...]]) -> _Key:
    before, after = (tools.get(side.trace_id or "", ()) for side in (flip.before, flip.after))
    return flip.is_worse, tuple(_changes(flip.before, flip.after)), before, after


def _changes(before: RecordResult, after: RecordResult) -> list[_Change]:
    """Tasks that end otherwise, and how."""
    was = {task.task_id: task.outcome for task in before.tasks}
    return sorted(
        (task.task_id, was[task.task_id], task.outcome)
        for task in after.tasks
        if was.get(task.task_id, task.outcome) is not task.outcome
    )
