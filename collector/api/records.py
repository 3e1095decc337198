"""Accepted records: listed with their states, one with all about it, and what its profile adds."""

import contextlib
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

from fastapi import Depends, Path, Query
from pydantic import JsonValue
from pydantic_core import from_json
from starlette.responses import Response

from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    MOST_TEXTS,
    NOT_FOUND,
    SEARCH_S,
    Attributes,
    Cursor,
    Limit,
    Profile,
    Reader,
    Text,
    Texts,
    Time,
    answer_of,
    api_router,
    cost_fields,
    read_attributes,
    read_cursor,
    read_time,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.comparing.looks import trajectories_of
from collector.items.times import time_at
from collector.prices import NO_PRICES, PriceTable
from collector.problem import ProblemError, problems
from collector.store.json_text import load_json
from collector.store.record_queries import RecordHistory, RecordQuery, RecordSummary
from collector.store.rows import RecordRow, RecordState, Scope, TaskRow
from collector.store.span_queries import TraceTotals
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Need, need_of
from collector.worker.trace_facts import TraceFacts
from scouter.client.expectation import questions_of_context, read_conversation
from scouter.client.harvest import harvested, scenario_yaml
from scouter.client.models.answer import Searched
from scouter.client.models.records import (
    LetterReason,
    Questions,
    Record,
    RecordItem,
    TaskTrajectories,
)
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span

_SKIPPED: Final = RecordState.SKIPPED
_BEGINNING: Final = 4_000
"""Characters of a context that are read for the question, which is the first value of a derived
one."""
_SHOWN: Final = 200
"""Characters of a question by which a person knows a record."""
_YAML: Final = "application/yaml"
_Uid = Annotated[str, Path(max_length=512)]


def why_not_evaluated(store: Store, registry: ProfileRegistry, found: RecordHistory) -> str:
    """Say what a record waits for, or why nothing of it was evaluated.

    Returns:
        A sentence; empty where its latest evaluation is decided.

    Cost: for a record that waits, reading the spans of its trace.
    """
    row = found.record
    if found.state is RecordState.DEAD_LETTERED:
        return "it is a dead letter, and is evaluated only if that is replayed"
    if found.evaluations:
        pending = [t.task_id for t in found.evaluations[0].tasks if t.outcome is Outcome.PENDING]
        if not pending:
            return _of_skipped(found.evaluations[0].tasks) if found.state is _SKIPPED else ""
        return f"a judge has yet to answer, or a task before it: {', '.join(pending)}"
    if found.state is not RecordState.WAITING:
        return f"it is {found.state.value}: nothing of it is left to evaluate"
    need = need_of(row, registry.of_record(row))
    if need is Need.PROFILE:
        return (
            f"no profile {row.profile_ref!r} is registered and active; the first one that is "
            "evaluates it, and at its deadline it is a dead letter"
        )
    if need is Need.NOTHING or row.trace_id is None:
        return "it waits for no span, and is in line to be evaluated"
    return _lacks(store.trace(row.space, row.trace_id, 1).spans)


def _of_skipped(tasks: Sequence[TaskRow]) -> str:
    counts = Counter(each.reason or "no reason" for each in tasks)
    reasons = ", ".join(f"{reason} ({count})" for reason, count in sorted(counts.items()))
    return f"all of its tasks were skipped: {reasons}"


def _lacks(spans: Iterable[Span]) -> str:
    tree, facts = SpanTree(spans), TraceFacts()
    for span in tree.spans:
        facts.add(span)
    end = "it is evaluated when the trace is quiet, or at its deadline"
    if facts.has_gaps:  # then silence says nothing
        end = "it is evaluated when that has come, or at its deadline"
    if not len(tree):
        return f"no span of its trace has come; {end}"
    lacks: list[str] = []
    if tree.missing_parents:
        lacks.append(f"{_spans(tree.missing_parents)} that others name as parent")
    if all(span.parent_span_id is not None for span in tree.roots):
        lacks.append("a root")
    if facts.has_gaps and not lacks:
        lacks.append("spans that its processes counted")
    if lacks:
        return f"its trace has {_spans(len(tree))}, and lacks {' and '.join(lacks)}; {end}"
    return (
        f"its trace has {_spans(len(tree))} and lacks none that is known of; it is evaluated when "
        "no more come for a moment"
    )


