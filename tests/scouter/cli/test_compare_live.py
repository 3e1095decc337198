"""`scouter compare` of live sides, against a real collector."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.collector.api.test_comparison import send_version
from tests.collector.conftest import Service, save_answers
from tests.scouter.cli.conftest import Scouter
from tests.support.served import serve


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two versions of 20 records; all passed, then each fourth."""
    folder = tmp_path_factory.mktemp("live")
    service = Service(folder, profile=[str(save_answers(folder))])
    send_version(service, "1.0", [42] * 20)
    send_version(service, "2.0", [42, 41, 41, 41] * 5)
    service.wait_for(40)
    with serve(service.collector.app) as address:
        yield address
    service.stop()


def test_two_versions_are_compared(url: str, scouter: Scouter, tmp_path: Path) -> None:
    file = tmp_path / "found.json"
    done = scouter(
        "compare", "version:1.0", "version:2.0", "--profile", "answers", "--url", url,
        "--json", file,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "version 1.0 (20 records) before, version 2.0 (20 records) now"
    assert "regressed: Records passed: 25.0 % now, 100.0 % before." in lines
    assert "fell by 75.0 points" in done.stdout
    assert "Still taking traffic: version 1.0 and version 2.0." in done.stdout
    assert "it counts as behaviour" in done.stdout
    assert any(line.split()[:2] == ["records", "passed"] for line in lines)
    assert any(line.startswith("behaviour") and "fell" in line for line in lines)
    assert json.loads(file.read_text(encoding="utf-8"))["word"] == "regressed"
    quiet = scouter(
        "compare", "version:2.0", "version:1.0", "--profile", "answers", "--url", url, "--quiet"
    )
    assert quiet.returncode == 0
    assert quiet.stdout.startswith("no regression seen: Records passed: 100.0 % now")
    assert len(quiet.stdout.splitlines()) == 1


def test_periods_are_compared(url: str, scouter: Scouter) -> None:
    """All came within the last hour, so that nothing is in the one before."""
    done = scouter("compare", "before:1h", "last:1h", "--profile", "answers", "--url", url)
    assert done.returncode == 2
    assert "the baseline has no evaluated records" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("version:1.0", "today.json"), "B: 'today.json' is no live side"),
        (("last:soon", "last:1h"), "A: 'last:soon' is no period"),
        (("version:1.0", "version:2.0", "--html", "x.html"), "--html and --accept-changed are for"),
    ],
)
def test_what_is_no_live_side_is_refused(
    url: str, scouter: Scouter, arguments: tuple[str, ...], words: str
) -> None:
    done = scouter("compare", *arguments, "--profile", "answers", "--url", url)
    assert done.returncode == 2
    assert words in done.stderr
