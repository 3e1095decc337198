"""A scrape as the format's own parser reads it, which refuses what has no end or no type."""

from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser

ACCEPT = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"
"""As Prometheus 3 asks."""


def families_in(text: str) -> list[Metric]:
    """The families of an answer in OpenMetrics."""
    untyped: Any = parser
    return list(untyped.text_string_to_metric_families(text))
