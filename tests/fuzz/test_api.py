"""Every route, asked what its document says can be asked and what it says cannot (schemathesis).

Nothing is answered with a 5xx, and every answer is one that the document has. Not looked at: that
a text which is no time or cursor is refused (a JSON schema cannot say what is one), that a record
among others that cannot be used is named in an answer of 200, and wrong tokens, which are slowed
down and have a test of their own.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from tests.support.collector_process import CollectorProcess

SECONDS: Final = int(os.environ.get("SCOUTER_FUZZ_SECONDS", "12"))
"""For each way of asking; `make bench` takes longer."""


UNCHECKED: Final = "positive_data_acceptance,negative_data_rejection,ignored_auth"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    collector = CollectorProcess(tmp_path, "--profile", "agent_health", "--deadline-s", "1s")
    yield collector
    collector.close()


@pytest.mark.parametrize("has_token", [False, True])
def test_no_answer_is_a_fault(collector: CollectorProcess, has_token: bool) -> None:
    flags, unchecked = list[str](), f"{UNCHECKED},missing_required_header"
    if has_token:
        _, text = TokenFile(collector.folder / "data").create("", Scope, "default")
        flags, unchecked = ["-H", f"Authorization: Bearer {text}"], UNCHECKED
    collector.start()
    program = Path(sys.executable).with_name("schemathesis")
    done = subprocess.run(
        [program, "run", f"{collector.url}/openapi.json", *flags, "--checks", "all",
         "--exclude-checks", unchecked, "--max-time", str(SECONDS), "--no-color",
         "--continue-on-failure", "--warnings", "off"],
        cwd=collector.folder, capture_output=True, text=True, timeout=SECONDS + 90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:]
    assert "Test cases" in done.stdout
    log = (collector.folder / "collector.log").read_text()
    assert "Traceback" not in log
    assert collector.stop() == 0
