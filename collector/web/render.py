"""Templates to answers: everything that comes from data is escaped, and no view is stored.

And the reasons of results, as people read them.
"""

import datetime
import gzip
import hashlib
import json
import math
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from collector.api.trace_span import escaped
from collector.web.incidents import named
from scouter.evaluate.show.words import plain, selected

_OF_SPANS: Final = re.compile(r"(Span[A-Za-z]+)\(filter=(?=\{)")
_OF_TIME: Final = re.compile(r"((?:Span|Trace)Duration\()")
_NUMBER: Final = re.compile(r"( is |(?:Than|Equal|Equals) )(-?\d+(?:\.\d+)?)(?![\d.])")
_REGEX: Final = re.compile(r'( Matches(?:Regex)? )("(?:[^"\\]|\\.)*")')
_DECODER: Final = json.JSONDecoder()
_MEASURES: Final = {
    "SpanDuration": "Duration of", "SpanCount": "Number of", "SpanExists": "Existence of",
}  # fmt: skip
_CAUSES: Final[Mapping[str, str]] = {
    "missing_path": "a path leads nowhere in the record",
    "type": "a value has another type",
    "expected": "the expected value does not fit",
    "limit": "a value is too large",
    "no_spans": "there are no spans",
    "incomplete": "spans, or the end of a conversation, are missing",
    "not_told": "nobody reports the calls",
    "parse": "an answer has another form",
    "provider": "nobody answered for the judge",
    "refusal": "the judge declined",
    "abstained": "the judge cannot tell",
    "dependency": "a task before it errored",
    "check": "the check raised or took too long",
    "agent": "the agent raised",
    "user": "the simulated user raised or left its brief",
    "gate": "a gate before it did not pass",
    "sampled": "not among the sampled records",
    "budget": "the judges' budget is spent",
    "not_applicable": "the task is not about such records",
}


def cause(reason: str) -> str:
    """The reason of a result that did not decide, in words; one of a later kind as it is.

    Args:
        reason: `missing_path`.
    """
    return _CAUSES.get(reason, reason)


def reason(message: str) -> str:
    """A task's message for a reader.

    Args:
        message: `SpanDuration(filter={"ByName": {"name": "look"}}) is 250, expected LessThan 150`.

    Returns:
        `Duration of spans named “look” is 250 ms, expected LessThan 150 ms`; a message of another
        form as it is.
    """
    label, rest = _label(message)
    if _OF_TIME.match(message):
        rest = _NUMBER.sub(r"\1\2 ms", rest)
    return label + _REGEX.sub(lambda found: found[1] + _as_written(found[2]), rest)


def _label(message: str) -> tuple[str, str]:
    """The words for a measure on spans, and what the message says of it."""
    found = _OF_SPANS.match(message)
    if found is None:
        return "", message
    try:
        given, end = _DECODER.raw_decode(message, found.end())
        spans = f"spans {plain(selected(given))}"
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):  # it was cut
        return "", message
    if message[end : end + 1] == ")" and found[1] in _MEASURES:
        return f"{_MEASURES[found[1]]} {spans}", message[end + 1 :]
    return f"{found[1]}({spans}", message[end:]


def _as_written(text: str) -> str:
    """A pattern without the escapes of JSON."""
    try:
        return f"/{json.loads(text)}/"
    except ValueError:
        return text


HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every view. Agents' output is hostile: no script or style of a page's text runs, and nothing
is fetched from or sent to another site."""

VERSION: Final = "v"
"""Parameter of a static file's address that changes with its content."""

CUT: Final = 4_000
"""Characters of a value that a view shows; the rest is its size."""

_UNITS: Final = (
    (120_000, 1000, "s"), (7_200_000, 60_000, "min"), (172_800_000, 3_600_000, "h"),
    (math.inf, 86_400_000, "d"),
)  # fmt: skip
"""Milliseconds below which a length of time is shown in a unit, and milliseconds of that unit."""
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
"""Of JSON: a text, a sign, or a number or word."""
_DEEPEST: Final = 30
_FOLDER: Final = Path(__file__).parent
STATIC: Final = _FOLDER / "static"


async def render(
    request: Request, template: str, status: int = HTTPStatus.OK, **context: object
) -> Response:
    """Answer with a view, which is written in a thread: a large one holds up nobody else.

    It is compressed where the browser takes that. A view holds no secret whose letters its length
    could tell: the session is in a cookie, and forms carry no token.

    Args:
        request: The reader's.
        template: File name below `templates`.
        status: HTTP status.
        context: Values that the template shows.
    """
    page = _ENVIRONMENT.get_template(template)
    is_packed = "gzip" in request.headers.get("accept-encoding", "")

    def body() -> bytes:
        data = page.render(request=request, **context).encode()
        return gzip.compress(data, 1, mtime=0) if is_packed else data

    packed = {"Content-Encoding": "gzip"} if is_packed else {}
    headers = {**HEADERS, "Vary": "Accept-Encoding", **packed}
    return HTMLResponse(await run_in_threadpool(body), status_code=status, headers=headers)


