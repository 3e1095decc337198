"""Answers of every store about spans, traces and the use of models by filter.

Expected values are counted by hand, or by going through everything that was put in.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.prices import ModelTokens
from collector.store.span_queries import (
    SpanPosition,
    SpanQuery,
    TraceQuery,
    TraceSummary,
    TraceTotals,
)
from collector.store.traces import Step
from collector.store.usage import UsageGroup, UsageQuery
from scouter.model.span import AttributeValue, Resource, Span, StatusCode
from tests.contracts.store_data import SPACE, TRACE, span
from tests.contracts.store_opened import IN_CLASS, OpenedStore
from tests.support.store_appends import AppendingStore

_SERVICES = {name: Resource(attributes={"service.name": name}) for name in ("shop", "bank")}


@dataclass(frozen=True, kw_only=True)
class Stored:
    """A span and the commit that stored it."""

    seq: int
    span: Span

    @property
    def position(self) -> SpanPosition:
        return SpanPosition(self.seq, self.span.start_ns, self.span.trace_id, self.span.span_id)


def matches(each: Span, query: SpanQuery) -> bool:
    """The filter, read once more."""
    tool, operation = tool_of(each), each.attributes.get("gen_ai.operation.name")
    attributes = {
        "operation": operation if tool is None else "execute_tool",
        "tool_name": tool,
        "service_name": each.service_name,
    }
    return (
        query.name in (None, each.name)
        and query.status in (None, each.status)
        and all(attributes[key] == value for key, value in query.columns.items())
        and all(str(each.attributes.get(key)) == value for key, value in query.attributes)
        and each.end_ns - each.start_ns >= (query.min_duration_ns or -math.inf)
        and tokens(each) >= (query.min_tokens or 0)
        and (query.since_ns is None or each.start_ns >= query.since_ns)
        and (query.until_ns is None or each.start_ns < query.until_ns)
    )


def tool_of(each: Span) -> str | None:
    """The tool that a span calls."""
    stated = (each.attributes.get(f"gen_ai.{name}.name") for name in ("operation", "tool"))
    operation, tool = stated
    is_tool = operation == "execute_tool" or (tool is not None and operation is None)
    return str(tool or each.name) if is_tool else None


def conditions(query: TraceQuery) -> list[SpanQuery]:
    """The filter's conditions apart, in the order of which the first one gives the place."""
    if query.is_same_span:
        return [query]
    any_span = SpanQuery(space="", since_ns=query.since_ns, until_ns=query.until_ns)
    columns = [(name, query.columns.get(name)) for name in ("tool_name", "operation")]
    service = query.columns.get("service_name")
    apart = [
        *(replace(any_span, attributes=(each,)) for each in query.attributes),
        *(replace(any_span, columns={name: value}) for name, value in columns if value),
        *([replace(any_span, name=query.name)] if query.name else ()),
        *([replace(any_span, status=query.status)] if query.status is not None else ()),
        *([replace(any_span, min_tokens=query.min_tokens)] if query.min_tokens else ()),
        *([replace(any_span, min_duration_ns=query.min_duration_ns)] * bool(query.min_duration_ns)),
        *([replace(any_span, columns={"service_name": service})] if service else ()),
    ]
    return apart or [any_span]


def place(spans: Sequence["Stored"], query: TraceQuery) -> SpanPosition | None:
    """The newest span of a trace that meets the first condition; None if one is met by no span."""
    called = SpanQuery(space="", columns={"tool_name": query.without_tool or ""})
    if query.without_tool and any(matches(each.span, called) for each in spans):
        return None
    met = [
        [each.position for each in spans if matches(each.span, condition)]
        for condition in conditions(query)
    ]
    return max(met[0]) if all(met) else None


def tokens(each: Span) -> int:
    """Input and output of a model's call; other spans have none of their own."""
    if each.attributes.get("gen_ai.operation.name") != "chat":
        return 0
    stated = (each.attributes.get(f"gen_ai.usage.{kind}_tokens") for kind in ("input", "output"))
    return sum(count for count in stated if isinstance(count, int))


class Batch(NamedTuple):
    """Spans that come together: of each the trace, and what a filter can ask about it."""

    traces: Sequence[int]
    rows: Sequence[tuple[str, str, str, StatusCode, int, int, dict[str, AttributeValue]]]


