"""Trace assertions per second, and nested filters on large trees, beside bare Python in one run.

`python -m tests.bench.spans` prints the figures; `--short` does so for a tenth of the traces. The
clock stops when outcome, expected, actual and message of every result have been read once.
"""

import random
import sys
import time
from collections.abc import Callable
from typing import cast

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.filters import compile_filter
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.trace import AggregationType, TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import Resource, Span, SpanKind, StatusCode
from tests.bench.engine import BareResult

TRACES, SPANS, ROUNDS = 1_000, 50, 5
TREE_SPANS, LEVELS = 10_000, 5
MS = 1_000_000
NAMES = ("chat", "search", "fetch", "plan", "save")

F, A = SpanFilter, TraceAssertion
CHAT = F.by_name("chat")
TASKS = [
    TraceAssertionTask("duration", A.trace_duration(), 60_000, Op.LessThan),
    TraceAssertionTask("spans", A.trace_span_count(), SPANS, Op.Equals),
    TraceAssertionTask("errors", A.trace_error_count(), 3, Op.LessThan),
    TraceAssertionTask("depth", A.trace_max_depth(), 20, Op.LessThan),
    TraceAssertionTask("chats", A.span_count(CHAT), 5, Op.GreaterThan),
    TraceAssertionTask("slow", A.span_exists(F.with_duration(min_ms=200)), False, Op.Equals),
    TraceAssertionTask("model", A.span_attribute(CHAT, "model"), "m-1", Op.Contains),
    TraceAssertionTask(
        "tokens", A.span_aggregation(CHAT, "tokens", AggregationType.Sum), 10_000, Op.LessThan
    ),
    TraceAssertionTask(
        "tools inside a chat",
        A.span_count(F.by_name_pattern("^(search|fetch)$").and_(F.descendant_of(CHAT))),
        40,
        Op.LessThan,
    ),
    TraceAssertionTask(
        "failed calls",
        A.span_count(F.with_status(SpanStatus.Error).and_(F.by_kind("Client"))),
        2,
        Op.LessThan,
    ),
]


def make_spans(rng: random.Random, number: int, count: int) -> list[Span]:
    """One trace that grows at random, each span inside the time of its parent's start."""
    resource = Resource(attributes={"service.name": "agent"})
    starts = [0]
    spans: list[Span] = []
    for at in range(count):
        parent = rng.randrange(at) if at else None
        if parent is not None:
            starts.append(starts[parent] + rng.randrange(1, 50 * MS))
        name = rng.choice(NAMES)
        spans.append(
            Span(
                trace_id=f"{number + 1:032x}",
                span_id=f"{at + 1:016x}",
                parent_span_id=None if parent is None else f"{parent + 1:016x}",
                name=name if at else "run",
                kind=SpanKind.CLIENT if name == "chat" else SpanKind.INTERNAL,
                start_ns=starts[at],
                end_ns=starts[at] + rng.randrange(150 * MS),
                status=StatusCode.ERROR if rng.random() < 0.03 else StatusCode.OK,
                attributes={"model": rng.choice(("m-1", "m-2")), "tokens": rng.randrange(200)},
                resource=resource,
            )
        )
    rng.shuffle(spans)
    return spans


def engine(records: list[EvalRecord], spans: list[Span]) -> int:
    """Index the traces, evaluate, and read everything once."""
    read = 0
    for record in EvalDataset(records, TASKS, spans).evaluate().records:
        for task in record.tasks:
            _ = task.outcome, task.expected, task.actual, task.message
            read += 1
    return read


