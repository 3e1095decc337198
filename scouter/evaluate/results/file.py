"""Results as JSON, with the number of the format."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated, Any, Final, NotRequired, TypeAlias, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    GetPydanticSchema,
    JsonValue,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict  # pydantic asks for this one below Python 3.12

from scouter.errors import ConfigError
from scouter.evaluate.files.read import Document
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.results.record_result import RecordResult, SessionResult, collector_paused
from scouter.evaluate.results.rows import Annotations, ResultRows, dump_annotations
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec, Window

R = TypeVar("R", bound=ResultRows)

SCHEMA_VERSION: Final = 1
"""Raised when a reader of the old number would misread the new form."""


class _TaskBody(TypedDict):
    """A dict, as a model per result would take twice as long."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: NotRequired[Reason | None]
    score: NotRequired[float | None]
    expected: NotRequired[JsonValue]
    actual: NotRequired[JsonValue]
    message: NotRequired[str]
    operator: NotRequired[str]
    condition: NotRequired[bool]
    stage: NotRequired[int]
    assertion: NotRequired[JsonValue]
    usage: NotRequired[JudgeUsage | None]
    judge: NotRequired[JudgeExchange | None]
    span_ids: NotRequired[list[str]]


class _RecordBody(TypedDict):
    scope: NotRequired[str]
    record_uid: str
    record_id: NotRequired[str]
    session_id: NotRequired[str]
    trace_id: NotRequired[str | None]
    scenario_id: NotRequired[str | None]
    attempt: NotRequired[int]
    outcome: Outcome
    created_ns: int
    duration_ns: NotRequired[int]
    tasks: list[_TaskBody]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    schema_version: int
    provenance: Provenance | None = None
    annotations: Annotations | None = None
    window_ns: Window | None = None
    """Begin and end of the evaluation, where there is no provenance to say so."""
    results: list[_RecordBody]


def dump(results: ResultRows) -> dict[str, JsonValue]:
    """Write results as plain JSON values."""
    rows: list[JsonValue] = [
        {**row.record.to_json(), "scenario_id": row.scenario_id, "attempt": row.attempt}
        for row in results
    ]
    found: dict[str, JsonValue] = {"schema_version": SCHEMA_VERSION}
    if results.provenance is not None:
        found["provenance"] = results.provenance.model_dump(mode="json")
    elif results.window is not None:
        found["window_ns"] = list(results.window)
    if results.annotations is not None:
        found["annotations"] = dump_annotations(results.annotations)
    return {**found, "results": rows}


def dump_json(results: ResultRows) -> str:
    """Write results as one line of JSON."""
    return json.dumps(dump(results), ensure_ascii=False, separators=(",", ":"))


def load_json(text: str | bytes, kind: type[R]) -> R:
    """Read what `dump_json` wrote.

    Args:
        text: That text.
        kind: The class of the results.

    Raises:
        ConfigError: Not such a text, or a format of a later version; names the field.
    """
    with collector_paused(), _named():
        return _results(_File.model_validate_json(text), kind)


def from_document(document: Document, kind: type[R]) -> R:
    """Read what `dump_json` wrote from a file that was parsed already.

    Args:
        document: The file.
        kind: The class of the results.

    Raises:
        FileFormatError: Names the file, and line and field where they are known.
    """
    with collector_paused():
        try:
            return _results(_File.model_validate(document.value), kind)
        except ValueError as error:
            raise document.wrap(error, model=_File) from error


def _rows_schema(source: type[ResultRows], _: GetCoreSchemaHandler) -> CoreSchema:
    def read(value: object) -> ResultRows:
        if isinstance(value, source):
            return value
        with collector_paused(), _named():
            return _results(_File.model_validate(value), source)

    return core_schema.no_info_plain_validator_function(
        read, serialization=core_schema.plain_serializer_function_ser_schema(dump)
    )


ROWS_AS_JSON: Final = GetPydanticSchema(_rows_schema)
"""Tells pydantic how the results of one dataset stand in a file, as the class of the field."""

JsonRows: TypeAlias = Annotated[ResultRows, ROWS_AS_JSON]
"""Results of one dataset as a field of a model that can be stored."""


@contextmanager
def _named() -> Generator[None]:
    """Name the field in which something is wrong."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the text"
        raise ConfigError(f"evaluation results: {where}: {first['msg']}") from error


def _results(body: _File, kind: type[R]) -> R:
    if body.schema_version > SCHEMA_VERSION:
        raise ConfigError(
            f"evaluation results: schema_version is {body.schema_version}, this version reads up "
            f"to {SCHEMA_VERSION}; update Scouter"
        )
    specs: dict[Any, TaskSpec] = {}
    records = [_record(row, specs) for row in body.results]
    scenario_ids = [row.get("scenario_id") for row in body.results]
    attempts = [row.get("attempt", 0) for row in body.results]
    return kind(
        records,
        scenario_ids if any(scenario_ids) else None,
        attempts if any(attempts) else None,
        body.annotations,
        body.provenance,
        body.window_ns,
    )


def _record(row: _RecordBody, specs: dict[Any, TaskSpec]) -> RecordResult:
    kind = SessionResult if row.get("scope") == "session" else RecordResult
    return kind(
        row["record_uid"],
        row.get("record_id", ""),
        row.get("session_id", ""),
        row.get("trace_id"),
        row["outcome"],
        tuple([_task(task, specs) for task in row["tasks"]]),
        row["created_ns"],
        row.get("duration_ns", 0),
    )


def _task(task: _TaskBody, specs: dict[Any, TaskSpec]) -> EvalTaskResult:
    """Make one result; results of one task share their spec, as they did when they were made."""
    assertion = task.get("assertion")
    key = (
        task["task_id"],
        task["task_type"],
        task.get("operator", ""),
        task.get("condition", False),
        task.get("stage", 0),
        (str, assertion) if isinstance(assertion, str) else json.dumps(assertion, sort_keys=True),
    )
    spec = specs.get(key)
    if spec is None:
        task_id, task_type, operator, condition, stage, _ = key
        spec = specs[key] = TaskSpec(
            task_id=task_id,
            task_type=task_type,
            operator=operator,
            condition=condition,
            stage=stage,
            assertion=assertion,
        )
    result = EvalTaskResult(
        spec,
        task["outcome"],
        task.get("reason"),
        task.get("expected"),
        task.get("actual"),
        task.get("message", ""),
        tuple(task.get("span_ids", ())),
    ).scored(task.get("score"))
    return result.using(task.get("usage"), task.get("judge"))
