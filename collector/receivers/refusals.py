"""Refusals of requests: an error as an HTTP status, as gRPC's code, and as a word for a series."""

import math
from typing import Final, NamedTuple

from collector.items.limits import TooLargeError
from collector.problem import ProblemError
from collector.receivers.budget import FullError
from scouter.errors import DataError, TransientError


class Kind(NamedTuple):
    """A status in other words."""

    grpc_code: int
    """Number of a `google.rpc.Code`."""
    word: str


_KINDS: Final = {
    400: Kind(3, "invalid"),  # INVALID_ARGUMENT
    401: Kind(16, "invalid"),  # UNAUTHENTICATED
    403: Kind(7, "invalid"),  # PERMISSION_DENIED
    408: Kind(3, "slow"),
    413: Kind(3, "too_large"),
    415: Kind(3, "unsupported"),
    421: Kind(3, "invalid"),
    429: Kind(8, "full"),  # RESOURCE_EXHAUSTED
    503: Kind(14, "unavailable"),  # UNAVAILABLE
}
_FAULT: Final = Kind(13, "invalid")  # INTERNAL
_RETRY_AFTER_S: Final = 5

Refusal = ProblemError | DataError | TransientError


def problem_of(error: Refusal) -> ProblemError:
    """The status and the headers of the answer to an error."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, TransientError):
        status = 429 if isinstance(error, FullError) else 503
        return ProblemError(status, error.message, math.ceil(error.retry_after_s or _RETRY_AFTER_S))
    return ProblemError(413 if isinstance(error, TooLargeError) else 400, str(error))


def kind_of(status: int) -> Kind:
    """The same for gRPC and for series."""
    return _KINDS.get(status, _FAULT)
