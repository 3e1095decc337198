"""Prometheus series about the sending of results."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge


class ResultsMeasures:
    """The series of one sender, since this process started.

    Args:
        registry: Shows the metrics.
        lag_s: Gives the age of the oldest evaluation that is not sent, in seconds; 0 if all are.
    """

    def __init__(self, registry: CollectorRegistry, lag_s: Callable[[], float]) -> None:
        self.sent = Counter(
            "scouter_results_sent", "Task results that the OTLP endpoint took.", registry=registry
        )
        self.refused = Counter(
            "scouter_results_refused",
            "Task results that the OTLP endpoint will never take; they were passed over.",
            registry=registry,
        )
        self.failures = Counter(
            "scouter_results_failures",
            "Requests with task results that failed and were made again.",
            registry=registry,
        )
        lag = Gauge(
            "scouter_results_lag_seconds",
            "Age of the oldest evaluation that was not sent on; 0 if all were.",
            registry=registry,
        )
        lag.set_function(lag_s)
