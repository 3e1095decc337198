"""Faults: each is what it says, and nothing else of the trace changes."""

from collections.abc import Mapping
from itertools import groupby
from typing import Final

import pytest

from scouter.evaluate.mutate.faults import FAULTS, Corpus, Fault, Trace
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import ToolCall, why_unreported
from tests.scouter.evaluate.mutate.desk import answer, trace, traces
from tests.support.agent_traces import find_clients, load_client

KINDS: Final[Mapping[str, Fault]] = {fault.kind: fault for fault in FAULTS}


def corpus() -> Corpus:
    spans = groupby(traces(), key=lambda each: each.trace_id)
    return Corpus(traces=[Trace(tree=SpanTree(each)) for _, each in spans])


def mutant(kind: str, number: int) -> Trace:
    """The trace of one customer with a fault in it."""
    made, is_possible = KINDS[kind].mutant(Trace(tree=SpanTree(trace(number))), corpus())
    assert is_possible
    assert made is not None
    return made


def shown(call: ToolCall) -> str:
    if call.error:
        return f"{call.name} failed"
    return f"{call.name} {call.arguments} -> {call.result}"


FOUND = "find_order {'id': 'A-1001'} -> {'id': 'A-1001', 'total': 101}"
PAID = "refund_order {'id': 'A-1001', 'amount': 101} -> {'done': True}"
FOUND_NOTHING, PAID_NOTHING = FOUND.split(">")[0] + "> {}", PAID.split(">")[0] + "> {}"


@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        ("call_dropped", [[FOUND], [PAID]]),
        ("call_doubled", [[FOUND, FOUND, PAID], [FOUND, PAID, PAID]]),
        ("calls_swapped", [[PAID, FOUND]]),
        ("result_empty", [[FOUND_NOTHING, PAID], [FOUND, PAID_NOTHING]]),
        ("call_failed", [["find_order failed", PAID], [FOUND, "refund_order failed"]]),
        ("loop", [[*[FOUND] * 11, PAID], [FOUND, *[PAID] * 11]]),
    ],
)
def test_faults_of_calls(kind: str, calls: list[list[str]]) -> None:
    work = mutant(kind, 1).work

    assert [shown(call) for call in work.tool_calls] in calls
    assert (work.content, why_unreported(work)) == (answer(1), "")


def test_a_loop_ends_before_what_came_behind_the_call() -> None:
    """The next span begins sooner than ten calls take one behind the other."""
    found = [shown(call) for call in mutant("loop", 9).work.tool_calls]

    assert [each.split()[0] for each in found] == [*["find_order"] * 11, "refund_order"]


def test_an_argument_is_that_of_another_trace() -> None:
    work = mutant("argument_replaced", 1).work
    given = [call.arguments for call in work.tool_calls]

    first, second = {"id": "A-1001"}, {"id": "A-1001", "amount": 101}
    assert given != [first, second]
    assert given[0] == first or given[1] == second
    ids = {f"A-{1000 + number}" for number in range(16)}
    assert {str(each["id"]) for each in given if isinstance(each, dict)} <= ids


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("answer_blank", ""),
        ("answer_cut", "We have refunded 101 euros for yo"),
        ("number_changed", answer(1).replace("101", "108")),
        (
            "language_changed",
            "para que con 101 una los por las. del como pero sus este.",
        ),
    ],
)
def test_faults_of_answers(kind: str, text: str) -> None:
    work = mutant(kind, 1).work

    assert (work.content or "") == text
    assert [shown(call) for call in work.tool_calls] == [FOUND, PAID]


def test_a_claim_is_of_an_act_that_no_call_did() -> None:
    assert mutant("act_claimed", 2).work.content == f"{answer(2)} I have also refunded the order."
    assert "refunded the order" not in str(mutant("act_claimed", 1).work.content)


def test_a_trace_without_a_place_for_a_fault_has_no_mutant() -> None:
    """A customer with one call has no two that could be swapped."""
    assert KINDS["calls_swapped"].mutant(Trace(tree=SpanTree(trace(2))), corpus()) == (None, False)


def test_a_mutant_is_the_same_every_time() -> None:
    for fault in FAULTS:
        one, other = (mutant(fault.kind, 3) for _ in range(2))
        assert one.tree.spans == other.tree.spans


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.kind)
def test_the_traces_of_real_agents_can_be_rewritten(fault: Fault) -> None:
    """In whatever form an instrumentor tells of calls and answers: nine of ten, at least."""
    made = possible = 0
    for file in find_clients():
        client = load_client(file)
        spans = sorted(client.spans, key=lambda each: each.trace_id)
        found = [SpanTree(each) for _, each in groupby(spans, key=lambda each: each.trace_id)]
        known = Corpus(traces=[Trace(tree=tree) for tree in found if tree.has_agent])
        for each in known.traces:
            mutant, is_possible = fault.mutant(each, known)
            made, possible = made + (mutant is not None), possible + is_possible
    assert possible >= 3
    assert made >= (0.8 if fault.kind == "answer_blank" else 0.9) * possible
