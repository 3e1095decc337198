"""Where a stored result comes from: versions, revision, times and the profiles behind it."""

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

PACKAGE: Final = "scouter-agents"


class Provenance(BaseModel):
    """What a reader needs to know to trust or to repeat a run. Times are ns since the epoch."""

    model_config = ConfigDict(frozen=True)

    package_version: str = ""
    python_version: str = ""
    git_revision: str | None = None
    """Commit of the working folder's repository, if there is one."""
    started_ns: int = 0
    ended_ns: int = 0
    profile_digests: dict[str, str] = {}
    """Digest of each alias' tasks."""
    collection_id: str = ""


def collect_provenance(
    *,
    started_ns: int,
    ended_ns: int,
    profile_digests: Mapping[str, str],
    collection_id: str = "",
    folder: Path | None = None,
) -> Provenance:
    """Describe this process and the repository around `folder` (the working folder by default)."""
    try:
        version = metadata.version(PACKAGE)
    except metadata.PackageNotFoundError:
        version = ""
    return Provenance(
        package_version=version,
        python_version=platform.python_version(),
        git_revision=git_revision(Path.cwd() if folder is None else folder),
        started_ns=started_ns,
        ended_ns=ended_ns,
        profile_digests=dict(profile_digests),
        collection_id=collection_id,
    )


def git_revision(folder: Path) -> str | None:
    """Read the commit of the repository that a folder lies in, without running git.

    Returns:
        40 or 64 hex digits; None outside of a repository or before its first commit.
    """
    try:
        for parent in (folder, *folder.parents):
            if (parent / ".git").exists():
                return _head(_git_folder(parent / ".git"))
    except (OSError, ValueError):  # unreadable or half-written: no revision is known
        return None
    return None


def _git_folder(entry: Path) -> Path:
    if entry.is_dir():
        return entry
    link = entry.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
    return entry.parent / link


def _head(git: Path) -> str | None:
    head = (git / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head or None
    name = head.removeprefix("ref:").strip()
    common = git
    if (git / "commondir").exists():  # a linked worktree keeps its branches in the main one
        common = git / (git / "commondir").read_text(encoding="utf-8").strip()
    for place in (git / name, common / name):
        if place.exists():
            return place.read_text(encoding="utf-8").strip() or None
    packed = common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.exists() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {name}")), None)
