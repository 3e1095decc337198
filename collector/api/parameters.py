"""Parts of routes that several share: the caller, times, cursors, and forms of answers."""

import base64
import binascii
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import ContextVar
from inspect import iscoroutinefunction
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import orjson
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi._compat import ModelField
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, JsonValue

from collector.access.caller import Caller, Needs, Scope, let_in
from collector.access.gate import BEARER
from collector.api.parts import TheParts
from collector.items.times import parse_query_ns
from collector.prices import Cost
from collector.problem import ProblemError, problems
from collector.store.json_text import dump_json
from collector.store.reads import OutcomeFilter
from collector.store.span_rows import LONGEST, MOST, is_searched
from collector.worker.worker import CATCH_UP_S
from scouter.errors import DataError
from scouter.model.ids import is_trace_id
from scouter.model.pair import pair_of

Model = TypeVar("Model", bound=BaseModel)

PROBLEMS: Final = problems(400, 401, 403, 408, 413, 415, 421, 429, 503)
"""Error answers that every route may give."""
NOT_FOUND: Final = problems(404)
SEARCH_S: Final = 1.0
"""Time after which a search reads nothing more: its answer is partial and can be continued."""

Reader: TypeAlias = Annotated[Caller, Depends(Needs(Scope.READ))]
Sender: TypeAlias = Annotated[Caller, Depends(Needs(Scope.INGEST))]
Labeller: TypeAlias = Annotated[Caller, Depends(Needs(Scope.LABEL))]
Profiler: TypeAlias = Annotated[Caller, Depends(Needs(Scope.PROFILE))]
Admin: TypeAlias = Annotated[Caller, Depends(Needs(Scope.ADMIN))]

