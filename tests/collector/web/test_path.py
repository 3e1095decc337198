"""From an alert to the guilty span in three clicks, on traffic of a real agent that got worse."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig
from tests.collector.conftest import Service
from tests.support.browser import browser_page
from tests.support.processes import wait_until
from tests.support.served import serve
from tests.support.tau_bench import ALIAS, RUN_SPACING_NS, Run, find_runs, load_runs, replay

TASK = "no_tool_fails"
_AT_ONCE = 20


@pytest.fixture
def profile() -> AgentEvalProfile:
    """No span of a tool is in error."""
    failed = SpanFilter.with_status(SpanStatus.Error).and_(
        SpanFilter.with_attribute("gen_ai.tool.name")
    )
    count = TraceAssertion.span_count(failed)
    task = TraceAssertionTask(TASK, count, 0, ComparisonOperator.Equals)
    return AgentEvalProfile([task], alias=ALIAS)


@pytest.fixture
def url(
    profile: AgentEvalProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A collector with the recorded runs as version 1, and with a broken reservation as 2."""
    runs = load_runs(find_runs())
    file = profile.save_to_json(tmp_path / "p.json")
    service = Service(tmp_path, profile=[str(file)], session_quiet_s="1s")
    try:
        with serve(service.collector.app) as address:
            healthy = [run for run in runs if not any(call.failed for call in run.calls())]
            again = [replace(run, trial=run.trial + 20) for run in healthy]
            sent = 0
            for version, its in (
                ("1", healthy),
                ("1", again),
                ("2", [broken(run) for run in healthy]),
            ):
                monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"service.version={version}")
                send(address, profile, its)
                sent += len(its)
                service.wait_for(sent)
            wait_until(
                lambda: any(each["task"] for each in service.get("/api/v1/alerts")["drift"]),
                what="an alert",
            )
            yield address
    finally:
        service.stop()


def broken(run: Run) -> Run:
    """The same conversation with a database that answers each look at a user with an error."""
    calls = {call.id for call in run.calls() if call.name == "get_user_details"}
    messages = [
        {**message, "content": "Error: the database is down"}
        if message["role"] == "tool" and message["tool_call_id"] in calls
        else message
        for message in run.messages
    ]
    return replace(run, messages=messages, trial=run.trial + 10)


def send(address: str, profile: AgentEvalProfile, runs: Sequence[Run]) -> None:
    """Replay runs as an agent of its own; the last one began a minute ago."""
    first_ns = time.time_ns() - len(runs) * RUN_SPACING_NS
    queue = ScouterQueue.from_profile(profile, HttpConfig(server_uri=address))
    tracer = init_tracer(service_name="airline", scouter_queue=queue)

    try:
        for begin in range(0, len(runs), _AT_ONCE):
            replay(
                runs[begin : begin + _AT_ONCE], tracer, queue[ALIAS].insert,
                first_start_ns=first_ns + begin * RUN_SPACING_NS,
            )  # fmt: skip
            assert flush_tracer(60)
        assert queue.flush(60)
    finally:
        shutdown_tracer()
        queue.shutdown()


def test_three_clicks_from_an_alert_to_the_guilty_span(url: str) -> None:
    with browser_page(url) as (page, seen):
        page.goto("/")
        page.get_by_role("link", name=re.compile(f"task '{TASK}' fails more in version 2")).click()
        page.get_by_role("heading", name="Examples").wait_for()
        page.get_by_role("link", name=re.compile(r"^airline-")).first.click()
        about = page.locator("section.task.failed", has_text=TASK)
        about.get_by_role("link", name=re.compile("span")).click()
        guilty = page.locator(".wf-row.selected")
        guilty.wait_for()
        assert "execute_tool get_user_details" in guilty.inner_text()
        assert TASK in guilty.locator(".outcome.failed").inner_text()
        page.locator("#detail", has_text="the database is down").wait_for()
        assert seen.problems == []
        assert page.evaluate("window.violations") == []
