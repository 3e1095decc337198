"""Shares of a fleet's store: what each sees, who may write, and what happens beside it."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from collector.fleet.database import ConflictError
from collector.fleet.schema import DAY_NS
from collector.fleet.share import FencedError, Share
from collector.fleet.store import FleetStore
from collector.fleet.whole import share_of
from collector.metrics import TotalKey, TotalName
from collector.store.bodies import trace_hash
from collector.store.commit import Commit, RecordId, SpanId
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.letters import LetterQuery
from collector.store.record_queries import RecordQuery
from collector.store.rows import FIRST_RESULT, RecordState, ResultPlace, SettledRecord
from scouter.drift.series.observed import Place
from scouter.errors import DataError, TransientError
from scouter.evaluate.outcome import Outcome
from tests.collector.fleet.store_support import frozen, rows, waits
from tests.contracts.store_data import SPACE, TRACE, evaluation, letter, record, span

ONE, TWO = f"{1:032x}", f"{2:032x}"
Take = Callable[..., Share]


@pytest.fixture
def take(fleet: FleetStore) -> Iterator[Take]:
    """Takes a partition; all of them are closed at the end."""
    taken: list[Share] = []

    def one(part: int, owner: str = "me", store: FleetStore = fleet) -> Share:
        taken.append(store.take(part, owner, "topic"))
        return taken[-1]

    yield one
    for each in taken:
        each.close()


# --- views ---------------------------------------------------------------------------------------


def test_a_share_sees_its_own_and_the_whole_sees_all(fleet: FleetStore, take: Take) -> None:
    """Records, spans, evaluations, letters and beginnings."""
    shares = [take(0), take(1)]
    for share, uid, trace_id in zip(shares, ("a", "b"), (ONE, TWO), strict=True):
        first = rows(
            SPACE,
            [span(1, trace_id=trace_id), span(2, trace_id=trace_id)],
            [record(uid, trace_id=trace_id), record(f"{uid} waits")],
            offset=3, low_seq=1,
        )  # fmt: skip
        share.commit(first)
        share.commit(
            Commit(
                evaluations=[evaluation(uid, trace_id=trace_id, reads_spans=True)],
                letters=[letter(uid=f"{uid} waits", was_accepted=True)],
                started=[RecordId(SPACE, f"{uid} started")],
            )
        )
    for share, uid, trace_id in zip(shares, ("a", "b"), (ONE, TWO), strict=True):
        assert share.undecided(1) == []
        assert set(share.traces_since(1)) == {(SPACE, trace_id)}
        assert set(share.stored_spans(SPACE, [ONE, TWO])) == {trace_id}
        assert set(share.started(1)) == {(SPACE, f"{uid} started")}
        assert [row.uid for row in share.records_of(SPACE, ["a", "b"])] == [uid]
        found = share.evaluated_since(SPACE, [ONE, TWO], 0)
        assert [each.uid for each in found] == [uid]
        assert [
            each for each in (ONE, TWO) if share.recorded_traces(7).maybe(trace_hash(each))
        ] == [trace_id]
        assert share.totals() == fleet.totals()
        assert not share.recorded_traces(101).maybe(trace_hash(trace_id))
    assert set(shares[0].stored_records(SPACE, ["a", "b", "none"])) == {"a", "b"}
    assert len(fleet.records_of(SPACE, ["a", "b"])) == 2
    assert len(fleet.results_after(FIRST_RESULT, 9)) == 2
    assert fleet.conservation(SPACE).spans.stored == 4
    assert fleet.totals()[TotalKey(TotalName.SPANS_RECEIVED, SPACE)] == 4


def test_changes_of_a_share_leave_others_alone(fleet: FleetStore, take: Take) -> None:
    """A better span, and what a trace tells of a record."""
    shares = [take(0), take(1)]
    for share, uid in zip(shares, ("a", "b"), strict=True):
        share.commit(rows(SPACE, [span(1, trace_id=ONE)], [record(uid, trace_id=ONE)]))
    better = rows(SPACE, [span(1, trace_id=ONE, end_ns=99)])
    better.replaced.append(SpanId(SPACE, ONE, f"{1:016x}"))
    better.settled += [
        SettledRecord(space=SPACE, uid=uid, seq=0, session_id="late") for uid in ("a", "b")
    ]
    shares[0].commit(better)
    ends = fleet.read("SELECT part, end_ns FROM spans ORDER BY part")
    assert ends == [(0, 99), (1, 20)]
    sessions = {row.uid: row.session_id for row in fleet.records_of(SPACE, ["a", "b"])}
    assert sessions == {"a": "late", "b": ""}


def test_sessions_are_noted_for_the_share_that_owns_them(fleet: FleetStore, take: Take) -> None:
    """Once they are known: with the record, or when its trace has reported it."""
    share = take(0)
    share.commit(
        rows(
            SPACE,
            records=[
                record("named", session_id="ann", trace_id=ONE),
                record("alone"),
                record("later", trace_id=ONE),
            ],
        )
    )
    last = share.commit(
        Commit(
            settled=[SettledRecord(space=SPACE, uid="later", seq=0, session_id="bob")],
            evaluations=[evaluation("named")],
        )
    )
    for session, uid in (("ann", "named"), ("alone", "alone"), ("bob", "later")):
        news = fleet.session_news(share_of(SPACE, session, 4), 0, last)
        assert uid in [row.uid for row in news]
    noted = fleet.read("SELECT uid FROM session_news ORDER BY seq, uid")
    assert noted == [("alone",), ("named",), ("later",)]


def test_rows_of_the_api_are_of_the_partition_of_their_record(
    fleet: FleetStore, take: Take
) -> None:
    """So its owner knows them: here another version's evaluation, before late spans come."""
    share = take(2)
    share.commit(
        rows(SPACE, [span(1)], [record(trace_id=TRACE)], [evaluation(trace_id=TRACE)], low_seq=1)
    )
    again = evaluation("u1", Outcome.FAILED, revision=2, evaluation_id="2")
    fleet.commit(Commit(evaluations=[again]))
    ((latest),) = share.latest_evaluations([(SPACE, "u1")]).values()
    assert latest.revision == 2
    assert fleet.read("SELECT DISTINCT part FROM task_results") == [(2,)]
    with pytest.raises(ConflictError):
        share.commit(Commit(records=[record()]))


