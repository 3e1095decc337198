"""Results to an OTLP/gRPC endpoint.

Source: OTLP specification 1.x, "OTLP/gRPC"; for names and values of metadata the gRPC protocol,
"Requests" (Custom-Metadata).
"""

import os
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from pydantic import SecretStr

from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.grpc import is_too_large, retry_info_s

_EXPORT: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
_NAME: Final = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)")
_NOT_HTTP2: Final = re.compile(r"HTTP/2|http1", re.IGNORECASE)
_OPTIONS: Final = (
    ("grpc.primary_user_agent", "scouter-collector"),
    # A channel shared with other code would share its state, and would not be opened anew.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5_000),
)


class GrpcEndpoint:
    """A channel to one OTLP/gRPC endpoint; see `Endpoint`.

    Args:
        address: `grpc://HOST:PORT`, or `grpcs://HOST:PORT` for TLS.
        headers: Sent with each call as metadata, in lower case.
        timeout_s: Longest wait for one answer.

    Raises:
        ConfigError: A header cannot be metadata.
    """

    def __init__(
        self, address: str, headers: Mapping[str, SecretStr], timeout_s: float = 10.0
    ) -> None:
        self._scheme, _, self._where = address.rstrip("/").partition("://")
        self._timeout_s = timeout_s
        self._metadata = [
            (_metadata_name(name), value.get_secret_value()) for name, value in headers.items()
        ]
        self._credentials = (
            grpc.ssl_channel_credentials(system_authorities()) if self._scheme == "grpcs" else None
        )
        self._open()

    def send(self, request: ExportLogsServiceRequest) -> int:
        """Deliver log records in one call; see `Endpoint`."""
        try:
            answer = self._export(
                request.SerializeToString(),
                timeout=self._timeout_s,
                metadata=self._metadata,
                compression=grpc.Compression.Gzip,
            )
        except grpc.RpcError as error:
            self._fail(error)
        try:
            response = ExportLogsServiceResponse.FromString(answer)
        except DecodeError:
            return 0  # taken all the same: the status said so
        return max(0, response.partial_success.rejected_log_records)

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def _open(self) -> None:
        target = f"dns:///{self._where}"  # a host may have the name of a scheme, such as `unix`
        self._channel: Any = (
            grpc.insecure_channel(target, options=_OPTIONS)
            if self._credentials is None
            else grpc.secure_channel(target, self._credentials, options=_OPTIONS)
        )
        self._export: Callable[..., bytes] = self._channel.unary_unary(_EXPORT)

    def _fail(self, error: Any) -> NoReturn:  # noqa: ANN401 - untyped client
        """Raise a call's error as one of ours."""
        code, details = error.code(), str(error.details() or "")[:300]
        said = f"Export to {self._scheme}://{self._where}: {code.name}: {details!r}"
        retry_after_s = retry_info_s(error.trailing_metadata() or ())
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            # A connection may be dead without a word, and gRPC would hold on to it for minutes.
            self._channel.close()
            self._open()
        if code is grpc.StatusCode.INVALID_ARGUMENT or is_too_large(error, retry_after_s):
            raise DataError(said) from error
        if code is grpc.StatusCode.UNAVAILABLE and _NOT_HTTP2.search(details):
            scheme = "https" if self._scheme == "grpcs" else "http"
            said += f"; if it speaks OTLP/HTTP, results_otlp is {scheme}://{self._where}"
        raise TransientError(said, retry_after_s) from error


def system_authorities() -> bytes | None:
    """Certificates of the authorities that this system trusts, as PEM.

    gRPC for Python has a list of its own, which lacks those that a company adds to its machines.
    The variables SSL_CERT_FILE and SSL_CERT_DIR name others, as for OpenSSL.

    Returns:
        None where gRPC is to take its own list: its variable GRPC_DEFAULT_SSL_ROOTS_FILE_PATH is
        set, or the system has none.

    Raises:
        ConfigError: A file of theirs cannot be read.
    """
    if os.environ.get("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        return None
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    if not files and paths.capath:
        # OpenSSL looks into a folder by the digest of a name: `9d04f354.0`.
        files = sorted(Path(paths.capath).glob("????????.[0-9]"))
    try:
        return b"\n".join(file.read_bytes() for file in files if file.exists()) or None
    except OSError as error:
        raise ConfigError(
            f"the authorities in {error.filename} cannot be read: {error.strerror}; SSL_CERT_FILE "
            "can name another file"
        ) from error


def _metadata_name(header: str) -> str:
    name = header.lower()
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"results_otlp_headers: {header!r} cannot be sent by gRPC: letters, digits, -, _ and . "
            "only; grpc- at the beginning and -bin at the end mean other things there"
        )
    return name
