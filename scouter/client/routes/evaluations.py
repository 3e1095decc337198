"""Routes of evaluations."""

from collections.abc import Mapping
from typing import TypedDict, Unpack

from scouter.client.call import Call, Moment, PagedCall, QueryValue, get, pages, query_of
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.facets import FacetList
from scouter.evaluate.outcome import Outcome


class EvaluationSearch(TypedDict, total=False):
    """Properties that an evaluation has, all of them."""

    profile: str | None
    record_id: str | None
    session_id: str | None
    trace_id: str | None
    outcome: Outcome | str | None
    task_id: str | None
    task_outcome: Outcome | str | None
    service_name: str | None
    service_version: str | None
    environment: str | None
    tags: Mapping[str, str] | None
    since: Moment | None
    until: Moment | None


def evaluations(
    *, limit: int | None = None, **search: Unpack[EvaluationSearch]
) -> PagedCall[Evaluation]:
    """Evaluations, newest first; each record and each session once, in its latest revision.

    Args:
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
        profile: Alias, name, uid or digest.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        outcome: Of the record; `not_passed` is what failed or errored.
        task_id: Evaluations with this task.
        task_outcome: How that task, or any task, ended; as `outcome`.
        service_name: Of the record's service.
        service_version: Of the record's service.
        environment: Of the record's service.
        tags: Of the record; all of them.
        since: Evaluated at this time or later.
        until: Evaluated before this time.
    """
    return pages("/evaluations", Evaluation, {**_query(search), "limit": limit})


def evaluation_facets(**search: Unpack[EvaluationSearch]) -> Call[FacetList]:
    """Evaluations by outcome, profile, task, service, version, environment, tag; see `evaluations`.

    The newest are counted first, for about 0.3 s.
    """
    return get("/facets/evaluations", FacetList, query=_query(search))


def evaluation(evaluation_id: str) -> Call[Evaluation]:
    """One evaluation.

    Args:
        evaluation_id: As a list of evaluations has it.
    """
    path = "/evaluations/{evaluation_id}"
    return get(path, Evaluation, at={"evaluation_id": evaluation_id})


def _query(search: EvaluationSearch) -> dict[str, QueryValue]:
    return query_of(EvaluationSearch, search, tags="tag")
