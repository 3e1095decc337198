"""The one form of a trace: order, places, values, and results beside their spans."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.outcome import Outcome
from scouter.evaluate.show.trace_view import EventView, ResultView, view_trace
from scouter.model.span import Span, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import MS, agent_trace, span


def test_it_is_a_tree_with_places() -> None:
    """Each span after its parent, siblings by time; bars are parts of the whole."""
    found = view_trace([
        span(1, "answer", None, (5, 105)), span(2, "find", 1, (15, 65)),
        span(3, "look", 2, (20, 30)), span(4, "write", 1, (65, 105)),
    ])  # fmt: skip
    assert [(s.name, s.depth, s.after_ns // MS, *found.place(s)) for s in found.spans] == [
        ("answer", 0, 0, 0.0, 1.0),
        ("find", 1, 10, 0.1, 0.5),
        ("look", 2, 15, 0.15, 0.1),
        ("write", 1, 60, 0.6, 0.4),
    ]
    assert (found.start_ns, found.duration_ns, found.left_out) == (5 * MS, 100 * MS, 0)


def test_it_says_what_it_leaves_out() -> None:
    """All spans are counted, those in error too."""
    spans = [span(n + 1, f"s{n}", None, (n, n + 1), status=StatusCode.ERROR) for n in range(10)]
    found = view_trace(spans, limit=3)
    assert [s.name for s in found.spans] == ["s0", "s1", "s2"]
    assert (found.left_out, found.errors) == (7, 10)


def test_spans_in_a_circle_are_each_shown_once() -> None:
    """Their senders may do anything."""
    circle = [span(1, "a", 2, (0, 5)), span(2, "b", 1, (1, 4)), span(3, "own", 3, (2, 3))]
    assert [(s.name, s.depth) for s in view_trace(circle).spans] == [("a", 0), ("b", 1), ("own", 0)]


def test_a_parent_that_is_not_here() -> None:
    """It is distinguished from a root, and from a child whose parent is here."""
    found = view_trace([span(2, "b", 1), span(3, "c", 2, (2, 3)), span(4, "root", None, (4, 5))])
    assert [(s.name, s.is_orphan) for s in found.spans] == [
        ("b", True), ("c", False), ("root", False),
    ]  # fmt: skip


@given(
    st.lists(
        st.builds(
            span,
            st.integers(1, 8),
            st.just("s"),
            st.none() | st.integers(1, 9),
            st.tuples(st.integers(0, 50), st.integers(0, 50)),
        ),
        max_size=12,
    )
)
def test_bars_stay_inside_of_the_whole(made: list[Span]) -> None:
    """The clocks may show anything; and every span is there once."""
    found = view_trace(made)
    assert len(found.spans) == len({item.span_id for item in made})
    for item in found.spans:
        left, width = found.place(item)
        assert 0 <= left <= 1
        assert 0 < width <= 1
        assert left + width <= 1 + 1e-9


def test_a_tool_tells_its_arguments_and_its_result() -> None:
    """In fields of their own; they are not among the attributes once more."""
    tool = span(1, "execute_tool find", None, (0, 1), {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": '{"to": "SEA"}', "gen_ai.tool.call.result": "[1, null]",
        "shop.id": 7,
    })  # fmt: skip
    (found,) = view_trace([tool]).spans
    assert (found.tool, found.arguments, found.result) == ("find", {"to": "SEA"}, [1, None])
    assert found.has_result
    assert found.attributes == {"gen_ai.operation.name": "execute_tool", "shop.id": 7}


def test_a_model_tells_its_messages_and_tokens() -> None:
    """Summed over the calls; a span above them that repeats the sum is not counted."""
    call = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1",
        "gen_ai.usage.input_tokens": 20, "gen_ai.usage.output_tokens": 5,
        "gen_ai.input.messages": '[{"role": "user"}]',
        "gen_ai.output.messages": '[{"role": "assistant"}]',
    }  # fmt: skip
    above = {"gen_ai.operation.name": "invoke_agent", "gen_ai.usage.input_tokens": 40}
    found = view_trace([
        span(1, "run", None, (0, 9), {**above, "gen_ai.agent.name": "ada"}),
        span(2, "chat", 1, (1, 2), call), span(3, "chat", 1, (3, 4), call),
    ])  # fmt: skip
    run, chat, _ = found.spans
    assert (run.agent, chat.model, chat.input_tokens) == ("ada", "m-1", 20)
    assert chat.input_messages == ({"role": "user"},)
    assert chat.output_messages == ({"role": "assistant"},)
    assert not any("messages" in name for name in chat.attributes)
    assert (found.input_tokens, found.output_tokens) == (40, 10)
    assert view_trace(agent_trace().spans).input_tokens is None


def test_an_error_is_recognised_by_status_exception_or_type() -> None:
    """In this order; of a span without an error nothing is."""
    broken = span(1, "a", None, (0, 1), {"error.type": "Timeout"}, status=StatusCode.ERROR)
    raised = SpanEvent(
        name="exception", time_ns=1,
        attributes={"exception.type": "KeyError", "exception.message": "'k'"},
    )  # fmt: skip
    cases = [
        (replace(broken, status_message="it broke", events=(raised,)), "it broke"),
        (replace(broken, events=(raised,)), "KeyError: 'k'"),
        (broken, "Timeout"),
        (replace(broken, attributes={}), "error"),
        (replace(broken, status=StatusCode.OK, events=(raised,)), ""),
    ]
    for given_span, error in cases:
        (found,) = view_trace([given_span]).spans
        assert found.error == error
    (found,) = view_trace([cases[0][0]]).spans
    assert found.events == (
        EventView(name="exception", after_ns=1, attributes=raised.attributes),  # type: ignore[arg-type]
    )


def test_results_stand_beside_their_spans() -> None:
    """Each at every span that it is about; those about none that is shown, at the trace."""
    ids = [each.span_id for each in agent_trace().spans]
    both = ResultView(task_id="both", outcome=Outcome.FAILED, span_ids=(ids[0], ids[5]))
    none = ResultView(task_id="none", outcome=Outcome.PASSED)
    other = ResultView(task_id="other", outcome=Outcome.PASSED, span_ids=(ids[5],))
    found = view_trace(agent_trace().spans, [both, none, other])
    beside = {each.span_id: each.tasks for each in found.spans if each.tasks}
    assert beside == {ids[0]: (both,), ids[5]: (both, other)}
    assert found.tasks == (none,)
    assert view_trace(agent_trace().spans, [both, none, other], limit=2).tasks == (none, other)


def test_tokens_of_a_call_that_two_spans_tell_of_count_once() -> None:
    """The SDK traces itself inside of the framework's span."""
    attributes = {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 3,
    }  # fmt: skip
    found = view_trace(
        [span(1, "chat m", None, (0, 9), attributes), span(2, "sdk", 1, (1, 8), attributes)]
    )
    assert (found.input_tokens, found.output_tokens) == (10, 3)
    assert [each.input_tokens for each in found.spans] == [10, 10]


def test_an_error_that_only_an_attribute_tells() -> None:
    """Servers of MCP answer with an error and end their span well."""
    tool = {"gen_ai.operation.name": "execute_tool", "error.type": "tool_error"}
    found = view_trace([span(1, "book", None, (0, 9), tool), span(2, "db", 1, (1, 2), tool | {
        "gen_ai.operation.name": "query",
    })])  # fmt: skip
    assert [each.error for each in found.spans] == ["tool_error", ""]
