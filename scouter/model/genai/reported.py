"""Sums of tokens over the calls of a trace, and the calls that no span reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from scouter.model.agent_work import Evidence, total_of
from scouter.model.genai.acts import Act, nearest_above
from scouter.model.genai.calls import Calls
from scouter.model.genai.facts import NO_USAGE, Kind, SpanFacts, Usage
from scouter.model.genai.lookup import WITH_SPAN_PER_CALL
from scouter.model.genai.messages import field as field_of
from scouter.model.genai.messages import text
from scouter.model.genai.usage import ERROR, STOP, TOOL_CALL, finish_word
from scouter.model.span import Span

_Number: TypeAlias = Callable[[Usage], tuple[int | None, int]]
"""Function from a usage to a number, None where it is not stated, and the least that it can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSum:
    """Tokens of the model calls of a trace."""

    number: int | None
    """None where nothing is stated; with `missing` the least that it can be."""
    missing: str = ""
    """Reason, in words, that the sum lacks a call; empty for a whole one."""


def _input(usage: Usage) -> tuple[int | None, int]:
    return usage.input, usage.input or 0


def _output(usage: Usage) -> tuple[int | None, int]:
    return usage.output, usage.output or 0


def _total(usage: Usage) -> tuple[int | None, int]:
    total = total_of(usage.total, usage.input, usage.output)
    return total, (usage.input or 0) + (usage.output or 0) if total is None else total


_ANSWERED: Final = frozenset({STOP, TOOL_CALL, "length"})
"""Finish reasons of calls that wrote something."""
_NUMBERS: Final[dict[str, _Number]] = {"input": _input, "output": _output, "total": _total}


def token_sums(acts: Sequence[Act], spans: Sequence[Span]) -> tuple[TokenSum, TokenSum, TokenSum]:
    """Sum up input, output and total of the tokens of traces.

    Args:
        acts: In time order.
        spans: All spans of the traces, for their parents.

    Cost: linear in the acts; in the spans as well where a call does not state its tokens.
    """
    calls = [act for act in acts if act.facts.kind is Kind.MODEL and states_usage(act.facts)]
    usages = [stated(act.facts) for act in calls]
    nested: _Nested | None = None
    sums: list[TokenSum] = []
    for name, number_of in _NUMBERS.items():
        numbers = [number_of(usage)[0] for usage in usages]
        known = [number for number in numbers if number is not None]
        if known and len(known) == len(numbers):
            sums.append(TokenSum(number=sum(known)))
        else:
            nested = nested or _Nested(calls, acts, spans)
            sums.append(nested.sum(name, number_of))
    return sums[0], sums[1], sums[2]


def states_usage(facts: SpanFacts) -> bool:
    """Tell whether a model's call has a usage to state: all but one that failed unanswered.

    A call that a provider refused (429, a bad key) cost nothing. One that broke off after a part
    of its answer did.
    """
    return not facts.error or bool(
        facts.response_id
        or counted(facts.usage) != NO_USAGE
        or any(finish_word(reason) != ERROR for reason in facts.finish_reasons)
        or facts.output_messages
    )


def counted(usage: Usage) -> Usage:
    """Give a usage without the zeros of a sender that counted nothing."""
    if usage.input or usage == NO_USAGE:
        return usage
    total = usage.total or None
    return replace(usage, input=None, output=usage.output or None, total=total)


def stated(facts: SpanFacts) -> Usage:
    """Give what a call or an agent states of its usage.

    No output is not stated where it answered: streams that break off, or whose last chunk was not
    requested, leave the 0 with which they began.
    """
    usage = counted(facts.usage)
    if usage.output != 0 or not _has_answered(facts):
        return usage
    return replace(usage, output=None, total=None)


def _has_answered(facts: SpanFacts) -> bool:
    return any(finish_word(reason) in _ANSWERED for reason in reasons_of(facts)) or any(
        any(field_of(each, name) for name in ("content", "parts", "tool_calls"))
        for each in facts.output_messages or ()
    )


@dataclass(slots=True)
class _Part:
    """Tokens of an agent or a call, and of all inside it."""

    least: int = 0
    is_stated: bool = False
    lacks: str = ""
    """The call that does not state its number."""
    is_of_calls: bool = True
    """All of it is stated by calls, and nothing by an agent."""

    def add(self, other: "_Part") -> None:
        self.least += other.least
        self.is_stated |= other.is_stated
        self.lacks = self.lacks or other.lacks
        self.is_of_calls &= other.is_of_calls

    def add_call(self, span_id: str, number: int | None, least: int) -> None:
        """Add a call around those inside it, which stand for it where it states nothing."""
        if number is None and not self.is_stated:
            self.lacks = span_id
        self.least += least
        self.is_stated |= bool(least) or number is not None

    def put_total(self, total: int) -> None:
        """Put an agent's total in the place of all inside it, where its calls do not state all."""
        if self.is_stated and self.is_of_calls and not self.lacks:
            return
        # Else it is not the total of all calls, but as a rule that of the last one.
        if total > self.least or (total == self.least and not self.lacks):
            self.least, self.is_stated, self.lacks = total, True, ""
        self.is_of_calls = False


