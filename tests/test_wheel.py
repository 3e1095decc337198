"""The wheel that a user installs, in an environment of its own, away from the clone.

In `make test` the packages that Scouter needs are those of this environment, as `pip` takes half a
minute to bring them. The long tests let pip bring them, and so show that pyproject.toml names all.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

from tests.support.processes import PATIENCE_S, wait_until

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the clone."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def build(source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder)]
    subprocess.run([*command, str(source)], check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module", params=["shared", pytest.param("brought", marks=pytest.mark.long)])
def scouter(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Path:
    """Install the wheel, where packages are brought with its extra demo; the `scouter` program."""
    folder = tmp_path_factory.mktemp("installed")
    python = folder / "bin" / "python"
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    if request.param == "brought":
        subprocess.run([*pip, "--no-compile", f"{wheel}[demo]"], check=True, cwd=folder)
    else:
        subprocess.run([*pip, "--no-deps", str(wheel)], check=True, cwd=folder)
        (packages,) = folder.glob("lib/python*/site-packages")
        # A path file in that folder is not read, so that the clone stays out of sight.
        (packages / "shared.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    return folder / "bin" / "scouter"


@pytest.fixture
def elsewhere(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """An empty folder to stand in, and an environment that does not lead back to the clone."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    return tmp_path, {k: v for k, v in os.environ.items() if k not in hidden}


def test_the_wheel_holds_profiles_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "scouter/shipped/support_writer.yaml" in names
    assert "scouter/replay/made/attacks.yaml" in names
    assert "scouter/py.typed" in names
    assert "scouter/replay/reports/report.html.j2" in names
    assert "collector/web/templates/overview.html" in names
    assert "collector/web/static/page.css" in names
    assert not [name for name in names if name.startswith(("tests/", "deploy/"))]


def test_what_the_image_copies_is_enough_to_build_the_package(wheel: Path, tmp_path: Path) -> None:
    """The wheel of the copied files has what the one of the whole repository has."""
    text = (ROOT / "deploy" / "Dockerfile").read_text()
    source = tmp_path / "src"
    for words, target in re.findall(r"^COPY ([^-].*) (\S+)$", text, re.MULTILINE):
        for word in words.split():
            place = source / (target if (ROOT / word).is_dir() else Path(target) / word)
            if (ROOT / word).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / word, place, ignore=ignored)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / word, place)
    image = build(source, tmp_path / "image")
    assert {*zipfile.ZipFile(image).namelist()} == {*zipfile.ZipFile(wheel).namelist()}


def test_what_runs_is_the_wheel(scouter: Path, elsewhere: tuple[Path, dict[str, str]]) -> None:
    """Neither the clone nor anything that is installed beside it."""
    folder, env = elsewhere
    code = "import scouter, collector; print(scouter.__file__); print(collector.__file__)"
    done = subprocess.run(
        [scouter.with_name("python"), "-c", code],
        cwd=folder, env=env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        assert Path(line).is_relative_to(scouter.parents[1])


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
        timeout=PATIENCE_S,
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
            wait_until(
                lambda: ready.exists() or process.poll() is not None,
                what="the collector is ready",
            )  # fmt: skip
            assert ready.exists(), process.communicate()[1].decode()
            listen = json.loads(ready.read_text(encoding="utf-8"))["listen"]
            with urllib.request.urlopen(f"http://{listen}/api/v1/profiles", timeout=120) as answer:
                items = json.load(answer)["items"]
        finally:
            process.terminate()
            process.communicate(timeout=120)
    assert [item["alias"] for item in items] == ["agent_health"]
    assert process.returncode == 0
