"""ScouterQueue: where an agent drops its records."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.model.kinds import EntityType, RecordType
    from scouter.model.record import EvalRecord
    from scouter.queue.redaction import Redaction, RedactionRule
    from scouter.queue.scouter_queue import Queue, QueueStats, ScouterQueue

__all__ = (
    "EntityType",
    "EvalRecord",
    "Queue",
    "QueueStats",
    "RecordType",
    "Redaction",
    "RedactionRule",
    "ScouterQueue",
)

_HOMES = {
    "EntityType": "scouter.model.kinds",
    "EvalRecord": "scouter.model.record",
    "Queue": "scouter.queue.scouter_queue",
    "QueueStats": "scouter.queue.scouter_queue",
    "RecordType": "scouter.model.kinds",
    "Redaction": "scouter.queue.redaction",
    "RedactionRule": "scouter.queue.redaction",
    "ScouterQueue": "scouter.queue.scouter_queue",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
