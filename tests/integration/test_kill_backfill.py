"""`kill -9` while the past is evaluated: the same command does the rest, and nothing twice."""

import threading
import time
from collections import Counter

import httpx
from typer.testing import CliRunner

from scouter.cli.app import make_app
from scouter.client.client import ScouterClient
from scouter.client.connection import Retry
from scouter.errors import ScouterError
from scouter.model.otlp import encode_request
from tests.collector.worker.test_backfill import DAY_NS, TOGETHER, moved, trace_id, watching
from tests.collector.worker.test_watch import ANSWERED, trace
from tests.conftest import StartCollector
from tests.support.processes import wait_until

TRACES = 400
CONVERSATIONS = 40


def test_a_killed_collector_has_each_evaluation_once(start_collector: StartCollector) -> None:
    collector = start_collector("--quiet-s", "10ms")
    now_ns = time.time_ns()
    for n in range(TRACES):
        said = trace(trace_id(n + 1), "four days", f"c{n % CONVERSATIONS}")
        body = encode_request(moved(said, now_ns - DAY_NS - n * 10**9)).SerializeToString()
        httpx.post(
            f"{collector.url}/v1/traces", content=body,
            headers={"Content-Type": "application/x-protobuf"}, timeout=120,
        ).raise_for_status()  # fmt: skip
    wait_until(
        lambda: collector.get("/api/v1/conservation")["spans"]["stored"] == 4 * TRACES,
        what="all spans are stored",
    )
    with ScouterClient(collector.url) as client:
        uid = client.register_profile(watching(ANSWERED, TOGETHER)).uid
    stored = [0]

    def fill() -> None:
        """Page by page, as the command does, until the collector is gone."""
        with ScouterClient(collector.url, retry=Retry(tries=1)) as client:
            cursor: str | None = None
            try:
                while True:
                    page = client.reevaluate(
                        uid, missing=True, dry_run=False, limit=20, cursor=cursor
                    )
                    stored[0] += page.stored
                    cursor = page.next_cursor
                    if cursor is None:
                        return
            except ScouterError:
                return

    filling = threading.Thread(target=fill)
    filling.start()
    wait_until(lambda: stored[0] >= 100, what="a part is stored")
    collector.kill()
    filling.join()
    collector.start()
    before = collector.records()["evaluated"]
    assert before >= 100
    words = ["reevaluate", "--profile", uid, "--apply", "--url", collector.url]
    done = CliRunner().invoke(make_app(), words)
    assert done.exit_code == 0, done.output
    items = collector.evaluations(limit="1000")
    scopes = Counter(item["scope"] for item in items)
    assert scopes == {"record": TRACES, "session": CONVERSATIONS}
    assert {(item["revision"], item["is_backfill"]) for item in items} == {(1, True)}
    assert len({item["uid"] for item in items}) == len(items)
    sheet = collector.records()
    assert (sheet["accepted"], sheet["evaluated"], sheet["waiting"]) == (TRACES, TRACES, 0)
    assert collector.get("/api/v1/alerts")["items"] == []