_rows = st.tuples(
    st.sampled_from(["chat", "step", "plan"]),
    st.sampled_from(["shop", "bank"]),
    st.sampled_from(["chat", "execute_tool", ""]),
    st.sampled_from(StatusCode),
    st.integers(0, 9),
    st.integers(0, 3),
    st.fixed_dictionaries(
        {}, optional={"gen_ai.tool.name": st.sampled_from(["search", "pay"]),
                      "color": st.sampled_from(["red", "blue"]), "n": st.integers(0, 3),
                      "gen_ai.usage.input_tokens": st.integers(0, 3),
                      "gen_ai.usage.output_tokens": st.integers(0, 3)}
    ),
)  # fmt: skip
_batches = st.lists(
    st.lists(st.tuples(st.integers(1, 5), _rows), min_size=1, max_size=6), min_size=1, max_size=5
)
_queries = st.builds(
    TraceQuery,
    space=st.just(""),
    name=st.sampled_from([None, None, "chat", "step", "nobody"]),
    columns=st.fixed_dictionaries(
        {}, optional={"operation": st.sampled_from(["chat", "execute_tool"]),
                      "tool_name": st.sampled_from(["search", "pay"]),
                      "service_name": st.just("shop")}
    ),
    attributes=st.lists(
        st.sampled_from([("color", "red"), ("n", "2"), ("n", "x"), ("gen_ai.tool.name", "pay")]),
        max_size=2,
    ).map(tuple),
    status=st.sampled_from([None, None, *StatusCode]),
    min_duration_ns=st.sampled_from([None, 1, 3]),
    min_tokens=st.sampled_from([None, None, 1, 4]),
    since_ns=st.sampled_from([None, 3]),
    until_ns=st.sampled_from([None, 7]),
    is_same_span=st.booleans(),
    without_tool=st.sampled_from([None, None, "search"]),
    limit=st.integers(1, 4),
)  # fmt: skip
_numbers = itertools.count(1)
_TEXTS: Final[Sequence[tuple[AttributeValue, list[str], list[str]]]] = (
    ("red", ["red"], ["Red", "re", "red "]),
    ("", [""], [" "]),
    ("naïve ☃", ["naïve ☃"], ["naive ☃"]),
    ("12", ["12"], ["12.0", "012"]),
    (12, ["12"], ["12.0", "+12", "012", "1_2"]),
    (-(2**63), [str(-(2**63))], [str(2**63)]),
    (True, ["true"], ["True", "1"]),
    (False, ["false"], ["0", ""]),
    (0.5, ["0.5", "5e-1"], ["0.50001"]),
    (3.0, ["3.0", "3"], ["true"]),
    (-0.0, ["-0.0", "0.0"], ["x"]),
    ("x" * 200, ["x" * 200], ["x" * 199]),
    ("x" * 300, [], ["x" * 300]),
    (("a", "b"), ["a", "b", '["a","b"]', '[ "a", "b" ]'], ["('a', 'b')", '["a"]', "ab", "[a]"]),
    ((1, 2.5, True), ["[1, 2.5, true]"], ["[1]", "[1, 2.5]"]),
    ((), ["[]"], [""]),
    ({"a": {"b": "c"}}, ['{"a":{"b":"c"}}'], ["c", '{"b": "c"}']),
    ("[1, 2]", ["[1, 2]"], ["[1,2]"]),
    (None, [], ["", "None"]),
)
"""Values of attributes, the texts that find them, and some that do not."""


def put(store: AppendingStore, space: str, batches: Any) -> list[Stored]:
    """Store batches one by one; the spans and their commits."""
    stored: list[Stored] = []
    for batch in batches:
        spans: list[Span] = []
        for trace, (name, service, operation, status, start, duration, rest) in batch:
            head: dict[str, AttributeValue] = (
                {"gen_ai.operation.name": operation} if operation else {}
            )
            number = next(_numbers)
            spans.append(
                Span(
                    trace_id=f"{trace:032x}", span_id=f"{number:016x}", name=name,
                    start_ns=start, end_ns=start + duration, status=status,
                    attributes=head | rest, resource=_SERVICES[service],
                )
            )  # fmt: skip
        seq = store.append_spans(space, spans, 1).result().seq
        stored += [Stored(seq=seq, span=each) for each in spans]
    return stored


