"""`docs/tutorial.md` runs as written, from the empty folder to the span at fault."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

PAGE = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
ALERT = "alert of profile 'shop' firing"


def blocks(kind: str) -> Iterator[str]:
    return (text for name, text in BLOCKS if name == kind)


def test_every_block_does_as_the_page_says(
    tmp_path: Path, start_collector: Callable[..., CollectorProcess]
) -> None:
    """The bad release is stopped with 1; in production the alert fires, and the trace shows why."""
    for text in [*blocks("python"), *blocks("yaml")]:
        (tmp_path / text.split()[1]).write_text(text, encoding="utf-8")
    check, baseline, break_it, gate, serve, tasks, failed, trace = blocks("sh")
    passed, regressed, warning, tree = blocks("text")
    collector: CollectorProcess | None = None

    def run(commands: str, code: int = 0) -> str:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "SCOUTER_"))}
        url = collector.url if collector else "http://127.0.0.1:9"
        programs = Path(sys.executable).parent
        done = subprocess.run(
            ["bash", "-e", "-c", commands], cwd=tmp_path, timeout=120, check=False,
            capture_output=True, text=True,
            env={**kept, "PATH": f"{programs}:{kept['PATH']}", "COLUMNS": "200",
                 "SCOUTER_JUDGE_CACHE": "none", "SCOUTER_URL": url},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    run(check)
    assert passed.strip() in run(baseline)
    run(break_it)
    screen = run(gate, code=1).splitlines()
    assert [line for line in regressed.splitlines() if "…" not in line and line not in screen] == []
    steps = regressed.splitlines()[regressed.splitlines().index("Next") :]
    assert screen[-len(steps) :] == steps
    assert (tmp_path / "report.html").exists()

    collector = start_collector("--profile", tmp_path / "shop.yaml")
    run(serve)
    collector.wait_evaluated(60)
    log = collector.folder / "collector.log"
    wait_until(lambda: ALERT in log.read_text("utf-8"), what="the alert")
    assert ALERT in warning
    second = "firing: shop: more records fail in version 2 of shop since"
    wait_until(lambda: second in log.read_text("utf-8"), what="the alert about the version")
    assert second in warning

    rates = re.findall(r"^shop +\w+ +(\w+) +(\d+) +(\d+) ", run(tasks), flags=re.MULTILINE)
    assert sorted(rates) == [
        ("names_a_day", "15", "15"),
        ("names_a_day", "30", "0"),
        ("no_errors", "15", "15"),
        ("no_errors", "30", "0"),
    ]
    (trace_id,) = re.findall(r"\b[0-9a-f]{32}\b", run(failed))
    shown = run(re.sub(r"\b[0-9a-f]{32}\b", trace_id, trace))
    found = re.findall(r"^  (find_order) .*ERROR KeyError.*\n.*✗ (no_errors): failed", shown, re.M)
    assert found == [("find_order", "no_errors")]
    assert re.findall(r"^  (find_order) .*ERROR KeyError.*\n.*✗ (no_errors): failed", tree, re.M)


def test_the_alert_fires_at_the_first_rate_that_chance_does_not_explain() -> None:
    """Wilson's upper bound, by hand, at the counts of the page."""

    def upper(k: int, n: int, z: float = 1.959964) -> float:
        p = k / n
        root = z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
        return (p + z * z / (2 * n) + root) / (1 + z * z / n)

    assert upper(23, 30) < 0.9 <= upper(24, 30)
    assert "23 of 30 is 77 %" in PAGE
    assert pytest.approx(0.8821, abs=1e-4) == upper(23, 30)
