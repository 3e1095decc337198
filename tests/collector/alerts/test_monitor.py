"""Alerts, on a real store, with Wilson bounds worked out by hand.

z = 1.95996, n = 20, centre = (p + z²/2n) / (1 + z²/n), half = z √(p(1-p)/n + z²/4n²) / (1 + z²/n):

11 of 20: 0.5419 ± 0.1999, upper 0.7418      12 of 20: 0.5839 ± 0.1973, upper 0.7812
20 of 20: lower 20 / (20 + z²) = 0.8389      19 of 20: 0.8775 ± 0.1136, lower 0.7639
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from collector.alerts.conditions import AlertMonitor, AlertStatus
from collector.store.erase import EraseTarget
from collector.store.rows import AlertState, EvaluationRow, TaskRow
from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.contracts.store_data import SPACE, evaluation, record
from tests.support.store_appends import AppendingStore

PASSED, FAILED, ERRORED, SKIPPED, PENDING = Outcome


def profile(
    threshold: AlertThreshold = AlertThreshold.Below,
    *,
    baseline: float = 0.8,
    delta: float = 0.05,
    window: int = 20,
    min_samples: int = 20,
) -> AgentEvalProfile:
    condition = AlertCondition(baseline, threshold, delta)
    alert = AgentAlertConfig(alert_condition=condition, window=window, min_samples=min_samples)
    task = AssertionTask("t", "x", 1, ComparisonOperator.Equals)
    return AgentEvalProfile([task], AgentEvalConfig(alert_config=alert), alias="bot")


class Watch:
    """A monitor, and a way to feed it."""

    def __init__(self, store: AppendingStore, watched: AgentEvalProfile) -> None:
        self._store, self._profile = store, watched
        self._numbers = count(store.last_seq() * 1000)
        self._times = count(1)
        self.monitor = AlertMonitor(store, now_ns=lambda: next(self._times))
        self.monitor.watch(SPACE, watched)

    def feed(self, *outcomes: Outcome, left_out: str | None = None) -> AlertState:
        """Evaluations, each with a judge's task that was left out for a reason, if one is given."""
        judged = TaskRow(
            task_id="j", task_type="LLMJudge", outcome=Outcome.SKIPPED, reason=left_out
        )
        rows: list[EvaluationRow] = [
            evaluation(f"u{next(self._numbers)}", each, profile_uid=self._profile.uid)
            for each in outcomes
        ]
        if left_out:
            rows = [replace(each, tasks=(*each.tasks, judged)) for each in rows]
        self._store.append_evaluations(rows).result()
        self.monitor.observe(rows)
        return self.status.state

    @property
    def status(self) -> AlertStatus:
        (status,) = self.monitor.statuses(SPACE)
        return status


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AppendingStore]:
    store = AppendingStore(tmp_path)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("threshold", "baseline", "passed", "state"),
    [
        (AlertThreshold.Below, 0.80, 11, AlertState.FIRING),  # 0.7418 < 0.75
        (AlertThreshold.Below, 0.80, 12, AlertState.INACTIVE),  # 0.7812 is not
        (AlertThreshold.Above, 0.78, 20, AlertState.FIRING),  # 0.8389 > 0.83
        (AlertThreshold.Above, 0.79, 20, AlertState.INACTIVE),  # 0.8389 is not above 0.84
        (AlertThreshold.Above, 0.78, 11, AlertState.INACTIVE),
        (AlertThreshold.Outside, 0.80, 11, AlertState.FIRING),
        (AlertThreshold.Outside, 0.78, 20, AlertState.FIRING),
        (AlertThreshold.Outside, 0.80, 19, AlertState.INACTIVE),  # 0.7639 … 0.9911
    ],
)
def test_fires_when_the_interval_proves_it(
    store: AppendingStore,
    threshold: AlertThreshold,
    baseline: float,
    passed: int,
    state: AlertState,
) -> None:
    watch = Watch(store, profile(threshold, baseline=baseline))
    assert watch.feed(*[FAILED] * (20 - passed), *[PASSED] * passed) is state


def test_the_evidence_is_shown(store: AppendingStore) -> None:
    watch = Watch(store, profile())
    watch.feed(*[ERRORED, FAILED] * 4, FAILED, *[PASSED] * 11)
    status = watch.status
    assert (status.passed, status.n, status.pass_rate) == (11, 20, 0.55)
    assert (status.lower, status.upper) == (
        pytest.approx(0.3421, abs=1e-4),
        pytest.approx(0.7418, abs=1e-4),
    )
    assert status.condition == "pass rate below 75.0%"
    assert status.since_ns == 1


def test_few_samples_prove_nothing(store: AppendingStore) -> None:
    watch = Watch(store, profile())
    assert watch.feed(*[FAILED] * 19) is AlertState.INACTIVE
    assert watch.feed(FAILED) is AlertState.FIRING


