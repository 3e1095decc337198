"""Failures of recorded conversations, harvested and met again in a release check."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from scouter.cli.app import make_app
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
KINDS = ("yaml", "jsonl")
LEFT = ("rewarded", "required_outputs_said")
"""Tasks that read the record's context, which only the agent knows."""

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
        running.wait_evaluated(len(runs))
        yield running
    finally:
        shutdown_tracer()
        queue.shutdown()
        running.close()


def harvest(folder: Path, collector: CollectorProcess, *args: str) -> str:
    """Output of `scouter scenarios harvest`, in a folder."""
    with contextlib.chdir(folder):
        command = ["scenarios", "harvest", *args, "--url", collector.url]
        done = CliRunner().invoke(make_app(), command)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_failures_are_reproduced(
    collector: CollectorProcess, runs: list[Run], tmp_path: Path
) -> None:
    """Same records, same failed tasks: of the collector and of `scouter eval` on the harvest."""
    production = _failures((item["record_id"], item["tasks"]) for item in collector.evaluations())
    rewarded = {run.record_id for run in runs if run.reward >= 1}
    assert {record for record, task in production if task == "rewarded"} == (
        {run.record_id for run in runs} - rewarded
    )
    (tmp_path / "again.py").write_text(AGENT, encoding="utf-8")
    harvest(tmp_path, collector, "failures.yaml", "--failed", "--save-profiles", ".")
    (saved,) = tmp_path.glob("airline-*.json")
    command = (
        "eval", "failures.yaml", "--agent", "again:Again", "--profile", saved.name,
        "--json", "report.json", "--quiet",
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "scouter.cli.app", *command], cwd=tmp_path, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))["results"]
    records = report["dataset_results"][ALIAS]["results"]
    assert _failures((item["record_id"], item["tasks"]) for item in records) == production

    names = {
        each.id: (each.metadata or {}).get("record_id")
        for each in EvalScenarios.from_path(tmp_path / "failures.yaml")
    }
    carried = _failures(
        (names[item["scenario_id"]], item["task_results"]) for item in report["scenario_results"]
    )
    assert carried == {(record, task) for record, task in production if task not in LEFT}


def test_a_sample_is_the_same_each_time_and_in_each_form(
    collector: CollectorProcess, tmp_path: Path
) -> None:
    for name in ("a.yaml", "b.yaml", "a.jsonl"):
        said = harvest(tmp_path, collector, name, "--sample", "10")
        assert said == f"wrote {name}: 10 scenarios\n"
    first, second = ((tmp_path / name).read_bytes() for name in ("a.yaml", "b.yaml"))
    assert first.replace(b"collection_id: a", b"collection_id: b") == second
    yaml, lines = (list(EvalScenarios.from_path(tmp_path / f"a.{kind}")) for kind in KINDS)
    assert yaml == lines
    keys = sorted(
        (item["uid"] for item in collector.evaluations()),
        key=lambda uid: hashlib.sha256(uid.encode()).hexdigest(),
    )
    assert {each.id for each in yaml} == set(keys[:10])


def test_what_passed_has_to_call_the_same_tools(
    collector: CollectorProcess, runs: list[Run], tmp_path: Path
) -> None:
    """A record that passed wants its tools at once; one that did not has them as a remark."""
    harvest(tmp_path, collector, "all.yaml", "--limit", str(SOME))
    found = {
        str((each.metadata or {})["record_id"]): each
        for each in EvalScenarios.from_path(tmp_path / "all.yaml")
    }
    passed = {item["record_id"] for item in collector.evaluations() if item["outcome"] == "passed"}
    assert passed
    called = {run.record_id: [call.name for call in run.calls()] for run in runs}
    for record_id, scenario in found.items():
        wanted = [task for task in scenario.agent_assertion_tasks if task.id == "expected_tools"]
        names = [getattr(task.assertion, "names", None) for task in wanted]
        assert names == ([called[record_id]] if record_id in passed else []), record_id


def _failures(results: Iterable[tuple[Any, Any]]) -> set[tuple[str, str]]:
    return {
        (record_id, task["task_id"])
        for record_id, tasks in results
        for task in tasks
        if task["outcome"] in FAILED
    }