def bare(records: list[EvalRecord], spans: list[Span]) -> int:
    """The same ten checks, written out by hand."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, []).append(span)
    results: list[BareResult] = []
    for record in records:
        for holds, expected, actual in bare_checks(traces[record.trace_id or ""]):
            message = "passed" if holds else f"found {actual!r}, expected {expected!r}"
            results.append(BareResult("passed" if holds else "failed", expected, actual, message))
    for result in results:
        _ = result.outcome, result.expected, result.actual, result.message
    return len(results)


def bare_checks(trace: list[Span]) -> list[tuple[bool, object, object]]:
    """Whether each check holds, what it wants and what it found."""
    trace.sort(key=lambda span: span.start_ns)
    by_id = {span.span_id: span for span in trace}
    depth: dict[str, int] = {}
    inside: dict[str, bool] = {}
    for span in trace:  # parents start before their children here
        parent = span.parent_span_id
        depth[span.span_id] = 0 if parent is None else depth[parent] + 1
        inside[span.span_id] = parent is not None and (
            inside[parent] or by_id[parent].name == "chat"
        )
    chats = [span for span in trace if span.name == "chat"]
    took = (max(span.end_ns for span in trace) - trace[0].start_ns) // MS
    errors = [span for span in trace if span.status == StatusCode.ERROR]
    slow = any(span.end_ns - span.start_ns >= 200 * MS for span in trace)
    models = [span.attributes["model"] for span in chats]
    tokens = sum(cast(int, span.attributes["tokens"]) for span in chats)
    tools = sum(span.name in ("search", "fetch") and inside[span.span_id] for span in trace)
    failed = sum(span.kind == SpanKind.CLIENT for span in errors)
    deepest = max(depth.values())
    return [
        (took < 60_000, 60_000, took),
        (len(trace) == SPANS, SPANS, len(trace)),
        (len(errors) < 3, 3, len(errors)),
        (deepest < 20, 20, deepest),
        (len(chats) > 5, 5, len(chats)),
        (not slow, False, slow),
        ("m-1" in models, "m-1", models),
        (tokens < 10_000, 10_000, tokens),
        (tools < 40, 40, tools),
        (failed < 2, 2, failed),
    ]


def best(run: Callable[[], object]) -> float:
    """Seconds of the fastest of several rounds."""
    seconds: list[float] = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def nested(levels: int) -> SpanFilter:
    """Descendants of descendants of … of a chat."""
    filter: SpanFilter = CHAT
    for _ in range(levels):
        filter = F.descendant_of(filter.and_(CHAT))
    return filter


def shapes() -> dict[str, list[Span]]:
    """Trees of 10,000 spans: a chain, a fan and one that grew at random."""
    grown = make_spans(random.Random(3), 0, TREE_SPANS)

    def shaped(parent: Callable[[int], int]) -> list[Span]:
        return [
            Span(
                trace_id="f" * 32, span_id=f"{at + 1:016x}", name=NAMES[at % 2],
                parent_span_id=f"{parent(at) + 1:016x}" if at else None,
                start_ns=at, end_ns=TREE_SPANS,
            )
            for at in range(TREE_SPANS)
        ]  # fmt: skip

    return {"chain": shaped(lambda at: at - 1), "fan": shaped(lambda _: 0), "random": grown}


def main() -> None:
    """Print one line for the assertions, and one per shape of tree."""
    traces = TRACES // 10 if "--short" in sys.argv else TRACES
    rng = random.Random(7)
    spans = [span for number in range(traces) for span in make_spans(rng, number, SPANS)]
    records = [EvalRecord(trace_id=f"{number + 1:032x}") for number in range(traces)]
    fast, plain = best(lambda: engine(records, spans)), best(lambda: bare(records, spans))
    count = traces * len(TASKS)
    print(
        f"python {sys.version.split()[0]}, best of {ROUNDS}\n"
        f"{len(TASKS)} assertions x {traces:,} traces x {SPANS} spans: {fast:.3f} s, "
        f"{count / fast:,.0f} evaluations/s; bare loop {plain:.3f} s, {count / plain:,.0f}/s"
    )
    select = compile_filter(nested(LEVELS))
    for shape, tree_spans in shapes().items():
        build = best(lambda given=tree_spans: SpanTree(given))
        both = best(lambda given=tree_spans: select(SpanTree(given)))
        print(
            f"{shape}: {TREE_SPANS:,} spans sorted in {build * 1e3:.1f} ms; with {LEVELS} nested "
            f"descendant filters {both * 1e3:.1f} ms"
        )


if __name__ == "__main__":
    main()
