"""Trajectories as lists of chat messages, as agentevals, LangChain and OpenAI write them."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.formats.agentevals.match import match_messages, trajectory_from_messages
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ("match_messages", "trajectory_from_messages")
