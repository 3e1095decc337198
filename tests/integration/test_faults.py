"""Faults on the way: nothing accepted is lost, nothing counts twice, every refusal is visible."""

import contextlib
import itertools
import random
import resource
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import httpx
import pytest

from scouter.tracing.tracer import flush_tracer
from scouter.transport.config import HttpConfig
from tests.support.collector_process import CollectorProcess
from tests.support.kill_run import rates_agree, report_of, sheet_agrees, wait_settled
from tests.support.load import (
    HttpDelivery,
    Item,
    Producer,
    load_profile,
    span_request,
    span_requests,
)
from tests.support.processes import wait_until
from tests.support.small_disk import SmallDisk, small_disk
from tests.support.traced_agent import helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]
OTLP = {"content-type": "application/x-protobuf"}


@pytest.fixture
def collector(start_collector: StartCollector, tmp_path: Path) -> CollectorProcess:
    """A collector with the profile of the load items."""
    return start_collector("--profile", load_profile().save_to_json(tmp_path / "load.json"))


_HOP_BY_HOP: Final = {"connection", "transfer-encoding", "content-length", "date", "server"}


class Gate(ThreadingHTTPServer):
    """Hands on some calls to a collector, and answers the others with 503.

    Args:
        url: Of the collector.
        refused_share: Share of the calls that are refused, in [0, 1].
    """

    daemon_threads = True

    def __init__(self, url: str, refused_share: float) -> None:
        super().__init__(("127.0.0.1", 0), _GateHandler)
        self.client = httpx.Client(base_url=url, timeout=120)
        self.refused = 0
        self._share, self._chance, self._lock = refused_share, random.Random(1), threading.Lock()

    def refuses(self) -> bool:
        """Decide about one call."""
        with self._lock:
            refused = self._chance.random() < self._share
            self.refused += refused
            return refused


class _GateHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Gate  # pyright: ignore[reportIncompatibleVariableOverride] no other has it

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.server.refuses():
            self._answer(503, {"retry-after": "0"}, b"")
            return
        headers = {k: v for k, v in self.headers.items() if k.lower() not in {*_HOP_BY_HOP, "host"}}
        answer = self.server.client.post(self.path, content=body, headers=headers)
        self._answer(answer.status_code, dict(answer.headers), answer.content)

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextlib.contextmanager
def open_gate(url: str, refused_share: float) -> Generator[Gate]:
    """A gate on a free port, closed at the end."""
    with Gate(url, refused_share) as gate:
        thread = threading.Thread(target=gate.serve_forever)
        thread.start()
        try:
            yield gate
        finally:
            gate.shutdown()
            thread.join(120)
            gate.client.close()


def test_a_far_side_that_refuses_most_calls(
    start_collector: StartCollector, tmp_path: Path
) -> None:
    """Seven of ten calls get 503; nothing is dropped, and every evaluation saw its whole trace."""
    collector = start_collector("--profile", helper_profile().save_to_json(tmp_path / "h.json"))
    cases = [f"case-{n}" for n in range(60)]
    with (
        open_gate(collector.url, 0.7) as gate,
        traced_agent(
            HttpConfig(server_uri=f"http://127.0.0.1:{gate.server_port}"), helper_profile()
        ) as agent,
    ):
        for case in cases:
            agent.answer(case)
        assert flush_tracer(100)
        assert agent.queue.flush(100)
        assert agent.queue.stats.dropped == {}
    collector.wait_evaluated(len(cases))
    found = collector.evaluations()
    assert gate.refused > 0
    assert sorted(item["record_id"] for item in found) == sorted(cases)
    assert {item["outcome"] for item in found} == {"passed"}
    assert sheet_agrees(collector, len(cases), 4 * len(cases))
    assert rates_agree(collector, found)


