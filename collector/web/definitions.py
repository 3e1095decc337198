"""Tasks of a profile in words: of which kind they are, and what they read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from collector.web.source import Answer, Source

_KINDS: Final = {
    "Assertion": "compares a value", "TraceAssertion": "measures the trace",
    "AgentAssertion": "looks at the agent's work", "LLMJudge": "asks a judge",
    "Trajectory": "compares the calls of tools", "Journey": "looks at the whole conversation",
    "Report": "checks a report", "Reliability": "compares the calls of tools",
}  # fmt: skip
_OF_CALLS: Final = frozenset({"Trajectory", "Reliability"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A task as its profile has it."""

    kind: str
    """In words."""
    description: str
    path: str = ""
    """Path in the context that it reads; empty where it reads no single one."""
    reads: str = ""
    """What else it reads, in words."""
    unit: str = ""
    """Of expected and actual value."""


async def read_definitions(
    source: Source, alias: str, digest: str
) -> tuple[str, Mapping[str, Definition]]:
    """Read what a version of a profile says of its tasks, and how it calls itself.

    Args:
        source: Asks the API.
        alias: Of the profile.
        digest: Of the version's tasks.

    Returns:
        Nothing where that version is not registered any more.

    Raises:
        AskError: The API refused.
    """
    versions = (await source.get("profiles", alias=alias))["items"]
    known = next((each for each in versions if each["profile_version"] == digest), None)
    if known is None or known["unusable"]:
        return "", {}
    body = (await source.get(f"profiles/{known['uid']}"))["body"]
    return known["version"], {task["id"]: definition_of(task) for task in body["tasks"]}


def definition_of(task: Answer) -> Definition:
    """Put a task into words.

    Args:
        task: As a profile's file has it.
    """
    kind: str = task["task_type"]
    assertion: Answer = task.get("assertion") or {}
    path, reads = "", ""
    if kind == "TraceAssertion" or task.get("source") == "spans":
        reads = "the spans of the trace"
    elif kind in _OF_CALLS:
        path = task.get("predicted") or ""
        reads = "" if path else "the spans of the trace"
    elif kind in ("Assertion", "AgentAssertion"):
        path = task.get("context_path") or ""
        reads = "" if path else "the whole context"
    elif kind == "Report":
        path = task.get("report") or ""
    elif kind == "LLMJudge":
        reads = "the record, by its prompt"
    return Definition(
        kind=_KINDS.get(kind, kind),
        description=task.get("description") or "",
        path=path,
        reads=reads,
        unit="ms" if {"SpanDuration", "TraceDuration"} & assertion.keys() else "",
    )
