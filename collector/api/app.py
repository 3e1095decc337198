"""The web application: every route, and the form of every error."""

import copy
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from collector.access.caller import Needs, Scope
from collector.access.front import AccessFront
from collector.access.gate import Gate
from collector.alerts.delivery.delivery import Delivery
from collector.alerts.drift.health import HealthWatch
from collector.alerts.drift.watcher import DriftWatcher
from collector.alerts.monitor import AlertMonitor
from collector.api.canary import canary_router
from collector.api.comparison import comparison_router
from collector.api.distributions import distributions_router
from collector.api.drift import drift_router
from collector.api.drift_history import drift_history_router
from collector.api.evaluations import evaluations_router
from collector.api.export import export_router
from collector.api.facets import facets_router
from collector.api.front import ApiFront
from collector.api.genai import genai_router
from collector.api.judge_answers import judge_answers_router
from collector.api.judge_standing import JudgeStandings
from collector.api.judges import judges_router
from collector.api.known_names import KnownNames
from collector.api.labels import labels_router
from collector.api.letters import letters_router
from collector.api.operation import operation_router
from collector.api.probes import Unready, probe_router
from collector.api.profile_reader import ProfileReader
from collector.api.profiles import profiles_router
from collector.api.record_parts import record_parts_router
from collector.api.records import records_router
from collector.api.reevaluations import reevaluations_router
from collector.api.routes import api_router
from collector.api.runs import runs_router
from collector.api.sessions import sessions_router
from collector.api.spans import spans_router
from collector.api.tasks import tasks_router
from collector.api.trace_parts import trace_parts_router
from collector.api.trace_span import trace_span_router
from collector.api.traces import traces_router
from collector.api.wire import WireFront
from collector.judging.answers import KeptAnswers
from collector.judging.gold import GoldAsker
from collector.judging.known_judges import KnownJudges
from collector.operation import Operation
from collector.pipeline.pipeline import Pipeline
from collector.pipeline.profiles import ProfileRegistry
from collector.pipeline.revise.reevaluate import Reevaluator
from collector.prices import PriceTable
from collector.problem import Problem, ProblemError, problem_response
from collector.receivers.http.fast_path import IngestFront, endpoints_of
from collector.receivers.http.receiver import http_router
from collector.receivers.ingest import Ingest
from collector.receivers.telemetry import IngestTelemetry
from collector.storage.port.store import Store
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace
from scouter.errors import TransientError

_log: Final = logging.getLogger(__name__)
_WORDS: Final[Mapping[str, str]] = {
    "extra_forbidden": "no such field; GET /openapi.json shows those that there are",
    "missing": "this is required",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "model_attributes_type": "expected an object",
    "recursion_depth_exceeded": "nested too deeply",
    "recursion_loop": "nested too deeply",  # the same in older versions
    "string_pattern_mismatch": "expected the form {pattern}",
}
"""By pydantic's name of a problem: words for those who know HTTP and not Python. A name in braces
is a key of the problem's context."""


