"""The result files, as the toolkit and VSS write them."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final
from uuid import uuid4

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.report.item import EvalItem, plain_json
from scouter.evaluate.report.steps import TrajectoryStep
from scouter.evaluate.report.verdicts import EvaluatorOutput
from scouter.formats.nvidia.config import Structure

WORKFLOW: Final = "workflow_output.json"
LATENCY: Final = "latency_summary.json"
_DIGITS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One item that an agent was asked, and how long it took."""

    item: EvalItem
    latency_s: float | None = None
    """None where the agent was not asked."""


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


def workflow_output(answered: Sequence[Answered], structure: Structure, id_key: str) -> JsonValue:
    """Write the agent's answers, with the rows' own columns."""
    return [_row(each.item, structure, id_key) for each in answered]


def _row(item: EvalItem, structure: Structure, id_key: str) -> JsonValue:
    expected = item.entry.get(structure.expected_trajectory_key)
    row: dict[str, JsonValue] = {
        **{name: plain_json(value) for name, value in item.entry.items()},
        id_key: item.id,
        structure.question_key: plain_json(item.question),
        structure.answer_key: plain_json(item.ground_truth),
        structure.generated_answer_key: item.answer,
        structure.trajectory_key: [_step(step) for step in item.steps],
        structure.expected_trajectory_key: [] if expected is None else expected,
    }
    if item.failure:
        row["error"] = item.failure
    return row


def _step(step: TrajectoryStep) -> JsonValue:
    return {
        "parent_id": step.parent,
        "payload": {
            "event_type": "LLM_END" if step.is_model else "TOOL_END",
            "name": step.name,
            "data": {"input": step.input, "output": step.output},
            "UUID": step.uid,
        },
    }


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


def summary_lines(
    outputs: Mapping[str, EvaluatorOutput], answered: Sequence[Answered]
) -> list[str]:
    """The results in a few lines, for people."""
    lines = ["Evaluator | average | scored | errored | skipped | file"]
    for name, output in outputs.items():
        average = "-" if output.average_score is None else f"{output.average_score:.4f}"
        lines.append(
            f"{name} | {average} | {output.n_scored} | {output.n_errored} | {output.n_skipped} | "
            f"{evaluator_file(name)}"
        )
    known = [each.latency_s for each in answered if each.latency_s is not None]
    if known:
        lines.append(f"Average Latency: {fmean(known):.2f}s")
    return lines
