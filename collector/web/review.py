"""Routes of the views in which people decide: comparisons of versions and runs."""

import time
from http import HTTPStatus
from typing import Final

from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from collector.web.answering import endpoint
from collector.web.compare import compare_view
from collector.web.render import path_part, render
from collector.web.source import AskError, Source

_FILE_BYTES: Final = 32 * 2**20
"""Of results of a run, as the API takes them."""
_FORM_BYTES: Final = 2**16
"""Around the file."""


def review_routes() -> list[BaseRoute]:
    """Make the routes."""
    return [
        Route("/compare", endpoint(_compare)),
        Route("/runs", endpoint(_upload), methods=["POST"]),
        Route("/runs/{run_id}/remove", endpoint(_remove), methods=["POST"]),
    ]


async def _compare(request: Request, source: Source) -> Response:
    shown = await compare_view(source, dict(request.query_params), time.time())
    return await render(request, "compare.html", **shown)


async def _upload(request: Request, source: Source) -> Response:
    """Keep a file of results, then show it beside the run before."""
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > _FILE_BYTES + _FORM_BYTES:
        raise AskError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a file here has at most 32 MiB")
    async with request.form(max_files=1, max_fields=4) as form:
        file, name = form.get("file"), str(form.get("name") or "")
        if not isinstance(file, UploadFile):
            raise AskError(HTTPStatus.BAD_REQUEST, "choose a file that scouter eval --save wrote")
        name = name or (file.filename or "").rpartition(".")[0]
        kept = await source.send("runs", await file.read(), name=name[:200])
    return RedirectResponse(f"/compare?after=run:{kept['run_id']}", HTTPStatus.SEE_OTHER)


async def _remove(request: Request, source: Source) -> Response:
    await source.post(f"runs/{path_part(request.path_params['run_id'])}/remove", {})
    return RedirectResponse("/compare#runs", HTTPStatus.SEE_OTHER)
