"""Dead letters: what was put aside, and taking it in again."""

import base64
import binascii
import re
from collections.abc import Callable
from typing import Annotated, Final, TypeVar

from fastapi import Path, Query

from collector.api.parameters import (
    BAD_CURSOR,
    NOT_FOUND,
    Admin,
    Cursor,
    Limit,
    Reader,
    answer_of,
    api_router,
)
from collector.api.parts import Parts, TheParts
from collector.items.times import time_at
from collector.problem import ProblemError
from collector.receivers.budget import RETRY_AFTER_S, FullError
from collector.receivers.replay import LetterReplay, ReplayResult
from collector.store.letters import LetterKind, LetterQuery, StoredLetter
from collector.store.store import Store
from scouter.client.models.answer import Page
from scouter.client.models.operation import DeadLetter, ReplayedLetter, ReplayedLetters
from scouter.errors import TransientError

_SHOWN: Final = 64 * 2**10
_PART: Final = 16
_POSITION: Final = re.compile(r"(\d{1,18})\.([0-9a-f]{32})")

T = TypeVar("T")

Reason = Annotated[str | None, Query(max_length=100, description="Such as invalid_span.")]
Kind = Annotated[LetterKind | None, Query(description="Kind of the item.")]


router = api_router(tag="operation")


def _page(
    store: Store,
    space: str,
    reason: str | None,
    kind: LetterKind | None,
    limit: int,
    cursor: str | None,
    use: Callable[[StoredLetter], T],
) -> tuple[list[T], str | None]:
    """Use letters, few of which are in memory at a time, and not whole."""
    used: list[T] = []
    before, last = _read_cursor(cursor), None
    try:
        while True:
            part = min(limit + 1 - len(used), _PART)
            found = store.dead_letters(
                LetterQuery(
                    space=space,
                    reason=reason,
                    kind=kind,
                    limit=part,
                    before=before,
                    payload_bytes=_SHOWN,
                )
            )
            for each in found:
                if len(used) == limit:
                    return used, last
                used.append(use(each))
                before, last = (each.seq, each.letter_id), _write_cursor(each)
            if len(found) < part:
                return used, None
    except (ProblemError, TransientError):
        if not used:
            raise
        return used, last  # what was done is reported; the next page says what is wrong


@router.get("/dead-letters")
def dead_letters(
    parts: TheParts,
    caller: Reader,
    reason: Reason = None,
    kind: Kind = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[DeadLetter]:
    """Data that the collector could not use, newest first."""
    items, following = _page(parts.store, caller.space, reason, kind, limit, cursor, _item)
    return Page[DeadLetter](items=tuple(items), next_cursor=following)


@router.post("/dead-letters/{letter_id}/replay", responses=NOT_FOUND)
def replay_one(
    parts: TheParts, caller: Admin, letter_id: Annotated[str, Path(max_length=64)]
) -> ReplayedLetter:
    """Take one letter in again; a letter that is still refused stays."""
    query = LetterQuery(space=caller.space, letter_id=letter_id, payload_bytes=_SHOWN)
    found = parts.store.dead_letters(query)
    if not found:
        raise ProblemError(404, f"no dead letter {letter_id!r}; it may have been replayed")
    return _replay(parts, caller.space)(found[0])


@router.post("/dead-letters/replay")
def replay_all(
    parts: TheParts,
    caller: Admin,
    reason: Reason = None,
    kind: Kind = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> ReplayedLetters:
    """Take in again what a filter names, page by page."""
    replay = _replay(parts, caller.space)
    items, following = _page(parts.store, caller.space, reason, kind, limit, cursor, replay)
    results = [item.result for item in items]
    return ReplayedLetters(
        items=tuple(items),
        accepted=results.count(ReplayResult.ACCEPTED),
        waiting=results.count(ReplayResult.WAITING),
        refused=results.count(ReplayResult.REFUSED),
        next_cursor=following,
    )


def _replay(parts: Parts, space: str) -> Callable[[StoredLetter], ReplayedLetter]:
    replayer = LetterReplay(parts.store, parts.ingest.in_space(space), parts.worker, space)

    def replay(stored: StoredLetter) -> ReplayedLetter:
        try:
            done = replayer.replay(stored)
        except FullError as error:
            raise ProblemError(429, error.message, RETRY_AFTER_S) from error
        return answer_of(ReplayedLetter, done)

    return replay


def _item(stored: StoredLetter) -> DeadLetter:
    letter = stored.letter
    shown = letter.payload
    text = shown.decode("utf-8", "replace")
    is_text = text.encode() == shown
    return answer_of(
        DeadLetter,
        letter,
        letter_id=stored.letter_id,
        kind=letter.kind.value,
        received_at=time_at(letter.received_ns),
        size_bytes=stored.size_bytes,
        payload=text if is_text else "",
        payload_base64=None if is_text else base64.b64encode(shown).decode("ascii"),
    )


def _write_cursor(stored: StoredLetter) -> str:
    return base64.urlsafe_b64encode(f"{stored.seq}.{stored.letter_id}".encode()).decode()


def _read_cursor(text: str | None) -> tuple[int, str] | None:
    if text is None:
        return None
    try:
        match = _POSITION.fullmatch(base64.b64decode(text, b"-_", validate=True).decode("ascii"))
    except (ValueError, binascii.Error):
        match = None
    if match is None:
        raise ProblemError(400, BAD_CURSOR)
    return int(match[1]), match[2]
