"""Probes and metrics: what a supervisor and Prometheus ask."""

from collections.abc import Iterable
from functools import cache

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collector.access.caller import BEARER, Scope, caller_of, may
from collector.api.models import Health
from collector.api.parameters import PROBLEMS, Reader
from collector.api.parts import OwnSpace, TheMetrics, TheRegistry, UnreadyNow
from collector.problem import ProblemError, problems


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


@cache
def probe_router() -> APIRouter:
    """Make the routes outside `/api`."""
    router = APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process answers."""
        return Health(status="ok")

    @router.get("/readyz", responses=problems(503))
    async def readyz(request: Request, unready: UnreadyNow, registry: TheRegistry) -> Health:
        """Everything that the service needs is there; if not, a token with `read` is told more."""
        fault = unready()
        if fault is not None:
            is_told = may(request, Scope.READ)
            raise ProblemError(503, fault.why if is_told else f"not ready: {fault.part}", 1)
        is_told = may(request, Scope.READ)
        told = registry.remarks(caller_of(request, Scope.READ).space) if is_told else ""
        return Health(status="ready", detail=told)

    @router.get(
        "/metrics",
        response_class=Response,
        responses=PROBLEMS,
        dependencies=[Depends(BEARER)],
    )
    def metrics(
        registry: TheMetrics, space: OwnSpace, request: Request, caller: Reader
    ) -> Response:
        """Prometheus' text format, or OpenMetrics with exemplars where `Accept` names it.

        A token of the collector's own space sees the series of all spaces, another one its own.
        """
        write, media = choose_encoder(request.headers.get("accept", ""))
        seen = registry if caller.space == space else _OfSpace(registry, caller.space)
        return Response(write(seen), media_type=media)

    return router
