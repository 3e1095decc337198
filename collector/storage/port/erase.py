"""What is to be erased, and what was."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTarget:
    """What is to be erased; exactly one of the five is given."""

    space: str
    session_id: str | None = None
    trace_id: str | None = None
    record_uid: str | None = None
    tag: tuple[str, str] | None = None
    """Key and text."""
    superseded: tuple[str, ...] = ()
    """Uids of derived records in whose place others came; counted as superseded, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What went, with the keys by which memory has to forget it too."""

    space: str
    seq: int
    uids: frozenset[str]
    """Of the records."""
    traces: frozenset[str]
    """Traces that lost spans."""
    spans: int
    evaluations: int
    """Verdicts, every revision of each."""
    dead_letters: int
    runs: int
    """Runs that spoke of what went; each as a whole."""
