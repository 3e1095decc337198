"""Use summed up from columns: buckets, quantiles and acts that several spans tell, by hand."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.items.traces import decode_protobuf
from collector.store.span_queries import SpanQuery
from collector.store.usage import Usage, UsageGroup, UsageQuery
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import read_facts
from scouter.model.genai.work import agent_work
from scouter.model.span import AttributeValue, Scope, Span, StatusCode
from tests.support.act_traces import doubled, traces
from tests.support.agent_traces import PREFIXES, find_clients, load_client
from tests.support.examples import examples
from tests.support.store_appends import AppendingPostgresql, AppendingStore, Appends
from tests.support.store_engines import Databases

SPACE, HOUR, MS = "default", 3600 * 10**9, 10**6
MODEL: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
TOOL: dict[str, AttributeValue] = {"gen_ai.operation.name": "execute_tool"}


def span(
    number: int,
    start_ns: int,
    took_ns: int,
    attributes: dict[str, AttributeValue],
    *,
    parent: int | None = None,
    trace: int = 1,
    scope: str = "a",
    status: StatusCode = StatusCode.UNSET,
) -> Span:
    return Span(
        trace_id=f"{trace:032x}", span_id=f"{number:016x}", name=f"step {number}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        start_ns=start_ns, end_ns=start_ns + took_ns, attributes=attributes,
        scope=Scope(name=scope), status=status,
    )  # fmt: skip


@pytest.fixture(scope="module", params=["duckdb", "postgresql"])
def of_traces(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Appends]:
    """Traces of many tests, those of each in a space of their own; on each database in turn."""
    if request.param == "duckdb":
        store = AppendingStore(tmp_path_factory.mktemp("traces"))
        yield store
        store.close()
        return
    databases: Databases = request.getfixturevalue("databases")
    with databases.one() as url, closing(AppendingPostgresql(url)) as store:
        yield store


@pytest.fixture
def store(open_store: Callable[[], AppendingStore | AppendingPostgresql]) -> Iterator[Appends]:
    """An empty one, on each database in turn."""
    store = open_store()
    yield store
    store.close()


SPACES: Final = itertools.count()


def used(
    store: Appends,
    spans: Sequence[Span],
    group_by: UsageGroup = UsageGroup.MODEL,
    bucket_ns: int | None = None,
    since_ns: int | None = None,
    until_ns: int | None = None,
    space: str = SPACE,
) -> tuple[Usage, ...]:
    for each in spans:  # each in a request of its own: no rule may need them together
        store.append_spans(space, [each], 1).result()
    query = UsageQuery(
        space=space, group_by=group_by, bucket_ns=bucket_ns, since_ns=since_ns, until_ns=until_ns
    )
    return store.usage(query).items


def tokens(items: Sequence[Usage]) -> dict[str, tuple[int, int, int, int, int]]:
    """By key calls, and tokens of input, output, cache and reasoning."""
    return {
        each.key: (
            each.calls,
            sum(part.input_tokens for part in each.tokens),
            sum(part.output_tokens for part in each.tokens),
            sum(part.cached_tokens for part in each.tokens),
            sum(part.reasoning_tokens for part in each.tokens),
        )
        for each in items
    }


def test_a_bucket_has_what_began_in_it(store: Appends) -> None:
    """Of hours 1 and 3: the first instant is in, the last one before the next is, too."""
    starts = (HOUR, 2 * HOUR - 1, 3 * HOUR, 4 * HOUR - 1, 4 * HOUR)
    spans = [span(n, start, n * MS, MODEL, trace=n) for n, start in enumerate(starts, start=1)]
    items = used(store, spans, bucket_ns=HOUR)
    assert [(each.start_ns, each.calls) for each in items] == [
        (HOUR, 2), (3 * HOUR, 2), (4 * HOUR, 1),
    ]  # fmt: skip
    items = used(store, [], bucket_ns=HOUR, since_ns=2 * HOUR - 1, until_ns=4 * HOUR - 1)
    assert [(each.start_ns, each.calls, each.p99_ms) for each in items] == [
        (HOUR, 1, 2.0), (3 * HOUR, 1, 3.0),
    ]  # fmt: skip


def test_quantiles_are_durations_of_calls(store: Appends) -> None:
    """Of 1 to 100 ms the 50th, the 95th and the 99th; every tenth call failed."""
    spans = [
        span(n, HOUR + n, n * MS, MODEL, trace=n,
             status=StatusCode.ERROR if n % 10 == 0 else StatusCode.OK)
        for n in range(1, 101)
    ]  # fmt: skip
    (item,) = used(store, spans)
    assert (item.p50_ms, item.p95_ms, item.p99_ms, item.mean_ms) == (50, 95, 99, 50.5)
    assert (item.calls, item.errors) == (100, 10)


def test_pages_go_through_buckets(store: Appends) -> None:
    spans = [
        span(n, (n % 3) * HOUR, MS, {**MODEL, "gen_ai.request.model": f"m{n % 2}"}, trace=n)
        for n in range(1, 13)
    ]
    whole = used(store, spans, bucket_ns=HOUR)
    assert [(each.start_ns, each.key) for each in whole] == [
        (hour * HOUR, f"m{model}") for hour in range(3) for model in range(2)
    ]
    found: list[Usage] = []
    offset: int | None = 0
    while offset is not None:
        page = store.usage(
            UsageQuery(space=SPACE, group_by=UsageGroup.MODEL, bucket_ns=HOUR, limit=4,
                       offset=offset)
        )  # fmt: skip
        found += page.items
        offset = page.next_offset
    assert tuple(found) == whole


def counted(given: int, made: int, **more: AttributeValue) -> dict[str, AttributeValue]:
    return {
        **MODEL, "gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": made,
        **{f"gen_ai.{name.replace('__', '.')}": value for name, value in more.items()},
    }  # fmt: skip


def test_parts_of_tokens(store: Appends) -> None:
    more: dict[str, AttributeValue] = {
        "usage__cache_read__input_tokens": 6, "usage__reasoning__output_tokens": 3,
    }  # fmt: skip
    items = used(store, [span(1, 0, MS, counted(10, 5, **more))])
    assert tokens(items) == {"m": (1, 10, 5, 6, 3)}


@pytest.mark.parametrize(
    ("spans", "calls"),
    [
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 1, 7, counted(10, 5), parent=1, scope="b")],
            1, id="one-inside-another",
        ),
        pytest.param(
            [span(1, 0, 9, MODEL), span(2, 1, 7, counted(10, 5), parent=1)],
            1, id="outer-tells-nothing",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 1, 7, MODEL, parent=1, scope="b")],
            1, id="inner-tells-nothing",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5, response__id="r")),
             span(2, 1, 7, counted(10, 5, response__id="r"), scope="b")],
            1, id="one-response",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 1, 7, counted(10, 5), scope="b")],
            1, id="side-by-side",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 1, 8, counted(10, 5)),
             span(3, 2, 6, counted(10, 5), scope="b"), span(4, 3, 4, counted(10, 5), scope="b")],
            2, id="two-equal-calls-at-a-time-reported-twice",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 1, 7, counted(10, 5))],
            2, id="one-library-tells-a-call-once",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5)), span(2, 20, 7, counted(10, 5), scope="b")],
            2, id="one-after-the-other",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5, response__id="r1")),
             span(2, 1, 7, counted(10, 5, response__id="r2"), parent=1, scope="b")],
            2, id="two-responses",
        ),
        pytest.param(
            [span(1, 0, 9, counted(10, 5), trace=1),
             span(2, 1, 7, counted(10, 5), trace=2, scope="b")],
            2, id="two-traces",
        ),
    ],
)  # fmt: skip
def test_calls_of_models(of_traces: Appends, spans: Sequence[Span], calls: int) -> None:
    """However many spans tell of a call, its ten tokens of input count once."""
    found = used(of_traces, spans, space=f"s{next(SPACES)}")
    assert tokens(found) == {"m": (calls, 10 * calls, 5 * calls, 0, 0)}


def pay(call_id: str = "", name: str = "pay", arguments: str = "") -> dict[str, AttributeValue]:
    more: dict[str, AttributeValue] = {"gen_ai.tool.call.arguments": arguments} if arguments else {}
    return {**TOOL, "gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id, **more}


@pytest.mark.parametrize(
    ("spans", "calls"),
    [
        pytest.param(
            [span(1, 0, 9, pay()), span(2, 1, 7, pay(), parent=1, scope="mcp"),
             span(3, 2, 5, pay(), parent=2, scope="server")],
            1, id="agent-client-and-server",
        ),
        pytest.param(
            [span(1, 0, 9, pay("c1")), span(2, 0, 9, pay("c1"), scope="b")], 1, id="one-call-id"
        ),
        pytest.param(
            [span(1, 0, 9, pay("c1")), span(2, 1, 7, pay("c2"))], 2, id="two-call-ids"
        ),
        pytest.param(
            [span(1, 0, 9, pay()), span(2, 1, 7, {}, parent=1),
             span(3, 2, 5, pay(), parent=2, scope="server")],
            1, id="with-a-request-between",
        ),
        pytest.param(
            [span(1, 0, 9, pay(name="mcp__shop__pay")), span(2, 1, 7, {}, parent=1),
             span(3, 2, 5, pay(), parent=2, scope="server")],
            1, id="with-a-prefix",
        ),
        pytest.param(
            [span(1, 0, 9, pay()), span(2, 1, 7, counted(10, 5), parent=1)],
            1, id="a-tool-that-asks-a-model",
        ),
        pytest.param(
            [span(1, 0, 9, pay(arguments='{"n": 1}')),
             span(2, 1, 7, pay(arguments='{"n": 2}'), parent=1),
             span(3, 2, 5, pay(arguments='{"n": 3}'), parent=2)],
            3, id="a-tool-that-calls-itself",
        ),
        pytest.param(
            [span(1, 0, 9, pay(arguments='{"n": 1, "to": "Rome"}')),
             span(2, 1, 7, pay(arguments='{"to":"Rome","n":1.0}'), parent=1)],
            1, id="equal-arguments",
        ),
        pytest.param(
            [span(1, 0, 9, pay()), span(2, 1, 7, pay(arguments='{"n": 2}'), parent=1)],
            1, id="outer-tells-no-arguments",
        ),
        pytest.param(
            [span(1, 0, 9, pay(arguments='{"n": 1}')),
             span(2, 1, 7, pay(arguments='{"n": 1, "unit": "C"}'), parent=1, scope="mcp")],
            1, id="another-library-tells-a-default-more",
        ),
        pytest.param(
            [span(1, 0, 9, pay("call_0", arguments='{"n": 1}')),
             span(2, 20, 9, pay("call_0", arguments='{"n": 2}'))],
            2, id="an-id-that-is-used-again",
        ),
    ],
)  # fmt: skip
def test_calls_of_tools(of_traces: Appends, spans: Sequence[Span], calls: int) -> None:
    found = used(of_traces, spans, UsageGroup.TOOL, space=f"s{next(SPACES)}")
    assert tokens(found) == {"pay": (calls, 0, 0, 0, 0)}


@given(traces(), st.data())
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_views_count_the_calls_that_evaluations_count(
    of_traces: Appends, spans: list[Span], data: st.DataObject
) -> None:
    """Of tools that call others and themselves, reported by one instrumentor or by two."""
    if data.draw(st.booleans()):
        spans = doubled(data, spans)
    space = f"s{next(SPACES)}"
    of_traces.append_spans(space, spans, 1).result()
    counted = of_traces.usage(UsageQuery(space=space, group_by=UsageGroup.TOOL)).items
    calls = Counter(call.name for call in agent_work(SpanTree(spans).spans).tool_calls)
    assert {each.key: each.calls for each in counted} == calls


def test_a_tool_that_asks_a_model_is_a_call_of_both(store: Appends) -> None:
    spans = [span(1, 0, 9, pay()), span(2, 1, 7, counted(10, 5), parent=1)]
    assert tokens(used(store, spans)) == {"m": (1, 10, 5, 0, 0)}


def test_finish_reasons_of_models(store: Appends) -> None:
    """Of three providers in one word; a call that two libraries tell of counts once."""

    def ended(reason: str, **more: AttributeValue) -> dict[str, AttributeValue]:
        return counted(10, 5, response__finish_reasons=(reason,), **more)

    spans = [
        span(1, 0, MS, ended("stop"), trace=1),
        span(2, 0, 3 * MS, ended("end_turn"), trace=2),
        span(3, 0, 9 * MS, ended("max_tokens"), trace=3),
        span(4, 1, MS, ended("MAX_TOKENS"), parent=3, trace=3, scope="b"),
        span(5, 0, MS, counted(10, 5), trace=4),
        span(6, 0, MS, {**TOOL, "gen_ai.tool.name": "pay"}, trace=5),
        span(7, 0, MS, {"gen_ai.operation.name": "embeddings"}, trace=6),
    ]
    found = used(store, spans, UsageGroup.FINISH_REASON)
    assert tokens(found) == {
        "stop": (2, 20, 10, 0, 0), "": (1, 10, 5, 0, 0), "length": (1, 10, 5, 0, 0),
    }  # fmt: skip
    assert [each.mean_ms for each in found] == [2, 1, 1]
    page = store.spans(SpanQuery(space=SPACE, columns={"finish_reason": "length"}))
    assert [each.position.start_ns for each in page.items] == [1, 0]


def test_an_act_at_the_edge_of_a_time_is_in_one_part(store: Appends) -> None:
    """One span begins before the edge, the other behind it."""
    spans = [
        span(1, HOUR - 1, 9, counted(10, 5)),
        span(2, HOUR + 1, 5, counted(10, 5), parent=1, scope="b"),
    ]
    before = used(store, spans, until_ns=HOUR)
    behind = used(store, [], since_ns=HOUR)
    assert tokens([*before, *behind]) == {"m": (1, 10, 5, 0, 0)}


def test_tokens_of_an_agent_are_of_the_calls_that_name_it(store: Appends) -> None:
    agent: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop",
    }  # fmt: skip
    spans = [
        span(1, 0, 9 * MS, agent),
        span(2, 1, 7, counted(10, 5, agent__name="shop"), parent=1),
        span(3, 20, 7, counted(20, 5, agent__name="shop"), parent=1),
    ]
    (item,) = used(store, spans, UsageGroup.AGENT)
    assert (item.calls, item.p50_ms) == (1, 9)
    assert tokens([item]) == {"shop": (1, 30, 10, 0, 0)}


@pytest.fixture(scope="module")
def of_clients(of_traces: Appends) -> Appends:
    """Every client's spans as they came over the wire, each client a space of its own."""
    for file in find_clients():
        name = load_client(file).name
        for batch in decode_protobuf(file.with_suffix(".binpb").read_bytes()).batches:
            of_traces.append_spans(name, batch.spans, 1).result()
    return of_traces


