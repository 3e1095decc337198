"""One call of the collector's API as data; who sends it is another matter."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, Generic, TypeAlias, TypeVar, cast
from urllib.parse import quote

from pydantic import BaseModel, JsonValue

from scouter.client.models.answer import Page
from scouter.errors import ConfigError

API = "/api/v1"
NEXT_CURSOR = "Scouter-Next-Cursor"
"""Header of an answer that is one part of several: the `cursor` of the next one."""

Moment: TypeAlias = datetime.datetime | int | float | str
"""A time: a datetime with a zone, RFC 3339, or a number since 1970, whose unit (seconds,
milliseconds, microseconds or nanoseconds) the collector tells by its size."""
QueryValue: TypeAlias = Moment | list[str] | None

COMMIT_S: Final = 90.0
"""Longest wait for one commit; the collector itself gives up after 60 s and says so."""
PAGE_S: Final = 600.0
"""Longest wait for an order of several commits.

If the client gives up earlier, the collector goes on, and its answer is lost.
"""

T = TypeVar("T", bound=BaseModel)
Item = TypeVar("Item", bound=BaseModel)


def _nothing() -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to a collector.

    Args:
        method: `GET`, `POST` or `PUT`.
        path: Path below `/api/v1`, with the names of `places` in braces.
        places: Text for each name in the path; it is escaped when it is put there.
        query: The parameters; those that are None are not sent.
        body: Sent as JSON unless None.
        is_repeatable: False if a second delivery does something else than the first.
        takes_s: Seconds that the answer may take, if more than the client usually waits.
        is_continued: True if the request reads on in a long list. It is tried again for longer, as
            a failure would lose all that was read.

    Raises:
        ConfigError: A time has no zone.
    """

    method: str
    path: str
    places: Mapping[str, str] = field(default_factory=_nothing)
    query: Mapping[str, QueryValue] = field(default_factory=_nothing)
    body: JsonValue = None
    is_repeatable: bool = True
    takes_s: float = 0.0
    is_continued: bool = False

    @property
    def url_path(self) -> str:
        """The path as it stands in the address."""
        escaped = {name: _segment(name, text) for name, text in self.places.items()}
        return API + self.path.format_map(escaped)

    @property
    def params(self) -> dict[str, str | list[str]]:
        """The query as texts."""
        return {
            name: value if isinstance(value, list) else text_of(name, value)
            for name, value in self.query.items()
            if value is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request and the model of its answer."""

    request: Request
    model: type[T]


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedCall(Call[Page[Item]], Generic[Item]):
    """A call whose answer is a page of a longer list."""

    def after(self, cursor: str) -> "PagedCall[Item]":
        """The call for the page behind a cursor."""
        query = {**self.request.query, "cursor": cursor}
        return replace(self, request=replace(self.request, query=query))


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCall:
    """A call whose answer is read in parts, as it may be of any size."""

    request: Request

    def after(self, cursor: str) -> "StreamCall":
        """The call for the part behind a cursor."""
        query = {**self.request.query, "cursor": cursor}
        return replace(self, request=replace(self.request, query=query, is_continued=True))


def get(
    path: str,
    model: type[T],
    *,
    at: Mapping[str, str] | None = None,
    query: Mapping[str, QueryValue] | None = None,
) -> Call[T]:
    """Describe a question with one answer."""
    request = Request(method="GET", path=path, places=at or {}, query=query or {})
    return Call(request=request, model=model)


def pages(path: str, item: type[Item], query: Mapping[str, QueryValue]) -> PagedCall[Item]:
    """Describe a question whose answer is a list in pages."""
    request = Request(method="GET", path=path, query=query)
    return PagedCall(request=request, model=Page[item])


def post(
    path: str,
    model: type[T],
    *,
    at: Mapping[str, str] | None = None,
    query: Mapping[str, QueryValue] | None = None,
    body: JsonValue = None,
    is_repeatable: bool = True,
    takes_s: float = 0.0,
) -> Call[T]:
    """Describe an order."""
    request = Request(
        method="POST",
        path=path,
        places=at or {},
        query=query or {},
        body=body,
        is_repeatable=is_repeatable,
        takes_s=takes_s,
    )
    return Call(request=request, model=model)


def put(path: str, model: type[T], *, at: Mapping[str, str], body: JsonValue) -> Call[T]:
    """Describe what is put at a place; a second delivery does the same."""
    return Call(request=Request(method="PUT", path=path, places=at, body=body), model=model)


def query_of(
    known: type[object], given: Mapping[str, object], **repeated: str
) -> dict[str, QueryValue]:
    """Write the arguments of a search as parameters of a query.

    Args:
        known: Typed dictionary that names all arguments; one that is not given is None.
        given: The arguments.
        repeated: The parameter that has each pair of an argument that maps texts to texts.

    Raises:
        TypeError: An argument has no such name.
    """
    names = known.__annotations__
    if wrong := given.keys() - names.keys():
        raise TypeError(f"no argument {min(wrong)!r}; expected some of {', '.join(names)}")
    query = cast("dict[str, QueryValue]", {**dict.fromkeys(names), **given})
    for name, parameter in repeated.items():
        pairs = cast("Mapping[str, str] | None", query.pop(name))
        query[parameter] = [f"{key}={value}" for key, value in (pairs or {}).items()] or None
    return query


def _segment(name: str, text: str) -> str:
    if text in ("", ".", ".."):  # would be another path
        raise ConfigError(
            f"{name}: {text!r} names nothing; pass an id as an answer of the API has it"
        )
    return quote(text, safe="")


def text_of(name: str, value: Moment) -> str:
    """Write a value as the API reads it.

    Raises:
        ConfigError: A time without a zone; names the parameter.
    """
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ConfigError(f"{name}: {value} has no time zone; pass one, such as datetime.UTC")
        return value.isoformat()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
