"""Refusals of the collector, and their remedies."""

from http import HTTPStatus

from scouter.errors import ScouterError, TransientError

_ADVICE = {
    401: "make a token where the collector runs (`scouter token create`) and pass it as `token`, "
    "in the file of a command's --token-file or in the environment variable SCOUTER_AUTH_TOKEN",
    403: "the token lacks a scope; make one that has it with `scouter token create`",
    405: "the collector has no such route; it may be older than this client",
}


class ApiError(ScouterError):
    """The collector answered, and the answer was no.

    Args:
        status: HTTP status.
        detail: The fault, in the collector's words.
        where: The request, as `GET /api/v1/…`.
    """

    def __init__(self, status: int, detail: str, where: str) -> None:
        ScouterError.__init__(self, status, detail, where)
        self.status, self.detail, self.where = status, detail, where

    @property
    def advice(self) -> str:
        """The remedy, if the status alone says it."""
        return _ADVICE.get(self.status, "")

    def __str__(self) -> str:
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.where}: {self.status} {_phrase(self.status)}: {self.detail}{advice}"


class BusyError(ApiError, TransientError):
    """The collector could not answer now (429, 502, 503, 504), however often it was tried.

    Args:
        status: HTTP status.
        detail: The fault, in the collector's words.
        where: The request.
        retry_after_s: Seconds to wait that it stated, if it did.
    """

    def __init__(
        self, status: int, detail: str, where: str, retry_after_s: float | None = None
    ) -> None:
        ApiError.__init__(self, status, detail, where)
        self.args = (status, detail, where, retry_after_s)
        self.message, self.retry_after_s = str(self), retry_after_s


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"
