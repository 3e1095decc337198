"""Routes of records and sessions."""

from collections.abc import Mapping
from typing import TypedDict, Unpack

from scouter.client.call import (
    Call,
    Moment,
    PagedCall,
    QueryValue,
    Request,
    StreamCall,
    get,
    pages,
    query_of,
)
from scouter.client.models.facets import FacetList
from scouter.client.models.records import Record, RecordItem, Session, SessionItem, TaskTrajectories


def records(
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    state: str | None = None,
    text: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    limit: int | None = None,
) -> PagedCall[RecordItem]:
    """Records without their contexts, newest first.

    Args:
        profile: As the record names it.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        state: One of `waiting evaluated skipped expired dead_lettered erased`.
        text: In a value or a name of the context, in upper or lower case. A page holds what one
            second of search finds.
        since: Accepted at this time or later.
        until: Accepted before this time.
        limit: Items per page, 1 to 1000; all pages are read, one after the other.
    """
    return pages("/records", RecordItem, dict(locals()))


def record_facets(
    *,
    profile: str | None = None,
    record_id: str | None = None,
    session_id: str | None = None,
    trace_id: str | None = None,
    state: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
) -> Call[FacetList]:
    """Records by profile and state; the filters are those of `records`.

    The newest are counted first, for about 0.3 s.
    """
    return get("/facets/records", FacetList, query=dict(locals()))


class SessionSearch(TypedDict, total=False):
    """Properties that a session has, all of them."""

    profile: str | None
    outcome: str | None
    task_id: str | None
    task_outcome: str | None
    tags: Mapping[str, str] | None
    tool_name: str | None
    response_model: str | None
    min_duration_ms: float | None
    min_tokens: int | None
    since: Moment | None
    until: Moment | None


def session_facets(**search: Unpack[SessionSearch]) -> Call[FacetList]:
    """Sessions by profile, outcome, task, tag, tool and model; the filters are those of `sessions`.

    The newest are counted first, for about 0.3 s.
    """
    return get("/facets/sessions", FacetList, query=_query(search))


def record(uid: str) -> Call[Record]:
    """One record with its context and every revision of its evaluation.

    Args:
        uid: Its key.
    """
    return get("/records/{uid}", Record, at={"uid": uid})


def record_scenario(uid: str) -> StreamCall:
    """A record as a scenario file in YAML, as `scouter scenarios harvest` writes it.

    Args:
        uid: Of the record.
    """
    return StreamCall(request=Request(method="GET", path="/scenarios/{uid}", places={"uid": uid}))


def trajectories(uid: str) -> Call[TaskTrajectories]:
    """The calls that the tasks on a record expect, beside those that were made.

    Args:
        uid: Of the record.
    """
    return get("/trajectories/{uid}", TaskTrajectories, at={"uid": uid})


def sessions(
    *, text: str | None = None, limit: int | None = None, **search: Unpack[SessionSearch]
) -> PagedCall[SessionItem]:
    """Sessions with a record that is asked for, the one with the newest such record first.

    Args:
        text: In the context of such a record, or in a span of its trace, in upper or lower case.
        limit: Items per page, 1 to 1000; all pages are read, one after the other. With a filter
            other than profile and times a page holds what one second of search finds.
        profile: Alias, name, uid or digest of that of a record.
        outcome: `failed`, `errored` or `pending` of one record at least, or of the session itself;
            `passed` of all, skipped ones aside; `skipped` of all.
        task_id: Of its evaluations.
        task_outcome: How that task, or any task, ended.
        tags: All of them on one record.
        tool_name: Of a span of its traces.
        response_model: Of a span of its traces.
        min_duration_ms: From the start of its first span to the end of its last.
        min_tokens: Fewest tokens of all its calls of models, input and output together.
        since: A record was accepted at this time or later.
        until: A record was accepted before this time.
    """
    return pages("/sessions", SessionItem, {**_query(search), "text": text, "limit": limit})


def _query(search: SessionSearch) -> dict[str, QueryValue]:
    return query_of(SessionSearch, search, tags="tag")


def session(session_id: str, *, limit: int | None = None) -> Call[Session]:
    """One session: its records, evaluations and traces.

    Args:
        session_id: Its id.
        limit: Most of each, 1 to 1000; 1000 by default.
    """
    path, at = "/sessions/{session_id}", {"session_id": session_id}
    return get(path, Session, at=at, query={"limit": limit})
