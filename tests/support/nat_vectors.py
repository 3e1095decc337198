"""Values that the originals gave: NeMo Agent Toolkit, VSS evaluators and Upsonic.

`../shared/vectors/nat_upsonic.json` holds them, by area. `NAT_UPSONIC_VECTORS` names another file.
"""

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet

from tests.support.components import ROOT, require


@cache
def _all() -> list[dict[str, Any]]:
    named = os.environ.get("NAT_UPSONIC_VECTORS")
    file = Path(named) if named else ROOT.parent / "shared/vectors/nat_upsonic.json"
    return json.loads(file.read_text(encoding="utf-8"))["vectors"] if file.is_file() else []


def vectors(*areas: str) -> list[ParameterSet]:
    """The vectors of some areas, as parameters; one that is skipped where the file is not here."""
    found = [each for each in _all() if each["area"] in areas]
    return [pytest.param(each, id=each["id"]) for each in found] or [pytest.param(None, id="none")]


def areas() -> set[str]:
    """All areas that vectors are of."""
    return {each["area"] for each in _all()}


def needed(vector: dict[str, Any] | None) -> dict[str, Any]:
    """The vector, or the reason why there is none."""
    require("nat-vectors", present=vector is not None, detail="no nat_upsonic.json here")
    assert vector is not None
    return vector


def count_line(*areas: str) -> str:
    """The number of vectors of each area."""
    counts = {area: sum(each["area"] == area for each in _all()) for area in areas}
    parts = [f"{area} {count}" for area, count in counts.items()]
    return f"vectors: {', '.join(parts)}; together {sum(counts.values())}"


def raised(expected: object) -> tuple[str, str] | None:
    """Class and text of an expected exception, as `RAISES ValueError: text` writes it."""
    if not (isinstance(expected, str) and expected.startswith(("RAISES ", "ERR "))):
        return None
    kind, _, text = expected.partition(" ")[2].partition(": ")
    return kind, text
