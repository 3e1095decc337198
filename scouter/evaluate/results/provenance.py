"""Origin of a stored result: versions, revision, times and the profiles behind it.

Nothing in it names a person, a machine or a folder, so that a file of results can be shown to
anybody.
"""

import functools
import inspect
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue

PACKAGE: Final = "scouter-agents"
Wire: TypeAlias = dict[str, JsonValue]
"""A task, or what a scenario says, as a file has it."""

LIBRARIES: Final = (
    "google-re2", "jinja2", "jsonschema", "opentelemetry-sdk", "pydantic", "python-jsonpath",
)  # fmt: skip
"""Distributions whose version can change what an evaluation says."""

_GIT_TIMEOUT_S: Final = 5.0
_STATUS: Final = (
    "git", "--no-optional-locks", "-c", "core.fsmonitor=false",
    "status", "--porcelain", "--untracked-files=no",
)  # fmt: skip
"""Command that only reads: it takes no lock, and starts no program of the repository's settings."""


class Provenance(BaseModel):
    """Facts that a reader needs to trust or to repeat a run. Times are ns since the epoch."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    package_version: str = ""
    python_version: str = ""
    platform: str = ""
    """Operating system and processor, such as `Linux x86_64`."""
    libraries: dict[str, str] = Field(default_factory=dict[str, str])
    """Versions of the installed distributions that have a part in the results."""
    git_revision: str | None = None
    """Commit of the working folder's repository, if there is one."""
    git_dirty: bool | None = None
    """True if a tracked file differed from that commit; None where git could not say."""
    started_ns: int = 0
    ended_ns: int = 0
    profile_digests: dict[str, str] = Field(default_factory=dict[str, str])
    """Digest of each alias' tasks."""
    profile_tasks: dict[str, tuple[Wire, ...]] = Field(default_factory=dict[str, tuple[Wire, ...]])
    """Each alias' tasks, so that a later run can tell which of them changed."""
    named_aliases: tuple[str, ...] = ()
    """Aliases of the profiles that were given by name, for each of which a record has to come."""
    collection_id: str = ""
    scenarios_digest: str = ""
    """Digest of the scenarios' whole content; empty without scenarios, or where it is unknown."""
    agent: str = ""
    """`module:name` of the agent; empty where it is not known."""
    agent_version: str = ""
    """The version of the agent, as its user calls it; empty where nobody said."""
    judge: str | None = None
    """`module:name` of the judge that replaced the provider entries in prompts.

    Empty if those entries were called, None where it is not known.
    """
    simulated_user: str | None = None
    """Who played the user of interactive scenarios; None where it is not known."""


def name_of(agent: Any) -> str:  # noqa: ANN401 - whatever can be called
    """Name a function or a class, such as `shop:answer`; of another object its class."""
    if isinstance(agent, str):
        return agent
    while isinstance(agent, functools.partial):
        agent = agent.func
    part = agent if inspect.isroutine(agent) or isinstance(agent, type) else type(agent)
    return f"{_module(part)}:{part.__qualname__}"


def judge_name_of(judge: object) -> str:
    """Name a judge of the user's own, also behind a cache; empty for none, and for a model."""
    name = "" if judge is None else name_of(judge)
    if not name.startswith("scouter."):
        return name
    return judge_name_of(getattr(judge, "judge", None))


def _module(part: Any) -> str:  # noqa: ANN401 - a function or a class
    """Its module; a program that runs is called like the module that it is when imported."""
    name = getattr(part, "__module__", None) or ""  # a method of a type has none
    if name != "__main__":
        return name
    main = sys.modules[name]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec is not None else Path(file).stem if file else name


def collect_provenance(
    *,
    started_ns: int,
    ended_ns: int,
    profile_digests: Mapping[str, str],
    profile_tasks: Mapping[str, Iterable[BaseModel]],
    judge: str | None = None,
    collection_id: str = "",
    scenarios_digest: str = "",
    folder: Path | None = None,
) -> Provenance:
    """Describe this process and the repository around `folder` (the working folder by default).

    Cost: reads one or two small files and runs git once; the versions are looked up once per
        process.
    """
    import platform  # not needed before something was evaluated

    where = Path.cwd() if folder is None else folder
    revision = git_revision(where)
    return Provenance(
        package_version=_versions().get(PACKAGE, ""),
        python_version=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}".strip(),
        libraries={name: version for name, version in _versions().items() if name != PACKAGE},
        git_revision=revision,
        git_dirty=None if revision is None else git_dirty(where),
        started_ns=started_ns,
        ended_ns=ended_ns,
        profile_digests=dict(profile_digests),
        profile_tasks={alias: wires_of(tasks) for alias, tasks in profile_tasks.items()},
        judge=judge,
        collection_id=collection_id,
        scenarios_digest=scenarios_digest,
    )


def wires_of(tasks: Iterable[BaseModel]) -> tuple[Wire, ...]:
    """Write tasks as a file has them."""
    return tuple(task.model_dump(mode="json") for task in tasks)


@cache
def _versions() -> dict[str, str]:
    from importlib import metadata  # takes longer to load than the rest of this module

    found: dict[str, str] = {}
    for name in (PACKAGE, *LIBRARIES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def git_dirty(folder: Path, but: Path | None = None) -> bool | None:
    """Ask git whether tracked files differ from the last commit.

    Args:
        folder: In the repository.
        but: A file that does not matter.

    Returns:
        None where git is not installed, is no help, or takes longer than 5 s.
    """
    import subprocess  # only here

    places = () if but is None else ("--", ":/", f":(exclude){but.resolve()}")
    try:
        done = subprocess.run(  # noqa: S603 — a fixed command
            (*_STATUS, *places),
            cwd=folder,
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None


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
