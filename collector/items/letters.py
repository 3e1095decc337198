"""Dead letters, and requests to let their records wait again: their form in the log."""

import json
from typing import Final, NamedTuple

from collector.store.letters import DeadLetter, LetterKind
from scouter.errors import DataError

UNREADABLE: Final = "unreadable_batch"
"""Reason of a letter that holds a batch of Kafka, and not its messages."""
MAX_PAYLOAD: Final = 2**20
"""Bytes of a dead letter that are stored; of a larger one, one more, by which it is known."""
_CUT: Final = "bytes are stored)"
_MESSAGES: Final = {
    LetterKind.SPAN: LetterKind.SPANS_MESSAGE,
    LetterKind.RECORD: LetterKind.RECORDS_MESSAGE,
}
"""Only letters of these kinds are large, by which those who read many of them know them. Their
reason distinguishes the single span from a message of many."""


def make_letter(
    space: str,
    kind: LetterKind,
    reason: str,
    message: str,
    source: str,
    payload: bytes,
    now_ns: int,
    max_bytes: int = MAX_PAYLOAD,
    uid: str = "",
) -> DeadLetter:
    """Make a dead letter; of an item that is too large for one only the beginning is stored.

    Args:
        space: Space of the item.
        kind: Kind of the item.
        reason: One word.
        message: A sentence.
        source: The receiver and its address.
        payload: Bytes of the item as they came.
        now_ns: Time of arrival, nanoseconds since the epoch.
        max_bytes: The largest payload that is stored whole.
        uid: Of a span its trace, so that tasks on that trace know that it lacks one.
    """
    ending = ""
    if len(payload) > max(max_bytes, MAX_PAYLOAD):
        ending = f" (the first {MAX_PAYLOAD} of {len(payload)} {_CUT}"
        payload = payload[: MAX_PAYLOAD + 1]
    elif len(payload) > MAX_PAYLOAD:
        kind = _MESSAGES.get(kind, kind)
    text = message.encode("utf-8", "replace").decode()[: 4000 - len(ending)]
    return DeadLetter(
        space=space,
        kind=kind,
        reason=reason,
        message=f"{text}{ending}",
        source=source,
        payload=payload,
        uid=uid,
        received_ns=now_ns,
    )


def is_cut(message: str, size_bytes: int) -> bool:
    """Tell of a letter, by its message and size, whether only the beginning is stored."""
    return size_bytes == MAX_PAYLOAD + 1 and message.endswith(_CUT)


def pack_letter(letter: DeadLetter) -> bytes:
    """Write a letter as an item of the log, which has its space, source and time beside it."""
    names = (letter.kind.value, letter.reason, letter.message, letter.uid)
    return json.dumps(names).encode() + b"\n" + letter.payload


def unpack_letter(body: bytes, space: str, source: str, received_ns: int) -> DeadLetter:
    """Read what `pack_letter` wrote.

    Raises:
        DataError: The bytes are something else.
    """
    head, _, payload = body.partition(b"\n")
    try:
        kind, reason, message, uid = json.loads(head)
        return DeadLetter(
            space=space, kind=LetterKind(kind), reason=reason, message=message, source=source,
            payload=payload, uid=uid, received_ns=received_ns,
        )  # fmt: skip
    except (ValueError, TypeError) as error:
        raise DataError(f"no letter: {error}") from error


class Again(NamedTuple):
    """A request to let an accepted record wait again: it became a dead letter, which goes."""

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
