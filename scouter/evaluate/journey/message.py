"""Messages of a journey, in one form, and the handoffs between agents in them."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.agent_work import ToolCall
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.work import acts_of, agent_work
from scouter.model.json_value import to_json_value
from scouter.model.span import Span

TEXT: Final = "text"
TOOL_CALL: Final = "tool_call"
TOOL_RESPONSE: Final = "tool_response"
SEARCH: Final = "conversational_search"
INTERACTION: Final = "interaction"
_NS: Final = 1e9
_TYPES: Final = frozenset({TEXT, TOOL_CALL, TOOL_RESPONSE, SEARCH, INTERACTION})

Raw: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyMessage:
    """One message of a conversation between a user and an agent."""

    role: str
    type: str
    content: JsonValue = ""
    calls: tuple[ToolCall, ...] | None = None
    """Calls with arguments as they were written: an object, or its JSON as a text. None where the
    message has no field for them."""
    response_time_s: float | None = None
    payload: Mapping[str, JsonValue] | None = None
    """Payload of an interaction, by key; None for other messages."""
    search_call_id: str | None = None
    """The call that a conversational search answers."""
    error: str = ""
    """Error that a tool's response tells of; empty where it tells of none."""

    @property
    def text(self) -> str:
        """The content as a text; of an object its JSON."""
        return as_text(self.content)

    @property
    def is_agents(self) -> bool:
        """True if the agent wrote the message."""
        return self.role == "assistant"


def as_text(value: JsonValue) -> str:
    """A text as it is, null as the empty one, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def read_messages(messages: Iterable[Raw | JourneyMessage | Span]) -> tuple[JourneyMessage, ...]:
    """Read the messages of one conversation.

    Args:
        messages: Each in the documented form (`role`, `content`, `type`, `tool_calls` …), or as a
            chat message of any dialect that `scouter.model.genai.messages` names; or spans in
            their place, see `messages_of_spans`.

    Raises:
        DataError: One of them is no object; names its place.

    Cost: linear in the messages.
    """
    given = [*messages]
    spans = [each for each in given if isinstance(each, Span)]
    if spans and len(spans) == len(given):
        return messages_of_spans(spans)
    found: list[JourneyMessage] = []
    for at, message in enumerate(given):
        if isinstance(message, JourneyMessage):
            found.append(message)
            continue
        value = to_json_value(message)
        if not isinstance(value, dict):
            raise DataError(f"messages[{at}]: {value!r:.60} is no message; expected an object")
        kind = value.get("type")
        is_documented = isinstance(kind, str) and kind in _TYPES and "role" in value
        found += [_documented(value)] if is_documented else _of_chat(value)
    return tuple(found)


def _documented(value: dict[str, Any]) -> JourneyMessage:
    interaction, search = value.get("interaction"), value.get("conversational_search_metadata")
    seconds = value.get("response_time")
    return JourneyMessage(
        role=str(value["role"]),
        type=value["type"],
        content=value.get("content"),
        calls=_calls(value.get("tool_calls")),
        response_time_s=float(seconds) if isinstance(seconds, int | float) else None,
        payload=_object(_object(interaction).get("payload")) if interaction is not None else None,
        search_call_id=_object(search).get("tool_call_id") if search else None,
        error=_error_of(value) if value["type"] == TOOL_RESPONSE else "",
    )


def _calls(value: object) -> tuple[ToolCall, ...] | None:
    if not isinstance(value, list):
        return None
    found: list[ToolCall] = []
    for each in map(_object, cast("list[object]", value)):
        function = _object(each.get("function")) or each
        found.append(
            ToolCall(
                name=str(function.get("name") or ""),
                arguments=function.get("arguments"),
                call_id=str(each.get("id") or ""),
            )
        )
    return tuple(found)


def _error_of(value: dict[str, Any]) -> str:
    """Read the error in a tool's response, by the rules for chat messages; empty for none."""
    content = value.get("content")
    inner = open_content(content)
    reported = inner.get("content", content) if inner else content
    log = MessageLog()
    log.read([{"role": "tool", "tool_call_id": "x", "content": reported}])
    strays = log.strays()
    return strays[0].error if strays else ""


def open_content(content: JsonValue) -> Mapping[str, Any]:
    """The object that a content is, or that its text is the JSON of; else an empty one."""
    if isinstance(content, str):
        try:
            return _object(json.loads(content))
        except ValueError:
            return {}
    return _object(content)


