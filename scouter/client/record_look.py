"""One record with parts that evaluations do not store: paths of tasks, and questions to judges.

Both follow from the profile, which the collector keeps, so they are made anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import JsonValue, ValidationError

from scouter.client.client import ScouterClient
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import Record
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ScouterError
from scouter.evaluate.engine.asking_task import AskingTask
from scouter.evaluate.engine.plan import Plan, reads_spans
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.otlp_json import spans_from_otlp_json


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message to a judge."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLook:
    """A record, and what the profile of its latest evaluation adds."""

    record: Record
    paths: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """By task id what it looks at: a path, or the assertion in its wire form."""
    prompts: Mapping[str, Sequence[PromptMessage]] = field(
        default_factory=dict[str, Sequence[PromptMessage]]
    )
    """By task id the messages of a judge task's first question; none of one that was not called."""
    missing: str = ""
    """Reason that there are neither; empty where there are."""


def look_at_record(client: ScouterClient, uid: str) -> RecordLook:
    """Read one record and the profile of its latest evaluation.

    Args:
        client: Asks the collector.
        uid: The record's key.

    Raises:
        ApiError: There is no such record, or the collector refused.
    """
    record = client.record(uid)
    if not record.evaluations:
        return RecordLook(record=record)
    latest = record.evaluations[0]
    try:
        plan = _plan_of(client, latest)
    except ScouterError as error:
        return RecordLook(record=record, missing=f"the profile cannot be read: {error}")
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        missing = f"the profile is of another version of Scouter: {place}: {first['msg']}"
        return RecordLook(record=record, missing=missing)
    if plan is None:
        version = latest.profile_version[:12]
        return RecordLook(record=record, missing=f"no profile of the version {version} is known")
    spans = _spans_of(client, plan, record)
    prompts = {
        plan.specs[at].task_id: prompt
        for at, judge in plan.judges.items()
        if (prompt := _prompt_of(plan, at, judge, record, latest, spans))
    }
    paths = {spec.task_id: spec.assertion for spec in plan.specs}
    return RecordLook(record=record, paths=paths, prompts=prompts)


def _plan_of(client: ScouterClient, evaluation: Evaluation) -> Plan | None:
    for each in client.profiles(alias=evaluation.profile):
        if each.profile_version == evaluation.profile_version:
            return AgentEvalProfile.model_validate(client.profile(each.uid).body).plan
    return None


def _spans_of(client: ScouterClient, plan: Plan, record: Record) -> SpanTree | None:
    """The record's spans, where a judge reads them and they are still stored."""
    if record.trace_id is None or not any(reads_spans(plan.tasks[at]) for at in plan.judges):
        return None
    try:
        trace = client.trace(record.trace_id)
    except ScouterError:
        return None
    return SpanTree(spans_from_otlp_json([*trace.spans, *trace.spanless_events]).spans)


def _prompt_of(
    plan: Plan,
    at: int,
    judge: AskingTask,
    record: Record,
    evaluation: Evaluation,
    spans: SpanTree | None,
) -> Sequence[PromptMessage]:
    """Rebuild the first question to the judge; empty if it was not sent for lack of its inputs."""
    found = {task.task_id: task for task in evaluation.tasks}
    own = found.get(plan.specs[at].task_id)
    if own is None or not own.question:
        return ()
    context = record.context
    if plan.dependencies[at]:
        base = context if isinstance(context, dict) else {"context": context}
        needs = (found[plan.specs[need].task_id] for need in plan.dependencies[at])
        context = {
            **base,
            **{need.task_id: need.answer if need.question else need.actual for need in needs},
        }
    try:
        (first, *_) = next(judge.ask(context, record.uid, record.context, spans))
    except TaskFault:
        return ()
    return [PromptMessage(role=each["role"], content=each["content"]) for each in first.messages]
