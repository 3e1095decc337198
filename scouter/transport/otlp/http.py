"""Spans and records over OTLP/HTTP, as protobuf."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.http.transport import (
    PROTOBUF,
    HttpClient,
    is_json,
    load_client,
    refused_by_json,
    refused_spans,
)
from scouter.transport.item import RecordItem
from scouter.transport.otlp.logs import encode_logs
from scouter.transport.otlp.spans import OtlpSpans

if TYPE_CHECKING:
    from scouter.transport.otlp.config import OtlpConfig


def prepare() -> None:
    """Import everything that a transport needs."""
    load_client()


class OtlpHttpTransport(OtlpSpans):
    """A connection pool to one OTLP endpoint.

    Args:
        config: Address, headers, timeout.
    """

    def __init__(self, config: "OtlpConfig") -> None:
        base = config.endpoint.rstrip("/")
        self._logs_url, self._spans_url = f"{base}/v1/logs", f"{base}/v1/traces"
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._client = HttpClient(config.auth_token, config.timeout_s, headers)

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one request; see `Transport`."""
        data, unencodable = encode_logs(items)
        answer = self._client.post(self._logs_url, data, PROTOBUF, dropped)
        return min(len(items), unencodable + refused_logs(answer))

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one request; see `Transport`."""
        answer = self._client.post(self._spans_url, data, PROTOBUF, dropped)
        return min(count, refused_spans(answer))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def refused_logs(answer: httpx.Response) -> int:
    """Number of log records of a request that the far side refused for good; the log says why."""
    if is_json(answer):
        return refused_by_json(answer, "records", "rejectedLogRecords")
    try:
        partial = ExportLogsServiceResponse.FromString(answer.content).partial_success
    except DecodeError:
        return 0  # taken all the same: the status said so
    return GUARD.rejected("records", partial.rejected_log_records, partial.error_message)
