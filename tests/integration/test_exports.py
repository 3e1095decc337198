"""Exports of more than memory holds, from a collector that goes on taking what is sent."""

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final

import httpx
import pytest

from scouter.client.client import ScouterClient
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

_LIMIT: Final = "56MB"
"""Of DuckDB's memory; the contexts take more."""
_RECORDS, _SIZE, _BATCH = 1_500, 40_000, 50


def _body(name: str, count: int) -> bytes:
    """Records with contexts that do not compress; a hundredth of them are of half a megabyte."""
    rng = random.Random(name)
    records = [
        {"uid": f"{name}-{n}", "profile": "nobody",
         "context": rng.randbytes(250_000 if n == 1 else _SIZE // 2).hex()}
        for n in range(count)
    ]  # fmt: skip
    return json.dumps({"records": records}).encode()


def _post(client: httpx.Client, body: bytes) -> int:
    headers = {"Content-Type": "application/json"}
    return client.post("/v1/records", content=body, headers=headers).status_code


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """Holds 60 MB of records that wait."""
    folder = tmp_path_factory.mktemp("exports")
    started = CollectorProcess(folder, "--memory-limit", _LIMIT, "--deadline-s", "1h")
    started.start()
    try:
        with httpx.Client(base_url=started.url, timeout=120) as client:
            for start in range(0, _RECORDS, _BATCH):
                assert _post(client, _body(f"stored-{start}", _BATCH)) == 200
        wait_until(lambda: started.records()["accepted"] == _RECORDS, what="all are stored")
        yield started
    finally:
        started.close()


def _stored(lines: bytes) -> Counter[str]:
    """The number of copies of each record that was stored before."""
    uids: Iterator[str] = (json.loads(line)["uid"] for line in lines.splitlines())
    return Counter(uid for uid in uids if uid.startswith("stored"))


_ALL: Final = Counter(
    f"stored-{start}-{n}" for start in range(0, _RECORDS, _BATCH) for n in range(_BATCH)
)


def test_two_exports_at_once_cost_no_sender_anything(collector: CollectorProcess) -> None:
    """Records come one request after the other meanwhile, and each is taken at once."""
    done = threading.Event()

    def send() -> Counter[int]:
        statuses = Counter[int]()
        with httpx.Client(base_url=collector.url, timeout=120) as client:
            while not done.is_set():
                statuses[_post(client, _body(f"meanwhile-{statuses.total()}", 1))] += 1
        return statuses

    def export(form: str) -> bytes:
        with ScouterClient(collector.url) as client:
            return b"".join(client.export("records"))

    with ThreadPoolExecutor(3) as pool:
        sent = pool.submit(send)
        try:
            files = list(pool.map(export, ("one", "other")))
        finally:
            done.set()
    assert set(sent.result()) == {200}
    for file in files:
        assert len(file) > 60_000_000
        assert _stored(file) == _ALL


def test_an_export_goes_on_after_the_collector_was_killed(collector: CollectorProcess) -> None:
    """At the record where it was, and as of when it began."""
    with ScouterClient(collector.url) as client:
        parts = client.export("records")
        found = [next(parts), next(parts)]
        collector.kill()
        collector.start()
        with httpx.Client(base_url=collector.url, timeout=120) as sender:
            assert _post(sender, _body("behind", 3)) == 200
        found += parts
    assert _stored(b"".join(found)) == _ALL
    assert b'"behind-' not in b"".join(found)


def test_few_whole_files_are_written_at_a_time(collector: CollectorProcess) -> None:
    """A client that does not read keeps a part of its answer in memory; parts are for everybody."""
    path = "/api/v1/export/records"
    with httpx.Client(base_url=collector.url, timeout=120) as client:
        with ExitStack() as stack:
            answers = [stack.enter_context(client.stream("GET", path)) for _ in range(4)]
            assert [each.status_code for each in answers] == [200] * 4
            refused = client.get(path)
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
            assert client.get(path, params={"part_bytes": 1}).status_code == 200

        def is_free() -> bool:
            with client.stream("GET", path) as answer:
                return answer.status_code == 200

        wait_until(is_free, what="those that went away have no place any more")
