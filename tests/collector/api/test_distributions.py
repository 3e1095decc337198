"""Distributions behind the rate of a task."""

import html
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from collector.api.task_results import distributions_of
from collector.store.evaluation_queries import TaskValue
from scouter.client.models.evaluations import Distribution
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import encode_request
from tests.collector.conftest import Start
from tests.contracts.store_data import span

MS = 10**6
_ENDS = [step * 10**power for power in range(6) for step in (1, 2, 5)] + [10**6]
_COARSE = list(pairwise(_ENDS))


def values(*scores: float, at_ns: int = 0) -> list[TaskValue]:
    return [
        TaskValue(at_ns=at_ns, outcome=Outcome.PASSED, score=each, duration_ns=None)
        for each in scores
    ]


def counted(found: Distribution) -> list[tuple[float, float, int, int]]:
    return [(each.low, each.high, each.before, each.since) for each in found.bins]


def test_scores_of_one_are_counted_by_tenths() -> None:
    """A value on an edge belongs to the bin that begins there, and 1 to the last one."""
    (found,) = distributions_of(values(0, 0.1, 0.19, 1), None)
    assert [each.since for each in found.bins] == [1, 2, 0, 0, 0, 0, 0, 0, 0, 1]
    assert (found.bins[0].low, found.bins[-1].high) == (0, 1)
    assert (found.before, found.since, found.median_before) == (0, 4, None)
    assert found.median_since == pytest.approx(0.145)


def test_other_scores_are_counted_over_their_range_before_and_since() -> None:
    found = distributions_of([*values(1, 1, 5, at_ns=5), *values(3, 5, at_ns=9)], 9)[0]
    assert [each.before for each in found.bins] == [2, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    assert [each.since for each in found.bins] == [0, 0, 0, 0, 0, 1, 0, 0, 0, 1]
    assert (found.median_before, found.median_since) == (1, 4)
    (same,) = distributions_of(values(7, 7), None)
    assert sum(each.since for each in same.bins) == 2


@pytest.mark.parametrize(
    ("took_ms", "bins"),
    [
        ([3], [(3, 3.3, 0, 1)]),
        ([0], [(0.001, 0.0011, 0, 1)]),
        ([50, 60], [(50, 55, 0, 1), (55, 60, 0, 0), (60, 70, 0, 1)]),
        (
            [1, 1_000_000],
            [*((low, high, 0, int(low == 1)) for low, high in _COARSE), (1e6, 2e6, 0, 1)],
        ),
    ],
    ids=["one", "none", "edges", "wide"],
)
def test_durations_are_counted_between_round_ends(
    took_ms: Sequence[int], bins: list[tuple[float, float, int, int]]
) -> None:
    took = [
        TaskValue(at_ns=0, outcome=Outcome.FAILED, score=None, duration_ns=each * MS)
        for each in took_ms
    ]
    (found,) = distributions_of(took, None)
    assert counted(found) == [pytest.approx(each) for each in bins]


def test_a_task_has_the_durations_of_its_traces(start: Start, answers: Path) -> None:
    """Two spans from 0 to 30 ms, one of 300 ms, and a record without a trace."""
    service = start(profile=[str(answers)])
    for number, (begin, end) in enumerate([(0, 10), (20, 30), (0, 300)]):
        trace_id = f"{number // 2 + 1:032x}"
        row = span(number + 1, trace_id=trace_id, start_ns=begin * MS, end_ns=end * MS)
        data = encode_request([row]).SerializeToString()
        headers = {"Content-Type": "application/x-protobuf"}
        assert service.http.post("/v1/traces", content=data, headers=headers).is_success
    service.send(
        {"uid": "a", "profile": "answers", "context": {"answer": 42}, "trace_id": f"{1:032x}"},
        {"uid": "b", "profile": "answers", "context": {"answer": 1}, "trace_id": f"{2:032x}"},
        {"uid": "c", "profile": "answers", "context": {"answer": 42}},
    )
    service.wait_for(3)
    found = service.get("/api/v1/tasks/distributions", profile="answers", task_id="right")
    assert (found["looked_at"], found["is_partial"]) == (3, False)
    (took,) = found["items"]
    assert took["measure"] == "duration_ms"
    filled = {each["low"]: each["since"] for each in took["bins"] if each["since"]}
    assert filled == {30: 1, 300: 1}
    address = "/task/distributions?profile=answers&task=right"
    text = service.http.get(address).text
    assert "30 ms – 40 ms" in text
    assert text.count("<rect") == 2
    task = html.unescape(service.http.get("/task?profile=answers&task=right").text)
    assert f'hx-get="{address}' in task
    gone = service.http.get("/api/v1/tasks/distributions?profile=none&task_id=right")
    assert gone.status_code == 404
