"""`docs/eval.md` runs as written: its files, its commands, its tests."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.scouter.cli.conftest import ROOT, Scouter
from tests.support.shop_project import program

PAGE = (Path(ROOT) / "docs/eval.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for name, text in BLOCKS if name == kind]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, in the folder where the test stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", ROOT)
    for kind in ("python", "yaml"):
        for text in blocks(kind):
            name = re.match(r"# (\S+)\n", text)
            if name:
                (tmp_path / name[1]).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_commands_run_in_order_and_pass(desk: Path, scouter: Scouter) -> None:
    commands = [
        shlex.split(line)
        for text in blocks("sh")
        for line in text.splitlines()
        if line.startswith("scouter ")
    ]
    assert len(commands) == 12
    for command in commands:
        done = scouter(*command[1:])
        assert done.returncode == 0, (command, done.stdout, done.stderr)
    written = {path.name for path in desk.iterdir()}
    assert {"baseline.json", "junit.xml", "check.md", "check.html", "check.json"} <= written


def test_a_worse_agent_is_stopped(desk: Path) -> None:
    """The same check as a program, once for the agent of the page and once for a worse one."""
    first, second = re.findall(r"^scouter (eval .*baseline\.json.*)$", PAGE, flags=re.MULTILINE)[:2]
    assert program(desk, *shlex.split(first)).returncode == 0
    agent = (desk / "desk.py").read_text(encoding="utf-8")
    (desk / "desk.py").write_text(agent.replace("10 to 19", "7 to 8"), encoding="utf-8")
    done = program(desk, *shlex.split(second))
    assert done.returncode != 0, done.stderr
    assert "scenario 'paris'" in done.stdout


def test_the_workflow_is_yaml_and_its_command_is_the_one_of_the_page(desk: Path) -> None:
    (text,) = (text for text in blocks("yaml") if "runs-on" in text)
    steps = yaml.safe_load(text)["jobs"]["scouter"]["steps"]
    (command,) = (step["with"]["check"] for step in steps if "check" in step.get("with", {}))
    assert " ".join(command.split()) in PAGE


@pytest.mark.parametrize("way", ["command", "gates", "configuration", "fixture"])
def test_the_ways_to_use_pytest(
    desk: Path, scouter: Scouter, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    save = ("eval", "scenarios.yaml", "--agent", "desk:answer", "--profile", "desk.yaml")
    assert scouter(*save, "--save", "baseline.json").returncode == 0
    plain, by_gates = (
        line for text in blocks("sh") for line in text.splitlines() if "pytest" in line
    )
    args = {
        "command": shlex.split(plain)[1:], "gates": shlex.split(by_gates)[1:],
        "configuration": [], "fixture": ["test_desk.py"],
    }[way]  # fmt: skip
    if way == "configuration":
        (desk / "pytest.ini").write_text(blocks("ini")[0], encoding="utf-8")
    if way != "fixture":
        (desk / "test_desk.py").unlink()
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # only the plugin that is named
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "scouter.pytest_plugin", *args],
        cwd=desk, capture_output=True, encoding="utf-8", check=False, timeout=120,
    )  # fmt: skip
    count = {"command": 3, "gates": 3, "configuration": 4, "fixture": 1}[way]
    assert f"{count} passed" in done.stdout, done.stdout + done.stderr
