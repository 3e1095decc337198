"""The far side that results are sent to.

Source: OTLP specification 1.x, "OTLP/HTTP". It lets a client give up after most errors; as a
verdict is stored here anyway, it is sent again after every error that is not about its content.
"""

import gzip
from collections.abc import Mapping
from typing import Final

import httpx
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from pydantic import SecretStr

from scouter.errors import DataError, TransientError
from scouter.transport.http import PROTOBUF, json_partial, retry_after_s

_CONTENT: Final = frozenset({400, 413, 422})
"""What is wrong is in the request: the same again would be refused again."""
_LOGS: Final = "/v1/logs"


class Endpoint:
    """A connection pool to one OTLP/HTTP endpoint.

    Args:
        address: Its base address; `/v1/logs` is added where it does not end so.
        headers: Sent with each request.
        timeout_s: Longest wait for one answer.
    """

    def __init__(
        self, address: str, headers: Mapping[str, SecretStr], timeout_s: float = 10.0
    ) -> None:
        base = address.rstrip("/").removesuffix(_LOGS)
        self.url: Final = base + _LOGS
        sent = {name: value.get_secret_value() for name, value in headers.items()}
        self._client = httpx.Client(
            headers={"User-Agent": "scouter-collector", **sent}, timeout=timeout_s
        )

    def send(self, request: ExportLogsServiceRequest) -> int:
        """Deliver log records.

        Returns:
            How many of them the far side refused for good.

        Raises:
            TransientError: Try the same again later.
            DataError: The far side will never take this request.
        """
        try:
            answer = self._client.post(
                self.url,
                content=gzip.compress(request.SerializeToString(), compresslevel=1, mtime=0),
                headers={"Content-Type": PROTOBUF, "Content-Encoding": "gzip"},
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise TransientError(f"POST {self.url}: {type(error).__name__}: {error}") from error
        if answer.is_success:
            return _refused(answer)
        said = f"POST {self.url}: status {answer.status_code}: {answer.text[:200]!r}"
        if answer.status_code in _CONTENT:
            raise DataError(said)
        raise TransientError(said, retry_after_s(answer.headers.get("Retry-After")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _refused(answer: httpx.Response) -> int:
    if not answer.content or "json" in answer.headers.get("Content-Type", ""):
        return json_partial(answer).get("rejectedLogRecords", 0)
    try:
        response = ExportLogsServiceResponse.FromString(answer.content)
    except DecodeError:
        return 0  # taken all the same: the status said so
    return max(0, response.partial_success.rejected_log_records)
