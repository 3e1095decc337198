"""The files of an evaluation: its rows and its summary."""

import json
import math
from pathlib import Path
from typing import Final

from scouter.errors import ConfigError
from scouter.formats.vertex.result import EvalResult

TABLE: Final = "metrics_table.jsonl"
SUMMARY: Final = "summary_metrics.json"


def write_results(folder: Path, result: EvalResult) -> None:
    """Write `metrics_table.jsonl`, a row on each line, and `summary_metrics.json`.

    Args:
        folder: The folder; it is made if it is not there.
        result: Result of `EvalTask.evaluate`. NaN, which JSON lacks, is written as null.

    Raises:
        ConfigError: The folder or a file cannot be written.
    """
    rows = [json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in result.rows]
    summary = {
        name: None if math.isnan(value) else value for name, value in result.summary_metrics.items()
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TABLE).write_text("".join(rows), encoding="utf-8")
        text = json.dumps(summary, ensure_ascii=False, indent=2, allow_nan=False)
        (folder / SUMMARY).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write into {folder}: {error.strerror or error}") from error
