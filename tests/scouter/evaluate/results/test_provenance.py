"""Provenance: true, quick, and nothing that names a person, a machine or a folder."""

import getpass
import json
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pydantic
import pytest

from scouter.evaluate.results.provenance import (
    Provenance,
    collect_provenance,
    git_dirty,
    git_revision,
)

NEEDS_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="apt install git")


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a.txt").write_text("one\n")
    git(tmp_path, "add", "a.txt")
    git(tmp_path, "commit", "-q", "-m", "One")
    return tmp_path


def collected(folder: Path) -> Provenance:
    return collect_provenance(
        started_ns=1, ended_ns=2, profile_digests={"ä": "d"}, profile_tasks={"ä": []},
        collection_id="c", folder=folder,
    )  # fmt: skip


@NEEDS_GIT
def test_what_is_collected(repository: Path) -> None:
    found = collected(repository)
    assert found.git_revision == git(repository, "rev-parse", "HEAD")
    assert found.git_dirty is False
    assert found.python_version == platform.python_version()
    assert found.libraries["pydantic"] == pydantic.VERSION
    assert {"google-re2", "opentelemetry-sdk"} <= set(found.libraries)
    assert (found.started_ns, found.ended_ns, found.collection_id) == (1, 2, "c")
    assert found.profile_digests == {"ä": "d"}
    assert Provenance.model_validate_json(found.model_dump_json()) == found


@NEEDS_GIT
def test_it_names_no_one_and_no_place(repository: Path) -> None:
    text = collected(repository).model_dump_json()
    for secret in (str(repository), repository.name, str(Path.home()), platform.node()):
        assert secret not in text
    words = json.dumps(list(json.loads(text).values()))
    assert f'"{getpass.getuser()}"' not in words


@NEEDS_GIT
def test_dirty_means_a_tracked_file_changed(repository: Path) -> None:
    (repository / "untracked.txt").write_text("x")
    assert git_dirty(repository) is False
    (repository / "a.txt").write_text("two\n")
    assert git_dirty(repository) is True
    below = repository / "below"
    below.mkdir()
    assert git_dirty(below) is True


@NEEDS_GIT
def test_an_edit_between_two_evaluations_is_seen(repository: Path) -> None:
    assert collected(repository).git_dirty is False
    (repository / "a.txt").write_text("two\n")
    assert collected(repository).git_dirty is True


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    found = collected(tmp_path)
    assert found.git_revision is None
    assert found.git_dirty is None
    assert git_dirty(tmp_path) is None


def test_without_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The revision is read from files; whether it is all, nobody knows."""
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / ".git" / "refs" / "heads" / "main").write_text("a" * 40 + "\n")
    monkeypatch.setenv("PATH", os.devnull)
    assert git_revision(tmp_path) == "a" * 40
    assert collected(tmp_path).git_dirty is None


@NEEDS_GIT
def test_settings_of_the_repository_start_no_program(repository: Path) -> None:
    """A repository from somewhere else may name a program that watches its files."""
    mark = repository / "ran"
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {mark}\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    (repository / "a.txt").write_text("two\n")
    assert git_dirty(repository) is True
    assert not mark.exists()
