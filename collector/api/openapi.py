"""The route that describes all the others."""

import copy
from functools import cache
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse

from collector.access.caller import Needs, Scope
from collector.problem import Problem


@cache
def openapi_router() -> APIRouter:
    """Make the route `/openapi.json`, which asks for a token as the others do."""
    router = APIRouter(dependencies=[Depends(Needs(Scope.READ))])

    @router.get("/openapi.json", include_in_schema=False)
    def openapi(request: Request) -> JSONResponse:
        return JSONResponse(_mended(copy.deepcopy(request.app.openapi())))

    return router


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    """Say what FastAPI does not know: models of errors, and those of bodies that are read here."""
    document["components"]["schemas"][Problem.__name__] = Problem.model_json_schema()
    for methods in document["paths"].values():
        for route in methods.values():
            for body in route.get("requestBody", {}).get("content", {}).values():
                models = body.get("schema", {}).pop("$defs", {})
                document["components"]["schemas"].update(models)
    return document
