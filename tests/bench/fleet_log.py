"""The log of a fleet on a real Kafka broker: CPU seconds for 100,000 spans, in and out.

`python -m tests.bench.fleet_log` appends requests of 64 spans of 2.8 kB, 32 at a time, to a topic
of 12 partitions, and reads them again by partition. `--short` does a hundredth. The broker shares
the machine's cores; its CPU is told apart.
"""

import random
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from collector.fleet.member import Member
from collector.fleet.partition_log import PartitionLog
from collector.fleet.split import split
from collector.fleet.topic_log import TopicLog
from collector.log.port import Item, Kind
from collector.receivers.kafka.settings import KafkaSettings
from tests.bench.collector import Texts, make_requests
from tests.bench.figures import Figures
from tests.support.kafka_broker import run_broker

SPANS: Final = 100_032
"""Whole requests."""
PER_REQUEST: Final = 64
PARTITIONS: Final = 12
_WINDOW: Final = 32
_UNIT: Final = 100_000


def run(spans: int, figures: Figures) -> None:
    """Split, append and read."""
    requests, _ = make_requests(random.Random(5), Texts(random.Random(5)), spans, PER_REQUEST)
    items = [
        Item(Kind.SPANS, "default", number, body, "http")
        for number, (path, _, body) in enumerate(requests)
        if path == "/v1/traces"
    ]
    _measure(figures, "split", spans, lambda: [split(each, PARTITIONS) for each in items])
    with run_broker() as broker:
        settings = KafkaSettings(servers=(broker.bootstrap,), group="bench", topic="bench.work")
        log = TopicLog(settings, PARTITIONS)
        try:
            _measure(figures, "append", spans, lambda: _append(log, items))
            _read(figures, settings, log, spans)
        finally:
            log.close()


def _append(log: TopicLog, items: list[Item]) -> None:
    waiting: deque[Future[int]] = deque()
    for each in items:
        if len(waiting) == _WINDOW:
            waiting.popleft().result()
        waiting.append(log.append(each))
    for future in waiting:
        future.result()


def _read(figures: Figures, settings: KafkaSettings, log: TopicLog, spans: int) -> None:
    logs: dict[int, PartitionLog] = {}
    taken = threading.Barrier(PARTITIONS + 1)

    def take(part: int, found: PartitionLog) -> None:
        logs[part] = found
        taken.wait()

    member = Member(settings, log, "bench", take, lambda part: None)
    member.start()
    taken.wait()
    ends = {part: each.end for part, each in logs.items()}
    try:
        _measure(figures, "read", spans, lambda: _drain(logs, ends))
    finally:
        member.stop()


def _drain(logs: dict[int, PartitionLog], ends: dict[int, int]) -> None:
    at = dict.fromkeys(ends, 0)
    while left := [part for part, end in ends.items() if at[part] < end]:
        logs[left[0]].wait(at[left[0]], 0.05)
        for part in left:
            at[part] = logs[part].read(at[part], 2**20).next
            logs[part].trim(at[part])


def _measure(figures: Figures, name: str, spans: int, action: Callable[[], Any]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    action()
    used, took = time.process_time() - cpu, time.perf_counter() - began
    print(f"{name}: {used * _UNIT / spans:.2f} CPU s for 100,000 spans, {spans / took:,.0f}/s")
    figures.add(f"{name}: CPU for 100,000 spans", used * _UNIT / spans, "s")
    figures.add(f"{name}: rate", spans / took, "spans/s")


if __name__ == "__main__":
    short = "--short" in sys.argv
    told = Figures("fleet_log", is_short=short)
    run(1_024 if short else SPANS, told)
    sys.exit(told.end())
