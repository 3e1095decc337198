"""The program `scouter`, run inside of the test's process where that is enough."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scouter.cli.app import main
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import shutdown_tracer
from scouter.transport.config import MockConfig
from tests.support.shop_project import write_project

ROOT = str(Path(__file__).parents[3])

Scouter = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small project, in the folder where the test stands."""
    monkeypatch.setenv("PYTHONPATH", ROOT)
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)


@pytest.fixture
def scouter(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Scouter]:
    """Runs the program: `scouter("eval", …, BAD="paris")`; names in capitals are environment."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*args: str | Path, **env: str) -> "subprocess.CompletedProcess[str]":
        capsys.readouterr()
        RUNTIME.configure(queue=ScouterQueue({}, MockConfig()))  # as a program without an agent has
        with monkeypatch.context() as patch:
            for name, value in env.items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["scouter", *map(str, args)])
            patch.setattr(sys, "path", list(sys.path))
            try:
                main()
                code = 0
            except SystemExit as ended:
                code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        _forget_modules_of(project)
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess(args, code, out, err)

    yield run
    if ScouterInstrumentor().is_instrumented:
        ScouterInstrumentor().uninstrument()
    shutdown_tracer()


def _forget_modules_of(folder: Path) -> None:
    inside = f"{folder}{os.sep}"  # a path of each of 5,000 modules would take a tenth of a second
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(inside):
            del sys.modules[name]
