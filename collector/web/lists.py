"""Lists: records, traces and conversations, by the filters that the API has."""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams

from collector.problem import ProblemError
from collector.store.reads import NOT_PASSED
from collector.web.period import PERIODS
from collector.web.source import Shown, Source
from scouter.cli.export import write_parquet
from scouter.client.models.answer import Facet, FacetList, Page, Searched
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import RecordItem, SessionItem
from scouter.client.models.traces import TraceItem
from scouter.client.request import NEXT_CURSOR

_PAGE: Final = 50
_PART_BYTES: Final = 2**20
_FILES: Final = 4
_PLACES: Final[defaultdict[str, asyncio.Semaphore]] = defaultdict(lambda: asyncio.Semaphore(_FILES))
"""By space: Parquet files that are being made or read at a time. Nobody waits for a place."""
_SLACK_S: Final = 3_600
"""Time by which a sender's clock may be ahead of the collector's."""
_LONGEST: Final = 512
"""Characters of a value that the API takes as a filter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A field of a filter form."""

    name: str
    """The parameter of the API."""
    label: str
    choices: Sequence[str] = ()
    """Values to choose from; empty for any text."""
    is_rare: bool = False
    """Stands among those that are folded."""
    is_switch: bool = False
    """It is on, or not given."""
    is_many: bool = False
    """It may be given several times: everything shown has all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list of the page."""

    name: str
    title: str
    about: str
    """The meaning of a row, in a sentence."""
    path: str
    """The API's route."""
    item: type[BaseModel]
    """One of its items."""
    filters: Sequence[Filter]
    exports: Sequence[str] = ()
    """Kinds that the API exports of it."""


_RANGE: Final = "range"
_TAG: Final = "tag"
_TEXT: Final = "text"
"""A list that a text filters is neither counted nor exported: it takes reading everything."""
_OUTCOMES: Final = (NOT_PASSED, "failed", "errored", "passed", "skipped", "pending")
_ENDED: Final = _OUTCOMES[:-1]
_PERIOD: Final = (
    Filter(name=_RANGE, label="Last", choices=tuple(each.name for each in PERIODS)),
    Filter(name="since", label="Since", is_rare=True),
    Filter(name="until", label="Until", is_rare=True),
)

Filters: TypeAlias = Mapping[str, str | list[str]]
"""Parameters that are given; a list where one may be given several times."""
_OF_TRACE: Final = (
    Filter(name="user_id", label="User"),
    Filter(name="attribute", label="Attribute (key=value)", is_rare=True, is_many=True),
)

