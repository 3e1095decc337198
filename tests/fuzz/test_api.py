"""Every route, asked what its document says can be asked and what it says cannot (schemathesis).

Nothing is answered with a 5xx, and every answer is one that the document has. Not looked at: that
a text which is no time or cursor is refused (a JSON schema cannot say what is one), that a record
among others that cannot be used is named in an answer of 200, and tokens that are wrong or not
there, which are slowed down and have a test of their own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.model.otlp import encode_request
from tests.contracts.store_data import TRACE, span
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

SECONDS: Final = int(os.environ.get("SCOUTER_FUZZ_SECONDS", "5"))
"""For each way of asking; `make bench` takes longer."""


UNCHECKED: Final = (
    "positive_data_acceptance,negative_data_rejection,ignored_auth,missing_required_header"
)


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path, "--profile", "agent_health", "--deadline-s", "1s")
    yield collector
    collector.close()


def fill(collector: CollectorProcess, headers: dict[str, str]) -> None:
    """Let there be something of everything that lists show."""
    spans = [span(n, name=f"chat {n}", attributes={"gen_ai.request.model": "m"}) for n in (1, 2)]
    records: list[object] = [
        {"uid": f"u{n}", "profile": "agent_health", "trace_id": TRACE, "session_id": "s",
         "context": {"answer": n}}
        for n in range(3)
    ]  # fmt: skip
    half = {"uid": "half", "profile": "agent_health", "context": {"\ud800": "\ud83d"}}
    with httpx.Client(base_url=collector.url, headers=headers, timeout=120) as client:
        media = {"Content-Type": "application/x-protobuf"}
        body = encode_request(spans).SerializeToString()
        assert client.post("/v1/traces", content=body, headers=media).status_code == 200
        text = json.dumps({"records": [*records, half, {"context": 1}]})
        media = {"Content-Type": "application/json"}
        assert client.post("/v1/records", content=text, headers=media).json()["accepted"] == 4
        wait_until(
            lambda: client.get("/api/v1/conservation").json()["records"]["evaluated"] == 4,
            what="four evaluations",
        )


@pytest.mark.parametrize("caller", ["all scopes", "a stranger"])
def test_no_answer_is_a_fault(collector: CollectorProcess, caller: str) -> None:
    """With a token of every scope, as anybody is where there are no tokens, and without one."""
    _, text = TokenFile(collector.folder / "data").create("", Scope, "default")
    headers = {"Authorization": f"Bearer {text}"}
    collector.start()
    fill(collector, headers)
    document = collector.folder / "openapi.json"
    document.write_text(
        httpx.get(f"{collector.url}/openapi.json", headers=headers, timeout=120).text
    )
    flags = [] if caller == "a stranger" else [f"-H{k}: {v}" for k, v in headers.items()]
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [program, "run", document, "--url", collector.url, *flags, "--checks", "all",
         "--exclude-checks", UNCHECKED, "--max-time", str(SECONDS), "--no-color",
         "--continue-on-failure", "--warnings", "off"],
        cwd=collector.folder, capture_output=True, text=True, timeout=SECONDS + 90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    assert "Test cases" in done.stdout
    log = (collector.folder / "collector.log").read_text()
    assert "Traceback" not in log
    assert collector.stop() == 0
