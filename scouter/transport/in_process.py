"""Records and spans handed to code in the same process."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import JsonValue

from scouter.errors import DataError, ScouterError
from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.drops import NONE_DROPPED, Count, Dropped
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import NOTHING_WRITTEN, RecordItem, encode_record

if TYPE_CHECKING:
    from scouter.transport.config import InProcessConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Records and spans that a sink is given at once, as a collector would have received them."""

    records: Sequence[dict[str, JsonValue]] = ()
    """Objects of `POST /v1/records`."""
    spans: Sequence[Span] = ()
    drops: Dropped = field(default_factory=dict[tuple[str, str], Count])
    """Drops that are reported with this batch, by sender and reason."""

    @property
    def dropped(self) -> Mapping[str, int]:
        """Number of items that the process dropped since the last batch, by reason."""
        found: Counter[str] = Counter()
        for (_, reason), count in self.drops.items():
            found[reason] += count.total - count.reported
        return found


Sink = Callable[[Batch], int | None]
"""Takes a batch for good and returns how many of its items it refused, None for none of them.

It is called on Scouter's threads, one for records and one for spans, and may raise TransientError
to be sent again; the items of a batch after any other error are dropped and counted.
"""


class InProcessTransport(OtlpSpans):
    """Calls a sink; what it gets shares nothing with the agent's own objects.

    Args:
        config: The sink.
    """

    def __init__(self, config: "InProcessConfig") -> None:
        self._sink = config.sink

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Hand over records; see `Transport`."""
        texts = [text for item in items if (text := encode_record(item)) is not None]
        unencodable = len(items) - len(texts)
        if not texts:
            raise DataError(NOTHING_WRITTEN)
        return unencodable + self._hand(
            Batch(records=[json.loads(text) for text in texts], drops=dropped), len(texts)
        )

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Hand over spans; see `Transport`."""
        decoded = decode_request(ExportTraceServiceRequest.FromString(data))
        lost = count - len(decoded.spans)
        return lost + self._hand(Batch(spans=decoded.spans, drops=dropped), len(decoded.spans))

    def close(self) -> None:
        """Nothing is open."""

    def _hand(self, batch: Batch, count: int) -> int:
        try:
            return min(count, self._sink(batch) or 0)
        except ScouterError:
            raise
        except Exception as error:
            raise DataError(
                f"the in-process sink raised {type(error).__name__}: {error}"
            ) from error
