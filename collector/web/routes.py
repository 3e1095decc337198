"""The routes of the page."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, quote

from fastapi import FastAPI
from pydantic import JsonValue
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from collector.access.caller import CALLER, Caller
from collector.problem import ProblemError
from collector.web.answering import (
    COOKIE,
    SessionFront,
    View,
    endpoint,
    forget,
    is_local,
    layout_of,
    read_form,
    shows,
)
from collector.web.incidents import health_view, incidents_of
from collector.web.lists import LISTS, as_parquet, download_list, facets_view, list_view
from collector.web.overview import overview, profile_view
from collector.web.period import Window
from collector.web.profile import definition_in, faults_view, profile_body, tasks_view
from collector.web.record import conversation_view, record_view
from collector.web.render import (
    HEADERS,
    STATIC,
    VERSION,
    download,
    path_part,
    query,
    render,
    text_of,
)
from collector.web.review import RERUN, review_routes
from collector.web.source import Shown, Source
from collector.web.task import spread_view, task_view
from collector.web.trace import pass_on, path_of, span_detail, span_path, trace_view
from scouter.client.models.alerts import Alerts, DriftAlert, DriftAlertLook, DriftSeriesList
from scouter.client.models.evaluations import Failures
from scouter.client.models.operation import ConservationSheet, ReplayedLetter, ReplayedLetters
from scouter.client.models.traces import TraceAgents, TraceLinks

_FORMS: Final = {
    "csv": "text/csv",
    "jsonl": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
"""Forms of a downloaded list, and their media types."""
_REPLAYED: Final = ("accepted", "waiting", "refused")
"""Outcomes of a dead letter that is taken in again."""
_WORDS: Final = 200
"""Characters of a caption that an address may have."""
_PASSED_ON: Final = ("columns", "matches", "export")
_FOR_GOOD: Final = "public, max-age=31536000, immutable"
_OF_OTHER_SITES: Final = (HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST)


def serve_page(app: FastAPI) -> None:
    """Let an application that serves the API serve the page, too.

    Args:
        app: Its middleware leaves the caller in each request.
    """
    app.router.routes.extend(page_routes())
    app.add_middleware(SessionFront)


def page_routes() -> list[BaseRoute]:
    """Make the routes of the page.

    Returns:
        Routes of an application that also serves the API, and whose requests pass `SessionFront`.
    """
    return [
        Mount("/static", GZipMiddleware(_StaticFiles(directory=STATIC))),
        Route("/login", _login, methods=["GET", "POST"]),
        Route("/logout", _logout, methods=["POST"]),
        shows("/", "overview.html", _overview),
        shows("/profile", "profile.html", profile_view),
        shows("/profile/tasks", "profile_tasks.html", tasks_view),
        shows("/profile/faults", "faults.html", faults_view),
        Route("/profile.json", endpoint(_profile_file)),
        shows("/task", "task.html", _task),
        shows("/task/distributions", "distributions.html", spread_view, is_part=True),
        shows("/task/failures", "failures.html", _failures, is_part=True),
        Route("/records/{uid:path}", endpoint(_record)),
        shows("/conversations/{session_id:path}", "conversation.html", conversation_view),
        shows("/traces/{trace_id}", "trace.html", trace_view),
        shows("/traces/{trace_id}/agents", "agents.html", _agents, is_part=True),
        shows("/traces/{trace_id}/links", "links.html", _links, is_part=True),
        shows("/traces/{trace_id}/spans/{span_id}", "span.html", _span, is_part=True),
        Route("/traces/{trace_id}/spans/{span_id}/value", endpoint(_value)),
        *(Route(f"/traces/{{trace_id}}/{name}", endpoint(_passed_on(name))) for name in _PASSED_ON),
        shows("/alerts", "alerts.html", _alerts),
        shows("/alerts/{alert_id}", "alert.html", _alert),
        Route("/alerts/{alert_id}/{act}", endpoint(_act), methods=["POST"]),
        Route("/health", endpoint(_health)),
        Route("/health/replay", endpoint(_replay), methods=["POST"]),
        *review_routes(),
        *(Route(f"/{name}", endpoint(_list(name))) for name in LISTS),
        *(Route(f"/facets/{name}", endpoint(_facets(name))) for name in LISTS),
        *(
            Route(f"/{kind}.{form}", endpoint(_file(each.name, kind, form)))
            for each in LISTS.values()
            for kind in each.exports
            for form in _FORMS
        ),
    ]


@cache
def _content(path: str, changed_ns: int) -> bytes:
    """Read a file of the page once, as long as nobody changes it."""
    del changed_ns
    return Path(path).read_bytes()


class _StaticFiles(StaticFiles):
    """Files of the page itself: cached for good from an address with a version, else compared.

    They are answered from memory: a client that reads nothing would hold its file open, and
    strangers would use up the files that the process may open.
    """

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        answer = super().file_response(full_path, stat_result, scope, status_code)
        if not isinstance(answer, FileResponse):
            return answer
        headers = {name: answer.headers[name] for name in ("content-type", "etag", "last-modified")}
        return Response(_content(str(full_path), stat_result.st_mtime_ns), headers=headers)

    async def get_response(self, path: str, scope: Scope) -> Response:
        answer = await super().get_response(path, scope)
        is_versioned = scope["query_string"].startswith(f"{VERSION}=".encode())
        answer.headers["Cache-Control"] = _FOR_GOOD if is_versioned else "no-cache"
        answer.headers["X-Content-Type-Options"] = "nosniff"
        return answer


async def _overview(source: Source, given: Mapping[str, str]) -> Shown:
    return await overview(source, Window.of(given))


async def _profile_file(request: Request, source: Source) -> Response:
    parameters = request.query_params
    body = await profile_body(source, parameters.get("profile", ""), parameters.get("digest", ""))
    return download(text_of(body).encode(), "profile.json", "application/json")


async def _task(source: Source, given: Mapping[str, str]) -> Shown:
    profile, task_id = given.get("profile", ""), given.get("task", "")
    shown, definition = await asyncio.gather(
        task_view(source, profile, task_id, Window.of(given)),
        definition_in(source, profile, task_id),
    )
    return {**shown, "definition": definition}


async def _failures(source: Source, given: Mapping[str, str]) -> Shown:
    names, window = ("profile", "task", "split", "words"), Window.of(given)
    profile, task_id, split, words = (given.get(name, "") for name in names)
    found = await source.get(
        Failures, "tasks/failures", profile=profile, task_id=task_id, split=split, **window.for_api
    )
    questions = await source.questions(each for group in found.items for each in group.examples)
    return {
        **window.shown, **dict(found), "profile": profile, "task_id": task_id, "split": split,
        "words": words[:_WORDS], "questions": questions,
    }  # fmt: skip


async def _record(request: Request, source: Source) -> Response:
    uid, rerun = request.path_params["uid"], dict(parse_qsl(request.cookies.get(RERUN, "")))
    given = {**rerun, **request.query_params}
    answer = await render(request, "record.html", **await record_view(source, uid, given))
    if rerun:
        answer.delete_cookie(
            RERUN, path=f"/records/{path_part(uid)}", httponly=True, samesite="lax"
        )
    return answer


async def _links(source: Source, given: Mapping[str, str]) -> Shown:
    trace_id = given["trace_id"]
    found = await source.get(TraceLinks, f"{path_of(trace_id)}/links")
    return {"trace_id": trace_id, "links": found.items, "joined": given.get("joined", "")}


async def _agents(source: Source, given: Mapping[str, str]) -> Shown:
    trace_id, joined = given["trace_id"], given.get("joined")
    found = await source.get(TraceAgents, f"{path_of(trace_id)}/agents", joined=joined)
    return {"trace_id": trace_id, "agents": found.items}


async def _span(source: Source, given: Mapping[str, str]) -> Shown:
    found = await span_detail(source, given["trace_id"], given["span_id"])
    return {"trace_id": found["trace_id"], "found": found}


async def _value(request: Request, source: Source) -> Response:
    pointer = request.query_params.get("pointer", "")
    return await pass_on(
        request, source, f"{span_path(**request.path_params)}/value", pointer=pointer
    )


def _passed_on(name: str) -> View:
    """A view of a trace that is the API's answer: what scripts and downloads of the page need."""

    async def show(request: Request, source: Source) -> Response:
        path = f"{path_of(request.path_params['trace_id'])}/{name}"
        return await pass_on(request, source, path, **request.query_params)

    return show


