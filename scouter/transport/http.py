"""Records as JSON and spans as OTLP protobuf over HTTP.

Source: OTLP specification 1.x, section "OTLP/HTTP": 429, 502, 503 and 504 may be tried again,
`Retry-After` is honoured, every other 4xx and 5xx is final; a 200 may refuse part of a batch.
"""

import email.utils
import gzip
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.encode import encode_records
from scouter.transport.item import RecordItem
from scouter.transport.otlp_spans import OtlpSpans
from scouter.transport.port import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig

RETRYABLE: Final = frozenset({429, 502, 503, 504})
PROTOBUF: Final = "application/x-protobuf"
_GZIP_FROM_BYTES: Final = 1024


def load_client() -> None:
    """Have the client import what it imports at the first use, such as its connection pool."""
    httpx.Client(trust_env=False).close()


class HttpTransport(OtlpSpans):
    """A connection pool to one collector.

    Args:
        config: Address, token, timeout.
        client: For tests: another HTTP client.
    """

    def __init__(self, config: "HttpConfig", client: httpx.Client | None = None) -> None:
        base = config.server_uri.rstrip("/")
        self._records_url = f"{base}/v1/records"
        self._spans_url = f"{base}/v1/traces"
        headers = {"User-Agent": "scouter-sdk"}
        if config.auth_token is not None:
            headers["Authorization"] = f"Bearer {config.auth_token.get_secret_value()}"
        self._client = client or httpx.Client(headers=headers, timeout=config.timeout_s)

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one request; see `Transport`."""
        data, unencodable = encode_records(items)
        if unencodable == len(items):
            return unencodable
        answer = self._post(self._records_url, data, "application/json", dropped)
        return min(len(items), unencodable + _refused_records(answer))

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one request; see `Transport`."""
        answer = self._post(self._spans_url, data, PROTOBUF, dropped)
        return min(count, _refused_spans(answer))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _post(self, url: str, data: bytes, content_type: str, dropped: Dropped) -> httpx.Response:
        headers = {"Content-Type": content_type}
        if dropped:
            headers[DROPPED_HEADER] = dropped_text(dropped)
        if len(data) > _GZIP_FROM_BYTES:
            data = gzip.compress(data, compresslevel=1, mtime=0)
            headers["Content-Encoding"] = "gzip"
        try:
            answer = self._client.post(url, content=data, headers=headers)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise ConfigError(f"POST {url}: {error}; check server_uri") from error
        except httpx.HTTPError as error:
            raise TransientError(f"POST {url}: {type(error).__name__}: {error}") from error
        if answer.is_success:
            return answer
        said = f"POST {url}: status {answer.status_code}: {answer.text[:200]!r}"
        if answer.status_code in RETRYABLE:
            raise TransientError(said, retry_after_s(answer.headers.get("Retry-After")))
        raise DataError(said)


def retry_after_s(value: str | None, now_s: float | None = None) -> float | None:
    """Read a `Retry-After` header.

    Args:
        value: Seconds, or an HTTP date.
        now_s: Seconds since the epoch; now if not given.

    Returns:
        Seconds from now, not negative; None if there is none or it cannot be read.

    Source: RFC 9110, section 10.2.3.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isdigit():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now_s is None else now_s))


def _refused_spans(answer: httpx.Response) -> int:
    if not answer.content or "json" in answer.headers.get("Content-Type", ""):
        return _partial(answer).get("rejectedSpans", 0)
    try:
        response = ExportTraceServiceResponse.FromString(answer.content)
    except DecodeError:
        return 0  # taken all the same: the status said so
    return max(0, response.partial_success.rejected_spans)


def _refused_records(answer: httpx.Response) -> int:
    return _partial(answer).get("rejectedRecords", 0)


def _partial(answer: httpx.Response) -> dict[str, int]:
    """The counts under `partialSuccess`, the way that OTLP/JSON writes them."""
    try:
        body = cast(object, answer.json()) if answer.content else None
    except ValueError:
        return {}
    partial = cast(Mapping[str, object], body).get("partialSuccess") if _is_map(body) else None
    if not _is_map(partial):
        return {}
    counts: dict[str, int] = {}
    for name, count in cast(Mapping[str, object], partial).items():
        if isinstance(count, int | str) and str(count).isdigit():
            counts[name] = int(count)
    return counts


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)