def test_models_of_clients(of_clients: Appends) -> None:
    """Calls and tokens are those that the model server counted, where the spans tell them."""
    right = 0
    for client in map(load_client, find_clients()):
        if client.truth["marks"]["tokens"] in ("s", "–"):
            continue
        calls = [call for turn in client.truth["turns"] for call in turn["model_calls"]]
        expected = [len(calls), *(sum(call[name] for call in calls)
                                  for name in ("input_tokens", "output_tokens"))]  # fmt: skip
        query = UsageQuery(space=client.name, group_by=UsageGroup.MODEL)
        found = tokens(of_clients.usage(query).items).values()
        sums = [sum(column) for column in zip(*found, strict=True)]
        assert sums[:3] == expected, client.name
        right += 1
    assert right == 40


def test_tools_of_clients(of_clients: Appends) -> None:
    """Executions are those that the tools counted, for every client that has spans of them.

    The MCP server of one does not take its client's trace on: those are calls of their own.
    """
    right = 0
    for client in map(load_client, find_clients()):
        facts = [read_facts(each) for each in client.spans]
        if not any(each.kind is Kind.TOOL for each in facts):
            continue
        done = (call["name"] for turn in client.truth["turns"] for call in turn["tool_calls"])
        query = UsageQuery(space=client.name, group_by=UsageGroup.TOOL)
        found: Counter[str] = Counter()
        for item in of_clients.usage(query).items:
            name = item.key.removeprefix(PREFIXES.get(client.name, "")).removeprefix("Tools-")
            found[name] += item.calls
        expected = Counter(done)
        if client.name == "claude-openinference":
            expected += expected
        assert {name: found[name] for name in expected} == expected, client.name
        right += 1
    assert right >= 33


