"""ScouterQueue: where an agent drops its records."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.model.record import EntityType, EvalRecord, RecordType
    from scouter.queue.redaction import Redaction, RedactionRule
    from scouter.queue.scouter_queue import Queue, QueueStats, ScouterQueue
else:
    __getattr__, __dir__ = lazy_names(__name__)

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
