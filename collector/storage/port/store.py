"""The port between the collector and whatever keeps its data: the sum of its parts.

Callers name the part that they need; `docs/internals/second_store.md` says what another store would
have to do.
"""

from typing import Final, Protocol

from collector.storage.port.care import CareStore
from collector.storage.port.control import ControlStore
from collector.storage.port.drift import DriftStore
from collector.storage.port.labels import LabelStore
from collector.storage.port.reading import ReadStore
from collector.storage.port.runs import RunStore
from collector.storage.port.work import WorkStore
from scouter.errors import TransientError


class NoMemoryError(TransientError):
    """A read needs more memory than is free; one that asks for less may find it."""


class TooLargeError(NoMemoryError):
    """A read asks for more than is ever read at once; to ask for the same again is useless."""


MOST_SPANS: Final = 100_000
"""Spans that are read at once: about 200 MB in memory."""
MOST_SPAN_BYTES: Final = 64 * 2**20
"""The same in bytes, as they are stored."""


class Store(
    WorkStore, ReadStore, ControlStore, CareStore, DriftStore, RunStore, LabelStore, Protocol
):
    """Everything that a collector keeps."""
