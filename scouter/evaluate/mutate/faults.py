"""Faults: what can go wrong in an agent's run, one at a time, put into the spans of a good one."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import cycle, islice
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.mutate.acts import COMMON, claim_of, verb_of
from scouter.evaluate.mutate.rewrite import Change, with_answer, with_calls
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import AgentWork, ToolCall, why_unreported
from scouter.model.genai.names import bare_name
from scouter.model.record import EvalRecord
from scouter.model.span import Span

_LOOPS: Final = 10
"""Further calls of a loop; frameworks stop one after some 10 to 25."""
_FAILURE: Final = "Error: the service is not available"
_NUMBER: Final = re.compile(r"(?<![A-Za-z0-9_.,:/-])\d{2,9}(?![A-Za-z0-9_:/-]|[.,]\d)", re.ASCII)
_WORD: Final = re.compile(r"(?P<start>(?:^|[.!?:\n*-])\s*)?(?P<word>[^\W\d_]+)")
_ENGLISH: Final = frozenset(
    {"the", "is", "are", "you", "your", "for", "of", "and", "it", "have", "has", "was", "to", "we"}
)  # fmt: skip
_SPANISH: Final = (
    "para", "que", "con", "una", "los", "por", "las", "del", "como", "pero", "sus", "este",
)  # fmt: skip
_GERMAN: Final = (
    "und", "der", "die", "das", "nicht", "von", "mit", "den", "auf", "sich", "auch", "dem",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Trace:
    """A trace, and the record that is derived from it."""

    tree: SpanTree

    @cached_property
    def record(self) -> EvalRecord:
        """Record that tasks judge beside the spans."""
        return derive_record(self.tree)

    @property
    def work(self) -> AgentWork:
        """Calls and answer."""
        return self.tree.agent_work


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Good traces; values of one are put into another."""

    traces: Sequence[Trace]

    @cached_property
    def arguments(self) -> Mapping[tuple[str, str], Sequence[JsonValue]]:
        """Values of arguments, each once, by tool and name."""
        found: dict[tuple[str, str], list[JsonValue]] = {}
        for trace in self.traces:
            for call in trace.work.tool_calls:
                for path, value in leaves(call.arguments):
                    known = found.setdefault((bare_name(call.name), _key(path)), [])
                    if value not in known:
                        known.append(value)
        return found

    @cached_property
    def tools(self) -> Sequence[str]:
        """Names of all tools that were called."""
        calls = (call for trace in self.traces for call in trace.work.tool_calls)
        return sorted({bare_name(call.name) for call in calls if call.name})


Path: TypeAlias = tuple[str | int, ...]


def leaves(value: JsonValue, path: Path = ()) -> Iterator[tuple[Path, JsonValue]]:
    """Give the texts and numbers in a value, with the way to each."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from leaves(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from leaves(each, (*path, at))
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, value


def _key(path: Path) -> str:
    return next((each for each in reversed(path) if isinstance(each, str)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """Spans with a fault, and what has to be read in them for the fault to be what it should."""

    spans: Sequence[Span]
    calls: Sequence[ToolCall]
    content: str | None

    def reads_as_meant(self, before: AgentWork, after: AgentWork) -> bool:
        return (
            len(after.tool_calls) == len(self.calls)
            and all(map(_is_same, after.tool_calls, self.calls))
            and (after.content or "").strip() == (self.content or "").strip()
            and (bool(why_unreported(after)) == bool(why_unreported(before)) or not self.calls)
            and bool(after.unknown_content) == bool(before.unknown_content)
            and after.question == before.question
        )


def _is_same(left: ToolCall, right: ToolCall) -> bool:
    return (
        bare_name(left.name) == bare_name(right.name)
        and deep_equal(left.arguments or {}, right.arguments or {})
        and bool(left.error) == bool(right.error)
        and (bool(right.error) or deep_equal(left.result or "", right.result or ""))
    )


def draw(*words: object) -> int:
    """A number that is the same every time for the same words."""
    text = "\n".join(map(str, words))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


Tries: TypeAlias = Callable[[Trace, Corpus, str], Iterator[_Try]]


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault.

    Args:
        kind: Its name.
        sentence: What happened, for people.
        tries: Gives ways to put it into a trace, in the order of a draw.
    """

    kind: str
    sentence: str
    tries: Tries = field(repr=False)

    def mutant(self, trace: Trace, corpus: Corpus) -> tuple[Trace | None, bool]:
        """Put the fault into a trace.

        Returns:
            The trace with the fault; and whether there is a place for it in the trace. Without
            the first but with the second the spans could not be rewritten so that they read so.
        """
        is_possible = False
        try:
            for each in islice(self.tries(trace, corpus, self.kind), _TRIES):
                is_possible = True
                made = Trace(tree=SpanTree(each.spans))
                if each.reads_as_meant(trace.work, made.work):
                    return made, True
        except RecursionError:  # JSON of many levels
            return None, True
        return None, is_possible


