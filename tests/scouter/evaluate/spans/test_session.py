"""The session that a trace names, and records that take it."""

import itertools

import pytest

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.derived import trace_session
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.model.short_text import short_text
from scouter.model.span import Span

TRACE = "c" * 32


def span(number: int, parent: int | None = 1, trace_id: str = TRACE, **attributes: str) -> Span:
    """One that began at its number; `_` in a name of an attribute stands for a dot."""
    return Span(
        trace_id=trace_id,
        span_id=f"{number:016x}",
        parent_span_id=None if parent is None else f"{parent:016x}",
        name="step",
        start_ns=number,
        end_ns=number + 1,
        attributes={name.replace("_", "."): value for name, value in attributes.items()},
    )


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.conversation.id", "session.id", "langfuse.session.id",
        "traceloop.association.properties.session_id", "langsmith.metadata.session_id",
        "mlflow.trace.session",
    ],
)  # fmt: skip
def test_every_convention_names_one(name: str) -> None:
    found = Span(
        trace_id=TRACE, span_id="1" * 16, name="a", start_ns=0, end_ns=1, attributes={name: "anna"}
    )
    assert trace_session([found]) == "anna"


ROOT = span(1, None)
CASES = {
    "nobody": ([ROOT, span(2)], ""),
    "the-roots": ([span(2, None, session_id="r"), span(1, 2, session_id="c")], "r"),
    "the-first-in-time": ([ROOT, span(3, session_id="b"), span(2, session_id="a")], "a"),
    "the-first-root": ([span(2, None, session_id="b"), span(1, None, session_id="a")], "a"),
    "an-empty-one": ([span(1, None, session_id=""), span(2, session_id="a")], "a"),
    "too-long": ([span(1, None, session_id="x" * 513)], short_text("x" * 513)),
    "a-line": ([span(1, None, session_id="x\n"), span(2, session_id="a")], "x␊"),
    "persian": ([span(1, None, session_id="علی\u200cرضا")], "علی\u200cرضا"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_in_any_order(name: str) -> None:
    spans, expected = CASES[name]
    for each in itertools.permutations(spans):
        assert trace_session(each) == expected


def test_a_conversation_counts_before_a_session_of_the_same_span() -> None:
    both = {"session.id": "s", "gen_ai.conversation.id": "c"}
    found = Span(trace_id=TRACE, span_id="1" * 16, name="a", start_ns=0, end_ns=1, attributes=both)
    assert trace_session([found]) == "c"


def test_offline_records_take_the_session_of_their_trace() -> None:
    """By hand: two records name no session, and the trace of one of them names none."""
    other = "d" * 32
    records = [
        EvalRecord({"n": 1}, trace_id=TRACE),
        EvalRecord({"n": 2}, trace_id=TRACE, session_id="ben"),
        EvalRecord({"n": 3}, trace_id=other),
        EvalRecord({"n": 4}, session_id="anna"),
    ]
    own = records[2].session_id
    both = AssertionTask("both", "records[*].context.n", [1, 4], Op.Equals, scope="session")
    spans = [span(1, None, session_id="anna"), span(1, None, other)]
    results = EvalDataset(records, [both], spans).evaluate()
    found = {row.session_id: row.outcome.value for row in results.sessions}
    assert found == {"anna": "passed", "ben": "failed", own: "failed"}


def test_sessions_that_are_given_stay() -> None:
    record = EvalRecord({"n": 1}, trace_id=TRACE)
    own = record.session_id
    task = AssertionTask("n", "n", 1, Op.Equals)
    EvalDataset([record], [task], [span(1, None, session_id="anna")], sessions=[("s", 0)])
    assert record.session_id == own