# --- fence ---------------------------------------------------------------------------------------


def test_a_former_owner_writes_nothing_at_all(fleet: FleetStore, take: Take) -> None:
    """No commit, no write, nothing alone, and not how far it is behind."""
    old = take(1, "old")
    old.commit(rows(SPACE, records=[record("a")], offset=1, low_seq=1))
    new = take(1, "new")
    for attempt in (
        lambda: old.commit(Commit(offset=2, records=[record("b")])),
        lambda: old.write({"begun": [(SPACE, "b")]}),
        lambda: old.erase(EraseTarget(space=SPACE, record_uid="a")),
        lambda: old.report_behind(5),
    ):
        with pytest.raises(FencedError, match="partition 1 belongs to new now"):
            attempt()
    assert "belongs to new" in old.fault()
    assert [row.uid for row in fleet.records_of(SPACE, ["a", "b"])] == ["a"]
    assert fleet.read("SELECT count(*) FROM begun") == [(0,)]
    assert fleet.lags() == {1: 0}
    new.commit(Commit(offset=2, records=[record("b")]))
    assert (new.offset, fleet.conservation(SPACE).records.waiting) == (2, 2)


def test_a_new_owner_waits_for_the_commit_that_is_under_way(fleet: FleetStore, take: Take) -> None:
    """And goes on behind it."""
    old = take(0, "old")
    with ThreadPoolExecutor(1) as pool:
        with frozen(old) as done:
            taken = pool.submit(take, 0, "new")
            waits(fleet, "scouter share 0 write")
        assert taken.result(120).last_seq() == done.result(120)
    with pytest.raises(FencedError):
        old.commit(Commit(offset=1))


def test_lags_are_stored_at_once_and_with_commits(fleet: FleetStore, take: Take) -> None:
    share, other = take(0), take(3)
    share.report_behind(5)
    other.report_behind(None)
    assert fleet.lags() == {0: 5, 3: 0}
    with frozen(share):
        share.report_behind(7)
        assert fleet.lags()[0] == 5
    share.commit(Commit(offset=1))
    assert fleet.lags()[0] == 7
    share.report_behind(None)
    assert fleet.lags()[0] == 0


def test_what_an_idle_partition_needs_is_stored(fleet: FleetStore, take: Take) -> None:
    """Else retention would wait for what nobody needs any more."""
    share = take(0)
    seq = share.commit(rows(SPACE, [span(1)], offset=1, low_seq=1))
    share.need_from(seq + 1)
    share.report_behind(None)
    assert take(0).low_seq == seq + 1


