"""The date of the collector's machine, or of the agent's, is set by hours: nothing is lost."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT
from tests.support.jumping_collector import JumpingCollector
from tests.support.kill_run import rates_agree, report_of, sheet_agrees, wait_settled
from tests.support.load import HttpDelivery, Item, load_profile, span_requests
from tests.support.processes import wait_until
from tests.support.traced_agent import helper_profile

HOUR = 3600
JUMPS = pytest.mark.parametrize("hours", [12, -12], ids=["ahead", "back"])


@JUMPS
def test_the_collectors_date_jumps(tmp_path: Path, hours: int) -> None:
    """Before it, while a record waits, and after it; records older than a day are taken out.

    The waits are those of the monotonic clock: neither a deadline nor a quiet period ends early,
    and none goes on for hours; nor does the one for spans that come after the evaluation.
    """
    profile = load_profile().save_to_json(tmp_path / "load.json")
    collector = JumpingCollector(tmp_path, "--profile", profile, "--retention-days", "1")
    collector.start()
    delivery = HttpDelivery(lambda: collector.url)
    items = [Item(number=number) for number in range(32)]
    try:
        delivery(items[:10])
        for item in items[30:]:  # three of four spans: the evaluation is wrong, and revised later
            delivery.client.post(f"{collector.url}/v1/records", json={"records": [item.record()]})
            send_spans(delivery, slice(3), item)
        collector.wait_evaluated(12)
        send_spans(delivery, slice(3, 4), items[30])
        wait_until(lambda: is_passed(collector, items[30]), what="a revision")
        delivery.client.post(f"{collector.url}/v1/records", json={"records": [items[10].record()]})
        wait_until(lambda: collector.records()["waiting"] == 1, what="a record waits")
        collector.set_ahead(hours * HOUR)
        send_spans(delivery, slice(3, 4), items[31])
        delivery(items[11:20])
        collector.wait_evaluated(21)
        wait_until(lambda: is_passed(collector, items[31]), what="another revision")
        assert collector.records()["waiting"] == 1
        delivery(items[10:11])
        collector.wait_evaluated(22)
        collector.set_ahead(0)
        delivery(items[20:30])
        wait_settled(collector, 32)
        times = [datetime.fromisoformat(item["evaluated_at"]) for item in collector.evaluations()]
        assert timedelta(hours=11.9) < max(times) - min(times) < timedelta(hours=12.1)
        report = report_of(collector, items, kills=0)
        assert report.is_clean, report
        assert collector.records()["erased"] == 0
    finally:
        delivery.close()
        collector.close()


def send_spans(delivery: HttpDelivery, part: slice, item: Item) -> None:
    """Send some spans of an item."""
    for body in span_requests(item)[part]:
        headers = {"content-type": "application/x-protobuf"}
        answer = delivery.client.post(f"{delivery.url()}/v1/traces", content=body, headers=headers)
        answer.raise_for_status()


def is_passed(collector: CollectorProcess, item: Item) -> bool:
    """Whether the visible evaluation on an item has passed: it was made of all spans."""
    (found,) = collector.evaluations(record_id=item.uid)
    return bool(found["outcome"] == "passed")


def test_the_agents_date_jumps(tmp_path: Path) -> None:
    """In the middle of a trace, too: each record meets its spans, and no send waits for hours."""
    profile = helper_profile().save_to_json(tmp_path / "helper.json")
    collector = CollectorProcess(tmp_path, "--profile", profile)
    collector.start()
    ahead = tmp_path / "ahead"
    code = """
import sys
from pathlib import Path
from scouter.transport.config import HttpConfig
from tests.support.traced_agent import helper_profile, traced_agent
uri, ahead = sys.argv[1:]
with traced_agent(HttpConfig(server_uri=uri), helper_profile()) as agent:
    agent.answer("before")
    for hours in (12, -12):
        Path(ahead).write_text(str(hours * 3600))
        agent.answer(f"{hours} hours ahead")
        agent._tracer.start_span("unrelated").end()
        Path(ahead).write_text("0")
        agent.answer(f"after {hours} hours")
    agent.flush()
"""
    script = tmp_path / "agent_script.py"
    script.write_text(code)
    try:
        subprocess.run(
            [sys.executable, "-m", "tests.support.jumping_clock", ahead, "agent_script",
             collector.url, ahead],
            env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, cwd=ROOT, check=True, timeout=120,
        )  # fmt: skip
        names = ["before", *(f"{n} hours ahead" for n in (12, -12))]
        names += [f"after {n} hours" for n in (12, -12)]
        collector.wait_evaluated(len(names))
        found = collector.evaluations()
        assert {item["record_id"]: item["outcome"] for item in found} == dict.fromkeys(
            names, "passed"
        )
        assert {item["completeness"] for item in found} == {"complete"}
        assert sheet_agrees(collector, 5, 5 * 4 + 2)  # and two spans that belong to none of them
        assert rates_agree(collector, found)
    finally:
        collector.close()
