"""Faults in getting an answer, in reading it and in what it says, in a judge's terms.

If an answer came and cannot be read, its text says more than the exception: an error of the server
under a status of success, or a page for people. The vendors' clients and pydantic-ai keep nothing
of that text. For a list without the element that they take, they raise `IndexError`.
"""

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from scouter.errors import ScouterError
from scouter.evaluate.judge.port import JudgeError, JudgeUsage
from scouter.evaluate.outcome import Reason

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.messages import ModelResponse

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
    """The answer, once it has started to come."""


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
    except Exception:  # noqa: BLE001 - of a body that cannot be unpacked, which is reported anyway
        return ""
    try:
        said = said_in(json.loads(text))
    except (ValueError, RecursionError):
        said = ""
    return said or " ".join(text[:_READ].split())


def check_answer(response: "ModelResponse") -> None:
    """Refuse a response without an answer, for whose absence it gives no reason.

    Raises:
        NoAnswerError: It holds nothing, and no word on how it ended.
    """
    if not response.parts and response.finish_reason is None:
        raise NoAnswerError("it holds no answer")


def check_ending(response: "ModelResponse") -> None:
    """Refuse an answer that was declined, or is not complete.

    Raises:
        JudgeError: Says how it ended, in the vendor's words where there are any.
    """
    details = response.provider_details or {}
    match response.finish_reason:
        case "content_filter":
            said = details.get("refusal") or details.get("block_reason")
            said = said or details.get("finish_reason") or "content filter"
            raise JudgeError(Reason.REFUSAL, f"the model declined to answer: {said}")
        case "length":
            raise JudgeError(
                Reason.PARSE, "the model's answer is truncated: it ran out of tokens (max_tokens)"
            )
        case "error":
            said = details.get("finish_reason") or "error"
            raise JudgeError(Reason.PARSE, f"the model's answer ended with an error: {said}")
        case _:
            return


_MAY_PASS: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_EARLY,
     HTTPStatus.TOO_MANY_REQUESTS}
)  # fmt: skip
"""Statuses below 500 that a later call may not meet again."""
_PAID_PERHAPS: Final = frozenset(
    {499, HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT, *range(520, 528), 530}
)
"""A gateway says these of a provider that may have answered it; nginx 499, Cloudflare from 520."""
_NEVER_SENT: Final = frozenset({"ConnectError", "ConnectTimeout", "ClientConnectorError"})
"""Names of the errors that HTTP clients raise when no connection was made."""
_FILTERED: Final = frozenset({"content_filter", "content_policy_violation"})
"""Codes of errors by which a provider declines the question itself."""


def to_fault(error: Exception) -> JudgeError:
    """Say in a judge's terms what asking a model raised.

    | what happened | reason | called again |
    |---|---|---|
    | 408, 409, 425, 429, 5xx, time limit, connection | `PROVIDER` | yes |
    | any other status, such as 400, 401, 403, 404; no quota left | `PROVIDER` | no |
    | a content filter declined the question | `REFUSAL` | no |
    | a response that is not what the protocol says, or cannot be unpacked | `PROVIDER` | yes |
    | a response beyond the bound on its size | `PROVIDER` | no |
    | anything else that was raised once an answer had come | `PROVIDER` | yes |
    | anything else | `PROVIDER` | no |

    Args:
        error: From pydantic-ai or the vendor's client, or an `UnreadAnswerError` of such a one.
    """
    unread = error if isinstance(error, UnreadAnswerError) else None
    fault = _fault(_raised(error), None if unread is None else unread.said)
    if fault.usage is None and is_unpaid(error):
        fault.usage = JudgeUsage(calls=1, input_tokens=0, output_tokens=0)
    return fault


def is_unpaid(error: Exception) -> bool:
    """Tell whether a question that failed certainly took no tokens.

    Providers do not charge for what they answer by an error's status; but of a time limit, or of a
    connection that broke, nobody knows what the provider did meanwhile.
    """
    from pydantic_ai.exceptions import ModelHTTPError

    raised = _raised(error)
    if isinstance(raised, ModelHTTPError):
        return raised.status_code not in _PAID_PERHAPS
    return any(type(cause).__name__ in _NEVER_SENT for cause in _causes(error))


def _raised(error: Exception) -> Exception:
    return error.error if isinstance(error, UnreadAnswerError) else error


def _fault(error: Exception, said: str | None) -> JudgeError:
    """Say what was raised; `said` is what a response that had come says, None before that."""
    from pydantic_ai.exceptions import (
        ModelAPIError,
        ModelConnectionError,
        ModelHTTPError,
        ModelQuotaExceededError,
        ModelTimeoutError,
        UnexpectedModelBehavior,
    )

    for cause in _causes(error):
        if isinstance(cause, ScouterError):  # our own client refused to read the answer
            return JudgeError(Reason.PROVIDER, str(cause), permanent=not cause.retryable)
    if isinstance(error, ModelHTTPError):
        status = error.status_code
        text = f"{status} {said_in(error.body)}".strip()
        if error.provider_error_code in _FILTERED:
            return JudgeError(Reason.REFUSAL, text)
        is_passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _MAY_PASS
        if not is_passing or isinstance(error, ModelQuotaExceededError):
            return JudgeError(Reason.PROVIDER, text, permanent=True)
        return JudgeError(Reason.PROVIDER, text, error.retry_after)
    if isinstance(error, TimeoutError | ModelTimeoutError):
        return JudgeError(Reason.PROVIDER, "the time limit was reached")
    if isinstance(error, ModelConnectionError):
        return JudgeError(Reason.PROVIDER, f"the connection failed: {_words(error)}")
    if isinstance(error, UnexpectedModelBehavior | NoAnswerError) or _is_undecodable(error):
        return _malformed(_words(error), said)
    if isinstance(error, ModelAPIError) and said is None:
        return JudgeError(Reason.PROVIDER, _words(error), permanent=True)
    if isinstance(error, OSError):
        return JudgeError(Reason.PROVIDER, f"the connection failed: {_words(error)}")
    text = f"{type(error).__name__}: {_words(error)}"
    if said is not None:
        return _malformed(f"it could not be read ({text})", said)
    return JudgeError(Reason.PROVIDER, text, permanent=True)


def _malformed(text: str, said: str | None) -> JudgeError:
    """A server that starts, is overloaded or stands behind a proxy answers so; later it may not."""
    shown = f"it says {said!r}; {text}" if said else text
    return JudgeError(Reason.PROVIDER, f"the provider's response is malformed: {shown}")


def _is_undecodable(error: Exception) -> bool:
    """True for a body that is no JSON, of which clients raise what their JSON reader did."""
    unreadable = json.JSONDecodeError | UnicodeDecodeError
    return any(isinstance(cause, unreadable) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _words(error: Exception) -> str:
    return _flat(str(error)) or type(error).__name__


def _flat(text: str) -> str:
    """Put a text on one line; of any length, as a key in it is found only whole."""
    return " ".join(text.split())