def make_app(
    store: Store,
    registry: ProfileRegistry,
    monitor: AlertMonitor,
    watcher: DriftWatcher,
    health: HealthWatch,
    delivery: Delivery,
    pace: Pace,
    pipeline: Pipeline,
    ingest: Ingest,
    telemetry: IngestTelemetry,
    gate: Gate,
    metrics: CollectorRegistry,
    operation: Operation,
    prices: PriceTable,
    unready: Callable[[], Unready | None],
    profiles_changed: Callable[[], None],
    check_judges: Callable[[AgentEvalProfile], None],
    answers: KeptAnswers | None,
    judges: KnownJudges,
    gold: GoldAsker | None,
) -> FastAPI:
    """Make the application.

    Args:
        store: Holds the data.
        registry: The registered profiles.
        monitor: The alerts of the profiles' own conditions.
        watcher: The detectors and their alerts.
        health: Watches what keeps results from being made.
        delivery: Tells people of alerts.
        pace: Quiet time and deadline of a conversation.
        pipeline: Stores evaluations.
        ingest: The way in.
        telemetry: Is told of every request that brings data.
        gate: Lets callers in.
        metrics: The metrics that Prometheus reads.
        operation: Erases and backs up.
        prices: Of models.
        unready: Reason that the service cannot do its work now; None if it can.
        profiles_changed: Is told once profiles were registered or activated.
        check_judges: Refuses a profile whose judges could not be asked.
        answers: Kept answers of judges; None where none are kept.
        judges: Knows the calibrations of judges.
        gold: Asks for gold items; None where there are none.
    """
    app = FastAPI(
        title="Scouter collector",
        description="Takes spans and records, judges them, and answers questions.",
        version="1",
        openapi_url=None,  # it has a route of its own, which asks for a token
        docs_url=None,  # those pages load their scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to whatever Host says, before anybody asks for a token
    )
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(TransientError, _on_transient)
    app.add_exception_handler(Exception, _on_fault)
    ingest_routes = http_router(ingest, telemetry)
    app.include_router(ingest_routes)
    app.add_middleware(IngestFront, endpoints=endpoints_of(ingest_routes))
    app.add_middleware(ApiFront)
    app.add_middleware(AccessFront, gate=gate)
    app.add_middleware(WireFront)  # the last one added is the outermost
    app.include_router(api_router(store, monitor, watcher, health, registry))
    app.include_router(drift_router(watcher, store, delivery, gate.space))
    app.include_router(canary_router(store, registry, pace))
    reader = ProfileReader(check_judges)
    names = KnownNames(registry)
    app.include_router(drift_history_router(store, names))
    app.include_router(profiles_router(registry, ingest, profiles_changed, reader))
    app.include_router(spans_router(store))
    app.include_router(traces_router(store, judges))
    app.include_router(trace_parts_router(store, judges, prices))
    app.include_router(trace_span_router(store))
    app.include_router(genai_router(store, prices))
    app.include_router(evaluations_router(store, judges, names))
    app.include_router(facets_router(store, names))
    app.include_router(distributions_router(store, names))
    app.include_router(records_router(store, judges, names))
    app.include_router(record_parts_router(store, judges, registry))
    app.include_router(sessions_router(store, judges, names))
    app.include_router(tasks_router(store, JudgeStandings(store, judges), names))
    app.include_router(runs_router(store))
    app.include_router(comparison_router(store))
    app.include_router(labels_router(store, registry, judges))
    app.include_router(judges_router(gold))
    app.include_router(export_router(store, judges))
    app.include_router(letters_router(store, ingest))
    reevaluator = Reevaluator(store, registry, pipeline)
    app.include_router(reevaluations_router(registry, reevaluator, reader))
    app.include_router(judge_answers_router(answers))
    app.include_router(operation_router(operation, gate.space))
    app.include_router(probe_router(metrics, unready, registry.remarks, gate.space))

    @app.get("/openapi.json", include_in_schema=False, dependencies=[Depends(Needs(Scope.READ))])
    def openapi() -> JSONResponse:
        return JSONResponse(_mended(copy.deepcopy(app.openapi())))

    return app


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    """Say what FastAPI does not know: models of errors, and those of bodies that are read here."""
    document["components"]["schemas"][Problem.__name__] = Problem.model_json_schema()
    for methods in document["paths"].values():
        for route in methods.values():
            for body in route.get("requestBody", {}).get("content", {}).values():
                models = body.get("schema", {}).pop("$defs", {})
                document["components"]["schemas"].update(models)
    return document


async def _on_problem(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ProblemError)  # noqa: S101 registered for nothing else
    return problem_response(error.status, error.detail, error.headers)


async def _on_http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 registered for nothing else
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The router names the methods of the first route with that path only.
        path, document = request.url.path, request.app.openapi()
        found = [
            methods
            for template, methods in document["paths"].items()
            if compile_path(template)[0].match(path)
        ]
        if found:
            allowed = {name.upper() for names in found for name in names}
            headers["Allow"] = ", ".join(
                sorted(allowed | ({"HEAD"} if "GET" in allowed else set()))
            )
    detail = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no route {request.url.path!r}; GET /openapi.json lists those that there are"
    elif "Allow" in headers:
        detail = f"{request.method} is not for this route; it takes {headers['Allow']}"
    return problem_response(error.status_code, detail, headers)


async def _on_invalid(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 registered for nothing else
    return problem_response(400, "; ".join(map(_words, error.errors())))


def _words(problem: Mapping[str, Any]) -> str:
    """One problem of a request, with what is said for programmers in words for callers."""
    place = ".".join(map(str, problem["loc"][1:]))
    words = _WORDS.get(problem["type"], "").format_map(problem.get("ctx", {}))
    message = words or str(problem["msg"]).removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


async def _on_transient(_: Request, error: Exception) -> JSONResponse:
    return problem_response(503, str(error), {"Retry-After": "5"})


async def _on_fault(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %r failed", request.method, request.url.path, exc_info=error)
    return problem_response(500, "a fault of the collector; its log says more")