_TRIES: Final = 3


# --- calls ---


def _drawn(trace: Trace, kind: str, calls: Sequence[ToolCall]) -> list[int]:
    ids = trace.tree.trace_ids
    return sorted(range(len(calls)), key=lambda at: draw(ids, kind, at))


def _changed(trace: Trace, changes: Mapping[int, Sequence[ToolCall]]) -> _Try:
    calls = trace.work.tool_calls
    ids = [call.call_id for call in calls]
    found = [
        Change(
            call=calls[at],
            become=tuple(become),
            has_own_id=bool(ids[at]) and ids.count(ids[at]) == 1,
        )
        for at, become in changes.items()
    ]
    expected = [new for at, call in enumerate(calls) for new in changes.get(at, (call,))]
    return _Try(spans=with_calls(trace.tree, found), calls=expected, content=trace.work.content)


_Become: TypeAlias = Callable[[ToolCall, Corpus, int], "Sequence[ToolCall] | None"]


def _of_one_call(become: _Become) -> Tries:
    """Make tries that let one call become others; None where it cannot."""

    def tries(trace: Trace, corpus: Corpus, kind: str) -> Iterator[_Try]:
        calls = trace.work.tool_calls
        for at in _drawn(trace, kind, calls):
            new = become(calls[at], corpus, draw(trace.tree.trace_ids, kind, at, "value"))
            if new is not None:
                yield _changed(trace, {at: new})

    return tries


def _again(call: ToolCall, number: int) -> ToolCall:
    call_id = f"{call.call_id}-{number}" if call.call_id else ""
    return replace(call, call_id=call_id)


def _argument(call: ToolCall, corpus: Corpus, number: int) -> Sequence[ToolCall] | None:
    places = list(leaves(call.arguments))
    if not places:
        return None
    path, old = places[number % len(places)]
    known = corpus.arguments.get((bare_name(call.name), _key(path)), ())
    others = [each for each in known if type(each) is type(old) and each != old]
    new = others[number % len(others)] if others else _other(old)
    return None if new == old else [replace(call, arguments=_with(call.arguments, path, new))]


def _other(value: JsonValue) -> JsonValue:
    """Another value of the same form: digits are shifted, letters reversed."""
    if not isinstance(value, str):
        return cast("float", value) + 7
    if any(map(str.isdigit, value)):
        return re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), value)
    return value[::-1]


def _with(value: JsonValue, path: Path, new: JsonValue) -> JsonValue:
    if not path:
        return new
    if isinstance(value, dict):
        key = cast("str", path[0])
        return {**value, key: _with(value[key], path[1:], new)}
    items = list(cast("list[JsonValue]", value))
    at = cast("int", path[0])
    items[at] = _with(items[at], path[1:], new)
    return items


def _emptied(call: ToolCall, _: Corpus, __: int) -> Sequence[ToolCall] | None:
    if call.error or not call.has_result or not call.result:
        return None
    empty: JsonValue = [] if isinstance(call.result, list) else ""
    return [replace(call, result={} if isinstance(call.result, dict) else empty)]


def _failed(call: ToolCall, _: Corpus, __: int) -> Sequence[ToolCall] | None:
    is_known = call.is_executed or call.has_result
    return [replace(call, error=_FAILURE, result=_FAILURE)] if is_known and not call.error else None


