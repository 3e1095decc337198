"""The page on NeMo Agent Toolkit: its files, its command and its examples run."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from scouter.cli.app import main
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate import EvalDataset, EvalRecord
from scouter.formats.nvidia import read_config

PAGE = Path(__file__).parents[1] / "docs" / "from_nvidia.md"


def blocks(language: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By hand: report (1 + (1 + 0) / 2) / 2 = 0.75, as the place is another."""
    for block in (*blocks("yaml"), blocks("python")[0]):
        (tmp_path / block.split("\n")[0].removeprefix("# ")).write_text(block, "utf-8")
    for name, block in zip(("truth.json", "dataset.json"), blocks("json"), strict=True):
        (tmp_path / name).write_text(block, "utf-8")
    (tmp_path / "reports").mkdir()
    report = "# Collision\n## Scene\n| Place | Elm Road |\n| Date | 2024-05-05 |\n"
    (tmp_path / "reports/r1.md").write_text(report, "utf-8")
    [command] = blocks("console")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DATASET_FILTER", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", command.split()[1:])
    with pytest.raises(SystemExit) as ended:
        main()
    sys.modules.pop("vss_agent", None)
    said = "".join(capsys.readouterr())
    assert not ended.value.code, said
    assert "not read: workflow:" in said
    found: dict[str, Any] = {
        path.name: json.loads(path.read_text("utf-8")) for path in Path("results").iterdir()
    }
    averages = {name: value["average_score"] for name, value in found.items() if "_eval" in name}
    assert averages == {
        "report_evaluator_output.json": 0.75,
        "trajectory_evaluator_output.json": 0.9,
        "qa_evaluator_output.json": 0.9,
    }
    assert set(found) - set(averages) == {"workflow_output.json", "latency_summary.json"}
    [task] = AgentEvalProfile.from_file("profile.yaml").tasks
    assert (task.task_type, task.expected_value) == ("QA", 0.8)
    # Again (1 + (0 + 1) / 2) / 2, as the place is another.
    reports = AgentEvalProfile.from_file("reports.yaml")
    [record] = EvalDataset([EvalRecord({"answer": report})], reports.tasks).evaluate().records
    assert (record.tasks[0].score, str(record.tasks[0].outcome)) == (0.75, "failed")
    # (0 + 0.5) / 2: another place again, and what the judge says of the events.
    judged = AgentEvalProfile.from_file("judged_reports.yaml")
    events = {"answer": {"Place": "Elm Road", "Events": "A truck turns."}}
    dataset = EvalDataset([EvalRecord(events)], judged.tasks)
    [record] = dataset.evaluate(judge=lambda _: {"reasoning": "", "score": 0.5}).records
    assert (record.tasks[0].score, str(record.tasks[0].outcome)) == (0.25, "failed")
    [calls] = AgentEvalProfile.from_file("judged_calls.yaml").tasks
    assert (calls.task_type, calls.judge_prompt is not None) == ("Trajectory", True)
    assert read_config("config.yml").output_dir == Path("results")


def test_the_example_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    _, example = blocks("python")
    exec(compile(example, "from_nvidia.md", "exec"), {})  # noqa: S102 our own page
    assert capsys.readouterr().out == "0.625\n0.25\n"
