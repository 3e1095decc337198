"""Kinds of records and of profiles, by the names that code written for the original uses.

There is one of each here: records about the work of an agent, and the profiles that evaluate them.
The original says `GenAI` in its published version and `Agent` later; both names are members, and
the same.
"""

from enum import Enum


class EntityType(Enum):
    """The subject of a record."""

    Agent = "Agent"
    GenAI = "Agent"


class RecordType(Enum):
    """The kind of a sent item."""

    AgentEval = "AgentEval"
    GenAIEval = "AgentEval"
    Trace = "Trace"


class DriftType(Enum):
    """The kind of thing that a profile watches."""

    Agent = "Agent"
    GenAI = "Agent"

    @property
    def to_string(self) -> str:
        """The name as text."""
        return self.value

    @staticmethod
    def from_value(value: str) -> "DriftType | None":
        """Find a member by any of its names, whatever their case; None for an unknown name."""
        wanted = value.casefold()
        for name, member in DriftType.__members__.items():
            if name.casefold() == wanted:
                return member
        return None
