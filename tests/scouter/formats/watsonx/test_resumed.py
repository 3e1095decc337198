"""A run that was killed and taken up cannot be distinguished from one that nobody interrupted."""

import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.components import ROOT

AGENT: Final = '''
import json
import os
import signal
import sys

from scouter.tracing import get_tracer

tracer = get_tracer("hr")
KIND, AT = os.environ.get("KILL", "nobody 0").split()
counts = {}


def killed_at(kind):
    """Kill the process, as `kill -9` does, at the event of this kind and number."""
    counts[kind] = counts.get(kind, 0) + 1
    if (kind, counts[kind]) == (KIND, int(AT)):
        if os.path.exists("hold"):  # a pipe, of which nobody writes the other end
            print("waiting", file=sys.stderr, flush=True)
            open("hold").read()
        os.kill(os.getpid(), signal.SIGKILL)


def tool(name, **arguments):
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)
        span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
        span.set_attribute("gen_ai.tool.call.result", "ok")
        killed_at("tool")


def answer(message):
    with open("messages.txt", "a") as messages:
        messages.write(f"{message}\\n")
    if "nwaters" in message:
        tool("get_id", username="nwaters")
        tool("log", text="seen")
        return "Which month?"
    if "January" in message:
        tool("get_schedule", id="15", month="January")
        return "You are off on January 5."
    if "crash" in message:
        tool("get_schedule", id="0")
        raise RuntimeError("no such user")
    return "Who are you?"


def play(first, last, history):
    killed_at("user")
    said = {"Who are you?": "I am nwaters", "Which month?": "January"}
    return said.get(last)
'''
GOALS: Final = [
    {"type": "tool_call", "name": "id", "tool_name": "get_id", "args": {"username": "nwaters"}},
    {"type": "text", "name": "month", "keywords": ["Which month?"]},
    {"type": "tool_call", "name": "schedule", "tool_name": "get_schedule",
     "args": {"id": "15", "month": "January"}},
    {"type": "text", "name": "summarize", "keywords": ["off on January 5"]},
]  # fmt: skip
CASE: Final[dict[str, Any]] = {
    "story": "You are nwaters, and want to know when you are off in January.",
    "starting_sentence": "When am I off?",
    "goals": {"id": ["month"], "month": ["schedule"], "schedule": ["summarize"]},
    "goal_details": GOALS,
}
CASES: Final[dict[str, dict[str, Any]]] = {
    "a": CASE,
    "b": {**CASE, "user_prompts": ["I am nwaters", "January", "Thanks"]},
    "c": {**CASE, "user_prompts": ["I am nwaters", "crash"]},
    "d": {**CASE, "user_prompts": ["January", "I am nwaters"]},
}
OPTIONS: Final = (
    "eval", "cases", "--format", "watsonx", "--agent", "hr:answer", "--simulated-user", "hr:play",
)  # fmt: skip


def run(folder: Path, *options: str, kill: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command as a program of its own."""
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "KILL": kill or "no 0"}
    return subprocess.run(
        [sys.executable, "-c", "from scouter.cli.app import main; main()", *OPTIONS, *options],
        cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def interrupted(folder: Path, *options: str, at: str) -> "tuple[int, str]":
    """Press Ctrl-C once the agent is in the middle of something that does not end."""
    os.mkfifo(folder / "hold")
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "KILL": at}
    with subprocess.Popen(
        [sys.executable, "-c", "from scouter.cli.app import main; main()", *OPTIONS, *options],
        cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stderr is not None
        before = "".join(iter(running.stderr.readline, "waiting\n"))
        running.send_signal(signal.SIGINT)
        _, after = running.communicate(timeout=120)
    (folder / "hold").unlink()
    return running.returncode, before + after


def project(folder: Path) -> Path:
    (folder / "cases").mkdir(parents=True)
    (folder / "hr.py").write_text(AGENT, encoding="utf-8")
    for name, case in CASES.items():
        (folder / f"cases/{name}.json").write_text(json.dumps(case), encoding="utf-8")
    return folder


TIMES: Final = ("response_time", "average_agent_response_time")


def results_of(folder: Path) -> dict[str, Any]:
    """The files of a run, with each duration replaced by whether there was one."""
    (found,) = (folder / "out").iterdir()

    def untimed(value: dict[str, Any]) -> dict[str, Any]:
        return {k: v is not None if k in TIMES else v for k, v in value.items()}

    files = {
        str(file.relative_to(found)): json.loads(
            file.read_text(encoding="utf-8"), object_hook=untimed
        )
        for file in (found / "messages").iterdir()
    }
    with (found / "summary_metrics.csv").open(encoding="utf-8", newline="") as table:
        files["summary"] = [{**row, TIMES[1]: row[TIMES[1]] != ""} for row in csv.DictReader(table)]
    return files


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The run that nobody interrupted."""
    folder = project(tmp_path_factory.mktemp("whole"))
    assert run(folder, "--output", "out").returncode == 1
    return results_of(folder)


def test_the_whole_run_by_hand(whole: dict[str, Any]) -> None:
    """`a` and `b` go as they should; `c` crashes in its third turn, `d` asks in the wrong order."""
    verdicts = {row["dataset_name"]: row["is_success"] for row in whole["summary"]}
    assert verdicts == {"a": "True", "b": "True", "c": "False", "d": "False"}
    kinds = [(each["role"], each["type"]) for each in whole["messages/a.messages.json"]]
    user, says = ("user", "text"), ("assistant", "text")
    call = [("assistant", "tool_call"), ("assistant", "tool_response")]
    assert kinds == [user, says, user, *call, *call, says, user, *call, says]
    timed = [each for each in whole["messages/a.messages.json"] if "response_time" in each]
    assert [each["content"] for each in timed] == [
        "Who are you?", "Which month?", "You are off on January 5.",
    ]  # fmt: skip
    crashed = whole["messages/c.messages.json"]
    assert [each["type"] for each in crashed[-3:]] == ["text", "tool_call", "tool_response"]
    wrong = whole["messages/d.metrics.json"]["verdict"]
    assert "goal 'month' has to come before 'schedule'" in wrong


@pytest.mark.parametrize(
    ("kill", "done"),
    [
        pytest.param("user 3", 0, id="between-turns"),
        pytest.param("tool 5", 1, id="inside-a-turn"),
        pytest.param("tool 9", 2, id="inside-a-turn-that-crashes"),
    ],
)
def test_kill_9_and_take_up(tmp_path: Path, whole: dict[str, Any], kill: str, done: int) -> None:
    """Conversations that had ended are taken up with their turns; the others run anew."""
    folder = project(tmp_path / "killed")
    journal = ("--resume", "j.jsonl", "--output", "out")
    first = run(folder, *journal, kill=kill)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = run(folder, *journal)
    assert second.returncode == 1, second.stderr
    assert f"{done} of 4 attempts taken from j.jsonl" in second.stderr
    assert results_of(folder) == whole


def test_ctrl_c_and_take_up(tmp_path: Path, whole: dict[str, Any]) -> None:
    """It ends at once, says how to go on, and the same command does."""
    folder = project(tmp_path / "interrupted")
    journal = ("--resume", "j.jsonl", "--output", "out")
    code, said = interrupted(folder, *journal, at="tool 5")
    assert code == 130, said
    assert "scouter: interrupted; the same command goes on from j.jsonl" in said
    assert "Traceback" not in said
    second = run(folder, *journal)
    assert "1 of 4 attempts taken from j.jsonl" in second.stderr
    assert results_of(folder) == whole
