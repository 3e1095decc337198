"""A real collector under load: spans/s until a query sees the last one, pauses, memory, readiness.

`python -m tests.bench.collector` prints the figures; `--short` sends a thirtieth. Spans are 2.8 kB,
of traces of ten, 500 to a request over 2 connections; five tasks judge a record of every trace. The
records come over a connection of their own, as from a `ScouterQueue`: an agent inserts a record
before its spans have ended, so each batch sets out just before its spans.
Quote figures of a quiet machine only: sender and collector share its cores.
"""

import http.client
import json
import queue
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProcess, CollectorProgram
from tests.support.processes import wait_until

SPAN_BYTES, SPANS_PER_TRACE = 2_800, 10
SPANS, RECORDS, CONNECTIONS = 150_000, 500, 2
START_S, PAUSE_S, PEAK_MB, RATE = 1.5, 0.5, 450, 15_000
"""Bounds: until it is ready, of one request, of memory, of spans per second."""
_PROTOBUF: Final = "application/x-protobuf"
_JSON: Final = "application/json"
_RECORDS_PATH: Final = "/v1/records"

Request = tuple[str, str, bytes]
"""Path, content type, body."""


def make_profile() -> AgentEvalProfile:
    """Three tasks about the record, two about its trace."""
    return AgentEvalProfile(
        alias="bench",
        tasks=[
            AssertionTask("named", "answer.text", "answer", Op.StartsWith),
            AssertionTask("scored", "answer.score", 10, Op.LessThan),
            AssertionTask("sized", "answer.tags", 3, Op.HasLengthEqual),
            TraceAssertionTask(
                "whole", TraceAssertion.trace_span_count(), SPANS_PER_TRACE, Op.Equals
            ),
            TraceAssertionTask("clean", TraceAssertion.trace_error_count(), 0, Op.Equals),
        ],
    )


class Texts:
    """Texts of words that differ from each other, cut out of a long one.

    Args:
        rng: Randomness.
        one: All texts are the same one.
    """

    def __init__(self, rng: random.Random, *, one: bool = False) -> None:
        words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5_000)]
        self._rng, self._one = rng, one
        self._long = " ".join(rng.choices(words, k=2_000_000))

    def __call__(self, size: int) -> str:
        """A text of so many characters."""
        at = 0 if self._one else self._rng.randrange(len(self._long) - size)
        return self._long[at : at + size]


def make_requests(
    rng: random.Random, texts: Texts, spans: int, per_request: int
) -> tuple[list[Request], str]:
    """Requests of spans, one of records before those of their traces; and the last trace's id."""
    requests: list[Request] = []
    trace = b""
    parent = b""
    uids: list[str] = []
    first = 0
    base_ns = 1_700_000_000_000_000_000
    for start in range(0, spans, per_request):
        message = ExportTraceServiceRequest()
        resource_spans = message.resource_spans.add()
        pair = resource_spans.resource.attributes.add(key="service.name")
        pair.value.string_value = "bench-agent"
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.name = "bench"
        for number in range(start, start + per_request):
            span_id = rng.randbytes(8)
            is_root = number % SPANS_PER_TRACE == 0
            if is_root:
                trace, parent = rng.randbytes(16), span_id
                uids.append(trace.hex())
            span = scope_spans.spans.add(
                trace_id=trace,
                span_id=span_id,
                parent_span_id=b"" if is_root else parent,
                name=f"chat model-{number % 7}",
                kind=3,  # type: ignore[arg-type]
                start_time_unix_nano=base_ns + number * 1000,
                end_time_unix_nano=base_ns + number * 1000 + 900,
            )
            attributes: dict[str, str | int] = {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": f"model-{number % 7}",
                "gen_ai.response.id": span_id.hex(),
                "gen_ai.usage.input_tokens": number % 4000,
                "gen_ai.usage.output_tokens": number % 700,
                "gen_ai.conversation.id": trace.hex(),
                "gen_ai.input.messages": texts(1_600),
                "gen_ai.output.messages": texts(740),
            }
            for key, value in attributes.items():
                pair = span.attributes.add(key=key)
                if isinstance(value, int):
                    pair.value.int_value = value
                else:
                    pair.value.string_value = value
        requests.append(("/v1/traces", _PROTOBUF, message.SerializeToString()))
        if len(uids) >= RECORDS or (uids and start + per_request >= spans):
            requests.insert(first, (_RECORDS_PATH, _JSON, _records(uids)))
            uids, first = [], len(requests)
    return requests, trace.hex()


def _records(uids: Sequence[str]) -> bytes:
    answer = {"text": "answer 42", "score": 7, "tags": ["a", "b", "c"]}
    records = [
        {"uid": uid, "profile": "bench", "trace_id": uid, "context": {"answer": answer}}
        for uid in uids
    ]
    return json.dumps({"records": records}).encode()


@dataclass(slots=True)
class Sent:
    """The result of sending."""

    seconds: float = 0.0
    worst_s: float = 0.0
    """Longest time that one request took."""
    refused: int = 0
    """Answers 429, each sent again."""


