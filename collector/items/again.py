"""A request to let an accepted record wait again that became a dead letter, as the log has it."""

import json
from typing import NamedTuple

from scouter.errors import DataError


class Again(NamedTuple):
    """The record, and the letter that goes."""

    uid: str
    letter_id: str
    trace_id: str
    """Of the record; empty without one. Its partition has the request."""


def pack_again(again: Again) -> bytes:
    """Write a request."""
    return json.dumps(again._asdict()).encode()


def unpack_again(body: bytes) -> Again:
    """Read what `pack_again` wrote.

    Raises:
        DataError: It is none.
    """
    try:
        return Again(**json.loads(body))
    except (ValueError, TypeError) as error:
        raise DataError(f"no request to let a record wait again: {error}") from error
