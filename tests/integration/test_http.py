"""The whole way without a broker: OTLP/HTTP and records over HTTP to `scouter collector`."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from scouter.transport.config import HttpConfig
from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.traced_agent import ALIAS, Moment, helper_profile, traced_agent

StartCollector = Callable[..., CollectorProcess]


@pytest.fixture
def collector(start_collector: StartCollector, tmp_path: Path) -> CollectorProcess:
    """A collector that knows the helper's profile."""
    profile = helper_profile().save_to_json(tmp_path / "helper.json")
    return start_collector("--profile", profile)


def test_a_record_meets_its_own_spans_whenever_it_leaves(collector: CollectorProcess) -> None:
    """Records sent before, between and after their spans get the same evaluation, each once.

    The evaluations outlast the process.
    """
    with traced_agent(HttpConfig(server_uri=collector.url), helper_profile()) as agent:
        sent = {moment: agent.answer(moment.value, moment=moment) for moment in Moment}
        collector.wait_evaluated(3)
    found = collector.evaluations()
    evaluations = {item["record_id"]: item for item in found}

    assert sorted(evaluations) == ["after", "before", "between"]
    for moment, record in sent.items():
        item = evaluations[moment.value]
        assert (item["uid"], item["trace_id"]) == (record.uid, record.trace_id)
        assert (item["outcome"], item["revision"], item["missing_parents"]) == ("passed", 1, 0)
        assert {task["outcome"] for task in item["tasks"]} == {"passed"}
        assert tasks_by_id(item)["own_search"]["actual"] == f"question {moment.value}"
    assert collector.stop() == 0
    collector.start()
    assert collector.evaluations() == found
    assert collector.records()["evaluated"] == 3


def test_spans_of_a_plain_opentelemetry_sdk_and_a_record_by_alias(
    collector: CollectorProcess,
) -> None:
    """No Scouter on the agent's side: the standard exporter, and a record written by hand."""
    provider = TracerProvider(shutdown_on_exit=False)
    exporter = OTLPSpanExporter(endpoint=f"{collector.url}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("elsewhere")
    with tracer.start_as_current_span("root", attributes={"case.id": "plain"}) as root:
        for name in ("chat scripted", "execute_tool search"):
            with tracer.start_as_current_span(name):
                pass
    provider.shutdown()
    trace_id = f"{root.get_span_context().trace_id:032x}"
    record = {"uid": "u-1", "profile": ALIAS, "record_id": "plain", "trace_id": trace_id,
              "context": {"case": "plain", "answer": "41"}}  # fmt: skip
    answer = httpx.post(f"{collector.url}/v1/records", json={"records": [record]}, timeout=120)
    assert answer.is_success, answer.text

    collector.wait_evaluated(1)
    (item,) = collector.evaluations(trace_id=trace_id)
    tasks = tasks_by_id(item)

    assert (item["uid"], item["outcome"]) == ("u-1", "failed")
    assert (tasks["own_trace"]["outcome"], tasks["good_answer"]["outcome"]) == ("passed", "failed")
    assert (tasks["all_spans"]["actual"], tasks["good_answer"]["actual"]) == (2, "41")
    assert tasks["own_search"]["reason"] == "no_spans"  # none of them is a GenAI one
    spans = collector.get(f"/api/v1/traces/{trace_id}")["spans"]
    assert sorted(span["name"] for span in spans) == [
        "chat scripted", "execute_tool search", "root",
    ]  # fmt: skip
    assert {span["traceId"] for span in spans} == {trace_id}
