"""Agents that send nothing but OpenTelemetry, and collectors that are killed meanwhile."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import httpx
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource as SdkResource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.derived import derive_record, trace_session
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from scouter.tracing.capture import (
    captured_spans,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from scouter.transport.http_client import trusted
from tests.collector.worker.process_support import Process
from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.tau_bench import find_runs, load_runs, replay

StartCollector = Callable[..., CollectorProcess]
PROTOBUF = {"Content-Type": "application/x-protobuf"}
PROFILE = AgentEvalProfile(
    [
        AssertionTask("answered", "answer", "four days", Op.Equals),
        TraceAssertionTask(
            "steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 2, Op.Equals
        ),
    ],
    alias="shop",
    watch=Watch(match=WatchMatch(service="shop")),
)


def test_a_stock_agent_is_watched(start_collector: StartCollector, tmp_path: Path) -> None:
    """Its traces of another service are stored, and no more."""
    profile = PROFILE.save_to_json(tmp_path / "shop.json")
    collector = start_collector("--profile", profile)
    said = '[{"role": "assistant", "parts": [{"type": "text", "content": "four days"}]}]'
    trace_ids: dict[str, str] = {}
    for service in ("shop", "other"):
        provider = TracerProvider(
            resource=SdkResource({"service.name": service}), shutdown_on_exit=False
        )
        exporter = OTLPSpanExporter(f"{collector.url}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = provider.get_tracer("agent")
        with tracer.start_as_current_span("root") as root:
            root.set_attribute("session.id", "anna")
            for _ in range(2):
                with tracer.start_as_current_span("step"):
                    pass
            with tracer.start_as_current_span("chat") as chat:
                chat.set_attributes({"gen_ai.operation.name": "chat"})
                chat.set_attribute("gen_ai.output.messages", said)
        provider.shutdown()
        trace_ids[service] = f"{root.get_span_context().trace_id:032x}"
    collector.wait_evaluated(1)
    (item,) = collector.evaluations()
    assert item["trace_id"] == trace_ids["shop"]
    assert (item["outcome"], item["session_id"]) == ("passed", "anna")
    assert tasks_by_id(item)["steps"]["actual"] == 2
    (record,) = collector.get("/api/v1/records")["items"]
    assert record["uid"] == item["uid"]
    sheet = collector.records()
    assert (sheet["accepted"], sheet["derived"], sheet["superseded"]) == (1, 1, 0)
    registered = collector.get("/api/v1/profiles")["items"][0]
    body = collector.get(f"/api/v1/profiles/{registered['uid']}")["body"]
    assert body["watch"]["match"]["service"] == "shop"


def batches(trace_id: str) -> list[bytes]:
    """One trace in two requests."""
    shop = Resource(attributes={"service.name": "shop"})
    said = '[{"role": "assistant", "parts": [{"type": "text", "content": "four days"}]}]'
    chat = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": said}
    spans = [
        Span(
            trace_id=trace_id,
            span_id=f"{at:016x}",
            parent_span_id=None if at == 1 else f"{1:016x}",
            name=name,
            start_ns=at,
            end_ns=at + 1,
            attributes=chat if name == "chat" else {},
            resource=shop,
        )
        for at, name in enumerate(("root", "step", "step", "chat"), start=1)
    ]
    return [encode_request(part).SerializeToString() for part in (spans[1:3], [spans[0], spans[3]])]


def test_each_watched_trace_is_judged_once_whenever_the_collector_is_killed(
    tmp_path: Path,
) -> None:
    """Requests that were not acknowledged are sent again, and some of the others, too."""
    chance = random.Random(8)
    profile = PROFILE.save_to_json(tmp_path / "shop.json")
    collector = CollectorProcess(tmp_path, "--profile", profile)
    collector.start()
    ids: list[str] = []
    try:
        for round_ in range(2):
            new = [f"{chance.getrandbits(128):032x}" for _ in range(12)]
            again = chance.sample(ids, min(len(ids), 2))
            requests = [each for trace_id in (*new, *again) for each in batches(trace_id)]
            chance.shuffle(requests)
            ids += new
            for request in requests:
                url = f"{collector.url}/v1/traces"
                answer = httpx.post(
                    url, content=request, headers=PROTOBUF, timeout=120, verify=trusted()
                )
                assert answer.status_code == 200, answer.text
            if round_ % 2:  # in the middle of deriving and judging
                collector.wait_evaluated(chance.randrange(1, len(ids)))
            collector.kill()
            collector.start()
        collector.wait_evaluated(len(ids))
        found = collector.evaluations()
        assert sorted(each["trace_id"] for each in found) == sorted(ids)
        assert {each["outcome"] for each in found} == {"passed"}
        sheet = collector.records()
        assert (sheet["accepted"], sheet["derived"]) == (len(ids), len(ids))
        states = ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased")
        assert sum(sheet[each] for each in states) == len(ids)
    finally:
        collector.close()


TAU = AgentEvalProfile(
    [
        AssertionTask("asked", "question", "flight", Op.Contains),
        AssertionTask("answered", "answer", "transfer", Op.NotContains),
        TraceAssertionTask(
            "calls",
            TraceAssertion.span_count(
                SpanFilter.with_attribute_value("gen_ai.operation.name", "execute_tool")
            ),
            5,
            Op.GreaterThan,
        ),
        AgentAssertionTask(
            "no_cancel",
            AgentAssertion.tool_not_called("cancel_reservation"),
            True,
            Op.Equals,
            source="spans",
        ),
    ],
    alias="airline",
    watch=Watch(match=WatchMatch(filter=SpanFilter.by_service("airline"))),
)


def test_recorded_conversations_are_judged_live_as_offline(tmp_path: Path) -> None:
    """The spans of 80 runs of a real agent, without their records, in batches of any order."""
    tracer = init_tracer(service_name="airline")
    enable_local_span_capture()
    try:
        replay(load_runs(find_runs())[:80], tracer, lambda record: None)
        spans = captured_spans()
    finally:
        disable_local_span_capture()
        shutdown_tracer()
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for each in spans:
        by_trace[each.trace_id].append(each)
    records = [derive_record(each) for each in by_trace.values()]
    offline = {
        row.trace_id: row for row in EvalDataset(records, TAU.tasks, spans).evaluate().records
    }

    process = Process(tmp_path, TAU)
    shuffled = list(spans)
    random.Random(2).shuffle(shuffled)
    for at in range(0, len(shuffled), 200):
        process.spans(*shuffled[at : at + 200])
        process.after(0.1)
    process.after(400)
    live = {row.trace_id: row for row in process.evaluations().values()}
    process.close()
    assert len(live) == len(offline) == 80
    for trace_id, row in live.items():
        expected = [(t.task_id, t.outcome, t.reason) for t in offline[trace_id].tasks]
        assert [(t.task_id, t.outcome, t.reason) for t in row.tasks] == expected
        assert row.session_id == (trace_session(by_trace[trace_id or ""]) or "")
    found = Counter((t.task_id, t.outcome.value) for row in live.values() for t in row.tasks)
    assert {task for task, outcome in found if outcome == "passed"} == {t.id for t in TAU.tasks}
