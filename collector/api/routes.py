"""What can be asked of the collector."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query

from collector.alerts.monitor import AlertMonitor, AlertStatus
from collector.api import models
from collector.api.parameters import (
    COMMON,
    NOT_FOUND,
    PROBLEMS,
    Cursor,
    Limit,
    Reader,
    Text,
    Time,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.problem import ProblemError
from collector.receivers.times import format_time
from collector.storage.port import Store
from collector.storage.rows import EvaluationQuery, EvaluationRow, TaskCounts, TaskQuery
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.ids import is_trace_id
from scouter.model.otlp_json import span_to_otlp_json

_TRACE_ID: Final = "^[0-9a-fA-F]{32}$"


def api_router(store: Store, monitor: AlertMonitor) -> APIRouter:
    """Make the routes below `/api/v1`.

    Args:
        store: What is asked.
        monitor: The alerts.
    """

    def caught_up() -> None:
        """What was acknowledged before a question is in its answer, unless the store is stuck."""
        store.catch_up()

    router = APIRouter(
        prefix="/api/v1",
        responses=PROBLEMS,
        dependencies=[*COMMON, Depends(caught_up)],
    )

    @router.get("/evaluations", tags=["results"])
    def evaluations(
        caller: Reader,
        profile: Annotated[
            str | None, Query(max_length=512, description="Alias, name, uid or digest.")
        ] = None,
        record_id: Text = None,
        session_id: Text = None,
        trace_id: Text = None,
        outcome: Outcome | None = None,
        since: Time = None,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> models.EvaluationPage:
        """Verdicts, newest first, each record and each session once."""
        page = store.evaluations(
            EvaluationQuery(
                space=caller.space,
                profile=profile,
                record_id=record_id,
                session_id=session_id,
                trace_id=trace_id.lower() if trace_id else None,
                outcome=outcome,
                since_ns=read_time("since", since),
                limit=limit,
                before=read_cursor(cursor),
            )
        )
        return models.EvaluationPage(
            items=[_evaluation(row) for row in page.items],
            next_cursor=write_cursor(page.next_before),
        )

    @router.get("/traces/{trace_id}", tags=["results"], responses=NOT_FOUND)
    def trace(
        caller: Reader,
        trace_id: Annotated[
            str, Path(description="32 hex digits.", json_schema_extra={"pattern": _TRACE_ID})
        ],
    ) -> models.Trace:
        """One trace with all its spans."""
        wanted = trace_id.lower()
        if not is_trace_id(wanted):
            raise ProblemError(400, "trace_id: expected 32 hex digits, not all zero")
        spans = store.spans_of(caller.space, [wanted]).get(wanted)
        if not spans:
            raise ProblemError(404, f"no span of the trace {wanted} is stored")
        return models.Trace(
            trace_id=wanted, spans=[span_to_otlp_json(span) for span in SpanTree(spans).spans]
        )

    @router.get("/conservation", tags=["operation"])
    def conservation(caller: Reader) -> models.ConservationSheet:
        """Every record and span that came in, and what became of it."""
        sheet = store.conservation(caller.space)
        records = {name: getattr(sheet.records, name) for name in models.RecordStates.model_fields}
        spans = {name: getattr(sheet.spans, name) for name in models.SpanStates.model_fields}
        return models.ConservationSheet(
            records=models.RecordStates(**records),
            spans=models.SpanStates(**spans),
            dead_letters=dict(sheet.dead_letters),
        )

    @router.get("/tasks", tags=["results"])
    def tasks(
        caller: Reader,
        profile: Annotated[
            str | None, Query(max_length=512, description="Alias, name, uid or digest.")
        ] = None,
        service_version: Text = None,
        since: Time = None,
        until: Time = None,
    ) -> models.TaskRates:
        """Outcomes and pass rate of every task; times are those of evaluation."""
        counts = store.task_counts(
            TaskQuery(
                space=caller.space,
                profile=profile,
                service_version=service_version,
                since_ns=read_time("since", since),
                until_ns=read_time("until", until),
            )
        )
        return models.TaskRates(items=[_task_rate(each) for each in counts])

    @router.get("/alerts", tags=["results"])
    def alerts(caller: Reader) -> models.Alerts:
        """The alert of every profile that has a condition."""
        return models.Alerts(items=[_alert(each) for each in monitor.statuses(caller.space)])

    return router


def _evaluation(row: EvaluationRow) -> models.Evaluation:
    return models.Evaluation(
        evaluation_id=row.evaluation_id,
        scope=row.scope.value,
        record_id=row.record_id,
        uid=row.record_uid,
        session_id=row.session_id,
        trace_id=row.trace_id,
        profile=row.alias,
        profile_version=row.profile_digest,
        revision=row.revision,
        outcome=row.outcome,
        completeness=row.completeness.value,
        missing_parents=row.missing_parents,
        service_name=row.service_name,
        service_version=row.service_version,
        environment=row.environment,
        tags=dict(row.tags),
        created_at=format_time(row.created_ns),
        evaluated_at=format_time(row.evaluated_ns),
        tasks=[
            models.TaskResult(
                **{name: getattr(task, name) for name in models.TaskResult.model_fields}
            )
            for task in row.tasks
        ],
    )


def _task_rate(counts: TaskCounts) -> models.TaskRate:
    total = counts.passed + counts.failed + counts.errored + counts.gated
    lower, upper = wilson(counts.passed, total)
    return models.TaskRate(
        profile=counts.profile_name,
        profile_version=counts.profile_digest,
        alias=counts.alias,
        task_id=counts.task_id,
        passed=counts.passed,
        failed=counts.failed,
        errored=counts.errored,
        skipped=counts.skipped,
        total=total,
        pass_rate=counts.passed / total if total else None,
        lower=lower,
        upper=upper,
    )


def _alert(status: AlertStatus) -> models.Alert:
    config = status.profile.config.alert_config
    return models.Alert(
        space=status.space,
        profile=status.profile.name,
        profile_version=status.profile.digest,
        alias=status.profile.alias,
        state=status.state.value,
        since=None if status.since_ns is None else format_time(status.since_ns),
        condition=status.condition,
        pass_rate=status.pass_rate,
        lower=status.lower,
        upper=status.upper,
        passed=status.passed,
        n=status.n,
        window=config.window,
        min_samples=config.min_samples,
    )
