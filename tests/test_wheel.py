"""What a user installs: the wheel, in an empty environment, away from the clone."""

import json
import os
import subprocess
import sys
import time
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the clone."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(ROOT)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def scouter(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel with its demo extra into an empty environment; the `scouter` program."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, f"{wheel}[demo]"], check=True, cwd=folder)
    return folder / "bin" / "scouter"


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """An empty folder to stand in, and an environment that does not lead back to the clone."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    return tmp_path, {k: v for k, v in os.environ.items() if k not in hidden}


def test_the_wheel_holds_profiles_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "scouter/shipped/support_writer.yaml" in names
    assert "scouter/py.typed" in names
    assert "scouter/replay/reports/report.html.j2" in names
    assert "collector/web/templates/overview.html" in names
    assert "collector/web/static/page.css" in names
    assert not [name for name in names if name.startswith(("tests/", "deploy/"))]


def test_demo_runs_installed(scouter: Path, elsewhere: tuple[Path, dict[str, str]]) -> None:
    """The demo shows the regression, the alert and the gate, ends with 0 and leaves nothing."""
    folder, env = elsewhere
    temporary = folder / "tmp"
    temporary.mkdir()
    wide = env | {"TMPDIR": str(temporary), "COLUMNS": "140"}
    done = subprocess.run(
        [scouter, "demo", "--conversations", "20"],
        cwd=folder,
        env=wide,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for text in ("policy_looked_up", "FIRING", "/metrics", "Regressed: exit code 1"):
        assert text in done.stdout
    assert list(temporary.iterdir()) == []


def test_collector_runs_a_shipped_profile(
    scouter: Path, elsewhere: tuple[Path, dict[str, str]]
) -> None:
    """`scouter collector --profile NAME` finds a profile that travels in the wheel."""
    folder, env = elsewhere
    ready = folder / "ready.json"
    flags = ["--profile", "agent_health", "--data", "data", "--listen", "127.0.0.1:0",
             "--grpc", "127.0.0.1:0"]  # fmt: skip
    command = [str(scouter), "collector", *flags, "--ready-file", str(ready)]
    with subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 30
            while not ready.exists() and process.poll() is None:
                assert time.monotonic() < deadline, "the collector did not get ready"
            assert ready.exists(), process.communicate()[1].decode()
            listen = json.loads(ready.read_text(encoding="utf-8"))["listen"]
            with urllib.request.urlopen(f"http://{listen}/api/v1/profiles", timeout=10) as answer:
                items = json.load(answer)["items"]
        finally:
            process.terminate()
            process.communicate(timeout=20)
    assert [item["alias"] for item in items] == ["agent_health"]
    assert process.returncode == 0