def test_records_that_were_skipped_as_a_whole_do_not_count(store: AppendingStore) -> None:
    watch = Watch(store, profile())
    assert watch.feed(*[FAILED] * 19, *[SKIPPED] * 50) is AlertState.INACTIVE
    assert watch.status.n == 19


def test_resolves_when_the_rate_is_back_and_may_fire_again(store: AppendingStore) -> None:
    """Window of 20. Bound 0.75: 14 of 20 is 0.70 and still bad, 15 of 20 is not below."""
    watch = Watch(store, profile())
    assert watch.feed(*[FAILED] * 20) is AlertState.FIRING
    assert watch.feed(*[PASSED] * 14) is AlertState.FIRING  # no proof any more, but not well
    assert watch.feed(PASSED) is AlertState.RESOLVED
    assert watch.status.pass_rate == 0.75
    assert watch.feed(*[PASSED] * 20) is AlertState.RESOLVED
    assert watch.feed(*[FAILED] * 9) is AlertState.FIRING


def test_a_pending_record_counts_once_it_is_decided(store: AppendingStore) -> None:
    """A restart sees the same; a revision of what was decided counts no more."""
    watched = profile()
    watch = Watch(store, watched)
    watch.feed(PASSED)
    rows = [evaluation(each, PENDING, profile_uid=watched.uid) for each in "abc"]
    store.append_evaluations(rows).result()
    watch.monitor.observe(rows)
    assert watch.status.n == 1

    steps = [("a", FAILED, 2, False), ("b", PENDING, 2, False), ("b", PASSED, 3, False),
             ("a", PENDING, 3, True), ("a", PASSED, 4, True)]  # fmt: skip
    for uid, outcome, revision, was_decided in steps:
        row = evaluation(
            uid, outcome, revision=revision, was_decided=was_decided, profile_uid=watched.uid,
            evaluation_id=f"{uid} {revision}",
        )  # fmt: skip
        store.append_evaluations([row]).result()
        watch.monitor.observe([row])
    assert (watch.status.passed, watch.status.n) == (2, 3)
    again = Watch(store, watched).status
    assert (again.passed, again.n) == (2, 3)


def test_other_profiles_and_later_revisions_do_not_count(store: AppendingStore) -> None:
    watch = Watch(store, profile())
    uid = profile().uid
    watch.monitor.observe([evaluation("a", FAILED, profile_uid="another")])
    watch.monitor.observe([evaluation("b", FAILED, profile_uid=uid, revision=2)])
    watch.monitor.observe([evaluation("c", FAILED, profile_uid=uid, space="elsewhere")])
    assert watch.status.n == 0
    assert (watch.status.pass_rate, watch.status.lower, watch.status.upper) == (None, 0, 1)


def test_a_profile_without_a_condition_is_not_watched(store: AppendingStore) -> None:
    task = AssertionTask("t", "x", 1, ComparisonOperator.Equals)
    monitor = AlertMonitor(store)
    monitor.watch(SPACE, AgentEvalProfile([task], alias="bot"))
    assert monitor.statuses() == []


def test_state_and_window_survive_a_restart(store: AppendingStore) -> None:
    first = Watch(store, profile())
    first.feed(*[FAILED] * 20)
    store.add_totals({}).result()  # the event was appended before, so it is there now
    again = Watch(store, profile())
    assert (again.status.state, again.status.since_ns) == (AlertState.FIRING, 1)
    assert (again.status.passed, again.status.n) == (0, 20)
    assert again.feed(*[PASSED] * 15) is AlertState.RESOLVED


def test_no_evidence_ends_no_alert(store: AppendingStore) -> None:
    """Its records are gone; as many results as an alert needs have to say that it is over."""
    Watch(store, profile()).feed(*[FAILED] * 20)
    store.add_totals({}).result()
    store.append_records([record(f"u{n}", session_id="s1") for n in range(20)]).result()
    store.erase(EraseTarget(space=SPACE, session_id="s1"))
    again = Watch(store, profile())
    assert (again.status.state, again.status.n) == (AlertState.FIRING, 0)
    fewest = profile().config.alert_config.min_samples
    assert again.feed(*[PASSED] * (fewest - 1)) is AlertState.FIRING
    assert again.feed(PASSED) is AlertState.RESOLVED


def test_a_crash_before_the_event_was_stored_is_made_good(store: AppendingStore) -> None:
    """Twenty failures are stored, the event is not: the next start finds out by itself."""
    rows = [evaluation(f"u{n}", FAILED, profile_uid=profile().uid) for n in range(20)]
    store.append_evaluations(rows).result()
    watch = Watch(store, profile())
    assert watch.status.state is AlertState.FIRING


