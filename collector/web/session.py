"""Sessions of the page: a token in a cookie that scripts and other sites cannot use."""

from http.cookies import CookieError, SimpleCookie
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.front import is_page

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