def test_routes_are_traces_by_the_order_of_their_agents_and_tools(store: Appends) -> None:
    """A tool that is called again at once is one step; a model's call is none."""

    def tool(name: str) -> dict[str, AttributeValue]:
        return {**TOOL, "gen_ai.tool.name": name}

    agent: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "desk",
    }  # fmt: skip
    failed = StatusCode.ERROR
    found = used(
        store,
        [
            span(1, 0, 90 * MS, agent), span(2, MS, MS, tool("search")),
            span(3, 2 * MS, MS, tool("search"), status=failed), span(4, 3 * MS, MS, MODEL),
            span(5, 4 * MS, MS, tool("book")),
            span(6, 0, 10 * MS, tool("book"), trace=2), span(7, MS, MS, tool("search"), trace=2),
            span(8, 0, 30 * MS, tool("book"), trace=3), span(9, MS, MS, tool("search"), trace=3),
            span(10, 0, MS, MODEL, trace=4),
            *(span(20 + n, n * MS, MS, tool(f"t{n:02}"), trace=5) for n in range(13)),
        ],
        UsageGroup.ROUTE,
    )  # fmt: skip
    long = " > ".join(f"t{n:02}" for n in range(12)) + " > …"
    assert [(each.key, each.calls, each.errors, each.mean_ms) for each in found] == [
        ("book > search", 2, 0, 20), ("desk > search > book", 1, 1, 90), (long, 1, 0, 13),
    ]  # fmt: skip
    assert not any(each.tokens for each in found)
