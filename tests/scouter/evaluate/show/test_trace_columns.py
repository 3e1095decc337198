"""A trace as columns and as agents: small traces, worked out by hand."""

from typing import Any

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.agent_lines import HandOver, ToolLine, agent_lines
from scouter.evaluate.show.trace_view import ResultView, trace_columns
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.genai.acts import Act
from scouter.model.span import AttributeValue, Span, StatusCode
from tests.contracts.store_data import span

_AGENT = {"gen_ai.operation.name": "invoke_agent"}


def at(number: int, parent: int | None, start: int, end: int, **fields: Any) -> Span:
    above = None if parent is None else f"{parent:016x}"
    return span(number, parent_span_id=above, start_ns=start, end_ns=end, **fields)


def test_rows_stand_behind_their_parents() -> None:
    """1 has 2 and 4, 2 has 3; 4 began before 2. The parent of 9 is missing."""
    tree = SpanTree(
        [
            at(3, 2, 130, 140, name="chat"),
            at(9, 77, 100, 101, name="lost"),
            at(2, 1, 120, 160, name="tool", status=StatusCode.ERROR),
            at(4, 1, 110, 115, name="chat"),
            at(1, None, 100, 200, name="run"),
        ]
    )
    failed = ResultView(
        task_id="right", outcome=Outcome.FAILED, span_ids=(f"{2:016x}", f"{3:016x}")
    )
    passed = ResultView(task_id="quick", outcome=Outcome.PASSED, span_ids=(f"{2:016x}",))
    found = trace_columns(tree, [failed, passed])
    assert [int(found.span_ids[n : n + 16], 16) for n in range(0, 80, 16)] == [1, 4, 2, 3, 9]
    assert found.parent == (-1, 0, 0, 2, -1)
    assert found.depth == (0, 1, 1, 2, 0)
    assert found.after_ns == (0, 10, 20, 30, 0)
    assert found.length_ns == (100, 5, 40, 10, 1)
    assert [found.strings[name] for name in found.name] == ["run", "chat", "tool", "chat", "lost"]
    assert found.marks == (0, 0, 1 + 2 + 16, 2, 32)
    texts = [(row, found.strings[task], found.strings[how]) for row, task, how in found.results]
    assert sorted(texts) == [(2, "quick", "passed"), (2, "right", "failed"), (3, "right", "failed")]
    assert (found.total, found.errors, found.duration_ns) == (5, 1, 100)


def test_the_first_rows_are_those_of_the_whole() -> None:
    tree = SpanTree([at(n, n - 1 or None, n, 100) for n in range(1, 51)])
    whole, first = trace_columns(tree), trace_columns(tree, limit=7)
    for name in ("parent", "depth", "after_ns", "length_ns", "kind", "marks"):
        assert getattr(first, name) == getattr(whole, name)[:7]
    assert (first.total, first.axis) == (50, whole.axis)


def chat(number: int, parent: int, start: int, **more: AttributeValue) -> Span:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 1,
    }  # fmt: skip
    return at(number, parent, start, start + 1, name="chat m", attributes=attributes | more)


def tool(number: int, parent: int, start: int, *, fails: bool = False) -> Span:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "book"}
    status = StatusCode.ERROR if fails else StatusCode.OK
    return at(
        number, parent, start, start + 1, name="execute_tool book",
        attributes=attributes, status=status,
    )  # fmt: skip


def test_agents_and_their_work() -> None:
    """The desk asks once and hands over twice; the booker fails, tries again, fails, and wins."""
    tree = SpanTree(
        [
            at(1, None, 0, 100, attributes={**_AGENT, "gen_ai.agent.name": "desk"}),
            chat(2, 1, 1),
            at(3, 1, 10, 50, attributes={**_AGENT, "gen_ai.agent.name": "booker"}),
            tool(4, 3, 11, fails=True),
            tool(5, 3, 13, fails=True),
            tool(6, 3, 15),
            tool(7, 3, 17),
            at(8, 1, 60, 70, attributes={**_AGENT, "gen_ai.agent.name": "booker"}),
            chat(9, 8, 61, **{"gen_ai.request.model": "free"}),
            chat(10, 8, 63),
        ]
    )
    prices = {"m": 0.5}

    def cost_of(act: Act) -> float | None:
        return prices.get(act.facts.request_model)

    desk, booker = agent_lines(tree, cost_of)
    assert (desk.name, desk.runs, desk.model_calls, desk.tools) == ("desk", 1, 1, ())
    assert desk.hand_overs == (HandOver(to="booker", times=2),)
    assert (desk.failed, desk.retries, desk.cost, desk.unpriced_calls) == (0, 0, 0.5, 0)
    assert (booker.name, booker.runs, booker.model_calls) == ("booker", 2, 2)
    assert booker.tools == (ToolLine(name="book", calls=4, failed=2),)
    assert (booker.failed, booker.retries, booker.hand_overs) == (2, 2, ())
    assert (booker.input_tokens, booker.output_tokens) == (20, 2)
    assert (booker.cost, booker.unpriced_calls, booker.unpriced_models) == (None, 1, ("free",))