# --- what two partitions say ---------------------------------------------------------------------


def test_one_record_in_two_partitions_is_stored_once(fleet: FleetStore, take: Take) -> None:
    """Both look before, and see nothing; the second to write begins anew, and then sees it."""
    shares = [take(0), take(1)]
    assert [each.stored_records(SPACE, ["u1"]) for each in shares] == [{}, {}]
    first, second = (
        rows(SPACE, [span(at, trace_id=of)], [record(trace_id=of)], offset=5, low_seq=1)
        for at, of in ((1, ONE), (2, TWO))
    )
    shares[0].commit(first)
    with pytest.raises(ConflictError, match="another partition has stored this"):
        shares[1].commit(second)
    assert (shares[1].offset, shares[1].last_seq()) == (0, 0)
    assert fleet.conservation(SPACE).spans.stored == 1
    assert set(shares[1].stored_records(SPACE, ["u1"])) == {"u1"}
    shares[1].commit(replace(second, records=[]))
    assert (shares[1].offset, fleet.conservation(SPACE).spans.stored) == (5, 2)


# --- numbers -------------------------------------------------------------------------------------


def test_no_reader_passes_over_a_commit_that_is_under_way(fleet: FleetStore, take: Take) -> None:
    """Its number is lower than that of one which is stored before it."""
    slow, quick = take(0), take(1)
    first = quick.commit(Commit(evaluations=[evaluation("u1", evaluation_id="1")]))
    with frozen(slow) as done:
        second = quick.commit(Commit(evaluations=[evaluation("u2", evaluation_id="2")]))
        assert fleet.last_seq() == first
        assert [row.record_uid for _, row in fleet.results_after(FIRST_RESULT, 9)] == ["u1"]
        found = fleet.decided_after(Place(0, -1), 9)
        assert [each.evaluation_id for each in found] == ["1"]
        assert quick.last_seq() == second
    assert first < done.result(120) < second == fleet.last_seq()
    results = [row.record_uid for _, row in fleet.results_after(FIRST_RESULT, 9)]
    assert results == ["u1", "u2"]


def test_a_number_that_was_given_back_is_passed(fleet: FleetStore, take: Take) -> None:
    share = take(0)
    before = share.commit(Commit(offset=1))
    with pytest.raises(DataError):
        share.commit(Commit(offset=2, records=[record("half \ud83d")]))
    assert (share.offset, share.last_seq()) == (1, before)
    assert share.commit(Commit(offset=2)) == fleet.last_seq() > before + 1


def test_many_at_once_are_numbered_without_a_gap_for_readers(fleet: FleetStore, take: Take) -> None:
    """Four shares write, two readers follow: each evaluation is read once, in order."""
    shares, each, is_over = [take(part) for part in range(4)], 40, threading.Event()

    def write(share: Share) -> None:
        for at in range(each):
            uid = f"{share.part} {at}"
            share.commit(Commit(evaluations=[evaluation(uid, evaluation_id=uid)]))

    def follow() -> list[ResultPlace]:
        places = [FIRST_RESULT]
        while True:
            is_last = is_over.is_set()
            page = fleet.results_after(places[-1], 7)
            if is_last and not page:
                return places
            places += [place for place, _ in page]

    with ThreadPoolExecutor(6) as pool:
        readers = [pool.submit(follow) for _ in range(2)]
        for writer in [pool.submit(write, share) for share in shares]:
            writer.result(120)
        is_over.set()
        found = [reader.result(120) for reader in readers]
    assert found[0] == found[1] == sorted(set(found[0]))
    assert len(found[0]) == len(shares) * each + 1


# --- erasures ------------------------------------------------------------------------------------


