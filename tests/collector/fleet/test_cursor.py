"""What a fleet remembers in a line: the place of sent results, and the rounds of retention."""

from collections.abc import Iterator

import pytest

from collector.care.retention import RetentionClock
from collector.fleet.database import Session, open_beside
from collector.fleet.notes import SENT_TO, FleetNote
from collector.results.sender import Cursor
from collector.store.rows import FIRST_RESULT, ResultPlace
from scouter.errors import TransientError
from tests.contracts.cursor import CursorContract, Make
from tests.support.postgresql_server import PostgresqlServer

DAY_NS = 86_400 * 10**9


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    made = open_beside(url)
    yield made
    made.close()


def cursor_of(session: Session, endpoint: str) -> Cursor:
    return Cursor(FleetNote(session, f"{SENT_TO}{endpoint}"), endpoint)


class TestCursor(CursorContract):
    """Fulfils the contract."""

    @pytest.fixture
    def make(self, url: str, session: Session) -> Make:
        return lambda endpoint: cursor_of(session, endpoint)


def test_each_endpoint_has_a_place_of_its_own(session: Session) -> None:
    cursor_of(session, "http://a").write(ResultPlace(7, 3))
    cursor_of(session, "http://b").write(ResultPlace(8, 0))
    assert cursor_of(session, "http://a").read() == ResultPlace(7, 3)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"seq": 3}', '{"seq": "x", "ordinal": 1}'])
def test_a_broken_place_sends_all_again(session: Session, content: str) -> None:
    FleetNote(session, "results sent to http://a").write(content)
    assert cursor_of(session, "http://a").read() == FIRST_RESULT


def test_a_database_that_is_away_is_no_place(own_server: PostgresqlServer) -> None:
    """Else all results would be sent again after each outage."""
    session = open_beside(own_server.new_database("own"))
    cursor = cursor_of(session, "http://a")
    cursor.write(ResultPlace(7, 3))
    own_server.crash()
    with pytest.raises(TransientError):
        cursor.read()
    with pytest.raises(TransientError):
        cursor.write(ResultPlace(8, 0))
    session.drop()
    own_server.start()
    assert cursor.read() == ResultPlace(7, 3)
    session.close()


def test_retention_remembers_a_jump_of_the_clock_on_another_machine(session: Session) -> None:
    """A date that is set a year ahead takes nothing out, also after the owner has changed."""
    days = [20_000.0]

    def clock() -> RetentionClock:
        return RetentionClock(
            FleetNote(session, "retention"), 30 * 86_400,
            lambda: int(days[0] * DAY_NS), lambda: 0.0,
        )  # fmt: skip

    assert clock().now_ns(None) == 20_000 * DAY_NS
    days[0] += 365
    first = clock().now_ns(None)
    assert first < 20_002 * DAY_NS
    assert clock().now_ns(None) == first


def test_retention_goes_on_without_its_note(
    own_server: PostgresqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    session = open_beside(own_server.new_database("own"))
    clock = RetentionClock(
        FleetNote(session, "retention"), 86_400, lambda: 20_000 * DAY_NS, lambda: 0.0
    )
    own_server.crash()
    assert clock.now_ns(None) == 20_000 * DAY_NS
    assert "cannot write the note 'retention': PostgreSQL at" in caplog.text
    session.close()