def test_duplicated_reordered_and_split_deliveries(collector: CollectorProcess) -> None:
    """Each span comes in a request of its own, twice, in any order; records come twice, too.

    Some records are judged before their last span is there, and again behind it.
    """
    chance = random.Random(7)
    items = [Item(number=number) for number in range(30)]
    jobs: list[Item | bytes] = [job for item in items for job in (item, *span_requests(item))] * 2
    chance.shuffle(jobs)
    with httpx.Client(base_url=collector.url, timeout=120) as client:
        for number, job in enumerate(jobs):
            if isinstance(job, Item):
                answer = client.post("/v1/records", json={"records": [job.record()]})
            else:
                answer = client.post("/v1/traces", content=job, headers=OTLP)
            assert answer.status_code == 200, answer.text
            if number == len(jobs) * 9 // 10:
                wait_settled(collector, len(items))
    wait_settled(collector, len(items))
    wait_until(
        lambda: collector.get("/api/v1/conservation")["spans"]["late"] == 0,
        what="every evaluation has seen all spans",
    )
    assert collector.metrics()["scouter_records_reopened_total"] > 0
    report = report_of(collector, items, kills=0)
    assert report.is_clean, report
    sheet = collector.get("/api/v1/conservation")
    assert sheet["records"]["duplicates"] == len(items)
    assert sheet["spans"]["duplicates"] == 4 * len(items)


def test_truncated_deliveries_are_refused_and_the_whole_ones_taken(
    collector: CollectorProcess,
) -> None:
    items = [Item(number=number) for number in range(10)]
    body = span_request(items)
    records = httpx.Request(
        "POST", "http://x/", json={"records": [i.record() for i in items]}
    ).read()
    with httpx.Client(base_url=collector.url, timeout=120) as client:
        for cut in range(1, len(body), len(body) // 20):
            answer = client.post("/v1/traces", content=body[:cut], headers=OTLP)
            assert answer.status_code in {200, 400}, answer.text
        for cut in range(1, len(records), len(records) // 20):
            answer = client.post(
                "/v1/records",
                content=records[:cut],
                headers={"content-type": "application/json"},
            )
            assert answer.status_code == 400, answer.text
    _deliver(collector, items)
    wait_settled(collector, len(items))
    report = report_of(collector, items, kills=0)
    assert report.is_clean, report


def test_a_full_disk_refuses_for_a_while_and_loses_nothing(collector: CollectorProcess) -> None:
    """No file may grow further; what is sent meanwhile is refused, and taken once there is room."""
    pid = collector.process.pid
    before = [Item(number=number) for number in range(20)]
    _deliver(collector, before)
    free = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, free[1]))
    delivery = HttpDelivery(lambda: collector.url)
    try:
        with Producer(itertools.count(20), delivery) as producer:
            wait_until(lambda: delivery.repeated >= 3, what="three refusals")
            if not collector.process.is_running:  # it may end rather than run on a broken store
                collector.kill()
                collector.start()
            else:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, free)
            wait_until(lambda: len(producer.acknowledged) >= 100, what="more items")
    finally:
        delivery.close()
    sent = [*before, *producer.acknowledged]
    wait_settled(collector, len(sent))
    report = report_of(collector, sent, kills=0)
    assert report.is_clean, report


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 64) as disk:
        yield disk


def test_a_full_file_system_refuses_for_a_while_and_loses_nothing(
    disk: SmallDisk, start_collector: StartCollector, tmp_path: Path
) -> None:
    """The kernel says that no space is left, to logs and database alike, until there is again."""
    profile = load_profile().save_to_json(tmp_path / "load.json")
    collector = start_collector("--profile", profile, "--data", disk.folder / "data")
    before = [Item(number=number) for number in range(20)]
    _deliver(collector, before)
    delivery = HttpDelivery(lambda: collector.url)
    try:
        with Producer(itertools.count(20), delivery) as producer:
            with contextlib.suppress(OSError):  # the collector writes meanwhile
                disk.leave(0)
            wait_until(lambda: delivery.repeated >= 3, what="three refusals")
            refused = sum(
                value
                for series, value in collector.metrics().items()
                if series.startswith("scouter_ingest_refused_total")
                and 'reason="unavailable"' in series
            )
            assert refused >= 3
            disk.give_room()
            enough = len(producer.acknowledged) + 100
            wait_until(lambda: len(producer.acknowledged) >= enough, what="more items")
    finally:
        delivery.close()
    assert collector.process.is_running
    sent = [*before, *producer.acknowledged]
    wait_settled(collector, len(sent))
    report = report_of(collector, sent, kills=0)
    assert report.is_clean, report


def _deliver(collector: CollectorProcess, items: Sequence[Item]) -> None:
    delivery = HttpDelivery(lambda: collector.url)
    try:
        delivery(items)
    finally:
        delivery.close()