def requested_calls(message: JourneyMessage) -> tuple[ToolCall, ...]:
    """Every call of a message: parallel ones, or the one that only its content tells of.

    Older tools wrote a call so.
    """
    if message.calls or message.type != TOOL_CALL:
        return message.calls or ()
    inner = open_content(message.content)
    if not isinstance(inner.get("name"), str):
        return ()
    call_id = str(inner.get("id") or "")
    return (ToolCall(name=inner["name"], arguments=inner.get("args"), call_id=call_id),)


def _of_chat(value: dict[str, JsonValue]) -> list[JourneyMessage]:
    """Read one chat message: results, what was said, then the calls."""
    log = MessageLog()
    log.read([value])
    found = [_response(each) for each in log.strays()]
    found += [JourneyMessage(role="user", type=TEXT, content=each) for each in log.questions]
    if log.content:
        found.append(JourneyMessage(role="assistant", type=TEXT, content=log.content))
    calls = log.tool_calls()
    if calls:
        found.append(_request(calls))
        found += [_response(each) for each in calls if each.has_result]
    if not found and isinstance(value.get("role"), str) and value["role"] != "assistant":
        content = value.get("content")
        found.append(JourneyMessage(role=str(value["role"]), type=TEXT, content=content))
    return found


def _request(calls: Sequence[ToolCall]) -> JourneyMessage:
    return JourneyMessage(role="assistant", type=TOOL_CALL, calls=tuple(calls))


def _response(call: ToolCall) -> JourneyMessage:
    return JourneyMessage(
        role="assistant", type=TOOL_RESPONSE, content=call.result, error=call.error
    )


def messages_of_spans(spans: Iterable[Span]) -> tuple[JourneyMessage, ...]:
    """Read a conversation from the spans of its traces.

    Of each trace come, where the spans tell them, the user's question, the calls with their
    results, and the last answer.

    Args:
        spans: Of one conversation; sorted here, and traces by their first span.

    Cost: that of `agent_work`.
    """
    traces: dict[str, list[Span]] = {}
    for span in sorted(spans, key=lambda each: (each.start_ns, each.trace_id, each.span_id)):
        traces.setdefault(span.trace_id, []).append(span)
    return tuple(message for each in traces.values() for message in _of_trace(each))


def _of_trace(spans: Sequence[Span]) -> Iterator[JourneyMessage]:
    work = agent_work(spans)
    if work.question:
        yield JourneyMessage(role="user", type=TEXT, content=work.question)
    yield from _worked(work.tool_calls)
    if work.content:
        yield JourneyMessage(role="assistant", type=TEXT, content=work.content)


def messages_of_turns(
    turns: Sequence[Mapping[str, Any]],
    spans: Iterable[Span] = (),
    times_ns: Sequence[tuple[int, int]] = (),
) -> tuple[JourneyMessage, ...]:
    """Put a replayed conversation together: in each turn the user, the calls, the answer.

    Args:
        turns: `{"user": message, "agent": answer}` each. An answer that is messages, or holds
            them, tells of its calls itself where no span does. Where the user said nothing, the
            agent spoke first.
        spans: Of the conversation.
        times_ns: Of each turn when the agent got its message and when it had answered, in ns since
            the epoch. A call belongs to the turn in which it began; one that began after the last
            answer stands behind it, as in a turn that the agent did not end. Without times all
            calls come before the first answer.

    Cost: that of `agent_work`.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.trace_id, span.span_id))
    started = {span.span_id: span.start_ns for span in ordered}
    ends_ns = [end_ns for _, end_ns in times_ns]
    by_turn: dict[int, list[ToolCall]] = {}
    for call in agent_work(ordered).tool_calls if acts_of(ordered) else ():
        times = [started[each] for each in call.span_ids if each in started]
        turn = bisect_left(ends_ns, min(times)) if times else max(0, len(turns) - 1)
        by_turn.setdefault(turn, []).append(call)
    has_calls = bool(by_turn)
    found: list[JourneyMessage] = []
    for at, turn in enumerate(turns):
        if turn["user"]:
            found.append(JourneyMessage(role="user", type=TEXT, content=turn["user"]))
        answer = _answer(turn["agent"], has_calls=has_calls)
        found += _worked(by_turn.pop(at, ()))
        found += _timed(answer, times_ns[at]) if at < len(times_ns) else answer
    for _, calls in sorted(by_turn.items()):
        found += _worked(calls)
    return tuple(found)


def _worked(calls: Iterable[ToolCall]) -> Iterator[JourneyMessage]:
    """Calls, each with its result."""
    for call in calls:
        yield _request([call])
        if call.has_result:
            yield _response(call)


def _answer(answer: JsonValue, *, has_calls: bool) -> list[JourneyMessage]:
    """Read an agent's answer as messages; it may be a text, one message or several."""
    listed = answer if isinstance(answer, list) else [answer]
    messages = [each for each in listed if isinstance(each, dict) and "role" in each]
    has_messages = isinstance(answer, dict) and isinstance(answer.get("messages"), list)
    if has_messages:
        messages = [each for each in cast("Any", answer)["messages"] if _object(each)]
    if not messages and not has_messages:
        return [JourneyMessage(role="assistant", type=TEXT, content=answer)]
    read = [each for each in read_messages(messages) if each.role != "user"]
    return [each for each in read if not has_calls or each.type not in (TOOL_CALL, TOOL_RESPONSE)]


