"""Judgements that were begun: who is judged alone, later, or not any more."""

import pytest

from collector.store.commit import RecordId
from collector.worker.begun import Begun

A, B = RecordId("s", "a"), RecordId("s", "b")


@pytest.mark.parametrize(
    ("times", "alone", "postponed", "poison"),
    [(0, False, False, False), (1, True, False, False), (2, True, True, False),
     (3, True, True, True)],
)  # fmt: skip
def test_what_a_record_has_become(times: int, alone: bool, postponed: bool, poison: bool) -> None:
    begun = Begun({A: times} if times else {}, is_unfinished=True)
    assert (begun.is_alone(*A), begun.is_postponed(*A), begun.is_poison(*A)) == (
        alone,
        postponed,
        poison,
    )
    assert not begun.is_alone(*B)


def test_a_process_after_an_orderly_end_notes_nothing() -> None:
    assert Begun({}, is_unfinished=False).to_note("s", ["a"]) == []


def test_each_record_is_noted_once_by_a_process() -> None:
    begun = Begun({A: 1}, is_unfinished=True)
    assert begun.to_note("s", ["a", "b"]) == [A, B]
    assert begun.to_note("s", ["a", "b"]) == []


def test_care_ends_once_all_that_was_found_is_finished() -> None:
    begun = Begun({A: 1}, is_unfinished=True)
    begun.rest()
    assert begun.is_careful
    begun.done("s", ["a"])
    begun.rest()
    assert not begun.is_careful
    assert begun.to_note("s", ["b"]) == []
