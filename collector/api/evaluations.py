"""Evaluations: listed by any filter, and one with all its tasks."""

from dataclasses import replace
from typing import Annotated, Final

from fastapi import Depends, Path, Query

from collector.api.parameters import (
    NOT_FOUND,
    Attributes,
    Cursor,
    Limit,
    OutcomeOrBad,
    Profile,
    Reader,
    Tags,
    Text,
    Time,
    answer_of,
    api_router,
    read_attributes,
    read_cursor,
    read_tags,
    read_time,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.items.times import time_at
from collector.judging.calibrations import KnownJudges
from collector.problem import ProblemError
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import EvaluationRow, TaskRow
from scouter.client.models.answer import Page
from scouter.client.models.comparison import SetupItem, Setups
from scouter.client.models.evaluations import Evaluation, TaskResult
from scouter.model.genai.setup import KINDS, VERSION

_SETUPS: Final = tuple(kind for kind in KINDS if kind != VERSION)
Setup = Annotated[
    str | None,
    Query(
        max_length=512,
        description="`kind=value` that a span of its trace reports, as `GET /api/v1/setups` has "
        f"it; a kind is {', '.join(_SETUPS)}.",
    ),
]


def _read_setup(text: str | None) -> str | None:
    kind, _, value = (text or "").partition("=")
    if text is not None and (kind not in _SETUPS or not value):
        raise ProblemError(
            400,
            f"setup: expected KIND=VALUE with a kind of {', '.join(_SETUPS)}; got {text[:100]!r}",
        )
    return text


async def evaluation_filter(
    caller: Reader,
    profile: Profile = None,
    record_id: Text = None,
    session_id: Text = None,
    trace_id: Text = None,
    outcome: OutcomeOrBad = None,
    task_id: Text = None,
    task_outcome: OutcomeOrBad = None,
    service_name: Text = None,
    service_version: Text = None,
    environment: Text = None,
    tag: Tags = [],  # noqa: B006 FastAPI copies it
    setup: Setup = None,
    user_id: Text = None,
    attributes: Attributes = [],  # noqa: B006 FastAPI copies it
    since: Time = None,
    until: Time = None,
) -> EvaluationQuery:
    """A dependency of routes: reads the filter."""
    return EvaluationQuery(
        space=caller.space,
        profile=profile,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id.lower() if trace_id else None,
        outcome=outcome,
        task_id=task_id,
        task_outcome=task_outcome,
        service_name=service_name,
        service_version=service_version,
        environment=environment,
        tags=read_tags(tag),
        setup=_read_setup(setup),
        user_id=user_id,
        attributes=read_attributes(attributes),
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


router = api_router()


@router.get("/evaluations", responses=NOT_FOUND)
def evaluations(
    parts: TheParts,
    query: Annotated[EvaluationQuery, Depends(evaluation_filter)],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[Evaluation]:
    """Evaluations, newest first, each record and each session once.

    `task_outcome` without `task_id` means any task. Times are those of evaluation.
    """
    before, as_of = read_cursor(cursor)
    page = parts.store.evaluations(replace(query, as_of=as_of, limit=limit, before=before))
    if not page.items and cursor is None:
        parts.names.check(query.space, query.profile, query.task_id)
    return Page[Evaluation](
        items=tuple(evaluation_answer(row, parts.judges) for row in page.items),
        next_cursor=write_cursor(page.next_before, page.as_of),
    )


@router.get("/evaluations/{evaluation_id}", responses=NOT_FOUND)
def evaluation(
    parts: TheParts, caller: Reader, evaluation_id: Annotated[str, Path(max_length=512)]
) -> Evaluation:
    """One evaluation, be it the latest revision or not."""
    found = parts.store.evaluation(caller.space, evaluation_id)
    if found is None:
        raise ProblemError(404, f"no evaluation {evaluation_id!r} is stored")
    return evaluation_answer(found, parts.judges)


@router.get("/setups", responses=NOT_FOUND)
def setups(
    parts: TheParts, query: Annotated[EvaluationQuery, Depends(evaluation_filter)]
) -> Setups:
    """Setup of the records that a filter names, and its times: prompt, tools, model.

    Times are those of evaluation.
    """
    found, looked_at = parts.store.setups(query)
    if not looked_at:
        parts.names.check(query.space, query.profile, query.task_id)
    return Setups(
        items=tuple(answer_of(SetupItem, each, first_at=time_at(each.first_ns)) for each in found),
        looked_at=looked_at,
    )


def evaluation_answer(row: EvaluationRow, judges: KnownJudges) -> Evaluation:
    """An evaluation as the API shows it, with what was known of the judges that gave it."""
    return answer_of(
        Evaluation,
        row,
        scope=row.scope.value,
        uid=row.record_uid,
        profile=row.alias,
        profile_version=row.profile_digest,
        completeness=row.completeness.value,
        tags=dict(row.tags),
        created_at=time_at(row.created_ns),
        evaluated_at=time_at(row.evaluated_ns),
        tasks=tuple(_task_answer(row, task, judges) for task in row.tasks),
    )


def _task_answer(row: EvaluationRow, task: TaskRow, judges: KnownJudges) -> TaskResult:
    found = TaskResult.model_validate(task)
    known = judges.behind(row, task)
    return found if known is None else found.model_copy(update={"calibration": known})