def _timed(answer: list[JourneyMessage], times_ns: tuple[int, int]) -> list[JourneyMessage]:
    """Give the time of a turn to the last thing that the agent says in it."""
    if not answer:
        return answer
    sent_ns, answered_ns = times_ns
    seconds = round((answered_ns - sent_ns) / _NS, 3)
    return [*answer[:-1], replace(answer[-1], response_time_s=seconds)]


def to_documented(message: JourneyMessage) -> dict[str, JsonValue]:
    """Write a message in the documented form."""
    found: dict[str, JsonValue] = {
        "role": message.role, "content": message.content, "type": message.type,
    }  # fmt: skip
    if message.calls is not None:
        found["tool_calls"] = [
            {
                "id": each.call_id,
                "type": "function",
                "function": {"name": each.name, "arguments": as_text(each.arguments)},
            }
            for each in message.calls
        ]
    if message.response_time_s is not None:
        found["response_time"] = message.response_time_s
    if message.payload is not None:
        found["interaction"] = {"payload": dict(message.payload)}
    if message.search_call_id is not None:
        found["conversational_search_metadata"] = {"tool_call_id": message.search_call_id}
    return found


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


PREFIX: Final = "chat_with_collaborator_"
"""Prefix of an agent's name in the name of the tool that hands over to it."""
_TRANSFER: Final = "transfer_to_"
"""Prefix of the same use in other frameworks; a bank's tool may have it, too, and is no agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """The agents that there are, and which tools each owns."""

    owners: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    """Names of the agents that have each tool, by the tool's name."""
    names: frozenset[str] = frozenset()

    @classmethod
    def read(cls, agents: Mapping[str, Any] | None) -> "Agents":
        """Read a resource map, or tools by agent.

        Args:
            agents: `{"agents": [{"name", "tools": [ids]}], "tools": [{"id", "name"}]}`, or
                `{agent: [names of its tools]}`.
        """
        if not agents:
            return cls()
        if "agents" not in agents:
            return _of_tools({name: (*tools,) for name, tools in agents.items()})
        tools = {each["id"]: each["name"] for each in agents.get("tools") or ()}
        listed = cast("Iterable[Mapping[str, Any]]", agents["agents"])
        return _of_tools(
            {each["name"]: [tools.get(i, i) for i in each.get("tools") or ()] for each in listed}
        )

    def agent_called(self, tool: str) -> str | None:
        """The agent that a call hands over to; None for a call of a tool."""
        if tool.startswith(PREFIX):
            return tool.removeprefix(PREFIX)
        name = tool.removeprefix(_TRANSFER)
        return name if name in self.names else None

    def owners_of(self, tools: Iterable[str]) -> frozenset[str]:
        """The agents that own any of the tools."""
        return frozenset[str]().union(*(self.owners.get(tool, frozenset()) for tool in tools))


def _of_tools(tools_by_agent: Mapping[str, Sequence[str]]) -> Agents:
    owners: dict[str, set[str]] = {}
    for agent, tools in tools_by_agent.items():
        for tool in tools:
            owners.setdefault(tool, set()).add(agent)
    return Agents(
        owners={tool: frozenset(found) for tool, found in owners.items()},
        names=frozenset(tools_by_agent),
    )


def routing_f1(called: Iterable[str], goal_tools: Sequence[str], agents: Agents) -> float | None:
    """Measure handoffs.

    Args:
        called: Names of the tools that were called.
        goal_tools: Names of the tools of goals; those that are agents have to be called.
        agents: The agents that there are.

    Returns:
        2 TP / (2 TP + FP + FN) in [0, 1]: agents called that goals name or that own a goal's tool,
        other agents called, and agents that goals name and nobody called. None where no goal names
        an agent and none was called.
    """
    reached = {found for tool in called if (found := agents.agent_called(tool))}
    wanted = {found for tool in goal_tools if (found := agents.agent_called(tool))}
    allowed = wanted | agents.owners_of(goal_tools)
    right, wrong, missed = len(reached & allowed), len(reached - allowed), len(wanted - reached)
    total = 2 * right + wrong + missed
    return 2 * right / total if total else None
