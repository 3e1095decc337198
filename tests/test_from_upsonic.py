"""The page on Upsonic's evaluators: its examples run."""

import re
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile

PAGE = Path(__file__).parents[1] / "docs" / "from_upsonic.md"


def test_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    examples = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    for example in examples:
        exec(compile(example, "from_upsonic.md", "exec"), names)  # noqa: S102 our own page
    assert len(examples) == 3
    assert names["accuracy"].average_score == 9.0
    assert len(names["performance"].all_runs) == 5
    assert "9.0\n" in capsys.readouterr().out


def test_the_profiles(tmp_path: Path) -> None:
    found: list[tuple[str, Any]] = []
    for profile in re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL):
        (tmp_path / "profile.yaml").write_text(profile, encoding="utf-8")
        [task] = AgentEvalProfile.from_file(tmp_path / "profile.yaml").tasks
        found.append((task.task_type, task.expected_value))
    assert found == [("Accuracy", 8), ("Reliability", 1)]
