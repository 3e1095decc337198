"""The collector as a program: its end within a bound, its log for machines, its bounded memory."""

import gzip
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import httpx

from scouter.model.otlp import encode_request
from tests.contracts.store_data import TRACE, span
from tests.support.collector_process import CollectorProcess
from tests.support.otlp import GrpcClient, field
from tests.support.processes import wait_until

StartCollector = Callable[..., CollectorProcess]
PROTOBUF = {"Content-Type": "application/x-protobuf"}


def test_requests_in_hand_are_finished(start_collector: StartCollector) -> None:
    """Stopped, it waits for a request that goes on. Its log is one for machines."""
    collector = start_collector("--drain-s", "10m", "--log-format", "json")
    data = encode_request([span(1)]).SerializeToString()
    sent, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield data[:20]
        sent.set()
        assert go_on.wait(120)
        yield data[20:]

    with ThreadPoolExecutor(2) as pool:
        finished = pool.submit(post_spans, collector.url, slow())
        assert sent.wait(120)
        # Connections are accepted in turn, so that one was once another has its answer.
        assert httpx.get(f"{collector.url}/healthz", timeout=120).is_success
        stopping = pool.submit(collector.process.stop)
        wait_until(lambda: not _listens(collector.url), what="no new requests are taken")
        go_on.set()
        assert finished.result(120) == 200
        assert stopping.result(120) == 0
    lines = (collector.folder / "collector.log").read_text().splitlines()
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all({"time", "level", "logger", "message"} <= set(each) for each in entries)
    assert entries[0]["message"].startswith("listening on http://127.0.0.1:")
    assert (entries[-1]["message"], entries[-1]["level"]) == ("stopped", "INFO")
    assert entries[0]["time"].endswith("Z")
    collector.start()
    assert len(collector.get(f"/api/v1/traces/{TRACE}")["spans"]) == 1


def test_a_request_that_stalls_is_cut_off(start_collector: StartCollector) -> None:
    """The collector ends although the client neither goes on nor goes away."""
    collector = start_collector("--drain-s", "1s")
    sent, over = threading.Event(), threading.Event()

    def stalled() -> Iterator[bytes]:
        yield b"\n"
        sent.set()
        over.wait(120)

    with ThreadPoolExecutor(1) as pool:
        cut = pool.submit(post_spans, collector.url, stalled())
        assert sent.wait(120)
        assert collector.stop() == 0
        over.set()
        assert cut.result(120) in (0, 500, 503)


def post_spans(url: str, body: Iterator[bytes]) -> int:
    """The status of the answer, 0 without one."""
    try:
        return httpx.post(
            f"{url}/v1/traces", content=body, headers=PROTOBUF, timeout=120
        ).status_code
    except httpx.TransportError:
        return 0


def slow_reader(collector: CollectorProcess, path: str) -> socket.socket:
    """A client that has sent 300 requests, and reads no more than the beginning of an answer."""
    host, _, port = collector.address.partition(":")
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.settimeout(120)
    slow.connect((host, int(port)))
    slow.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode() * 300)
    assert slow.recv(12) == b"HTTP/1.1 200"
    return slow


def test_slow_readers_leave_one_line_at_the_end(start_collector: StartCollector) -> None:
    """Kind: a stranger fills the log. So do records of any number of unknown profiles."""
    collector = start_collector("--drain-s", "1s")
    records = [{"uid": f"u{n}", "profile": f"bot-{n}", "context": "x" * 20_000} for n in range(400)]
    for start in range(0, 400, 100):
        body = {"records": records[start : start + 100]}
        httpx.post(f"{collector.url}/v1/records", json=body, timeout=120).raise_for_status()
    with ExitStack() as stack:
        for path in ("/api/v1/export/records", "/records.jsonl", "/static/htmx-4.0.1.min.js"):
            stack.enter_context(slow_reader(collector, path))
        assert collector.stop() == 0
    log = (collector.folder / "collector.log").read_text()
    assert "Traceback" not in log
    assert log.count("running task(s), timeout graceful shutdown exceeded") == 1
    entries = [line for line in log.splitlines() if "a record names the profile 'bot-" in line]
    repeats = [int(n) for line in entries for n in re.findall(r"(\d+) more times? within", line)]
    assert sum(repeats) + len(entries) - len(repeats) == 400
    assert len(entries) < 20  # two in a minute