Text = Annotated[str | None, Query(max_length=512)]
Time = Annotated[
    str | None,
    Query(
        max_length=64,
        description="RFC 3339, or a number since 1970: seconds, milliseconds, microseconds or "
        "nanoseconds, distinguished by its size.",
    ),
]
Profile = Annotated[str | None, Query(max_length=512, description="Alias, name, uid or digest.")]
OutcomeOrBad = Annotated[
    OutcomeFilter | None,
    Query(description="`not_passed` is what failed or errored."),
]
Tags = Annotated[
    list[str],
    Query(max_length=16, description="`key=value`; all of several have to match.", alias="tag"),
]
Bucket = Annotated[
    str, Query(max_length=8, description="Seconds, minutes, hours or days, such as 5m, 1h, 7d.")
]
Attributes = Annotated[
    list[str],
    Query(
        max_length=16,
        alias="attribute",
        description="`key=value` of an attribute of a span, the value as text; all of several have "
        f"to match. Keys and values of more than {LONGEST} characters are refused: they are not "
        f"searched, nor more than {MOST} attributes of a span.",
    ),
]
Texts = list[Annotated[str, Field(min_length=1, max_length=512)]]
"""Texts that are searched: every one of them is there."""
MOST_TEXTS: Final = 8
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(max_length=100)]
_UNITS: Final = {"s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
_BUCKET: Final = re.compile(r"([1-9]\d{0,6})([smhd])")
BAD_CURSOR: Final = "cursor: not a cursor of this API; pass next_cursor of an answer unchanged"


async def only_known(request: Request) -> None:
    """A dependency of routes: refuses parameters that a route does not have, as they are typos.

    Raises:
        ProblemError: 400; names the parameter and those that there are.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute)  # noqa: S101 nothing else has dependencies
    known = [each.alias for each in _query_parameters(route.dependant)]
    for name in request.query_params:
        if name not in known:
            has = ", ".join(known) or "none"
            raise ProblemError(400, f"{name[:100]}: no such parameter; this route has: {has}")


def _query_parameters(dependant: Dependant) -> Iterator[ModelField]:
    """List the query parameters of a route, behind those of its dependencies."""
    for each in dependant.dependencies:
        yield from _query_parameters(each)
    yield from dependant.query_params


COMMON: Final = tuple(map(Depends, (BEARER, let_in, only_known)))
"""Dependencies of every route below `/api`."""


async def caught_up(parts: TheParts, request: Request) -> None:
    """A dependency of routes: what was acknowledged before a question is in its answer.

    If the worker has not stored it in time, the answer has what is stored, and its header
    `Scouter-Behind` says so; nothing is said to be unknown then.
    """
    if parts.catch_up(0):  # mostly there is nothing to wait for, nor a thread to do so
        return
    if not await run_in_threadpool(parts.catch_up, CATCH_UP_S):
        request.state.is_behind = True  # `front.IS_BEHIND`


def api_router(
    below: str = "",
    *,
    tag: str = "results",
    is_caught_up: bool = True,
) -> APIRouter:
    """Make a router below `/api/v1`.

    Args:
        below: Path below that, with its slash.
        tag: The routes' heading in the OpenAPI document.
        is_caught_up: True if the answers have what was acknowledged before the question.
    """
    return APIRouter(
        prefix=f"/api/v1{below}",
        tags=[tag],
        responses={**PROBLEMS},
        dependencies=[*COMMON, Depends(caught_up)] if is_caught_up else list(COMMON),
        route_class=_Route,
    )


TAKEN: Final[ContextVar[list[object] | None]] = ContextVar("TAKEN", default=None)
"""Place where a route leaves its answer for the page, which takes it as it is, not as JSON."""


class _Route(APIRoute):
    """A route whose answer the page may take."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Make the handler of the route."""
        self.dependant.call = _leaving(self.endpoint)
        return super().get_route_handler()


def _leaving(endpoint: Callable[..., object]) -> Callable[..., object]:
    """An endpoint that leaves its answer where it is wanted, and gives an empty one then."""

    def left(answer: object) -> object:
        taken = TAKEN.get()
        if taken is None or isinstance(answer, Response):
            return answer
        taken.append(answer)
        return Response()

    if iscoroutinefunction(endpoint):

        async def later(**given: object) -> object:
            return left(await endpoint(**given))

        return later

    def now(**given: object) -> object:
        return left(endpoint(**given))

    return now


def read_time(name: str, value: str | None) -> int | None:
    """Read a time given in the query.

    Raises:
        ProblemError: 400; names the parameter.
    """
    if value is None:
        return None
    try:
        # A plus sign in a query means a space; in a time it can only have been a plus sign.
        return parse_query_ns(value.replace(" ", "+") if "T" in value.upper() else value)
    except DataError as error:
        raise ProblemError(400, f"{name}: {error}") from error


def read_trace_id(text: str) -> str:
    """Read a trace id, in whichever case.

    Raises:
        ValueError: It is none.
    """
    lower = text.lower()
    if not is_trace_id(lower):
        raise ValueError("expected 32 hex digits, not all zero")
    return lower


def write_cursor(position: tuple[int, int] | None, as_of: int | None = None) -> str | None:
    """Write a position as a text that clients pass back unread.

    Args:
        position: A commit, and a place or a signed 64-bit hash inside it.
        as_of: The commit after which the listing shows the store; None for one that shows it as it
            is when each page is read.
    """
    if position is None:
        return None
    parts = position if as_of is None else (*position, as_of)
    return base64.urlsafe_b64encode(".".join(map(str, parts)).encode()).decode().rstrip("=")


def read_tags(values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read tags given as `key=value`; see `pair_of`.

    Raises:
        ProblemError: 400; a value has none, or one key has two values.
    """
    pairs: dict[str, str] = {}
    for text in values:
        key, sign, value = pair_of(text)
        if not sign or not key:
            raise ProblemError(400, f"tag: expected key=value, got {text[:100]!r}")
        if pairs.setdefault(key, value) != value:
            raise ProblemError(400, f"tag: {key[:100]!r} cannot have two values at once")
    return tuple(pairs.items())


def read_attributes(values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Read attributes given as `key=value`; see `pair_of`.

    Raises:
        ProblemError: 400; a value has none, or is longer than what is searched.
    """
    pairs: list[tuple[str, str]] = []
    for text in values:
        key, sign, value = pair_of(text)
        if not sign or not key:
            raise ProblemError(400, f"attribute: expected key=value, got {text[:100]!r}")
        if not is_searched(key, value):
            raise ProblemError(
                400,
                f"attribute: {key[:100]!r} with a value of {len(value):,} characters cannot be "
                f"searched for: key and value have at most {LONGEST} characters",
            )
        pairs.append((key, value))
    return tuple(pairs)


def read_cursor(text: str | None) -> tuple[tuple[int, int] | None, int | None]:
    """Read a cursor: the position, and as of which commit the listing is.

    Raises:
        ProblemError: 400; it was not written by `write_cursor`.
    """
    if text is None:
        return None, None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        commit, ordinal, *rest = map(
            int, base64.b64decode(padded, b"-_", validate=True).split(b".")
        )
        as_of = rest[0] if rest else None
        commits = commit, as_of or 0
        if write_cursor((commit, ordinal), as_of) != text:
            raise ValueError
        if min(commits) < 0 or max(commits) >= 2**62 or not -(2**63) <= ordinal < 2**63:
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise ProblemError(400, BAD_CURSOR) from error
    return (commit, ordinal), as_of


def read_bucket(text: str) -> int:
    """Read the length of a bucket: nanoseconds.

    Raises:
        ProblemError: 400; it is no length.
    """
    match = _BUCKET.fullmatch(text)
    if match is None:
        raise ProblemError(
            400,
            f"bucket: {text!r} is no length; expected seconds, minutes, hours or days, such as "
            "5m or 1h",
        )
    return int(match[1]) * _UNITS[match[2]]


def json_response(content: JsonValue) -> Response:
    """Answer with JSON; half surrogates and numbers beyond 64 bits are written, too."""
    try:
        text = orjson.dumps(content)
    except orjson.JSONEncodeError:
        text = dump_json(content).encode()
    return Response(text, media_type="application/json")


def cost_fields(cost: Cost) -> dict[str, Any]:
    """The fields of `Costed`."""
    return {"cost": cost.usd, "unpriced_models": cost.unpriced_models}


def answer_of(model: type[Model], source: object, **others: object) -> Model:
    """Make an answer of an object whose attributes have the names of the model's fields.

    Args:
        model: Of the answer.
        source: Has a value for every field that is not among `others`.
        others: The fields that the source calls otherwise, or lacks.
    """
    own = model.model_fields.keys() - others.keys()
    return model(**{name: getattr(source, name) for name in own}, **others)
