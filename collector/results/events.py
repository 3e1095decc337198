"""Evaluations as OTLP log records: one event `gen_ai.evaluation.result` for each task.

An event has the message of its task. It does not have the compared value, which may hold anything
that a record or span holds.

Source: OpenTelemetry semantic conventions for generative AI, events.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, SeverityNumber

from collector.metrics import own_version
from collector.results.links import Link
from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown
from scouter.model.json_value import plain_text

EVENT_NAME: Final = "gen_ai.evaluation.result"
MAX_EXPLANATION: Final = 4_096
"""Characters of a message; the API has the rest."""
MAX_BYTES: Final = 2**20
"""Most bytes of a request with several evaluations; a larger evaluation goes alone."""

Value: TypeAlias = str | int | float | bool
Linked: TypeAlias = tuple[EvaluationRow, Link]
Behind: TypeAlias = Callable[[EvaluationRow, TaskRow], JudgeKnown | None]
"""The calibration of the judge that decided a task; None without one."""


def requests(
    evaluations: Sequence[Linked], behind: Behind
) -> Iterator[tuple[int, ExportLogsServiceRequest]]:
    """Write evaluations, in order, as requests of at most `MAX_BYTES`, each of whole evaluations.

    Args:
        evaluations: Each with the span that it is about.
        behind: Tells what is known of judges.

    Yields:
        Number of evaluations in a request, at least 1, and the request. It is empty for evaluations
        without tasks, or with pending ones only, which a later revision decides.
    """
    request, count, size = ExportLogsServiceRequest(), 0, 0
    for row, link in evaluations:
        written = _resource_logs(row, link, behind)
        added = written.ByteSize()
        if count and size + added > MAX_BYTES:
            yield count, request
            request, count, size = ExportLogsServiceRequest(), 0, 0
        if written.scope_logs[0].log_records:
            request.resource_logs.append(written)
        count, size = count + 1, size + added
    if count:
        yield count, request


def _resource_logs(row: EvaluationRow, link: Link, behind: Behind) -> ResourceLogs:
    found = ResourceLogs()
    found.resource.attributes.extend(
        _attributes(
            {
                "service.name": row.service_name or "scouter",
                "service.version": row.service_version,
                "deployment.environment.name": row.environment,
            }
        )
    )
    logs = found.scope_logs.add()
    logs.scope.name, logs.scope.version = "scouter", own_version()
    logs.log_records.extend(
        _event(row, task, link, behind(row, task))
        for task in row.tasks
        if task.outcome is not Outcome.PENDING
    )
    return found


def _event(row: EvaluationRow, task: TaskRow, link: Link, known: JudgeKnown | None) -> LogRecord:
    given: dict[str, Value | None] = {
        "gen_ai.evaluation.name": task.task_id,
        "gen_ai.evaluation.score.value": task.score,
        "gen_ai.evaluation.score.label": task.outcome.value,
        "gen_ai.evaluation.explanation": task.message[:MAX_EXPLANATION],
        "gen_ai.response.id": link.response_id,
        "gen_ai.conversation.id": row.session_id,
        "error.type": task.reason if task.outcome is Outcome.ERRORED else None,
        "scouter.space": row.space,
        "scouter.profile.name": row.profile_name,
        "scouter.profile.alias": row.alias,
        "scouter.profile.version": row.profile_digest,
        "scouter.task.type": task.task_type,
        "scouter.task.skipped": task.reason if task.outcome is Outcome.SKIPPED else None,
        "scouter.evaluation.id": row.evaluation_id,
        "scouter.evaluation.scope": row.scope.value,
        "scouter.evaluation.revision": row.revision,
        "scouter.evaluation.outcome": row.outcome.value,
        "scouter.record.uid": row.record_uid,
        "scouter.record.id": row.record_id,
        **_calibration(known),
    }
    return LogRecord(
        time_unix_nano=row.evaluated_ns,
        observed_time_unix_nano=row.evaluated_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=EVENT_NAME,
        trace_id=bytes.fromhex(row.trace_id or ""),
        span_id=bytes.fromhex(link.span_id),
        attributes=_attributes(given),
    )


def _calibration(known: JudgeKnown | None) -> Mapping[str, Value | None]:
    if known is None:
        return {}
    return {
        "scouter.judge.calibration.digest": known.digest,
        "scouter.judge.calibration.created_at": known.created_at,
        "scouter.judge.calibration.sensitivity": known.sensitivity,
        "scouter.judge.calibration.specificity": known.specificity,
        "scouter.judge.calibration.kappa": known.kappa,
        "scouter.judge.calibration.labels": known.labels,
    }


def _attributes(given: Mapping[str, Value | None]) -> Iterator[KeyValue]:
    """Attributes that say something: neither None nor an empty text."""
    for key, value in given.items():
        if value is None or value == "":
            continue
        pair = KeyValue(key=key)
        if isinstance(value, str):
            pair.value.string_value = plain_text(value)
        elif isinstance(value, int):
            pair.value.int_value = value
        else:
            pair.value.double_value = value
        yield pair