async def _alerts(source: Source, given: Mapping[str, str]) -> Shown:
    del given
    found, known = await asyncio.gather(
        source.get(Alerts, "alerts"), source.get(DriftSeriesList, "drift/series")
    )
    return {**dict(found), "incidents": incidents_of(found.drift), "known": known}


async def _alert(source: Source, given: Mapping[str, str]) -> Shown:
    alert_id = given["alert_id"]
    shown = await source.get(DriftAlertLook, f"alerts/{quote(alert_id, safe='')}")
    others, questions = await _beside(source, alert_id), await source.questions(shown.examples)
    return {**dict(shown), "others": others, "questions": questions}


async def _beside(source: Source, alert_id: str) -> list[DriftAlert]:
    """The other open alerts of the same incident."""
    for incident in incidents_of((await source.get(Alerts, "alerts")).drift):
        if any(each.alert_id == alert_id for each in incident.alerts):
            return [each for each in incident.alerts if each.alert_id != alert_id]
    return []


async def _act(request: Request, source: Source) -> Response:
    """Acknowledge, silence or resolve an alert, or all of its incident, then show it."""
    alert_id, act = request.path_params["alert_id"], request.path_params["act"]
    form = await read_form(request)
    body: dict[str, JsonValue] = {"note": form.get("note", ""), "name": form.get("name", "")}
    if act == "silence":
        body["seconds"] = form.get("seconds", "")
    elif act not in ("acknowledge", "resolve"):
        raise ProblemError(HTTPStatus.NOT_FOUND, f"an alert does not know the action {act[:100]}")
    others = await _beside(source, alert_id) if form.get("all") == "yes" else []
    if act != "resolve":  # nobody was notified of one on trial
        others = [each for each in others if each.state != "shadow"]
    is_new_normal = act == "resolve" and form.get("accept") == "yes"
    for each in (None, *others):
        is_learnt = each is None or not each.condition  # a condition is learnt from nothing
        accepted: dict[str, JsonValue] = {"accept": True} if is_new_normal and is_learnt else {}
        wanted = quote(alert_id if each is None else each.alert_id, safe="")
        await source.post(DriftAlert, f"alerts/{wanted}/{act}", body | accepted)
    return RedirectResponse(f"/alerts/{quote(alert_id, safe='')}", 303)


