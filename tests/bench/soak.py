"""A collector under a steady load: does its memory stay flat?

`python -m tests.bench.soak` sends 1,000 spans/s for an hour, `--minutes 10` for ten minutes, and
`--short` for a few seconds. Spans are 2.8 kB, 100 to a request; five tasks judge a record of every
trace of ten. Memory is that of the collector's process, once a second.

The warm-up is 3 million spans as fast as they are taken, and ten seconds: until then DuckDB fills
the memory that it may use. Of what follows, a line of least squares gives the growth per hour. A
part of it is no leak: for each million spans that are stored DuckDB knows 0.4 MB of row groups.
"""

import argparse
import http.client
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.collector import (
    PAUSE_S,
    PEAK_MB,
    Request,
    Texts,
    make_profile,
    make_requests,
    process_id,
    status_mb,
)
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram

RATE: Final = 1_000
PER_REQUEST: Final = 100
_WARM_UP: Final = 3_000_000
_PAUSE_S: Final = 10


def requests() -> Iterator[Request]:
    """Requests without end, a thousand spans made at a time."""
    rng = random.Random(5)
    texts = Texts(rng)
    while True:
        yield from make_requests(rng, texts, RATE, PER_REQUEST)[0]


def growth_per_hour(seconds: Sequence[float], megabytes: Sequence[float]) -> float:
    """Slope of the line of least squares, as a share of the mean per hour.

    Args:
        seconds: When each value was read; at least two that differ.
        megabytes: The values.
    """
    n = len(seconds)
    mean_s, mean_mb = sum(seconds) / n, sum(megabytes) / n
    spread = sum((s - mean_s) ** 2 for s in seconds)
    slope = sum((s - mean_s) * (m - mean_mb) for s, m in zip(seconds, megabytes, strict=True))
    return slope / spread * 3600 / mean_mb


def run(figures: Figures, minutes: float, warm_up: int = _WARM_UP) -> None:
    """Send and measure.

    Args:
        figures: Told what was measured.
        minutes: How long.
        warm_up: Spans to send before.
    """
    with tempfile.TemporaryDirectory(prefix="scouter-soak-") as name:
        folder = Path(name)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProgram(folder, "--profile", profile, "--foreign-settle-s", "7s")
        collector.start()
        try:
            _measure(collector, figures, Sender(collector.address), minutes, warm_up)
        finally:
            collector.close()


class Sender:
    """Sends requests one after the other, and knows which one took longest.

    Args:
        address: Of the collector.
    """

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=120)
        self._requests = requests()
        self._began = time.monotonic()
        self.spans = 0
        self.worst = (0.0, 0.0, "")
        """How long, when, and where to."""

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began

    def send(self) -> None:
        """Send the next one and wait for its answer."""
        path, media, body = next(self._requests)
        asked = self.seconds
        self._connection.request("POST", path, body, {"content-type": media})
        answer = self._connection.getresponse()
        text = answer.read()
        assert answer.status == 200, text
        self.worst = max(self.worst, (self.seconds - asked, asked, path))
        self.spans += PER_REQUEST if path == "/v1/traces" else 0

    def begin_again(self) -> None:
        """Count and measure from now on."""
        self._began, self.spans, self.worst = time.monotonic(), 0, (0.0, 0.0, "")

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def _measure(
    collector: CollectorProgram, figures: Figures, sender: Sender, minutes: float, warm_up: int
) -> None:
    while sender.spans < warm_up:
        sender.send()
    memory = status_mb(process_id(collector), "VmRSS")
    print(f"{sender.spans:,} spans in {sender.seconds:.0f} s before: {memory:.0f} MB", flush=True)
    if warm_up:
        time.sleep(_PAUSE_S)
    sender.begin_again()
    seconds: list[float] = []
    megabytes: list[float] = []
    while (now := sender.seconds) < minutes * 60:
        if int(now * RATE) - sender.spans < PER_REQUEST:
            time.sleep(0.01)
            continue
        sender.send()
        if not seconds or now - seconds[-1] >= 1:
            seconds.append(now)
            megabytes.append(status_mb(process_id(collector), "VmRSS"))
            if len(seconds) % 60 == 1:
                told = f"{sender.spans:,} spans, {megabytes[-1]:.0f} MB"
                print(f"{now / 60:5.1f} min: {told}", flush=True)
    sender.close()
    growth = growth_per_hour(seconds, megabytes)
    peak = status_mb(process_id(collector), "VmHWM")
    took, when, where = sender.worst
    print(
        f"{sender.spans:,} spans in {minutes:g} min: memory {min(megabytes):.0f} to "
        f"{max(megabytes):.0f} MB after the warm-up, growth {growth:+.1%} per hour, "
        f"peak {peak:.0f} MB, worst request {took:.2f} s, {where} after {when / 60:.1f} min"
    )
    figures.add("memory after the warm-up, median", statistics.median(megabytes), "MB")
    figures.add("growth per hour after the warm-up", 100 * growth, "%", at_most=1)
    figures.add("peak memory", peak, "MB", at_most=PEAK_MB)
    figures.add("worst request", took, "s", at_most=PAUSE_S)
    figures.add("sent", sender.spans / seconds[-1], "spans/s")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--short", action="store_true", help="a few seconds")
    options = parser.parse_args()
    figures = Figures("soak", is_short=options.short)
    if options.short:
        run(figures, 0.1, warm_up=2_000)
    else:
        run(figures, options.minutes)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
