"""Probes and metrics: what a supervisor and Prometheus ask."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from collector.access.caller import BEARER, Scope, caller_of, may
from collector.api.models import Health
from collector.api.parameters import PROBLEMS, Reader
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


class Unready(NamedTuple):
    """Obstacle that keeps the service from its work."""

    part: str
    """Name of the part in one word, for everybody."""
    why: str
    """Reason with addresses and errors, for callers that may read."""


def probe_router(
    registry: CollectorRegistry,
    unready: Callable[[], Unready | None],
    remarks: Callable[[str], str],
    space: str,
) -> APIRouter:
    """Make the routes outside `/api`.

    Args:
        registry: The metrics that Prometheus reads.
        unready: Reason that the service cannot do its work now; None if it can.
        remarks: Says what is amiss in a space of a service that does its work.
        space: The collector's own.
    """
    router = APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process answers."""
        return Health(status="ok")

    @router.get("/readyz", responses=problems(503))
    async def readyz(request: Request) -> Health:
        """Everything that the service needs is there; if not, a token with `read` is told more."""
        fault = unready()
        if fault is not None:
            is_told = may(request, Scope.READ)
            raise ProblemError(503, fault.why if is_told else f"not ready: {fault.part}", 1)
        told = remarks(caller_of(request, Scope.READ).space) if may(request, Scope.READ) else ""
        return Health(status="ready", detail=told)

    @router.get(
        "/metrics",
        response_class=Response,
        responses=PROBLEMS,
        dependencies=[Depends(BEARER)],
    )
    def metrics(request: Request, caller: Reader) -> Response:
        """Prometheus' text format, or OpenMetrics with exemplars where `Accept` names it.

        A token of the collector's own space sees the series of all spaces, another one its own.
        """
        write, media = choose_encoder(request.headers.get("accept", ""))
        seen = registry if caller.space == space else _OfSpace(registry, caller.space)
        return Response(write(seen), media_type=media)

    return router
