"""What can be asked of the collector."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path

from collector.alerts.monitor import AlertMonitor, AlertStatus
from collector.api import models
from collector.api.parameters import (
    COMMON,
    NOT_FOUND,
    PROBLEMS,
    Reader,
    caught_up,
)
from collector.problem import ProblemError
from collector.receivers.times import format_time
from collector.storage.port import Store
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
    router = APIRouter(
        prefix="/api/v1",
        responses=PROBLEMS,
        dependencies=[*COMMON, Depends(caught_up(store))],
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

    @router.get("/alerts", tags=["results"])
    def alerts(caller: Reader) -> models.Alerts:
        """The alert of every profile that has a condition."""
        return models.Alerts(items=[_alert(each) for each in monitor.statuses(caller.space)])

    return router


def _alert(status: AlertStatus) -> models.Alert:
    config = status.profile.config.alert_config
    return models.Alert(
        space=status.space,
        profile=status.profile.alias,
        profile_name=status.profile.name,
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
