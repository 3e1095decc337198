"""Prometheus series about the receivers. These counts begin anew with the process."""

import logging
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from time import perf_counter
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from collector.problem import ProblemError
from collector.receivers.refusals import kind_of, problem_of
from scouter.errors import DataError, TransientError

_log: Final = logging.getLogger(__name__)
_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_LABELS: Final = ("receiver", "signal")


class Signal(StrEnum):
    """Kind of data in a request."""

    TRACES = "traces"
    LOGS = "logs"
    METRICS = "metrics"
    RECORDS = "records"


class IngestTelemetry:
    """Latency, size and refusals of requests, by receiver and signal.

    Args:
        registry: The metrics that Prometheus reads.
        in_flight: Gives the bytes of requests that are in memory.
    """

    def __init__(self, registry: CollectorRegistry, in_flight: Callable[[], int]) -> None:
        self._duration = Histogram(
            "scouter_ingest_duration_seconds",
            "Time from a request's first byte to its answer, the commit included.",
            _LABELS,
            registry=registry,
            buckets=_BUCKETS,
        )
        self._bytes = Counter(
            "scouter_ingest_bytes", "Bytes of request bodies, decompressed.", _LABELS,
            registry=registry,
        )  # fmt: skip
        self._refused = Counter(
            "scouter_ingest_refused", "Requests that were refused as a whole.",
            (*_LABELS, "reason"), registry=registry,
        )  # fmt: skip
        self._ignored = Counter(
            "scouter_ingest_ignored_log_records",
            "Log records that are no EvalRecords; nothing is stored of them.",
            ("receiver",),
            registry=registry,
        )
        self._ignored_metrics = Counter(
            "scouter_ingest_ignored_metric_exports",
            "Requests of OTLP metrics, which are taken and not looked at; none is stored.",
            ("receiver",),
            registry=registry,
        )
        self._lost = Counter(
            "scouter_ingest_lost_messages",
            "Messages that their broker deleted before they were read.",
            ("receiver", "queue"),
            registry=registry,
        )
        self._has_logged_metrics = False
        gauge = Gauge(
            "scouter_ingest_in_flight_bytes",
            "Bytes of requests that are in memory: being read, or waiting for commit or join.",
            registry=registry,
        )
        gauge.set_function(in_flight)

    @contextmanager
    def request(self, receiver: str, signal: Signal) -> Generator[None]:
        """Measure a request; an error that leaves the block counts as its refusal."""
        began = perf_counter()
        try:
            yield
        except (ProblemError, DataError, TransientError) as error:
            self._refused.labels(
                receiver, signal.value, kind_of(problem_of(error).status).word
            ).inc()
            raise
        finally:
            self._duration.labels(receiver, signal.value).observe(perf_counter() - began)

    def body(self, receiver: str, signal: Signal, size: int) -> None:
        """Count the bytes of a body."""
        self._bytes.labels(receiver, signal.value).inc(size)

    def ignored(self, receiver: str, count: int) -> None:
        """Count log records that nothing is stored of."""
        self._ignored.labels(receiver).inc(count)

    def ignored_metrics(self, receiver: str) -> None:
        """Count a request of metrics, and say once for all of them that nothing is stored."""
        self._ignored_metrics.labels(receiver).inc()
        if not self._has_logged_metrics:
            self._has_logged_metrics = True
            _log.info(
                "OTLP metrics are taken, so that their senders log no errors, and dropped; "
                "a sender with OTEL_METRICS_EXPORTER=none sends none"
            )

    def lost(self, receiver: str, queue: str, number: int) -> None:
        """Count messages of a partition or stream that were gone before they were read."""
        self._lost.labels(receiver, queue).inc(number)
