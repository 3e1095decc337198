"""Spans and records over OTLP/gRPC; needs the extra `otlp`.

Source: OTLP specification 1.x, section "OTLP/gRPC": the codes that may be tried again, and
RESOURCE_EXHAUSTED only where the server says after which time.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from scouter.errors import ConfigError, DataError, ScouterError, TransientError
from scouter.transport.drops import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text
from scouter.transport.guard import GUARD
from scouter.transport.otlp import OtlpSpans, encode_logs
from scouter.transport.port import RecordItem, TooLargeError

if TYPE_CHECKING:
    from scouter.transport.config import GrpcConfig


try:
    import grpc
    from google.rpc.error_details_pb2 import RetryInfo
    from google.rpc.status_pb2 import Status
except ImportError as missing:
    raise ConfigError("GrpcConfig needs a client: pip install 'scouter-agents[otlp]'") from missing


_TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_DETAILS: Final = "grpc-status-details-bin"
_RETRYABLE: Final = frozenset(
    {
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.OUT_OF_RANGE,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)
_SIZED: Final = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE})
_TOO_LARGE: Final = re.compile(r"larger than max|exceeds (the )?max|too large|size limit", re.I)
_SETTINGS: Final = frozenset(
    {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED,
     grpc.StatusCode.UNIMPLEMENTED}
)  # fmt: skip
_OPTIONS: Final = (
    ("grpc.primary_user_agent", "scouter-sdk"),
    # One channel for each transport: a channel shared with other code would share its state.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.initial_reconnect_backoff_ms", 500),
)


class OtlpGrpcTransport(OtlpSpans):
    """A channel to one OTLP endpoint.

    Args:
        config: Address, metadata, timeout.

    Raises:
        ConfigError: The CA file cannot be read.
    """

    def __init__(self, config: "GrpcConfig") -> None:
        self._timeout_s = config.timeout_s
        self._where = config.server_uri
        self._metadata = [
            (name.lower(), value.get_secret_value()) for name, value in config.headers.items()
        ]
        if config.auth_token is not None:
            token = config.auth_token.get_secret_value()
            self._metadata.append(("authorization", f"Bearer {token}"))
        self._channel = _channel(config)
        self._traces: Callable[..., ExportTraceServiceResponse] = self._channel.unary_unary(
            _TRACES, response_deserializer=ExportTraceServiceResponse.FromString
        )
        self._logs: Callable[..., ExportLogsServiceResponse] = self._channel.unary_unary(
            _LOGS, response_deserializer=ExportLogsServiceResponse.FromString
        )

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one call; see `Transport`."""
        data, unencodable = encode_logs(items)
        partial = self._call(self._logs, data, dropped).partial_success
        refused = GUARD.rejected("records", partial.rejected_log_records, partial.error_message)
        return min(len(items), unencodable + refused)

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one call; see `Transport`."""
        partial = self._call(self._traces, data, dropped).partial_success
        return min(count, GUARD.rejected("spans", partial.rejected_spans, partial.error_message))

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _call(self, method: Callable[..., Any], data: bytes, dropped: Dropped) -> Any:  # noqa: ANN401 - untyped client
        drops = [(DROPPED_HEADER, dropped_text(dropped))] if dropped else []
        try:
            return method(
                data,
                timeout=self._timeout_s,
                metadata=[*self._metadata, *drops],
                compression=grpc.Compression.Gzip,
            )
        except grpc.RpcError as error:
            raise _sorted_error(self._where, error) from error


def _channel(config: "GrpcConfig") -> Any:  # noqa: ANN401 - untyped client
    scheme, _, address = config.server_uri.rstrip("/").partition("://")
    if scheme == "http":
        return grpc.insecure_channel(address, options=_OPTIONS)
    try:
        roots = Path(config.ssl_cafile).read_bytes() if config.ssl_cafile else None
    except OSError as error:
        raise ConfigError(f"ssl_cafile {config.ssl_cafile}: {error.strerror}") from error
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options=_OPTIONS)


def _sorted_error(where: str, error: Any) -> ScouterError:  # noqa: ANN401 - untyped client
    """The call's error as ours: try again, fix the settings, or give this batch up."""
    code = error.code()
    said = f"{where}: {code.name}: {error.details()}"
    retry_after_s = retry_info_s(error.trailing_metadata() or ())
    if is_too_large(error, retry_after_s):
        return TooLargeError(said)
    if code in _RETRYABLE or (
        code is grpc.StatusCode.RESOURCE_EXHAUSTED and retry_after_s is not None
    ):
        return TransientError(said, retry_after_s)
    return ConfigError(said) if code in _SETTINGS else DataError(said)


def is_too_large(error: Any, retry_after_s: float | None) -> bool:  # noqa: ANN401 - untyped client
    """Say whether a server refused a message by its size.

    Servers in C++ and Go, in Java and .NET, and in Rust say so by a text, as no code has this
    meaning alone. The same message would be refused for ever, with all that wait behind it.

    Args:
        error: Error of the call.
        retry_after_s: Result of `retry_info_s`. A server that names a time to come back means
            another bound.
    """
    found = error.code() in _SIZED and _TOO_LARGE.search(str(error.details() or ""))
    return retry_after_s is None and bool(found)


def retry_info_s(metadata: Sequence[tuple[str, str | bytes]]) -> float | None:
    """Read the `google.rpc.RetryInfo` of an error.

    Args:
        metadata: Trailing metadata of the answer.

    Returns:
        Seconds that the server wants to wait, not negative; None if it does not say.
    """
    for name, value in metadata:
        if name != _DETAILS or not isinstance(value, bytes):
            continue
        info = RetryInfo()
        try:
            if any(detail.Unpack(info) for detail in Status.FromString(value).details):
                return max(0.0, info.retry_delay.seconds + info.retry_delay.nanos / 1e9)
        except DecodeError:
            continue  # the code alone says whether to try again
    return None
