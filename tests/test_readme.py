"""The README's example runs, and what it says about commands is true."""

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_the_example_runs_and_passes() -> None:
    """Both tasks of the one record pass, and the table reaches standard output."""
    names: dict[str, Any] = {"__name__": "__main__"}
    out = io.StringIO()

    with contextlib.redirect_stdout(out):
        exec(compile(EXAMPLE, "README.md", "exec"), names)  # noqa: S102 our own example

    results = names["results"]
    record = next(iter(results.dataset_results["geographer"]))
    assert [(task.task_id, task.outcome) for task in record.eval_set.records] == [
        ("paris", "passed"),
        ("looked_up", "passed"),
    ]
    assert results.metrics.overall_pass_rate == 1.0
    assert "geographer" in out.getvalue()


def blocks(section: str) -> list[str]:
    """The indented code of a section."""
    text = README.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, flags=re.MULTILINE)
    return [textwrap.dedent(block).strip("\n") for block in found]


def test_the_release_check_stops_a_worse_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As written, it ends with 0 for the same agent; for one that forgot the answer with 1."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "geographer", raising=False)
    file, _, save, compare = blocks("Before a release")
    (tmp_path / "scenarios.yaml").write_text(file, encoding="utf-8")
    (tmp_path / "geographer.py").write_text(EXAMPLE, encoding="utf-8")

    with contextlib.redirect_stdout(io.StringIO()):
        exec(save, {})  # noqa: S102 our own example
    assert gate(compare) == 0
    worse = compare.replace("import agent, queue", "import queue\nagent = forgetful")
    assert gate(worse) == 1


def test_the_commands_of_the_release_check_run(tmp_path: Path) -> None:
    """As written, in a folder with the example as `geographer.py`."""
    file, commands, *_ = blocks("Before a release")
    (tmp_path / "scenarios.yaml").write_text(file, encoding="utf-8")
    (tmp_path / "geographer.py").write_text(EXAMPLE, encoding="utf-8")

    done = shell(commands, tmp_path)

    assert done.returncode == 0, done.stdout + done.stderr
    written = {path.name for path in tmp_path.iterdir()}
    assert written >= {"baseline.json", "junit.xml", "comment.md", "report.html"}


def forgetful(question: str) -> str:
    """An agent that got worse."""
    return f"{question} I forgot."


def gate(code: str) -> object:
    """Run the code of the release check; its exit code."""
    with contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as raised:
        exec(code, {"forgetful": forgetful})  # noqa: S102 our own example
    return raised.value.code


def test_the_code_for_production_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a port where nobody listens: the agent goes on, the record waits or is dropped."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOUTER_URL", "http://127.0.0.1:9")
    task = AssertionTask("t", "answer", "Paris", "Contains")
    AgentEvalProfile([task], alias="geographer").save_to_json("geographer.json")
    code = blocks("In production")[-1]
    names: dict[str, Any] = {}

    exec(code, names)  # noqa: S102 our own example

    names["ScouterInstrumentor"]().uninstrument()
    names["queue"].shutdown(0.1)
    assert names["queue"].stats.inserted == 1


def shell(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run commands in a folder, as a user of this environment."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("OTEL_", "SCOUTER_"))}
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env={**own, "PATH": programs, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_stored_traces_are_judged_and_shown_by_a_collector(
    tmp_path: Path, start_collector: Callable[..., CollectorProcess]
) -> None:
    """As written, but for the port and the pause, with a log of Inspect as the export."""
    look, commands = blocks("Bring your traces")
    profile, _ = blocks("You already have OpenTelemetry")
    (tmp_path / "shop.yaml").write_text(profile, encoding="utf-8")
    shutil.copy(ROOT / "tests/scouter/formats/exports/orders.eval", tmp_path / "export.json")
    done = shell(look, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 scenarios passed" in done.stdout
    assert "3 of 3 traces pass 'agent_health' as they are" in done.stdout

    start, ready, send, pause, judge, activate = commands.splitlines()
    assert start == "scouter collector &"
    assert pause.startswith("sleep 35 ")
    collector = start_collector("--quiet-s", "1s")
    port = collector.address.rpartition(":")[2]
    done = shell(f"{ready}\n{send}".replace("4318", port), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr

    def is_judged() -> bool:
        return shell(judge, tmp_path, SCOUTER_URL=collector.url).returncode == 0

    wait_until(is_judged, what="the first evaluations")
    found = collector.evaluations()
    assert [(each["outcome"], each["is_backfill"]) for each in found] == [("passed", True)] * 3
    done = shell(activate, tmp_path, SCOUTER_URL=collector.url)
    assert done.returncode == 0, done.stdout + done.stderr


STOCK_AGENT = """
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
tracer = provider.get_tracer("agent")
with tracer.start_as_current_span("agent"), tracer.start_as_current_span("chat") as span:
    said = '[{"role": "assistant", "parts": [{"type": "text", "content": "In four days."}]}]'
    span.set_attribute("gen_ai.operation.name", "chat")
    span.set_attribute("gen_ai.output.messages", said)
"""


def test_an_agent_with_nothing_but_opentelemetry_is_judged(
    tmp_path: Path, start_collector: Callable[..., CollectorProcess]
) -> None:
    """As written, but for the port and the time to wait; the agent knows nothing of Scouter."""
    profile, commands = blocks("You already have OpenTelemetry")
    (tmp_path / "shop.yaml").write_text(profile, encoding="utf-8")
    (tmp_path / "agent.py").write_text(STOCK_AGENT, encoding="utf-8")
    start, *agent, look = commands.splitlines()
    assert start == "scouter collector --profile shop.yaml &"
    collector = start_collector("--profile", tmp_path / "shop.yaml")
    port = collector.address.rpartition(":")[2]

    def run(text: str) -> str:
        done = shell(text.replace("4318", port), tmp_path, SCOUTER_URL=collector.url)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("\n".join(agent))
    collector.wait_evaluated(1)
    (found,) = collector.evaluations()
    assert {each["task_id"]: each["outcome"] for each in found["tasks"]} == {
        "answered": "passed",
        "no_errors": "passed",
    }
    assert found["service_name"] == "shop"
    assert "passed" in run(look)


def test_linked_files_exist() -> None:
    """Every relative link leads somewhere."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_named_make_targets_exist() -> None:
    """Each command is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^    make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile, target