def test_what_is_erased_beside_a_commit_stays_erased(fleet: FleetStore, take: Take) -> None:
    """The commit waits for the erasure, and leaves out what that has taken."""
    share = take(0)
    commit = rows(
        SPACE,
        [span(1, trace_id=ONE), span(2, trace_id=TWO)],
        [record("gone", trace_id=ONE), record("stays", trace_id=TWO)],
        [evaluation("gone", trace_id=ONE)],
        offset=1, low_seq=1,
    )  # fmt: skip
    with ThreadPoolExecutor(1) as pool:
        with fleet.alone():
            done = pool.submit(share.commit, commit)
            waits(fleet, "scouter share 0 write")
            fleet.erase(EraseTarget(space=SPACE, record_uid="gone"))
            fleet.erase(EraseTarget(space=SPACE, trace_id=ONE))
        done.result(120)
    assert [row.uid for row in fleet.records_of(SPACE, ["gone", "stays"])] == ["stays"]
    assert set(fleet.spans_of(SPACE, [ONE, TWO])) == {TWO}
    assert fleet.evaluations(EvaluationQuery(space=SPACE)).items == ()
    sheet = fleet.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.duplicates) == (1, 1)


def test_an_erasure_waits_for_commits_that_are_under_way(fleet: FleetStore, take: Take) -> None:
    """So it takes what they bring, too."""
    share = take(0)
    share.commit(rows(SPACE, [span(1, trace_id=ONE)], [record(trace_id=ONE)], low_seq=1))
    with ThreadPoolExecutor(1) as pool:
        with frozen(share):
            erased = pool.submit(fleet.erase, EraseTarget(space=SPACE, trace_id=ONE))
            waits(fleet, "scouter")
        assert erased.result(120).spans == 1
    assert fleet.spans_of(SPACE, [ONE]) == {}


def test_what_was_judged_while_something_was_erased_is_judged_again(
    fleet: FleetStore, take: Take
) -> None:
    """It may quote that. Where it read no spans, it cannot."""
    share = take(0)
    share.commit(rows(SPACE, [span(1, trace_id=ONE)], [record("u1"), record("u2")], low_seq=1))
    fleet.erase(EraseTarget(space=SPACE, trace_id=ONE))
    judged = Commit(evaluations=[evaluation("u1", trace_id=TWO, reads_spans=True)])
    with pytest.raises(ConflictError, match="is judged again"):
        share.commit(judged)
    share.commit(judged)
    fleet.erase(EraseTarget(space=SPACE, record_uid="none"))
    share.commit(Commit(evaluations=[evaluation("u2", evaluation_id="2")]))
    assert fleet.conservation(SPACE).records.evaluated == 2


def test_an_erasure_of_another_share_is_known(fleet: FleetStore, take: Take) -> None:
    """A derived record in whose place another one came."""
    shares = [take(0), take(1)]
    shares[0].commit(rows(SPACE, records=[record("derived")], low_seq=1))
    shares[0].erase(EraseTarget(space=SPACE, superseded=("derived",)))
    shares[1].commit(rows(SPACE, records=[record("derived")], low_seq=1))
    assert fleet.records_of(SPACE, ["derived"]) == []
    assert fleet.conservation(SPACE).records.superseded == 1


def test_a_record_that_waits_again_is_reported_to_its_owner(fleet: FleetStore, take: Take) -> None:
    """By its next commit; without one by the next report of how far it is behind."""
    share = take(0)
    seq = share.commit(rows(SPACE, records=[record("u1"), record("u2")], low_seq=1))
    share.commit(
        Commit(letters=[letter(uid=uid, was_accepted=True) for uid in ("u1", "u2")], low_seq=9)
    )
    ids = {each.letter.uid: each.letter_id for each in fleet.dead_letters(LetterQuery(space=SPACE))}
    fleet.remove_dead_letters(SPACE, [ids["u1"]])
    with pytest.raises(ConflictError, match="waits again"):
        share.commit(Commit(offset=5, low_seq=9))
    assert share.low_seq == seq
    assert [row.uid for row in share.undecided(share.low_seq)] == ["u1"]
    share.commit(Commit(offset=5, low_seq=9))
    assert not share.is_reopened

    fleet.remove_dead_letters(SPACE, [ids["u2"]])
    share.report_behind(3)
    assert (share.is_reopened, share.low_seq) == (True, seq)


# --- days ----------------------------------------------------------------------------------------


