"""Faults of a provider's client, in a judge's terms."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Final

from scouter.agent.reading import NoAnswerError, UnreadAnswerError, said_in
from scouter.errors import ScouterError
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Reason

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

    | what happened | reason | asked again |
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