LISTS: Final[Mapping[str, Listing]] = {
    each.name: each
    for each in (
        Listing(
            name="evaluations",
            title="Evaluations",
            about="One row is one record, or one conversation, with the results of its checks.",
            path="evaluations",
            item=Evaluation,
            exports=("evaluations", "task_results"),
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(
                    name="outcome", label="Outcome of the record",
                    choices=_ENDED,
                ),
                Filter(name="task_id", label="Task"),
                Filter(
                    name="task_outcome", label="Outcome of the task",
                    choices=_ENDED,
                ),
                Filter(name="record_id", label="Record id", is_rare=True),
                Filter(name="service_name", label="Service", is_rare=True),
                Filter(name="service_version", label="Version"),
                Filter(name="environment", label="Environment", is_rare=True),
                Filter(name=_TAG, label="Tag (key=value)", is_rare=True),
                Filter(name="setup", label="Ran with (kind=value)", is_rare=True),
                *_OF_TRACE,
                *_PERIOD,
            ),
        ),
        Listing(
            name="records",
            title="Records",
            about="One row is one record as an agent sent it, be it evaluated or not.",
            path="records",
            item=RecordItem,
            exports=("records",),
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(
                    name="state", label="State",
                    choices=("waiting", "evaluated", "skipped", "dead_lettered", "expired"),
                ),
                Filter(name="record_id", label="Record id"),
                Filter(name=_TEXT, label="Text in the context", is_many=True),
                Filter(name="session_id", label="Conversation"),
                Filter(name="trace_id", label="Trace id", is_rare=True),
                *_OF_TRACE,
                *_PERIOD,
            ),
        ),
        Listing(
            name="traces",
            title="Traces",
            about="One row is one trace: all spans of one run of an agent.",
            path="traces",
            item=TraceItem,
            filters=(
                Filter(name="name", label="Span name", is_rare=True),
                Filter(name=_TEXT, label="Text in the spans", is_many=True),
                Filter(name="service_name", label="Service", is_rare=True),
                Filter(name="service_version", label="Version"),
                Filter(name="environment", label="Environment", is_rare=True),
                Filter(name="status", label="Status", choices=("error", "ok", "unset")),
                Filter(name="agent_name", label="Agent"),
                Filter(name="tool_name", label="Tool"),
                Filter(name="without_tool", label="Tool not called"),
                Filter(name="response_model", label="Model", is_rare=True),
                Filter(name="error_type", label="Error type", is_rare=True),
                Filter(name="min_duration_ms", label="At least ms", is_rare=True),
                Filter(name="min_tokens", label="Tokens of a call", is_rare=True),
                Filter(name="same_span", label="All on one span", is_switch=True, is_rare=True),
                *_OF_TRACE,
                Filter(name="profile", label="Profile"),
                Filter(name="outcome", label="Outcome of a record", choices=_OUTCOMES),
                Filter(name="task_id", label="Task"),
                Filter(name="task_outcome", label="Outcome of the task", choices=_OUTCOMES),
                Filter(name=_TAG, label="Tag (key=value)", is_rare=True),
                *_PERIOD,
            ),
        ),
        Listing(
            name="conversations",
            title="Conversations",
            about="One row is one conversation: all records of one session. One in which a "
            "record failed and another one errored counts as both.",
            path="sessions",
            item=SessionItem,
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(name=_TEXT, label="Text in records or spans", is_many=True),
                Filter(name="outcome", label="Outcome", choices=_OUTCOMES),
                Filter(name="task_id", label="Task"),
                Filter(name="task_outcome", label="Outcome of the task", choices=_OUTCOMES),
                Filter(name=_TAG, label="Tag (key=value)", is_rare=True),
                Filter(name="tool_name", label="Tool"),
                Filter(name="response_model", label="Model", is_rare=True),
                Filter(name="min_duration_ms", label="At least ms", is_rare=True),
                Filter(name="min_tokens", label="At least tokens", is_rare=True),
                *_OF_TRACE,
                *_PERIOD,
            ),
        ),
    )
}  # fmt: skip


async def list_view(source: Source, listing: Listing, given: QueryParams, now_s: float) -> Shown:
    """Collect one page of a list.

    Args:
        source: Asks the API.
        listing: The list.
        given: The filters, and `cursor` for a page behind the first.
        now_s: The end of a period that ends now, in seconds since 1970.

    Raises:
        ProblemError: The API refused a filter.
    """
    filters = _known(listing, given)
    parameters = _parameters(filters, now_s)
    more = {"questions": "true"} if listing.item is TraceItem else {}
    page = await source.get(
        Page[listing.item],
        listing.path,
        limit=_PAGE,
        cursor=given.get("cursor"),
        **parameters,
        **more,
    )
    records = [each for each in page.items if isinstance(each, RecordItem | Evaluation)]
    oldest_s = min((each.created_at.timestamp() for each in records), default=0)
    return {
        "listing": listing,
        "filters": filters,
        "items": page.items,
        "questions": await source.questions(records, max(0, int(oldest_s) - _SLACK_S)),
        "next_cursor": page.next_cursor,
        "looked_until": page.looked_until if isinstance(page, Searched) else None,
        "is_first": not given.get("cursor"),
        "exports": () if _TEXT in filters else listing.exports,
        "has_facets": _TEXT not in filters,
        "is_of_a_day": listing.name == "traces" and _TEXT in filters and "since" not in parameters,
    }


