"""Names for kinds and schedules, where the original's users import them from."""

from scouter.alert.config import CommonCrons
from scouter.model.record import DriftType

__all__ = ("CommonCrons", "DriftType")
