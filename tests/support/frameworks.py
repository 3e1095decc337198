"""Agent frameworks that do not fit into the project's own environment, each in one of its own."""

import shutil
import subprocess
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.components import ROOT, require, required_parts

_CACHE: Final = ROOT / ".cache" / "frameworks"
_EXPORTER: Final = "opentelemetry-exporter-otlp-proto-http>=1.40"
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "google_adk": ("google-adk==2.13.0", _EXPORTER),
    "crewai": ("crewai==1.15.30", "openinference-instrumentation-crewai==1.1.21", _EXPORTER),
    "llama_index": (
        "llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3",
        "openinference-instrumentation-llama-index==4.6.1", _EXPORTER,
    ),
}  # fmt: skip
OWN: Final = frozenset(_PACKAGES)
"""Those with an environment of their own."""


def framework_python(name: str) -> Path:
    """The interpreter of an environment that has a framework; made when first asked for.

    Skips the test if the packages cannot be had, and fails it where `frameworks` is demanded.
    CrewAI, a gigabyte, is installed only where `crewai` is demanded.

    Args:
        name: One of `OWN`.
    """
    folder = _CACHE / "-".join([name, _PACKAGES[name][0].rpartition("=")[2]])
    python = folder / "bin" / "python"
    if python.exists():
        return python
    require("crewai", present=name != "crewai" or name in required_parts())
    making = folder.with_name(f"{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    venv.create(making, with_pip=True, symlinks=True)
    command = [making / "bin" / "python", "-m", "pip", "install", "-q", "--no-compile"]
    done = subprocess.run([*command, *_PACKAGES[name]], capture_output=True, text=True, check=False)
    require("frameworks", present=done.returncode == 0, detail=f"{name}: {done.stderr[-500:]}")
    making.rename(folder)
    return python
