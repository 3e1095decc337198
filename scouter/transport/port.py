"""The port between the SDK and whatever carries its records and spans away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from scouter.errors import DataError
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.item import RecordItem

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class TooLargeError(DataError):
    """The far side refuses a batch by its size; it may take parts of it."""


class Transport(Protocol):
    """One open way to the far side, used by one thread at a time.

    A send returns when the far side has taken the whole batch for good, and was told of what was
    dropped; sending the same batch again after an error is harmless, as the collector knows records
    by uid and spans by id.

    Raises (all sends):
        TransientError: Try the same batch again later.
        DataError: The far side will never take this batch, or nothing of it can be written.
        ConfigError: The transport itself can never work as configured.
    """

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records, and say what was dropped; returns how many were refused for good."""
        ...

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver finished spans, and say what was dropped; returns how many were refused."""
        ...

    def close(self) -> None:
        """Give up connections; nothing may be sent afterwards."""
        ...


class RemoteTransport(Transport, Protocol):
    """A transport that also takes spans that were written before, such as those on disk."""

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans written as one `ExportTraceServiceRequest`; returns as `send_spans`.

        Args:
            data: The request.
            count: Number of its spans, at least 1.
            dropped: Counts of dropped items.
        """
        ...
