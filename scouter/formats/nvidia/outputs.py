"""The result files, as the toolkit and VSS write them."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final
from uuid import uuid4

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.formats.nvidia.cases import Answered, row_of
from scouter.formats.nvidia.config import Structure

WORKFLOW: Final = "workflow_output.json"
LATENCY: Final = "latency_summary.json"
_DIGITS: Final = 3


class OutputDir:
    """The folder of the results; what is not a result of ours stays as it is.

    Args:
        path: Made if it is not there.

    Raises:
        ConfigError: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"output_dir {str(path)!r}: {error}") from error

    def write(self, name: str, value: JsonValue) -> Path:
        """Write one file, as a whole or not at all.

        Raises:
            ConfigError: It cannot be written.
        """
        target = self.path / name
        beside = self.path / f".{name}.{uuid4().hex[:8]}"
        try:
            beside.write_text(
                json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
            )
            os.replace(beside, target)
        except OSError as error:
            raise ConfigError(f"{target}: {error}") from error
        return target


def workflow_output(
    answered: Sequence[Answered], structure: Structure, id_key: str
) -> list[JsonValue]:
    """Write the agent's answers, with the rows' own columns."""
    return [row_of(each.item, structure, id_key) for each in answered]


def evaluator_file(name: str) -> str:
    """The file of an evaluator's verdicts."""
    return f"{name}_output.json"


def latency_summary(answered: Sequence[Answered]) -> JsonValue:
    """Write the seconds of each item and their mean; items that were not asked have none."""
    known = [each.latency_s for each in answered if each.latency_s is not None]
    return {
        "average_latency_seconds": round(fmean(known), _DIGITS) if known else None,
        "items": [
            {
                "id": each.item.id,
                "query": each.item.question,
                "latency_seconds": None if each.latency_s is None else round(each.latency_s, 3),
            }
            for each in answered
        ],
    }
