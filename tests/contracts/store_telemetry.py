"""Telemetry in any store: spans, records, dead letters, drops, and the order of commits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics import TotalKey, TotalName
from collector.store.letters import LetterKind, LetterQuery
from scouter.model.span import Span
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    letter,
    record,
    same,
    span,
    spans,
)
from tests.contracts.store_opened import IN_CLASS, Open, OpenedStore
from tests.support.store_appends import AppendingStore


class TelemetryContract(OpenedStore):
    """What senders bring."""

    @IN_CLASS
    @given(batch=st.lists(spans, min_size=1, max_size=4, unique_by=lambda s: s.span_id))
    def test_spans_come_back_exactly(self, store: AppendingStore, batch: list[Span]) -> None:
        space = f"space {store.last_seq()}"  # one store for all examples
        assert store.append_spans(space, batch, 1).result().stored == tuple(batch)
        found = store.spans_of(space, {each.trace_id for each in batch})
        back = {each.span_id: each for spans in found.values() for each in spans}
        assert len(back) == len(batch)
        for each in batch:
            assert same(back[each.span_id], each)

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_of_two_spans_with_one_key_the_better_stays_in_any_order(
        self, store: AppendingStore, is_one_batch: bool
    ) -> None:
        """Later end first; then more bytes: `xx` is longer than `x`."""
        early, late = span(1, end_ns=20, attributes={"k": "long text"}), span(1, end_ns=21)
        longer = span(1, end_ns=21, attributes={"k": "xx"})
        for number, order in enumerate(itertools.permutations([early, late, longer])):
            space = f"space {number}"
            for batch in [list(order)] if is_one_batch else [[each] for each in order]:
                store.append_spans(space, batch, 1).result()
            assert store.spans_of(space, [TRACE]) == {TRACE: [longer]}
            sheet = store.conservation(space).spans
            assert (sheet.accepted, sheet.stored, sheet.duplicates) == (1, 1, 2)

    def test_a_span_again_is_a_duplicate(self, open_store: Open) -> None:
        """In the same batch, in a later one, and after the store was closed."""
        store = open_store()
        first = store.append_spans(SPACE, [span(1), span(2), span(1)], 1).result()
        second = store.append_spans(SPACE, [span(2), span(3)], 2).result()
        store.close()
        store = open_store()
        third = store.append_spans(SPACE, [span(3), span(4)], 3).result()
        sheet = store.conservation(SPACE).spans
        store.close()

        assert [len(each.stored) for each in (first, second, third)] == [2, 1, 1]
        assert [each.duplicates for each in (first, second, third)] == [1, 1, 1]
        assert (sheet.accepted, sheet.stored, sheet.duplicates) == (4, 4, 3)

    def test_says_which_traces_it_had_spans_of(self, store: AppendingStore) -> None:
        other = "f" * 32
        first = store.append_spans(SPACE, [span(1)], 1).result()
        second = store.append_spans(SPACE, [span(2), span(1, trace_id=other)], 2).result()
        elsewhere = store.append_spans("elsewhere", [span(3)], 3).result()

        assert first.known_traces == frozenset()
        assert second.known_traces == {TRACE}
        assert elsewhere.known_traces == frozenset()

    def test_traces_of_spaces_are_apart(self, store: AppendingStore) -> None:
        store.append_spans("a", [span(1)], 1).result()
        store.append_spans("b", [span(1, name="other")], 1).result()

        assert store.spans_of("a", [TRACE, "e" * 32]) == {TRACE: [span(1)]}
        assert [each.name for each in store.spans_of("b", [TRACE])[TRACE]] == ["other"]
        assert store.spans_of("c", [TRACE]) == {}
        assert store.spans_of("a", []) == {}

    def test_a_record_again_is_a_duplicate_and_another_payload_a_conflict(
        self, open_store: Open
    ) -> None:
        store = open_store()
        first = store.append_records([record("u1"), record("u2"), record("u1")]).result()
        other = record("u1", digest="another", context="another")
        second = store.append_records([other, record("u2")]).result()
        store.close()
        store = open_store()
        third = store.append_records([other, record("u3")]).result()
        sheet, stored = store.conservation(SPACE), store.records_of(SPACE, ["u1", "u2", "u3"])
        store.close()

        assert [row.uid for row in first.accepted] == ["u1", "u2"]
        assert (first.duplicates, second.conflicts, second.duplicates) == ((2,), (0,), (1,))
        assert (third.conflicts, [row.uid for row in third.accepted]) == ((0,), ["u3"])
        assert (sheet.records.accepted, sheet.records.duplicates) == (3, 2)
        assert dict(sheet.dead_letters) == {"conflict": 1}  # the same conflict twice is one
        assert stored == [record("u1"), record("u2"), record("u3")]

    def test_the_same_uid_in_two_spaces_is_two_records(self, store: AppendingStore) -> None:
        rows = [record("u1"), record("u1", space="other", digest="another")]
        assert len(store.append_records(rows).result().accepted) == 2

    def test_records_say_which_commit_accepted_them(self, open_store: Open) -> None:
        store = open_store()
        seqs = [store.append_records([record(uid)]).result().seq for uid in ("u1", "u2")]
        read = store.records_of(SPACE, ["u1", "u2"])
        waiting = store.undecided(0)
        store.close()

        assert {row.uid: row.seq for row in read} == dict(zip(("u1", "u2"), seqs, strict=True))
        assert [each.seq for each in waiting] == seqs

    def test_dead_letters_of_one_place_are_stored_once(self, store: AppendingStore) -> None:
        one = letter(kind=LetterKind.SPAN, source="kafka:scouter.spans:0:17")
        store.append_dead_letters([one, one]).result()
        store.append_dead_letters([one, letter(source="kafka:scouter.spans:0:18")]).result()

        sheet = store.conservation(SPACE)
        assert dict(sheet.dead_letters) == {"invalid_record": 2}
        assert sheet.spans.dead_lettered == 1
        assert store.totals()[TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")] == 2

    def test_a_letter_that_was_taken_out_is_gone_and_may_come_again(
        self, store: AppendingStore
    ) -> None:
        """A letter that is absent, or of another space, is passed over; totals stay the same."""
        stored, gone = letter(source="stays"), letter(source="gone")
        store.append_dead_letters([stored, gone, letter(space="elsewhere")]).result()
        by_source = {
            each.letter.source: each.letter_id
            for each in store.dead_letters(LetterQuery(space=SPACE))
        }
        (other,) = store.dead_letters(LetterQuery(space="elsewhere"))
        ids = [by_source["gone"], other.letter_id, "none"]
        removed = store.remove_dead_letters(SPACE, ids)
        again = store.remove_dead_letters(SPACE, ids)
        nothing = store.remove_dead_letters(SPACE, [])

        assert removed.letter_ids == (by_source["gone"],)
        assert again.letter_ids == nothing.letter_ids == ()
        left = store.dead_letters(LetterQuery(space=SPACE))
        assert [each.letter for each in left] == [stored]
        assert dict(store.conservation(SPACE).dead_letters) == {"invalid_record": 1}
        assert dict(store.conservation("elsewhere").dead_letters) == {"invalid_record": 1}
        key = TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")
        assert store.totals()[key] == 2
        store.append_dead_letters([gone]).result()
        assert len(store.dead_letters(LetterQuery(space=SPACE))) == 2

    def test_totals_survive(self, open_store: Open) -> None:
        key = TotalKey(TotalName.DROPPED, SPACE, label="queue_full")
        store = open_store()
        store.add_totals({key: 3}).result()
        store.add_totals({key: 4}).result()
        assert store.totals()[key] == 7
        store.close()
        store = open_store()
        store.add_totals({key: 1}).result()
        assert store.totals()[key] == 8
        store.close()

    def test_commits_are_numbered_on_after_a_restart(self, open_store: Open) -> None:
        store = open_store()
        first = store.append_records([record("u1")]).result().seq
        second = store.append_spans(SPACE, [span(1)], 1).result().seq
        store.close()
        store = open_store()
        assert store.last_seq() >= second > first
        assert store.append_records([record("u2")]).result().seq > second
        store.close()
