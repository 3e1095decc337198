"""The kernel's view of a collector: what it acknowledges over HTTP was synced before."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx

from tests.support.collector_process import CollectorProcess
from tests.support.components import require_program
from tests.support.load import Item, load_profile, span_request
from tests.support.processes import wait_until

CALLS: Final = "rename,renameat,renameat2,fsync,fdatasync,read,recvfrom,write,writev,sendto,sendmsg"
ITEMS: Final = [Item(number=number) for number in range(10)]
SYNCED: Final = re.compile(r"(?:fsync|fdatasync)\(\d+<([^>]*)>")
MADE: Final = re.compile(r'rename(?:at2?)?\(.*"([^"]*/log/\d+\.log)"')
DONE: Final = re.compile(r"(?:<\.\.\. )?f(?:data)?sync\b.* = 0$")


class TracedCollector(CollectorProcess):
    """A collector whose calls of the kernel are written down."""

    @property
    def calls(self) -> Path:
        """Where."""
        return self.folder / "calls"

    def command(self) -> list[str]:
        strace = require_program("strace", "strace")
        return [
            strace, "-f", "-y", "-s", "40", "-e", f"trace={CALLS}", "-o", str(self.calls),
            sys.executable, "-m",
        ]  # fmt: skip

    def events(self) -> Iterator[tuple[str, str]]:
        """In order: `asked` with a path, `made`, `synced` with a file, `answered` with a status."""
        begun: dict[str, str] = {}
        for line in self.calls.read_text(errors="replace").splitlines():
            thread, call = line.split(maxsplit=1)
            if found := SYNCED.match(call):
                begun[thread] = found[1]
            if found := MADE.match(call):
                yield "made", found[1]
            if DONE.match(call):  # in one line, or resumed
                yield "synced", begun.pop(thread)
            elif found := re.search(r'"POST (\S+)', call):
                yield "asked", found[1]
            elif found := re.search(r'"HTTP/1.1 (\d+)', call):
                yield "answered", found[1]


def test_every_answer_comes_after_its_sync(tmp_path: Path) -> None:
    """Records first: they wait for their spans, so that nothing is synced but for a request."""
    profile = load_profile().save_to_json(tmp_path / "load.json")
    waits = ("--quiet-s", "60s", "--foreign-settle-s", "60s", "--settle-s", "60s")
    collector = TracedCollector(tmp_path, "--profile", profile, *waits)
    collector.start()
    try:
        with httpx.Client(base_url=collector.url, timeout=120) as client:
            for item in ITEMS:
                client.post("/v1/records", json={"records": [item.record()]}).raise_for_status()
            headers = {"content-type": "application/x-protobuf"}
            for item in ITEMS:
                body = span_request([item])
                client.post("/v1/traces", content=body, headers=headers).raise_for_status()
    finally:
        collector.close()
    answered: list[str] = []
    path = ""
    synced: set[str] = set()
    for what, value in collector.events():
        if what == "asked":
            path = value
            synced.clear()
        elif what == "synced":
            synced.add(value)
        elif what == "answered":
            assert value == "200"
            assert any("/data/log/" in file for file in synced), (path, len(answered), synced)
            answered.append(path)
    assert answered == ["/v1/records"] * len(ITEMS) + ["/v1/traces"] * len(ITEMS)


def test_the_name_of_a_new_file_is_synced_before_the_answer(tmp_path: Path) -> None:
    """Else a power cut takes what was acknowledged. The log begins a file after each erasure."""
    profile = load_profile().save_to_json(tmp_path / "load.json")
    collector = TracedCollector(tmp_path, "--profile", profile)
    collector.start()
    log = tmp_path / "data" / "log"
    try:
        with httpx.Client(base_url=collector.url, timeout=120) as client:
            for item in ITEMS[:3]:
                client.post("/v1/records", json={"records": [item.record()]}).raise_for_status()
                before = set(log.glob("*.log"))
                client.post("/api/v1/erase", json={"record_uid": item.uid}).raise_for_status()
                wait_until(
                    lambda before=before: set(log.glob("*.log")) - before, what="another file"
                )
    finally:
        collector.close()
    unsynced, made, answered, path = False, 0, 0, ""
    for what, value in collector.events():
        if what == "made":
            unsynced, made = True, made + 1
        elif what == "synced":
            unsynced &= Path(value) != log
        elif what == "asked":
            path = value
        elif what == "answered" and path == "/v1/records":
            assert not unsynced
            answered += 1
    assert made >= 3
    assert answered == 3