def span_pages(store: AppendingStore, query: SpanQuery) -> Iterator[SpanPosition]:
    while True:
        page = store.spans(query)
        assert len(page.items) <= query.limit
        yield from (each.position for each in page.items)
        if page.next_before is None:
            return
        query = replace(query, before=page.next_before)


def trace_pages(store: AppendingStore, query: TraceQuery) -> Iterator[TraceSummary]:
    while True:
        page = store.traces(query)
        assert len(page.items) <= query.limit
        yield from page.items
        if page.next_before is None:
            return
        query = replace(query, before=page.next_before, as_of=page.as_of)


class StoreSearchContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    @IN_CLASS
    @given(batches=_batches, query=_queries)
    def test_spans_are_those_of_a_brute_force(
        self, store: AppendingStore, batches: Any, query: TraceQuery
    ) -> None:
        """All pages together, in their order."""
        query = replace(query, space=f"space {next(_numbers)}")
        stored = put(store, query.space, batches)
        expected = sorted(
            (each.position for each in stored if matches(each.span, query)), reverse=True
        )
        assert list(span_pages(store, query)) == expected

    @IN_CLASS
    @given(batches=_batches, query=_queries)
    def test_traces_are_those_of_a_brute_force(
        self, store: AppendingStore, batches: Any, query: TraceQuery
    ) -> None:
        """Each once, at the place of its newest match, counted over all of its spans."""
        query = replace(query, space=f"space {next(_numbers)}")
        stored = put(store, query.space, batches)
        newest: dict[str, SpanPosition] = {}
        for trace_id in {each.span.trace_id for each in stored}:
            at = place([each for each in stored if each.span.trace_id == trace_id], query)
            if at is not None:
                newest[trace_id] = at
        found = list(trace_pages(store, query))
        assert [each.trace_id for each in found] == sorted(
            newest, key=lambda trace_id: newest[trace_id], reverse=True
        )
        for trace in found:
            spans = [each.span for each in stored if each.span.trace_id == trace.trace_id]
            first_ns = min(each.start_ns for each in spans)
            assert trace.start_ns == first_ns
            assert trace.end_ns == max(each.end_ns for each in spans)
            assert trace.spans == len(spans)
            assert trace.errors == sum(each.status is StatusCode.ERROR for each in spans)
            tools = {tool_of(each) for each in spans} - {None}
            assert set(trace.tools) == tools
            assert len(trace.tools) == len(tools)
            assert trace.name in {each.name for each in spans if each.start_ns == first_ns}

    def test_the_few_traces_that_meet_all_are_found_among_many(self, store: AppendingStore) -> None:
        """Every trace calls the tool; the first three have an error on another span.

        The third also calls another tool.
        """
        tool: dict[str, AttributeValue] = {"gen_ai.operation.name": "execute_tool"}
        for n in range(1, 81):
            called = "refund" if n == 3 else "plan"
            rows = [
                span(1, trace_id=f"{n:032x}", attributes={**tool, "gen_ai.tool.name": "search"}),
                span(2, trace_id=f"{n:032x}", attributes={**tool, "gen_ai.tool.name": called},
                     status=StatusCode.ERROR if n < 4 else StatusCode.OK),
            ]  # fmt: skip
            store.append_spans(SPACE, rows, 1).result()
        query = TraceQuery(
            space=SPACE, columns={"tool_name": "search"}, status=StatusCode.ERROR, limit=1
        )
        for search, wanted in (
            (query, [3, 2, 1]),
            (replace(query, without_tool="refund"), [2, 1]),
            (replace(query, without_tool="plan"), [3]),
            (replace(query, is_same_span=True), []),
        ):
            assert [int(each.trace_id, 16) for each in trace_pages(store, search)] == wanted
            found = store.search_traces(replace(search, limit=9), "SEARCH", lambda: False)
            assert [int(each.trace_id, 16) for each in found.items] == wanted

    def test_a_span_comes_as_it_was_put_in(self, store: AppendingStore) -> None:
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "session.id": 7,
            "error.type": "Timeout", "other": "x",
        }  # fmt: skip
        resource = Resource(
            attributes={"service.name": "shop", "service.version": "2",
                        "deployment.environment.name": "prod"}
        )  # fmt: skip
        given = span(
            1, parent_span_id="a" * 16, status=StatusCode.ERROR, attributes=attributes,
            resource=resource,
        )  # fmt: skip
        seq = store.append_spans(SPACE, [given], 1).result().seq
        (found,) = store.spans(SpanQuery(space=SPACE)).items
        assert found.position == SpanPosition(seq, given.start_ns, TRACE, given.span_id)
        assert (found.name, found.kind, found.status) == (given.name, given.kind, given.status)
        assert (found.parent_span_id, found.end_ns) == ("a" * 16, given.end_ns)
        assert found.columns == {
            "operation": "chat", "provider": "openai", "session_id": "7",
            "error_type": "Timeout", "service_name": "shop", "service_version": "2",
            "environment": "prod",
        }  # fmt: skip

    def test_attributes_by_their_text(self, store: AppendingStore) -> None:
        """Texts, numbers, booleans, lists, objects; what is longer than 256 bytes is not found."""
        spans = [
            span(at, attributes={f"key {at}": value, "k": "red"})
            for at, (value, _, _) in enumerate(_TEXTS, start=1)
        ]
        store.append_spans(SPACE, spans, 1).result()
        for at, (value, found_by, not_by) in enumerate(_TEXTS, start=1):
            for text in (*found_by, *not_by):
                page = store.spans(SpanQuery(space=SPACE, attributes=((f"key {at}", text),)))
                found = [int(each.position.span_id, 16) for each in page.items]
                assert found == ([at] if text in found_by else []), (value, text)

    def test_attributes_that_share_a_hash_differ(self, store: AppendingStore) -> None:
        """Of 200,000 texts some pairs have the same CRC-32, behind the same bytes, too."""
        seen: dict[int, str] = {}
        texts = (f"{n * 2654435761 % 2**32:08x}" for n in itertools.count())
        head = crc32(b"\x0a\x03key\x12\x0a\x0a\x08")
        text = next(
            each for each in texts if seen.setdefault(crc32(each.encode(), head), each) != each
        )
        other = seen[crc32(text.encode(), head)]
        for at, value in enumerate([text, other] * 3):
            store.append_spans(SPACE, [span(at + 1, attributes={"key": value})], 1).result()
        query = SpanQuery(space=SPACE, attributes=(("key", text),), limit=1)
        assert [int(each.span_id) for each in span_pages(store, query)] == [5, 3, 1]

    def test_a_better_version_takes_the_place_of_the_first(self, store: AppendingStore) -> None:
        store.append_spans(SPACE, [span(1, name="early"), span(2)], 1).result()
        store.append_spans(SPACE, [span(1, name="late", end_ns=21)], 1).result()
        assert store.spans(SpanQuery(space=SPACE, name="early")).items == ()
        (found,) = store.spans(SpanQuery(space=SPACE, name="late")).items
        assert found.end_ns == 21
        assert [each.spans for each in store.traces(TraceQuery(space=SPACE)).items] == [2]

    def test_what_comes_while_pages_are_read_does_not_move_them(
        self, store: AppendingStore
    ) -> None:
        """A trace that gets a new span keeps its place in a listing that has started."""
        for n in range(1, 5):
            store.append_spans(SPACE, [span(n, trace_id=f"{n:032x}")], 1).result()
        query = TraceQuery(space=SPACE, limit=2)
        first = store.traces(query)
        store.append_spans(SPACE, [span(9, trace_id=f"{1:032x}")], 1).result()
        second = store.traces(replace(query, before=first.next_before, as_of=first.as_of))
        assert [int(each.trace_id) for each in (*first.items, *second.items)] == [4, 3, 2, 1]
        assert int(store.traces(query).items[0].trace_id) == 1

    def test_a_trace_is_named_by_its_root(self, store: AppendingStore) -> None:
        """The root need not have come, or started, first."""
        child = span(1, parent_span_id=f"{2:016x}", start_ns=5, name="child")
        root = span(2, name="root", start_ns=10, resource=_SERVICES["shop"])
        store.append_spans(SPACE, [child], 1).result()
        assert store.traces(TraceQuery(space=SPACE)).items[0].name == "child"
        store.append_spans(SPACE, [root], 1).result()
        (found,) = store.traces(TraceQuery(space=SPACE, name="child")).items
        assert (found.name, found.service_name, found.start_ns) == ("root", "shop", 5)

    def test_spaces_are_apart(self, store: AppendingStore) -> None:
        store.append_spans("a", [span(1, name="same")], 1).result()
        store.append_spans("b", [span(1, name="same")], 1).result()
        for space, count in (("a", 1), ("b", 1), ("c", 0)):
            query = TraceQuery(space=space, name="same")
            assert len(store.spans(query).items) == len(store.traces(query).items) == count