async def _health(request: Request, source: Source) -> Response:
    given = request.query_params
    replayed = {name: given[name] for name in _REPLAYED if given.get(name, "").isdecimal()}
    return await render(request, "health.html", replayed=replayed, **await health_view(source))


async def _replay(request: Request, source: Source) -> Response:
    """Take in again one dead letter, or the newest hundred, then say what became of them."""
    letter_id = (await read_form(request)).get("letter_id", "")
    if letter_id:
        one = await source.post(
            ReplayedLetter, f"dead-letters/{quote(letter_id, safe='')}/replay", {}
        )
        counts = {one.result: 1}
    else:
        done = await source.post(ReplayedLetters, "dead-letters/replay", {})
        counts = {name: getattr(done, name) for name in _REPLAYED}
    shown = {name: str(counts.get(name, 0)) for name in _REPLAYED}
    return RedirectResponse(f"/health?{query(shown)}#letters", 303)


def _list(name: str) -> View:
    async def show(request: Request, source: Source) -> Response:
        shown = await list_view(source, LISTS[name], request.query_params, time.time())
        return await render(request, "list.html", **shown)

    return show


def _facets(name: str) -> View:
    async def show(request: Request, source: Source) -> Response:
        shown = await facets_view(source, LISTS[name], request.query_params, time.time())
        return await render(request, "facets.html", layout=layout_of(request), **shown)

    return show


def _file(name: str, kind: str, form: str) -> View:
    """A list as a file; a refusal is a view, as the first part is there before the answer."""

    async def show(request: Request, source: Source) -> Response:
        given = request.query_params
        written = "jsonl" if form == "parquet" else form
        parts = download_list(source, LISTS[name], given, kind, written, time.time())
        if form == "parquet":
            caller: Caller = request.scope[CALLER]
            parts = as_parquet(parts, caller.space)
        first = await anext(parts)

        async def whole() -> AsyncIterator[bytes]:
            yield first
            async for part in parts:
                yield part

        headers = {**HEADERS, "Content-Disposition": f'attachment; filename="{kind}.{form}"'}
        return StreamingResponse(whole(), media_type=_FORMS[form], headers=headers)

    return show


async def _login(request: Request) -> Response:
    """Show the form for a token, or take it."""
    if request.method == "GET":
        target = request.query_params.get("next", "/")
        return await render(request, "login.html", target=target, problem="")
    caller: Caller | ProblemError = request.scope[CALLER]
    if isinstance(caller, ProblemError) and caller.status in _OF_OTHER_SITES:
        return await render(
            request, "error.html", caller.status, title="Refused", detail=caller.detail
        )
    form = await read_form(request)
    token, target = form.get("token", "").strip(), form.get("next", "/")
    try:
        if not token.isascii() or not token.isprintable() or set(token) & set(' ";,\\'):
            raise ProblemError(HTTPStatus.UNAUTHORIZED, "this is no token; one begins with sct_")
        await Source(request, token).get(ConservationSheet, "conservation")
    except ProblemError as error:
        return await render(
            request, "login.html", error.status, target=target, problem=error.detail
        )
    answer = RedirectResponse(target if is_local(target) else "/", 303)
    answer.set_cookie(
        COOKIE, token, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/"
    )
    return answer


async def _logout(request: Request) -> Response:
    answer = RedirectResponse("/login", 303)
    forget(answer)
    return answer
