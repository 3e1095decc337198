"""The transport that goes nowhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.item import RecordItem

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class MockTransport:
    """Counts and drops."""

    def __init__(self) -> None:
        self.records = 0
        self.spans = 0

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Count the records; refuses none."""
        self.records += len(items)
        return 0

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Count the spans; refuses none."""
        self.spans += len(spans)
        return 0

    def close(self) -> None:
        """Nothing is open."""
