"""Prometheus series about the delivery of alerts."""

from prometheus_client import CollectorRegistry, Counter


class DeliveryMeasures:
    """The series of all channels, since this process started.

    Args:
        registry: Where they are shown.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.deliveries = Counter(
            "scouter_alert_deliveries",
            "Messages about alerts by channel and outcome (sent or given_up).",
            ("channel", "outcome"),
            registry=registry,
        )
        self.failures = Counter(
            "scouter_alert_delivery_failures",
            "Requests about alerts that failed and are made again.",
            ("channel",),
            registry=registry,
        )
