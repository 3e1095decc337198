"""A trace of any size: its rows, its agents, the spans that a filter selects, and as a file."""

import json
from collections.abc import Callable
from dataclasses import fields
from functools import cache, partial
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from collector.api import models
from collector.api.answers import json_response
from collector.api.evaluations import evaluation_answer
from collector.api.parameters import COMMON, NOT_FOUND, PROBLEMS, Reader, caught_up
from collector.api.parts import TheJudges, ThePrices, TheStore
from collector.api.traces import TraceId, read_stored, results_of
from collector.prices import PriceTable
from collector.problem import ProblemError
from scouter.client.models.trace_parts import TraceAgents, TraceMatches, TraceTurn
from scouter.errors import ConfigError
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.show.agent_lines import agent_lines, view_turn
from scouter.evaluate.show.trace_columns import TraceColumns, trace_columns
from scouter.evaluate.show.trace_view import ResultView
from scouter.evaluate.spans.filters import compile_filter
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.model.genai.facts import SpanFacts
from scouter.model.otlp_json import spans_to_otlp_json
from scouter.model.span import Span

_MOST_FILTER: Final = 10_000
_RESULTS: Final = TypeAdapter(list[ResultView])


class TraceRows(BaseModel):
    """A trace as columns, the evaluations of its records, and results that name no span of it."""

    model_config = ConfigDict(frozen=True)

    trace_id: str
    service_name: str = Field(description="Of the root, as the next two; empty if it tells none.")
    service_version: str
    environment: str
    columns: TraceColumns
    evaluations: list[models.Evaluation]
    tasks: list[ResultView]


@cache
def trace_parts_router() -> APIRouter:
    """Make the routes below `/api/v1/traces/{trace_id}`."""
    router = APIRouter(
        prefix="/api/v1/traces/{trace_id}",
        tags=["results"],
        responses={**PROBLEMS, **NOT_FOUND},
        dependencies=(*COMMON, Depends(caught_up)),
    )

    @router.get("/columns", response_model=TraceRows)
    def columns(
        store: TheStore,
        judges: TheJudges,
        caller: Reader,
        trace_id: TraceId,
        limit: Annotated[int | None, Query(ge=1)] = None,
    ) -> Response:
        """The rows of a waterfall as one array a field: 30,000 spans are about 1.3 MB.

        Without `limit` all rows are there.
        """
        wanted, found = read_stored(store, caller.space, trace_id)
        results = results_of(found)
        tree = SpanTree(found.spans)
        known = set(tree.span_ids)
        beside = [each for each in results if known.isdisjoint(each.span_ids)]
        resource = tree.true_roots[0].resource
        return json_response(
            {
                "trace_id": wanted,
                "service_name": resource.service_name,
                "service_version": resource.service_version,
                "environment": resource.environment,
                "columns": _written(trace_columns(tree, results, limit)),
                "evaluations": [
                    evaluation_answer(each, judges).model_dump(mode="json")
                    for each in found.evaluations
                ],
                "tasks": _RESULTS.dump_python(beside, mode="json"),
            }
        )

    def cost_of(prices: PriceTable, facts: SpanFacts) -> float | None:
        price = prices.of((facts.response_model, facts.request_model))
        usage = facts.usage
        if price is None or usage.input is None or usage.output is None:
            return None
        return price.cost(usage.input, usage.output)

    @router.get("/agents")
    def agents(
        store: TheStore, prices: ThePrices, caller: Reader, trace_id: TraceId
    ) -> TraceAgents:
        """The work of each agent: calls, tools, retries, tokens, cost, failures, hand-overs."""
        _, found = read_stored(store, caller.space, trace_id)
        return TraceAgents(
            items=tuple(agent_lines(SpanTree(found.spans), partial(cost_of, prices)))
        )

    @router.get("/turn")
    def turn(store: TheStore, caller: Reader, trace_id: TraceId) -> TraceTurn:
        """The trace as a turn of a conversation: question, calls of tools, answer."""
        wanted, found = read_stored(store, caller.space, trace_id)
        return TraceTurn(trace_id=wanted, turn=view_turn(SpanTree(found.spans)))

    @router.get("/matches")
    def matches(
        store: TheStore,
        caller: Reader,
        trace_id: TraceId,
        filter: Annotated[
            str,
            Query(
                max_length=_MOST_FILTER,
                description="A span filter as profiles write it, as JSON: "
                '`{"WithStatus": {"status": "Error"}}`. Any other text is a pattern that is '
                "searched for in names.",
            ),
        ],
    ) -> TraceMatches:
        """The spans that a filter of the profiles' language selects."""
        select = _read_filter(filter)
        _, found = read_stored(store, caller.space, trace_id)
        try:
            matched = select(SpanTree(found.spans))
            return TraceMatches(span_ids=tuple(span.span_id for span in matched))
        except TaskFault as error:
            raise ProblemError(400, f"filter: {error}") from error

    @router.get("/export", response_class=Response)
    def export(store: TheStore, caller: Reader, trace_id: TraceId) -> Response:
        """The spans as a file of OTLP JSON."""
        wanted, found = read_stored(store, caller.space, trace_id)
        answer = json_response(spans_to_otlp_json(SpanTree(found.spans).spans))
        answer.headers.update(file_headers(f"{wanted}.otlp.json"))
        return answer

    return router


def _written(columns: TraceColumns) -> JsonValue:
    """Columns as they are written: a model would look at each of their numbers."""
    shown = {each.name: getattr(columns, each.name) for each in fields(columns)}
    axis = {each.name: getattr(columns.axis, each.name) for each in fields(columns.axis)}
    return {**shown, "axis": axis}


def _read_filter(text: str) -> Callable[[SpanTree], list[Span]]:
    """Prepare a filter that somebody typed.

    Raises:
        ProblemError: 400; it is no filter.
    """
    try:
        if not text.lstrip().startswith("{"):
            return compile_filter(SpanFilter.by_name_pattern(text.strip()))
        return compile_filter(SpanFilter.parse(json.loads(text)))
    except RecursionError as error:
        raise ProblemError(400, "filter: it is nested too deeply") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ProblemError(400, f"filter: {place} {first['msg']}".replace("  ", " ")) from error
    except (ConfigError, ValueError) as error:
        raise ProblemError(400, f"filter: {error}") from error


def file_headers(name: str) -> dict[str, str]:
    """Headers of an answer that is saved under a name and never shown."""
    return {
        "Content-Disposition": f'attachment; filename="{name}"',
        "X-Content-Type-Options": "nosniff",
    }
