"""Faults in reading an answer, told from faults in getting one.

If an answer came and cannot be read, its text says more than the exception: an error of the server
under a status of success, or a page for people. The vendors' clients and pydantic-ai keep nothing
of that text. For a list without the element that they take, they raise `IndexError`.
"""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import httpx2

__all__ = ("NoAnswerError", "UnreadAnswerError", "read_answer", "reading", "said_in")

_READ: Final = 10_000
"""Characters of a body that is no error in a known form. That is far more than anybody is shown:
who cuts it for that takes keys out first, which are found only whole."""


class UnreadAnswerError(Exception):
    """A provider answered with a status of success, and then an error was raised.

    Args:
        error: The error that was raised; also that of a broken connection or a time limit.
        said: Text of the answer, on one line; "" where its body did not come.
    """

    def __init__(self, error: Exception, said: str = "") -> None:
        super().__init__(error, said)
        self.error, self.said = error, said


class NoAnswerError(Exception):
    """A response in the right form that holds no answer at all."""


@dataclass(slots=True)
class _Question:
    response: "httpx2.Response | None" = None
    """The answer, once it has begun to come."""


_PUT: Final[ContextVar[_Question | None]] = ContextVar("scouter_question_put", default=None)
"""The question that is being put: the HTTP client is shared, and does not know it."""


@contextmanager
def reading() -> Generator[None]:
    """Put one question inside, and have its answer read; nothing else.

    Raises:
        UnreadAnswerError: In place of what was raised after an answer had come.
    """
    question = _Question()
    token = _PUT.set(question)
    try:
        yield
    except Exception as error:
        if question.response is not None:
            raise UnreadAnswerError(error, _said(question.response)) from error
        raise
    finally:
        _PUT.reset(token)


async def read_answer(response: "httpx2.Response") -> None:
    """Note that the answer to a question has come, and read it; a hook of the HTTP client.

    Raises:
        DataError, TransientError: It is too large or wrongly packed; see `read_bounded`.
    """
    import httpx2

    from scouter.transport.http_client import read_bounded

    question = _PUT.get()
    if question is not None and response.is_success:
        question.response = response
    response.stream = httpx2.ByteStream(await read_bounded(response))


def said_in(body: object) -> str:
    """Take the message out of the body of a vendor's error, on one line.

    The form of the body differs by vendor. The result is empty if there is no text.
    """
    found = body
    for name in ("error", "message"):
        if isinstance(found, Mapping):
            inside = cast("Mapping[str, Any]", found)
            found = inside.get(name, found)
    return " ".join(found.split()) if isinstance(found, str) else ""


def _said(response: "httpx2.Response") -> str:
    if not response.is_stream_consumed:
        return ""
    try:
        text = response.text
    except Exception:  # noqa: BLE001 - of a body that cannot be unpacked, which is told anyway
        return ""
    try:
        said = said_in(json.loads(text))
    except (ValueError, RecursionError):
        said = ""
    return said or " ".join(text[:_READ].split())
