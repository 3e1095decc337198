"""Exports of more than memory holds, and what they cost those who send meanwhile.

`python -m tests.bench.export` stores 9,000 records with contexts of 20 kB over HTTP, writes them to
two files at once (`scouter export records`) while a sender goes on at a steady rate, which it did
alone before, then stops the collector and writes all tables (`scouter collector export`). It
reports bytes, seconds, the peak memory of each process, and how long requests of the sender took.
`--short` stores a thirtieth; `--records N` and `--context BYTES` choose other sizes, and
`--memory-limit SIZE` the collector's.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.bench.collector import (
    PAUSE_S,
    Request,
    Texts,
    make_profile,
    make_requests,
    process_id,
    status_mb,
)
from tests.bench.figures import ROOT, Figures
from tests.support.collector_process import CollectorProgram

RECORDS, CONTEXT_BYTES, EXPORTS = 9_000, 20_000, 2
PEAK_MB, CLIENT_MB, TABLES_MB = 600, 150, 600
"""Bounds of memory: collector under load, each client, the command that writes tables."""
_PACE_S: Final = 0.05
_ALONE: Final = 200
"""Requests that are sent before there is an export."""
_LOOK_S: Final = 0.02
_LARGEST_BODY: Final = 4_000_000
_JSON: Final = "application/json"


@dataclass(slots=True)
class Steady:
    """The answers to a sender at a steady rate."""

    seconds: list[float] = field(default_factory=list[float])
    refused: int = 0

    def tell(self, when: str, figures: Figures) -> None:
        """Report how it went."""
        figures.add(f"{when}: requests", len(self.seconds))
        figures.add(f"{when}: refused", self.refused, at_most=0)
        figures.add(f"{when}: median request", statistics.median(self.seconds), "s")
        figures.add(f"{when}: worst request", max(self.seconds), "s", at_most=PAUSE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A command that ended."""

    code: int
    seconds: float
    peak_mb: float
    error: str


def records_body(texts: Texts, name: str, count: int, size: int) -> bytes:
    """A request of records with long contexts."""
    records = [
        {"uid": f"{name}-{n}", "profile": "bench",
         "context": {"answer": {"text": "answer 42", "score": 7, "tags": ["a", "b", "c"]},
                     "document": texts(size)}}
        for n in range(count)
    ]  # fmt: skip
    return json.dumps({"records": records}).encode()


def fill(collector: CollectorProgram, texts: Texts, records: int, size: int) -> None:
    """Store so many records, and wait until each is judged."""
    connection = http.client.HTTPConnection(collector.address, timeout=120)
    at_once = max(1, _LARGEST_BODY // size)
    for first in range(0, records, at_once):
        body = records_body(texts, f"stored-{first}", min(at_once, records - first), size)
        while _post(connection, ("/v1/records", _JSON, body)) != 200:
            threading.Event().wait(0.2)
    connection.close()
    collector.wait_evaluated(records, timeout_s=300)


def send_steadily(address: str, requests: Iterable[Request], done: threading.Event) -> Steady:
    """Send one request after the other at a steady pace until it is done."""
    told = Steady()
    connection = http.client.HTTPConnection(address, timeout=120)
    due = time.perf_counter()
    for request in requests:
        if done.is_set():
            break
        due += _PACE_S
        done.wait(max(0.0, due - time.perf_counter()))
        began = time.perf_counter()
        told.refused += _post(connection, request) != 200
        told.seconds.append(time.perf_counter() - began)
    connection.close()
    return told


def _post(connection: http.client.HTTPConnection, request: Request) -> int:
    path, media, body = request
    connection.request("POST", path, body, {"content-type": media})
    answer = connection.getresponse()
    answer.read()
    return answer.status


def run_command(words: list[str], log: Path) -> Ran:
    """Run the program and watch its memory."""
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "scouter.cli.app", *words],
            stdout=subprocess.DEVNULL, stderr=output, cwd=ROOT,
        )  # fmt: skip
        peak_mb = 0.0
        while process.poll() is None:
            # The system's figure of a child that has ended counts this process's memory, too.
            peak_mb = max(peak_mb, _peak_mb(process.pid))
            threading.Event().wait(_LOOK_S)
    seconds = time.perf_counter() - began
    error = log.read_text(errors="replace").strip()[-600:]
    return Ran(code=process.returncode, seconds=seconds, peak_mb=peak_mb, error=error)


