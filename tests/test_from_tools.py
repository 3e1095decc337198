"""The pages for users of other evaluation tools: files and commands run as written, in order."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.scouter.formats.exports.test_frames import frame
from tests.support.components import ROOT
from tests.support.frameworks import framework_python

_CASES: Final = ROOT / "tests" / "scouter" / "formats" / "exports"


def _rows(case: str, name: str, most: int = 9) -> Callable[[Path], None]:
    """Write the first rows of a case of the importers as JSON lines."""

    def write(folder: Path) -> None:
        cases: list[dict[str, Any]] = yaml.safe_load((_CASES / "cases.yaml").read_text("utf-8"))
        (found,) = (each for each in cases if each["case"] == case)
        (rows,) = found["files"].values()
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows[:most]), "utf-8")

    return write


def _logs(folder: Path) -> None:
    for name in ("before.eval", "after.eval"):
        shutil.copy(_CASES / "orders.eval", folder / name)


EXPORTS: Final[Mapping[str, Callable[[Path], None]]] = {
    "from_inspect.md": _logs,
    "from_langfuse.md": _rows(
        "Langfuse, observations of its page with columns of scores", "observations.jsonl"
    ),
    "from_langsmith.md": _rows(
        "LangSmith, runs of the bulk export with statistics of feedback", "runs.jsonl", 3
    ),
    "from_phoenix.md": lambda folder: frame().to_parquet(folder / "spans.parquet"),
    "from_promptfoo.md": lambda _: None,
    "from_pydantic_evals.md": lambda _: None,
}
"""What a page's commands read and the page does not show, such as another tool's export."""


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.timeout(300)  # the environment of Langfuse may have to be made first
@pytest.mark.parametrize("page", EXPORTS)
def test_a_page_runs_as_written(page: str, tmp_path: Path) -> None:
    EXPORTS[page](tmp_path)
    for language in ("python", "yaml"):
        for text in blocks(page, language):
            name = re.match(r"# (\S+)\n", text)
            (tmp_path / (name[1] if name else "block.py")).write_text(text, encoding="utf-8")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {"PATH": path, "HOME": str(tmp_path), "COLUMNS": "200"}
    commands = [line for text in blocks(page, "sh") for line in text.splitlines()]
    if (tmp_path / "block.py").exists():
        python = framework_python("langfuse") if "langfuse" in page else "python"
        commands.append(f"{python} block.py")
    assert commands
    for command in commands:
        done = subprocess.run(
            shlex.split(command), cwd=tmp_path, env=env, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.parametrize("page", EXPORTS)
def test_a_page_says_what_maps_and_what_is_missing(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert "What maps to what" in headings
    assert headings[-1] == "Not here"
