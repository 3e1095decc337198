"""A collector under a steady load: does its memory stay flat?

`python -m tests.bench.soak` sends 1,000 spans/s for an hour, `--minutes 10` for ten minutes, and
`--short` for a few seconds. Spans are 2.8 kB, 100 to a request; five tasks judge a record of every
trace of ten. Memory is that of the collector's process, once a second. The first fifth of the time
is the warm-up; of the rest, a line of least squares gives the growth per hour.
"""

import argparse
import http.client
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.bench.collector import (
    Request,
    Texts,
    make_profile,
    make_requests,
    process_id,
    status_mb,
)
from tests.support.collector_process import CollectorProcess

RATE: Final = 1_000
PER_REQUEST: Final = 100
_WARM_UP: Final = 0.2


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


def run(minutes: float) -> float:
    """Send and measure.

    Returns:
        The growth per hour after the warm-up, as a share.
    """
    with tempfile.TemporaryDirectory(prefix="scouter-soak-") as name:
        folder = Path(name)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProcess(folder, "--profile", profile, "--foreign-settle-s", "7s")
        collector.start()
        try:
            return _measure(collector, minutes)
        finally:
            collector.close()


def _measure(collector: CollectorProcess, minutes: float) -> float:
    connection = http.client.HTTPConnection(collector.address, timeout=120)
    seconds: list[float] = []
    megabytes: list[float] = []
    sent = 0
    worst: tuple[float, float, str] = (0.0, 0.0, "")  # how long, when, where
    began = time.monotonic()
    source = requests()
    while (now := time.monotonic() - began) < minutes * 60:
        due = int(now * RATE) - sent
        if due < PER_REQUEST:
            time.sleep(0.01)
            continue
        path, media, body = next(source)
        asked = time.monotonic()
        connection.request("POST", path, body, {"content-type": media})
        answer = connection.getresponse()
        text = answer.read()
        worst = max(worst, (time.monotonic() - asked, now, path))
        assert answer.status == 200, text
        sent += PER_REQUEST if path == "/v1/traces" else 0
        if not seconds or now - seconds[-1] >= 1:
            seconds.append(now)
            megabytes.append(status_mb(process_id(collector), "VmRSS"))
            if len(seconds) % 60 == 1:
                print(f"{now / 60:5.1f} min: {sent:,} spans, {megabytes[-1]:.0f} MB", flush=True)
    connection.close()
    first = next(i for i, s in enumerate(seconds) if s >= seconds[-1] * _WARM_UP)
    growth = growth_per_hour(seconds[first:], megabytes[first:])
    peak = status_mb(process_id(collector), "VmHWM")
    print(
        f"{sent:,} spans in {minutes:g} min: memory {min(megabytes[first:]):.0f} to "
        f"{max(megabytes[first:]):.0f} MB after the warm-up, growth {growth:+.1%} per hour, "
        f"peak {peak:.0f} MB, worst request {worst[0]:.2f} s, "
        f"{worst[2]} after {worst[1] / 60:.1f} min"
    )
    return growth


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--short", action="store_true", help="a few seconds")
    options = parser.parse_args()
    run(0.1 if options.short else options.minutes)


if __name__ == "__main__":
    main()