def _peak_mb(pid: int) -> float:
    try:
        is_started = b"scouter.cli.app" in Path(f"/proc/{pid}/cmdline").read_bytes()
        return status_mb(pid, "VmHWM") if is_started else 0.0  # before, it shares this one's memory
    except (AssertionError, OSError):
        return 0.0  # it has just ended


def _live(collector: CollectorProgram, folder: Path, texts: Texts, figures: Figures) -> None:
    """Two exports at once, with a sender beside them."""
    requests, _ = make_requests(random.Random(7), texts, 100_000, 50)
    for at in range(0, len(requests), 4):
        body = records_body(texts, f"meanwhile-{at}", 4, CONTEXT_BYTES)
        requests[at] = ("/v1/records", _JSON, body)
    alone, beside = requests[:_ALONE], requests[_ALONE:]
    send_steadily(collector.address, alone, threading.Event()).tell("sender alone", figures)
    done = threading.Event()
    told: list[Steady] = []
    sender = threading.Thread(
        target=lambda: told.append(send_steadily(collector.address, beside, done))
    )
    files = [folder / f"records-{n}.jsonl" for n in range(EXPORTS)]
    ran: dict[Path, Ran] = {}

    def export(file: Path) -> None:
        words = ["export", "records", "--output", str(file), "--url", collector.url]
        ran[file] = run_command(words, file.with_suffix(".log"))

    exports = [threading.Thread(target=export, args=(file,)) for file in files]
    sender.start()
    for each in exports:
        each.start()
    for each in exports:
        each.join()
    done.set()
    sender.join()
    for file, how in ran.items():
        size = file.stat().st_size / 1e6 if file.exists() else 0.0
        if how.code:
            print(f"{file.name}: {how.error}", flush=True)
        figures.add(f"{file.name}: exit code", how.code, at_most=0)
        figures.add(f"{file.name}: size", size, "MB")
        figures.add(f"{file.name}: took", how.seconds, "s")
        figures.add(f"{file.name}: client's peak memory", how.peak_mb, "MB", at_most=CLIENT_MB)
    told[0].tell("sender beside exports", figures)
    peak_mb = status_mb(process_id(collector), "VmHWM")
    figures.add("collector's peak memory", peak_mb, "MB", at_most=PEAK_MB)


def _tables(folder: Path, figures: Figures) -> None:
    """The command for a store that nobody has open."""
    target = folder / "tables"
    how = run_command(
        ["collector", "export", str(target), "--data", str(folder / "data")], folder / "tables.log"
    )
    size = sum(file.stat().st_size for file in target.glob("*")) / 1e6
    if how.code:
        print(f"tables: {how.error}", flush=True)
    figures.add("tables: exit code", how.code, at_most=0)
    figures.add("tables: size", size, "MB")
    figures.add("tables: took", how.seconds, "s")
    figures.add("tables: peak memory", how.peak_mb, "MB", at_most=TABLES_MB)


def run(records: int, size: int, flags: Sequence[str], figures: Figures) -> None:
    """Measure everything once."""
    texts = Texts(random.Random(3))
    with tempfile.TemporaryDirectory(prefix="scouter-bench-") as name:
        folder = Path(name)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProgram(folder, "--profile", profile, *flags)
        collector.start()
        try:
            fill(collector, texts, records, size)
            figures.add(
                "collector's memory before", status_mb(process_id(collector), "VmRSS"), "MB"
            )
            _live(collector, folder, texts, figures)
        finally:
            collector.close()
        _tables(folder, figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--context", type=int, default=CONTEXT_BYTES)
    parser.add_argument("--memory-limit")
    asked = parser.parse_args()
    flags = ["--memory-limit", asked.memory_limit] if asked.memory_limit else []
    told = Figures("export", is_short=asked.short)
    run(asked.records // 30 if asked.short else asked.records, asked.context, flags, told)
    sys.exit(told.end())
