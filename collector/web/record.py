"""One record: why it failed comes first."""

from typing import Final
from urllib.parse import quote

from collector.web.render import pruned
from collector.web.source import Answer, Source

_ORDER: Final = {"failed": 0, "errored": 1, "skipped": 2, "passed": 3}


async def record_view(source: Source, uid: str) -> Answer:
    """Collect the view of a record.

    Args:
        source: Asks the API.
        uid: Of the record.

    Raises:
        AskError: The API refused, or there is no such record.
    """
    record = await source.get(f"records/{quote(uid, safe='')}")
    evaluations = record["evaluations"]
    latest = evaluations[0] if evaluations else None
    record["context"] = pruned(record["context"])
    return {
        "record": record,
        "latest": latest,
        "tasks": sorted(latest["tasks"], key=_rank) if latest else [],
        "earlier": evaluations[1:],
        "pointed": pointed_keys(latest["tasks"]) if latest else frozenset(),
    }


def pointed_keys(tasks: list[Answer]) -> frozenset[str]:
    """First keys of the context that tasks which did not pass looked at.

    A message begins with the path in single quotes: `'answer.text' is …`.
    """
    keys: set[str] = set()
    for task in tasks:
        message = task["message"]
        if task["outcome"] in ("failed", "errored") and message.startswith("'"):
            path = message[1:].split("'", 1)[0]
            keys.add(path.split(".", 1)[0].split("[", 1)[0])
    return frozenset(keys)


def _rank(task: Answer) -> int:
    return _ORDER.get(task["outcome"], 1)
