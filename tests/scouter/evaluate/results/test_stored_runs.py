"""A file of results that keeps all runs of one version."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.results.pooling import save_run
from scouter.evaluate.results.provenance import git_dirty, git_revision
from tests.support.replay_results import results, scenario, span

KEPT = "a baseline that is picked among runs is too good by luck"
BEST_OF = "keeping the best of several runs gives false alarms: in 10 % of releases"
NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="apt install git")


def run(trace: int, *, passed: bool = True, **origin: object) -> ScenarioEvalResults:
    """A run of one scenario, with a trace of its own."""
    found = results(
        [scenario("berlin", {"city": passed}, traces=[span("answer", trace, None, 0, 9)])]
    )
    only = found.scenario_results[0].model_copy(update={"duration_ns": trace})
    origin_of_run = {"agent": "shop:answer", "git_dirty": False, **origin}
    return found.model_copy(
        update={
            "scenario_results": (only,),
            "provenance": found.provenance.model_copy(update=origin_of_run),
        }
    )


def attempts(path: Path) -> list[bool]:
    return [found.passed for found in ScenarioEvalResults.load(path).scenario_results]


def test_runs_of_one_version_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    assert save_run(run(1), path) == ""
    said = save_run(run(2, passed=False), path)
    assert said == f"{path}: 2 runs of 1 scenario are stored; {KEPT}"
    assert save_run(run(3), path) == f"{path}: 3 runs of 1 scenario are stored; {KEPT}"
    assert attempts(path) == [True, False, True]
    assert ScenarioEvalResults.load(path).runs == 3


def test_the_name_of_the_version_wins(tmp_path: Path) -> None:
    """The revision differs, and the files were changed."""
    path = tmp_path / "b.json"
    save_run(run(1, agent_version="1.4", git_dirty=True), path)
    message = save_run(run(2, agent_version="1.4", git_revision=None), path)
    assert "2 runs of 1 scenario are stored" in message


@pytest.mark.parametrize(
    ("origin", "why"),
    [
        ({"git_revision": "f" * 40}, "it is of the git revision 0123456789ab"),
        ({"git_revision": None}, "no git revision tells the version of both runs"),
        ({"git_dirty": True}, "files differed from the git revision"),
        ({"git_dirty": None}, "files differed from the git revision"),
        ({"agent": "shop:other"}, "it is of the agent 'shop:answer'"),
        ({"agent_version": "2"}, "its agent version is 'unknown'"),
        (
            {"profile_digests": {"answers": "e" * 64}},
            "provenance.profile_digests of 'answers' differs",
        ),
    ],
)
def test_another_version_takes_the_place(
    tmp_path: Path, origin: dict[str, object], why: str
) -> None:
    path = tmp_path / "b.json"
    save_run(run(1), path)
    message = save_run(run(2, passed=False, **origin), path)
    assert message.startswith(f"{path}: replaced, as {why}")
    assert BEST_OF in message
    assert "\n" not in message
    assert attempts(path) == [False]


def test_nobody_knows_whose_recorded_traces_are(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    save_run(run(1, agent=""), path)
    assert "nobody knows which version" in save_run(run(2, agent=""), path)


def test_the_same_run_is_not_counted_twice(tmp_path: Path) -> None:
    """A run that a journal gives back brings its attempts with it."""
    path = tmp_path / "b.json"
    save_run(run(1), path)
    assert save_run(run(1), path) == ""
    assert attempts(path) == [True]
    save_run(run(2), path)
    assert save_run(run(1), path) == (
        f"{path}: left as it is, as the 2 runs that it keeps have attempts of this one; save it to "
        "another file"
    )
    assert attempts(path) == [True, True]


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    path.write_text("[1, 2", encoding="utf-8")
    assert save_run(run(1), path) == f"{path}: replaced, as it had no results of a replay"
    assert attempts(path) == [True]
    path.write_text("", encoding="utf-8")
    assert save_run(run(1), path) == ""


@NEEDS_GIT
def test_a_committed_baseline_makes_no_other_version_of_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run of a version writes the file, so that it differs from the commit."""

    def git(*words: str) -> None:
        names = ("-c", "user.name=N", "-c", "user.email=n@example.org")
        subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.chdir(tmp_path)
    path, other = tmp_path / "b.json", tmp_path / "shop.py"
    other.write_text("1", encoding="utf-8")
    run(1, git_revision="0" * 40).save(path)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "One")
    revision = git_revision(tmp_path)

    assert "replaced" in save_run(run(2, git_revision=revision), path)
    assert git_dirty(tmp_path) is True
    message = save_run(run(3, git_revision=revision, git_dirty=True), path)
    assert "2 runs of 1 scenario are stored" in message
    assert "3 runs" in save_run(run(4, git_revision=revision, git_dirty=True), path)
    other.write_text("2", encoding="utf-8")
    message = save_run(run(5, git_revision=revision, git_dirty=True), path)
    assert "replaced, as files differed" in message
