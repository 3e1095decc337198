"""Watched traces that are due together: how many are judged in a second of the processor.

`python -m tests.bench.backlog` sends to a real collector, each time with an empty data folder, 600
traces and then 100,000 (`--traces N`), which all wait when the first of them is due. A trace has
six spans, its profile five tasks and no judge. While the collector works the backlog off, records
of another space come, one every few seconds; the bench tells how long each of them waits.

Processor time is that of the collector's whole process from the last request on, so that a busy
machine matters little. `--short` sends 300 traces.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.bench.collector import cpu_seconds, process_id, status_mb
from tests.bench.figures import Figures
from tests.support.collector_process import CollectorProgram
from tests.support.processes import wait_until

RATE: Final = 150
"""Traces for a second of the processor."""
OTHER_S: Final = 3.0
"""For a record of another space."""
_PER_REQUEST: Final = 250
_SENT_PER_S: Final = 250
"""Slowest sending that is reckoned with: until all is sent, nothing is due."""
_LOOK_S: Final = 2.0
_WAIT_S: Final = 3600.0
_LOOK_UP: Final = "execute_tool look_up"

WATCHED: Final = AgentEvalProfile(
    [
        AssertionTask("answered", "answer", "days", Op.Contains),
        AssertionTask("asked", "question", True, Op.IsNotEmpty),
        TraceAssertionTask("whole", TraceAssertion.trace_span_count(), 6, Op.Equals),
        TraceAssertionTask("clean", TraceAssertion.trace_error_count(), 0, Op.Equals),
        TraceAssertionTask(
            "looked_up", TraceAssertion.span_exists(SpanFilter.by_name(_LOOK_UP)), True, Op.Equals
        ),
    ],
    alias="desk",
    watch=Watch(match=WatchMatch(service="desk")),
)
OTHER: Final = AgentEvalProfile([AssertionTask("right", "answer", 42, Op.Equals)], alias="other")


def request(numbers: Iterable[int]) -> bytes:
    """Traces of an agent that asks a model three times and looks something up twice."""
    message = ExportTraceServiceRequest()
    resource = message.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "desk"
    spans = resource.scope_spans.add().spans
    now = time.time_ns()
    for number in numbers:
        asked = _message("user", f"When does order {number} come? " * 6)
        said = _message("assistant", f"Order {number} takes four days. " * 8)
        chat = {
            "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
            "gen_ai.input.messages": asked, "gen_ai.output.messages": said,
            "gen_ai.usage.input_tokens": 100 + number % 9, "gen_ai.usage.output_tokens": 30,
        }  # fmt: skip
        tool = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up",
            "gen_ai.tool.call.arguments": json.dumps({"order": number}),
            "gen_ai.tool.call.result": "four days",
        }  # fmt: skip
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk"}
        parts = [("invoke_agent desk", agent), ("chat m-1", chat), (_LOOK_UP, tool)]
        for at, (name, attributes) in enumerate([*parts, *parts[1:], parts[1]], start=1):
            span = spans.add(
                trace_id=(number + 1).to_bytes(16, "big"),
                span_id=at.to_bytes(8, "big"),
                parent_span_id=(1).to_bytes(8, "big") if at > 1 else b"",
                name=name,
                start_time_unix_nano=now + at,
                end_time_unix_nano=now + 100 - at,
            )
            for key, value in attributes.items():
                held = span.attributes.add(key=key).value
                if isinstance(value, int):
                    held.int_value = value
                else:
                    held.string_value = value
    return message.SerializeToString()


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


class Backlog:
    """A collector with two spaces and an empty folder.

    Args:
        folder: For its data.
        traces: That will be sent.
    """

    def __init__(self, folder: Path, traces: int) -> None:
        self.process = CollectorProgram(
            folder, "--foreign-settle-s", f"{2 + traces / _SENT_PER_S}s",
            "--quiet-s", "3600s", "--deadline-s", "7200s",
        )  # fmt: skip
        self._traces = traces
        tokens = {space: token_of(folder, space) for space in ("default", "other")}
        self.process.start()
        self._http = {
            space: httpx.Client(
                base_url=self.process.url, timeout=120, headers={"Authorization": f"Bearer {token}"}
            )
            for space, token in tokens.items()
        }
        for space, profile in (("default", WATCHED), ("other", OTHER)):
            body = json.loads(profile.model_dump_json())
            answer = self._http[space].post("/api/v1/profiles?activate=true", json=body)
            answer.raise_for_status()

    def send(self) -> None:
        """Send all traces, each request until it is taken."""
        kind = {"content-type": "application/x-protobuf"}
        for first in range(0, self._traces, _PER_REQUEST):
            body = request(range(first, min(self._traces, first + _PER_REQUEST)))

            def is_taken(body: bytes = body) -> bool:
                answer = self._http["default"].post("/v1/traces", content=body, headers=kind)
                assert answer.status_code in (200, 429, 503), answer.text
                return answer.status_code == 200

            wait_until(is_taken, what="the spans are taken", timeout_s=_WAIT_S, every_s=0.1)

    def judged(self) -> int:
        """Number of watched traces that are judged."""
        answer = self._http["default"].get("/api/v1/conservation").raise_for_status()
        return int(answer.json()["records"]["evaluated"])

    def other_s(self, number: int) -> float:
        """Send a record of the other space; returns the seconds until it is judged."""
        record = {"uid": f"r{number}", "profile": OTHER.alias, "context": {"answer": 42}}
        http = self._http["other"]
        began = time.monotonic()
        http.post("/v1/records", json={"records": [record]}).raise_for_status()

        def is_judged() -> bool:
            found = http.get(f"/api/v1/records/r{number}")
            if found.status_code == 503:  # the collector is behind: it may not be stored yet
                return False
            answer: Any = found.raise_for_status().json()
            return bool(answer["state"] == "evaluated")

        wait_until(is_judged, what="the other record is judged", timeout_s=_WAIT_S, every_s=0.2)
        return time.monotonic() - began

    def end(self) -> float:
        """End it; returns its peak memory in MB."""
        peak_mb = status_mb(process_id(self.process), "VmHWM")
        self.process.kill()
        for http in self._http.values():
            http.close()
        return peak_mb


def token_of(folder: Path, space: str) -> str:
    """A new token by which a space is sent to, asked and given profiles."""
    scopes = (Scope.INGEST, Scope.READ, Scope.PROFILE)
    return TokenFile(folder / "data").create("", scopes, space)[1]


def run(folder: Path, traces: int, figures: Figures) -> float:
    """Send, and have all judged; returns the traces for a second of the processor."""
    backlog = Backlog(folder, traces)
    backlog.send()
    pid = process_id(backlog.process)
    first, used, began = backlog.judged(), cpu_seconds(pid), time.monotonic()
    wait_until(lambda: backlog.judged() > first, what="one is judged", timeout_s=_WAIT_S)
    others: list[float] = []

    def is_done() -> bool:
        others.append(backlog.other_s(len(others)))
        return backlog.judged() >= traces

    wait_until(is_done, what="all are judged", timeout_s=_WAIT_S, every_s=_LOOK_S)
    rate = (traces - first) / (cpu_seconds(pid) - used)
    figures.add(f"{traces:,} waiting: judged", rate, "1/CPU s", at_least=RATE)
    figures.add(f"{traces:,} waiting: another space, worst", max(others), "s", at_most=OTHER_S)
    figures.add(f"{traces:,} waiting: judged when all were sent", first)
    figures.add(f"{traces:,} waiting: all judged after", time.monotonic() - began, "s")
    figures.add(f"{traces:,} waiting: peak memory", backlog.end(), "MB")
    return rate


def main() -> int:
    """Run all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--traces", type=int, default=100_000)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args()
    figures = Figures("backlog", is_short=options.short)
    rates: list[float] = []
    with tempfile.TemporaryDirectory(prefix="scouter-backlog-") as name:
        for traces in (300,) if options.short else (600, options.traces):
            folder = Path(name) / f"{traces}"
            folder.mkdir()
            rates.append(run(folder, traces, figures))
    if not options.short:
        figures.add("few waiting / many", rates[0] / rates[1], "x", at_most=1.5)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
