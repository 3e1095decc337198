"""Sums of tokens over the model calls of a trace, and the calls that a sum lacks.

The rule. A number is added over the model calls that had an answer: one that failed without any
has none to state. Where a call does not state its number, the calls inside it stand for it, or
else the total of the agent around it stands for all calls of that agent. An agent's total and its
calls are never added. Where neither states it, the sum is the least that it can be, and names the
call that it lacks.

A call read something, so that 0 tokens of input are what a sender writes that counted nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from scouter.model.agent_work import total_of
from scouter.model.genai.acts import Act, nearest_above
from scouter.model.genai.facts import NO_USAGE, Kind, SpanFacts, Usage
from scouter.model.genai.finish import ERROR, finish_word
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


_NUMBERS: Final[dict[str, _Number]] = {"input": _input, "output": _output, "total": _total}


def token_sums(acts: Sequence[Act], spans: Sequence[Span]) -> tuple[TokenSum, TokenSum, TokenSum]:
    """Sum up input, output and total of the tokens of traces.

    Args:
        acts: In time order.
        spans: All spans of the traces, for their parents.

    Cost: linear in the acts; in the spans as well where a call does not state its tokens.
    """
    calls = [act for act in acts if act.facts.kind is Kind.MODEL and states_usage(act.facts)]
    usages = [counted(act.facts.usage) for act in calls]
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
        if total >= self.least:  # else it is not the total of all calls
            self.least, self.is_stated, self.lacks = total, True, ""
        self.is_of_calls = False


class _Nested:
    """The model calls and the agents of traces, each in the nearest one around it."""

    def __init__(self, calls: Sequence[Act], acts: Sequence[Act], spans: Sequence[Span]) -> None:
        stating = (Kind.AGENT, Kind.WORKFLOW)
        agents = [act for act in acts if act.facts.kind in stating]
        self._entries = [*calls, *(act for act in agents if act.facts.usage != NO_USAGE)]
        told = [(act.spans[0], act.facts) for act in self._entries]
        self._above = nearest_above(told, spans)
        inside = [0] * len(told)
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
            number, least = number_of(counted(facts.usage))
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
