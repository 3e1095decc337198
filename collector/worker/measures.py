"""Prometheus series about the pipeline."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from collector.histogram import BatchHistogram

_LATENCY_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class WorkerMeasures:
    """Series of one pipeline; observers of evaluations report how long records waited.

    Args:
        registry: Shows the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.latency = BatchHistogram(
            "scouter_evaluation_latency_seconds",
            "Time between a record being ready and its evaluation being durable.",
            _LATENCY_BUCKETS,
            registry=registry,
        )
        self.reopened = Counter(
            "scouter_records_reopened",
            "Records judged again, since this process started, as spans came after the evaluation.",
            registry=registry,
        )
        self.reopened_waiting = Gauge(
            "scouter_records_reopened_waiting",
            "Records with an evaluation that wait to be judged again.",
            registry=registry,
        )
        self.sessions_reopened = Counter(
            "scouter_sessions_reopened",
            "Sessions judged again, since this process started, as records or spans came later.",
            registry=registry,
        )
        self.sessions_waiting = Gauge(
            "scouter_sessions_waiting",
            "Sessions with records or spans that no evaluation has seen.",
            registry=registry,
        )
        self.watched_waiting = Gauge(
            "scouter_watched_traces_waiting",
            "Traces in memory of which a record is to be derived once they are complete.",
            registry=registry,
        )
        self.stalled = Gauge(
            "scouter_evaluation_stalled_seconds",
            "Seconds since anything was judged, while something is due; 0 while nothing is.",
            registry=registry,
        )
        self.due = Gauge(
            "scouter_evaluation_due",
            "Records, traces and sessions that wait for nothing but their evaluation.",
            registry=registry,
        )
        self.due_oldest = Gauge(
            "scouter_evaluation_due_oldest_seconds",
            "Seconds for which the oldest of them has been due.",
            registry=registry,
        )
        self.due_bytes = Gauge(
            "scouter_evaluation_due_bytes",
            "Bytes of their spans and contexts as stored, as far as they were measured.",
            registry=registry,
        )
        self.is_behind = Gauge(
            "scouter_evaluation_behind",
            "1 from the time on at which something has been due for a minute, until all is judged "
            "within ten seconds.",
            registry=registry,
        )
        self.is_catching_up = Gauge(
            "scouter_evaluation_catching_up",
            "1 while more is judged than becomes due, within a minute.",
            registry=registry,
        )
        self.is_caught_up = Gauge(
            "scouter_join_input_caught_up",
            "1 while the join's time runs, 0 while a source of spans lags or the store is away.",
            registry=registry,
        )
