"""Targets and results of erasing stored data."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseTarget:
    """Data to erase; exactly one of the five fields after `space` is given."""

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
    """Counts of what was erased, with the keys that memory has to forget, too."""

    space: str
    seq: int
    uids: frozenset[str]
    """Uids of the erased records."""
    traces: frozenset[str]
    """Traces that lost spans."""
    spans: int
    evaluations: int
    """Evaluations, every revision of each."""
    dead_letters: int
    runs: int
    """Runs that spoke of what went; each as a whole."""
