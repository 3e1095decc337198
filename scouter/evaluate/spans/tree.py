"""The spans of one or more traces, in time order and as a tree."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import compress, count, repeat
from operator import attrgetter, lt
from typing import Any, Final, Generic, Self, TypeAlias, TypeVar, cast, overload

from scouter.evaluate.operators.show import show_name
from scouter.evaluate.spans.gaps import Gaps, find_gaps
from scouter.model.agent_work import AgentWork
from scouter.model.genai.acts import Act
from scouter.model.genai.control_flow import has_failed
from scouter.model.genai.dialogue import given_texts
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of
from scouter.model.genai.work import acts_of, work_of
from scouter.model.log_event import attach_events, is_evidence
from scouter.model.span import Span, StatusCode

_Value = TypeVar("_Value")


class once(Generic[_Value]):
    """A property that an immutable object computes once, when it is first read.

    `functools.cached_property` of Python 3.11 takes a lock, which costs three times as much; a
    tree of spans has a dozen such properties. Threads that read one at the same moment may compute
    it twice, and find the same.

    Args:
        make: Computes the value.
    """

    def __init__(self, make: Callable[[Any], _Value]) -> None:
        self._make, self.__doc__ = make, make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owned: None, owner: type) -> Self: ...
    @overload
    def __get__(self, owned: object, owner: type) -> _Value: ...
    def __get__(self, owned: object | None, owner: type) -> _Value | Self:
        if owned is None:
            return self
        # The object's own value is found before this property, from now on.
        value = owned.__dict__[self._name] = self._make(owned)
        return value


def cut_circles(parents: list[int]) -> list[int]:
    """Make a forest of what senders wrote.

    Spans that name each other as parents form a circle; the first of them loses its parent and
    becomes a root. A span that names itself is a circle of one.

    Args:
        parents: Position of each span's parent, -1 for none.

    Returns:
        The same list where nothing had to be cut.
    """
    if all(map(lt, parents, count())):  # parents come first everywhere: no circle is possible
        return parents
    cut = list(parents)
    state = bytearray(len(cut))  # 0 not seen, 1 on this walk, 2 done
    for start in range(len(cut)):
        walk: list[int] = []
        at = start
        while at >= 0 and not state[at]:
            state[at] = 1
            walk.append(at)
            at = cut[at]
        if at >= 0 and state[at] == 1:
            cut[min(walk[walk.index(at) :])] = -1
        for seen in walk:
            state[seen] = 2
    return cut


def top_down(parents: Sequence[int]) -> Sequence[int]:
    """Give all positions, each after its parent's.

    Args:
        parents: Without circles.
    """
    if all(map(lt, parents, count())):
        return range(len(parents))
    children: dict[int, list[int]] = {}
    for at, parent in enumerate(parents):
        children.setdefault(parent, []).append(at)
    order = list(children.get(-1, ()))
    for at in order:  # grows while it is read: level after level
        order.extend(children.get(at, ()))
    return order


def depths(parents: Sequence[int], order: Sequence[int]) -> list[int]:
    """Count the parents above each position; a root has 0.

    Args:
        parents: Without circles.
        order: From `top_down`.
    """
    found = [0] * len(parents)
    for at in order:
        parent = parents[at]
        if parent >= 0:
            found[at] = found[parent] + 1
    return found


Mask: TypeAlias = bytes

_FLIP: Final = bytes((1, 0)) + bytes(254)


def intersect(masks: Sequence[Mask]) -> Mask:
    """Spans in all sets; at least one set is given."""
    return reduce(int.__and__, map(int.from_bytes, masks)).to_bytes(len(masks[0]))


def unite(masks: Sequence[Mask]) -> Mask:
    """Spans in any set; at least one set is given."""
    return reduce(int.__or__, map(int.from_bytes, masks)).to_bytes(len(masks[0]))


def invert(mask: Mask) -> Mask:
    """Spans that are not in the set."""
    return mask.translate(_FLIP)


def children(mask: Mask, parents: Sequence[int]) -> Mask:
    """Spans whose parent is in the set.

    Args:
        mask: The set.
        parents: Position of each span's parent, -1 for none: it reads the 0 that is put behind.
    """
    return bytes(map((mask + b"\0").__getitem__, parents))


def parents_of(mask: Mask, parents: Sequence[int]) -> Mask:
    """Spans with a child in the set."""
    found = bytearray(len(mask) + 1)  # roots write to the last place, which is cut off
    for parent in compress(parents, mask):
        found[parent] = 1
    return bytes(found[:-1])


def descendants(mask: Mask, parents: Sequence[int], order: Sequence[int]) -> Mask:
    """Spans with an ancestor in the set.

    Args:
        mask: The set.
        parents: Position of each span's parent, -1 for none.
        order: All positions, each after its parent's.
    """
    reached = bytearray(mask + b"\0")
    for at in order:
        if reached[parents[at]]:
            reached[at] = 1
    return bytes(map(reached.__getitem__, parents))


def ancestors(mask: Mask, parents: Sequence[int], order: Sequence[int]) -> Mask:
    """Spans with a descendant in the set; arguments as in `descendants`."""
    found = bytearray(len(mask) + 1)
    for at in reversed(order):
        if mask[at] or found[at]:
            found[parents[at]] = 1
    return bytes(found[:-1])


_KeyOf: TypeAlias = Callable[[Span], object]

_ERROR: Final = StatusCode.ERROR
_start = attrgetter("start_ns")
_trace_id = attrgetter("trace_id")
_IN_ONE_TRACE: Final[tuple[_KeyOf, _KeyOf]] = (
    attrgetter("span_id"),
    attrgetter("parent_span_id"),
)
"""Keys of a span and of its parent where all spans are of one trace: a text is found sooner."""
_IN_MANY: Final[tuple[_KeyOf, _KeyOf]] = (
    attrgetter("trace_id", "span_id"),
    attrgetter("trace_id", "parent_span_id"),
)


class SpanTree:
    """An immutable index over spans, whatever their senders did.

    * Of two spans with one key the one that ends later is stored, of two that end together the one
      whose text form is larger: the order of arrival never matters.
    * A parent that is not here makes its children roots that wait, `orphans`.
    * Spans that name each other (or themselves) as parents form a circle; the first of them in
      time order counts as a root, for every question to the tree.
    * Parents are looked up inside a span's own trace only.
    * A log event is an event of the span that it belongs to. One whose span is not here says that
      a span is missing.

    Args:
        spans: Spans of any number of traces, in any order.
        unread: Reason that existing spans are not here, as they are too many. A task that asks for
            them is errored then.
        lost: Reason that spans are known to be missing, where the spans do not show it.

    Cost: n log n for n spans; every question below is linear at most, and answered once.
    """

    def __init__(self, spans: Iterable[Span] = (), *, unread: str = "", lost: str = "") -> None:
        given, strays = attach_events(spans)
        self.strays: Final[tuple[Span, ...]] = tuple(strays)
        """Log events whose span is not here, by time."""
        self.unread: Final = unread
        self.lost: Final = lost or next(map(_spanless, filter(is_evidence, strays)), "")
        traces = set(map(_trace_id, given))
        self._key, self._parent_key = keys = _IN_ONE_TRACE if len(traces) < 2 else _IN_MANY
        ordered, self._at = _ordered(given, *keys)
        self.spans: Final[tuple[Span, ...]] = tuple(ordered)
        """Spans in time order, by start.

        Of spans that start together the one nearer to the root comes first, then the longer one,
        then the one with the lower span id.
        """
        self.masks: Final[dict[str, Mask]] = {}
        """Masks of the spans that filters selected, by wire form; equal filters share one."""

    def __len__(self) -> int:
        return len(self.spans)

    def __repr__(self) -> str:
        return f"SpanTree({len(self.spans)} spans, {len(self.roots)} roots)"

    def parent(self, span: Span) -> Span | None:
        """The span's parent, or None for a root and where the parent is not here."""
        if span.trace_id not in self.trace_ids:
            return None
        at = self._at.get(self._key(span))
        above = self._at.get(self._parent_key(span), -1) if at is None else self.parents_at[at]
        return self.spans[above] if above >= 0 else None

    @once
    def names(self) -> tuple[str, ...]:
        """The names of all spans in time order."""
        return tuple(map(attrgetter("name"), self.spans))

    @once
    def span_ids(self) -> tuple[str, ...]:
        """The ids of all spans in time order."""
        if self._key is _IN_ONE_TRACE[0]:
            return tuple(cast("Iterable[str]", self._at))
        return tuple(map(attrgetter("span_id"), self.spans))

    @once
    def errors(self) -> Mask:
        """Mask of the spans that failed; control flow is no failure."""
        return bytes([span.status == _ERROR and has_failed(span) for span in self.spans])

    @once
    def has_events(self) -> bool:
        """Tells whether any span has an event."""
        return any(map(attrgetter("events"), self.spans))

    @once
    def trace_ids(self) -> tuple[str, ...]:
        """The traces that spans belong to, in time order of their first span."""
        return tuple(dict.fromkeys(span.trace_id for span in self.spans))

    @once
    def parents_at(self) -> Sequence[int]:
        """Position of the parent of every span in time order, -1 for a root."""
        return _links(self.spans, self._at, self._parent_key)

    @once
    def top_down(self) -> Sequence[int]:
        """All positions, each after its parent's."""
        return top_down(self.parents_at)

    @once
    def depths(self) -> Sequence[int]:
        """Number of parents above every span in time order; a root has 0."""
        return depths(self.parents_at, self.top_down)

    @once
    def roots(self) -> tuple[Span, ...]:
        """Spans below none, in time order: true roots, those that wait for one, cut circles."""
        tops = [at for at, above in enumerate(self.parents_at) if above < 0]
        return tuple(map(self.spans.__getitem__, tops))

    @once
    def true_roots(self) -> tuple[Span, ...]:
        """Roots that name no parent; where there are none, all roots."""
        return tuple([span for span in self.roots if span.parent_span_id is None]) or self.roots

    @once
    def true_root_ids(self) -> tuple[str, ...]:
        """The ids of `true_roots`."""
        return tuple(map(attrgetter("span_id"), self.true_roots))

    @once
    def missing_parents(self) -> int:
        """Number of spans that are named as a parent but are not here."""
        return len({(span.trace_id, span.parent_span_id) for span in self.orphans})

    @once
    def orphans(self) -> Sequence[Span]:
        """Spans whose parent is not here, in time order."""
        found = [span for span in self.roots if span.parent_span_id]
        return [span for span in found if self._parent_key(span) not in self._at]

    @once
    def gaps(self) -> Gaps:
        """Parts of the trace that are known to be missing."""
        return find_gaps(self.spans, self.orphans, self.lost, has_events=self.has_events)

    @once
    def has_loose_order(self) -> bool:
        """Tells whether a parent that is missing may change the order of spans that are here.

        Of spans that start together the one nearer to its root comes first.
        """
        tops = list(range(len(self.spans)))
        for at in self.top_down:
            if self.parents_at[at] >= 0:
                tops[at] = tops[self.parents_at[at]]
        together: dict[int, set[int]] = {}
        for span, top in zip(self.spans, tops, strict=True):
            together.setdefault(span.start_ns, set()).add(top)
        return any(
            len(found) > 1 and any(self.spans[at].parent_span_id is not None for at in found)
            for found in together.values()
        )

    @once
    def depth(self) -> int:
        """Parents above the deepest span: 0 for roots alone and for no spans."""
        return max(self.depths, default=0)

    @once
    def agent_work(self) -> AgentWork:
        """Calls and messages of the agent, from the spans' GenAI attributes.

        They are read once for all tasks, and empty where no span has a kind; see `has_agent_spans`.
        """
        return work_of(self.acts, self.spans)

    @once
    def given_texts(self) -> Sequence[str]:
        """What people and instructions said to models and agents."""
        return given_texts(self.acts)

    @once
    def acts(self) -> Sequence[Act]:
        """Calls of models, tools and agents, each once, in time order."""
        return acts_of(self.spans)

    @once
    def kinds(self) -> tuple[Kind, ...]:
        """Kind of each span, such as a model call or a tool call, in time order."""
        return tuple(map(kind_of, self.spans))

    @once
    def model_calls(self) -> tuple[Span, ...]:
        """The calls of models that write an answer, in time order."""
        return tuple(
            span for span, kind in zip(self.spans, self.kinds, strict=True) if kind is Kind.MODEL
        )

    @once
    def has_agent_spans(self) -> bool:
        """Tells whether any span says of itself what it is: a model's call, a tool's and so on."""
        return any(kind is not Kind.OTHER for kind in self.kinds)

    @once
    def has_agent(self) -> bool:
        """Tells whether the spans tell of a question, an answer or a call of an agent's own.

        The spans of a setup, a health check or a helper alone do not.
        """
        return self.agent_work.has_agent

    @once
    def start_ns(self) -> int:
        """Start of the first span, nanoseconds since the epoch; 0 without spans."""
        return self.spans[0].start_ns if self.spans else 0

    @once
    def duration_ns(self) -> int:
        """Nanoseconds from the first start to the last end; 0 without spans."""
        if not self.spans:
            return 0
        return max(0, max([span.end_ns for span in self.spans]) - self.start_ns)