async def facets_view(source: Source, listing: Listing, given: QueryParams, now_s: float) -> Shown:
    """Count a list's items by value.

    Args:
        source: Asks the API.
        listing: The list.
        given: The filters.
        now_s: The end of a period that ends now, in seconds since 1970.

    Raises:
        ProblemError: The API refused a filter.
    """
    filters = _known(listing, given)
    facets = await source.get(FacetList, f"facets/{listing.path}", **_parameters(filters, now_s))
    labels = {each.name: each.label for each in listing.filters}
    tag = str(filters.get(_TAG, ""))
    shown = [
        _alone(each, tag) if each.name == _TAG and tag else each
        for each in _in_order(list(labels), facets.items)
    ]
    return {
        "listing": listing,
        "filters": filters,
        "facets": {**dict(facets), "items": shown},
        "labels": labels,
        "longest": _LONGEST,
    }


async def download_list(
    source: Source, listing: Listing, given: QueryParams, kind: str, form: str, now_s: float
) -> AsyncIterator[bytes]:
    """Read everything that a list holds as a file, in parts of bounded size.

    Args:
        source: Asks the API.
        listing: The list.
        given: The filters.
        kind: One of the list's `exports`.
        form: `csv` or `jsonl`.
        now_s: The end of a period that ends now, in seconds since 1970.

    Raises:
        ProblemError: The API refused a filter, or the next part cannot be had.
    """
    parameters, cursor = _parameters(_known(listing, given), now_s), None
    while True:
        part = await source.file(
            f"export/{kind}", format=form, part_bytes=_PART_BYTES, cursor=cursor, **parameters
        )
        yield part.content
        cursor = part.headers.get(NEXT_CURSOR)
        if cursor is None:
            return


async def as_parquet(lines: AsyncIterator[bytes], space: str) -> AsyncGenerator[bytes]:
    """Turn JSON lines into a Parquet file, which takes all of them before its first byte.

    Args:
        lines: Their bytes, cut anywhere.
        space: Whose they are; each may have a few such files at a time, which are open until their
            readers have them.

    Raises:
        ProblemError: The space has as many as it may have.

    Cost: the lines and the file on the disk of temporary files meanwhile.
    """
    place = _PLACES[space]
    if place.locked():
        why = f"{_FILES} Parquet files of this space are being downloaded; come back"
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, why)
    async with place:
        with tempfile.TemporaryFile() as made:
            with tempfile.TemporaryFile() as given:
                async for part in lines:
                    await run_in_threadpool(given.write, part)
                given.seek(0)
                parts = iter(lambda: given.read(_PART_BYTES), b"")
                await run_in_threadpool(write_parquet, parts, made, Path(tempfile.gettempdir()))
            made.seek(0)
            while part := await run_in_threadpool(made.read, _PART_BYTES):
                yield part


def _known(listing: Listing, given: QueryParams) -> Filters:
    is_many = {each.name: each.is_many for each in listing.filters}
    found: dict[str, str | list[str]] = {}
    for name in given:  # in their order, which addresses have
        values = [value for value in given.getlist(name) if value and name in is_many]
        if values:
            found[name] = values if is_many[name] else values[-1]
    return found


def _in_order(names: Sequence[str], facets: Sequence[Facet]) -> list[Facet]:
    """The facets in the order of the form."""
    return sorted(facets, key=lambda each: names.index(each.name))


def _alone(facet: Facet, value: str) -> Facet:
    """One value of a facet: the form takes one tag, so that no other one joins the filter."""
    values = tuple(each for each in facet.values if each.value == value)
    return Facet(name=facet.name, values=values, others=0)


def _parameters(filters: Filters, now_s: float) -> dict[str, str | list[str]]:
    """The filters as the API takes them: it knows no period that ends now."""
    parameters = dict(filters)
    name = parameters.pop(_RANGE, None)
    if name is not None and "since" not in parameters:
        period = next((each for each in PERIODS if each.name == name), None)
        if period is None:
            known = ", ".join(each.name for each in PERIODS)
            raise ProblemError(
                HTTPStatus.BAD_REQUEST, f"range: {str(name)[:100]!r} is none of {known}"
            )
        parameters["since"] = str(period.since(now_s))
    return parameters
