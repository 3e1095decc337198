"""Rewriting of a trace: other calls of tools, or another answer, in the form that its spans have.

No convention is known here. The parts of spans that tell of a call are found by its id, else by its
name and what it was given or gave back; those that tell of an answer, by its text. What comes out
has to be read again to know that it reads as meant.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import ToolCall
from scouter.model.genai.facts import Kind
from scouter.model.genai.messages import MessageLog
from scouter.model.genai.names import bare_name
from scouter.model.genai.reader import kind_of, read_facts
from scouter.model.genai.wrappers import open_arguments, open_result
from scouter.model.span import Attributes, Span, SpanEvent, StatusCode

Node: TypeAlias = Any
"""What a span tells, or a part of it: attributes, JSON in them, and JSON in texts of that."""
_NUMBER: Final = re.compile(r"\.(\d{1,6})\.")
_RUN: Final = re.compile(r"[A-Za-z0-9 ]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A call, and the calls that take its place: none, another one, or several."""

    call: ToolCall
    become: tuple[ToolCall, ...]
    has_own_id: bool
    """No other call of the trace has its id."""

    @property
    def needle(self) -> str:
        """A text that stands wherever a message tells of the call."""
        return self.call.call_id or bare_name(self.call.name)

    def is_reported_in(self, node: Node) -> bool:
        """Tell whether a part of a message tells of the call."""
        call = self.call
        if call.call_id and not _any(node, lambda part: part == call.call_id):
            return False
        if self.has_own_id:
            return True
        is_named = bool(call.call_id) or _any(node, lambda part: _is_name(part, call))
        return is_named and _any(node, lambda part: _is_given(part, call) or _is_got(part, call))

    def facts(self, node: Node, new: ToolCall) -> Node:
        """Put the facts of another call into what tells of this one, from the inside out."""
        old = self.call
        if isinstance(node, str):
            if node and node == old.call_id:
                return new.call_id
            if _is_name(node, old):
                return node.replace(bare_name(old.name), bare_name(new.name))
        changed = _inside(node, lambda part: self.facts(part, new))
        if changed is not node:
            return changed
        if new.arguments is not old.arguments and _is_given(node, old):
            return _like(node, new.arguments)
        if new.result is not old.result and _is_got(node, old):
            return _like(node, new.result)
        return node


def with_calls(tree: SpanTree, changes: Sequence[Change]) -> list[Span]:
    """Put other calls into a trace, in the spans of executions and in messages.

    A model's call that said nothing but calls that are gone is gone, too.

    Cost: linear in the texts that name the calls.
    """
    owners = {
        span_id: each for each in changes if each.call.is_executed for span_id in each.call.span_ids
    }

    def items(node: Node) -> list[Node] | None:
        found = [each for each in changes if each.is_reported_in(node)]
        if len(found) != 1:
            return None
        return [found[0].facts(node, each) for each in found[0].become]

    walk = _walker([each.needle for each in changes], items, lambda node: node)
    spans: list[Span] = []
    for span in tree.spans:
        owner = _owner(tree, span, owners)
        if owner is None:
            changed = _over(span, walk)
            if changed is span or not _is_emptied(span, changed):
                spans.append(changed)
        else:
            is_own = span.span_id in owners
            spans += [
                _execution(tree, span, owner, number, is_own) for number in range(len(owner.become))
            ]
    return spans


def with_answer(tree: SpanTree, new: str) -> list[Span]:
    """Put another last answer into a trace, wherever the old one stands."""
    old = (tree.agent_work.content or "").strip()
    longest = max(_RUN.findall(old), key=len, default="")

    def leaf(node: Node) -> Node:
        return new if isinstance(node, str) and node.strip() == old else node

    walk = _walker([longest], lambda _: None, leaf)
    return [_over(span, walk) for span in tree.spans]


def _owner(tree: SpanTree, span: Span | None, owners: Mapping[str, Change]) -> Change | None:
    """The call that a span executes, or that the nearest span above executes."""
    while span is not None:
        if span.span_id in owners:
            return owners[span.span_id]
        span = tree.parent(span)
    return None