def _swapped(trace: Trace, _: Corpus, kind: str) -> Iterator[_Try]:
    calls = trace.work.tool_calls
    for at in _drawn(trace, kind, calls[1:]):
        one, other = calls[at], calls[at + 1]
        is_alike = bare_name(one.name) == bare_name(other.name) and one.arguments == other.arguments
        if not (is_alike or one.error or other.error or one.step == other.step):
            yield _changed(trace, {at: (other,), at + 1: (one,)})


# --- answers ---


def _of_answer(change: Callable[[str, Trace, Corpus, int], str | None]) -> Tries:
    """Make tries that change the answer; None where that cannot be."""

    def tries(trace: Trace, corpus: Corpus, kind: str) -> Iterator[_Try]:
        old = trace.work.content
        if not old or not old.strip():
            return
        new = change(old, trace, corpus, draw(trace.tree.trace_ids, kind))
        if new is not None and new != old:
            yield _Try(spans=with_answer(trace.tree, new), calls=trace.work.tool_calls, content=new)

    return tries


def _with_claim(text: str, trace: Trace, corpus: Corpus, number: int) -> str | None:
    if len(_ENGLISH.intersection(_words(text))) < 2:
        return None  # the claim would be in another language than the answer
    called = {verb_of(bare_name(call.name)) for call in trace.work.tool_calls}
    free = [tool for tool in corpus.tools if (verb := verb_of(tool)) and verb not in called]
    free = free or [verb for verb in COMMON if verb not in called]
    return f"{text.rstrip()} {claim_of(free[number % len(free)])}"


def _with_other_number(text: str, _: Trace, __: Corpus, number: int) -> str | None:
    found = list(_NUMBER.finditer(text))
    if not found:
        return None
    old = found[number % len(found)]
    return f"{text[: old.start()]}{int(old[0]) + 7}{text[old.end() :]}"


def _cut(text: str, _: Trace, __: Corpus, ___: int) -> str | None:
    words = text[: len(text) // 2].rstrip()
    while words and not words[-1].isalnum():
        words = words[:-1]
    return words if len(words) >= 8 else None


def _words(text: str) -> set[str]:
    return {match["word"].lower() for match in _WORD.finditer(text)}


def _in_another_language(text: str, _: Trace, __: Corpus, ___: int) -> str | None:
    """Words of another language in the place of all but names; numbers and names stay."""
    words = _words(text)
    if not any(each.isascii() for each in words):
        return f"This is the answer to your question: {' '.join(re.findall(r'[0-9]+', text))}."
    others = cycle(_GERMAN if len(words & {*_SPANISH}) > 2 else _SPANISH)

    def other(match: re.Match[str]) -> str:
        start, word = match["start"], match["word"]
        is_name = start is None and not word[0].islower() and len(word) > 1
        return (start or "") + (word if is_name else next(others))

    return _WORD.sub(other, text)


def _loop(call: ToolCall, _: Corpus, __: int) -> Sequence[ToolCall]:
    return [call, *(_again(call, at + 1) for at in range(_LOOPS))]


_TABLE: Final[Mapping[str, tuple[str, Tries]]] = {
    "call_dropped": ("a call of a tool is missing", _of_one_call(lambda _, __, ___: ())),
    "call_doubled": (
        "a call is made twice",
        _of_one_call(lambda call, _, __: (call, _again(call, 1))),
    ),
    "calls_swapped": ("two calls are in the wrong order", _swapped),
    "argument_replaced": ("an argument of a call is another one", _of_one_call(_argument)),
    "result_empty": ("a tool gives nothing back", _of_one_call(_emptied)),
    "call_failed": ("a tool fails", _of_one_call(_failed)),
    "loop": (f"a call is made {_LOOPS} more times", _of_one_call(_loop)),
    "act_claimed": ("the answer claims an act that no call did", _of_answer(_with_claim)),
    "number_changed": ("a number in the answer is off by 7", _of_answer(_with_other_number)),
    "answer_blank": ("the answer is blank", _of_answer(lambda _, __, ___, ____: "")),
    "answer_cut": ("the answer ends in the middle of a sentence", _of_answer(_cut)),
    "language_changed": ("the answer is in another language", _of_answer(_in_another_language)),
}
FAULTS: Final = tuple(Fault(kind, *rest) for kind, rest in _TABLE.items())
"""The kinds, in the order in which they are shown."""
