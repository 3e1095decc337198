"""A file of results to which further runs of the same version are added."""

from pathlib import Path
from typing import Final, TypeVar

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.results.pooling import overlap, pooled
from scouter.evaluate.results.provenance import Provenance, git_dirty, git_revision
from scouter.evaluate.results.run import RunResults

_MANY: Final = 10
"""Releases after which a baseline has become too slow to stop one."""

R = TypeVar("R", bound=RunResults)

_PICKED: Final = "a baseline that is picked among runs is too good by luck"
_BEST_OF: Final = (
    "keeping the best of several runs gives false alarms: in 10 % of releases for the best of 10"
)


def save_run(results: RunResults, path: Path) -> str:
    """Write results to a file; a run of the same scenarios, profiles and version is kept there.

    Two runs are of one version if both have the same `agent_version`, or neither has one and both
    are of the same agent at the same git revision without changes.

    Args:
        results: One run.
        path: The file; made if it is not there.

    Returns:
        The fate of an earlier content, in one line; empty if there was none.

    Raises:
        OSError: The file cannot be written.

    Cost: linear in the size of the file.
    """
    if not path.is_file() or not path.stat().st_size:
        results.save(path)
        return ""
    results = _but_for(path, results)
    try:
        earlier = type(results).load(path)
    except FileFormatError:
        results.save(path)
        return f"{path}: replaced, as it held no results of a replay"
    if overlap(earlier, results):
        if earlier.runs > 1:
            kept = f"the {earlier.runs} runs that it keeps have attempts of this one"
            return f"{path}: left as it is, as {kept}; save it to another file"
        results.save(path)
        return ""
    try:
        why = another_version(earlier.provenance, results.provenance)
        kept = results if why else pooled([earlier, results], [str(path), "this run"])
    except ConfigError as error:
        why, kept = str(error).removeprefix("this run: "), results
    kept.save(path)
    if why:
        return f"{path}: replaced, as {why}; {_BEST_OF}"
    count = len(kept.scenarios)
    scenarios = f"{count:,} scenario" + ("" if count == 1 else "s")
    return f"{path}: {kept.runs} runs of {scenarios} are kept; {_PICKED}"


def join_baseline(results: RunResults, path: Path, *, is_good: bool) -> str:
    """Add a release to the baseline that it was compared with.

    Attempts of a release that nothing stopped join those of the baseline. A release that was
    stopped is counted, as each further look at one baseline needs a lower level.

    Args:
        results: The run.
        path: The baseline's file.
        is_good: True if nothing stopped the release.

    Returns:
        What became of the file, in one line.

    Raises:
        OSError: The file cannot be written.

    Cost: linear in the size of the file.
    """
    results = _but_for(path, results)
    earlier = type(results).load(path)
    is_new = bool(another_version(earlier.provenance, results.provenance))
    counted = {"releases": earlier.releases + is_new}
    if not is_good:
        earlier.model_copy(update=counted).save(path)
        return f"{path}: the run did not pass and is not added; {_held(counted['releases'])}"
    if overlap(earlier, results):
        return f"{path}: left as it is, as it has attempts of this run"
    try:
        kept = pooled([earlier, results], [str(path), "this run"]).model_copy(update=counted)
    except ConfigError as error:
        results.save(path)
        return f"{path}: replaced, as {str(error).removeprefix('this run: ')}"
    kept.save(path)
    return f"{path}: {kept.runs} runs are kept; {_held(kept.releases)}"


def _held(releases: int) -> str:
    """Say how often a baseline was used, and when a new one is due."""
    noun = "release" if releases == 1 else "releases"
    text = f"{releases} {noun} compared with this baseline"
    if releases < _MANY:
        return text
    return f"{text}, and each lowers the level for the next one; save a new baseline soon"


def _but_for(path: Path, results: R) -> R:
    """Make a copy of the results that is clean if only the file itself differs from the commit.

    An earlier run may have written the file.
    """
    found = results.provenance
    here = Path.cwd()
    if not found.git_dirty or found.git_revision != git_revision(here):
        return results
    if git_dirty(here, but=path) is not False:
        return results
    clean = found.model_copy(update={"git_dirty": False})
    return results.model_copy(update={"provenance": clean})


def another_version(earlier: Provenance, now: Provenance) -> str:
    """Say why two runs may be of two versions of an agent; empty if they are of one."""
    if earlier.agent != now.agent:
        return f"it is of the agent {earlier.agent or 'unknown'!r}"
    if not now.agent:
        return "nobody knows which version of an agent made either run"
    if earlier.agent_version or now.agent_version:
        if earlier.agent_version == now.agent_version:
            return ""
        return f"its agent version is {earlier.agent_version or 'unknown'!r}"
    if earlier.git_revision is None or now.git_revision is None:
        return "no git revision tells the version of both runs (--agent-version names one)"
    if earlier.git_revision != now.git_revision:
        return f"it is of the git revision {earlier.git_revision[:12]}"
    if earlier.git_dirty is not False or now.git_dirty is not False:
        return "files differed from the git revision (--agent-version names a version)"
    return ""
