"""Endpoints made of views, and sessions: who is not let in has to give a token."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Final, TypeAlias
from urllib.parse import parse_qs

from starlette.datastructures import URL
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.caller import CALLER, Caller
from collector.access.gate import is_page
from collector.problem import ProblemError
from collector.web.render import query, render
from collector.web.source import Shown, Source

COOKIE: Final = "scouter_session"


def is_local(target: str) -> bool:
    """Tell whether a path leads to this site, for a redirect that a query names."""
    return target.startswith("/") and not target.startswith(("//", "/\\"))


class SessionFront:
    """ASGI middleware that presents the session's token as if the browser had sent it in a header.

    Args:
        app: Serves the request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http" and _reads_session(scope["path"]):
            headers = scope["headers"]
            token = _token(b"; ".join(value for name, value in headers if name == b"cookie"))
            if token and all(name != b"authorization" for name, _ in headers):
                bearer = (b"authorization", b"Bearer " + token.encode("latin-1"))
                scope = {**scope, "headers": [*headers, bearer]}
        await self._app(scope, receive, send)


def _reads_session(path: str) -> bool:
    """Tell whether a path shows what is stored; the others are for everybody."""
    return is_page(path) and not path.startswith(("/static/", "/login"))


def _token(cookies: bytes) -> str:
    """The token in a Cookie header; empty where there is none."""
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(cookies.decode("latin-1"))
    except CookieError:
        return ""  # the rest of the header is some other site's on the same host
    token = jar[COOKIE].value if COOKIE in jar else ""
    return token if token.isascii() and token.isprintable() else ""


View: TypeAlias = Callable[[Request, Source], Awaitable[Response]]

_FORM_BYTES: Final = 4096


def endpoint(view: View) -> Callable[[Request], Awaitable[Response]]:
    """Make an endpoint of a view: who is not let in has to give a token."""

    async def show(request: Request) -> Response:
        caller: Caller | ProblemError = request.scope[CALLER]
        try:
            if isinstance(caller, ProblemError):
                raise caller
            return await view(request, Source(request))
        except ProblemError as error:
            if error.status == HTTPStatus.UNAUTHORIZED:
                answer = _to_login(request)
                forget(answer)  # a session that is over would count as a guess with each view
                return answer
            return await render(
                request, "error.html", error.status,
                title=HTTPStatus(error.status).phrase, detail=error.detail,
            )  # fmt: skip

    return show


Collect: TypeAlias = Callable[[Source, Mapping[str, str]], Awaitable[Shown]]


def shows(path: str, template: str, collect: Collect, *, is_part: bool = False) -> Route:
    """Make the route of a view that is made of the parameters of its address alone.

    Args:
        path: With the names of parameters in braces.
        template: File name below `templates`.
        collect: Gets the API and the parameters, and gives the values that the template shows.
        is_part: True if a script may put it into another view.
    """

    async def show(request: Request, source: Source) -> Response:
        shown = await collect(source, {**request.query_params, **request.path_params})
        layout = {"layout": layout_of(request)} if is_part else {}
        return await render(request, template, **layout, **shown)

    return Route(path, endpoint(show))


def layout_of(request: Request) -> str:
    """A part for a script, or a page of its own for whoever follows the link."""
    return "bare.html" if "hx-request" in request.headers else "base.html"


def _to_login(request: Request) -> Response:
    """Lead to the form for a token, and from there back to the view.

    A part of a view that a script requests cannot show that form: the script leads there.
    """
    is_part = "hx-request" in request.headers
    url = URL(request.headers.get("hx-current-url", "/")) if is_part else request.url
    target = url.path + (f"?{url.query}" if url.query else "")
    login = f"/login?{query({'next': target})}"
    if is_part:
        return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": login})
    return RedirectResponse(login, 303)


def forget(answer: Response) -> None:
    """End the session of the browser."""
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="lax")


async def read_form(request: Request) -> dict[str, str]:
    """Read a small form.

    Raises:
        HTTPException: 413, it is not small.
    """
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > _FORM_BYTES:
            raise HTTPException(413, f"a form here has at most {_FORM_BYTES} bytes")
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}
