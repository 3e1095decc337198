"""Sessions of a share: their records lie in any partition, and their time waits for all."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from collector.fleet.sessions import FleetSessions
from collector.fleet.share import Share
from collector.fleet.store import FleetStore
from collector.fleet.whole import share_of
from collector.log.brokers import Brokers
from collector.store.rows import Completeness, EvaluationRow
from collector.worker.late import LateSpans, LateWindow
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.recover import Starts
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.fleet.store_support import rows
from tests.contracts.store_data import SPACE, record

TALK: Final = AgentEvalProfile(
    [AssertionTask("turns", "records[*].context.turn", 2, "HasLengthEqual", scope="session")],
    alias="chat",
)
TIMES: Final = JoinTimes(session_quiet_s=10, session_deadline_s=100)


class Here:
    """The share that evaluates the session `s`, and another one, by a hand clock."""

    def __init__(self, fleet: FleetStore) -> None:
        self.now = 0.0
        part = share_of(SPACE, "s", fleet.partitions)
        self.mine = fleet.take(part, "mine")
        self.other = fleet.take((part + 1) % fleet.partitions, "other")
        self.registry = ProfileRegistry(fleet)
        self.profile_uid = self.registry.register(SPACE, TALK, activate=True).uid
        self.brokers = Brokers(lambda: self.now)
        self.sessions = self.started()

    def started(self) -> FleetSessions:
        """The sessions as a process that begins finds them."""
        late = LateSpans(self.mine, LateWindow(1000.0, 0.0, 0))
        return FleetSessions(
            self.brokers, self.mine, self.registry, TIMES, late,
            clock=lambda: self.now, now_ns=lambda: int(self.now * 1e9),
        )  # fmt: skip

    def say(self, share: Share, turn: int, session_id: str = "s") -> None:
        row = record(
            f"u{turn}", session_id=session_id, profile_uid=self.profile_uid, alias="chat",
            context={"turn": turn},
        )  # fmt: skip
        share.commit(rows(SPACE, records=[row]))

    def after(self, seconds: float) -> list[EvaluationRow]:
        """What is evaluated by then; the sessions are looked at each second."""
        made: list[EvaluationRow] = []
        for _ in range(round(seconds)):
            self.now += 1
            self.sessions.look(self.now)
            while self.sessions.has_due:
                part = self.sessions.take(Starts({}, is_unfinished=False))
                made += self.sessions.judge(part, Starts({}, is_unfinished=False), self.now + 9)[0]
        return made

    def close(self) -> None:
        self.mine.close()
        self.other.close()


@pytest.fixture
def here(fleet: FleetStore) -> Iterator[Here]:
    room = Here(fleet)
    yield room
    room.close()


def test_records_of_other_partitions_belong_to_it(here: Here) -> None:
    here.say(here.mine, 1)
    assert here.after(5) == []
    here.say(here.other, 2)
    assert here.after(9) == []
    (found,) = here.after(3)
    assert (found.session_id, found.outcome.value) == ("s", "passed")
    assert here.after(30) == []


def test_the_other_share_does_not_evaluate_it(here: Here) -> None:
    own = here.mine
    here.mine, here.other = here.other, here.mine
    here.sessions = here.started()
    here.say(own, 1)
    here.say(own, 2)
    assert here.after(30) == []


def test_what_came_before_the_start_is_found(here: Here) -> None:
    here.say(here.other, 1)
    here.say(here.other, 2)
    here.sessions = here.started()
    assert [row.outcome.value for row in here.after(12)] == ["passed"]


def test_its_time_stands_still_while_a_partition_is_behind(here: Here) -> None:
    here.brokers.add("7")
    here.say(here.other, 1)
    assert here.after(60) == []
    here.say(here.other, 2)
    here.brokers.report("7", 0.0)
    assert here.after(1) == []

    def caught_up() -> list[EvaluationRow]:
        here.brokers.report("7", 0.0)
        return here.after(1)

    (found,) = until(caught_up, 12)
    assert (found.outcome.value, found.completeness) == ("passed", Completeness.COMPLETE)


def test_a_partition_that_stays_behind_is_waited_for_up_to_the_deadline(here: Here) -> None:
    """The verdict says that it is incomplete."""
    here.brokers.add("7")
    here.say(here.other, 1)
    assert here.after(99) == []
    (found,) = here.after(20)
    assert (found.outcome.value, found.completeness) == ("failed", Completeness.DEADLINE)


def until(look: Callable[[], list[EvaluationRow]], times: int) -> list[EvaluationRow]:
    return [row for _ in range(times) for row in look()]
