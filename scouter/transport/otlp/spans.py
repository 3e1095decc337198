"""Spans of the SDK as one OTLP request, for every transport that carries such requests."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scouter.errors import DataError
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.encode import NOTHING_WRITTEN
from scouter.transport.otlp.span_bytes import write_request

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


class OtlpSpans(ABC):
    """Base of transports; gives `send_spans` by means of `send_otlp`."""

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one request; see `Transport`."""
        data, unencodable = write_request(spans)
        if unencodable == len(spans):
            raise DataError(NOTHING_WRITTEN)
        return unencodable + self.send_otlp(data, len(spans) - unencodable, dropped)

    @abstractmethod
    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans that are written already; see `Transport`."""
