"""Asking a collector: what was stored, and what should be done with it."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.client.client import ScouterClient
    from scouter.client.connection import Retry
    from scouter.client.errors import ApiError, BusyError
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ("ApiError", "BusyError", "Retry", "ScouterClient")
