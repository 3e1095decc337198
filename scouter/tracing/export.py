"""The ways of finished spans: to the transport, and to other exporters beside it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter
from opentelemetry.util.types import AnyValue

from scouter.model.attributes import PROCESS_SPAN_COUNT
from scouter.tracing.limits import for_others
from scouter.tracing.stamp import ResourceStamper, StampedSpan
from scouter.transport.drops import Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import text_bytes
from scouter.transport.process import arm_exit, close_at_exit, own_thread
from scouter.transport.span_copy import texts_of
from scouter.transport.worker import BatchWorker, Send

if TYPE_CHECKING:
    from scouter.transport.config import BatchConfig, TransportConfig


_Item = tuple[ReadableSpan, Mapping[str, AnyValue], int | None]

_SPAN_BYTES: Final = 2800
"""Fixed fields and objects of one waiting span, as `tracemalloc` sees them; those below as well."""
_NUMBERS: Final = frozenset({int, float, bool})
_EVENT_BYTES: Final = 350
_LINK_BYTES: Final = 500
_ATTRIBUTE_BYTES: Final = 110
"""Key and object of one attribute."""
_ITEM_BYTES: Final = 50
"""Object of one item of a list."""


class SpanExport(BatchWorker[_Item]):
    """A worker that stamps spans and sends them.

    An item is a finished span, attributes for our copy of it, and of a local root the number of
    spans that this process started.

    Args:
        config: Transport of the spans.
        batch_config: Bounds.
        stamper: Adds the process id to resources.
    """

    def __init__(
        self,
        config: "TransportConfig",
        batch_config: "BatchConfig",
        stamper: ResourceStamper | None = None,
    ) -> None:
        config.prepare()
        self.config, self.batch_config = config, batch_config
        self._stamper = stamper or ResourceStamper()
        super().__init__(
            "spans", self._open, batch_config.limits(), size_of=lambda item: estimate_bytes(item[0])
        )

    def _open(self) -> tuple[Send[_Item], Callable[[], None]]:
        transport = self.config.open()
        stamp = self._stamper

        def send(items: Sequence[_Item], dropped: Dropped) -> int:
            return transport.send_spans(
                [
                    StampedSpan(
                        span,
                        stamp(span.resource),
                        extra if count is None else {**extra, PROCESS_SPAN_COUNT: count},
                    )
                    for span, extra, count in items
                ],
                dropped,
            )

        return send, transport.close


def estimate_bytes(span: ReadableSpan) -> int:
    """Estimate the room that a span takes: its texts and a fixed part.

    Cost: one look at each attribute; about half a microsecond for ten of them.
    """
    name, values, has_more = texts_of(span)
    total = _SPAN_BYTES + _ATTRIBUTE_BYTES * len(values)
    total += len(name) if name.isascii() else text_bytes(name)
    for value in values:
        if type(value) is str:
            total += len(value) if value.isascii() else text_bytes(value)
        elif type(value) not in _NUMBERS:
            total += _rare_size(value)
    return total + _rest(span) if has_more else total


def _rest(span: ReadableSpan) -> int:
    total = text_bytes(span.status.description or "")
    for event in span.events:
        total += _EVENT_BYTES + text_bytes(event.name) + _rare_size(event.attributes)
    for link in span.links:
        total += _LINK_BYTES + _rare_size(link.attributes)
    return total


def _rare_size(value: object) -> int:
    items: Any = value
    if type(value) is tuple:
        size = _ITEM_BYTES * len(items)
        for item in items:
            size += _rare_size(item)
        return size
    if isinstance(value, str):
        return text_bytes(value)
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, Mapping):
        return sum(
            _ATTRIBUTE_BYTES + text_bytes(str(key)) + _rare_size(item)
            for key, item in cast(Mapping[object, object], value).items()
        )
    return 0


class ExtraExporter:
    """An exporter with the processor that feeds it; both are shut down at the end of the process.

    OpenTelemetry's processors wait as long as an exporter takes, whatever time they are given: so
    that is done on threads, which are left behind when the time is over.

    Args:
        exporter: Batched, unless its attribute `batch_export` is false.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._name: Final = type(exporter).__name__
        # An exporter without an opinion is one of OpenTelemetry's: batched, as they advise.
        is_batched = getattr(exporter, "batch_export", True)
        kind = BatchSpanProcessor if is_batched else SimpleSpanProcessor
        self.processor: Final[SpanProcessor] = for_others(kind(exporter))
        close_at_exit(self)
        arm_exit()

    def flush(self, timeout_s: float) -> bool:
        """Deliver what waits; False if the exporter says so or the time ran out."""
        return self._in_time(self.processor.force_flush, timeout_s)

    def close(self, timeout_s: float) -> bool:
        """Deliver what waits and shut the exporter down; False if the time ran out."""
        return self._in_time(self.processor.shutdown, timeout_s)

    def _in_time(self, work: Callable[[], object], timeout_s: float) -> bool:
        failed = threading.Event()

        def run() -> None:
            try:
                if work() is False:
                    failed.set()
            except Exception as error:  # noqa: BLE001 - an exporter raises what it likes
                failed.set()
                GUARD.refuse(self._name, "not flushed", error)

        thread = own_thread(run, f"scouter-{self._name}")
        try:
            thread.start()
        except RuntimeError:  # no thread to be had, as at the end of a Python 3.12.0
            run()
        else:
            thread.join(timeout_s)
        return not thread.is_alive() and not failed.is_set()
