"""A collector that reads from a real Kafka broker: spans/s until a query sees the last one.

`python -m tests.bench.collector_kafka` writes 64 spans of 2.8 kB to a message, and a message for
the record of every tenth span: once before the collector starts, once while it reads. `--short`
sends a hundredth. Broker, collector and, the second time, producer share the machine's cores. The
broker is started from Maven's jars.
"""

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx
from kafka import KafkaProducer

from scouter.transport.kafka_client import partition_of
from tests.bench.collector import (
    PEAK_MB,
    SPANS_PER_TRACE,
    Request,
    Texts,
    cpu_seconds,
    make_profile,
    make_requests,
    process_id,
    status_mb,
)
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram
from tests.support.kafka_broker import create_topics, run_broker
from tests.support.processes import wait_until

_RATE: Final = 10_000
"""Bound: spans per second."""
SPANS: Final = 150_400
"""Whole traces in whole messages: a multiple of 320."""
PER_MESSAGE: Final = 64
PARTITIONS: Final = 4
_TOPICS: Final = ("bench.spans", "bench.records")

Message = tuple[str, bytes, bytes]
"""Topic, key, value."""


def messages(requests: list[Request]) -> list[Message]:
    """The messages that go to the broker in place of the requests."""
    found: list[Message] = []
    for number, (path, _, body) in enumerate(requests):
        if path == "/v1/traces":
            found.append((_TOPICS[0], str(number).encode(), body))
            continue
        for record in json.loads(body)["records"]:
            value = json.dumps(record).encode()
            found.append((_TOPICS[1], record["trace_id"].encode(), value))
    return found


def run(spans: int, figures: Figures) -> None:
    """Measure both ways."""
    rng = random.Random(5)
    texts = Texts(rng)
    with run_broker() as broker, tempfile.TemporaryDirectory(prefix="scouter-bench-") as name:
        folder = Path(name)
        create_topics(broker.bootstrap, list(_TOPICS), partitions=PARTITIONS)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProgram(
            folder, "--profile", profile, "--foreign-settle-s", "7s",
            "--kafka", broker.bootstrap, "--kafka-spans-topic", _TOPICS[0],
            "--kafka-records-topic", _TOPICS[1],
        )  # fmt: skip
        producer: Any = KafkaProducer(
            bootstrap_servers=broker.bootstrap, acks="all", compression_type="zstd",
            linger_ms=5, batch_size=2**20, max_request_size=2**22,
        )  # fmt: skip
        try:
            requests, last = make_requests(rng, texts, spans, PER_MESSAGE)
            first_s = _write(producer, messages(requests))
            collector.start()
            wait_until(lambda: _is_ready(collector), what="partitions", timeout_s=60, every_s=0.02)
            _measure(collector, figures, "written before", lambda: first_s, spans, last)
            requests, last = make_requests(rng, texts, spans, PER_MESSAGE)
            to_send = messages(requests)
            _measure(
                collector, figures, "written meanwhile", lambda: _write(producer, to_send),
                2 * spans, last,
            )  # fmt: skip
        finally:
            producer.close()
            collector.close()


def _write(producer: Any, to_send: list[Message]) -> float:
    """Send everything; the seconds until the broker has it."""
    began = time.perf_counter()
    for topic, key, value in to_send:
        producer.send(topic, value, key, partition=partition_of(key, PARTITIONS))
    producer.flush()
    return time.perf_counter() - began


def _is_ready(collector: CollectorProgram) -> bool:
    return httpx.get(f"{collector.url}/readyz").status_code == 200


def _measure(
    collector: CollectorProgram,
    figures: Figures,
    name: str,
    write: Callable[[], float],
    total: int,
    last: str,
) -> None:
    """From the first message that the collector may read until a query sees all spans."""
    pid = process_id(collector)
    before, cpu, began = _accepted(collector), cpu_seconds(pid), time.perf_counter()
    written_s = write()
    wait_until(lambda: _committed(collector) >= total, what="spans", timeout_s=120, every_s=0.1)
    assert len(collector.get(f"/api/v1/traces/{last}")["spans"]) == SPANS_PER_TRACE
    took_s = time.perf_counter() - began
    assert _accepted(collector) == total
    used, spans = cpu_seconds(pid) - cpu, total - before
    each_us = used / spans * 1e6 if spans else 0.0  # few may all be read before the clock starts
    expected = total // SPANS_PER_TRACE
    collector.wait_evaluated(expected, timeout_s=60)
    peak_mb = status_mb(pid, "VmHWM")
    print(
        f"from Kafka, {PER_MESSAGE} spans a message, {name} in {written_s:.1f} s:"
        f" {spans / took_s:,.0f} spans/s until all are seen, {each_us:.0f} µs of CPU per span,"
        f" peak memory {peak_mb:.0f} MB; all {expected:,} records judged",
        flush=True,
    )
    figures.add(f"{name}: seen", spans / took_s, "spans/s", at_least=_RATE)
    figures.add(f"{name}: CPU per span", each_us, "µs")
    figures.add(f"{name}: peak memory", peak_mb, "MB", at_most=PEAK_MB)


def _committed(collector: CollectorProgram) -> int:
    """Spans in the database, as it counts them with each commit; a sixth of the work of asking."""
    return int(collector.metrics().get('scouter_spans_received_total{space="default"}', 0))


def _accepted(collector: CollectorProgram) -> int:
    return int(collector.get("/api/v1/conservation")["spans"]["accepted"])


if __name__ == "__main__":
    short = "--short" in sys.argv
    told = Figures("collector_kafka", is_short=short)
    run(1_600 if short else SPANS, told)
    sys.exit(told.end())
