"""Routes of the views in which people decide: comparisons, labels, and acts on a record."""

import datetime
import json
import math
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote

from pydantic import JsonValue
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from collector.problem import ProblemError
from collector.web.answering import endpoint, read_form, shows
from collector.web.compare import compare_view
from collector.web.labels import agreement_view, label_tasks_view, labelled_view, queue_view
from collector.web.render import download, path_part, query, render
from collector.web.source import Source
from scouter.client.models.comparison import RemovedRun, RunItem
from scouter.client.models.evaluations import Reevaluation
from scouter.client.models.labels import LabelItem

_FILE_BYTES: Final = 32 * 2**20
"""Bytes of an uploaded run that the API takes."""
_FORM_BYTES: Final = 2**16
"""Around the file."""
RERUN: Final = "scouter_told"
"""Cookie that says once what another evaluation came to; the address stays the record's own."""
_RERUN_S: Final = 60
_UNSAFE: Final = re.compile("[^A-Za-z0-9.]+")
"""Characters that no name of a downloaded file has."""
_NAME: Final = "scouter_rater"
"""Cookie with the name under which this browser's reader labels."""
_YEAR_S: Final = 365 * 86_400


def review_routes() -> list[BaseRoute]:
    """Make the routes."""
    return [
        shows("/compare", "compare.html", compare_view),
        Route("/runs", endpoint(_upload), methods=["POST"]),
        Route("/runs/{run_id}/remove", endpoint(_remove), methods=["POST"]),
        Route("/record.json", endpoint(_record_json)),
        Route("/record.yaml", endpoint(_record_scenario)),
        Route("/record/again", endpoint(_again), methods=["POST"]),
        Route("/labels", endpoint(_labels)),
        Route("/labels", endpoint(_label), methods=["POST"]),
        Route("/labels/queue", endpoint(_queue)),
        shows("/labels/records", "label_records.html", labelled_view),
        shows("/labels/agreement", "label_agreement.html", agreement_view),
        Route("/labels/file", endpoint(_label_file)),
    ]


async def _upload(request: Request, source: Source) -> Response:
    """Keep a file of results, then show it beside the run before."""
    size = request.headers.get("content-length", "")
    if not size.isdigit() or int(size) > _FILE_BYTES + _FORM_BYTES:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "a file here has at most 32 MiB")
    async with request.form(max_files=1, max_fields=4) as form:
        file, name = form.get("file"), str(form.get("name") or "")
        if not isinstance(file, UploadFile):
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, "choose a file that scouter eval --save wrote"
            )
        name = name or (file.filename or "").rpartition(".")[0]
        stored = await source.send(RunItem, "runs", await file.read(), name=name[:200])
    return RedirectResponse(f"/compare?after=run:{stored.run_id}", HTTPStatus.SEE_OTHER)


async def _remove(request: Request, source: Source) -> Response:
    await source.post(RemovedRun, f"runs/{path_part(request.path_params['run_id'])}/remove", {})
    return RedirectResponse("/compare#runs", HTTPStatus.SEE_OTHER)


async def _labels(request: Request, source: Source) -> Response:
    return await render(request, "labels.html", **await label_tasks_view(source, _name(request)))


async def _queue(request: Request, source: Source) -> Response:
    """Show the next record to the person named, or else to the one whom the browser knows."""
    given = dict(request.query_params)
    if "rater" not in given and "rename" not in given:
        given["rater"] = _name(request)
    answer = await render(request, "label_queue.html", **await queue_view(source, given))
    if given.get("begin") == "yes":  # not by a link that somebody sent
        answer.set_cookie(
            _NAME, quote(given.get("rater", "").strip()[:100]), max_age=_YEAR_S, path="/",
            httponly=True, samesite="lax", secure=request.url.scheme == "https",
        )  # fmt: skip
    return answer


def _name(request: Request) -> str:
    return unquote(request.cookies.get(_NAME, ""))[:100]


async def _label(request: Request, source: Source) -> Response:
    """Keep a label, then show the next record, or the one that it was given on."""
    form = await read_form(request)
    if undone := form.get("undo") or form.get("undo_seen"):
        form |= {"uid": undone, "label": "none"}
    if not form.get("task"):
        raise ProblemError(HTTPStatus.BAD_REQUEST, "choose the task that the label is for")
    stored = await source.post(
        LabelItem,
        "labels",
        {
            "uid": form.get("uid", ""),
            "task_id": form["task"],
            **_said(form),
            "rater": form.get("rater", "").strip(),
            "notes": form.get("notes", ""),
            "is_blind": form.get("blind") == "yes",
            "order": form.get("drawn") or None,
        },
    )
    form["drawn"] = stored.order or ""
    return RedirectResponse(_after(form, is_undone=bool(undone)), HTTPStatus.SEE_OTHER)


