"""HTTP clients: the authorities that they trust, and bounds of what far sides answer.

The bounds are bytes once unpacked, and time from connect to last byte. A megabyte of gzip may
unpack to a gigabyte, and an answer of one byte a second keeps to every wait for its next part. All
HTTP clients of this project carry the hooks of a `Bound`.
"""

import email.utils
import math
import os
import ssl
import time
import zlib
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import httpx

from scouter.errors import DataError, TransientError

if TYPE_CHECKING:
    import httpx2


def trusted() -> ssl.SSLContext:
    """Give the authorities that all HTTP clients of this process trust.

    Returns:
        Those of the file that `SSL_CERT_FILE` names, else of the folder `SSL_CERT_DIR`, else of
        certifi.

    Cost: 20 ms and a megabyte at the first call, which each client of its own would take.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    del file, folder  # httpx looks for them itself
    return httpx.create_ssl_context()


MOST_BYTES: Final = 4 * 2**20
"""Of an answer that is read, once unpacked; many come at a time."""
_START_BYTES: Final = 2**18
"""Of an answer whose status says it all."""
_GZIP: Final = 31
"""`wbits` of zlib for gzip."""

ASKED_PACKING: Final = {"Accept-Encoding": "gzip"}
"""The one packing that answers may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Bound of each answer that a client of httpx gets.

    Args:
        most_bytes: Of the body, once unpacked.
        most_s: Seconds from the connect to the last byte. Only the look-up of a name is bounded by
            the system alone. Waits are rounded up to whole seconds.
        is_cut: True leaves unread what is beyond: the status said all. False refuses it, as a
            `DataError`, or a timeout of httpx.
        clock: Seconds; nobody sets it.
    """

    most_bytes: int = MOST_BYTES
    most_s: float
    is_cut: bool = False
    clock: Callable[[], float] = time.monotonic

    def hooks(self) -> dict[str, list[Callable[..., Any]]]:
        """The `event_hooks` of a client."""
        return {"request": [self._begin], "response": [self._read]}

    def _begin(self, request: httpx.Request) -> None:
        request.headers.update(ASKED_PACKING)
        waits = request.extensions["timeout"]
        ends_s = self.clock() + self.most_s
        left = {
            each: _Left(ends_s, waits[each], self.clock) for each in ("connect", "read", "write")
        }
        request.extensions["timeout"] = {**waits, **left}

    def _read(self, response: httpx.Response) -> None:
        body = Body(response, self.most_bytes, is_cut=self.is_cut)
        stream = cast("httpx.SyncByteStream", response.stream)
        try:
            for part in stream:
                if body.add(part):
                    break
        except httpx.TimeoutException:
            if not body.is_cut:
                raise
        finally:
            stream.close()
        response.stream = httpx.ByteStream(bytes(body.content))


class _Left:
    """Timeout of one step of a request: whatever is left for the request as a whole.

    httpcore gives it as it is to `socket.settimeout` before each connect, handshake, read and
    write. That takes a float, or asks for an integer and so for the seconds that are left by then.
    """

    def __init__(self, ends_s: float, wait_s: float | None, clock: Callable[[], float]) -> None:
        self._ends_s, self._clock = ends_s, clock
        self._wait_s = math.inf if wait_s is None else wait_s

    def __index__(self) -> int:
        left_s = self._ends_s - self._clock()
        if left_s <= 0:
            raise TimeoutError("the answer took too long as a whole")
        return math.ceil(min(left_s, self._wait_s))


class Body:
    """Content of one answer as it comes: unpacked here, as clients unpack without a bound.

    Args:
        response: The answer; its `Content-Encoding` is taken out.
        most_bytes: See `Bound`.
        is_cut: See `Bound`; an answer that is no success is cut in any case.
    """

    def __init__(
        self, response: "httpx.Response | httpx2.Response", most_bytes: int, *, is_cut: bool = False
    ) -> None:
        self._host, self._most = response.url.host, most_bytes
        self.is_cut = is_cut or not response.is_success
        headers = cast("MutableMapping[str, str]", response.headers)
        self._packing = headers.pop("Content-Encoding", "identity").strip().lower()
        self._unpack = zlib.decompressobj(_GZIP) if self._packing in ("gzip", "x-gzip") else None
        self.content = bytearray()

    def add(self, part: bytes) -> bool:
        """Take a part as it came.

        Returns:
            True if no more is to be read.

        Raises:
            DataError: The content is too large, or packed in a way that nobody requested.
            TransientError: It cannot be unpacked.
        """
        try:
            self._add(part)
        except (DataError, TransientError):
            if not self.is_cut:
                raise
            del self.content[self._most :]
            return True
        return False

    def _add(self, part: bytes) -> None:
        if self._unpack is None:
            if self._packing not in ("identity", ""):
                raise DataError(
                    f"the answer of {self._host} is packed as {self._packing[:40]!r}; gzip or none "
                    "was requested"
                )
            self._count(part)
        while part and self._unpack is not None and not self._unpack.eof:
            try:
                # One byte more than may come, by which it shows that there is more.
                found = self._unpack.decompress(part, self._most + 1 - len(self.content))
            except zlib.error as error:
                text = f"the answer of {self._host} cannot be unpacked: {error}"
                raise TransientError(text) from error
            part = self._unpack.unconsumed_tail
            self._count(found)

    def _count(self, part: bytes) -> None:
        self.content += part
        if len(self.content) > self._most:
            raise DataError(
                f"the answer of {self._host} is larger than {self._most:,} bytes, the most that "
                "is read"
            )


async def read_bounded(
    response: "httpx.Response | httpx2.Response", most_bytes: int = MOST_BYTES
) -> bytes:
    """Read an answer to an asynchronous client, whose time is bounded by its asker.

    Raises:
        DataError, TransientError: As `Body.add` says.
    """
    body = Body(response, most_bytes)
    stream = cast("httpx.AsyncByteStream", response.stream)
    try:
        async for part in stream:
            if body.add(part):
                break
    finally:
        await stream.aclose()
    return bytes(body.content)


def posting_client(headers: Mapping[str, str], timeout_s: float) -> httpx.Client:
    """Make a client for posts whose answer is a status: of its body no more than a start is read.

    Args:
        headers: Sent with each request.
        timeout_s: Longest time for one request and its answer.
    """
    bound = Bound(most_bytes=_START_BYTES, most_s=timeout_s, is_cut=True)
    return httpx.Client(
        headers=headers, timeout=timeout_s, verify=trusted(), event_hooks=bound.hooks()
    )


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
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, date.timestamp() - (time.time() if now_s is None else now_s))
