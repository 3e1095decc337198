"""The page on sessions: its profile is read and its example prints what it says."""

import re
from pathlib import Path

import pytest

from scouter.drift.profile import AgentEvalProfile

DOCS = Path(__file__).parents[4] / "docs"
PAGE = (DOCS / "sessions.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return text


def test_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("talk.yaml").write_text(block("yaml"), encoding="utf-8")
    exec(compile(block("python"), "sessions.md", "exec"), {})  # noqa: S102 our own page
    assert capsys.readouterr().out == block("text")
    tasks = AgentEvalProfile.from_file("talk.yaml").tasks
    assert [task.scope for task in tasks] == ["record", "session", "session"]


def test_links_lead_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", PAGE)
    assert targets
    for target in targets:
        assert (DOCS / target).exists(), target
