"""Recorded runs of a real agent as live traffic: one trace and one record per conversation.

The runs are those of a gpt-4o airline agent in the public tau-bench repository. They have what
made-up samples lack: long tool outputs, non-ASCII names, call ids that repeat within one
conversation, conversations that end with a tool. Times are not in the data; they are made up here
by a fixed rule, so that two replays of a run have the same spans but for their ids.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from scouter.model.record import EvalRecord
from tests.support.components import ROOT, require

ALIAS: Final = "airline"
"""Alias of `profiles/airline.yaml`."""
AGENT: Final = "airline_agent"
MODEL: Final = "gpt-4o"
FIRST_START_NS: Final = 1_715_803_200_000_000_000
"""2024-05-15 20:00 UTC: the moment at which the recorded agent believed to be."""
RUN_SPACING_NS: Final = 60_000_000_000
"""From the start of one replayed run to that of the next."""

Message: TypeAlias = Mapping[str, Any]
"""An OpenAI chat message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One tool call, as the conversation shows it."""

    id: str
    name: str
    arguments: Mapping[str, object]
    result: str

    @property
    def failed(self) -> bool:
        """True if the tool answered with an error."""
        return self.result.startswith("Error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One recorded conversation and what should have come out of it."""

    task_id: int
    trial: int
    reward: float
    user_id: str
    messages: Sequence[Message]
    expected_actions: Sequence[Mapping[str, object]]
    expected_outputs: Sequence[str]

    @property
    def record_id(self) -> str:
        """The record's own name."""
        return f"airline-{self.task_id}-{self.trial}"

    @property
    def answers(self) -> list[str]:
        """The agent's words to the user."""
        return [
            message["content"]
            for message in self.messages
            if message["role"] == "assistant" and message["content"]
        ]

    def calls(self) -> list[Call]:
        """The tool calls in order; each is answered by the message right after it."""
        return [
            _call(asked, answer)
            for asked, answer in zip(self.messages, self.messages[1:], strict=False)
            if asked.get("tool_calls")
        ]


def find_runs() -> Path:
    """The file with the recorded runs; skips or fails the test without it."""
    beside = ROOT.parent / "shared" / "data" / "tau-bench" / "gpt-4o-airline.json"
    path = Path(os.environ.get("SCOUTER_TAU_BENCH") or beside)
    require("tau-bench", present=path.is_file(), detail="no recorded runs here")
    return path


def load_runs(path: Path) -> list[Run]:
    """Read all recorded runs, in the file's order."""
    return [_run(item) for item in json.loads(path.read_text(encoding="utf-8"))]


def _run(item: Mapping[str, Any]) -> Run:
    task = item["info"]["task"]
    return Run(
        task_id=item["task_id"],
        trial=item["trial"],
        reward=item["reward"],
        user_id=task["user_id"],
        messages=item["traj"],
        expected_actions=task["actions"],
        expected_outputs=task["outputs"],
    )


def _call(asked: Message, answer: Message) -> Call:
    (call,) = asked["tool_calls"]  # these runs never call two tools at once
    assert answer["tool_call_id"] == call["id"]
    return Call(
        id=call["id"],
        name=call["function"]["name"],
        arguments=json.loads(call["function"]["arguments"]),
        result=answer["content"],
    )


def record_context(run: Run) -> dict[str, object]:
    """The record's context for a run: the outcome, the conversation, the wanted result."""
    answers = run.answers
    return {
        "task_id": run.task_id,
        "trial": run.trial,
        "reward": run.reward,
        "user_id": run.user_id,
        "messages": list(run.messages),
        "expected": {
            "actions": list(run.expected_actions),
            "action_names": [action["name"] for action in run.expected_actions],
            "outputs": list(run.expected_outputs),
        },
        "numbers_said": numbers_in(answers),
        "final_answer": answers[-1] if answers else "",
    }


def numbers_in(texts: Sequence[str]) -> list[str]:
    """Every number in the texts once, sorted, without commas between thousands."""
    found = re.findall(r"\d+(?:,\d{3})*(?:\.\d+)?", "\n".join(texts))
    return sorted({number.replace(",", "") for number in found})


