"""Results to an OTLP/HTTP endpoint.

Source: OTLP specification 1.x, "OTLP/HTTP".
"""

import gzip
from collections.abc import Mapping
from typing import Final

import httpx
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from scouter.errors import DataError, TransientError
from scouter.transport.http import PROTOBUF, refused_of
from scouter.transport.http_client import posting_client, retry_after_s

_CONTENT: Final = frozenset({400, 413, 422})
"""Status codes for a fault in the request itself: the same request would be refused again."""
_LOGS: Final = "/v1/logs"
_GRPC_PORT: Final = 4317


class HttpEndpoint:
    """A connection pool to one OTLP/HTTP endpoint; see `Endpoint`.

    Args:
        address: Its base address; `/v1/logs` is added where it does not end so.
        headers: Sent with each request.
        timeout_s: Longest time for one request and its answer.
    """

    def __init__(
        self, address: str, headers: Mapping[str, SecretStr], timeout_s: float = 10.0
    ) -> None:
        base = address.rstrip("/").removesuffix(_LOGS)
        self.url: Final = base + _LOGS
        sent = {name: value.get_secret_value() for name, value in headers.items()}
        self._client = posting_client({"User-Agent": "scouter-collector", **sent}, timeout_s)

    def send(self, request: ExportLogsServiceRequest) -> int:
        """Deliver log records in one request; see `Endpoint`."""
        try:
            answer = self._client.post(
                self.url,
                content=gzip.compress(request.SerializeToString(), compresslevel=1, mtime=0),
                headers={"Content-Type": PROTOBUF, "Content-Encoding": "gzip"},
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = f"POST {self.url}: {type(error).__name__}: {error}"
            raise TransientError(said + _hint(self.url, error)) from error
        if answer.is_success:
            return refused_of(answer, "records", "rejectedLogRecords")
        said = f"POST {self.url}: status {answer.status_code}: {answer.text[:200]!r}"
        if answer.status_code in _CONTENT:
            raise DataError(said)
        raise TransientError(said, retry_after_s(answer.headers.get("Retry-After")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _hint(url: str, error: Exception) -> str:
    """Advise on the address if the far side may be a gRPC server; empty if nothing points to one.

    A gRPC server breaks off the connection, or answers no HTTP.
    """
    at = httpx.URL(url)
    broken = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
    if not broken and (at.port != _GRPC_PORT or not isinstance(error, httpx.TransportError)):
        return ""
    scheme = "grpcs" if at.scheme == "https" else "grpc"
    where = at.netloc.decode("ascii")
    return f"; if it speaks OTLP/gRPC and not HTTP, results_otlp is {scheme}://{where}"
