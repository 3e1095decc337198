"""Orders to a fleet: what is erased, and that the answers of judges go before."""

from concurrent.futures import Future
from typing import Any

import pytest

from collector.fleet.hand import FleetOperation
from collector.store.erase import Erased, EraseTarget
from scouter.errors import ConfigError, TransientError

TARGET = EraseTarget(space="shop", record_uid="u1")
ERASED = Erased(
    space="shop", seq=7, uids=frozenset({"u1"}), traces=frozenset(),
    spans=0, evaluations=1, dead_letters=0, runs=0,
)  # fmt: skip


class Noting:
    """An eraser and answers that write down, in order, how they are called."""

    def __init__(self, outcome: Erased | Exception) -> None:
        self.lines: list[str] = []
        self._outcome = outcome

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        self.lines.append(f"erase {target.record_uid}")
        done: Future[Erased] = Future()
        if isinstance(self._outcome, Exception):
            done.set_exception(self._outcome)
        else:
            done.set_result(self._outcome)
        return done

    def begin_erasing(self, space: str) -> None:
        self.lines.append(f"begin {space}")

    def end_erasing(self, space: str, seq: int) -> None:
        self.lines.append(f"end {space} {seq}")


def test_answers_go_before_and_are_stored_again_behind_the_commit() -> None:
    noting: Any = Noting(ERASED)
    done = FleetOperation(noting, noting).erase(TARGET)
    assert noting.lines == ["begin shop", "erase u1", "end shop 7"]
    assert (done.erased, done.is_gone, done.backups) == (ERASED, False, ())


def test_answers_are_stored_again_where_nothing_was_erased() -> None:
    noting: Any = Noting(TransientError("PostgreSQL is away"))
    with pytest.raises(TransientError, match="PostgreSQL is away"):
        FleetOperation(noting, noting).erase(TARGET)
    assert noting.lines == ["begin shop", "erase u1", "end shop 0"]


def test_it_makes_no_backups() -> None:
    noting = Noting(ERASED)
    with pytest.raises(ConfigError, match=r"'monday'.*in PostgreSQL; back that up"):
        FleetOperation(noting, None).back_up("monday")
    assert FleetOperation(noting, None).erase(TARGET).backups == ()
    assert noting.lines == ["erase u1"]
