"""Problem documents: faults of a request, in the one form of every JSON route.

Source: RFC 9457, Problem Details for HTTP APIs.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

SCHEMAS: Final = "#/components/schemas/"
"""Place of the models in the OpenAPI document."""
PROBLEM_JSON: Final = "application/problem+json"


class Problem(BaseModel):
    """The body of every error answer."""

    type: str = Field(default="about:blank", description="Kind of problem; the status says it.")
    title: str = Field(description="The status in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="The fault, and the way to mend it.")


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the error answers of a route for FastAPI.

    The description refers to the model by its place in the document. From the model itself FastAPI
    would make a validator for each status of each route, which takes half of the time of all
    routes.
    """
    content = {PROBLEM_JSON: {"schema": {"$ref": f"{SCHEMAS}{Problem.__name__}"}}}
    return {status: {"content": content} for status in statuses}


class ProblemError(Exception):
    """Ends a request with a problem document.

    Args:
        status: HTTP status.
        detail: The fault, and the way to mend it.
        retry_after_s: Value of a Retry-After header, in seconds.
        headers: Others.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        retry_after_s: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail)
        self.status, self.detail, self.retry_after_s = status, detail, retry_after_s
        retry = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self.headers: Mapping[str, str] = {**(headers or {}), **retry}


def problem_response(
    status: int, detail: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Write a problem document."""
    problem = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(
        problem.model_dump(),
        status_code=status,
        headers=dict(headers or {}),
        media_type=PROBLEM_JSON,
    )
