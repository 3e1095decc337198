"""Each page of docs/integrations: its program under the real framework, judged by its spans."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.collector_process import CollectorProcess, tasks_by_id
from tests.support.components import ROOT
from tests.support.frameworks import OWN, framework_python
from tests.support.processes import wait_until
from tests.support.scripted_model import ANSWER, scripted_model

PAGES: Final = ROOT / "docs" / "integrations"
PROGRAMS: Final = tuple(
    sorted(page.stem for page in PAGES.glob("*.md") if "```python" in page.read_text())
)


def block(page: str, language: str) -> str:
    """The first block of code of a page."""
    found = re.search(rf"```{language}\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    assert found, f"{page} has no {language}"
    return found[1]


def exports(page: str) -> dict[str, str]:
    """The variables that a page sets, but those of the first page."""
    lines = re.findall(r"^    export (\S+)=(\S+)$", (PAGES / page).read_text(), re.MULTILINE)
    return dict(lines)


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    """The scripted model's address."""
    with scripted_model() as url:
        yield url


@pytest.mark.timeout(600)  # an environment may have to be made first
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_page(name: str, model: str, tmp_path: Path) -> None:
    """The program runs as printed; every task of the first page's profile passes."""
    python = framework_python(name) if name in OWN else Path(sys.executable)
    program, profile = tmp_path / "agent.py", tmp_path / "weather.yaml"
    program.write_text(block(f"{name}.md", "python"))
    profile.write_text(block("README.md", "yaml"))
    collector = CollectorProcess(tmp_path, "--profile", profile)
    collector.start()
    try:
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_SERVICE_NAME": "weather",
            "OPENAI_BASE_URL": f"{model}/v1",
            "OPENAI_API_BASE": f"{model}/v1",  # its name in LlamaIndex
            "OPENAI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": model,
            "GOOGLE_API_KEY": "none",
            "CREWAI_DISABLE_TELEMETRY": "true",
            **exports(f"{name}.md"),
        }
        done = subprocess.run(
            [python, program], env=environ, cwd=tmp_path, capture_output=True, text=True,
            check=False, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        if name != "opentelemetry":  # which asks no model
            assert ANSWER in done.stdout
        wait_until(lambda: bool(collector.evaluations()), what="an evaluation")
        (evaluation,) = collector.evaluations()
        tasks = tasks_by_id(evaluation)
        wrong = {key: task["message"] for key, task in tasks.items() if task["outcome"] != "passed"}
        assert not wrong
        assert evaluation["outcome"] == "passed"
        assert len(tasks) == 5
    finally:
        collector.close()


def test_every_page_is_in_the_index() -> None:
    listed = set(re.findall(r"^\| \[.*?\]\((\w+)\.md\)", (PAGES / "README.md").read_text(), re.M))
    assert listed == {page.stem for page in PAGES.glob("*.md")} - {"README"}
