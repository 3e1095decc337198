"""The calls of tools that messages tell of: asked for in answers, repeated in the next input."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.facts import SpanFacts
from scouter.model.genai.messages import MessageLog
from scouter.model.tool_call import ToolCall


@dataclass(frozen=True, slots=True)
class _Start:
    """The first input of a conversation: what was said before the trace began."""

    asked: tuple[str, ...]
    calls: int


class ToldCalls:
    """Reads the messages of the calls of models of one trace.

    A call is told by the answer that asks for it. The next input of the same conversation (one that
    begins with the same words of the user) repeats it, with its result: there the result is read,
    and the call itself where no answer told it. What the first input of a conversation holds was
    done before.

    Args:
        models: In time order.

    Cost: linear in the size of the outputs; of the inputs once `calls` is asked for, where
    something is not known yet.
    """

    def __init__(self, models: Sequence[SpanFacts]) -> None:
        self._models = models
        log = MessageLog()
        self._answered: list[tuple[ToolCall, ...]] = []
        """The calls that each answer asks for."""
        known = 0
        for model in models:
            log.read(model.output_messages or ())
            calls = log.tool_calls()
            self._answered.append(calls[known:])
            known = len(calls)
        self.content: Final = log.content
        """Text of the last answer that is told."""
        self.finish_reason: Final = log.finish_reason
        self._calls: list[ToolCall] = []
        self._starts: list[_Start] = []
        self._seen = 0
        """Models whose input was looked at for a start."""

    @cached_property
    def calls(self) -> tuple[ToolCall, ...]:
        """In the order in which they were asked for."""
        has_silent = False
        for at, model in enumerate(self._models):
            is_open = has_silent or any(not call.has_result for call in self._calls)
            if at and is_open:
                self._read_input(at)
            self._calls += self._answered[at]
            has_silent = has_silent or not model.output_messages
        return tuple(self._calls)

    def _read_input(self, at: int) -> None:
        while self._seen < at:
            if messages := self._models[self._seen].input_messages:
                self._start_of(_log_of(messages))
            self._seen += 1
        messages = self._models[at].input_messages
        if not messages:
            return
        log = _log_of(messages)
        calls = log.tool_calls()
        start = self._start_of(log)
        new = calls if start is None else calls[start.calls :]
        self._seen = max(self._seen, at + 1)
        free = list(range(len(self._calls)))
        for call in new if start is not None else ():
            self._learn(call, free, is_new=True)
        told_before = calls if start is None else calls[: start.calls]
        for call in (*told_before, *log.strays()):
            if call.call_id:
                self._learn(call, free, is_new=False)

    def _start_of(self, log: MessageLog) -> _Start | None:
        """The start of the conversation that an input goes on with; None if it is one itself."""
        asked = tuple(log.asked)
        for start in reversed(self._starts):
            goes_on = asked[: len(start.asked)] == start.asked
            if goes_on and len(log.tool_calls()) >= start.calls:
                return start
        self._starts.append(_Start(asked, len(log.tool_calls())))
        return None

    def _learn(self, call: ToolCall, free: list[int], *, is_new: bool) -> None:
        """Take a result, or a call that nobody told before."""
        for at in free:
            known = self._calls[at]
            if _is_same(known, call):
                free.remove(at)
                if call.has_result and not known.has_result:
                    self._calls[at] = replace(
                        known, result=call.result, has_result=True, error=call.error
                    )
                return
        if is_new and call.name:
            self._calls.append(call)


def _is_same(known: ToolCall, call: ToolCall) -> bool:
    if known.call_id and call.call_id:
        return known.call_id == call.call_id
    return known.name == call.name and known.arguments == call.arguments


def _log_of(messages: list[JsonValue] | None) -> MessageLog:
    log = MessageLog()
    log.read(messages or ())
    return log
