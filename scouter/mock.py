"""Stand-ins for offline runs and tests, where the original's users import them from."""

from scouter.transport.config import MockConfig

__all__ = ("MockConfig",)