def send(address: str, requests: Sequence[Request], until: Callable[[], object]) -> Sent:
    """Send over the connections, records over one more; the clock stops when `until` returns."""
    sent = Sent()
    waiting: Iterator[Request] = iter(requests)
    records: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
    lock = threading.Lock()
    faults: list[BaseException] = []

    def next_spans() -> Request | None:
        with lock:
            for request in waiting:
                if request[0] != _RECORDS_PATH:
                    return request
                records.put(request)
        return None

    def work(take: Callable[[], Request | None]) -> None:
        try:
            connection = http.client.HTTPConnection(address, timeout=120)
            while (request := take()) is not None:
                _deliver(connection, request, sent)
            connection.close()
        except BaseException as error:  # noqa: BLE001 told to the thread that waits
            faults.append(error)

    threads = [threading.Thread(target=work, args=(next_spans,)) for _ in range(CONNECTIONS)]
    last = threading.Thread(target=work, args=(records.get,))
    began = time.perf_counter()
    for thread in (*threads, last):
        thread.start()
    for thread in threads:
        thread.join()
    records.put(None)
    last.join()
    if faults:
        raise faults[0]
    until()
    sent.seconds = time.perf_counter() - began
    return sent


def _deliver(connection: http.client.HTTPConnection, request: Request, sent: Sent) -> None:
    path, media, body = request
    while True:
        began = time.perf_counter()
        connection.request("POST", path, body, {"content-type": media})
        answer = connection.getresponse()
        text = answer.read()
        sent.worst_s = max(sent.worst_s, time.perf_counter() - began)
        if answer.status == 200:
            return
        assert answer.status in (429, 503), text
        sent.refused += 1
        threading.Event().wait(0.1)


def status_mb(pid: int, field: str) -> float:
    """A memory figure of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1000
    raise AssertionError(f"no {field}")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def process_id(collector: CollectorProcess) -> int:
    """Of a collector that runs."""
    return int(json.loads((collector.folder / "ready.json").read_text())["pid"])


def _load(
    collector: CollectorProgram,
    figures: Figures,
    name: str,
    requests: list[Request],
    last: str,
    at_least: int,
) -> None:
    """Send, and tell what it took."""
    spans = collector.get("/api/v1/conservation")["spans"]["accepted"]
    pid = process_id(collector)
    cpu = cpu_seconds(pid)

    def seen() -> bool:
        return len(collector.get(f"/api/v1/traces/{last}")["spans"]) == SPANS_PER_TRACE

    sent = send(collector.address, requests, lambda: wait_until(seen, what="the last span"))
    spans = collector.get("/api/v1/conservation")["spans"]["accepted"] - spans
    used = cpu_seconds(pid) - cpu
    began = time.perf_counter()
    records = collector.records()["accepted"]
    wait_until(lambda: collector.records()["evaluated"] >= records, what="evaluations", every_s=0.5)
    judged_s, peak_mb = time.perf_counter() - began, status_mb(pid, "VmHWM")
    print(
        f"{name}: {spans / sent.seconds:,.0f} spans/s until seen, worst request"
        f" {sent.worst_s:.2f} s, {sent.refused} told to wait, {used / spans * 1e6:.0f} µs of CPU"
        f" per span, peak memory {peak_mb:.0f} MB; all {records:,} records judged"
        f" {judged_s:.1f} s later",
        flush=True,
    )
    figures.add(f"{name}: seen", spans / sent.seconds, "spans/s", at_least=at_least)
    figures.add(f"{name}: worst request", sent.worst_s, "s", at_most=PAUSE_S)
    figures.add(f"{name}: CPU per span", used / spans * 1e6, "µs")
    figures.add(f"{name}: peak memory", peak_mb, "MB", at_most=PEAK_MB)
    figures.add(f"{name}: judged later", judged_s, "s")


def start_seconds(collector: CollectorProgram) -> float:
    """Start a collector; how long it took until it was ready."""
    began = time.perf_counter()
    collector.start()
    return time.perf_counter() - began


def run(spans: int, figures: Figures) -> None:
    """Measure everything once."""
    rng = random.Random(5)
    texts = Texts(rng)
    with tempfile.TemporaryDirectory(prefix="scouter-bench-") as folder:
        profile = make_profile().save_to_json(Path(folder) / "bench.json")
        collector = CollectorProgram(Path(folder), "--profile", profile, "--foreign-settle-s", "7s")
        figures.add("ready with an empty store", start_seconds(collector), "s", at_most=START_S)
        try:
            for name, source, per_request, share, at_least in (
                ("texts that differ, 500 a request", texts, 500, 1.0, RATE),
                ("one text, 500 a request", Texts(rng, one=True), 500, 0.5, RATE),
                ("texts that differ, 10 a request", texts, 10, 0.1, 3_000),
            ):
                requests, last = make_requests(rng, source, int(spans * share), per_request)
                _load(collector, figures, name, requests, last, at_least)
            collector.kill()
            figures.add("ready after kill -9", start_seconds(collector), "s", at_most=START_S)
        finally:
            collector.close()


if __name__ == "__main__":
    short = "--short" in sys.argv
    told = Figures("collector", is_short=short)
    run(SPANS // 30 if short else SPANS, told)
    sys.exit(told.end())
