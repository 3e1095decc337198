"""Cases whose answers other systems gave, in files beside the repository."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.support.components import ROOT, require


def load_vectors(name: str) -> Any:
    """Read a file of vectors; skips or fails the test without it."""
    folder = Path(os.environ.get("SCOUTER_VECTORS") or ROOT.parent / "shared" / "vectors")
    path = folder / name
    require("vectors", present=path.is_file(), detail=f"no {name} here")
    return json.loads(path.read_text(encoding="utf-8"))


def print_counts(name: str, areas: Iterable[str]) -> None:
    """Say how many vectors of each area were run; `pytest -s` shows it."""
    counts: Mapping[str, int] = Counter(areas)
    parts = ", ".join(f"{area} {count}" for area, count in sorted(counts.items()))
    print(f"\n{name}: {sum(counts.values())} vectors: {parts}")  # noqa: T201 what a run shows
