"""Trajectories of 200 recorded runs: live and offline agree, and the sums are those of the oracle.

The oracle counted multisets of name and arguments, compared as JSON, without this package.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

import pytest
from opentelemetry.trace import Tracer

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import (
    captured_spans,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig, MockConfig
from tests.support.collector_process import CollectorProcess
from tests.support.tau_bench import Run, find_runs, load_runs, replay_run

ALIAS: Final = "calls"
METRICS: Final = ("exact_match", "in_order_match", "any_order_match", "precision", "recall")
PROFILE: Final = AgentEvalProfile([TrajectoryTask(name, name) for name in METRICS], alias=ALIAS)
_SPACING_NS: Final = 60_000_000_000
_FIRST_NS: Final = 1_715_803_200_000_000_000

Triples = Mapping[str, list[tuple[str, str, float | None]]]
"""Task, outcome and score, by the record's own name."""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load_runs(find_runs())


def send(runs: Sequence[Run], tracer: Tracer, queue: ScouterQueue, first: int = 0) -> None:
    """Replay runs whose records say what was expected, in the words of trajectories."""
    for number, run in enumerate(runs, start=first):
        expected = [
            {"tool_name": action["name"], "tool_input": action["kwargs"]}
            for action in run.expected_actions
        ]

        def insert(record: EvalRecord, expected: object = expected) -> None:
            queue[ALIAS].insert(
                EvalRecord(
                    {"expected_trajectory": expected},
                    record.record_id,
                    session_id=record.session_id,
                    trace_id=record.trace_id,
                    created_ns=record.created_ns,
                )
            )

        replay_run(run, tracer, insert, start_ns=_FIRST_NS + number * _SPACING_NS)


@pytest.fixture(scope="module")
def offline(runs: list[Run]) -> Triples:
    queue = ScouterQueue.from_profile(PROFILE, MockConfig())
    tracer = init_tracer(service_name="airline", scouter_queue=queue)
    queue.enable_capture()
    enable_local_span_capture()
    try:
        send(runs, tracer, queue)
        records = queue.drain_records(ALIAS)
        found = EvalDataset(records, PROFILE.tasks, captured_spans()).evaluate()
        return {
            each.record_id: [(t.task_id, str(t.outcome), t.score) for t in each.record.tasks]
            for each in found
        }
    finally:
        disable_local_span_capture()
        shutdown_tracer()
        queue.shutdown()


def test_the_counted_figures(offline: Triples) -> None:
    scores = {name: list[float]() for name in METRICS}
    for tasks in offline.values():
        for name, outcome, score in tasks:
            assert score is not None, outcome
            scores[name].append(score)
    assert len(offline) == 200
    assert [sum(scores[name]) for name in METRICS[:3]] == [12, 76, 76]
    assert round(fmean(scores["recall"]), 4) == 0.5700
    assert round(fmean(scores["precision"]), 4) == 0.3345


def test_live_and_offline_agree(runs: list[Run], offline: Triples, tmp_path: Path) -> None:
    collector = CollectorProcess(
        tmp_path, "--profile", PROFILE.save_to_json(tmp_path / "calls.json")
    )
    collector.start()
    queue = ScouterQueue.from_profile(PROFILE, HttpConfig(server_uri=collector.url))
    tracer = init_tracer(service_name="airline", scouter_queue=queue)
    try:
        for start in range(0, len(runs), 20):
            send(runs[start : start + 20], tracer, queue, start)
            assert flush_tracer(60)
        assert queue.flush(60)
        collector.wait_evaluated(len(runs))
        items: list[Any] = collector.evaluations()
    finally:
        shutdown_tracer()
        queue.shutdown()
        collector.close()
    live = {
        item["record_id"]: [(t["task_id"], t["outcome"], t["score"]) for t in item["tasks"]]
        for item in items
    }
    assert live == offline
