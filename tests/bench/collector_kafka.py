"""A collector that reads from a real Kafka broker: spans/s until a query sees the last one.

`python -m tests.bench.collector_kafka` writes 64 spans of 2.8 kB to a message, and a message for
the record of every tenth span, while the collector reads; `--short` sends a hundredth. Broker,
producer and collector share the machine's cores. The broker is started from Maven's jars.
"""

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

from kafka import KafkaProducer

from scouter.transport.partition import partition_of
from tests.bench.collector import (
    SPANS_PER_TRACE,
    Request,
    Texts,
    cpu_seconds,
    make_profile,
    make_requests,
    process_id,
    status_mb,
)
from tests.support.collector_process import CollectorProcess
from tests.support.kafka_broker import create_topics, run_broker
from tests.support.processes import wait_until

SPANS: Final = 150_400
"""Whole traces in whole messages: a multiple of 320."""
PER_MESSAGE: Final = 64
PARTITIONS: Final = 4
_TOPICS: Final = ("bench.spans", "bench.records")

Message = tuple[str, bytes, bytes]
"""Topic, key, value."""


def messages(requests: list[Request]) -> list[Message]:
    """What goes to the broker in place of the requests."""
    found: list[Message] = []
    for number, (path, _, body) in enumerate(requests):
        if path == "/v1/traces":
            found.append((_TOPICS[0], str(number).encode(), body))
            continue
        for record in json.loads(body)["records"]:
            value = json.dumps(record).encode()
            found.append((_TOPICS[1], record["trace_id"].encode(), value))
    return found


def run(spans: int) -> None:
    """Measure once."""
    rng = random.Random(5)
    requests, last = make_requests(rng, Texts(rng), spans, PER_MESSAGE)
    to_send = messages(requests)
    with run_broker() as broker, tempfile.TemporaryDirectory(prefix="scouter-bench-") as name:
        folder = Path(name)
        create_topics(broker.bootstrap, list(_TOPICS), partitions=PARTITIONS)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProcess(
            folder, "--profile", profile, "--foreign-settle-s", "7s",
            "--kafka", broker.bootstrap, "--kafka-spans-topic", _TOPICS[0],
            "--kafka-records-topic", _TOPICS[1],
        )  # fmt: skip
        collector.start()
        producer: Any = KafkaProducer(
            bootstrap_servers=broker.bootstrap, acks="all", compression_type="zstd",
            linger_ms=5, batch_size=2**20, max_request_size=2**22,
        )  # fmt: skip
        try:
            _measure(collector, producer, to_send, spans, last)
        finally:
            producer.close()
            collector.close()


def _measure(
    collector: CollectorProcess, producer: Any, to_send: list[Message], spans: int, last: str
) -> None:
    pid = process_id(collector)
    cpu = cpu_seconds(pid)
    began = time.perf_counter()
    for topic, key, value in to_send:
        producer.send(topic, value, key, partition=partition_of(key, PARTITIONS))
    producer.flush()
    written_s = time.perf_counter() - began

    def all_there() -> bool:
        return collector.get("/api/v1/conservation")["spans"]["accepted"] >= spans

    wait_until(all_there, what="all spans", timeout_s=300, every_s=0.2)
    assert len(collector.get(f"/api/v1/traces/{last}")["spans"]) == SPANS_PER_TRACE
    took_s = time.perf_counter() - began
    expected = sum(topic == _TOPICS[1] for topic, _, _ in to_send)
    used = cpu_seconds(pid) - cpu
    collector.wait_evaluated(expected, timeout_s=120)
    print(
        f"from Kafka, {PER_MESSAGE} spans a message: {spans / took_s:,.0f} spans/s until all are"
        f" seen (written in {written_s:.1f} of {took_s:.1f} s), {used / spans * 1e6:.0f} µs of CPU"
        f" per span, peak memory {status_mb(pid, 'VmHWM'):.0f} MB; all {expected:,} records judged"
    )


if __name__ == "__main__":
    run(1_600 if "--short" in sys.argv else SPANS)