class StoreUsageContract(OpenedStore):
    """Subclass it and give the fixture `open_store`."""

    def test_tokens_are_those_of_model_calls(self, store: AppendingStore) -> None:
        """An agent's span repeats the sum; a call without a model has an empty key."""

        def call(number: int, model: str, given: int, **more: AttributeValue) -> Span:
            attributes: dict[str, AttributeValue] = {
                "gen_ai.operation.name": "chat", "gen_ai.request.model": model,
                "gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": 1,
            }  # fmt: skip
            if not model:
                del attributes["gen_ai.request.model"]
            return span(number, attributes=attributes | more, end_ns=10 + number * 10**6)

        agent: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "a",
            "gen_ai.usage.input_tokens": 111, "gen_ai.agent.name": "clerk",
        }  # fmt: skip
        tool: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search",
            "error.type": "Timeout",
        }  # fmt: skip
        older: dict[str, AttributeValue] = {
            "openinference.span.kind": "LLM", "llm.token_count.prompt": 30,
        }  # fmt: skip
        sound: dict[str, AttributeValue] = {
            "gen_ai.usage.details.input_audio_tokens": 6,
            "gen_ai.usage.details.output_audio_tokens": 1,
        }
        store.append_spans(
            SPACE,
            [
                call(1, "a", 10, **sound), call(2, "a", 20), call(3, "b", 5),
                call(4, "a", 7, **{"gen_ai.response.model": "a-2026"}),
                span(5, attributes=agent), span(6, attributes=tool, status=StatusCode.ERROR),
                span(7, attributes=older),
            ],
            1,
        ).result()  # fmt: skip

        def usage(group_by: UsageGroup) -> dict[str, tuple[int, int, int]]:
            return {
                each.key: (each.calls, each.errors, sum(t.input_tokens for t in each.tokens))
                for each in store.usage(UsageQuery(space=SPACE, group_by=group_by)).items
            }

        assert usage(UsageGroup.MODEL) == {
            "a": (2, 0, 30), "a-2026": (1, 0, 7), "b": (1, 0, 5), "": (1, 0, 30),
        }  # fmt: skip
        assert usage(UsageGroup.PROVIDER) == {"": (5, 0, 72)}
        assert usage(UsageGroup.OPERATION) == {
            "chat": (5, 0, 72), "invoke_agent": (1, 0, 0), "execute_tool": (1, 1, 0),
        }  # fmt: skip
        assert usage(UsageGroup.AGENT) == {"clerk": (1, 0, 0)}
        assert usage(UsageGroup.TOOL) == {"search": (1, 1, 0)}
        assert usage(UsageGroup.ERROR) == {"Timeout": (1, 1, 0)}
        first, *_ = store.usage(UsageQuery(space=SPACE, group_by=UsageGroup.MODEL)).items
        assert first.tokens == (
            ModelTokens(
                models=("a",), calls=2, input_tokens=30, output_tokens=2, unpriced_calls=2,
                audio_input_tokens=6, audio_output_tokens=1,
            ),
        )  # fmt: skip
        assert first.mean_ms == 1.5
        models = store.usage(UsageQuery(space=SPACE, group_by=UsageGroup.MODEL)).items
        assert [each.key for each in models] == ["a", "", "a-2026", "b"]
        assert models[2].tokens[0].models == ("a-2026", "a")
        (trace,) = store.traces(TraceQuery(space=SPACE)).items
        assert (trace.input_tokens, trace.output_tokens) == (72, 4)

    def test_the_95th_percentile_is_near_the_true_one(self, store: AppendingStore) -> None:
        """Of 1 to 1,000 ms in a mixed order it is 950; a rank of 1 % is 10 ms."""
        attributes: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat"}
        spans = [
            span(n + 1, attributes=attributes, start_ns=0, end_ns=(n * 7919 % 1000 + 1) * 10**6)
            for n in range(1000)
        ]
        store.append_spans(SPACE, spans, 1).result()
        (found,) = store.usage(UsageQuery(space=SPACE, group_by=UsageGroup.OPERATION)).items
        assert found.mean_ms == pytest.approx(500.5)
        assert found.p95_ms == pytest.approx(950, abs=10)

    def test_the_most_used_of_many(self, store: AppendingStore) -> None:
        """Conversations of one to four calls, `c4` in any order; equal ones by name."""
        calls = [(f"c{many}{which}", many) for which in "ba" for many in (2, 4, 1, 3)]
        spans = [
            span(
                100 * at + n,
                attributes={
                    "gen_ai.operation.name": "chat", "gen_ai.conversation.id": key,
                    "gen_ai.usage.input_tokens": 10 * many,
                },
                start_ns=0, end_ns=many * 10**6,
            )
            for at, (key, many) in enumerate(calls, start=1)
            for n in range(many)
        ]  # fmt: skip
        store.append_spans(SPACE, spans, 1).result()
        for limit, offset, expected, following in (
            (3, 0, ["c4a", "c4b", "c3a"], 3), (1, 0, ["c4a"], 1), (3, 3, ["c3b", "c2a", "c2b"], 6),
            (3, 6, ["c1a", "c1b"], None), (8, 0, None, None), (2, 6, ["c1a", "c1b"], None),
            (3, 8, [], None),
        ):  # fmt: skip
            query = UsageQuery(
                space=SPACE, group_by=UsageGroup.CONVERSATION, limit=limit, offset=offset
            )
            page = store.usage(query)
            found = page.items
            assert expected is None or [each.key for each in found] == expected
            assert page.next_offset == following
            for each in found:
                many = int(each.key[1])
                tokens = sum(of_model.input_tokens for of_model in each.tokens)
                assert (each.calls, tokens) == (many, 10 * many * many)
                assert (each.mean_ms, each.p95_ms) == (many, many)

    def test_usage_of_a_time(self, store: AppendingStore) -> None:
        attributes: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat"}
        spans = [span(n, attributes=attributes, start_ns=n * 10) for n in range(1, 6)]
        store.append_spans(SPACE, spans, 1).result()
        (found,) = store.usage(
            UsageQuery(space=SPACE, group_by=UsageGroup.MODEL, since_ns=20, until_ns=50)
        ).items
        assert found.calls == 3

    @pytest.mark.parametrize("number", [-1, 2**32, 2**62, True, "twelve", 1.5])
    def test_numbers_of_tokens_that_cannot_be_are_left_out(
        self, store: AppendingStore, number: AttributeValue
    ) -> None:
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": number}
        store.append_spans(SPACE, [span(1, attributes=attributes)], 1).result()
        (trace,) = store.traces(TraceQuery(space=SPACE)).items
        assert trace.input_tokens is None

    def test_steps_are_tool_calls_and_errors_in_order(self, store: AppendingStore) -> None:
        """A model's call without an error is none; another trace and another space stay out."""
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        failed: dict[str, Any] = {"status": StatusCode.ERROR, "end_ns": 90}
        spans = [
            span(3, start_ns=30, attributes={**tool, "error.type": "Timeout"}, **failed),
            span(1, start_ns=10, attributes=tool),
            span(2, start_ns=20, attributes=chat),
            span(4, start_ns=40, attributes=chat, **failed),
            span(5, trace_id="7" * 32, attributes=tool),
        ]
        store.append_spans(SPACE, spans, 1).result()
        store.append_spans("other", [span(9, attributes=tool)], 1).result()
        found = store.trace_steps(SPACE, [TRACE, "8" * 32])
        assert found == {
            TRACE: [
                Step("lookup", False, "", 20),
                Step("lookup", True, "Timeout", 90),
                Step("", True, "", 90),
            ]
        }
        assert store.trace_steps(SPACE, []) == {}

    def test_names_of_traces_are_their_tools_models_and_setup(self, store: AppendingStore) -> None:
        """Each once; a trace that names none, another trace and another space stay out."""
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        spans = [
            span(1, attributes=tool),
            span(2, attributes=tool),
            span(3, attributes={**chat, "gen_ai.prompt.name": "a=b", "gen_ai.prompt.version": 2}),
            span(4, trace_id="7" * 32, attributes=tool),
            span(5, trace_id="8" * 32),
            span(6, resource=Resource(attributes={"service.version": "1.2"})),
        ]
        store.append_spans(SPACE, spans, 1).result()
        store.append_spans("other", [span(9, attributes={**chat, "gen_ai.request.model": "n"})], 1)
        found = store.trace_names(SPACE, [TRACE, "8" * 32])
        assert found == {
            TRACE: {("tool", "lookup"), ("model", "m"), ("prompt", "a=b 2"), ("version", "1.2")}
        }
        assert store.trace_names(SPACE, []) == {}

    def test_traces_name_values_of_attributes_that_are_requested(
        self, store: AppendingStore
    ) -> None:
        """A text, a number, a key with a quote; a value that has the key in it is none."""
        given = [
            {"http.route": "/a'b", "n": 7}, {"http.route": "/x", 'a"b': True},
            {"other": '"http.route": 1'},
        ]  # fmt: skip
        spans = [span(at, attributes=each) for at, each in enumerate(given, 1)]
        store.append_spans(SPACE, spans, 1).result()
        found = store.trace_names(SPACE, [TRACE], ["http.route", "n", 'a"b', "none"])
        assert found == {
            TRACE: {
                ("attribute", "http.route=/a'b"), ("attribute", "http.route=/x"),
                ("attribute", "n=7"), ("attribute", 'a"b=true'),
            }
        }  # fmt: skip

    def test_traces_are_summed_up_by_their_ids(self, store: AppendingStore) -> None:
        """Those of another space, and those without spans, are left out."""
        chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 7}
        spans = [
            span(1, start_ns=5, end_ns=9, attributes=chat),
            span(2, start_ns=6, end_ns=8, attributes=chat),
            span(3, start_ns=6, end_ns=12),
        ]
        store.append_spans(SPACE, spans, 1).result()
        store.append_spans("other", [span(9, trace_id="7" * 32)], 1).result()
        found = store.trace_totals(SPACE, [TRACE, "7" * 32, "8" * 32])
        model = ModelTokens(
            models=(), calls=2, input_tokens=14, output_tokens=0, unpriced_calls=2,
            uncounted_calls=2,
        )  # fmt: skip
        totals = TraceTotals(
            start_ns=5, end_ns=12, input_tokens=14, output_tokens=None, models=(model,)
        )
        assert (found, totals.duration_ns) == ({TRACE: totals}, 7)
        assert store.trace_totals(SPACE, []) == {}

    def test_the_cost_of_traces(self, store: AppendingStore) -> None:
        """Two calls at 0.0045 and 0.004 (400 of 1,000 tokens cached), one that two spans report.

        A refused one costs nothing; what a model of no price costs is unknown.
        """

        def call(number: int, model: str = "gpt-4o", **more: Any) -> Span:
            attributes: dict[str, AttributeValue] = {
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai",
                "gen_ai.request.model": model, "gen_ai.usage.input_tokens": 1000,
                "gen_ai.usage.output_tokens": 200,
            }  # fmt: skip
            return span(number, attributes=attributes | more, start_ns=number, end_ns=9)

        cached: dict[str, Any] = {"gen_ai.usage.cache_read.input_tokens": 400,
                  "gen_ai.usage.cache_creation.input_tokens": 100}  # fmt: skip
        refused = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o",
                   "error.type": "429"}  # fmt: skip
        twice = replace(call(3, **cached), parent_span_id=call(2).span_id)
        other = replace(call(5, "ours"), trace_id="7" * 32)
        spans = [call(1), call(2, **cached), twice, span(4, attributes=refused), other]
        store.append_spans(SPACE, spans, 1).result()
        found = store.trace_totals(SPACE, [TRACE, "7" * 32])
        (listed,), (own,) = (found[each].models for each in (TRACE, "7" * 32))
        assert (listed.calls, listed.unpriced_calls, listed.uncounted_calls) == (3, 0, 0)
        assert (listed.cached_tokens, listed.written_tokens) == (400, 100)
        assert listed.cost_usd == pytest.approx(0.0085)
        assert (own.models, own.unpriced_calls, own.uncounted_calls) == (("ours",), 1, 0)

    def test_a_long_trace_gives_its_first_steps(self, store: AppendingStore) -> None:
        tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "lookup"}
        spans = [
            span(n + 1, start_ns=n, attributes={**tool, "gen_ai.tool.name": f"t{n}"})
            for n in range(250)
        ]
        store.append_spans(SPACE, spans, 1).result()
        (steps,) = store.trace_steps(SPACE, [TRACE]).values()
        assert [each.tool for each in steps] == [f"t{n}" for n in range(200)]