def download(data: bytes, name: str, media_type: str) -> Response:
    """Answer with a file that a browser saves and never shows.

    Args:
        data: Its bytes.
        name: Letters, digits, dots and dashes.
        media_type: Of the content.
    """
    disposition = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(data, media_type=media_type, headers={**HEADERS, **disposition})


def text_of(value: object, indent: int | None = 2) -> str:
    """A value of an answer as a person reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)


def indented(text: str) -> str:
    """A text that is JSON with a line for each of its values; any other as it is.

    Numbers and texts in it stay letter by letter as they were written.
    """
    if text[:1] not in ("{", "["):
        return text
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    lines, depth = [""], 0
    for sign in _TOKENS.findall(text):
        if sign in "}]":
            depth -= 1
            if lines[-1].strip():
                lines.append("  " * depth)
            else:  # it was opened just before
                lines.pop()
        lines[-1] += f"{sign} " if sign == ":" else sign
        if sign in "{[":
            depth += 1
            if depth > _DEEPEST:
                return text
        if sign in "{[,":
            lines.append("  " * depth)
    return "\n".join(lines)


def cut(value: object) -> tuple[str, int]:
    """The beginning of a value's text, and how many characters are left out."""
    text = text_of(value)
    return text[:CUT], max(0, len(text) - CUT)


def pruned(value: object, most: int = 2_000) -> object:
    """A value with so many items at most, so that no record makes a view of any size.

    Args:
        value: As JSON.
        most: Items of objects and lists, nested ones included.
    """
    left = most

    def prune(each: object) -> object:
        nonlocal left
        if isinstance(each, dict):
            found: dict[str, object] = {}
            for key, item in cast("dict[str, object]", each).items():
                if left <= 0:
                    found["…"] = "more is left out; the API has all of it"
                    break
                left -= 1
                found[key] = prune(item)
            return found
        if isinstance(each, list):
            items: list[object] = []
            for item in cast("list[object]", each):
                if left <= 0:
                    items.append("more is left out; the API has all of it")
                    break
                left -= 1
                items.append(prune(item))
            return items
        return each

    return prune(value)


def ends(text: str, most: int = 20) -> str:
    """The ends of a long id: ids that a clock begins differ at the end."""
    return text if len(text) <= most else f"{text[:8]}…{text[-8:]}"


def moment(time: datetime.datetime | str | None) -> str:
    """A time of the API, or of an address, as a person reads it: to the second, in UTC."""
    if not time:
        return ""
    at = datetime.datetime.fromisoformat(time) if isinstance(time, str) else time
    return at.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S")


def took(milliseconds: float) -> str:
    """A length of time in the unit that a person would choose."""
    if milliseconds < 1:
        return f"{milliseconds * 1000:.0f} µs"
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    _, unit_ms, unit = next(each for each in _UNITS if milliseconds < each[0])
    return f"{milliseconds / unit_ms:.1f} {unit}"


def clock(at_ns: int) -> str:
    """Nanoseconds since the epoch as a person reads them: to the second, in UTC."""
    at = datetime.datetime.fromtimestamp(at_ns // 1_000_000_000, datetime.UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S")


def percent(rate: float | None) -> str:
    """A rate in percent; a dash where there is none."""
    return "–" if rate is None else f"{rate:.1%}"


def short(rate: float) -> str:
    """A rate in percent, as short as three digits allow."""
    return f"{rate * 100:.3g}%"


def points(difference: float) -> str:
    """A difference of two rates in points, with its sign."""
    return f"{100 * difference:+.1f}".replace("-", "\u2212")


def path_part(text: str) -> str:
    """A name as one part of an address."""
    return quote(text, safe="")


def query(values: Mapping[str, object]) -> str:
    """Parameters as the query of an address, without those that are empty."""
    given = {name: value for name, value in values.items() if value not in (None, "")}
    return urlencode(given, doseq=True)


def natural(text: str) -> int:
    """A number of an address, by its first nine digits; 0 for anything else."""
    return int(text[:9]) if text.isdecimal() else 0


@cache
def static(name: str) -> str:
    """The address of a file of the page itself, with a digest of its content.

    A browser keeps what it has from there, and requests again only for what changed.

    Args:
        name: Of the file.
    """
    digest = hashlib.blake2b((STATIC / name).read_bytes(), digest_size=6).hexdigest()
    return f"/static/{name}?{VERSION}={digest}"


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_ENVIRONMENT.filters.update(
    ends=ends,
    moment=moment,
    clock=clock,
    step=escaped,
    took=took,
    percent=percent,
    short=short,
    named=named,
    points=points,
    part=path_part,
    query=query,
    cut=cut,
    pruned=pruned,
    reason=reason,
    cause=cause,
    words=text_of,
    indented=indented,
)
_ENVIRONMENT.globals.update(static=static)
