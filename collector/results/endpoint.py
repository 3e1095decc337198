"""The port to the far side that results are sent to, and what opens it by an address."""

from collections.abc import Mapping
from typing import Protocol

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from scouter.errors import ConfigError


class Endpoint(Protocol):
    """Takes log records, one request at a time, from one thread.

    OTLP lets a client give up after most errors. As an evaluation is stored here anyway, it is sent
    again after every error that is not about its content, those of wrong settings included.
    """

    def send(self, request: ExportLogsServiceRequest) -> int:
        """Deliver log records.

        Returns:
            Number of records that the far side refused for good.

        Raises:
            TransientError: Try the same again later; says when, where the far side did.
            DataError: The far side will never take this request.
        """
        ...

    def close(self) -> None:
        """Close the connections."""
        ...


def connect(address: str, headers: Mapping[str, SecretStr], timeout_s: float = 10.0) -> Endpoint:
    """Open an endpoint; the first request connects.

    Args:
        address: `http://` or `https://` for OTLP/HTTP, `grpc://` or `grpcs://` (TLS) for OTLP/gRPC,
            as `parse_otlp_address` lets through.
        headers: Sent with each request.
        timeout_s: Longest wait for one answer.

    Raises:
        ConfigError: A header cannot be sent by gRPC, or gRPC is not installed.
    """
    # Either client takes some megabytes, and few collectors send results anywhere.
    if not address.startswith("grpc"):
        from collector.results.http_endpoint import HttpEndpoint

        return HttpEndpoint(address, headers, timeout_s)
    try:
        from collector.results.grpc_endpoint import GrpcEndpoint
    except ImportError as error:
        raise ConfigError(
            f"results_otlp {address}: OTLP/gRPC needs {error.name}: "
            "pip install 'scouter-agents[collector]', or give an http:// address"
        ) from error
    return GrpcEndpoint(address, headers, timeout_s)
