"""The route of exports."""

from typing import Final, Literal, TypeAlias, Unpack

from scouter.client.call import Request, StreamCall, query_of
from scouter.client.routes.evaluations import EvaluationSearch

ExportKind: TypeAlias = Literal["records", "evaluations", "task_results"]
ExportFormat: TypeAlias = Literal["jsonl", "csv"]
_PART_BYTES: Final = 4 * 2**20
"""Bytes of an export that the client holds in memory; a longer line is held alone."""


def export(
    kind: ExportKind,
    format: ExportFormat = "jsonl",
    *,
    state: str | None = None,
    **search: Unpack[EvaluationSearch],
) -> StreamCall:
    """Everything that is stored and matches, as the bytes of a file, part by part.

    Args:
        kind: Kind of the exported rows; each record is there once, with its latest evaluation.
        format: One JSON object a line, or CSV with a header.
        state: Of records; other kinds have none.
        profile: Alias, name, uid or digest.
        record_id: The user's name for a record.
        session_id: Of the record.
        trace_id: Of the record.
        outcome: And what follows but the times: of evaluations and task results; see `evaluations`.
        task_id: See `outcome`.
        task_outcome: See `outcome`.
        service_name: See `outcome`.
        service_version: See `outcome`.
        environment: See `outcome`.
        tags: See `outcome`.
        since: From this time on.
        until: Before this time.

    Each part is a request of its own, so that a connection that breaks costs one of them. A part
    behind the first is asked for again for up to a minute, as after a restart of the collector.

    Raises:
        TransientError: The rest cannot be had; what came before is not the whole.
    """
    found = query_of(EvaluationSearch, search, tags="tag")
    query = {"format": format, "state": state, **found, "part_bytes": _PART_BYTES}
    return StreamCall(
        request=Request(method="GET", path="/export/{kind}", places={"kind": kind}, query=query)
    )
