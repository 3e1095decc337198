"""The page on a full store: the time and bytes of each view, and a trace of 30,000 spans.

`python -m tests.bench.page` stores 5 million spans of one day and a million evaluations
(`--spans N`, `--evaluations N`), starts a collector on them and asks for each view forty times.
A browser then opens a trace of 30,000 spans (`--long N`). `--data DIR` keeps the store, or takes
one that was kept. `--short` is for tests.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx

from scouter.model.otlp import encode_request
from tests.bench.api import fill
from tests.bench.collector import make_profile
from tests.bench.figures import Figures
from tests.support.browser import browser_page
from tests.support.collector_process import CollectorProcess
from tests.support.page_story import long_trace

_LONG: Final = "10" * 16
_PROTOBUF: Final = {"Content-Type": "application/x-protobuf"}
_FIRST_KB, _LATER_KB, _OPEN_MS = 250, 30, 1_500
_P50_MS, _P95_MS = 50, 150
_TRACE_VIEW: Final = "trace"
"""Its rows are data of a trace; they are no part of what a view may weigh."""
_PAINT_MS: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
_WEIGHT: Final = """
performance.getEntries().filter(each => each.encodedBodySize)
  .reduce((sum, each) => sum + each.encodedBodySize, 0)
"""


def views(http: httpx.Client) -> Iterator[tuple[str, str]]:
    """Name and address of each view, of things that are stored."""
    (evaluation,) = http.get("/api/v1/evaluations", params={"limit": 1}).json()["items"]
    task = evaluation["tasks"][0]["task_id"]
    yield "overview", "/"
    yield "task", f"/task?profile={evaluation['profile']}&task={task}"
    yield _TRACE_VIEW, f"/traces/{evaluation['trace_id']}"
    for name in ("evaluations", "records", "traces", "conversations", "alerts", "health"):
        yield name, f"/{name}"


def measure(collector: CollectorProcess, options: Any, figures: Figures) -> None:
    """Ask for everything, then let a browser open it."""
    with httpx.Client(base_url=collector.url, timeout=60) as http:
        _send_long(http, options.long)
        for name, address in views(http):
            took_ms: list[float] = []
            size = 0
            for _ in range(options.times):
                began = time.perf_counter()
                answer = http.get(address)
                took_ms.append((time.perf_counter() - began) * 1000)
                if answer.is_success:
                    size = len(answer.content)
            if not size:
                print(f"{name} is not there", flush=True)
                continue
            ordered = sorted(took_ms)
            figures.add(f"{name}: p50", statistics.median(ordered), "ms", at_most=_P50_MS)
            figures.add(f"{name}: p95", ordered[int(len(ordered) * 0.95)], "ms", at_most=_P95_MS)
            most = None if name == _TRACE_VIEW else _LATER_KB
            figures.add(f"{name}: page", size / 1000, "kB", at_most=most)
    with browser_page(collector.url) as (page, _):
        page.goto("/", wait_until="networkidle")
        figures.add("first visit", page.evaluate(_WEIGHT) / 1000, "kB", at_most=_FIRST_KB)
        figures.add("first paint", page.evaluate(_PAINT_MS), "ms", at_most=300)
        page.goto(f"/traces/{_LONG}")
        waterfall = page.locator(".waterfall[data-ready]")
        waterfall.wait_for()
        figures.add("long trace: first rows", page.evaluate(_PAINT_MS), "ms", at_most=_OPEN_MS)
        ready_ms = float(waterfall.get_attribute("data-ready") or "nan")
        figures.add("long trace: all rows", ready_ms, "ms")
        figures.add("long trace: rows in the document", page.locator(".wf-row").count())


def _send_long(http: httpx.Client, spans: int) -> None:
    crew = list(long_trace(spans, _LONG, time.time_ns() - 3600 * 10**9))
    for begin in range(0, spans, 5_000):
        body = encode_request(crew[begin : begin + 5_000]).SerializeToString()
        http.post("/v1/traces", content=body, headers=_PROTOBUF).raise_for_status()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--spans", type=int, default=5_000_000)
    parser.add_argument("--evaluations", type=int, default=1_000_000)
    parser.add_argument("--long", type=int, default=30_000, help="spans of the long trace")
    parser.add_argument("--times", type=int, default=40, help="that each view is asked for")
    parser.add_argument("--data", type=Path, help="folder of a store that is kept")
    parser.add_argument("--short", action="store_true", help="a small store")
    options = parser.parse_args()
    if options.short:
        options.spans, options.evaluations, options.long, options.times = 5_000, 500, 2_500, 3
    with tempfile.TemporaryDirectory(prefix="scouter-page-") as name:
        folder = options.data or Path(name)
        if not (folder / "now_ns").exists():
            now_ns = time.time_ns()
            fill(folder / "data", options.spans, options.evaluations, now_ns)
            (folder / "now_ns").write_text(str(now_ns))
        figures = Figures("page", is_short=options.short)
        profile = make_profile().save_to_json(folder / "bench.json")
        collector = CollectorProcess(folder, "--profile", profile)
        collector.start()
        try:
            measure(collector, options, figures)
        finally:
            collector.close()
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