class _Nested:
    """The model calls and the agents of traces, each in the nearest one around it."""

    def __init__(self, calls: Sequence[Act], acts: Sequence[Act], spans: Sequence[Span]) -> None:
        stating = (Kind.AGENT, Kind.WORKFLOW)
        agents = [act for act in acts if act.facts.kind in stating]
        self._entries = [*calls, *(act for act in agents if act.facts.usage != NO_USAGE)]
        pairs = [(act.spans[0], act.facts) for act in self._entries]
        self._above = nearest_above(pairs, spans)
        inside = [0] * len(pairs)
        for outer in self._above:
            if outer >= 0:
                inside[outer] += 1
        self._order = [at for at, count in enumerate(inside) if not count]
        for at in self._order:  # grows: each after all inside it; a circle of spans is left out
            outer = self._above[at]
            if outer >= 0:
                inside[outer] -= 1
                if not inside[outer]:
                    self._order.append(outer)

    def sum(self, name: str, number_of: _Number) -> TokenSum:
        whole = _Part()
        within = [_Part() for _ in self._entries]
        for at in self._order:
            facts, part, outer = self._entries[at].facts, within[at], self._above[at]
            number, least = number_of(stated(facts))
            if facts.kind is Kind.MODEL:
                part.add_call(facts.span_id, number, least)
            elif number is not None:
                part.put_total(number)
            (whole if outer < 0 else within[outer]).add(part)
        if not whole.is_stated:
            return TokenSum(number=None)
        what = "its tokens" if name == "total" else f"its {name} tokens"
        missing = f"the model's call {whole.lacks} does not state {what}" if whole.lacks else ""
        return TokenSum(number=whole.least, missing=missing)


def find_evidence(acts: Sequence[Act], calls: Calls) -> Evidence:
    """Look for what reports the calls of traces.

    A model's call reports them by its output, by the finish reason `stop`, or by an error where
    nothing came back. Google's models say `stop` either way, and of OpenAI's Responses the
    instrumentors make up a reason. Any other reason leaves it open what was requested.

    Args:
        acts: In time order.
        calls: Read from these.
    """
    models = [act for act in acts if act.facts.kind is Kind.MODEL]
    # Where a reason says that no tool was requested while one was, no reason says anything.
    has_reasons = all(asks_for_tool(models[at].facts) for at in calls.askers)
    traces = {act.trace_id: _Trace() for act in acts}
    for at, act in enumerate(models):
        trace = traces[act.trace_id]
        trace.has_models = True
        if at in calls.askers:
            continue
        if asks_for_tool(act.facts):
            trace.asking.append((act.start_ns, act.facts.span_id))
        tells = at in calls.messages.writers or not states_usage(act.facts)
        tells = tells or (has_reasons and _declines(act.facts))
        tells = tells and not act.facts.runs_tools
        if not tells and act.facts.convention not in WITH_SPAN_PER_CALL:
            trace.silent = trace.silent or act.facts.span_id
    for act in acts:
        for trace in (traces[span.trace_id] for span in act.spans if span.trace_id in traces):
            trace.is_executed |= act.facts.kind is Kind.TOOL and not act.facts.is_merged
            trace.has_span_per_call &= act.facts.convention in WITH_SPAN_PER_CALL
    for act in calls.unrequested:
        traces[act.trace_id].unrequested_ns.append(act.start_ns)
    silent = [(trace, words) for trace in traces.values() if (words := _silence(trace))]
    return Evidence(
        missing=next((words for each in traces.values() if (words := _missing(each))), ""),
        silent=next((words for _, words in silent), ""),
        unseen=next((words for trace, words in silent if not trace.is_executed), ""),
    )


@dataclass(slots=True)
class _Trace:
    """Signs in one trace that tool calls are missing."""

    asking: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """Start and span of the models' calls that requested a tool, and for none that is known."""
    unrequested_ns: list[int] = field(default_factory=list[int])
    """Starts of executions that nobody is known to have requested."""
    silent: str = ""
    """The span of the first model's call that does not tell whether it requested a tool."""
    has_models: bool = False
    is_executed: bool = False
    has_span_per_call: bool = True


def _silence(trace: _Trace) -> str:
    if trace.silent:
        return (
            f"the model's call {trace.silent} tells neither what it wrote nor that it requested no "
            "tool"
        )
    if trace.has_models or trace.is_executed or trace.has_span_per_call:
        return ""
    return "the trace has no span of a model's call or of a tool"


def asks_for_tool(facts: SpanFacts) -> bool:
    """Tell whether a model's call ended by requesting a tool, by its finish reason."""
    return any(finish_word(reason) == TOOL_CALL for reason in reasons_of(facts))


def is_failed(facts: SpanFacts) -> bool:
    """Tell whether a model's call failed, by its error or its finish reason."""
    return bool(facts.error) or any(finish_word(each) == ERROR for each in reasons_of(facts))


def _missing(trace: _Trace) -> str:
    """Name an answer that requests a tool, where no execution is left that could be its."""
    left = sorted(trace.unrequested_ns)
    for start_ns, span_id in reversed(trace.asking):
        if not left or left.pop() < start_ns:
            return f"the model's call {span_id} requested a tool, and no such call is reported"
    return ""


def _declines(facts: SpanFacts) -> bool:
    """Tell whether the finish reasons say that no tool was requested."""
    model = f"{facts.request_model} {facts.response_model}".lower()
    is_mute = (
        "gemini" in model
        or facts.provider.startswith(("gcp", "google", "vertex"))
        or facts.response_id.startswith("resp_")
    )
    words = {finish_word(reason) for reason in reasons_of(facts)}
    return words == {STOP} and not is_mute


def reasons_of(facts: SpanFacts) -> list[str]:
    """Give the finish reasons of a model's call, of its span and of its messages."""
    messages = facts.output_messages or []
    reasons = [text(field_of(each, "finish_reason")) for each in messages]
    return [reason for reason in (*facts.finish_reasons, *reasons) if reason]
