"""Another exporter of OpenTelemetry that gets the spans of the process, beside Scouter's export."""

import threading
from collections.abc import Callable
from typing import Final

from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter

from scouter.tracing.limits import for_others
from scouter.transport.at_exit import arm_exit, close_at_exit
from scouter.transport.guard import GUARD


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
        self.exporter: Final = exporter
        self.processor: Final[SpanProcessor] = for_others(kind(exporter))
        close_at_exit(self)
        arm_exit()

    def hurry(self) -> None:
        """Begin to deliver what waits; returns at once."""
        self.flush(0.0)

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

        thread = threading.Thread(target=run, name=f"scouter-{self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had, as at the end of a Python 3.12.0
            run()
        else:
            thread.join(timeout_s)
        return not thread.is_alive() and not failed.is_set()