def test_files_of_the_page_are_answered_from_memory(start_collector: StartCollector) -> None:
    """Kind: strangers take the descriptors of the store. Whoever reads nothing holds none open."""
    collector = start_collector()
    folder = Path(f"/proc/{collector.process.pid}/fd")
    with ExitStack() as stack:
        for path in ("/static/uPlot-1.6.32.iife.min.js", "/static/htmx-4.0.1.min.js"):
            stack.enter_context(slow_reader(collector, path))
        for _ in range(20):  # meanwhile their answers fill what the system has room for
            assert httpx.get(f"{collector.url}/healthz", timeout=120).status_code == 200
        assert not [name for name in open_files(folder) if "static" in name]


def open_files(folder: Path) -> Iterator[str]:
    """The names of files that a process has open, but for those that it closes meanwhile."""
    for each in folder.iterdir():
        with suppress(FileNotFoundError):
            yield os.readlink(each)


def _listens(url: str) -> bool:
    try:
        httpx.get(f"{url}/healthz", timeout=1)
    except httpx.TransportError:
        return False
    return True


def test_what_was_acknowledged_before_the_end_is_there_afterwards(
    start_collector: StartCollector,
) -> None:
    """SIGTERM in the middle of traffic, over HTTP and gRPC: each answer of success holds."""
    collector = start_collector("--grpc", "127.0.0.1:0")
    client = GrpcClient(collector.grpc)
    http = httpx.Client(base_url=collector.url, headers=PROTOBUF, timeout=120)
    over_http: list[int] = []
    over_grpc: list[int] = []

    def send_http(data: bytes) -> None:
        http.post("/v1/traces", content=data).raise_for_status()

    def send(way: Callable[[bytes], object], first: int, acknowledged: list[int]) -> None:
        for number in range(first, first + 100_000):
            spans = [span(n, trace_id=f"{number + 1:032x}") for n in (1, 2, 3)]
            try:
                way(encode_request(spans).SerializeToString())
            except Exception:  # noqa: BLE001 the end of the collector ends the traffic
                return
            acknowledged.append(number)

    senders = [
        threading.Thread(target=send, args=(send_http, 0, over_http)),
        threading.Thread(target=send, args=(client.send, 100_000, over_grpc)),
    ]
    for each in senders:
        each.start()
    wait_until(lambda: min(len(over_http), len(over_grpc)) >= 50, what="traffic")
    process = collector.process
    assert collector.stop() == 0
    for each in senders:
        each.join(120)
    assert process.exit_code == 0
    collector.start()
    spans = collector.get("/api/v1/conservation")["spans"]
    assert spans["stored"] >= 3 * (len(over_http) + len(over_grpc))
    for number in (*over_http[-20:], *over_grpc[-20:]):
        assert len(collector.get(f"/api/v1/traces/{number + 1:032x}")["spans"]) == 3
    http.close()
    client.close()


def test_bombs_do_not_take_the_memory(start_collector: StartCollector) -> None:
    """Twelve requests at a time, each of which would be 256 MiB or more if it were believed."""
    collector = start_collector("--grpc", "127.0.0.1:0")
    zeros = gzip.compress(bytes(2**28), 1)
    tiny = field(1, field(2, b"\x12\x00" * 6 * 2**20))
    spans = field(1, field(2, b"".join(field(2, b"\x4a\x00" * 500_000) for _ in range(12))))
    values = b'{"resourceSpans": [' + b"[]," * 5 * 10**6 + b"[]]}"
    bodies: list[tuple[bytes, dict[str, str]]] = [
        (zeros, PROTOBUF | {"Content-Encoding": "gzip"}),
        (tiny, PROTOBUF),
        (spans, PROTOBUF),
        (values, {"Content-Type": "application/json"}),
    ]

    def post(number: int) -> int:
        data, headers = bodies[number % len(bodies)]
        url = f"{collector.url}/v1/traces"
        return httpx.post(url, content=data, headers=headers, timeout=120).status_code

    with ThreadPoolExecutor(12) as pool:
        answers = set(pool.map(post, range(24)))
    assert answers <= {200, 413, 429}
    assert answers & {413}
    assert httpx.get(f"{collector.url}/readyz", timeout=120).status_code == 200
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line)
    assert peak_kb < 600_000  # 200,000 at rest, 510,000 seen
