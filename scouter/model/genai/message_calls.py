"""The calls of tools that messages report: requested in answers, repeated in the next input."""

from collections import deque
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Final

from scouter.model.agent_work import ToolCall
from scouter.model.genai.facts import SpanFacts
from scouter.model.genai.messages import MessageLog

_LOOKS: Final = 64
"""Calls of one tool that one which is reported again is compared with."""
_NOTHING: Final[deque[int]] = deque()


@dataclass(frozen=True, slots=True)
class _Start:
    """The first input of a conversation: what was said before the trace began."""

    questions: tuple[str, ...]
    calls: int


class MessageCalls:
    """Reads the messages of the calls of models of one trace.

    A call is reported by the answer that requests it. The next input of the same conversation (one
    that begins with the same words of the user) repeats the call, with its result. The result is
    read there, and so is a call that no answer reported. Calls in the first input of a conversation
    were made before.

    Args:
        models: Calls of models, in time order.
        repeats: Places of models whose answer another instrumentor may have reported already, as
            the answer of the model before.

    Cost: linear in the size of the outputs. Once `calls` is requested, also in that of the inputs,
    where something is not known yet.
    """

    def __init__(self, models: Sequence[SpanFacts], repeats: Container[int] = ()) -> None:
        self._models = models
        log = MessageLog()
        self.answered: list[list[ToolCall]] = []
        """The calls that each answer requests."""
        self.writers: set[int] = set()
        """Places of the models whose answer has a text or a call; an empty one may be cut."""
        self.hidden: set[int] = set()
        """Places of the models whose answer was masked."""
        self.without_text: set[int] = set()
        """Places of the models whose answer is a picture, a sound or a file."""
        self.said: list[str | None] = []
        """Text of each answer; None where it has none."""
        known = answers = 0
        for at, model in enumerate(models):
            log.read(model.output_messages or ())
            calls = log.tool_calls(known)
            self.said.append(log.content if log.answers > answers else None)
            if calls or self.said[at]:
                self.writers.add(at)
            elif log.answers > answers and log.has_other:
                self.writers.add(at)
                self.without_text.add(at)
            elif log.answers > answers and log.is_hidden:
                self.hidden.add(at)
            known, answers = known + len(calls), log.answers
            reported = self.answered[-1] if at in repeats else []
            self.answered.append(_without(calls, reported))
        self._calls: list[ToolCall] = []
        self._askers: list[int] = []
        self._starts: list[_Start] = []
        self._seen = 0
        """Models whose input was looked at for a start."""

    @property
    def has_silent(self) -> bool:
        """Says whether a model's answer is not reported."""
        return len(self.writers) < len(self._models)

    @cached_property
    def calls(self) -> tuple[tuple[ToolCall, int], ...]:
        """Calls in the order in which they were requested, each with the place of its model."""
        has_silent = False
        for at in range(len(self._models)):
            is_open = has_silent or any(not call.has_result for call in self._calls)
            if at and is_open:
                self._read_input(at)
            self._calls += self.answered[at]
            self._askers += [at] * len(self.answered[at])
            has_silent = has_silent or at not in self.writers
        return tuple(zip(self._calls, self._askers, strict=True))

    def _read_input(self, at: int) -> None:
        while self._seen < at:
            if messages := self._models[self._seen].input_messages:
                self._start_of(MessageLog(messages))
            self._seen += 1
        messages = self._models[at].input_messages
        if not messages:
            return
        log = MessageLog(messages)
        calls = log.tool_calls()
        start = self._start_of(log)
        new = calls if start is None else calls[start.calls :]
        self._seen = max(self._seen, at + 1)
        free = _Free(self._calls)
        for call in new if start is not None else ():
            self._learn(call, free, asker=self._silent_before(at))
        reported_before = calls if start is None else calls[: start.calls]
        for call in (*reported_before, *log.strays()):
            if call.call_id:
                self._learn(call, free)

    def _start_of(self, log: MessageLog) -> _Start | None:
        """The start of the conversation that an input goes on with; None if it is one itself."""
        questions = tuple(log.questions)
        for start in reversed(self._starts):
            goes_on = questions[: len(start.questions)] == start.questions
            if goes_on and len(log.tool_calls()) >= start.calls:
                return start
        self._starts.append(_Start(questions, len(log.tool_calls())))
        return None

    def _silent_before(self, at: int) -> int:
        """The model that requested what nobody reported before: the last one without an answer."""
        silent = (place for place in range(at - 1, -1, -1) if place not in self.writers)
        return next(silent, at - 1)

    def _learn(self, call: ToolCall, free: "_Free", asker: int | None = None) -> None:
        """Take a result, or a call that nobody reported before."""
        at = free.take(call, by_content=asker is not None or not call.call_id)
        if at is not None:
            known = self._calls[at]
            if call.has_result and not known.has_result:
                self._calls[at] = replace(
                    known, result=call.result, has_result=True, error=call.error
                )
        elif asker is not None and call.name:
            # Another message than any that the asker's own answer reports.
            self._calls.append(replace(call, step=-1 - (call.step or 0)))
            self._askers.append(asker)


class _Free:
    """Known calls, each of which one input tells again once at most."""

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = tuple(calls)
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        for at, call in enumerate(calls):
            self._by_id.setdefault(call.call_id, deque()).append(at)
            self._by_name.setdefault(call.name, deque()).append(at)
        self._taken: set[int] = set()

    def take(self, call: ToolCall, *, by_content: bool) -> int | None:
        """Find the place of a call by its id, else by its name and arguments.

        Senders may give a call another id when they tell it again.
        """
        named = self._by_name.get(call.name, _NOTHING) if by_content else _NOTHING
        given = self._by_id.get(call.call_id, _NOTHING) if call.call_id else _NOTHING
        for places, is_named in ((given, False), (named, True)):
            while places and places[0] in self._taken:
                places.popleft()
            for at in islice(places, _LOOKS):
                if at not in self._taken and not (
                    is_named and not _is_alike(self._calls[at], call)
                ):
                    self._taken.add(at)
                    return at
        return None


def _without(calls: Sequence[ToolCall], reported: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls that were not reported already; each is reported again once."""
    left, found = list(reported), list[ToolCall]()
    for call in calls:
        known = [each for each in left if _has_same_id(each, call) or _is_alike(each, call)]
        if known:
            left.remove(known[0])
        else:
            found.append(call)
    return found


def _has_same_id(known: ToolCall, call: ToolCall) -> bool:
    return bool(known.call_id) and known.call_id == call.call_id


def _is_alike(known: ToolCall, call: ToolCall) -> bool:
    return known.name == call.name and known.arguments == call.arguments
