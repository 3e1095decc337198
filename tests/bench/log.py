"""Cost of acknowledging: the log alone, and the whole collector in the same minutes.

`python -m tests.bench.log` prints the figures; `--short` sends a twentieth. Requests have 64 spans
of 2.8 kB, from eight senders that each wait for an answer. Two kinds in turn, in three rounds:

in process  threads append to a log; afterwards it is read from its beginning to its end
collector   the whole collector; its processor time has the work behind the answers that is done
            meanwhile, and none of that which is left

The senders share the cores with what they send to.
"""

import http.client
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.log.file_log import FileLog
from collector.log.port import Item, Kind
from tests.bench.collector import Texts, cpu_seconds, make_requests, process_id
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram

SENDERS, SPANS_PER_REQUEST, REQUESTS, ROUNDS = 8, 64, 600, 3
READ_BYTES: Final = 2**20
_PROTOBUF: Final = "application/x-protobuf"


@dataclass(frozen=True, slots=True)
class Round:
    """Figures of one round."""

    requests_per_s: float
    p99_s: float
    cpu_s: float
    """Per span, of the process that takes them."""
    worst_s: float
    refused: int = 0


def deliver(bodies: Sequence[bytes], make_send: Callable[[], Callable[[bytes], bool]]) -> Round:
    """Send everything from all senders at once.

    Args:
        bodies: Requests, each sent by one of the senders, until it is acknowledged.
        make_send: Gives each sender its means; that returns False for a request to send again.
    """
    waiting, lock = iter(bodies), threading.Lock()
    took: list[float] = []
    faults: list[BaseException] = []
    refused: list[bytes] = []

    def work() -> None:
        try:
            send = make_send()
            while True:
                with lock:
                    body = next(waiting, None)
                if body is None:
                    return
                began = time.perf_counter()
                while not send(body):
                    refused.append(body)
                    threading.Event().wait(0.1)
                took.append(time.perf_counter() - began)
        except BaseException as error:  # noqa: BLE001 reported by the thread that waits
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(SENDERS)]
    began, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if faults:
        raise faults[0]
    took.sort()
    return Round(
        requests_per_s=len(bodies) / seconds,
        p99_s=took[int(len(took) * 0.99)],
        cpu_s=cpu / len(bodies) / SPANS_PER_REQUEST,
        worst_s=took[-1],
        refused=len(refused),
    )


def deliver_to(address: str, pid: int, bodies: Sequence[bytes]) -> Round:
    """Send over HTTP, and take the processor time of the process that answers."""

    def make_send() -> Callable[[bytes], bool]:
        connection = http.client.HTTPConnection(address, timeout=120)

        def send(body: bytes) -> bool:
            connection.request("POST", "/v1/traces", body, {"content-type": _PROTOBUF})
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status in (200, 429, 503), text
            return answer.status == 200

        return send

    before = cpu_seconds(pid)
    found = deliver(bodies, make_send)
    used = (cpu_seconds(pid) - before) / len(bodies) / SPANS_PER_REQUEST
    return Round(found.requests_per_s, found.p99_s, used, found.worst_s, found.refused)


def in_process(folder: Path, bodies: Sequence[bytes]) -> tuple[Round, float, float]:
    """Append from threads, and read.

    Returns:
        The figures; bytes read per second and processor seconds per item, both of reading.
    """
    log = FileLog(folder / "log")

    def send(body: bytes) -> bool:
        log.append(Item(Kind.SPANS, "default", time.time_ns(), body)).result()
        return True

    found = deliver(bodies, lambda: send)
    began, cpu = time.perf_counter(), time.process_time()
    at = count = 0
    while entries := (chunk := log.read(at, READ_BYTES)).entries:
        at, count = chunk.next, count + len(entries)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    assert count == len(bodies)
    log.close()
    return found, at / seconds, cpu / count


def whole_collector(folder: Path, bodies: Sequence[bytes]) -> Round:
    """Send to a collector."""
    collector = CollectorProgram(folder)
    collector.start()
    try:
        return deliver_to(collector.address, process_id(collector), bodies)
    finally:
        collector.close()


def run(requests: int, rounds: int, figures: Figures) -> None:
    """Measure everything."""
    rng = random.Random(5)
    made, _ = make_requests(rng, Texts(rng), requests * SPANS_PER_REQUEST, SPANS_PER_REQUEST)
    bodies = [body for path, _, body in made if path == "/v1/traces"]
    found: dict[str, list[Round]] = {"in process": [], "collector": []}
    reading: list[tuple[float, float]] = []
    for _ in range(rounds):
        for name, rounds_of_it in found.items():
            with tempfile.TemporaryDirectory(prefix="scouter-bench-") as folder:
                if name == "in process":
                    one, rate, cpu_s = in_process(Path(folder), bodies)
                    reading.append((rate, cpu_s))
                else:
                    one = whole_collector(Path(folder), bodies)
            rounds_of_it.append(one)
            print(
                f"{name}: {one.requests_per_s * SPANS_PER_REQUEST:,.0f} spans/s acknowledged,"
                f" p99 {one.p99_s * 1e3:.0f} ms, {one.cpu_s * 1e6:.1f} µs of CPU per span,"
                f" {one.refused} refused",
                flush=True,
            )
    for name, those in found.items():
        rate = statistics.median(each.requests_per_s for each in those)
        figures.add(f"{name}: acknowledged", rate, "items/s")
        figures.add(f"{name}: spans", rate * SPANS_PER_REQUEST, "spans/s", at_least=25_000)
        p99 = statistics.median(each.p99_s for each in those) * 1e3
        figures.add(f"{name}: p99", p99, "ms", at_most=150)
        figures.add(f"{name}: worst", max(each.worst_s for each in those) * 1e3, "ms")
        figures.add(f"{name}: CPU per span", min(each.cpu_s for each in those) * 1e6, "µs")
    figures.add("reading", statistics.median(rate for rate, _ in reading) / 1e6, "MB/s")
    figures.add("reading: CPU per item", min(cpu for _, cpu in reading) * 1e6, "µs")


def main() -> int:
    short = "--short" in sys.argv
    figures = Figures("log", is_short=short)
    run(REQUESTS // 20 if short else REQUESTS, 1 if short else ROUNDS, figures)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
