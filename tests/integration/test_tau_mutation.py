"""Faults in the good runs of a real agent: what `agent_health` sees, before and after proposals."""

from collections.abc import Sequence
from itertools import groupby

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.mutate.candidates import stopped_by
from scouter.evaluate.mutate.faults import Trace
from scouter.evaluate.mutate.score import MutationScore, mutation_score
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.task import Task
from scouter.model.span import Span
from scouter.tracing.capture import (
    captured_spans,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from tests.support.tau_bench import find_runs, load_runs, replay

NINE = {
    "call_failed", "answer_blank", "call_dropped", "argument_replaced", "calls_swapped",
    "call_doubled", "result_empty", "act_claimed", "number_changed",
}  # fmt: skip
"""The kinds that the profile was first tried with."""


@pytest.fixture(scope="module")
def good() -> Sequence[Span]:
    """The spans of all runs that ended as they should."""
    runs = [run for run in load_runs(find_runs()) if run.reward == 1.0]
    tracer = init_tracer(service_name="airline")
    enable_local_span_capture()
    try:
        replay(runs, tracer, lambda _: None)
        return captured_spans()
    finally:
        disable_local_span_capture()
        shutdown_tracer()


def seen(score: MutationScore) -> set[str]:
    return {each.fault.kind for each in score.faults if each.is_seen and each.fault.kind in NINE}


def test_proposals_see_most_faults_and_fail_no_good_run(good: Sequence[Span]) -> None:
    """Proposals of forty runs are held against the others, which they were not drawn from."""
    traces = [list(each) for _, each in groupby(good, key=lambda each: each.trace_id)]
    assert len(traces) >= 80
    first, later = traces[:40], traces[40:80]
    health = AgentEvalProfile.from_file("agent_health").tasks
    before = mutation_score(health, [span for each in first for span in each])
    proposed = before.proposed()

    assert seen(before) == {"call_failed", "answer_blank"}
    after = mutation_score(
        [*health, *proposed], [span for each in later for span in each], propose=False
    )
    assert len(seen(after)) >= 5
    assert sum(failing(health, first)) <= 2
    assert sum(failing([*health, *proposed], first)) == sum(failing(health, first))
    assert sum(failing([*health, *proposed], later)) <= sum(failing(health, later)) + 2


def failing(tasks: Sequence[Task], traces: Sequence[Sequence[Span]]) -> list[bool]:
    found = [Trace(tree=SpanTree(each)) for each in traces]
    return [bool(ids) for ids in stopped_by(tasks, found)]
