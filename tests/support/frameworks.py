"""Agent frameworks that do not fit into the project's own environment, each in one of its own."""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.components import cache_dir, require, required_parts

_EXPORTER: Final = "opentelemetry-exporter-otlp-proto-http>=1.40"
_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "google_adk": ("google-adk==2.13.0", _EXPORTER),
    "crewai": ("crewai==1.15.30", "openinference-instrumentation-crewai==1.1.21", _EXPORTER),
    "llama_index": (
        "llama-index-core==0.14.25", "llama-index-llms-openai==0.8.3",
        "openinference-instrumentation-llama-index==4.6.1", _EXPORTER,
    ),
    "langfuse": ("langfuse==5.0.4", _EXPORTER),
    "openllmetry": ("traceloop-sdk==0.62.4", "openai==3.57.0", "httpx==0.28.1"),
    "pydantic_evals": ("pydantic-evals[logfire]==2.62.0",),
    "openlit": ("openlit==1.45.0",),
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
    inside = "\n".join([sys.version, *_PACKAGES[name]])
    frameworks = cache_dir() / "frameworks"
    folder = frameworks / f"{name}-{hashlib.sha256(inside.encode()).hexdigest()[:12]}"
    python = folder / "bin" / "python"
    if python.exists():
        return python
    require("crewai", present=name != "crewai" or name in required_parts())
    frameworks.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=frameworks, prefix=f"{name}.making."))
    try:
        # The pip of the tests fills it: one of its own takes longer to make than all else.
        venv.create(making, with_pip=False, symlinks=True)
        pip = [sys.executable, "-m", "pip", "--python", making / "bin" / "python"]
        done = subprocess.run(
            [*pip, "install", "-q", "--no-compile", *_PACKAGES[name]],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        require("frameworks", present=done.returncode == 0, detail=f"{name}: {done.stderr[-500:]}")
        with contextlib.suppress(OSError):  # another run was quicker, and its folder stays
            making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return python
