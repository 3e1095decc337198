"""Lists: records, traces and conversations, by the filters that the API has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.web.source import Answer, Source

_PAGE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A field of a filter form."""

    name: str
    """The parameter of the API."""
    label: str
    choices: Sequence[str] = ()
    """Values to choose from; empty for any text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list of the page."""

    name: str
    title: str
    path: str
    """The API's route."""
    filters: Sequence[Filter]


LISTS: Final[Mapping[str, Listing]] = {
    each.name: each
    for each in (
        Listing(
            name="evaluations",
            title="Evaluations",
            path="evaluations",
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(
                    name="outcome", label="Outcome",
                    choices=("failed", "errored", "passed", "skipped"),
                ),
                Filter(name="task_id", label="Task"),
                Filter(
                    name="task_outcome", label="Task outcome",
                    choices=("failed", "errored", "passed", "skipped"),
                ),
                Filter(name="record_id", label="Record id"),
                Filter(name="service_version", label="Version"),
                Filter(name="tag", label="Tag (key=value)"),
                Filter(name="since", label="Since"),
                Filter(name="until", label="Until"),
            ),
        ),
        Listing(
            name="records",
            title="Records",
            path="records",
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(
                    name="state", label="State",
                    choices=("waiting", "evaluated", "skipped", "dead_lettered", "expired"),
                ),
                Filter(name="record_id", label="Record id"),
                Filter(name="session_id", label="Conversation"),
                Filter(name="trace_id", label="Trace id"),
                Filter(name="since", label="Since"),
                Filter(name="until", label="Until"),
            ),
        ),
        Listing(
            name="traces",
            title="Traces",
            path="traces",
            filters=(
                Filter(name="name", label="Span name"),
                Filter(name="service_name", label="Service"),
                Filter(name="status", label="Status", choices=("error", "ok", "unset")),
                Filter(name="agent_name", label="Agent"),
                Filter(name="tool_name", label="Tool"),
                Filter(name="response_model", label="Model"),
                Filter(name="error_type", label="Error type"),
                Filter(name="min_duration_ms", label="At least ms"),
                Filter(name="since", label="Since"),
                Filter(name="until", label="Until"),
            ),
        ),
        Listing(
            name="conversations",
            title="Conversations",
            path="sessions",
            filters=(
                Filter(name="profile", label="Profile"),
                Filter(name="since", label="Since"),
                Filter(name="until", label="Until"),
            ),
        ),
    )
}  # fmt: skip


async def list_view(source: Source, listing: Listing, given: Mapping[str, str]) -> Answer:
    """Collect one page of a list.

    Args:
        source: Asks the API.
        listing: Which list.
        given: The filters, and `cursor` for a page behind the first.

    Raises:
        AskError: The API refused a filter.
    """
    known = {each.name for each in listing.filters}
    filters = {name: value for name, value in given.items() if name in known and value}
    page = await source.get(listing.path, limit=_PAGE, cursor=given.get("cursor"), **filters)
    return {
        "listing": listing,
        "filters": filters,
        "items": page["items"],
        "next_cursor": page["next_cursor"],
        "is_first": not given.get("cursor"),
    }