def replay(
    runs: Sequence[Run],
    tracer: Tracer,
    insert: Callable[[EvalRecord], None],
    *,
    first_start_ns: int = FIRST_START_NS,
) -> None:
    """Send runs as an instrumented agent would.

    Args:
        runs: The runs to replay.
        tracer: Makes the spans, with their times given.
        insert: Takes each run's record, such as `queue["airline"].insert`.
        first_start_ns: Start of the first run, nanoseconds since the epoch.
    """
    for number, run in enumerate(runs):
        replay_run(run, tracer, insert, start_ns=first_start_ns + number * RUN_SPACING_NS)


def replay_run(
    run: Run, tracer: Tracer, insert: Callable[[EvalRecord], None], *, start_ns: int
) -> None:
    """Send one run: `invoke_agent` over `chat` and `execute_tool`, and a record before it ends."""
    root = tracer.start_span(
        f"invoke_agent {AGENT}",
        kind=SpanKind.INTERNAL,
        start_time=start_ns,
        attributes={
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": "openai",
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": run.record_id,
            "gen_ai.request.model": MODEL,
            "gen_ai.system_instructions": _json(_parts(run.messages[0])),
        },
    )
    end_ns = _replay_messages(run, tracer, root, start_ns)
    record = EvalRecord(
        record_context(run),
        run.record_id,
        session_id=run.record_id,
        trace_id=f"{root.get_span_context().trace_id:032x}",
        tags={"trial": str(run.trial)},
        created_ns=end_ns,
    )
    insert(record)
    root.end(end_time=end_ns)


def _replay_messages(run: Run, tracer: Tracer, root: Span, start_ns: int) -> int:
    """Make the spans below the root; returns when the last of them ended."""
    now_ns = start_ns
    calls = iter(run.calls())
    for index, message in enumerate(run.messages):
        if message["role"] == "user":
            now_ns += 1_000_000  # the user's time to think is nobody's work
        elif message["role"] == "assistant":
            now_ns = _chat(run, index, tracer, root, now_ns)
            if message.get("tool_calls"):
                now_ns = _execute_tool(next(calls), tracer, root, now_ns)
    return now_ns


def _chat(run: Run, index: int, tracer: Tracer, root: Span, start_ns: int) -> int:
    message = run.messages[index]
    reason = "tool_call" if message.get("tool_calls") else "stop"
    output = {"role": "assistant", "parts": _parts(message), "finish_reason": reason}
    history = [
        {"role": earlier["role"], "parts": _parts(earlier)} for earlier in run.messages[1:index]
    ]
    span = tracer.start_span(
        f"chat {MODEL}",
        context=set_span_in_context(root),
        kind=SpanKind.CLIENT,
        start_time=start_ns,
        attributes={
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.agent.name": AGENT,
            "gen_ai.conversation.id": run.record_id,
            "gen_ai.request.model": MODEL,
            "gen_ai.response.finish_reasons": (reason,),
            "gen_ai.input.messages": _json(history),
            "gen_ai.output.messages": _json([output]),
        },
    )
    end_ns = start_ns + 200_000_000 + 1_000_000 * len(message["content"] or "")
    span.end(end_time=end_ns)
    return end_ns


def _execute_tool(call: Call, tracer: Tracer, root: Span, start_ns: int) -> int:
    span = tracer.start_span(
        f"execute_tool {call.name}",
        context=set_span_in_context(root),
        kind=SpanKind.INTERNAL,
        start_time=start_ns,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.agent.name": AGENT,
            "gen_ai.tool.name": call.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.id,
            "gen_ai.tool.call.arguments": _json(call.arguments),
            "gen_ai.tool.call.result": call.result,
        },
    )
    if call.failed:
        span.set_attribute("error.type", "tool_error")
        span.set_status(Status(StatusCode.ERROR, call.result[:200]))
    end_ns = start_ns + 50_000_000 + 10_000 * len(call.result)
    span.end(end_time=end_ns)
    return end_ns


def _parts(message: Message) -> list[dict[str, object]]:
    """A message's content in the shape of the GenAI semantic conventions."""
    return list(_each_part(message))


def _each_part(message: Message) -> Iterator[dict[str, object]]:
    if message["role"] == "tool":
        yield {
            "type": "tool_call_response",
            "id": message["tool_call_id"],
            "response": message["content"],
        }
        return
    if message["content"]:
        yield {"type": "text", "content": message["content"]}
    for call in cast(list[Message], message.get("tool_calls") or []):
        yield {
            "type": "tool_call",
            "id": call["id"],
            "name": call["function"]["name"],
            "arguments": json.loads(call["function"]["arguments"]),
        }


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
