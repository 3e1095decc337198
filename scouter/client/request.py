"""One request to the collector's API as data; who sends it is another matter."""

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast
from urllib.parse import quote

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.model.pair import pair_text

API = "/api/v1"
NEXT_CURSOR = "Scouter-Next-Cursor"
"""Header of an answer that is one part of several: the `cursor` of the next one."""

Moment: TypeAlias = datetime.datetime | int | float | str
"""A time: a datetime with a zone, RFC 3339, or a number since 1970, whose unit (seconds,
milliseconds, microseconds or nanoseconds) the collector finds by its size."""

COMMIT_S: Final = 90.0
"""Longest wait for one commit; the collector itself gives up after 60 s and says so."""
PAGE_S: Final = 600.0
"""Longest wait for an order of several commits.

If the client gives up earlier, the collector goes on, and its answer is lost.
"""
_PLACES: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request to a collector.

    Args:
        method: `GET`, `POST` or `PUT`.
        path: Path below `/api/v1`, with the names of arguments in braces.
        given: The arguments. One that the path names is escaped and put there; the others are the
            query, where those that are None are not sent, a mapping `tags` is repeated as
            `tag=key=value`, and a list for each of its items.
        body: Sent as JSON unless None.
        is_repeatable: False if a second delivery does something else than the first.
        takes_s: Seconds that the answer may take, if more than the client usually waits.
        is_continued: True if the request reads on in a long list. It is tried again for longer, as
            a failure would lose all that was read.

    Raises:
        ConfigError: A time has no zone, or an id names nothing.
    """

    method: str
    path: str
    given: Mapping[str, Any] = field(default_factory=dict[str, Any])
    body: JsonValue = None
    is_repeatable: bool = True
    takes_s: float = 0.0
    is_continued: bool = False

    @property
    def url_path(self) -> str:
        """The path as it stands in the address."""
        return API + _PLACES.sub(lambda name: _segment(name[1], self.given[name[1]]), self.path)

    @property
    def query(self) -> dict[str, Any]:
        """The arguments that the path does not name, by the names of the API's parameters."""
        placed = set(_PLACES.findall(self.path))
        return {
            _PAIRED.get(name, name): value
            for name, value in self.given.items()
            if name not in placed
        }

    @property
    def params(self) -> dict[str, str | list[str]]:
        """The query as texts."""
        return {
            name: [pair_text(key, each) for key, each in cast("Mapping[str, str]", value).items()]
            if isinstance(value, Mapping)
            else list(cast("Sequence[str]", value))
            if isinstance(value, list | tuple)
            else text_of(name, value)
            for name, value in self.query.items()
            if value is not None
        }

    def after(self, cursor: str) -> "Request":
        """The request for what is behind a cursor."""
        return replace(self, given={**self.given, "cursor": cursor})


_PAIRED: Final = {"tags": "tag", "attributes": "attribute"}
"""Parameters that are repeated for each pair of an argument, by the argument's name."""


def arguments(
    of: Mapping[str, Any], known: type[object] | None = None, *without: str
) -> dict[str, Any]:
    """The arguments of a method, of its `locals()`.

    Args:
        of: `self`, the parameters, and those that have no parameter of their own as `search`.
        known: Typed dictionary that names what `search` may have; one that is not given is None.
        without: Names that are left out.

    Raises:
        TypeError: An argument has no such name.
    """
    given = {name: value for name, value in of.items() if name not in ("self", "search", *without)}
    if known is None:
        return given
    search, names = of["search"], known.__annotations__
    if wrong := search.keys() - names.keys():
        raise TypeError(f"no argument {min(wrong)!r}; expected some of {', '.join(names)}")
    return {**given, **dict.fromkeys(names), **search}


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
