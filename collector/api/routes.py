"""Every route of a collector; each is made once in a process."""

from typing import Final

from fastapi import APIRouter

from collector.api import (
    alerts,
    comparison,
    drift,
    evaluations,
    export,
    facets,
    feedback,
    genai,
    halves,
    judges,
    labelled,
    labels,
    letters,
    operation,
    profiles,
    records,
    sessions,
    spans,
    status,
    task_results,
    tasks,
    trace_span,
    traces,
)
from collector.receivers.http.receiver import ingest

ROUTERS: Final[tuple[APIRouter, ...]] = (
    ingest,
    status.router, alerts.router, drift.router, profiles.router, spans.router, traces.router,
    halves.router, trace_span.router, genai.router, evaluations.router, facets.router,
    task_results.router, records.router, sessions.router, tasks.router, comparison.router,
    labels.router, labelled.router, feedback.router, judges.gold, export.router, letters.router,
    judges.answers, operation.router, status.probes, status.document,
)  # fmt: skip
