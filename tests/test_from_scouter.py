"""The page on the original Scouter: its programs, its commands and its tables hold."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import scouter
from scouter.agent import Prompt
from scouter.client import ScouterClient
from scouter.drift import AgentEvalConfig, AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate import (
    AssertionTask,
    ComparisonResults,
    EvalDataset,
    EvalRecord,
    EvalScenarios,
)
from scouter.tracing import TestSpanExporter
from tests.support.collector_process import CollectorProcess

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/from_scouter.md").read_text(encoding="utf-8")
NAMES = (ROOT / "tests/cases/scouter_names.txt").read_text(encoding="utf-8")
FOREIGN = {"from_vertex.md", "from_watsonx.md", "from_nvidia.md", "from_upsonic.md"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The page's files."""
    for text in blocks("python"):
        (tmp_path / text.split("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    (scenarios,) = blocks("json")
    (tmp_path / "scenarios.jsonl").write_text(scenarios, encoding="utf-8")
    return tmp_path


def run(folder: Path, *command: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """Run `python …` or `scouter …` as the page has it."""
    program, *args = command
    start = [sys.executable, *(["-m", "scouter.cli.app"] if program == "scouter" else [])]
    foreign = ("OTEL_", "SCOUTER_")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return subprocess.run(
        [*start, *args], cwd=folder, env={**own, "PYTHONPATH": str(ROOT), **env},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def spoil(desk: Path) -> None:
    """Make an agent that knows no city any more."""
    text = (desk / "desk.py").read_text(encoding="utf-8")
    (desk / "desk.py").write_text(text.replace("if city in question", "if not city"), "utf-8")


@pytest.mark.parametrize("program", ["before.py", "after.py"])
def test_both_programs_stop_a_worse_agent_and_no_other(desk: Path, program: str) -> None:
    for _ in range(2):  # the first run saves the baseline
        done = run(desk, "python", program)
        assert done.returncode == 0, done.stdout + done.stderr
    if program == "before.py":  # the records are as good as before, the answer to `berlin` is not
        agent = (desk / "desk.py").read_text(encoding="utf-8")
        (desk / "desk.py").write_text(agent.replace("9 to 18", "7 to 8"), encoding="utf-8")
        done = run(desk, "python", program)
        assert done.returncode == 1
        assert "Regressed: []" in done.stdout, "a scenario counts without its alias"
        (desk / "desk.py").write_text(agent, encoding="utf-8")
    spoil(desk)
    done = run(desk, "python", program)
    assert done.returncode == 1, done.stdout + done.stderr
    assert ("Regressed: ['desk']" in done.stdout) == (program == "before.py")


def test_faults_of_files_and_plans_are_told_at_once(desk: Path) -> None:
    scenarios = desk / "scenarios.jsonl"
    text = scenarios.read_text(encoding="utf-8")
    scenarios.write_text(text.replace('"id": "paris",', '"id": "paris", "metdata": {},'), "utf-8")
    with pytest.raises(FileFormatError, match=r"line 2, .*metdata"):
        EvalScenarios.from_path(scenarios)
    task = AssertionTask(
        id="a", context_path="x", operator="Equals", expected_value=1, depends_on=["gone"]
    )
    with pytest.raises(ConfigError, match="depends_on names 'gone'"):
        EvalDataset(records=[EvalRecord(context={"x": 1})], tasks=[task]).evaluate()


def test_the_commands_of_the_release_check(desk: Path) -> None:
    commands = [shlex.split(line) for line in blocks("console")[0].splitlines()]
    assert len(commands) == 4
    for command in commands:
        done = run(desk, *command)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    saved = json.loads((desk / "baseline.json").read_text(encoding="utf-8"))
    assert saved["metrics"]["dataset_pass_rates"] == {"desk": 1.0}
    spoil(desk)
    assert run(desk, *commands[2]).returncode == 1


@pytest.mark.parametrize("program", ["records.py", "differences.py"])
def test_the_examples_on_records(desk: Path, program: str) -> None:
    """By hand: of two tasks of record `b` one errs, so that half of them pass."""
    done = run(desk, "python", program)
    assert done.returncode == 0, done.stderr
    (printed,) = blocks("text")
    assert done.stdout == (printed if program == "records.py" else "")


def test_production(desk: Path, start_collector: Callable[..., CollectorProcess]) -> None:
    start, *commands = [shlex.split(line) for line in blocks("console")[1].splitlines()]
    assert start == ["scouter", "collector", "&"]
    collector = start_collector()
    text = (desk / "desk.py").read_text(encoding="utf-8")
    (desk / "desk.py").write_text(text.replace("MockConfig", "HttpConfig"), encoding="utf-8")
    there = {"SCOUTER_SERVER_URI": collector.url, "SCOUTER_URL": collector.url}
    assert commands[0][0] == "curl", "waits until the collector is ready"
    first = run(desk, *commands[1], **there)
    assert (first.returncode, first.stdout) == (0, "We are open from 9 to 18.\n"), first.stderr
    collector.wait_evaluated(1)
    (found,) = collector.evaluations()
    outcomes = {each["task_id"]: each["outcome"] for each in found["tasks"]}
    assert outcomes == {"has_hours": "passed", "looked_up_once": "passed"}
    for command in commands[2:]:
        done = run(desk, *command, **there)
        assert done.returncode == 0, done.stderr
        assert "desk" in done.stdout


@pytest.mark.parametrize("line", NAMES.splitlines())
def test_names_that_are_the_same(line: str) -> None:
    module, _, names = line.partition(": ")
    missing = [name for name in names.split() if not hasattr(import_module(module), name)]
    assert missing == []


def test_names_that_are_not_here() -> None:
    table = PAGE.split("## Names")[1].split("##")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| `")]
    gone = [name for there, _ in rows for name in re.findall(r"`(scouter\.[\w.]+)`", there)]
    assert len(gone) == 12
    for name in gone:
        module, _, last = name.rpartition(".")
        if module == "scouter":
            assert find_spec(name) is None, name
        else:
            assert not hasattr(import_module(module), last), name
    for there, here in rows:
        for name in re.findall(r"`ScouterClient\.(\w+)`", there):
            assert not hasattr(ScouterClient, name)
        if "ScouterClient" in there:
            assert all(hasattr(ScouterClient, name) for name in re.findall(r"`(\w+)`", here))
    methods = {"print_summary_table", "update_config_args", "bind_mut", "baggage"}
    assert all(f"{name}`" in table for name in methods)
    for kind in (ComparisonResults, AgentEvalProfile, AgentEvalConfig, Prompt, TestSpanExporter):
        assert methods.isdisjoint(dir(kind))
    assert scouter.GenAIEvalProfile is scouter.AgentEvalProfile
    assert scouter.GenAIEvalConfig is scouter.AgentEvalConfig


def test_the_pages_on_other_systems_are_linked() -> None:
    """From here those with a command of their own, and all from the README."""
    pages = {path.name for path in (ROOT / "docs").glob("from_*.md")}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(docs/(from_\w+\.md)\)", readme)) == pages
    assert set(re.findall(r"\]\(([\w.]+)", PAGE)) >= FOREIGN