def _after(form: Mapping[str, str], *, is_undone: bool) -> str:
    """The address that a label leads to: the view that the form names, or the next record.

    A label that was taken back leads to its record again.
    """
    names = ("profile", "task", "rater", "order", "offset")
    fields = {name: form.get(name, "") for name in names}
    if form.get("back") == "record":
        filled = {name: fields[name] for name in ("rater", "task")}
        return f"/records/{path_part(form['uid'])}?{query(filled)}#labels"
    if form.get("back") == "list":
        return f"/labels/records?{query({**fields, 'order': '', 'offset': ''})}"
    if is_undone:
        fields |= {"uid": form["uid"], "undone": "yes", "seen": form.get("undo_seen", "")}
        fields |= {"drawn": form["drawn"]}
    return f"/labels/queue?{query(fields)}"


def _said(form: Mapping[str, str]) -> dict[str, JsonValue]:
    """Read the label of a form, or its score.

    Raises:
        ProblemError: There is neither.
    """
    words: dict[str, bool | None] = {"good": True, "bad": False, "none": None}
    if form.get("label") in words:
        return {"label": words[form["label"]]}
    try:
        score = float(form.get("score", ""))
    except ValueError:
        score = math.nan
    if not math.isfinite(score):
        raise ProblemError(
            HTTPStatus.BAD_REQUEST, "expected a label (good, bad or none) or a score, a number"
        )
    return {"score": score}


async def _label_file(request: Request, source: Source) -> Response:
    parameters = request.query_params
    form = "csv" if parameters.get("format") == "csv" else "jsonl"
    found = await source.file(
        "labels/file",
        profile=parameters.get("profile", ""),
        task_id=parameters.get("task", ""),
        format=form,
    )
    return download(found.content, f"labels.{form}", found.headers["content-type"])


async def _record_json(request: Request, source: Source) -> Response:
    """A record as the API has it; the API itself takes no session."""
    uid = request.query_params.get("uid", "")
    data = (await source.file(f"records/{path_part(uid)}")).content
    return download(
        await run_in_threadpool(_indented, data), _file_name(request, "record", "json"),
        "application/json",
    )  # fmt: skip


async def _record_scenario(request: Request, source: Source) -> Response:
    """A record as a scenario file."""
    uid = request.query_params.get("uid", "")
    data = (await source.file(f"scenarios/{path_part(uid)}")).content
    return download(data, _file_name(request, "scenario", "yaml"), "application/yaml")


def _indented(data: bytes) -> bytes:
    """JSON for people; half surrogates stay escaped."""
    return json.dumps(json.loads(data), ensure_ascii=False, indent=2).encode(
        "utf-8", "backslashreplace"
    )


def _file_name(request: Request, kind: str, ending: str) -> str:
    """The name of a file that is made of a record, by the record's own name and uid."""
    parameters = request.query_params
    words = (kind, parameters.get("name", "")[:40], parameters.get("uid", "")[-8:])
    return f"{_UNSAFE.sub('-', '-'.join(filter(None, words)))}.{ending}"


async def _again(request: Request, source: Source) -> Response:
    """Evaluate one record again, by the active version of its profile, then show it."""
    form = await read_form(request)
    uid = form.get("uid", "")
    done = await source.post(
        Reevaluation,
        "reevaluations",
        {"profile": form.get("profile", ""), "record_id": uid, "dry_run": False, "limit": 1},
    )
    came = "stored" if done.stored else "gone" if done.gone else "same"
    flipped = sum(len(each.tasks) for each in done.items)
    rerun = {
        "again": came, "flipped": str(flipped), "digest": done.profile_version,
        "at": datetime.datetime.now(datetime.UTC).isoformat(),
    }  # fmt: skip
    target = f"/records/{path_part(uid)}"
    answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
    answer.set_cookie(
        RERUN, query(rerun), max_age=_RERUN_S, path=target, httponly=True, samesite="lax",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    return answer
