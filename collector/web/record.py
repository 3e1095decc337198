"""One record: why it failed comes first."""

from collections import Counter
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from collector.web.aligned import Aligned, align
from collector.web.checks import BAD
from collector.web.citations import Marker, citations_of, within
from collector.web.profile import definitions_in
from collector.web.render import pruned
from collector.web.source import Answer, Source

_ORDER: Final = {"failed": 0, "errored": 1, "skipped": 2, "passed": 3}
_OF_CALLS: Final = frozenset({"Trajectory", "AgentAssertion"})
"""Types of tasks that may expect calls."""


async def record_view(source: Source, uid: str, given: Mapping[str, str]) -> Answer:
    """Collect the view of a record.

    Args:
        source: Asks the API.
        uid: Of the record.
        given: `rater`, who labels, and `task`, for which; `again`, `flipped`, `at` and `digest`,
            what another evaluation came to.

    Raises:
        AskError: The API refused, or there is no such record.
    """
    record = await source.get(f"records/{quote(uid, safe='')}")
    evaluations = record["evaluations"]
    latest = evaluations[0] if evaluations else None
    record["context"] = pruned(record["context"])
    tasks = sorted(latest["tasks"], key=_rank) if latest else []
    cited = {
        task["task_id"]: within(record["context"], citations_of(task["answer"])) for task in tasks
    }
    labels = (await source.get("labels", uid=uid, limit=200))["items"]
    rater = given.get("rater", "").strip()[:100]
    every = list(dict.fromkeys(each for of_task in cited.values() for each in of_task))
    label, definitions = "", {}
    if latest:
        label, definitions = await definitions_in(
            source, latest["profile"], latest["profile_version"]
        )
    return {
        "record": record,
        "latest": latest,
        "tasks": tasks,
        "profile_label": label,
        "definitions": definitions,
        "bad": Counter(each["outcome"] for each in tasks if each["outcome"] in BAD),
        "earlier": evaluations[1:],
        "pointed": pointed_keys(tasks),
        "cited": {
            name: [(every.index(each) + 1, each) for each in of_task]
            for name, of_task in cited.items()
        },
        "cited_keys": _keys_with(record["context"], every),
        "marker": Marker(every),
        "calls": await _calls(source, uid, tasks),
        "labels": labels,
        "rater": rater,
        "labelled_task": given.get("task", ""),
        "told": {name: given.get(name, "") for name in ("again", "flipped", "at", "digest")},
        "own": next(
            (
                each
                for each in labels
                if each["rater"].casefold() == rater.casefold()
                and each["task_id"] == given.get("task", "")
            ),
            None,
        ),
    }


async def _calls(source: Source, uid: str, tasks: list[Answer]) -> Mapping[str, list[Aligned]]:
    """By task, the calls that it expects beside those that were made."""
    if not any(task["task_type"] in _OF_CALLS for task in tasks):
        return {}
    found = (await source.get(f"trajectories/{quote(uid, safe='')}"))["items"]
    return {each["task_id"]: align(each["expected"], each["actual"]) for each in found}


def _keys_with(context: object, citations: list[str]) -> frozenset[str]:
    """First keys of a context below which something is cited."""
    if not isinstance(context, dict) or not citations:
        return frozenset()
    fields: dict[str, object] = context  # pyright: ignore[reportUnknownVariableType]  # JSON
    return frozenset(key for key, value in fields.items() if within(value, citations))


def pointed_keys(tasks: list[Answer]) -> frozenset[str]:
    """First keys of the context that tasks which did not pass looked at.

    A message begins with the path in single quotes: `'answer.text' is …`.
    """
    keys: set[str] = set()
    for task in tasks:
        message = task["message"]
        if task["outcome"] in BAD and message.startswith("'"):
            path = message[1:].split("'", 1)[0]
            keys.add(path.split(".", 1)[0].split("[", 1)[0])
    return frozenset(keys)


def _rank(task: Answer) -> int:
    return _ORDER.get(task["outcome"], 1)