def _spanless(event: Span) -> str:
    return (
        f"the span {event.parent_span_id}, which the log event {show_name(event.name)} belongs to, "
        f"is not here (trace {event.trace_id})"
    )


def _ordered(
    given: list[Span], key: _KeyOf, parent_key: _KeyOf
) -> tuple[list[Span], Mapping[object, int]]:
    """Put spans in time order, each once, and tell the place of every key."""
    ordered = sorted(given, key=_start)
    at = _positions(ordered, key)
    if len(at) < len(ordered):
        ordered = sorted(_one_per_key(given), key=_start)
        at = _positions(ordered, key)
    if len(set(map(_start, ordered))) < len(ordered):
        ordered = _order_ties(ordered, key, parent_key)
        at = _positions(ordered, key)
    return ordered, at


def _one_per_key(spans: Iterable[Span]) -> list[Span]:
    """Choose one span per key, whatever the order they came in."""
    retained: dict[tuple[str, str], Span] = {}
    for span in spans:
        key = (span.trace_id, span.span_id)
        known = retained.get(key)
        if known is None or (span is not known and _is_preferred(span, known)):
            retained[key] = span
    return list(retained.values())


def _is_preferred(span: Span, known: Span) -> bool:
    if span.end_ns != known.end_ns:
        return span.end_ns > known.end_ns
    return repr(span) > repr(known)


def _positions(spans: Sequence[Span], key: _KeyOf) -> dict[object, int]:
    return dict(zip(map(key, spans), range(len(spans)), strict=True))


def _links(spans: Sequence[Span], at: Mapping[object, int], parent_key: _KeyOf) -> list[int]:
    """Find the parents' positions. A root's key has None in it, which is no span's."""
    return cut_circles(list(map(at.get, map(parent_key, spans), repeat(-1))))


def _order_ties(spans: list[Span], key: _KeyOf, parent_key: _KeyOf) -> list[Span]:
    """Order spans of which some start together: a parent has to come before its child.

    Coarse clocks make such spans common, and a child may outlive the parent that it starts with.
    """
    spans.sort(key=lambda span: (span.start_ns, -span.end_ns, span.span_id, span.trace_id))
    parents = _links(spans, _positions(spans, key), parent_key)
    depth = depths(parents, top_down(parents))
    order = sorted(range(len(spans)), key=lambda at: (spans[at].start_ns, depth[at], at))
    return [spans[at] for at in order]
