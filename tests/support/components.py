"""Parts of the system that a test may need and a machine may lack.

A test that lacks its part is skipped, and the reason says how to get the part. If the environment
variable `SCOUTER_REQUIRE` (names separated by commas) names the part, the test fails instead, so
that continuous integration cannot quietly skip what it is there to check.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
"""The repository."""

REQUIRE: Final = "SCOUTER_REQUIRE"

PARTS: Final[Mapping[str, str]] = {
    "kafka": "apt-get install maven default-jre-headless (Java 17 or newer), or set"
    " KAFKA_BOOTSTRAP to a running broker",
    "prometheus": "apt-get install prometheus",
    "promtool": "apt-get install prometheus",
    "alertmanager": "apt-get install prometheus-alertmanager",
    "haproxy": "apt-get install haproxy",
    "chromium": "apt-get install chromium-headless-shell (or chromium)",
    "redis": "apt-get install redis-server",
    "rabbitmq": "apt-get install rabbitmq-server",
    "postgresql": "apt-get install postgresql",
    "langgraph": "pip install langgraph (it is in the group dev)",
    "frameworks": "let pip reach a package index: agent frameworks get environments under .cache",
    "crewai": "name crewai in SCOUTER_REQUIRE: it is a gigabyte, and is installed only on demand",
    "systemd": "apt-get install systemd",
    "mounts": "run as root, where file systems may be mounted",
    "strace": "apt-get install strace",
    "agent-traces": "put the recorded requests of other SDKs (*.binpb) at"
    " ../shared/data/agent-traces/ beside the repository,"
    " or set SCOUTER_AGENT_TRACES to the folder",
    "nat-vectors": "put nat_upsonic.json (values of the originals) at ../shared/vectors/ beside the"
    " repository, or set NAT_UPSONIC_VECTORS to the file",
    "vectors": "put the files of vectors (*.json) at ../shared/vectors/ beside the repository,"
    " or set SCOUTER_VECTORS to the folder",
    "watsonx-vectors": "put watsonx.json (cases that the original's program computed) at"
    " ../shared/vectors/ beside the repository, or set SCOUTER_WATSONX_VECTORS to the file",
    "tau-bench": "put gpt-4o-airline.json (recorded runs of the tau-bench repository) at"
    " ../shared/data/tau-bench/ beside the repository, or set SCOUTER_TAU_BENCH to the file",
}
"""Every part that tests know, and how it is had."""


def required_parts(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Names in `SCOUTER_REQUIRE`.

    Raises:
        ValueError: A name that no test knows: it would demand nothing.
    """
    names = frozenset(name.strip() for name in environ.get(REQUIRE, "").split(",")) - {""}
    unknown = sorted(names - PARTS.keys())
    if unknown:
        raise ValueError(f"{REQUIRE} names {unknown}; tests know {sorted(PARTS)}")
    return names


def require(
    part: str, *, present: bool, detail: str = "", environ: Mapping[str, str] = os.environ
) -> None:
    """Skip the running test, or fail it, if a part is not there.

    Args:
        part: A key of `PARTS`.
        present: Whether this machine has the part.
        detail: The exact thing that was not found.
        environ: The environment that `SCOUTER_REQUIRE` is read from.
    """
    how = PARTS[part]
    if present:
        return
    reason = f"needs {part}{f' ({detail})' if detail else ''}: {how}"
    if part in required_parts(environ):
        pytest.fail(f"{REQUIRE} names {part!r}, but it is not here; {reason}", pytrace=False)
    pytest.skip(reason)


def require_program(part: str, program: str) -> str:
    """Find a program of a part on the path; skip or fail the test without it.

    Returns:
        The program's full path.
    """
    found = shutil.which(program)
    require(part, present=found is not None, detail=f"no program {program!r} on the path")
    assert found is not None
    return found


def cache_dir() -> Path:
    """The folder for downloaded parts: `$SCOUTER_CACHE`, else `.cache` (git-ignored)."""
    folder = Path(os.environ.get("SCOUTER_CACHE") or ROOT / ".cache")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