def test_retention_drops_the_tables_of_a_day(fleet: FleetStore, take: Take) -> None:
    """Once no join needs anything of it; what is about its records goes, too."""
    share = take(0)
    for day in (3, 4):
        share.commit(
            rows(
                SPACE, [span(day, trace_id=f"{day:032x}")],
                [record(f"u{day}", received_ns=day * DAY_NS + 5)],
                [evaluation(f"u{day}", evaluation_id=f"{day}", evaluated_ns=9 * DAY_NS)],
                received_ns=day * DAY_NS + 5, low_seq=1,
            )
        )  # fmt: skip
    assert fleet.days() == [3, 4]
    assert fleet.remove_before(4 * DAY_NS) == 0  # the join needs it
    share.commit(Commit(low_seq=share.last_seq()))  # of the second day alone
    assert fleet.remove_before(4 * DAY_NS - 1) == 0  # a part of a day stays
    assert fleet.remove_before(9 * DAY_NS) == 1
    assert fleet.days() == [4]
    left = fleet.read("SELECT tablename FROM pg_tables WHERE tablename ~ '[0-9]$' ORDER BY 1")
    assert left == [("bodies_4",), ("spans_4",)]
    sheet = fleet.conservation(SPACE)
    assert (sheet.spans.stored, sheet.spans.expired) == (1, 1)
    assert (sheet.records.evaluated, sheet.records.expired) == (1, 1)
    assert len(fleet.evaluations(EvaluationQuery(space=SPACE)).items) == 1


def test_a_day_that_another_process_has_dropped_is_made_again(fleet: FleetStore, url: str) -> None:
    """For what comes so late: the commit is tried once more."""
    other = FleetStore(url)
    share = other.take(0, "other")
    try:
        share.commit(rows(SPACE, [span(1, trace_id=ONE)], received_ns=DAY_NS))
        share.commit(Commit(low_seq=share.last_seq() + 1))
        assert fleet.remove_before(5 * DAY_NS) == 1
        late = rows(SPACE, [span(1, trace_id=TWO)], received_ns=DAY_NS)
        with pytest.raises(TransientError, match="retention has taken a day"):
            share.commit(late)
        share.commit(late)
    finally:
        share.close()
        other.close()
    assert fleet.days() == [1]


def test_oldest_days_go_where_there_is_too_little_room(fleet: FleetStore, take: Take) -> None:
    share = take(0)
    for day in (1, 2, 3):
        share.commit(rows(SPACE, [span(day, trace_id=f"{day:032x}")], received_ns=day * DAY_NS))
    share.commit(Commit(low_seq=share.last_seq() + 1))
    assert fleet.keep_within(10 * fleet.size_bytes()) == 0
    assert fleet.keep_within(1) == 2
    assert fleet.days() == [3]


# --- texts ---------------------------------------------------------------------------------------


def test_a_nul_becomes_the_sign_for_what_is_no_text(fleet: FleetStore, take: Take) -> None:
    """In what is stored and in what is requested: PostgreSQL has no text with one."""
    share = take(0)
    sent = record("u\0 1", session_id="s\0", tags={"k\0": "v\0"}, context={"a\0": ["b\0"]})
    share.commit(
        rows(
            SPACE, [span(1, name="step\0", attributes={"a\0": "b\0"})], [sent],
            [evaluation("u\0 1", evaluation_id="e\0")],
        )
    )  # fmt: skip
    share.commit(Commit(letters=[letter(message="no\0", payload=b"\0")]))
    (found,) = fleet.records(RecordQuery(space=SPACE, session_id="s\0")).items
    assert found.record.uid == "u\ufffd 1"
    assert found.record.tags == {"k\ufffd": "v\ufffd"}
    assert found.state is RecordState.EVALUATED
    assert set(share.stored_records(SPACE, ["u\0 1"])) == {"u\ufffd 1"}
    (row,) = fleet.records_of(SPACE, ["u\0 1"])
    assert row.context == {"a\0": ["b\0"]}  # JSON says it in another way
    assert fleet.evaluation(SPACE, "e\0") is not None
    (stored,) = fleet.dead_letters(LetterQuery(space=SPACE))
    assert (stored.letter.message, stored.letter.payload) == ("no\ufffd", b"\0")
    assert fleet.read("SELECT name FROM spans") == [("step\ufffd",)]
    assert json.loads(fleet.read("SELECT attributes FROM spans")[0][0]) == {"a\0": "b\0"}


@pytest.mark.parametrize("fields", [{"record_id": "half \ud83d"}, {"created_ns": 2**63}])
def test_what_no_database_stores_differs_from_what_has_to_wait(
    fleet: FleetStore, take: Take, fields: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match="cannot be stored"):
        take(0).commit(Commit(records=[record(**fields)]))
    assert fleet.conservation(SPACE).records.accepted == 0