def _execution(tree: SpanTree, span: Span, owner: Change, number: int, is_own: bool) -> Span:
    """Make the span of one of the calls that take the place of an executed one."""
    old, new = owner.call, owner.become[number]
    made = span
    if is_own:
        made = _over(span, lambda node: owner.facts(node, new))
        if (name := bare_name(old.name)) != bare_name(new.name):
            made = replace(made, name=made.name.replace(name, bare_name(new.name)))
        if new.error:
            attributes = {**made.attributes, "error.type": new.error}
            status = StatusCode.ERROR
            made = replace(made, status=status, status_message=new.error, attributes=attributes)
    if not number:
        return made
    own = [each for each in tree.spans if each.span_id in old.span_ids]
    length_ns = max(each.duration_ns + 1 for each in own)
    begin, end = own[0].start_ns, own[0].start_ns + length_ns
    following = min((each.start_ns for each in tree.spans if each.start_ns >= end), default=0)
    if following:  # all come before what came behind the call, and overlap where they have to
        length_ns = min(length_ns, max(1, (following - begin - 1) // len(owner.become)))
    later = number * length_ns
    parent = span.parent_span_id
    if parent and not (is_own and span.span_id == old.span_ids[0]):
        parent = _other_id(parent, number)
    return replace(
        made,
        span_id=_other_id(span.span_id, number),
        parent_span_id=parent,
        start_ns=span.start_ns + later,
        end_ns=span.end_ns + later,
    )


def _other_id(span_id: str, number: int) -> str:
    return blake2b(f"{span_id} {number}".encode(), digest_size=8).hexdigest()


def _is_emptied(before: Span, after: Span) -> bool:
    """Tell whether a model's call requested tools, and says nothing at all any more."""
    if kind_of(before) is not Kind.MODEL or not _log_of(before).tool_calls():
        return False
    left = _log_of(after)
    return not (left.tool_calls() or left.content)


def _log_of(span: Span) -> MessageLog:
    log = MessageLog()
    log.read(read_facts(span).output_messages or ())
    return log


# --- walks through what spans tell ---


def _walker(
    needles: Sequence[str],
    items: Callable[[Node], "list[Node] | None"],
    leaf: Callable[[Node], Node],
) -> Callable[[Node], Node]:
    """Make a walk that gives back what it was given where nothing changes.

    Args:
        needles: Texts of which one stands in every text that changes.
        items: Gives the items in the place of an item of a list, None for one that stays. Of items
            inside of items the smallest one that changes is changed.
        leaf: Changes texts that hold no JSON that changes.
    """
    needle, *more = needles

    def walk(node: Node) -> Node:
        if isinstance(node, str):
            if needle not in node and not any(each in node for each in more):
                return node
            changed = _inside(node, walk)
            return leaf(node) if changed is node else changed
        if not isinstance(node, list | tuple):
            return _inside(node, walk)
        parts = cast("Sequence[Node]", node)
        found: list[Node] = []
        is_same = True
        for each in parts:
            walked = walk(each)
            others = items(each) if walked is each else None
            found += [walked] if others is None else others
            is_same = is_same and others is None and walked is each
        return parts if is_same else _as_list(parts, found)

    return walk


def _as_list(like: Node, items: list[Node]) -> Node:
    return items if isinstance(like, list) else tuple(items)


def _inside(node: Node, change: Callable[[Node], Node]) -> Node:
    """Change the parts of a node; gives the node itself where none changes."""
    if isinstance(node, Mapping):
        fields = cast("Mapping[str, Node]", node)
        found = {key: change(value) for key, value in fields.items()}
        return found if any(found[key] is not fields[key] for key in fields) else fields
    if isinstance(node, list | tuple):
        parts = cast("Sequence[Node]", node)
        changed = [change(each) for each in parts]
        is_same = all(one is other for one, other in zip(changed, parts, strict=True))
        return parts if is_same else _as_list(parts, changed)
    if isinstance(node, str) and (inner := _opened(node)) is not None:
        changed = change(inner)
        return node if changed is inner else _dumps(changed)
    return node


def _any(node: Node, test: Callable[[Node], bool]) -> bool:
    if test(node):
        return True
    if isinstance(node, Mapping):
        return any(_any(each, test) for each in cast("Mapping[str, Node]", node).values())
    if isinstance(node, list | tuple):
        return any(_any(each, test) for each in cast("Sequence[Node]", node))
    inner = _opened(node) if isinstance(node, str) else None
    return inner is not None and _any(inner, test)


@lru_cache(maxsize=2048)
def _opened(text: str) -> Node:
    """The JSON in a text; None where there is none. It is shared, and never changed."""
    if text[:1] not in ("{", "[", '"'):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _dumps(value: Node) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_name(node: Node, call: ToolCall) -> bool:
    if not isinstance(node, str) or not call.name:
        return False
    return node == call.name or bare_name(node) == bare_name(call.name)


def _is_given(node: Node, call: ToolCall) -> bool:
    """Tell whether a node holds the arguments of a call; no arguments are no sign."""
    if not call.arguments or not isinstance(node, str | Mapping):
        return False
    return deep_equal(open_arguments(cast("JsonValue", node)), call.arguments)


def _is_got(node: Node, call: ToolCall) -> bool:
    """Tell whether a node holds the result of a call."""
    if not call.has_result or call.result in (None, "", [], {}) or isinstance(node, tuple):
        return False
    return deep_equal(open_result(cast("JsonValue", node)), call.result)


def _like(node: Node, value: JsonValue) -> Node:
    """A value in the form of another one: in a text, where that is a text."""
    return _dumps(value) if isinstance(node, str) and not isinstance(value, str) else value


# --- attributes as a tree ---


def _over(span: Span, change: Callable[[Node], Node]) -> Span:
    """Change what a span tells in its attributes and events."""
    content = {
        "attributes": _nested(span.attributes),
        "events": [{"of": each, "read": _nested(each.attributes)} for each in span.events],
    }
    made = change(content)
    if made is content:
        return span
    events = tuple(
        SpanEvent(name=of.name, time_ns=of.time_ns, attributes=_flat(each["read"]))
        for each in made["events"]
        for of in (cast("SpanEvent", each["of"]),)
    )
    return replace(span, attributes=_flat(made["attributes"]), events=events)


class _Numbered(str):
    """Name of attributes that are numbered: `llm.messages` of `llm.messages.0.role`."""

    __slots__ = ()


def _nested(attributes: Attributes) -> dict[str, Node]:
    """Put numbered attributes into lists."""
    found: dict[str, Node] = {}
    groups: dict[str, dict[int, dict[str, Node]]] = {}
    for key, value in attributes.items():
        if number := _NUMBER.search(key):
            name, rest = key[: number.start()], key[number.end() :]
            groups.setdefault(name, {}).setdefault(int(number[1]), {})[rest] = value
        else:
            found[key] = value
    for name, items in groups.items():
        found[_Numbered(name)] = [_nested(items[at]) for at in sorted(items)]
    return found


def _flat(nested: Mapping[str, Node]) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for key, value in nested.items():
        if isinstance(key, _Numbered):
            for at, item in enumerate(cast("Sequence[Mapping[str, Node]]", value)):
                found |= {f"{key}.{at}.{rest}": each for rest, each in _flat(item).items()}
        else:
            found[key] = value
    return found
