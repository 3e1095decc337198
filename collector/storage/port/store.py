"""The port between the collector and whatever keeps its data: the sum of its parts.

Callers name the part that they need; `docs/internals/second_store.md` says what another store would
have to do.
"""

from typing import Protocol

from collector.storage.port.care import CareStore
from collector.storage.port.control import ControlStore
from collector.storage.port.drift import DriftStore
from collector.storage.port.labels import LabelStore
from collector.storage.port.reading import ReadStore
from collector.storage.port.runs import RunStore
from collector.storage.port.work import WorkStore


class Store(
    WorkStore, ReadStore, ControlStore, CareStore, DriftStore, RunStore, LabelStore, Protocol
):
    """Everything that a collector keeps."""
