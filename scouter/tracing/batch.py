"""How spans are gathered before they are sent."""

from pydantic import BaseModel, ConfigDict, Field

from scouter.transport.worker import WorkerLimits


class BatchConfig(BaseModel):
    """Bounds of the span queue; the names are OpenTelemetry's.

    Args:
        max_queue_size: Spans that may wait; beyond it the newest is dropped and counted.
        scheduled_delay_ms: A span is sent after this time at the latest.
        max_export_batch_size: Spans in one request.
        max_queue_bytes: Estimated size of all that may wait.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_queue_size: int = Field(default=20_000, gt=0)
    scheduled_delay_ms: int = Field(default=1_000, gt=0)
    max_export_batch_size: int = Field(default=512, gt=0)
    max_queue_bytes: int = Field(default=64 * 1024 * 1024, gt=0)

    def limits(self) -> WorkerLimits:
        """The same for the worker."""
        return WorkerLimits(
            max_items=self.max_queue_size,
            max_bytes=self.max_queue_bytes,
            max_batch_items=min(self.max_export_batch_size, self.max_queue_size),
            delay_s=self.scheduled_delay_ms / 1000,
        )
