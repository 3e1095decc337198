"""Everything of one kind as a file, read in parts of bounded size: memory does not grow with it.

No part keeps anything for the next one but its cursor. So whoever reads slowly holds nothing in the
store, commits go on between two parts, and a client whose connection broke requests the rest.
"""

import csv
import io
import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from threading import Semaphore
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

from fastapi import Depends, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel
from starlette.types import Receive, Scope, Send

from collector.api.evaluations import evaluation_answer, evaluation_filter
from collector.api.parameters import (
    BAD_CURSOR,
    Cursor,
    api_router,
    read_cursor,
    write_cursor,
)
from collector.api.parts import TheParts
from collector.api.records import record_item
from collector.judging.calibrations import KnownJudges
from collector.problem import ProblemError
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.json_text import load_json
from collector.store.record_queries import RecordQuery
from collector.store.rows import RecordState
from collector.store.store import Store
from collector.worker.worker import CATCH_UP_S
from scouter.client.models.evaluations import Evaluation, TaskResult
from scouter.client.models.records import RecordItem
from scouter.client.request import NEXT_CURSOR
from scouter.errors import TransientError

_ITEMS: Final = 1000
"""That are looked for together; their long texts are read a few at a time."""
_PAGE_BYTES: Final = 2 * 2**20
"""Bytes of long texts that are in memory together; a larger text is there alone."""
_MOST_BYTES: Final = 16 * 2**20
_STREAMS: Final = 4
"""Whole files of one space that are written at a time; each has a part in memory."""
_RETRY_AFTER_S: Final = 5
_PAUSES_S: Final = (0.1, 0.5, 1, 2, 5, 10)
"""Before a part is read again: its reader got a success, and cannot repeat the request."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")

Row: TypeAlias = tuple[Mapping[str, Any], str | None]
"""Fields, and the JSON of one more that is called `context`, if there is one."""
Place: TypeAlias = tuple[int, int]


class ExportKind(StrEnum):
    """Kinds of rows that can be exported."""

    RECORDS = "records"
    EVALUATIONS = "evaluations"
    TASK_RESULTS = "task_results"


class ExportFormat(StrEnum):
    """Formats of an export."""

    JSONL = "jsonl"
    CSV = "csv"


_MEDIA: Final = {ExportFormat.JSONL: "application/x-ndjson", ExportFormat.CSV: "text/csv"}


router = api_router(is_caught_up=False)
_streams: defaultdict[str, Semaphore] = defaultdict(lambda: Semaphore(_STREAMS))
"""Places by space, for all collectors of the process: it is its memory that they bound."""
_cursor_header = {"description": "`cursor` of the next part.", "schema": {"type": "string"}}


@router.get(
    "/export/{kind}",
    response_class=StreamingResponse,
    responses={
        200: {
            "content": {_MEDIA[each]: {} for each in ExportFormat},
            "headers": {NEXT_CURSOR: _cursor_header},
        }
    },
)
def export(
    parts: TheParts,
    kind: ExportKind,
    query: Annotated[EvaluationQuery, Depends(evaluation_filter)],
    format: ExportFormat = ExportFormat.JSONL,
    state: RecordState | None = None,
    part_bytes: Annotated[int | None, Query(ge=1, le=_MOST_BYTES)] = None,
    cursor: Cursor = None,
) -> Response:
    """All records, evaluations or task results that match, newest first, as they are now.

    Each record is there once, with its latest evaluation. The time is that of acceptance for
    records, that of evaluation for the others. The filters are those of the lists; `state` is
    one of records alone, and task results are those of the evaluations that match. In CSV,
    values that are not plain are JSON, and a text that begins with `=`, `+`, `-`, `@`, a tab
    or a carriage return has a `'` before it: a spreadsheet would run it as a formula.

    With `part_bytes` the answer ends with the line that makes it so long, and its header
    `Scouter-Next-Cursor` is the `cursor` of the next part; the last part has none. All parts
    together are the file, as the store was when the first one was requested.
    """
    before, as_of = read_cursor(cursor)
    if cursor is None:
        parts.catch_up(CATCH_UP_S)  # what was acknowledged before is there
    elif as_of is None:
        raise ProblemError(400, BAD_CURSOR)
    whole = _Export(
        store=parts.store,
        judges=parts.judges,
        kind=kind,
        format=format,
        query=_for_kind(kind, query, state),
        as_of=parts.store.last_seq() if as_of is None else as_of,
        page_bytes=min(_PAGE_BYTES, part_bytes or _PAGE_BYTES),
    )
    headers = {"Content-Disposition": f'attachment; filename="{kind}.{format}"'}
    if part_bytes is None:
        first = whole.part(before)  # what cannot be read at all is an answer with a status
        place = _streams[query.space]
        if not place.acquire(blocking=False):
            raise ProblemError(
                503,
                f"{_STREAMS} exports of this space are being written; come back, or ask for "
                "parts with `part_bytes`",
                _RETRY_AFTER_S,
            )
        return _Streamed(whole.stream(first), place, media_type=_MEDIA[format], headers=headers)
    part = whole.part(before, part_bytes)
    if part.rest is not None:
        headers[NEXT_CURSOR] = write_cursor(part.rest, whole.as_of) or ""
    return Response(part.text, media_type=_MEDIA[format], headers=headers)


def _for_kind(
    kind: ExportKind, query: EvaluationQuery, state: RecordState | None
) -> EvaluationQuery | RecordQuery:
    """The filter as the list of a kind takes it.

    Raises:
        ProblemError: 400; the list has no such filter.
    """
    if kind is not ExportKind.RECORDS:
        if state is not None:
            raise ProblemError(400, f"state: {kind} are not filtered by it; records are")
        return query
    given = {name: getattr(query, name) for name in _OF_RECORDS}
    others = [each.name for each in fields(EvaluationQuery) if each.name not in given]
    for name in others:
        if getattr(query, name) != getattr(EvaluationQuery(space=query.space), name):
            raise ProblemError(
                400,
                f"{_PARAMETERS.get(name, name)}: records are not filtered by it; evaluations are",
            )
    return RecordQuery(**given, state=state)


class _Part(NamedTuple):
    """Lines of a file, and where what comes behind them begins."""

    text: str
    rest: Place | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Export:
    """A file of all that a query finds, read page by page."""

    store: Store
    judges: KnownJudges
    kind: ExportKind
    format: ExportFormat
    query: EvaluationQuery | RecordQuery
    as_of: int
    page_bytes: int
    """A page ends early where its long texts are about so long."""

    def part(self, before: Place | None, part_bytes: int = 0) -> _Part:
        """The lines behind a place, at least one page of them and until they are about so long."""
        texts: list[str] = []
        size = 0
        while True:
            is_start = before is None
            query = replace(self.query, as_of=self.as_of, limit=_ITEMS, before=before)
            is_of_records = isinstance(query, RecordQuery)
            rows, before = self._records(query) if is_of_records else self._evaluations(query)
            if self.format is ExportFormat.JSONL:
                texts.append("".join(map(_line, rows)))
            else:
                texts.append(_csv(_COLUMNS[self.kind], rows, has_header=is_start))
            size += len(texts[-1])
            if before is None or size >= part_bytes:
                return _Part("".join(texts), before)

    def stream(self, part: _Part) -> Iterator[str]:
        """A part and all behind it; none is read before the one in front of it was sent.

        Raises:
            TransientError: The store cannot be read for so long that the answer ends here, cut off.
        """
        yield part.text
        while part.rest is not None:
            part = self._insist(part.rest)
            yield part.text

    def _insist(self, before: Place) -> _Part:
        for pause_s in _PAUSES_S:
            try:
                return self.part(before)
            except TransientError:
                time.sleep(pause_s)
        return self.part(before)

    def _records(self, query: RecordQuery) -> tuple[list[Row], Place | None]:
        page = self.store.records(replace(query, context_bytes=self.page_bytes))
        rows: list[Row] = [
            (record_item(each).model_dump(mode="json", exclude={*_NOT_EXPORTED}), each.context)
            for each in page.items
        ]
        return rows, page.next_before

    def _evaluations(self, query: EvaluationQuery) -> tuple[list[Row], Place | None]:
        page = self.store.evaluations(replace(query, text_bytes=self.page_bytes))
        rows = [evaluation_answer(each, self.judges).model_dump(mode="json") for each in page.items]
        if self.kind is ExportKind.TASK_RESULTS:
            rows = [
                {name: row[name] for name in _OF_EVALUATION} | task
                for row in rows
                for task in row["tasks"]
            ]
        return [(row, None) for row in rows], page.next_before


class _Streamed(StreamingResponse):
    """An answer that gives its place back when it is over, also where its reader went away."""

    def __init__(
        self, parts: Iterator[str], place: Semaphore, media_type: str, headers: Mapping[str, str]
    ) -> None:
        super().__init__(parts, media_type=media_type, headers=headers)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._place.release()


def _line(row: Row) -> str:
    values, context = row
    text = _json(values)
    return f"{text}\n" if context is None else f'{text[:-1]},"{_CONTEXT}":{context}}}\n'


def _csv(columns: Sequence[str], rows: Sequence[Row], *, has_header: bool) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    if has_header:
        writer.writerow(columns)
    for values, context in rows:
        cells = [cell(values[name]) for name in columns if name != _CONTEXT]
        writer.writerow(cells if context is None else [*cells, _context_cell(context)])
    return out.getvalue()


def _context_cell(context: str) -> str | int | float:
    """Objects and lists as they are stored; of anything else the value."""
    return context if context.startswith(("{", "[")) else cell(load_json(context))


def cell(value: object) -> str | int | float:
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


_CONTEXT: Final = "context"
_NOT_EXPORTED: Final = frozenset(
    {"match", "more_matches", "duration_ms", "cost", "unpriced_models"}
)
"""Fields of a list that a text filters, as an export is none; and what is read from the spans of
each record."""
_OF_EVALUATION: Final = (
    "evaluation_id", "scope", "record_id", "uid", "session_id", "trace_id", "profile",
    "profile_name", "profile_version", "revision", "service_name", "service_version",
    "environment", "evaluated_at",
)  # fmt: skip
_OF_RECORDS: Final = (
    "space", "profile", "record_id", "session_id", "trace_id", "user_id", "attributes",
    "since_ns", "until_ns",
)  # fmt: skip
"""Filters that records and evaluations have in common."""
_PARAMETERS: Final = {"tags": "tag", "attributes": "attribute"}
"""Parameters that are called otherwise than their fields."""
_COLUMNS: Final = {
    ExportKind.RECORDS: (*_fields(RecordItem, *_NOT_EXPORTED), _CONTEXT),
    ExportKind.EVALUATIONS: _fields(Evaluation, "tasks"),
    ExportKind.TASK_RESULTS: (*_OF_EVALUATION, *_fields(TaskResult)),
}
