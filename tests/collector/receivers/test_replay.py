"""Replay of dead letters by the log."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from collector.log.brokers import Brokers
from collector.receivers.intake import Intake
from collector.receivers.replay import LetterReplay, ReplayResult
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.letters import DeadLetter, LetterKind, LetterQuery
from scouter.model.otlp import encode_request
from scouter.model.otlp_json import spans_to_otlp_json
from tests.support.otlp import logs_request
from tests.support.worker_room import (
    SPACE,
    START_NS,
    WorkerRoom,
    record,
    span,
    stored_span_ids,
)

GOOD: Final = record("u1", "nobody", answer=42)
SPAN: Final = encode_request([span(0, 0)]).SerializeToString()


class Room:
    """A worker that works, with letters to replay."""

    def __init__(self, folder: Path) -> None:
        self.room = WorkerRoom(folder, {})
        room = self.room
        self.way = Intake(room.log, room.store, folder, space=SPACE, brokers=Brokers())
        self.replayer = LetterReplay(room.store, self.way, cast(Any, self), SPACE)

    def wait_for(self, offset: int, timeout_s: float) -> bool:
        """Works, where the worker would."""
        self.room.work()
        return self.room.worker.wait_for(offset, timeout_s)

    def append_again(self, append: Callable[[], object]) -> int:
        """As the worker does."""
        return self.room.worker.append_again(append)

    def put(self, kind: LetterKind, payload: bytes, **more: Any) -> None:
        """Store a letter."""
        letter = DeadLetter(
            space=SPACE, kind=kind, reason="any", message="", source="http", payload=payload,
            received_ns=START_NS, **more,
        )  # fmt: skip
        self.room.store.commit(Commit(letters=[letter]))

    def replay(self) -> list[tuple[ReplayResult, str]]:
        """Replay all letters; returns results and messages."""
        letters = self.room.store.dead_letters(LetterQuery(space=SPACE, payload_bytes=10))
        found = [self.replayer.replay(each) for each in letters]
        return [(each.result, each.message) for each in found]

    @property
    def letters(self) -> int:
        """Letters that are left."""
        return len(self.room.store.dead_letters(LetterQuery(space=SPACE)))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.room.close()


@pytest.mark.parametrize(
    "payload", [SPAN, json.dumps(spans_to_otlp_json([span(0, 0)])).encode()], ids=["wire", "json"]
)
@pytest.mark.parametrize("kind", [LetterKind.SPAN, LetterKind.SPANS_MESSAGE])
def test_spans(here: Room, kind: LetterKind, payload: bytes) -> None:
    here.put(kind, payload)
    assert here.replay() == [(ReplayResult.ACCEPTED, "")]
    assert (stored_span_ids(here.room, 0), here.letters) == ([f"{1:016x}"], 0)


def test_a_request_that_begins_like_json_after_a_line_feed(here: Room) -> None:
    """Behind the tag, which is a line feed, it says that 123 bytes follow: a brace."""
    name = "n" * (len("step") + 123 - (len(SPAN) - 2))
    payload = encode_request([span(0, 0, name=name)]).SerializeToString()
    assert payload.startswith(b"\n{")
    here.put(LetterKind.SPAN, payload)
    assert here.replay() == [(ReplayResult.ACCEPTED, "")]


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (LetterKind.RECORD, json.dumps(GOOD).encode()),
        (LetterKind.RECORDS_MESSAGE, json.dumps({"records": [GOOD]}).encode()),
        (LetterKind.LOG, logs_request([GOOD]).SerializeToString()),
    ],
)
def test_records(here: Room, kind: LetterKind, payload: bytes) -> None:
    here.put(kind, payload)
    assert here.replay() == [(ReplayResult.ACCEPTED, "")]
    assert (here.room.count("records"), here.letters) == (1, 0)


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (LetterKind.SPAN, b"\xff", ""),
        (LetterKind.RECORD, b"{", "not JSON"),
        (LetterKind.RECORD, b"{}", "profile"),
        (LetterKind.RECORDS_MESSAGE, json.dumps({"records": [GOOD, {}]}).encode(), "profile"),
        (LetterKind.LOG, logs_request([7]).SerializeToString(), "an object"),
    ],
)
def test_what_still_cannot_be_used_stays(
    here: Room, kind: LetterKind, payload: bytes, why: str
) -> None:
    here.put(kind, payload)
    [(result, message)] = here.replay()
    assert (result, here.letters, here.room.log.end) == (ReplayResult.REFUSED, 1, 0)
    assert why in message


def test_a_conflict_stays_one_letter(here: Room) -> None:
    here.room.records(GOOD)
    here.room.records(record("u1", "nobody", answer=43))
    here.room.work()
    [(result, message)] = here.replay()
    assert (result, here.letters) == (ReplayResult.REFUSED, 1)
    assert "accepted before with another content" in message


def test_what_was_erased_stays_erased(here: Room) -> None:
    """A letter goes with it, and comes no more; one that somebody has read stays as it is."""
    here.room.records(GOOD)
    here.room.work()
    here.put(LetterKind.RECORD, json.dumps(GOOD).encode())
    (read,) = here.room.store.dead_letters(LetterQuery(space=SPACE))
    here.room.store.erase(EraseTarget(space=SPACE, record_uid="u1"))
    here.put(LetterKind.RECORD, json.dumps(GOOD).encode())
    assert here.letters == 0
    found = here.replayer.replay(read)
    assert (found.result, here.room.count("records")) == (ReplayResult.REFUSED, 0)
    assert "erased" in found.message


def test_an_accepted_record_waits_again(here: Room) -> None:
    here.room.records(GOOD)
    here.room.work()
    here.put(LetterKind.RECORD, b"", uid="u1", was_accepted=True)
    assert here.replay() == [(ReplayResult.WAITING, "")]
    assert (here.letters, here.room.worker.waiting) == (0, 2)  # as it came, and once more
    here.put(LetterKind.RECORD, b"", uid="u2", was_accepted=True)
    assert (ReplayResult.REFUSED, "the record 'u2' is not stored any more") in here.replay()


def test_one_that_is_replayed_twice_is_taken_once(here: Room) -> None:
    here.put(LetterKind.RECORD, json.dumps(GOOD).encode())
    (stored,) = here.room.store.dead_letters(LetterQuery(space=SPACE))
    assert here.replayer.replay(stored).result is ReplayResult.ACCEPTED
    again = here.replayer.replay(stored)
    assert (again.result, "not there any more" in again.message) == (ReplayResult.REFUSED, True)
