"""Everything of one kind as a file, written while it is read: memory does not grow with it."""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, Final

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from collector.api import models
from collector.api.evaluations import evaluation_answer
from collector.api.parameters import (
    COMMON,
    PROBLEMS,
    Reader,
    Time,
    caught_up,
    read_time,
)
from collector.api.records import RecordItem, record_item
from collector.judging.known_judges import KnownJudges
from collector.storage.list_rows import EvaluationQuery, RecordQuery, RecordSummary
from collector.storage.port import Store

_PAGE: Final = 200
_PART_BYTES: Final = 2 * 2**20
"""Of contexts that are in memory together; one that is larger is alone."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]
Pages = Iterator[Sequence[Row]]


class ExportKind(StrEnum):
    """What is exported."""

    RECORDS = "records"
    EVALUATIONS = "evaluations"
    TASK_RESULTS = "task_results"


class ExportFormat(StrEnum):
    """How it is written."""

    JSONL = "jsonl"
    CSV = "csv"


def export_router(store: Store, judges: KnownJudges) -> APIRouter:
    """Make the route `/api/v1/export/{kind}`.

    Args:
        store: What is exported.
        judges: What is known of those that judged.
    """
    router = APIRouter(
        prefix="/api/v1",
        tags=["results"],
        responses=PROBLEMS,
        dependencies=[*COMMON, Depends(caught_up(store))],
    )

    @router.get(
        "/export/{kind}",
        response_class=StreamingResponse,
        responses={200: {"content": {_MEDIA[each]: {} for each in ExportFormat}}},
    )
    def export(
        caller: Reader,
        kind: ExportKind,
        format: ExportFormat = ExportFormat.JSONL,
        since: Time = None,
        until: Time = None,
    ) -> StreamingResponse:
        """All records, verdicts or task results of a time, newest first, as they are now.

        Each record is there once, with its latest verdict. The time is that of acceptance for
        records, that of evaluation for the others. In CSV, values that are not plain are JSON, and
        a text that begins with `=`, `+`, `-`, `@`, a tab or a carriage return has a `'` before it:
        a spreadsheet would run it as a formula.
        """
        when = read_time("since", since), read_time("until", until)
        if kind is ExportKind.RECORDS:
            pages = _records(store, caller.space, *when)
        else:
            pages = _evaluations(store, judges, caller.space, *when)
            if kind is ExportKind.TASK_RESULTS:
                pages = _task_results(pages)
        first = next(pages, ())  # what cannot be read at all is an answer with a status
        write = _WRITERS[format]
        return StreamingResponse(
            write(_COLUMNS[kind], chain([first], pages)),
            media_type=_MEDIA[format],
            headers={"Content-Disposition": f'attachment; filename="{kind}.{format}"'},
        )

    return router


def _records(store: Store, space: str, since_ns: int | None, until_ns: int | None) -> Pages:
    as_of, before = store.last_seq(), None
    while True:
        page = store.records(
            RecordQuery(
                space=space, since_ns=since_ns, until_ns=until_ns, as_of=as_of, limit=_PAGE,
                before=before,
            )
        )  # fmt: skip
        for part in _parts(page.items):
            rows = store.records_of(space, [each.record.uid for each in part])
            contexts = {row.uid: row.context for row in rows}
            yield [
                {**record_item(each).model_dump(mode="json"), "context": contexts[each.record.uid]}
                for each in part
                if each.record.uid in contexts
            ]
        before = page.next_before
        if before is None:
            return


def _parts(items: Iterable[RecordSummary]) -> Iterator[list[RecordSummary]]:
    part: list[RecordSummary] = []
    size = 0
    for each in items:
        if part and size + each.context_bytes > _PART_BYTES:
            yield part
            part, size = [], 0
        part.append(each)
        size += each.context_bytes
    if part:
        yield part


def _evaluations(
    store: Store, judges: KnownJudges, space: str, since_ns: int | None, until_ns: int | None
) -> Pages:
    as_of, before = store.last_seq(), None
    while True:
        page = store.evaluations(
            EvaluationQuery(
                space=space, since_ns=since_ns, until_ns=until_ns, as_of=as_of, limit=_PAGE,
                before=before,
            )
        )  # fmt: skip
        yield [evaluation_answer(row, judges).model_dump(mode="json") for row in page.items]
        before = page.next_before
        if before is None:
            return


def _task_results(verdicts: Pages) -> Pages:
    for page in verdicts:
        yield [
            {name: row[name] for name in _OF_VERDICT} | task
            for row in page
            for task in row["tasks"]
        ]


def _jsonl(columns: Sequence[str], pages: Iterable[Sequence[Row]]) -> Iterator[str]:
    del columns  # every line names its own
    for page in pages:
        yield "".join(f"{_json(row)}\n" for row in page)


def _csv(columns: Sequence[str], pages: Iterable[Sequence[Row]]) -> Iterator[str]:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow(columns)
    for page in pages:
        writer.writerows([_cell(row[name]) for name in columns] for row in page)
        yield out.getvalue()
        out.seek(0)
        out.truncate()


def _cell(value: object) -> str | int | float:
    """A value of a CSV file: a text that a spreadsheet would take for a formula is quoted."""
    if value is None:
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    text = value if isinstance(value, str) else _json(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _fields(model: type[BaseModel], *without: str) -> tuple[str, ...]:
    return tuple(name for name in model.model_fields if name not in without)


_OF_VERDICT: Final = (
    "evaluation_id", "scope", "record_id", "uid", "session_id", "trace_id", "profile",
    "profile_name", "profile_version", "revision", "service_name", "service_version",
    "environment", "evaluated_at",
)  # fmt: skip
_COLUMNS: Final = {
    ExportKind.RECORDS: (*_fields(RecordItem), "context"),
    ExportKind.EVALUATIONS: _fields(models.Evaluation, "tasks"),
    ExportKind.TASK_RESULTS: (*_OF_VERDICT, *_fields(models.TaskResult)),
}
_MEDIA: Final = {ExportFormat.JSONL: "application/x-ndjson", ExportFormat.CSV: "text/csv"}
_WRITERS: Final[
    Mapping[ExportFormat, Callable[[Sequence[str], Iterable[Sequence[Row]]], Iterator[str]]]
] = {ExportFormat.JSONL: _jsonl, ExportFormat.CSV: _csv}
