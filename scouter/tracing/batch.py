"""Settings for gathering spans before they are sent."""

import sys
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from scouter.model.positional import by_position
from scouter.transport.worker import WorkerLimits


class BatchConfig(BaseModel):
    """Bounds of the span queue; the names are OpenTelemetry's.

    Args:
        max_queue_size: Spans that may wait, of any size; not bounded by number if not given.
        scheduled_delay_ms: A span is sent after this time at the latest.
        max_export_batch_size: Spans in one request.
        max_queue_bytes: Estimated size of all that may wait; beyond it the newest is dropped and
            counted. 64 MiB are about 16,000 spans of ten attributes. Up to 64 spans
            that end within 10 ms may wait beside to be measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_queue_size: int | None = Field(default=None, gt=0)
    scheduled_delay_ms: int = Field(default=1_000, gt=0)
    max_export_batch_size: int = Field(default=512, gt=0)
    max_queue_bytes: int = Field(default=64 * 1024 * 1024, gt=0)

    if not TYPE_CHECKING:  # whoever checks types sees the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(
                **by_position(type(self), tuple(type(self).model_fields), args, fields)
            )

    def limits(self) -> WorkerLimits:
        """The same for the worker."""
        most = sys.maxsize if self.max_queue_size is None else self.max_queue_size
        return WorkerLimits(
            max_items=most,
            max_bytes=self.max_queue_bytes,
            max_batch_items=min(self.max_export_batch_size, most),
            delay_s=self.scheduled_delay_ms / 1000,
        )
