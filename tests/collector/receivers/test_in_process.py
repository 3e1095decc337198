"""An agent in the collector's own process."""

from dataclasses import replace
from pathlib import Path

import pytest

from collector.receivers import in_process
from collector.receivers.in_process import in_process_sink
from scouter.transport.config import InProcessConfig
from scouter.transport.guard import Guard
from tests.collector.conftest import Start
from tests.contracts.transport_data import drops, make_items
from tests.support.traced_agent import helper_profile, traced_agent


def test_a_record_meets_its_own_spans(start: Start, tmp_path: Path) -> None:
    profile = helper_profile().save_to_json(tmp_path / "helper.json")
    service = start(profile=[str(profile)], deadline_s="20s", quiet_s="10s")
    transport = InProcessConfig(sink=in_process_sink(service.collector.ingest))
    with traced_agent(transport, helper_profile()) as agent:
        agent.answer_all(["one", "two"])
        service.wait_for(2)

    items = service.get("/api/v1/evaluations")["items"]
    assert {(item["record_id"], item["outcome"]) for item in items} == {
        ("one", "passed"),
        ("two", "passed"),
    }
    assert service.get("/api/v1/conservation")["spans"]["stored"] == 8


def test_drops_and_refusals_are_counted(
    start: Start,
    answers: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_process, "GUARD", Guard())  # this one has said nothing yet
    service = start(profile=[str(answers)])
    transport = InProcessConfig(sink=in_process_sink(service.collector.ingest)).connect()

    assert transport.send_records(make_items(1), drops(full=2, spool_full=3)) == 0
    sample = 'scouter_queue_dropped_total{{reason="{}",space="default"}}'
    assert service.sample(sample.format("full")) == 2
    assert service.sample(sample.format("spool_full")) == 3
    (bad,) = make_items(1)
    assert transport.send_records([replace(bad, uid="", trace_id="x")]) == 1
    assert "record 0: trace_id: expected 32 hex digits" in caplog.text
