"""Programs with evaluators of others raise an alarm in a collector as soon as their scores fall.

Each serves 600 answers. In the first half 19 of 20 are good, in the second one half of them.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.collector_process import CollectorProcess
from tests.support.frameworks import framework_python
from tests.support.processes import wait_until

PYDANTIC_EVALS = """
import asyncio
from dataclasses import dataclass

import logfire
from pydantic_evals.evaluators import Evaluator, EvaluatorContext
from pydantic_evals.online import evaluate, wait_for_evaluations

logfire.configure(send_to_logfire=False, console=False, service_name="bot", service_version="1")


@dataclass
class Helpful(Evaluator):
    def evaluate(self, ctx: EvaluatorContext) -> bool:
        return "sorry" not in ctx.output


@evaluate(Helpful())
async def answer(number: int) -> str:
    bad = number % 20 == 0 if number < 300 else number % 2 == 0
    return "sorry" if bad else "here it is"


async def main() -> None:
    for number in range(600):
        await answer(number)
        if number % 50 == 49:
            await wait_for_evaluations()


asyncio.run(main())
logfire.force_flush()
logfire.shutdown()
"""
OPENLIT = """
import openlit
from opentelemetry import _logs, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

spans, logs = TracerProvider(), LoggerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
trace.set_tracer_provider(spans)
_logs.set_logger_provider(logs)
tracer = trace.get_tracer("bot")
for number in range(600):
    bad = number % 20 == 0 if number < 300 else number % 2 == 0
    with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
        openlit.log_score("helpful", 0.1 if bad else 1.0, comment="by rule")
spans.shutdown()
logs.shutdown()
"""
PROFILE = {
    "alias": "bot",
    "scores": {"helpful": {"healthy": 0.9, "wait_s": 2}},
    "watch": {"match": {"service": "bot"}, "sample": 0},
}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorProcess]:
    profile = tmp_path / "bot.json"
    profile.write_text(json.dumps(PROFILE))
    collector = CollectorProcess(tmp_path, "--profile", profile)
    collector.start()
    yield collector
    collector.close()


@pytest.mark.timeout(600)  # an environment may have to be made first
@pytest.mark.parametrize(
    ("name", "program"), [("pydantic_evals", PYDANTIC_EVALS), ("openlit", OPENLIT)]
)
def test_an_alarm_of_its_scores(
    name: str, program: str, collector: CollectorProcess, tmp_path: Path
) -> None:
    """Each score counts once, though OpenLIT sends it as a span's event and as a log record."""
    python, path = framework_python(name), tmp_path / "program.py"
    path.write_text(program)
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_SERVICE_NAME": "bot",
        "OTEL_RESOURCE_ATTRIBUTES": "service.version=1",
    }
    done = subprocess.run(
        [python, path], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False,
        timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]

    def alerts() -> list[dict[str, object]]:
        return httpx.get(f"{collector.url}/api/v1/alerts", timeout=120).json()["drift"]

    wait_until(alerts, what="an alert")
    [alert] = alerts()
    assert (alert["profile"], alert["task"], alert["state"]) == ("bot", "helpful", "firing")
    assert (alert["service"], alert["version"], alert["kind"]) == ("bot", "1", "score")
    sheet = httpx.get(f"{collector.url}/api/v1/conservation", timeout=120).json()["records"]
    assert (sheet["accepted"], sheet["evaluated"], sheet["dead_lettered"]) == (600, 600, 0)
