"""Labelling: the tasks that there are, the record that is next, and how far people agree."""

from collections.abc import Mapping, Sequence
from typing import Final

from collector.web.render import pruned
from collector.web.source import Answer, Source

ORDERS: Final = (
    ("random", "at random"),
    ("failed", "failed"),
    ("uncertain", "judge uncertain"),
    ("disagrees", "judge disagrees with people"),
)


_TEN: Final = "t"
"""Key of the number 10, which has no digit of its own."""


async def label_tasks_view(source: Source) -> Answer:
    """Collect the tasks that can be labelled, those that ask a judge first.

    Args:
        source: Asks the API.

    Raises:
        AskError: The API refused.
    """
    rows = (await source.get("labels/tasks"))["items"]
    newest = (await source.get("labels", limit=10))["items"]
    return {
        "rows": sorted(rows, key=lambda each: (not each["is_judge"], each["profile"])),
        "newest": newest,
    }


async def queue_view(source: Source, given: Mapping[str, str]) -> Answer:
    """Collect the next record of a person's queue.

    Args:
        source: Asks the API.
        given: `profile`, `task`, `rater`, `order`, `reveal`, `offset`, and `last`, the record
            that was labelled before.

    Raises:
        AskError: The API refused.
    """
    kept = {
        "profile": given.get("profile", ""),
        "task": given.get("task", ""),
        "rater": given.get("rater", "").strip()[:100],
        "order": given.get("order") or "random",
    }
    offset = given.get("offset", "")
    offset = offset if offset.isdigit() else "0"
    is_shown = given.get("reveal") == "yes"
    queue = await source.get(
        "labels/queue",
        profile=kept["profile"],
        task_id=kept["task"],
        rater=kept["rater"],
        order=kept["order"],
        reveal="true" if is_shown else "false",
        offset=offset,
        limit="1" if kept["rater"] else "0",
    )
    item = queue["items"][0] if queue["items"] else None
    if item is not None:
        item["context"] = pruned(item["context"])
    return {
        "queue": queue,
        "item": item,
        "kept": kept,
        "offset": int(offset),
        "last": given.get("last", ""),
        "is_shown": is_shown,
        "orders": ORDERS,
        "steps": _keyed(queue["scale"]["steps"] if queue["scale"] else ()),
    }


def _keyed(steps: Sequence[float]) -> list[tuple[float, str]]:
    """Numbers to choose from, each with its key: its own digit, or else that of its place."""
    digits = [*map(str, range(10)), _TEN]
    is_own = all(each in range(11) for each in steps)
    return [(each, digits[int(each)] if is_own else digits[at]) for at, each in enumerate(steps)]


async def agreement_view(source: Source, profile: str, task_id: str) -> Answer:
    """Collect the agreement of people, and of the judge with them.

    Args:
        source: Asks the API.
        profile: Alias.
        task_id: Of the task.

    Raises:
        AskError: The API refused.
    """
    return {"found": await source.get("labels/agreement", profile=profile, task_id=task_id)}
