"""OTLP as bytes and over gRPC, as a test sends it: also what no encoder would write."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

import grpc
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

_SERVICES: Final = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field, number below 16."""
    length, size = len(content), bytearray()
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    return bytes([number << 3 | 2]) + bytes([*size, length]) + content


def spans_request(*spans: bytes, resource: bytes = b"") -> bytes:
    """A trace export request of spans as bytes."""
    groups = field(2, b"".join(field(2, span) for span in spans))
    return field(1, (field(1, resource) if resource else b"") + groups)


def deep_attribute(depth: int) -> bytes:
    """A span's attribute of nested lists; protobuf stops at 100 levels, a list takes two."""
    value = b"\x18\x01"  # AnyValue.int_value = 1
    for _ in range(depth):
        value = field(5, field(1, value))  # AnyValue.array_value, ArrayValue.values
    return field(9, field(1, b"k") + field(2, value))  # Span.attributes, key, value


def any_value(value: object) -> AnyValue:
    """A Python value as an OTLP `AnyValue`."""
    out = AnyValue()
    match value:
        case None:
            pass
        case bool():
            out.bool_value = value
        case int():
            out.int_value = value
        case float():
            out.double_value = value
        case bytes():
            out.bytes_value = value
        case dict():
            out.kvlist_value.SetInParent()
            for key, item in cast(dict[str, object], value).items():
                out.kvlist_value.values.add(key=key, value=any_value(item))
        case list():
            out.array_value.SetInParent()
            out.array_value.values.extend(map(any_value, cast(list[object], value)))
        case _:
            out.string_value = str(value)
    return out


def logs_request(
    bodies: Sequence[object],
    *,
    event_name: str = "scouter.eval_record",
    attributes: dict[str, object] | None = None,
    resource: dict[str, object] | None = None,
    trace_id: bytes = b"",
    time_ns: int = 1_700_000_000_000_000_000,
) -> ExportLogsServiceRequest:
    """A logs export request with one log record for each body."""
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    for key, value in (resource or {}).items():
        group.resource.attributes.add(key=key, value=any_value(value))
    scope = group.scope_logs.add()
    for body in bodies:
        log = scope.log_records.add(
            event_name=event_name, trace_id=trace_id, observed_time_unix_nano=time_ns
        )
        log.body.CopyFrom(any_value(body))
        for key, value in (attributes or {}).items():
            log.attributes.add(key=key, value=any_value(value))
    return request


class GrpcClient:
    """Sends bytes to an OTLP/gRPC server.

    Args:
        address: `host:port`.
    """

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(
            address, options=[("grpc.max_send_message_length", -1)]
        )

    def send(
        self,
        data: bytes,
        signal: str = "traces",
        *,
        compression: grpc.Compression = grpc.Compression.NoCompression,
        metadata: Sequence[tuple[str, str]] = (),
        timeout_s: float = 30,
    ) -> bytes:
        """The answer's bytes.

        Raises:
            grpc.RpcError: As the server ended the call.
        """
        channel: Any = self._channel
        call = channel.unary_unary(_SERVICES[signal])
        return call(data, compression=compression, metadata=metadata, timeout=timeout_s)

    def stream(
        self,
        messages: Iterator[bytes],
        signal: str = "traces",
        *,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> Any:
        """A call in hand, whose message comes when the iterator gives it."""
        channel: Any = self._channel
        return channel.stream_unary(_SERVICES[signal]).future(
            messages, metadata=metadata, timeout=120
        )

    def refusal(
        self,
        data: bytes,
        signal: str = "traces",
        *,
        compression: grpc.Compression = grpc.Compression.NoCompression,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> "Refusal":
        """How the server refuses these bytes.

        Raises:
            AssertionError: It takes them.
        """
        try:
            self.send(data, signal, compression=compression, metadata=metadata)
        except grpc.RpcError as error:
            return Refusal(error)
        raise AssertionError("the server took it")

    def close(self) -> None:
        """Give up the connection."""
        self._channel.close()


class Refusal:
    """A call's end, as both kinds of clients read it: the Python exporter, and by the standard.

    Args:
        error: The error that the call raised.
    """

    def __init__(self, error: Any) -> None:
        trailing: dict[str, bytes] = dict(error.trailing_metadata() or ())
        self.code: str = error.code().name
        self.message: str = error.details()
        self.status = Status.FromString(trailing.get("grpc-status-details-bin", b""))
        self.retry_s: float | None = None
        self.retry_s_of_status: float | None = None
        if "google.rpc.retryinfo-bin" in trailing:
            info = RetryInfo.FromString(trailing["google.rpc.retryinfo-bin"])
            self.retry_s = info.retry_delay.ToMilliseconds() / 1000
        for detail in self.status.details:
            info = RetryInfo()
            if detail.Unpack(info):
                self.retry_s_of_status = info.retry_delay.ToMilliseconds() / 1000
