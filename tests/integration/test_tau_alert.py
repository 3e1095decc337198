"""Real traffic gets worse: one alert at a real Alertmanager and a webhook, which names the tool."""

from collections.abc import Sequence
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from scouter.drift.profile import AgentEvalProfile
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.prometheus_server import run_alertmanager
from tests.support.served import Say, run_script
from tests.support.tau_bench import ALIAS, Run, find_runs, load_runs, replay

GUILTY = "get_reservation_details"
NOBODY = "route: {receiver: nobody}\nreceivers: [{name: nobody}]\n"
_FLUSH_EVERY = 20


def broken(run: Run) -> Run:
    """The conversation with a tool that answers with errors alone."""
    messages: list[Any] = []
    names: dict[str, str] = {}
    for message in run.messages:
        for call in message.get("tool_calls") or ():
            names[call["id"]] = call["function"]["name"]
        if message["role"] == "tool" and names.get(message["tool_call_id"]) == GUILTY:
            message = {**message, "content": "Error: the service cannot be reached"}
        messages.append(message)
    return changed(run, messages=messages)


def send(
    runs: Sequence[Run], collector: CollectorProcess, profile: AgentEvalProfile, version: str
) -> None:
    """Let one version of the agent have all conversations."""
    queue = ScouterQueue.from_profile(profile, HttpConfig(server_uri=collector.url))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_RESOURCE_ATTRIBUTES", f"service.version={version}")
        tracer = init_tracer(service_name="airline", scouter_queue=queue)
        try:
            for start in range(0, len(runs), _FLUSH_EVERY):
                replay(runs[start : start + _FLUSH_EVERY], tracer, queue[ALIAS].insert)
                assert flush_tracer(60)
            assert queue.flush(60)
        finally:
            shutdown_tracer()
            queue.shutdown()


@pytest.mark.long
def test_the_tool_that_broke_is_named(tmp_path: Path) -> None:
    """Version 1 as it was recorded, version 2 with one tool that is down."""
    runs = load_runs(find_runs())
    profile = AgentEvalProfile.from_file("airline")
    with run_alertmanager(NOBODY) as alertmanager, run_script() as webhook:
        webhook.answers = [Say(200, "ok")] * 100
        settings = {
            "alerts_webhook_url": f"{webhook.url}/hook",
            "alerts_alertmanager": f"http://{alertmanager}",
            "session_quiet_s": "1s",
        }
        (tmp_path / "collector.yaml").write_text(yaml.safe_dump(settings))
        collector = CollectorProcess(
            tmp_path, "--config", tmp_path / "collector.yaml",
            "--profile", profile.save_to_json(tmp_path / "airline.json"),
        )  # fmt: skip
        collector.start()
        try:
            send(runs, collector, profile, "1")
            collector.wait_evaluated(len(runs))

            def taken() -> bool:
                series = collector.get("/api/v1/drift/series")["items"]
                return any(each["units"] == len(runs) for each in series)

            wait_until(taken, what="all conversations are complete")
            assert webhook.asked == [], "the recorded agent is its own measure"
            send([broken(run) for run in runs], collector, profile, "2")

            def told() -> Any:
                return next((each.body for each in webhook.asked), None)

            body = wait_until(told, what="the webhook is told")
            assert (body["event"], body["version"]) == ("firing", "2")
            collector.wait_evaluated(2 * len(runs))

            def look() -> Any:
                return collector.get(f"/api/v1/alerts/{body['alert_id']}")

            def guilty() -> set[str]:
                why = look()["explanation"]
                traits = why["traits"] if why else ()
                return {each["name"] for each in traits if each["is_named"]}

            wait_until(lambda: f"tool {GUILTY}" in guilty(), what="the tool is named")
            fallen = {each["task"] for each in look()["together"]}
            assert fallen >= {"", "no_tool_errors"}, "all that fell is one alert"
            assert [each["state"] for each in collector.get("/api/v1/alerts")["drift"]] == [
                "firing"
            ]

            def received() -> Any:
                found = httpx.get(f"http://{alertmanager}/api/v2/alerts", timeout=120).json()
                return next((each for each in found if each["labels"].get("version") == "2"), None)

            alert = wait_until(received, what="Alertmanager has it")
            assert alert["annotations"]["alert_id"] == body["alert_id"]
        finally:
            collector.close()
