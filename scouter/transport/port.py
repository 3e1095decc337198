"""The port between the SDK and whatever carries its records and spans away."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from scouter.transport.item import RecordItem

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class Transport(Protocol):
    """One open way to the far side, used by one thread at a time.

    A send returns when the far side has taken the whole batch for good; sending the same batch
    again after an error is harmless, as the collector knows records by uid and spans by id.

    Raises (both sends):
        TransientError: Try the same batch again later.
        DataError: The far side will never take this batch.
        ConfigError: The transport itself can never work as configured.
    """

    def send_records(self, items: Sequence[RecordItem]) -> int:
        """Deliver records; returns how many of them the far side refused for good."""
        ...

    def send_spans(self, spans: Sequence["ReadableSpan"]) -> int:
        """Deliver finished spans; returns how many of them the far side refused for good."""
        ...

    def close(self) -> None:
        """Give up connections; nothing may be sent afterwards."""
        ...
