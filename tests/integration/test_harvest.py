"""Failures of recorded conversations, harvested from a collector and met again in a release check."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.scenario import EvalScenarios
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import HttpConfig
from tests.support.collector_process import CollectorProcess
from tests.support.components import ROOT
from tests.support.tau_bench import ALIAS, Run, find_runs, load_runs, replay

SOME = 60
FAILED = ("failed", "errored")

AGENT = """
from opentelemetry.trace import get_current_span

from scouter.evaluate import EvalOrchestrator
from scouter.tracing import get_tracer
from tests.support.tau_bench import ALIAS, find_runs, load_runs, replay_run

RUNS = {run.record_id: run for run in load_runs(find_runs())}


class Again(EvalOrchestrator):
    \"\"\"Does in the release check what it did in production.\"\"\"

    def execute_agent(self, scenario):
        run = RUNS[scenario.metadata["record_id"]]
        asked = [message["content"] for message in run.messages if message["role"] == "user"]
        said = [scenario.initial_query, *scenario.predefined_turns]
        assert asked[: len(said)] == said and len(asked) - len(said) <= 1, (asked, said)
        replay_run(run, get_tracer("again"), self.queue[ALIAS].insert, start_ns=10**18)
        return run.answers[-1] if run.answers else ""
"""


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return load_runs(find_runs())[:SOME]


@pytest.fixture(scope="module")
def collector(
    runs: list[Run], tmp_path_factory: pytest.TempPathFactory
) -> Generator[CollectorProcess]:
    """A collector that has judged the runs."""
    profile = AgentEvalProfile.from_file("airline")
    folder = tmp_path_factory.mktemp("harvest")
    running = CollectorProcess(folder, "--profile", profile.save_to_json(folder / "airline.json"))
    running.start()
    queue = ScouterQueue.from_profile(profile, HttpConfig(server_uri=running.url))
    tracer = init_tracer(service_name="airline", scouter_queue=queue)
    try:
        for start in range(0, len(runs), 20):
            replay(runs[start : start + 20], tracer, queue[ALIAS].insert)
            assert flush_tracer(60)
        assert queue.flush(60)
        running.wait_evaluated(len(runs), timeout_s=120)
        yield running
    finally:
        shutdown_tracer()
        queue.shutdown()
        running.close()


def scouter(folder: Path, *args: str | Path) -> "subprocess.CompletedProcess[str]":
    import os

    environ = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "scouter.cli.app", *map(str, args)]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


def test_failures_are_reproduced(
    collector: CollectorProcess, runs: list[Run], tmp_path: Path
) -> None:
    """Same records, same failed tasks: of the collector and of `scouter eval` on the harvest."""
    production = {
        (item["record_id"], task["task_id"])
        for item in collector.evaluations()
        for task in item["tasks"]
        if task["outcome"] in FAILED
    }
    rewarded = {run.record_id for run in runs if run.reward >= 1}
    assert {record for record, task in production if task == "rewarded"} == (
        {run.record_id for run in runs} - rewarded
    )
    (tmp_path / "again.py").write_text(AGENT, encoding="utf-8")
    done = scouter(
        tmp_path, "scenarios", "harvest", "failures.yaml", "--failed", "--url", collector.url,
        "--with-profile", "airline", "--save-profiles", ".",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (saved,) = tmp_path.glob("airline-*.json")
    done = scouter(
        tmp_path, "eval", "failures.yaml", "--agent", "again:Again", "--profile", saved.name,
        "--json", "report.json", "--quiet",
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    print(json.dumps(report, indent=1)[:3000])
    scenarios = EvalScenarios.from_path(tmp_path / "failures.yaml")
    print(len(scenarios), production)
    raise AssertionError
