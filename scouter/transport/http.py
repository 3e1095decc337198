"""Records and spans over HTTP, to a collector and to any OTLP endpoint.

Source: OTLP specification 1.x, section "OTLP/HTTP": 429, 502, 503 and 504 may be tried again,
`Retry-After` is honoured, every other 4xx and 5xx is final; a 200 may refuse part of a batch.
"""

import contextlib
import gzip
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from pydantic import SecretStr

from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.drops import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text
from scouter.transport.guard import GUARD
from scouter.transport.http_client import posting_client, retry_after_s
from scouter.transport.otlp import OtlpSpans, encode_logs
from scouter.transport.port import RecordItem, TooLargeError, encode_records

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig, OtlpConfig


RETRYABLE: Final = frozenset({429, 502, 503, 504})
_SETTINGS: Final = frozenset({401, 403, 404, 407})
"""Final, too, but no fault of the batch: a spool keeps it until address and token are right."""
_TOO_LARGE: Final = 413
PROTOBUF: Final = "application/x-protobuf"
_GZIP_FROM_BYTES: Final = 1024


class HttpClient:
    """A connection pool that sorts answers into taken, later and never.

    Args:
        auth_token: Sent as a bearer token.
        timeout_s: Longest time for one request and its answer.
        headers: Sent with each request.
    """

    def __init__(
        self,
        auth_token: SecretStr | None,
        timeout_s: float,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        sent = {"User-Agent": "scouter-sdk", **headers}
        if auth_token is not None:
            sent["Authorization"] = f"Bearer {auth_token.get_secret_value()}"
        self._client = posting_client(sent, timeout_s)

    def post(self, url: str, data: bytes, content_type: str, dropped: Dropped) -> httpx.Response:
        """Send one body, compressed where that is worth it.

        Raises:
            TransientError, DataError, ConfigError: As `Transport` says.
        """
        headers = {"Content-Type": content_type}
        if dropped:
            headers[DROPPED_HEADER] = dropped_text(dropped)
        if len(data) > _GZIP_FROM_BYTES:
            data = gzip.compress(data, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        try:
            answer = self._client.post(url, content=data, headers=headers)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ConfigError(f"POST {url}: {error}; check the address") from error
        except httpx.LocalProtocolError as error:
            # Its text, and so its traceback, may quote a header: the token.
            raise TransientError(f"POST {url}: {type(error).__name__}") from None
        except httpx.HTTPError as error:
            is_closed = isinstance(error, httpx.ConnectError)
            advice = "; does a collector listen there?" if is_closed else ""
            raise TransientError(f"POST {url}: {type(error).__name__}: {error}{advice}") from error
        if answer.is_success:
            return answer
        said = f"POST {url}: status {answer.status_code}: {_said(answer)[:200]!r}"
        if answer.status_code in RETRYABLE:
            raise TransientError(said, retry_after_s(answer.headers.get("Retry-After")))
        if answer.status_code in _SETTINGS:
            raise ConfigError(f"{said}; check address and token")
        raise TooLargeError(said) if answer.status_code == _TOO_LARGE else DataError(said)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class HttpTransport(OtlpSpans):
    """A connection pool to one collector.

    Args:
        config: Address, token, timeout.
    """

    def __init__(self, config: "HttpConfig") -> None:
        base = config.server_uri.rstrip("/")
        self._records_url, self._spans_url = f"{base}/v1/records", f"{base}/v1/traces"
        self._client = HttpClient(config.auth_token, config.timeout_s)

    @classmethod
    def prepare(cls) -> None:
        """Have the client import what it imports at the first use, such as its connection pool."""
        httpx.Client(trust_env=False).close()

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one request; see `Transport`."""
        data, unencodable = encode_records(items)
        answer = self._client.post(self._records_url, data, "application/json", dropped)
        refused = refused_of(answer, "records", "rejectedRecords")
        return min(len(items), unencodable + refused)

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one request; see `Transport`."""
        answer = self._client.post(self._spans_url, data, PROTOBUF, dropped)
        return min(count, refused_of(answer, "spans", "rejectedSpans"))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


class OtlpHttpTransport(HttpTransport):
    """A connection pool to one OTLP endpoint.

    Args:
        config: Address, headers, timeout.
    """

    def __init__(self, config: "OtlpConfig") -> None:
        base = config.endpoint.rstrip("/")
        self._records_url, self._spans_url = f"{base}/v1/logs", f"{base}/v1/traces"
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        self._client = HttpClient(config.auth_token, config.timeout_s, headers)

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one request; see `Transport`."""
        data, unencodable = encode_logs(items)
        answer = self._client.post(self._records_url, data, PROTOBUF, dropped)
        refused = refused_of(answer, "records", "rejectedLogRecords")
        return min(len(items), unencodable + refused)


def refused_of(answer: httpx.Response, what: str, field: str) -> int:
    """Number of items that the far side refused for good; the log says why.

    Args:
        answer: With a partial success, as OTLP writes it in JSON or protobuf, or without. In
            protobuf the answers to spans and to log records differ in names only.
        what: `records` or `spans`.
        field: Field of the JSON form with their number.
    """
    if "json" not in answer.headers.get("Content-Type", ""):
        with contextlib.suppress(DecodeError):
            partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
            return GUARD.rejected(what, partial.rejected_spans, partial.error_message)
    try:
        body = cast(object, answer.json()) if answer.content else None
    except ValueError:
        return 0  # taken all the same: the status said so
    partial = cast(Mapping[str, object], body).get("partialSuccess") if _is_map(body) else None
    if not _is_map(partial):
        return 0
    stated = cast(Mapping[str, object], partial)
    count = stated.get(field)
    if not (isinstance(count, int | str) and str(count).isdigit()):
        return 0
    return GUARD.rejected(what, int(count), str(stated.get("errorMessage", "")))


def _said(answer: httpx.Response) -> str:
    """Read the message of an error answer: RFC 9457's `detail`, OTLP's `message`, else the body.

    Source: OTLP specification, section "OTLP/HTTP Response": the body of a failure is a
        `google.rpc.Status`. Its package is no requirement of ours, and its code and message have
        the numbers and types of a partial success's two fields.
    """
    kind = answer.headers.get("Content-Type", "")
    if "json" in kind:
        with contextlib.suppress(ValueError):
            body = cast(object, answer.json())
            if _is_map(body):
                found = cast(Mapping[str, object], body)
                said = found.get("detail") or found.get("message")
                if isinstance(said, str):
                    return said
    if PROTOBUF in kind:
        with contextlib.suppress(DecodeError):
            return ExportTracePartialSuccess.FromString(answer.content).error_message
    return answer.text


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)
