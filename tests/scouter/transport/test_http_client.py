"""A far side that answers without an end, or one byte after the other, costs a bounded amount."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from pathlib import Path

import httpx
import pytest

from scouter.errors import DataError, ScouterError, TransientError
from scouter.transport.http_client import Bound, posting_client, trusted
from tests.support.certificates import make_certificates
from tests.support.far_side import ENDLESS, FarSide, far_side, head

MOST = 2**20
ON_THE_WAY = 16 * 2**20
"""Bytes that buffers of sockets may hold besides."""
TEXT = b'{"said": "yes"}'


def get(far: FarSide, **bound: object) -> httpx.Response:
    """The answer to a client with a bound."""
    given = Bound(**{"most_bytes": MOST, "most_s": 60.0, **bound})  # pyright: ignore[reportArgumentType]
    with httpx.Client(event_hooks=given.hooks(), timeout=120.0) as client:
        return client.post(far.url, content=b"x")


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
def test_an_answer_without_an_end_is_refused(parts: Callable[[], Iterable[bytes]]) -> None:
    """Whatever it is packed in, and whether its length is stated: the client hangs up."""
    with far_side(parts) as far:
        with pytest.raises(DataError, match=r"127\.0\.0\.1 is larger than 1,048,576 bytes"):
            get(far)
        assert far.wait_until_hung_up()
        assert far.sent < MOST + ON_THE_WAY


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
def test_an_answer_whose_status_is_all_is_cut(parts: Callable[[], Iterable[bytes]]) -> None:
    """A post that was taken was taken: of the rest, a start is read."""
    with far_side(parts) as far, posting_client({}, 60.0) as client:
        answer = client.post(far.url, content=b"x")
        assert far.wait_until_hung_up()

    assert (answer.status_code, len(answer.content)) == (200, 2**18)


@pytest.mark.parametrize("parts", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_page_of_an_error_leaves_its_status(
    parts: Callable[[], Iterable[bytes]],
) -> None:
    """A refusal stays one that may pass, however long its page is."""

    def busy() -> Iterable[bytes]:
        found = iter(parts())
        yield next(found).replace(b" 200 ", b" 503 ")
        yield from found

    with far_side(busy) as far:
        answer = get(far)

    assert (answer.status_code, len(answer.content)) == (503, MOST)


def test_what_fits_is_read_as_it_is() -> None:
    """To the last byte of the bound, plain and packed."""
    whole = b"x" * MOST
    for body, packing in [
        (whole, "identity"),
        (gzip.compress(whole), "gzip"),
        (gzip.compress(TEXT), "X-GZIP"),
        (b"", "identity"),
        (TEXT, ""),
    ]:
        lines = f"Content-Encoding: {packing}", f"Content-Length: {len(body)}"
        found = head(*lines), body
        with far_side(partial(tuple[bytes, ...], found)) as far:
            answer = get(far)
        wanted = gzip.decompress(body) if "GZIP" in packing.upper() else body
        assert answer.content == wanted


@pytest.mark.parametrize(
    ("packing", "error", "words"),
    [
        ("gzip", TransientError, "cannot be unpacked"),
        ("gzip, gzip", DataError, "packed as 'gzip, gzip'"),
        ("br", DataError, "packed as 'br'"),
        ("zstd", DataError, "packed as 'zstd'"),
        ("deflate", DataError, "packed as 'deflate'"),
    ],
)
def test_packing_that_nobody_requested(packing: str, error: type[ScouterError], words: str) -> None:
    """Each could hide a gigabyte; broken gzip may be whole the next time."""
    parts = head(f"Content-Encoding: {packing}", f"Content-Length: {len(TEXT)}"), TEXT
    with far_side(lambda: parts) as far:
        with pytest.raises(error, match=words):
            get(far)
        assert get(far, is_cut=True).content == b""


class HandClock:
    """A clock that a far side puts forward by a second with each byte that the client waits for."""

    def __init__(self) -> None:
        self._now_s = 0.0
        self._was_read = threading.Event()

    def __call__(self) -> float:
        self._was_read.set()
        return self._now_s

    def slowly(self, start: bytes, drops: Iterable[bytes]) -> Iterable[bytes]:
        """The start at once, and what comes behind it in drops."""
        if start:
            yield start
        for each in drops:
            self._was_read.clear()
            yield each
            self._was_read.wait()
            self._now_s += 1


SLOW: dict[str, tuple[bytes, bytes]] = {
    "status-line": (b"HTTP/1.1 200 ", b"O"),
    "headers": (b"HTTP/1.1 200 OK\r\nX-Long: ", b"y"),
    "interim-answers": (b"", b"HTTP/1.1 102 Processing\r\n\r\n"),
    "body": (head(f"Content-Length: {2**40}"), b"x"),
    "chunks": (head("Transfer-Encoding: chunked"), b"1\r\nx\r\n"),
    "trailers": (head("Transfer-Encoding: chunked") + b"0\r\nX: ", b"y"),
    "gzip": (head("Content-Encoding: gzip") + gzip.compress(b"")[:10], b"\x00\x00\x00\xff\xff"),
}


@pytest.mark.parametrize("kind", SLOW)
def test_an_answer_that_drips_ends(kind: str) -> None:
    """Each byte keeps to the wait for the next one; the time as a whole is bounded."""
    clock, (start, drop) = HandClock(), SLOW[kind]
    with (
        far_side(lambda: clock.slowly(start, repeat(drop))) as far,
        pytest.raises(httpx.TimeoutException, match="too long as a whole"),
    ):
        get(far, most_s=5.0, clock=clock)


@pytest.mark.parametrize("kind", ["body", "chunks", "trailers", "gzip"])
def test_a_body_that_drips_is_cut_where_the_status_is_all(kind: str) -> None:
    """The message was taken: it is not sent again."""
    clock, (start, drop) = HandClock(), SLOW[kind]
    with far_side(lambda: clock.slowly(start, repeat(drop))) as far:
        answer = get(far, most_s=5.0, clock=clock, is_cut=True)

    assert answer.status_code == 200


def test_a_flood_of_headers_is_refused() -> None:
    """The client of HTTP itself takes 100 kB of them."""

    def flood() -> Iterable[bytes]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            yield b"X-More: yes\r\n" * 1_000

    with far_side(flood) as far:
        with pytest.raises(httpx.RemoteProtocolError):
            get(far)
        assert far.wait_until_hung_up()
        assert far.sent < ON_THE_WAY


def test_silence_ends() -> None:
    """Nothing comes after the connect: neither to a handshake nor to a request."""
    for scheme in ("http", "https"):
        with far_side(lambda: []) as far:
            bound = Bound(most_s=1.0)
            with (
                httpx.Client(event_hooks=bound.hooks(), timeout=120.0) as client,
                pytest.raises(httpx.TimeoutException),
            ):
                client.get(f"{scheme}://127.0.0.1:{far.port}/")


def subjects(context: ssl.SSLContext) -> list[object]:
    return [each["subject"] for each in context.get_ca_certs()]


def test_the_authorities_are_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read once for each file; without a name they are the public ones."""
    made = make_certificates(tmp_path)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    public = trusted()
    assert len(subjects(public)) > 50
    assert trusted() is public
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    assert subjects(trusted()) == [((("commonName", "ca"),),)]
    monkeypatch.setenv("SSL_CERT_FILE", str(made.other_ca))
    assert subjects(trusted()) == [((("commonName", "other"),),)]
    assert public.verify_mode is ssl.CERT_REQUIRED
    assert public.check_hostname
