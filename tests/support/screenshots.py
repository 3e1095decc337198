"""Pictures of every view: `python -m tests.support.screenshots [FOLDER]` makes those of the docs.

It tells a day of `page_story` to a collector of its own and photographs each view in light, in dark
and as wide as a phone (390 px). FOLDER is docs/images/page; `--only NAME` makes some of them;
`--stay` leaves the collector open.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.support.jumping_clock import JumpingClock

_STEPS: Final = 48
_STEP_S: Final = 1800
_TRIPS: Final = 20
_LONG: Final = "10" * 16
_SIZES: Final = {"light": (1360, 900, False), "dark": (1360, 900, True), "phone": (390, 844, False)}


@contextmanager
def told_collector(folder: Path, spans: int = 30_000) -> Generator[Any]:
    """A collector at the end of the story's day, and its address.

    Args:
        folder: Of its data; the clock's file lies there, too.
        spans: Of a long trace beside the story.
    """
    ahead = folder / "ahead"
    JumpingClock(ahead).install()
    # Behind the clock, which has to be there before anything else is.
    from tests.collector.conftest import Service
    from tests.support.page_story import PRICES, save_profile
    from tests.support.served import serve

    prices = folder / "prices.yaml"
    prices.write_text(PRICES, encoding="utf-8")
    ahead.write_text(f"{-_STEP_S * _STEPS}")
    service = Service(folder, profile=[str(save_profile(folder))], price_file=str(prices))
    try:
        _tell(service, ahead, spans)
        with serve(service.collector.app) as url:
            yield service, url
    finally:
        service.stop()


def _tell(service: Any, ahead: Path, spans: int) -> None:
    from scouter.model.otlp import encode_request
    from tests.support.page_story import Story, long_trace
    from tests.support.processes import wait_until

    story, sent = Story(), 0
    for step in range(_STEPS):
        ahead.write_text(f"{-_STEP_S * (_STEPS - 1 - step) - 60}")
        version = "1.4.0" if step < _STEPS * 2 // 3 else "1.5.0"
        sent += story.tell(service, version, _TRIPS, time.time_ns())
        service.wait_for(sent)
    ahead.write_text("0")
    crew = list(long_trace(spans, _LONG, time.time_ns() - 900 * 10**9))
    headers = {"Content-Type": "application/x-protobuf"}
    for begin in range(0, spans, 5_000):
        body = encode_request(crew[begin : begin + 5_000]).SerializeToString()
        assert service.http.post("/v1/traces", content=body, headers=headers).is_success
    wait_until(lambda: service.get("/api/v1/alerts")["drift"], what="an alert")


def views(service: Any) -> Mapping[str, str]:
    """Name and address of every view."""
    (alert, *_) = service.get("/api/v1/alerts")["drift"]
    failed = service.get("/api/v1/evaluations", outcome="failed", limit=1)["items"][0]
    at = next(task for task in failed["tasks"] if task["span_ids"])["span_ids"][0]
    return {
        "overview": "/",
        "task": "/task?profile=trip_desk&task=seat_confirmed",
        "profile-tasks": "/profile/tasks?profile=trip_desk",
        "alert": f"/alerts/{alert['alert_id']}",
        "alerts": "/alerts",
        "conversation": f"/conversations/{failed['session_id'] or failed['uid']}",
        "record": f"/records/{failed['uid']}",
        "trace": f"/traces/{failed['trace_id']}?span={at}",
        "long-trace": f"/traces/{_LONG}",
        "evaluations": "/evaluations?outcome=failed",
        "records": "/records",
        "traces": "/traces",
        "conversations": "/conversations",
        "compare": "/compare?profile=trip_desk",
        "labels": "/labels",
        "label-queue": "/labels/queue?profile=trip_desk&task=seat_confirmed&rater=ada",
        "agreement": "/labels/agreement?profile=trip_desk&task=seat_confirmed",
        "health": "/health",
    }


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    docs = Path(__file__).parents[2] / "docs" / "images" / "page"
    parser.add_argument("folder", type=Path, nargs="?", default=docs)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--sizes", nargs="*", default=list(_SIZES))
    parser.add_argument("--stay", action="store_true")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    from tests.support.browser import browser_page

    with tempfile.TemporaryDirectory() as data, told_collector(Path(data)) as (service, url):
        shown = views(service)
        for size in given.sizes:
            width, height, dark = _SIZES[size]
            with browser_page(url, width=width, height=height, dark=dark) as (page, seen):
                for name, address in shown.items():
                    if given.only and name not in given.only:
                        continue
                    page.goto(address)
                    page.wait_for_load_state("networkidle")
                    page.screenshot(path=given.folder / f"{name}-{size}.png", full_page=True)
                    problems = [*seen.problems, *page.evaluate("window.violations")]
                    sys.stdout.write(f"{name}-{size}.png {problems or ''}\n")
                    seen.problems.clear()
        if given.stay:
            sys.stdout.writelines(f"{url}{address}\n" for address in shown.values())
            sys.stdout.flush()
            threading.Event().wait()


if __name__ == "__main__":
    main()
