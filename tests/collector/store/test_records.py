"""Records, sessions and letters on either database, as the contracts of a store have them."""

import json
from dataclasses import replace
from pathlib import Path

from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.file_store import FileStore
from collector.store.letters import DeadLetter, LetterKind, LetterQuery
from collector.store.record_queries import RecordQuery
from collector.store.rows import RecordState, SettledRecord
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, TRACE, evaluation, letter, record, span
from tests.contracts.store_records import StoreRecordsContract
from tests.contracts.store_text import StoreTextContract
from tests.support.store_appends import AppendingStore


class TestRecords(StoreRecordsContract):
    """Lists and histories."""


class TestText(StoreTextContract):
    """Records with a text."""


def test_contexts_of_megabytes_are_searched_in_little_memory(tmp_path: Path) -> None:
    """Forty of 8 MB are more than twice the memory that the store may use."""
    store = AppendingStore(tmp_path / "data", 128 * 2**20)
    for n in range(40):
        text = "x" * 8_000_000 + ("needle" if n in (0, 39) else "")
        store.append_records([record(f"u{n}", context={"a": text})]).result()
    page = store.records(RecordQuery(space=SPACE), texts=["NEEDLE"])
    store.close()
    assert [each.record.uid for each in page.items] == ["u39", "u0"]
    assert {each.match and tuple(dict(each.match).values()) for each in page.items} == {
        ("a", "…" + "x" * 60, "needle", "")
    }


def test_a_start_finds_the_record_of_a_letter_that_was_taken_out(tmp_path: Path) -> None:
    """The join had left its commit behind; a letter that is no record's state changes nothing."""
    store = AppendingStore(tmp_path / "data")
    seq = store.append_records([record("late"), record("judged")]).result().seq
    store.append_evaluations([evaluation("judged")]).result()
    given_up = letter(uid="late", was_accepted=True, reason="unknown_profile")
    store.append_dead_letters([given_up, letter(uid="judged")]).result()
    store.commit(Commit(low_seq=store.last_seq()))
    low = store.low_seq
    ids = {each.letter.uid: each.letter_id for each in store.dead_letters(LetterQuery(space=SPACE))}
    store.remove_dead_letters(SPACE, [ids["judged"]])
    assert store.low_seq == low > seq
    store.remove_dead_letters(SPACE, [ids["late"]])
    store.close()
    again = FileStore(tmp_path / "data")
    page = again.records(RecordQuery(space=SPACE, state=RecordState.WAITING))
    assert again.low_seq == seq
    assert [row.uid for row in again.undecided(seq)] == ["late"]
    assert [each.record.uid for each in page.items] == ["late"]
    again.close()


def test_no_letter_brings_back_what_was_erased(tmp_path: Path) -> None:
    """Of a record by its uid, of a trace by an id in a payload; each counts as a duplicate."""
    store = AppendingStore(tmp_path / "data")
    store.append_records([record("gone"), record("stays")]).result()
    store.append_spans(SPACE, [span(1)], 1).result()
    store.erase(EraseTarget(space=SPACE, record_uid="gone"))
    store.erase(EraseTarget(space=SPACE, trace_id=TRACE))
    refused = [
        letter(payload=json.dumps({"uid": uid}).encode()) for uid in ("gone", "stays", "new")
    ]
    late = letter(kind=LetterKind.SPAN, reason="invalid_span", payload=_wire(span(2)))
    of_other = letter(kind=LetterKind.SPAN, reason="invalid_span", payload=_wire(_OTHER))
    poison = letter(uid="gone", was_accepted=True, reason="poison")
    store.append_dead_letters([*refused, late, of_other, poison]).result()
    found = [each.letter for each in store.dead_letters(LetterQuery(space=SPACE))]
    sheet = store.conservation(SPACE)
    store.close()
    assert sorted(found, key=_payload) == sorted([*refused[1:], of_other], key=_payload)
    assert (sheet.records.duplicates, sheet.spans.duplicates) == (1, 1)


_OTHER = span(3, trace_id="e" * 32)


def _wire(row: Span) -> bytes:
    return encode_request([row]).SerializeToString()


def _payload(row: DeadLetter) -> bytes:
    return row.payload


def test_sessions_that_are_known_later_are_found(tmp_path: Path) -> None:
    """Also after a restart, and where another one was known before."""
    store = AppendingStore(tmp_path)
    for number in range(140):
        store.append_records([record(f"r{number}", session_id="", trace_id=TRACE)]).result()
    settled = [
        SettledRecord(space=SPACE, uid=f"r{number}", seq=0, session_id=f"s{number}")
        for number in (3, 4, 90, 139)
    ]
    store.commit(Commit(settled=settled))
    store.commit(Commit(settled=[replace(settled[0], session_id="s3b")]))
    expected = {"s3b": ["r3"], "s4": ["r4"], "s90": ["r90"], "s139": ["r139"], "s3": []}

    def found(store: FileStore) -> dict[str, list[str]]:
        pages = {
            each: store.records(RecordQuery(space=SPACE, session_id=each, limit=10))
            for each in expected
        }
        return {key: [item.record.uid for item in page.items] for key, page in pages.items()}

    assert found(store) == expected
    store.close()
    again = FileStore(tmp_path)
    assert found(again) == expected
    again.close()
