"""Routes of records, sessions and exports."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, TypedDict, Unpack

from scouter.client.connection import Connection
from scouter.client.models.answer import FacetList
from scouter.client.models.records import (
    Questions,
    Record,
    RecordItem,
    Session,
    SessionItem,
    TaskTrajectories,
)
from scouter.client.request import Moment, arguments
from scouter.client.routes.evaluations import EvaluationSearch


class SessionSearch(TypedDict, total=False):
    """Properties that a session has, all of them."""

    profile: str | None
    outcome: str | None
    task_id: str | None
    task_outcome: str | None
    tags: Mapping[str, str] | None
    tool_name: str | None
    response_model: str | None
    user_id: str | None
    attributes: Mapping[str, str] | None
    min_duration_ms: float | None
    min_tokens: int | None
    since: Moment | None
    until: Moment | None


ExportKind: TypeAlias = Literal["records", "evaluations", "task_results"]


ExportFormat: TypeAlias = Literal["jsonl", "csv"]


_PART_BYTES: Final = 4 * 2**20
"""Bytes of an export that the client has in memory; a longer line is there alone."""


class RecordRoutes(Connection):
    """Routes of records, sessions and exports."""

    def records(
        self,
        *,
        profile: str | None = None,
        record_id: str | None = None,
        session_id: str | None = None,
        trace_id: str | None = None,
        user_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        state: str | None = None,
        text: str | Sequence[str] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        limit: int | None = None,
    ) -> Iterator[RecordItem]:
        """Records without their contexts, newest first.

        Args:
            profile: As the record names it.
            record_id: The user's name for a record.
            session_id: Of the record.
            trace_id: Of the record.
            user_id: That a span of its trace names.
            attributes: Values of attributes of spans of its trace; all of them.
            state: One of `waiting evaluated skipped expired dead_lettered erased`.
            text: In a value or a name of the context, in upper or lower case; of several all. A
                page holds what one second of search finds.
            since: Accepted at this time or later.
            until: Accepted before this time.
            limit: Items per page, 1 to 1000; all pages are read, one after the other.
        """
        return self._pages(RecordItem, "/records", arguments(locals()))

    def record_facets(
        self,
        *,
        profile: str | None = None,
        record_id: str | None = None,
        session_id: str | None = None,
        trace_id: str | None = None,
        user_id: str | None = None,
        attributes: Mapping[str, str] | None = None,
        state: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> FacetList:
        """Records by profile and state; the filters are those of `records`.

        The newest are counted first, for about 0.3 s.
        """
        return self._get(FacetList, "/facets/records", arguments(locals()))

    def session_facets(self, **search: Unpack[SessionSearch]) -> FacetList:
        """Sessions by profile, outcome, task, tag, tool, model and user, filtered as `sessions`.

        The newest are counted first, for about 0.3 s.
        """
        return self._get(FacetList, "/facets/sessions", arguments(locals(), SessionSearch))

    def record(self, uid: str) -> Record:
        """One record with its context and every revision of its evaluation.

        Args:
            uid: Its key.
        """
        return self._get(Record, "/records/{uid}", arguments(locals()))

    def questions(self, uids: Sequence[str], *, since: Moment | None = None) -> Questions:
        """Questions of users, as far as the beginnings of the records' contexts have them.

        Args:
            uids: Of the records, 100 at most.
            since: Accepted at this time or later, which is faster to find.
        """
        return self._get(Questions, "/questions", {"uid": list(uids), "since": since})

    def record_scenario(self, uid: str) -> Iterator[bytes]:
        """A record as a scenario file in YAML, as `scouter scenarios harvest` writes it.

        Args:
            uid: Of the record.
        """
        return self._parts("/scenarios/{uid}", arguments(locals()))

    def trajectories(self, uid: str) -> TaskTrajectories:
        """The calls that the tasks on a record expect, beside those that were made.

        Args:
            uid: Of the record.
        """
        return self._get(TaskTrajectories, "/trajectories/{uid}", arguments(locals()))

    def sessions(
        self,
        *,
        text: str | Sequence[str] | None = None,
        limit: int | None = None,
        **search: Unpack[SessionSearch],
    ) -> Iterator[SessionItem]:
        """Sessions with a record that the filter names, the one with the newest such record first.

        Args:
            text: In the context of such a record, or in a span of its trace, in upper or lower
                case; of several all.
            limit: Items per page, 1 to 1000; all pages are read, one after the other. With a filter
                other than profile and times a page holds what one second of search finds.
            profile: Alias, name, uid or digest of that of a record.
            outcome: `failed`, `errored`, `not_passed` or `pending` of one record, or of the
                session itself; `passed` of all, skipped ones aside; `skipped` of all.
            task_id: Of its evaluations.
            task_outcome: How that task, or any task, ended.
            tags: All of them on one record.
            tool_name: Of a span of its traces.
            response_model: Of a span of its traces.
            user_id: Of a span of its traces.
            attributes: Values of attributes of spans of its traces; all of them.
            min_duration_ms: From the start of its first span to the end of its last.
            min_tokens: Fewest tokens of all its calls of models, input and output together.
            since: A record was accepted at this time or later.
            until: A record was accepted before this time.
        """
        return self._pages(SessionItem, "/sessions", arguments(locals(), SessionSearch))

    def session(self, session_id: str, *, limit: int | None = None) -> Session:
        """One session: its records, evaluations and traces.

        Args:
            session_id: Its id.
            limit: Most of each, 1 to 1000; 1000 by default.
        """
        return self._get(Session, "/sessions/{session_id}", arguments(locals()))

    def export(
        self,
        kind: ExportKind,
        format: ExportFormat = "jsonl",
        *,
        state: str | None = None,
        **search: Unpack[EvaluationSearch],
    ) -> Iterator[bytes]:
        """Everything that is stored and matches, as the bytes of a file, part by part.

        Args:
            kind: Kind of the exported rows; each record is there once, with its latest evaluation.
            format: One JSON object a line, or CSV with a header.
            state: Of records; other kinds have none.
            profile: Alias, name, uid or digest.
            record_id: The user's name for a record.
            session_id: Of the record.
            trace_id: Of the record.
            outcome: And what follows but the times: of evaluations and task results; see
                `evaluations`.
            task_id: See `outcome`.
            task_outcome: See `outcome`.
            service_name: See `outcome`.
            service_version: See `outcome`.
            environment: See `outcome`.
            tags: See `outcome`.
            user_id: That a span of its trace names.
            attributes: Values of attributes of spans of its trace; all of them.
            since: From this time on.
            until: Before this time.

        Each part is a request of its own, so that a connection that breaks costs one of them. A
        part behind the first is requested again for up to a minute, as after a restart of the
        collector.

        Raises:
            TransientError: The rest cannot be had; what came before is not the whole.
        """
        given = arguments(locals(), EvaluationSearch)
        return self._parts("/export/{kind}", {**given, "part_bytes": _PART_BYTES})
