"""Evaluations as OTLP log records: one event `gen_ai.evaluation.result` for each task.

An event has the message of its task. It does not have the compared value, which may hold anything
that a record or span holds.

Source: OpenTelemetry semantic conventions for generative AI, events.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, SeverityNumber

from collector.metrics import own_version
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown
from scouter.model.attributes import QUEUE_EVENT, QUEUE_RECORD
from scouter.model.genai.facts import Kind
from scouter.model.genai.reader import kind_of
from scouter.model.json_value import plain_text
from scouter.model.log_event import attach_events
from scouter.model.span import Span

_TRACES: Final = 8
"""Traces in memory at a time; one may have ten thousand spans."""
_RESPONSE_ID: Final = "gen_ai.response.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Place of an event inside its trace."""

    span_id: str = ""
    """16 hex digits; empty where no span is known."""
    response_id: str = ""
    """The provider's id of the answer that was evaluated, where one is known."""


UNLINKED: Final = Link()


def links_of(store: Store, evaluations: Sequence[EvaluationRow]) -> list[Link]:
    """Find the span of each evaluation.

    That is the one in which the record was handed to the queue, else the last call of a model,
    else the root. An evaluation without a trace has none.

    Raises:
        TransientError: The store cannot be read now.

    Cost: reads the traces of the evaluations, `_TRACES` at a time.
    """
    wanted: defaultdict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for at, row in enumerate(evaluations):
        if row.trace_id is not None:
            wanted[row.space][row.trace_id].append(at)
    links = [UNLINKED] * len(evaluations)
    for space, traces in wanted.items():
        ids = list(traces)
        for first in range(0, len(ids), _TRACES):
            some = store.spans_of(space, ids[first : first + _TRACES])
            for trace_id, stored in some.items():
                spans, _ = attach_events(stored)
                for at in traces[trace_id]:
                    links[at] = link(spans, evaluations[at].record_uid)
    return links


def link(spans: Sequence[Span], record_uid: str) -> Link:
    """Find the span that a record is about, among those of its trace."""
    in_order = sorted(spans, key=lambda span: (span.start_ns, span.span_id))
    calls = [span for span in in_order if kind_of(span) is Kind.MODEL]
    marked = [span for span in in_order if _holds(span, record_uid)]
    ids = {span.span_id for span in spans}
    roots = [span for span in in_order if span.parent_span_id not in ids]
    chosen = (marked or calls[-1:] or roots or in_order)[0]
    answer = chosen if _RESPONSE_ID in chosen.attributes else next(iter(calls[-1:]), chosen)
    response_id = answer.attributes.get(_RESPONSE_ID)
    return Link(
        span_id=chosen.span_id, response_id=response_id if isinstance(response_id, str) else ""
    )


def _holds(span: Span, record_uid: str) -> bool:
    return any(
        event.name == QUEUE_EVENT and event.attributes.get(QUEUE_RECORD) == record_uid
        for event in span.events
    )


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
