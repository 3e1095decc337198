"""Profiles: what an agent is judged by, as data."""

from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile

__all__ = ("AgentEvalConfig", "AgentEvalProfile")
