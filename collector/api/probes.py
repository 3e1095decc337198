"""Probes and metrics: what a supervisor and Prometheus ask."""

from collections.abc import Callable

from fastapi import APIRouter, Depends, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from collector.access.caller import BEARER, Needs, Scope
from collector.api.models import Health
from collector.api.parameters import PROBLEMS
from collector.problem import ProblemError


def probe_router(registry: CollectorRegistry, unready: Callable[[], str]) -> APIRouter:
    """Make the routes outside `/api`.

    Args:
        registry: What Prometheus sees.
        unready: Why the service cannot do its work now; empty if it can.
    """
    router = APIRouter(tags=["operation"])

    @router.get("/healthz")
    async def healthz() -> Health:
        """The process answers."""
        return Health(status="ok")

    @router.get("/readyz")
    async def readyz() -> Health:
        """Everything that the service needs is there."""
        why = unready()
        if why:
            raise ProblemError(503, why, 1)
        return Health(status="ready")

    @router.get(
        "/metrics",
        response_class=Response,
        responses=PROBLEMS,
        dependencies=[Depends(BEARER), Depends(Needs(Scope.READ))],
    )
    def metrics() -> Response:
        """Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    return router
