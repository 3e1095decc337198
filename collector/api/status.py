"""State of the collector, its probes and metrics, and the document of its routes."""

import copy
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collector.access.caller import Needs, Scope, caller_of, may
from collector.access.gate import BEARER
from collector.access.tokens import Token
from collector.api.parameters import PROBLEMS, Reader, api_router, caught_up
from collector.api.parts import TheParts, TheProbeParts
from collector.problem import SCHEMAS, Problem, ProblemError, problems
from scouter.client.models.answer import Answer
from scouter.client.models.operation import (
    ConservationSheet,
    LagStatus,
    ReceiverStatus,
    RecordStates,
    Status,
    StoreStatus,
    TokenStatus,
)
from scouter.drift.profile import AgentEvalProfile


class Health(Answer):
    """Health of the service."""

    status: str
    detail: str = ""


class _OfSpace(Collector):
    """The series of one space, without those that are about all of them.

    Args:
        registry: All series.
        space: The one.
    """

    def __init__(self, registry: CollectorRegistry, space: str) -> None:
        self._registry, self._space = registry, space

    def collect(self) -> Iterable[Metric]:
        """The families that have any."""
        for family in self._registry.collect():
            own = [each for each in family.samples if each.labels.get("space") == self._space]
            if own:
                found = Metric(family.name, family.documentation, family.type, family.unit)
                found.samples = own
                yield found


probes = APIRouter(tags=["operation"])


@probes.get("/healthz")
async def healthz() -> Health:
    """The process answers."""
    return Health(status="ok")


@probes.get("/readyz", responses=problems(503))
async def readyz(request: Request, parts: TheProbeParts) -> Health:
    """Everything that the service needs is there; if not, a token with `read` gets more."""
    fault = parts.unready()
    if fault is not None:
        may_read = may(request, Scope.READ)
        raise ProblemError(503, fault.why if may_read else f"not ready: {fault.part}", 1)
    may_read = may(request, Scope.READ)
    detail = parts.remarks(caller_of(request, Scope.READ).space) if may_read else ""
    return Health(status="ready", detail=detail)


@probes.get("/metrics", response_class=Response, responses=PROBLEMS, dependencies=[Depends(BEARER)])
def metrics(parts: TheProbeParts, request: Request, caller: Reader) -> Response:
    """Prometheus' text format, or OpenMetrics with exemplars where `Accept` names it.

    A token of the collector's own space sees the series of all spaces, another one its own.
    """
    write, media = choose_encoder(request.headers.get("accept", ""))
    seen = parts.metrics if caller.space == parts.space else _OfSpace(parts.metrics, caller.space)
    return Response(write(seen), media_type=media)


router = api_router(tag="operation", is_caught_up=False)
document = APIRouter(dependencies=[Depends(Needs(Scope.READ))])
"""Has one route, which requires a token as the others do."""


@document.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> JSONResponse:
    """The document of all routes, for whoever may read."""
    return JSONResponse(_mended(copy.deepcopy(request.app.openapi())))


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    """Say what FastAPI does not know: models of errors, and those of bodies that are read here."""
    schemas = document["components"]["schemas"]
    profile = AgentEvalProfile.model_json_schema(ref_template=SCHEMAS + "Profile-{model}")
    schemas |= {f"Profile-{name}": part for name, part in profile.pop("$defs").items()}
    schemas |= {Problem.__name__: Problem.model_json_schema(), AgentEvalProfile.__name__: profile}
    for methods in document["paths"].values():
        for route in methods.values():
            for body in route.get("requestBody", {}).get("content", {}).values():
                models = body.get("schema", {}).pop("$defs", {})
                schemas.update(models)
    return document


_LABELS: Final = ("receiver", "signal")
_SIZE: Final = "scouter_store_size_bytes"
_LIMIT: Final = "scouter_store_size_limit_bytes"
_RETENTION: Final = "scouter_store_retention_seconds"
_OLDEST: Final = "scouter_store_oldest_timestamp_seconds"
_COMMIT_AGE: Final = "scouter_store_last_commit_age_seconds"
_WAITING: Final = "scouter_records_waiting"
_SESSIONS: Final = "scouter_sessions_waiting"
_LOG: Final = "scouter_log_waiting_bytes"
_STALLED: Final = "scouter_evaluation_stalled_seconds"
_DUE: Final = "scouter_evaluation_due"
_OLDEST_DUE: Final = "scouter_evaluation_due_oldest_seconds"
_BEHIND: Final = "scouter_evaluation_behind"
_CATCHING_UP: Final = "scouter_evaluation_catching_up"
_LAG: Final = "scouter_receiver_lag_seconds"
_REQUESTS: Final = "scouter_ingest_duration_seconds_count"
_BYTES: Final = "scouter_ingest_bytes_total"
_REFUSED: Final = "scouter_ingest_refused_total"
_READ: Final = (
    _SIZE, _LIMIT, _RETENTION, _OLDEST, _COMMIT_AGE, _WAITING, _SESSIONS, _LOG, _STALLED, _DUE,
    _OLDEST_DUE, _BEHIND, _CATCHING_UP, _LAG, _REQUESTS, _BYTES, _REFUSED,
)  # fmt: skip
"""The other metrics, such as those of each task, take most of the time."""


