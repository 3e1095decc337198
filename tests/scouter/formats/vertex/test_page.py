"""`docs/from_vertex.md` runs as written, file by file and block by block."""

import glob
import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from scouter.cli.app import make_app
from scouter.evaluate.trajectory.rules import TrajectoryRules
from scouter.formats import vertex
from scouter.formats.vertex.responses import RESPONSE_METRICS
from scouter.tracing import ScouterInstrumentor, disable_local_span_capture

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/from_vertex.md").read_text(encoding="utf-8")
JSON = ("eval_dataset.json", "home.evalset.json")
"""The names under which the programs read the page's files."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's files, in the folder where the test stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "home", raising=False)
    for name, text in zip(JSON, blocks("json"), strict=True):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for at, text in enumerate(blocks("python")):
        named = re.match(r"# (\S+)\n", text)
        (tmp_path / (named[1] if named else f"block_{at}.py")).write_text(text, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("home", None)  # others have a module of that name


def test_before_and_after(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program for Vertex runs, too, where its two modules are ours: the names are the same."""
    runpy.run_path("after.py")
    printed = capsys.readouterr().out
    assert printed == "".join(blocks("text"))
    for name in ("vertexai", "vertexai.preview"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    for name in ("vertexai.preview.evaluation", "vertexai.preview.evaluation.metrics"):
        monkeypatch.setitem(sys.modules, name, vertex)
    text = (desk / "before.py").read_text(encoding="utf-8")
    closed = text.replace('open("eval_dataset.json").read()', "pathlib.Path(NAME).read_text()")
    names = {"pathlib": sys.modules["pathlib"], "NAME": "eval_dataset.json"}
    exec(compile(closed, "before.py", "exec"), names)  # noqa: S102 our own page
    assert capsys.readouterr().out == f"{printed.splitlines()[0]}\n"


def test_the_other_blocks(desk: Path) -> None:
    others = [path for path in desk.glob("*.py") if path.name not in ("before.py", "after.py")]
    assert len(others) == len(blocks("python")) - 2
    try:
        for path in sorted(others):
            runpy.run_path(str(path))
    finally:
        disable_local_span_capture()
        ScouterInstrumentor().uninstrument()


def test_the_commands(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: precision is 1 and 1/2, of which the gate lets 0.75 pass."""
    commands = [shlex.split(line)[1:] for line in "".join(blocks("console")).splitlines()]
    assert len(commands) == 3
    monkeypatch.setattr(sys, "path", list(sys.path))
    for command in commands:
        files = [found for part in command for found in (glob.glob(part) or [part])]
        done = CliRunner().invoke(make_app(), files)
        assert done.exit_code == 0, done.output
    (folder,) = (desk / "results").iterdir()
    summary = json.loads((folder / "summary_metrics.json").read_text(encoding="utf-8"))
    assert summary["trajectory_precision/mean"] == 0.75
    assert {path.name for path in folder.iterdir()} <= set(re.findall(r"`(\w+\.jsonl?)`", PAGE))


def test_names_are_known() -> None:
    for name in ("exact_match", "token_f1", "bleu"):
        assert name in RESPONSE_METRICS
        assert f"`{name}`" in PAGE
    for compat in re.findall(r'compat="([^"]+)"', PAGE):
        assert TrajectoryRules(compat=compat).compat == compat


def test_links_lead_somewhere() -> None:
    headings = {
        re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
        for text in re.findall(r"^#+ (.*)$", PAGE, flags=re.MULTILINE)
    }
    other = (ROOT / "docs/trajectories.md").read_text(encoding="utf-8")
    for page, anchor in re.findall(r"\]\(([\w.]*)#([\w-]+)\)", PAGE + other):
        assert page not in ("", "from_vertex.md") or anchor in headings
    for page in re.findall(r"\]\(([\w/]+\.md)", PAGE + other):
        assert (ROOT / "docs" / page).exists()
