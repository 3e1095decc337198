"""The caller of a request, and the caller's rights."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starlette.requests import Request

from collector.problem import ProblemError

CALLER: Final = "scouter.caller"
"""Key of the caller in an ASGI scope: a `Caller`, or the `ProblemError` that says why there is
none."""


class Scope(StrEnum):
    """Permissions of a token; none of them includes another."""

    INGEST = "ingest"
    """Send spans and records."""
    READ = "read"
    """Ask for what is stored."""
    LABEL = "label"
    """Say of stored records whether they are good."""
    PROFILE = "profile"
    """Register and activate profiles."""
    ADMIN = "admin"
    """Replay dead letters, judge again, erase."""


ALL_SCOPES: Final = frozenset(Scope)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Somebody who was let in."""

    space: str
    """The only space that they see and write to."""
    scopes: frozenset[Scope]
    token_id: str = ""
    """Empty where no token was required."""

    def check(self, scope: Scope) -> None:
        """Refuse them if they lack a scope.

        Raises:
            ProblemError: 403.
        """
        if scope not in self.scopes:
            has = ", ".join(sorted(self.scopes))
            raise ProblemError(
                403, f"this needs the scope {scope.value}; the token {self.token_id} has {has}"
            )


async def let_in(request: Request) -> None:
    """A dependency of routes, the first: refuses who is not let in.

    None of these dependencies waits for anything. If they were plain functions, each would be
    called in a thread, which costs more than they do.
    """
    _sender(request)


def _sender(request: Request) -> Caller:
    """The sender of a request, whatever they may do.

    Raises:
        ProblemError: 401, 403, 421, 429 or 503: they are not let in.
    """
    found: Caller | ProblemError = request.scope[CALLER]
    if isinstance(found, ProblemError):
        raise found
    return found


def caller_of(request: Request, scope: Scope) -> Caller:
    """The sender of a request, who needs a scope for it.

    Raises:
        ProblemError: They are not let in, or 403 without the scope.
    """
    found = _sender(request)
    found.check(scope)
    return found


def may(request: Request, scope: Scope) -> bool:
    """Say whether the sender has a scope; for routes that tell others less, and refuse nobody."""
    found: Caller | ProblemError = request.scope[CALLER]
    return isinstance(found, Caller) and scope in found.scopes


class Needs:
    """A dependency of routes: gives the caller, who needs a scope.

    Args:
        scope: The scope that the caller needs.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope: Final = scope

    async def __call__(self, request: Request) -> Caller:
        """Give the caller, or refuse them."""
        return caller_of(request, self.scope)