def test_an_event_that_cannot_be_stored_holds_up_nothing(
    store: AppendingStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alert fires; a start works its state out again from the outcomes."""

    def full(_: object) -> int:
        raise TransientError("disk full")

    watch = Watch(store, profile())
    with monkeypatch.context() as patch:
        patch.setattr(store, "append_alert_events", full)
        assert watch.feed(*[FAILED] * 20) is AlertState.FIRING
    assert store.last_alert_events() == []
    assert Watch(store, profile()).status.state is AlertState.FIRING
    assert [each.state for each in store.last_alert_events()] == [AlertState.FIRING]


@pytest.mark.parametrize("reason", ["budget", "sampled"])
@pytest.mark.parametrize(
    ("before", "state", "unseen"),
    [(FAILED, AlertState.FIRING, PASSED), (PASSED, AlertState.INACTIVE, FAILED)],
)
def test_what_no_judge_has_seen_neither_ends_nor_raises_an_alert(
    store: AppendingStore, reason: str, before: Outcome, state: AlertState, unseen: Outcome
) -> None:
    """Its other tasks make no difference; a restart sees the same."""
    watch = Watch(store, profile())
    assert watch.feed(*[before] * 20) is state
    assert watch.feed(*[unseen] * 50, left_out=reason) is state
    for status in (watch.status, Watch(store, profile()).status):
        assert (status.passed, status.n) == (20 * (before is PASSED), 20)


def test_a_schedule_is_when_the_condition_is_looked_at(store: AppendingStore) -> None:
    """Each hour: neither before, nor by the results; its end is sent at a scheduled time too."""
    hour = 3_600 * 10**9
    condition = AlertCondition(0.8, "Below")
    alert = AgentAlertConfig("0 * * * *", None, condition, window=20, min_samples=20)
    task = AssertionTask("t", "x", 1, ComparisonOperator.Equals)
    watched = AgentEvalProfile([task], AgentEvalConfig(alert_config=alert), alias="bot")
    now, numbers = [hour // 2], count()
    monitor = AlertMonitor(store, lambda: now[0])
    monitor.watch(SPACE, watched)

    def feed(outcome: Outcome) -> None:
        rows = [
            evaluation(f"s{next(numbers)}", outcome, profile_uid=watched.uid) for _ in range(20)
        ]
        store.append_evaluations(rows).result()
        monitor.observe(rows)

    def look(at_ns: int) -> tuple[AlertState, int]:
        now[0] = at_ns
        (status,) = monitor.look(at_ns)
        return status.state, status.passed

    feed(FAILED)
    assert look(hour - 1) == (AlertState.INACTIVE, 0)
    assert look(hour) == (AlertState.FIRING, 0)
    feed(PASSED)
    assert look(hour + 1) == (AlertState.FIRING, 20)
    assert look(5 * hour) == (AlertState.RESOLVED, 20)
    assert look(6 * hour) == (AlertState.RESOLVED, 20)


def test_what_a_person_ended_begins_anew(store: AppendingStore) -> None:
    """Twenty new records have to prove it, after a restart, too; those of before count no more."""
    uid = profile().uid

    def rows(name: str, at_ns: int) -> list[EvaluationRow]:
        found = [
            evaluation(f"{name}{n}", FAILED, profile_uid=uid, evaluated_ns=at_ns) for n in range(20)
        ]
        store.append_evaluations(found).result()
        return found

    def state(monitor: AlertMonitor) -> tuple[AlertState, int]:
        (status,) = monitor.statuses(SPACE)
        return status.state, status.n

    monitor = AlertMonitor(store, now_ns=lambda: 500)
    monitor.watch(SPACE, profile())
    monitor.observe(rows("before", 100))
    assert state(monitor) == (AlertState.FIRING, 20)
    monitor.resolve(SPACE, uid)
    assert state(monitor) == (AlertState.RESOLVED, 0)
    store.add_totals({}).result()
    again = AlertMonitor(store)
    again.watch(SPACE, profile())
    assert state(again) == (AlertState.RESOLVED, 0)
    new = rows("since", 600)
    again.observe(new[:19])
    assert state(again) == (AlertState.RESOLVED, 19)
    again.observe(new[19:])
    assert state(again) == (AlertState.FIRING, 20)


def test_a_clock_that_was_ahead_holds_up_no_scheduled_look(store: AppendingStore) -> None:
    """It was ahead by a year when the next time was found, and is right again."""
    hour = 3_600 * 10**9
    alert = AgentAlertConfig("0 * * * *", None, AlertCondition(0.8, "Below"), window=20)
    task = AssertionTask("t", "x", 1, ComparisonOperator.Equals)
    watched = AgentEvalProfile([task], AgentEvalConfig(alert_config=alert), alias="bot")
    ahead = 365 * 24 * hour
    monitor = AlertMonitor(store, lambda: ahead)
    monitor.watch(SPACE, watched)
    monitor.observe([evaluation(f"u{n}", FAILED, profile_uid=watched.uid) for n in range(20)])
    monitor.look(ahead + hour // 2)
    (status,) = monitor.look(hour // 2)
    assert status.state is AlertState.INACTIVE  # nothing is due yet
    (status,) = monitor.look(hour)
    assert status.state is AlertState.FIRING