def _spans(count: int) -> str:
    return f"{count} span" if count == 1 else f"{count} spans"


async def record_filter(
    caller: Reader,
    profile: Profile = None,
    record_id: Text = None,
    session_id: Text = None,
    trace_id: Text = None,
    user_id: Text = None,
    attributes: Attributes = [],  # noqa: B006 FastAPI copies it
    state: RecordState | None = None,
    since: Time = None,
    until: Time = None,
) -> RecordQuery:
    """A dependency of routes: reads the filter."""
    return RecordQuery(
        space=caller.space,
        profile=profile,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id.lower() if trace_id else None,
        user_id=user_id,
        attributes=read_attributes(attributes),
        state=state,
        since_ns=read_time("since", since),
        until_ns=read_time("until", until),
    )


router = api_router()


@router.get("/records", responses=NOT_FOUND)
def records(
    parts: TheParts,
    query: Annotated[RecordQuery, Depends(record_filter)],
    text: Annotated[
        Texts,
        Query(
            max_length=MOST_TEXTS,
            description="In a value or a name of the context, in upper or lower case; all of "
            "several have to be there.",
        ),
    ] = [],  # noqa: B006 FastAPI copies it
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Searched[RecordItem]:
    """Accepted records, newest first; times are those of acceptance.

    A search for a text ends after a second: the answer then is partial and says how far the
    search looked.
    """
    query = replace(query, limit=limit, before=read_cursor(cursor)[0])
    end = time.monotonic() + SEARCH_S
    page = parts.store.records(query, lambda: time.monotonic() >= end, text)
    if not (text or page.items) and cursor is None:
        parts.names.check(query.space, query.profile)
    at = page.looked_until_ns
    return Searched[RecordItem](
        items=record_items(parts.store, parts.prices, query.space, page.items),
        next_cursor=write_cursor(page.next_before),
        is_partial=at is not None,
        looked_until=None if at is None else time_at(at),
    )


@router.get("/records/{uid:path}", responses=NOT_FOUND)
def record(parts: TheParts, caller: Reader, uid: Annotated[str, Path(max_length=512)]) -> Record:
    """One record: what its sender said, and every revision of its evaluation."""
    found = parts.store.record_history(caller.space, uid)
    if found is None:
        raise ProblemError(
            404,
            f"no record {uid!r} is stored; it may have been erased or be older than "
            "retention_days, it may have come as a dead letter (scouter letters list), or its "
            "sender left it out by sample_ratio or gave it up (scouter_queue_dropped_total)",
        )
    row, stored = found.record, found.letter
    totals = parts.store.trace_totals(caller.space, [row.trace_id] if row.trace_id else [])
    return answer_of(
        Record,
        row,
        profile=row.alias or row.profile_ref,
        state=found.state.value,
        created_at=time_at(row.created_ns),
        received_at=time_at(row.received_ns),
        tags=dict(row.tags),
        evaluations=tuple(evaluation_answer(each, parts.judges) for each in found.evaluations),
        dead_letter=None
        if stored is None
        else LetterReason(
            letter_id=stored.letter_id,
            reason=stored.letter.reason,
            message=stored.letter.message,
        ),
        waits_for=why_not_evaluated(parts.store, parts.registry, found),
        **_of_trace(totals.get(row.trace_id or ""), parts.prices),
    )


@router.get("/questions")
def questions(
    parts: TheParts,
    caller: Reader,
    uid: Annotated[list[str], Query(max_length=100, description="Of the records.")],
    since: Time = None,
) -> Questions:
    """Questions of users, as far as the beginnings of the records' contexts have them.

    With `since` only of records that were accepted from then on, which is faster.
    """
    since_ns = read_time("since", since) or 0
    found = parts.store.context_beginnings(caller.space, uid, _BEGINNING, since_ns)
    asked = {each: _question(text) for each, text in found.items()}
    return Questions(items={each: text for each, text in asked.items() if text})


@router.get(
    "/scenarios/{uid:path}",
    responses={**NOT_FOUND, **problems(409), 200: {"content": {_YAML: {}}}},
    response_class=Response,
)
def scenario(parts: TheParts, caller: Reader, uid: _Uid) -> Response:
    """A record as a scenario file, as `scouter scenarios harvest` writes it."""
    found, spans, profile = _read(parts.store, parts.registry, caller.space, uid)
    evaluation = found.evaluations[0] if found.evaluations else None
    if (
        evaluation is None
        or evaluation.outcome is Outcome.PENDING
        or evaluation.scope is Scope.SESSION
    ):
        raise ProblemError(409, f"the record {uid!r} has no evaluation yet")
    conversation = read_conversation(SpanTree(spans).spans, found.record.context)
    if conversation is None:
        raise ProblemError(
            409,
            "neither the spans nor the context say what the user asked, and a scenario asks "
            "it; see docs/harvest.md for the names that are read",
        )
    turn = (evaluation_answer(evaluation, parts.judges), conversation)
    item = harvested([turn], found.record.context, profile)
    return Response(scenario_yaml("harvested", [item]), media_type=_YAML)


@router.get("/trajectories/{uid:path}", responses=NOT_FOUND)
def trajectories(parts: TheParts, caller: Reader, uid: _Uid) -> TaskTrajectories:
    """The calls that the tasks on a record expect, beside those that were made."""
    found, spans, profile = _read(parts.store, parts.registry, caller.space, uid)
    if profile is None:
        return TaskTrajectories(items=())
    made = trajectories_of(profile, found.record.context, spans)
    return TaskTrajectories(items=tuple(made))


def _question(beginning: str) -> str:
    """The last message of the user in the beginning of a context; empty where none is told."""
    context: JsonValue = None
    if len(beginning) < _BEGINNING:
        context = load_json(beginning)
    else:
        with contextlib.suppress(ValueError):  # half a character is escaped in it
            context = from_json(beginning, allow_partial="trailing-strings")
        if isinstance(context, dict):  # a list may lack its last items
            context = {name: each for name, each in context.items() if isinstance(each, str)}
    asked = questions_of_context(context)
    text = " ".join(asked[-1][:_BEGINNING].split()) if asked else ""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _read(
    store: Store, registry: ProfileRegistry, space: str, uid: str
) -> tuple[RecordHistory, list[Span], AgentEvalProfile | None]:
    found = store.record_history(space, uid)
    if found is None:
        raise ProblemError(404, f"no record {uid!r} is stored; it may have been erased")
    trace_id = found.record.trace_id
    spans = store.spans_of(space, [trace_id]).get(trace_id, []) if trace_id else []
    latest = found.evaluations[0] if found.evaluations else None
    known = None if latest is None else registry.get(space, latest.profile_uid)
    return found, spans, None if known is None else known.profile


def record_items(
    store: Store, prices: PriceTable, space: str, found: Sequence[RecordSummary]
) -> tuple[RecordItem, ...]:
    """Records as listings show them, with what their traces took and cost."""
    totals = store.trace_totals(space, {x.record.trace_id for x in found if x.record.trace_id})
    return tuple(
        record_item(each, totals.get(each.record.trace_id or ""), prices) for each in found
    )


def _of_trace(totals: TraceTotals | None, prices: PriceTable) -> dict[str, Any]:
    return {
        "duration_ms": None if totals is None else max(0, totals.duration_ns) / 1e6,
        **cost_fields(prices.total(() if totals is None else totals.models)),
    }


def record_item(
    summary: RecordSummary, totals: TraceTotals | None = None, prices: PriceTable = NO_PRICES
) -> RecordItem:
    """A record as listings show it.

    Args:
        summary: The record.
        totals: Of its trace, if that is known.
        prices: One's own.
    """
    row: RecordRow = summary.record
    return answer_of(
        RecordItem,
        row,
        profile=row.alias or row.profile_ref,
        state=summary.state.value,
        outcome=summary.outcome,
        created_at=time_at(row.created_ns),
        received_at=time_at(row.received_ns),
        tags=dict(row.tags),
        context_bytes=summary.context_bytes,
        match=summary.match,
        **_of_trace(totals, prices),
        more_matches=summary.more_matches,
    )
