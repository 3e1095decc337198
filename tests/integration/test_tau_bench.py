"""200 recorded conversations of a real agent: live and offline agree, and both are right.

The oracle counts in the recorded JSON itself, without spans, records or the engine.
"""

import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.api.records import AlignedEvalResult
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import (
    captured_spans,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig, MockConfig
from tests.support.collector_process import CollectorProcess
from tests.support.tau_bench import ALIAS, Run, find_runs, load_runs, replay

Result = Mapping[str, Any]
"""Outcome and tasks of a record, as the API shows them."""

COMPARED = ("task_id", "outcome", "reason", "expected", "actual", "message")
_FLUSH_EVERY = 20


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load_runs(find_runs())


@pytest.fixture(scope="module")
def profile() -> AgentEvalProfile:
    """The ready-made profile, and one more task so that all four outcomes occur."""
    first_action = AssertionTask(
        "first_action_books", "expected.actions[0].name", "book", ComparisonOperator.StartsWith
    )
    airline = AgentEvalProfile.from_file("airline")
    return AgentEvalProfile([*airline.tasks, first_action], airline.config, airline.alias)


@pytest.fixture(scope="module")
def captured(
    runs: list[Run], profile: AgentEvalProfile
) -> tuple[Sequence[EvalRecord], Sequence[Span]]:
    """Records and spans of the runs, captured in memory."""
    queue = ScouterQueue.from_profile(profile, MockConfig())
    tracer = init_tracer(service_name="airline", scouter_queue=queue)
    queue.enable_capture()
    enable_local_span_capture()
    try:
        replay(runs, tracer, queue[ALIAS].insert)
        return queue.drain_records(ALIAS), captured_spans()
    finally:
        disable_local_span_capture()
        shutdown_tracer()
        queue.shutdown()


@pytest.fixture(scope="module")
def offline(
    captured: tuple[Sequence[EvalRecord], Sequence[Span]], profile: AgentEvalProfile
) -> dict[str, Result]:
    """Results by record id, of `EvalDataset`."""
    records, spans = captured
    dataset = EvalDataset(records, profile.tasks, spans=spans)
    return {result.record_id: _shown(result) for result in dataset.evaluate()}


def _shown(result: AlignedEvalResult) -> Result:
    tasks = [task.to_json() for task in result.record.tasks]
    return {"outcome": str(result.outcome), "tasks": tasks}


@pytest.fixture(scope="module")
def live(
    runs: list[Run], profile: AgentEvalProfile, tmp_path_factory: pytest.TempPathFactory
) -> Generator[dict[str, Result]]:
    """Results by record id of the runs, sent over HTTP to a collector and read from its API."""
    folder = tmp_path_factory.mktemp("tau-bench")
    collector = CollectorProcess(folder, "--profile", profile.save_to_json(folder / "airline.json"))
    collector.start()
    queue = ScouterQueue.from_profile(profile, HttpConfig(server_uri=collector.url))
    tracer = init_tracer(service_name="airline", scouter_queue=queue)
    try:
        for start in range(0, len(runs), _FLUSH_EVERY):
            replay(runs[start : start + _FLUSH_EVERY], tracer, queue[ALIAS].insert)
            assert flush_tracer(60)
        assert queue.flush(60)
        assert (queue.stats.dropped, RUNTIME.stats.dropped) == ({}, {})
        collector.wait_evaluated(len(runs))
        yield {item["record_id"]: item for item in collector.evaluations()}
    finally:
        shutdown_tracer()
        queue.shutdown()
        collector.close()


def test_every_conversation_is_there_once(
    runs: list[Run], live: Mapping[str, Result], offline: Mapping[str, Result]
) -> None:
    ids = [run.record_id for run in runs]
    assert len(set(ids)) == 200
    assert sorted(live) == sorted(offline) == sorted(ids)
    assert {item["revision"] for item in live.values()} == {1}
    assert {item["missing_parents"] for item in live.values()} == {0}


def test_live_and_offline_agree_record_by_record(
    runs: list[Run], live: Mapping[str, Result], offline: Mapping[str, Result]
) -> None:
    def compared(result: Result) -> tuple[str, list[list[Any]]]:
        return result["outcome"], [[task[name] for name in COMPARED] for task in result["tasks"]]

    for run in runs:
        assert compared(live[run.record_id]) == compared(offline[run.record_id]), run.record_id


# --- what is right, counted in the recorded conversations ---


def names(run: Run) -> list[str]:
    return [call.name for call in run.calls()]


def in_order(wanted: list[str], run: Run) -> bool:
    rest = iter(names(run))
    return all(name in rest for name in wanted)


def looks_up_user(run: Run) -> bool:
    return "get_user_details" in names(run)


def first_user(run: Run) -> object:
    return next(c.arguments["user_id"] for c in run.calls() if c.name == "get_user_details")


def gated(check: Callable[[Run], bool]) -> Callable[[Run], str]:
    return lambda run: ("passed" if check(run) else "failed") if looks_up_user(run) else "skipped"


def plain(check: Callable[[Run], bool]) -> Callable[[Run], str]:
    return lambda run: "passed" if check(run) else "failed"


def reservation_ids(run: Run) -> str:
    asked = [c.arguments for c in run.calls() if c.name == "get_reservation_details"]
    good = all(re.fullmatch("[A-Z0-9]{6}", str(a["reservation_id"])) for a in asked)
    return ("passed" if good else "failed") if asked else "skipped"


def first_action(run: Run) -> str:
    if not run.expected_actions:
        return "errored"
    return "passed" if str(run.expected_actions[0]["name"]).startswith("book") else "failed"


def said(run: Run, number: str) -> bool:
    """As tau-bench itself looks for a required output: anywhere, commas left out."""
    return any(number in answer.replace(",", "") for answer in run.answers)


def assistants(run: Run) -> list[Mapping[str, Any]]:
    return [message for message in run.messages if message["role"] == "assistant"]


ORACLE: dict[str, Callable[[Run], str]] = {
    "rewarded": plain(lambda run: run.reward >= 1),
    "required_outputs_said": plain(lambda run: all(said(run, n) for n in run.expected_outputs)),
    "reservation_looked_up": plain(lambda run: "get_reservation_details" in names(run)),
    "user_looked_up": plain(looks_up_user),
    "right_user": gated(lambda run: first_user(run) == run.user_id),
    "user_before_reservation": gated(
        lambda run: in_order(["get_user_details", "get_reservation_details"], run)
    ),
    "reservation_ids_well_formed": reservation_ids,
    "handled_without_a_human": plain(lambda run: "transfer_to_human_agents" not in names(run)),
    "tools_within_reason": plain(lambda run: len(names(run)) <= 12),
    "no_tool_errors": plain(lambda run: not any(call.failed for call in run.calls())),
    "few_model_calls": plain(lambda run: len(assistants(run)) <= 20),
    "no_agent_inside_the_agent": plain(lambda run: bool(assistants(run))),
    "ends_with_words": plain(lambda run: bool(assistants(run)[-1]["content"])),
    "first_action_books": first_action,
}


def test_the_oracle_covers_the_profile(profile: AgentEvalProfile) -> None:
    assert [task.id for task in profile.tasks] == list(ORACLE)
    assert {task.task_type for task in profile.tasks} == {
        "Assertion", "TraceAssertion", "AgentAssertion",
    }  # fmt: skip


@pytest.mark.parametrize("task_id", ORACLE)
def test_results_are_those_counted_in_the_conversations(
    runs: list[Run], offline: Mapping[str, Result], task_id: str
) -> None:
    expected = {run.record_id: ORACLE[task_id](run) for run in runs}
    found = {
        record_id: task["outcome"]
        for record_id, result in offline.items()
        for task in result["tasks"]
        if task["task_id"] == task_id
    }
    assert found == expected


def test_counts_that_can_be_looked_up(offline: Mapping[str, Result]) -> None:
    """84 of 200 rewarded is in the data's own description; calls and errors can be grepped."""
    counts = Counter(
        (task["task_id"], task["outcome"])
        for result in offline.values()
        for task in result["tasks"]
    )
    calls = sum(
        task["actual"]
        for result in offline.values()
        for task in result["tasks"]
        if task["task_id"] == "tools_within_reason"
    )
    assert counts["rewarded", "passed"] == 84
    assert counts["no_tool_errors", "failed"] == 36
    assert counts["reservation_looked_up", "passed"] == 165
    assert counts["user_looked_up", "passed"] == 120
    assert calls == 1164


def test_reasons_of_what_is_neither_passed_nor_failed(offline: Mapping[str, Result]) -> None:
    seen = {
        (task["task_id"], task["outcome"], task["reason"])
        for result in offline.values()
        for task in result["tasks"]
        if task["outcome"] not in ("passed", "failed")
    }
    assert seen == {
        ("right_user", "skipped", "gate"),
        ("user_before_reservation", "skipped", "gate"),
        ("reservation_ids_well_formed", "skipped", "gate"),
        ("first_action_books", "errored", "missing_path"),
    }


def test_replayed_spans_keep_what_was_recorded(
    runs: list[Run], captured: tuple[Sequence[EvalRecord], Sequence[Span]]
) -> None:
    """Long texts, non-ASCII names and repeated call ids arrive as they were."""
    _, spans = captured
    tools = [span for span in spans if span.name.startswith("execute_tool ")]
    results = Counter(span.attributes["gen_ai.tool.call.result"] for span in tools)

    assert results == Counter(call.result for run in runs for call in run.calls())
    assert len({span.trace_id for span in spans}) == 200
    assert sum(span.parent_span_id is None for span in spans) == 200


def test_data_is_not_in_the_repository(runs: list[Run]) -> None:
    """It is read where it lies."""
    assert not find_runs().is_relative_to(Path(__file__).parents[2])
    assert len(runs) == 200
