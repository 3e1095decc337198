"""Runs of real agents, the spans of their instrumentations, and the reading of these.

`../shared/data/agent-traces` holds, per client, an OTLP trace request, perhaps a log request, and
the truth from the tools' and the model server's own record. A cell (calls, arguments and so on)
counts where the client's spans or log events tell it.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.files import read_spans
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import read_facts
from scouter.model.genai.work import agent_work
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.support.components import ROOT, require

TOOLS: Final = ("get_weather", "book_flight")
PREFIXES: Final = {
    "semantic-kernel": "Tools-",
    "claude-openinference": "mcp__travel__",
    "claude-own": "mcp__travel__",
}
"""The prefix that a framework puts before the names of tools."""
UNSEEN: Final = "unseen"
"""A tool that was called is said not to have been: the one mistake that is never told."""

IsRight = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One client's spans, and what it really did."""

    name: str
    truth: Mapping[str, Any]
    spans: tuple[Span, ...]
    has_message_events: bool
    """Of log events, some hold messages."""

    def convention(self) -> str:
        """The conventions of its models', tools' and agents' spans."""
        facts = [read_facts(span) for span in self.spans]
        told = {each.convention for each in facts if each.kind is not Kind.OTHER}
        return ", ".join(sorted(told))


def find_clients() -> list[Path]:
    """The files of truth; skips or fails the test without them."""
    beside = ROOT.parent / "shared" / "data" / "agent-traces"
    folder = Path(os.environ.get("SCOUTER_AGENT_TRACES") or beside)
    files = sorted(folder.glob("*.json"))
    require("agent-traces", present=bool(files), detail="no recorded traffic here")
    return [file for file in files if not file.name.endswith(".body.json")]


def load_client(file: Path) -> Client:
    """Read one client's truth and spans, its log events attached."""
    truth = json.loads(file.read_text(encoding="utf-8"))
    logs = file.with_suffix(".logs.binpb")
    spans = read_spans(file.with_suffix(".binpb"), *([logs] if logs.exists() else []))
    return Client(
        name=truth["client"],
        truth=truth,
        spans=spans,
        has_message_events=logs.exists()
        and any(
            event.name == "gen_ai.choice" or "gen_ai.output.messages" in event.attributes
            for span in spans
            for event in span.events
        ),
    )


def cells_of(client: Client) -> dict[str, str]:
    """The fault of each cell that the client tells; empty for a right one."""
    found: dict[str, str] = {}
    for turn in client.truth["turns"]:
        if len(turn["trace_ids"]) != 1:
            continue
        trace_id = turn["trace_ids"][0]
        spans = [span for span in client.spans if span.trace_id == trace_id]
        for cell, problem in _problems(client, turn, spans, trace_id):
            if cell == UNSEEN or _is_told(client, cell):
                found[cell] = found.get(cell) or problem
    return found


def _is_told(client: Client, cell: str) -> bool:
    """Tell whether a cell counts; what spans do not tell, messages in log events do."""
    mark = client.truth["marks"].get(cell, "")
    if mark == "–":
        return client.has_message_events
    return mark not in ("s", "right*")


def _problems(
    client: Client, turn: Mapping[str, Any], spans: list[Span], trace_id: str
) -> Iterator[tuple[str, str]]:
    prefix = PREFIXES.get(client.name, "")
    for cell, assertion, is_right in _checks(turn, prefix):
        task = AgentAssertionTask("t", assertion, None, "Equals", source="spans")
        record = EvalRecord({"a": 1}, id="1", trace_id=trace_id)
        result = EvalDataset([record], [task], spans).evaluate().records[0].tasks[0]
        is_errored = result.outcome is Outcome.ERRORED
        is_fine = cell == UNSEEN if is_errored else is_right(result.actual)
        yield cell, "" if is_fine else f"turn {turn['turn']}: {result.message}"
    for call in turn["tool_calls"]:
        if call["error"] is not None:
            calls = agent_work(spans).tool_calls
            known = any(each.error for each in calls if each.name == prefix + call["name"])
            yield "errors", "" if known else f"turn {turn['turn']}: no error of {call['name']}"


def _checks(turn: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, AgentAssertion, IsRight]]:
    calls = turn["tool_calls"]
    for tool in TOOLS:
        count = sum(call["name"] == tool for call in calls)
        yield "calls", AgentAssertion.tool_call_count(prefix + tool), count.__eq__
        is_seen: IsRight = lambda value, count=count: value is not True or not count  # noqa: E731
        yield UNSEEN, AgentAssertion.tool_not_called(prefix + tool), is_seen
    for call in calls:
        name = prefix + call["name"]
        yield "args", AgentAssertion.tool_called_with_args(name, call["arguments"]), bool
    if len(calls) == 1 and calls[0]["error"] is None:
        wanted = _parsed(calls[0]["result"])
        result = AgentAssertion.tool_result(prefix + calls[0]["name"])
        yield "results", result, lambda value: _parsed(value) == wanted
    if turn["model_calls"]:
        yield "tokens", AgentAssertion.response_input_tokens(), turn["input_tokens"].__eq__
        yield "tokens", AgentAssertion.response_output_tokens(), turn["output_tokens"].__eq__
        yield "model", AgentAssertion.response_model(), turn["model"].__eq__
        answer = turn["answer"]
        content = AgentAssertion.response_content()
        yield "answer", content, lambda value: isinstance(value, str) and answer in value


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
