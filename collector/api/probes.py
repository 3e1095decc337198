"""Probes and metrics: what a supervisor and Prometheus ask."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from fastapi import APIRouter, Depends, Request, Response
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from collector.access.caller import BEARER, Scope, may
from collector.api.models import Health
from collector.api.parameters import PROBLEMS, Reader
from collector.problem import ProblemError, problems

_SPACE: Final = re.compile(rb'[{,]space="((?:[^"\\]|\\.)*)"')


def _of_space(text: bytes, space: str) -> bytes:
    """Leave out the series of other spaces, and those that are about all of them."""
    own = space.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").encode()
    lines = text.splitlines(keepends=True)
    found = ((line, _SPACE.search(line)) for line in lines if not line.startswith(b"#"))
    return b"".join(line for line, match in found if match is not None and match[1] == own)


class Unready(NamedTuple):
    """What keeps the service from doing its work."""

    part: str
    """One word, for everybody."""
    why: str
    """With addresses and errors, for those who may read."""


def probe_router(
    registry: CollectorRegistry, unready: Callable[[], Unready | None], space: str
) -> APIRouter:
    """Make the routes outside `/api`.

    Args:
        registry: What Prometheus sees.
        unready: Why the service cannot do its work now; None if it can.
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
        return Health(status="ready")

    @router.get(
        "/metrics",
        response_class=Response,
        responses=PROBLEMS,
        dependencies=[Depends(BEARER)],
    )
    def metrics(caller: Reader) -> Response:
        """Prometheus' text format.

        A token of the collector's own space sees the series of all spaces, another one its own.
        """
        text = generate_latest(registry)
        if caller.space != space:
            text = _of_space(text, caller.space)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router
