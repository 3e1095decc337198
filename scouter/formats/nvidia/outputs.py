"""The result files, as the toolkit and VSS write them."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.files.versioned import write_whole
from scouter.formats.nvidia.cases import Answered, row_of
from scouter.formats.nvidia.config import Structure

WORKFLOW: Final = "workflow_output.json"
LATENCY: Final = "latency_summary.json"
_DIGITS: Final = 3


def made(folder: Path) -> Path:
    """Make a folder for results; what is there and is not a result of ours stays as it is.

    Raises:
        ConfigError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"output_dir {str(folder)!r}: {error}") from error
    return folder


def write_json(target: Path, value: JsonValue) -> None:
    """Write one file, as a whole or not at all.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        write_whole(target, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    except OSError as error:
        raise ConfigError(f"{target}: {error}") from error


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