@router.get("/status")
def status(parts: TheParts, caller: Reader) -> Status:
    """Store, lag and receivers of the collector, and the tokens that may use it."""
    is_own = caller.space == parts.space
    samples = _Samples(parts.metrics) if is_own else None
    return Status(
        space=caller.space,
        scopes=tuple(sorted(caller.scopes)),
        token_id=caller.token_id,
        store=samples and samples.store(),
        lag=samples and samples.lag(),
        receivers=samples and samples.receivers(),
        remarks=parts.remarks(caller.space),
        tokens=_valid(parts.tokens.all(), None if is_own else caller.space)
        if Scope.ADMIN in caller.scopes
        else None,
    )


@router.get("/conservation", dependencies=[Depends(caught_up)])
def conservation(parts: TheParts, caller: Reader) -> ConservationSheet:
    """Every record, span and log event that came in, and what became of it."""
    return parts.store.shown_conservation(caller.space)


@router.get("/conservation/records", dependencies=[Depends(caught_up)])
def record_states(parts: TheParts, caller: Reader) -> RecordStates:
    """The records of the sheet alone: quick, as no spans are looked at."""
    return parts.store.shown_record_sheet(caller.space)


class _Samples:
    """Samples of the metrics, read once."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self._by_name: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in metrics.restricted_registry(_READ).collect():
            for sample in family.samples:
                self._by_name[sample.name].append((sample.labels, sample.value))

    def store(self) -> StoreStatus:
        oldest_s = self._sum(_OLDEST)
        return StoreStatus(
            size_bytes=int(self._sum(_SIZE)),
            limit_bytes=int(self._sum(_LIMIT)) or None,
            retention_s=self._sum(_RETENTION) or None,
            oldest_at=datetime.fromtimestamp(oldest_s, UTC) if oldest_s else None,
            last_commit_s=self._sum(_COMMIT_AGE),
        )

    def lag(self) -> LagStatus:
        return LagStatus(
            records_waiting=int(self._sum(_WAITING)),
            sessions_waiting=int(self._sum(_SESSIONS)),
            log_bytes=int(self._sum(_LOG)),
            stalled_s=self._sum(_STALLED),
            due=int(self._sum(_DUE)),
            due_oldest_s=self._sum(_OLDEST_DUE),
            is_behind=bool(self._sum(_BEHIND)),
            is_catching_up=bool(self._sum(_CATCHING_UP)),
            brokers_s={labels["receiver"]: value for labels, value in self._by_name[_LAG]},
        )

    def receivers(self) -> tuple[ReceiverStatus, ...]:
        counts = self._by_place(_REQUESTS)
        sizes = self._by_place(_BYTES)
        refused: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        for labels, value in self._by_name[_REFUSED]:
            refused[_place(labels)][labels["reason"]] = int(value)
        return tuple(
            ReceiverStatus(
                receiver=place[0],
                signal=place[1],
                requests=counts.get(place, 0),
                size_bytes=sizes.get(place, 0),
                refused=refused.get(place, {}),
            )
            for place in sorted({*counts, *refused})
        )

    def _sum(self, name: str) -> float:
        return sum(value for _, value in self._by_name[name])

    def _by_place(self, name: str) -> dict[tuple[str, ...], int]:
        return {_place(labels): int(value) for labels, value in self._by_name[name]}


def _place(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in _LABELS)


def _valid(tokens: Iterable[Token], space: str | None) -> tuple[TokenStatus, ...]:
    """Valid tokens of a space; None for all spaces."""
    now_ns = time.time_ns()
    return tuple(
        TokenStatus(
            token_id=each.id,
            name=each.name,
            scopes=tuple(sorted(each.scopes)),
            space=each.space,
            expires_at=None
            if each.expires_ns is None
            else datetime.fromtimestamp(each.expires_ns / 1e9, UTC),
        )
        for each in tokens
        if each.is_valid(now_ns) and space in (None, each.space)
    )
