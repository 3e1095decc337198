"""A store that much happens to, beside a brute force that knows what must be there."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from collector.care.check import check_data
from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rates import SeriesQuery
from collector.store.record_queries import SessionQuery, SessionSummary
from collector.store.rows import EvaluationRow, RecordState, TaskRow
from collector.store.totals import HOUR_NS
from scouter.evaluate.outcome import DECIDED, Outcome
from tests.contracts.store_data import SPACE, evaluation, letter, record, span
from tests.support.store_appends import AppendingPostgresql, AppendingStore

Open = Callable[[], AppendingStore | AppendingPostgresql]


def let_go(store: AppendingStore | AppendingPostgresql) -> None:
    """The join needs nothing of what is stored any more."""
    store.commit(Commit(low_seq=store.last_seq() + 1))


class Life:
    """A store that much happens to, and what a brute force knows of it."""

    def __init__(self, open_store: Open, seed: int) -> None:
        self._rng = random.Random(seed)
        self.store = open_store()
        self._traces = [f"{n:032x}" for n in (1, 2, 2**64 - 1, 2**63, 2**127 + 5)]
        self.uids: list[str] = []
        self._spans: dict[str, tuple[str, int]] = {}
        """Trace and commit by id."""
        self._latest: dict[str, EvaluationRow] = {}
        self._gone: dict[str, RecordState] = {}

    def step(self, number: int) -> None:
        """Something happens."""
        rng = self._rng
        what = rng.choice(["record", "record", "span", "span", "evaluation", "again", "letter"])
        waiting = [
            uid
            for uid in rng.sample(self.uids, min(5, len(self.uids)))
            if what in ("evaluation", "letter") and self._state(uid) is RecordState.WAITING
        ]
        if what == "record":
            row = record(
                f"u{number}", session_id=rng.choice(["", "a", "b", "c"]), created_ns=number,
                received_ns=number * self.store.unit, trace_id=rng.choice(self._traces),
            )  # fmt: skip
            self.uids.append(row.uid)
            self.store.append_records([row]).result()
        elif what == "span":
            row = span(number, trace_id=rng.choice(self._traces))
            added = self.store.append_spans(SPACE, [row], number * self.store.unit).result()
            self._spans[row.span_id] = row.trace_id, added.seq
        elif what == "again" and self._latest:
            uid = rng.choice(sorted(self._latest))
            self._judge(uid, self._latest[uid].revision + 1, number)
        elif what == "evaluation" and waiting:
            self._judge(waiting[0], 1, number)
        elif what == "letter" and waiting:
            stored = letter(uid=waiting[0], was_accepted=True, source=str(number))
            self.store.append_dead_letters([stored]).result()

    def _judge(self, uid: str, revision: int, number: int) -> None:
        (row,) = self.store.records_of(SPACE, [uid])
        rng = self._rng
        self._latest[uid] = evaluation(
            uid, rng.choice(list(Outcome)), revision=revision, evaluation_id=f"e{number}",
            session_id=row.session_id, trace_id=row.trace_id, reads_spans=rng.random() < 0.7,
            input_seq=rng.randint(0, self.store.last_seq()), evaluated_ns=number,
        )  # fmt: skip
        self.store.append_evaluations([self._latest[uid]]).result()

    def _state(self, uid: str) -> RecordState:
        found = self.store.record_history(SPACE, uid)
        return self._gone[uid] if found is None else found.state

    def forget(self, state: RecordState) -> None:
        """Look which records and spans are left after an erasure, or retention."""
        stored = {row.uid for row in self.store.records_of(SPACE, self.uids)}
        self._gone = {uid: state for uid in self.uids if uid not in stored} | self._gone
        self._latest = {uid: row for uid, row in self._latest.items() if uid in stored}
        left = self.store.spans_of(SPACE, self._traces).values()
        self._spans = {each.span_id: self._spans[each.span_id] for some in left for each in some}

    def check(self) -> None:
        """Sheet and sessions, one by one."""
        states = Counter(map(self._state, self.uids))
        records, spans = (sheet := self.store.conservation(SPACE)).records, sheet.spans
        assert {name: getattr(records, name) for name in RecordState} == {
            name: states[name] for name in RecordState
        }
        assert records.accepted == len(self.uids)
        seen: dict[str | None, int] = {}
        for row in self._latest.values():
            if row.reads_spans:
                seen[row.trace_id] = min(row.input_seq, seen.get(row.trace_id, row.input_seq))
        late = sum(seq > seen.get(trace_id, seq) for trace_id, seq in self._spans.values())
        assert (spans.stored, spans.late) == (len(self._spans), late)
        stored = self.store.records_of(SPACE, self.uids)
        wanted: dict[str, Counter[str]] = {row.session_id or row.uid: Counter() for row in stored}
        for row in stored:
            judged = self._latest.get(row.uid)
            is_decided = judged is not None and judged.outcome in DECIDED
            word = judged.outcome.value if judged and is_decided else "undecided"
            wanted[row.session_id or row.uid].update(["records", word])
        words = ("records", "undecided", *(word.value for word in DECIDED))
        for query in (SessionQuery(space=SPACE, limit=1000), SessionQuery(space=SPACE, limit=2)):
            found: list[SessionSummary] = []
            while (page := self.store.sessions(query)).next_before is not None:
                found += page.items
                query = replace(query, before=page.next_before)
            found += page.items
            assert {each.session_id: Counter({w: getattr(each, w) for w in words})
                    for each in found} == wanted  # fmt: skip


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_sheet_and_sessions_are_those_of_a_brute_force_count(
    open_store: Open, tmp_path: Path, seed: int
) -> None:
    """Through revisions, late spans, letters, an erasure, a restart and retention."""
    life = Life(open_store, seed)
    for number in range(1, 120):
        life.step(number)
    life.check()
    assert life.store.erase(EraseTarget(space=SPACE, session_id="a")).uids
    life.forget(RecordState.ERASED)
    life.check()
    life.store.close()
    life.store = open_store()
    life.check()
    let_go(life.store)
    assert life.store.remove_before(40 * life.store.unit)
    life.forget(RecordState.EXPIRED)
    life.check()
    life.store.close()
    if isinstance(life.store, AppendingStore):
        assert check_data(tmp_path / "data").problems == []


def test_a_series_from_rollups_is_that_of_the_results(open_store: Open) -> None:
    """Through revisions, retention and adding up, hour by hour.

    The results are counted from the listing, and a second time as buckets of half an hour, which
    the store computes from the results.
    """
    rng = random.Random(5)
    store = open_store()

    def check() -> None:
        query = SeriesQuery(space=SPACE, since_ns=0, until_ns=10 * HOUR_NS, bucket_ns=HOUR_NS)
        by_hour = {each.start_ns: each.counts for each in store.task_series(query)}
        halves = SeriesQuery(space=SPACE, since_ns=0, until_ns=10 * HOUR_NS, bucket_ns=HOUR_NS // 2)
        wanted: Counter[tuple[int, str]] = Counter()
        for row in store.evaluations(EvaluationQuery(space=SPACE, limit=1000)).items:
            if row.tasks[0].outcome in DECIDED:
                wanted[row.evaluated_ns // HOUR_NS * HOUR_NS, row.tasks[0].outcome.value] += 1
        from_halves: Counter[tuple[int, str]] = Counter()
        for each in store.task_series(halves):
            for word in DECIDED:
                start_ns = each.start_ns // HOUR_NS * HOUR_NS
                from_halves[start_ns, word.value] += getattr(each.counts, word.value)
        got = Counter(
            {
                (start_ns, word.value): getattr(counts, word.value)
                for start_ns, counts in by_hour.items()
                for word in DECIDED
            }
        )
        assert +got == wanted == +from_halves

    times = {f"u{n}": rng.randrange(10 * HOUR_NS) for n in range(60)}
    for uid, at in sorted(times.items(), key=lambda each: each[1]):
        store.append_records([record(uid, received_ns=at // HOUR_NS * store.unit)]).result()
    store.append_evaluations(
        [
            evaluation(uid, rng.choice(list(Outcome)), evaluated_ns=at, evaluation_id=f"{uid} 1")
            for uid, at in times.items()
        ]
    ).result()
    check()
    revised = rng.sample(sorted(times), 20)
    store.append_evaluations(
        [
            evaluation(uid, rng.choice(list(Outcome)), revision=2, evaluation_id=f"{uid} 2",
                    evaluated_ns=min(times[uid] + HOUR_NS, 10 * HOUR_NS - 1))
            for uid in revised
        ]
    ).result()  # fmt: skip
    check()
    let_go(store)
    store.remove_before(4 * store.unit)
    assert store.conservation(SPACE).records.expired > 10
    check()
    store.add_up()
    check()
    store.close()


_SPACES = ("shop", "bank")
_STEPS = ["judge"] * 8 + ["twice", "twice", "erase", "erase", "restart", "sum up"]


def pending_row(space: str, uid: str, revision: int, pending: int) -> EvaluationRow:
    """An evaluation with two tasks, so many of which are pending."""
    outcomes = [Outcome.PENDING] * pending + [Outcome.PASSED] * (2 - pending)
    tasks = tuple(
        TaskRow(task_id=f"t{at}", task_type="LLMJudge", outcome=outcome)
        for at, outcome in enumerate(outcomes)
    )
    return evaluation(
        uid, Outcome.PENDING if pending else Outcome.PASSED, tasks, space=space,
        revision=revision, evaluation_id=f"{space} {uid} {revision}", evaluated_ns=10,
    )  # fmt: skip


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_pending_tasks_are_counted_through_whatever_comes_and_goes(
    open_store: Open, seed: int
) -> None:
    """First evaluations, revisions that decide or ask anew, repetitions, erasures, restarts.

    A dictionary keeps the expected count by hand.
    """
    draw = random.Random(seed)
    store = open_store()
    latest: dict[tuple[str, str], tuple[int, int]] = {}
    for step in range(70):
        space, uid = draw.choice(_SPACES), f"u{draw.randrange(12)}"
        revision, _ = latest.get((space, uid), (0, 0))
        match draw.choice(_STEPS):
            case "judge":
                # An erased record does not come back under its uid.
                uid = uid if revision else f"{uid} {step}"
                pending = draw.randrange(3)
                if not revision:
                    store.append_records([record(uid, space=space)]).result()
                row = pending_row(space, uid, revision + 1, pending)
                store.append_evaluations([row]).result()
                latest[space, uid] = revision + 1, pending
            case "twice" if revision:
                store.append_evaluations([pending_row(space, uid, revision, 2)]).result()
            case "erase" if latest:
                space, uid = draw.choice(list(latest))
                store.erase(EraseTarget(space=space, record_uid=uid))
                del latest[space, uid]
            case "restart":
                store.close()
                store = open_store()
            case "sum up":
                store.add_up()
            case _:
                pass
        for each in _SPACES:
            wanted = sum(n for (of, _), (_, n) in latest.items() if of == each)
            assert store.totals().get(TotalKey(TotalName.PENDING, each), 0) == wanted
    assert store.pending_count() == sum(n for _, n in latest.values()) > 0
    assert len(store.pending_evaluations(999)) == sum(n > 0 for _, n in latest.values())
    let_go(store)
    store.remove_before(11 * store.unit)
    assert (store.pending_count(), store.pending_evaluations(9)) == (0, [])
    store.close()


def test_spans_that_come_and_go_are_counted_as_by_hand(open_store: Open) -> None:
    """The same, better and worse ones of a few keys; retention, erasures, starts."""
    draw = random.Random(1)
    store = open_store()
    traces = [f"{n:032x}" for n in range(1, 7)]
    stored: dict[tuple[str, int], tuple[int, int]] = {}  # end and time of coming
    gone: set[str] = set()
    accepted = expired = erased = 0
    for step in range(60):
        action = draw.choices(range(4), weights=[60, 20, 4, 6])[0]
        if action == 0:
            ends = {
                (draw.choice(traces), draw.randrange(1, 4)): draw.randrange(20, 30)
                for _ in range(3)
            }
            spans = [span(n, trace_id=of, end_ns=end) for (of, n), end in ends.items()]
            store.append_spans(SPACE, spans, step * store.unit).result()
            ends = {key: end for key, end in ends.items() if key[0] not in gone}
            accepted += len(ends.keys() - stored.keys())
            better = {key: end for key, end in ends.items() if end > stored.get(key, (0, 0))[0]}
            stored |= {key: (end, step) for key, end in better.items()}
        elif action == 1:
            old = {key for key, (_, came) in stored.items() if came < step - 8}
            let_go(store)
            assert store.remove_before((step - 8) * store.unit) == len(old)
            stored = {key: value for key, value in stored.items() if key not in old}
            expired += len(old)
        elif action == 2:
            gone.add(draw.choice(traces))
            for of in gone:
                store.erase(EraseTarget(space=SPACE, trace_id=of))
            erased += sum(of in gone for of, _ in stored)
            stored = {key: value for key, value in stored.items() if key[0] not in gone}
        else:
            store.close()
            store = open_store()
        sheet = store.conservation(SPACE).spans
        assert (sheet.accepted, sheet.stored, sheet.expired, sheet.erased) == (
            accepted, len(stored), expired, erased,
        )  # fmt: skip
    found = store.spans_of(SPACE, traces)
    ends = {(of, int(each.span_id, 16)): each.end_ns for of in found for each in found[of]}
    assert ends == {key: end for key, (end, _) in stored.items()}
    assert min(accepted, expired, erased, len(stored)) > 0
    store.close()
