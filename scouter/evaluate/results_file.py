"""Results as JSON, with the number of the format."""

import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from scouter.errors import ConfigError
from scouter.evaluate.annotations_file import AnnotationsBody
from scouter.evaluate.annotations_file import dump as dump_annotations
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.provenance import Provenance
from scouter.evaluate.record_result import RecordResult
from scouter.evaluate.results import EvalResults
from scouter.evaluate.task_result import EvalTaskResult, TaskSpec

SCHEMA_VERSION: Final = 1
"""Raised when a reader of the old number would misread the new form."""


class _TaskBody(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    task_id: str
    task_type: str
    outcome: Outcome
    reason: Reason | None = None
    expected: JsonValue = None
    actual: JsonValue = None
    message: str = ""
    operator: str = ""
    condition: bool = False
    stage: int = 0
    assertion: JsonValue = None


class _RecordBody(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    record_uid: str
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    scenario_id: str | None = None
    attempt: int = 0
    outcome: Outcome
    created_ns: int
    duration_ns: int = 0
    tasks: tuple[_TaskBody, ...]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int
    provenance: Provenance | None = None
    annotations: AnnotationsBody | None = None
    results: tuple[_RecordBody, ...]


def dump(results: EvalResults) -> dict[str, JsonValue]:
    """Write results as plain JSON values."""
    scenario_ids: Sequence[str | None] = results.scenario_ids or [None] * len(results)
    attempts: Sequence[int] = results.attempts or [0] * len(results)
    rows: list[JsonValue] = [
        {**record.to_json(), "scenario_id": scenario_id, "attempt": attempt}
        for record, scenario_id, attempt in zip(
            results.records, scenario_ids, attempts, strict=True
        )
    ]
    found: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION}
    if results.provenance is not None:
        found["provenance"] = results.provenance.model_dump(mode="json")
    if results.annotations is not None:
        found["annotations"] = dump_annotations(results.annotations)
    return {**found, "results": rows}


def dump_json(results: EvalResults) -> str:
    """Write results as one line of JSON."""
    return json.dumps(dump(results), ensure_ascii=False, separators=(",", ":"))


def load_json(text: str | bytes) -> EvalResults:
    """Read what `dump_json` wrote.

    Raises:
        ConfigError: Not such a text, or a format of a later version; names the field.
    """
    try:
        body = _File.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise ConfigError(f"evaluation results: {where}: {first['msg']}") from error
    if body.schema_version > SCHEMA_VERSION:
        raise ConfigError(
            f"evaluation results: schema_version is {body.schema_version}, this version reads up "
            f"to {SCHEMA_VERSION}; update Scouter"
        )
    specs: dict[Any, TaskSpec] = {}
    records = [_record(row, specs) for row in body.results]
    scenario_ids = [row.scenario_id for row in body.results]
    attempts = [row.attempt for row in body.results]
    return EvalResults(
        records,
        scenario_ids if any(scenario_ids) else None,
        attempts if any(attempts) else None,
        None if body.annotations is None else body.annotations.value(),
        body.provenance,
    )


def _record(row: _RecordBody, specs: dict[Any, TaskSpec]) -> RecordResult:
    return RecordResult(
        row.record_uid,
        row.record_id,
        row.session_id,
        row.trace_id,
        row.outcome,
        tuple(_task(task, specs) for task in row.tasks),
        row.created_ns,
        row.duration_ns,
    )


def _task(task: _TaskBody, specs: dict[Any, TaskSpec]) -> EvalTaskResult:
    """Make one result; results of one task share their spec, as they did when they were made."""
    assertion = json.dumps(task.assertion, sort_keys=True)
    key = (task.task_id, task.task_type, task.operator, task.condition, task.stage, assertion)
    spec = specs.get(key)
    if spec is None:
        spec = specs[key] = TaskSpec(
            task_id=task.task_id,
            task_type=task.task_type,
            operator=task.operator,
            condition=task.condition,
            stage=task.stage,
            assertion=task.assertion,
        )
    return EvalTaskResult(spec, task.outcome, task.reason, task.expected, task.actual, task.message)
