"""Detectors on a real store: results in, alerts out, through restarts and crashes."""

import itertools
import json
import math
import random
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from collector.alerts.alert import (
    Alert,
    AlertAction,
    DriftAlert,
    DriftAlertState,
    Finding,
    Trouble,
    alert_of,
    changed_words,
    evidence,
    fell_with,
    headline,
)
from collector.alerts.conditions import AlertMonitor
from collector.alerts.evidence import CurrentSeries, explained
from collector.alerts.health import HealthWatch
from collector.alerts.watch import DriftMeasures
from collector.alerts.watcher import FORGOTTEN_NS, SILENT_NS, DriftWatcher
from collector.store.rows import TaskRow
from scouter.drift.config import AgentEvalConfig, Healthy, SavedRun
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace
from scouter.drift.series.series import Kind
from scouter.drift.series.series_set import MOST_VERSIONS
from scouter.errors import ConfigError, TransientError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.span import Span
from tests.contracts.store_data import SPACE, evaluation, record, span
from tests.support.agent_traces import find_clients, load_client
from tests.support.store_appends import AppendingStore

SECOND = 10**9
START = 1_800_000_000 * SECOND
PACE = Pace(60 * SECOND, 3_600 * SECOND)
PASSED, FAILED = Outcome.PASSED, Outcome.FAILED
PROFILE = AgentEvalProfile(
    [AssertionTask("t1", "x", 1, ComparisonOperator.Equals)], alias="answers"
)
GOOD = ([PASSED] * 9 + [FAILED]) * 110
BAD = [PASSED, FAILED] * 60


class Watch:
    """A store, a watcher on it that is stepped by hand, and what it reported."""

    def __init__(
        self, folder: Path, *, is_shadow: bool = False, on_trial: Sequence[str] = ()
    ) -> None:
        self.store = AppendingStore(folder)
        self.now_ns = START
        self.findings: list[Finding] = []
        self.profile = PROFILE
        self.reported: list[Alert] = []
        self._numbers = count(self.store.last_seq() * 10_000)
        self._is_shadow, self._on_trial = is_shadow, on_trial
        self.watcher = self._watcher()

    def _watcher(self) -> DriftWatcher:
        found = DriftWatcher(
            self.store, pace=PACE, is_shadow=self._is_shadow, on_trial=self._on_trial,
            notify=self.reported.extend, findings=lambda now_ns: self.findings,
            now_ns=lambda: self.now_ns, save_every_s=0,
        )  # fmt: skip
        found.follow([(SPACE, PROFILE, True)])
        found.load()
        return found

    def crash(self) -> None:
        """Become a new process, with nothing that came since the last commit."""
        self.watcher = self._watcher()

    def store_results(self, outcomes: Sequence[Outcome], **fields: Any) -> None:
        self.store_each(((outcome, None) for outcome in outcomes), **fields)

    def store_each(
        self,
        results: Iterable[tuple[Outcome, tuple[TaskRow, ...] | None]],
        times: Iterable[int] | None = None,
        **fields: Any,
    ) -> None:
        each_ns = itertools.repeat(self.now_ns) if times is None else times
        rows = [
            evaluation(
                f"u{next(self._numbers)}", outcome, fields.get("tasks", tasks),
                **{"session_id": "", "service_version": "1", "profile_uid": self.profile.uid,
                   "evaluated_ns": at}
                | {name: value for name, value in fields.items() if name != "tasks"},
            )
            for (outcome, tasks), at in zip(results, each_ns, strict=False)
        ]  # fmt: skip
        self.store.append_evaluations(rows).result()

    def feed(self, outcomes: Sequence[Outcome], **fields: Any) -> None:
        """Store results of a second each, with the time of their fifty, and take them."""
        times = [self.now_ns + (at // 50 + 1) * 50 * SECOND for at in range(len(outcomes))]
        self.now_ns = times[-1] if times else self.now_ns
        self.store_each(((outcome, None) for outcome in outcomes), times, **fields)
        self.take()

    def take(self) -> None:
        while self.watcher.step():
            pass

    def act(
        self, alert_id: str, state: DriftAlertState, space: str = SPACE, **fields: Any
    ) -> Alert | None:
        """Change an alert for a person."""
        action = AlertAction(space=space, alert_id=alert_id, state=state, **fields)
        return self.watcher.act(action)

    @property
    def alerts(self) -> list[DriftAlert]:
        return self.watcher.alerts(SPACE)

    def counted(self) -> dict[str, int]:
        """Records by series."""
        return {
            f"{each.key.task or 'record'} {each.key.kind}": each.records
            for each in self.watcher.current_series()
        }


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Watch]:
    found = Watch(tmp_path)
    yield found
    found.store.close()


def recorded(client: str) -> list[Span]:
    """The spans of the first conversation of a recorded client."""
    file = next(each for each in find_clients() if each.name.startswith(f"{client}-"))
    found = load_client(file)
    (trace_id,) = found.truth["turns"][0]["trace_ids"]
    return [each for each in found.spans if each.trace_id == trace_id]


@pytest.mark.parametrize("client", ["openai-genai", "langchain-openinference"])
def test_an_alert_names_what_changed_just_before(watch: Watch, client: str) -> None:
    """Another fingerprint answers from the fall on; all else of the recorded spans stays."""
    spans = recorded(client)

    def run(outcomes: Sequence[Outcome], fingerprint: str) -> None:
        for first in range(0, len(outcomes), 50):
            trace_id = f"{watch.now_ns:032x}"
            copies = [_ran_with(each, trace_id, fingerprint) for each in spans]
            watch.store.append_spans(SPACE, copies, 1).result()
            watch.feed(outcomes[first : first + 50], trace_id=trace_id)

    run(GOOD, "fp_1")
    begin_ns = watch.now_ns
    run(BAD, "fp_2")
    changed = watch.alerts[0].changed
    assert changed is not None
    (change,) = changed
    assert (change.kind, change.name) == ("fingerprint", "fp_2")
    assert change.before == 0.0
    assert change.share >= 0.5  # results of the page before have the time at which the fall began
    assert begin_ns < change.first_ns <= watch.now_ns
    assert all(each.changed == (change,) for each in watch.alerts)
    moment = changed_words(watch.alerts[0])[0].removeprefix("fingerprint fp_2 since ")
    assert moment.endswith(f" UTC: 0% of the records before, {change.share:.0%} since")
    watch.crash()
    assert watch.alerts[0].changed == (change,)


@pytest.mark.parametrize("fault", [TransientError("no memory for so many spans"), IndexError()])
def test_an_alert_does_not_wait_for_what_changed(
    fault: Exception, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next change looks again, for any fault."""
    with monkeypatch.context() as patch:

        def refuse(*_: object) -> Any:
            raise fault

        patch.setattr(watch.store, "setup_changes", refuse)
        watch.feed(GOOD)
        watch.feed(BAD)
    (alert,) = watch.alerts
    assert [each.alert_id for each in watch.reported] == [alert.alert_id]
    assert alert.changed is None
    watch.act(alert.alert_id, DriftAlertState.ACKNOWLEDGED)
    assert watch.alerts[0].changed == ()


def _ran_with(each: Span, trace_id: str, fingerprint: str) -> Span:
    attributes = {
        name: value.replace("fp_1", fingerprint) if isinstance(value, str) else value
        for name, value in each.attributes.items()
    }
    return replace(each, trace_id=trace_id, attributes=attributes)


def test_results_wait_for_records_that_were_created_before_them(watch: Watch) -> None:
    """Until these are decided, or for so long as a record may take."""
    late = [
        record(uid, profile_uid=PROFILE.uid, created_ns=START + second * SECOND)
        for uid, second in (("soon", 40), ("never", 45))
    ]
    watch.store.append_records(late).result()
    watch.now_ns = START + 50 * SECOND
    watch.store_results([PASSED] * 9, created_ns=watch.now_ns)
    watch.take()
    assert watch.counted() == {}
    first = evaluation(
        "soon", FAILED, profile_uid=PROFILE.uid, created_ns=late[0].created_ns,
        evaluated_ns=watch.now_ns, session_id="", service_version="1",
    )  # fmt: skip
    watch.store.append_evaluations([first]).result()
    watch.take()
    assert watch.counted()["record pass"] == 1
    watch.crash()
    watch.take()
    assert watch.counted()["record pass"] == 1
    watch.now_ns = START + 45 * SECOND + PACE.wait_ns + 1
    watch.take()
    assert watch.counted()["record pass"] == 10


def test_the_state_in_a_few_words(watch: Watch) -> None:
    """The rate below which 2,000 outcomes give evidence of 2 / 1 %, by Wald's approximation."""

    def shown(kind: Kind) -> CurrentSeries:
        (found,) = (e for e in watch.watcher.current_series() if e.key[3:5] == ("t1", kind))
        return found

    watch.feed(GOOD[:400])
    assert shown(Kind.PASS).summary == "it has 400 of its first 1,000 records"
    watch.feed(GOOD[400:])
    lower = shown(Kind.PASS).healthy_lower or 0.0

    def evidence_of(rate: float) -> float:
        bad = (1 - rate) * math.log((1 - rate) / (1 - lower))
        return 2_000 * (rate * math.log(rate / lower) + bad)

    rates = [n / 10_000 for n in range(1, round(lower * 10_000))]
    seen = max(rate for rate in rates if evidence_of(rate) >= math.log(200))
    assert shown(Kind.PASS).summary == f"a fall below {100 * seen:.0f} % would be seen"
    assert re.fullmatch(r"errors above \d % would be seen", shown(Kind.ERROR).summary)
    watch.feed(BAD)
    assert shown(Kind.PASS).summary == "a fall is proven"


def test_a_fall_opens_one_alert_for_task_and_record(watch: Watch) -> None:
    watch.feed(GOOD)
    assert watch.alerts == []
    changed_ns = watch.now_ns
    watch.feed(BAD)
    (alert,) = watch.alerts
    assert sorted(part.task for part in alert.parts) == ["", "t1"]
    assert alert.task == "t1"  # the record fell because the task did
    assert fell_with(alert) == "more records fail"
    assert (alert.state, alert.version, alert.alias) == (DriftAlertState.FIRING, "1", "answers")
    assert abs(alert.opened.since_ns - changed_ns) <= 100 * SECOND
    assert len(alert.examples) == 3
    assert all(watch.store.evaluation(SPACE, each) for each in alert.examples)
    assert watch.reported == [alert]


def feed_tasks(watch: Watch, results: Sequence[tuple[Outcome, Outcome]]) -> None:
    """Store results of two tasks, one a second, and take them."""
    for first in range(0, len(results), 50):
        watch.now_ns += 50 * SECOND
        watch.store_each(
            (
                FAILED if FAILED in pair else PASSED,
                tuple(
                    TaskRow(task_id=name, task_type="Assertion", outcome=outcome)
                    for name, outcome in zip(("t1", "t2"), pair, strict=True)
                ),
            )
            for pair in results[first : first + 50]
        )
    watch.take()


GOOD_PAIRS = ([(PASSED, PASSED)] * 9 + [(FAILED, FAILED)]) * 110


def said(alerts: Sequence[Alert]) -> list[tuple[str, str]]:
    """What channels tell: each state once, at the time at which it was entered."""
    by_state = {(each.alert_id, each.state, each.changed_ns): each for each in alerts}
    return [(alert_id, state.value) for alert_id, state, _ in by_state]


def test_one_cause_is_one_alert_through_crashes_until_its_one_end(watch: Watch) -> None:
    """The first task fails always; the second in half of the cases, which is proven later."""
    feed_tasks(watch, GOOD_PAIRS)
    feed_tasks(watch, [(FAILED, PASSED)] * 15)
    (alert,) = watch.alerts
    assert {part.task for part in alert.parts} == {"", "t1"}
    watch.act(alert.alert_id, DriftAlertState.ACKNOWLEDGED, by="ann")
    watch.crash()
    feed_tasks(watch, [(FAILED, FAILED), (FAILED, PASSED)] * 40)
    (joined,) = watch.alerts
    assert (joined.alert_id, joined.state) == (alert.alert_id, DriftAlertState.ACKNOWLEDGED)
    assert [part.task for part in joined.parts][2:] == ["t2"]
    assert joined.task == "t1"  # of the two tasks it fell further
    watch.crash()
    for _ in range(60):
        feed_tasks(watch, [(PASSED, PASSED)] * 10)
        watch.crash()
    assert watch.alerts == []
    assert said(watch.reported) == [
        (alert.alert_id, state) for state in ("firing", "acknowledged", "resolved")
    ]
    last = alert_of(watch.store.drift_history(SPACE, alert.alert_id)[-1])
    assert isinstance(last, DriftAlert)
    assert len({part.ended_ns for part in last.parts}) > 1  # they ended one after the other
    assert None not in {part.ended_ns for part in last.parts}


def test_another_cause_is_another_alert(watch: Watch) -> None:
    """The second task falls long after the first one did, whose alert is still open."""
    feed_tasks(watch, GOOD_PAIRS)
    feed_tasks(watch, [(FAILED, PASSED)] * 400)
    (first,) = watch.alerts
    watch.act(first.alert_id, DriftAlertState.ACKNOWLEDGED, by="ann")
    feed_tasks(watch, [(FAILED, FAILED)] * 50)
    second, again = watch.alerts
    assert (second.task, second.state) == ("t2", DriftAlertState.FIRING)
    assert again.alert_id == first.alert_id
    assert [len(each.parts) for each in watch.alerts] == [1, 2]
    watch.act(first.alert_id, DriftAlertState.RESOLVED, by="ann", accept=True)
    assert watch.alerts == [second]


def test_the_words_by_hand(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    alert = next(alert for alert in watch.alerts if alert.task)
    said = alert.opened.model_copy(
        update={"since_ns": START, "records": 400, "failed": 118, "lower": 0.9, "evidence": 1e4,
                "first_days": False}
    )  # fmt: skip
    early = said.model_copy(update={"first_days": True})
    assert evidence(early, alert.kind).endswith(
        "; it may be the time of day, as two days are not known yet, or else chance: 1 in 10,000"
    )
    halves = said.model_copy(
        update={"halves": "from 06:00 to 18:00 UTC", "other_lower": 0.8, "records": 1_000}
    )
    assert (
        "a healthy agent fails at most 100 of 1,000 from 06:00 to 18:00 UTC, "
        "200 of 1,000 at other times; "
    ) in evidence(halves, alert.kind)
    once = said.model_copy(update={"run_length": 200_000.0})
    assert evidence(once, alert.kind).endswith(
        "at most 40 of 400; while nothing is wrong it comes once in 200,000 on average"
    )
    # 1800000000 is 2027-01-15 08:00:00 UTC; a tenth of 400 may fail.
    assert evidence(said, alert.kind) == (
        "118 of 400 failed since 2027-01-15 08:00 UTC; a healthy agent fails at most 40 of 400; "
        "chance of this while nothing is wrong: 1 in 10,000"
    )
    bursts = said.model_copy(update={"units": 12, "mean": 1 / 3})
    assert evidence(bursts, Kind.ERROR) == (
        "118 of 400 errored since 2027-01-15 08:00 UTC, in 8 of 12 separate stretches; a "
        "healthy agent in at most 1 of 12; chance of this while nothing is wrong: 1 in 10,000"
    )
    assert headline(alert.model_copy(update={"opened": said, "service": "bot"})) == (
        "answers: task 't1' fails more in version 1 of bot since 2027-01-15 08:00 UTC"
    )
    of_record = alert.model_copy(update={"opened": said, "version": "", "task": ""})
    assert headline(of_record) == "answers: more records fail since 2027-01-15 08:00 UTC"


def test_a_crash_neither_loses_nor_doubles_evidence(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At any moment: behind a commit of results, in the middle of a page, behind an alert."""
    whole = Watch(tmp_path_factory.mktemp("whole"))
    crashed = Watch(tmp_path)
    outcomes = [*GOOD, *BAD]
    for first in range(0, len(outcomes), 100):
        part = outcomes[first : first + 100]
        whole.feed(part)
        crashed.now_ns = whole.now_ns
        crashed.store_results(part)
        if first % 300 == 0:
            crashed.watcher.step()
        if first % 200 == 0:
            crashed.crash()
    crashed.crash()
    crashed.take()
    assert crashed.counted() == whole.counted()
    assert [a.alert_id for a in crashed.alerts] == [a.alert_id for a in whole.alerts]
    ids = [event.alert_id for event in crashed.store.drift_alerts(SPACE)]
    assert all(len(crashed.store.drift_history(SPACE, each)) == 1 for each in ids)
    whole.store.close()
    crashed.store.close()


def test_saving_takes_a_tenth_of_the_time(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state of many megabytes takes three seconds: the next save comes thirty after that."""
    now, saves = [time.monotonic() + 60], list[float]()

    def save_drift(*_: object) -> None:
        saves.append(now[0])
        now[0] += 3

    monkeypatch.setattr("collector.alerts.watcher.time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(watch.store, "save_drift", save_drift)
    for _ in range(100):
        watch.store_results([Outcome.PASSED])
        watch.watcher.step()
        now[0] += 1
    assert {after - before for before, after in pairwise(saves)} == {33}
    assert len(saves) == 4


def test_what_could_not_be_stored_is_stored_later(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.feed(GOOD)
    with monkeypatch.context() as patch:
        patch.setattr(watch.store, "save_drift", _full)
        watch.store_results(BAD)
        with pytest.raises(TransientError, match="disk full"):
            watch.watcher.step()
        assert watch.reported == []  # nobody is notified of what a crash could undo
    watch.take()
    assert len(watch.reported) == 1
    watch.crash()
    assert len(watch.alerts) == 1
    assert watch.counted()["t1 pass"] == len(GOOD) + len(BAD)


def _full(*_: object) -> None:
    raise TransientError("disk full")


def test_it_resolves_by_evidence_and_says_so(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    watch.feed(GOOD)
    assert watch.alerts == []
    last = alert_of(watch.store.drift_alerts(SPACE)[0])
    assert (last.state, last.by) == (DriftAlertState.RESOLVED, "")
    assert last.note.startswith("recovered")


def test_people_acknowledge_silence_and_resolve(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    name = watch.alerts[0].alert_id
    found = watch.act(name, DriftAlertState.ACKNOWLEDGED, by="ann", note="on it")
    assert found is not None
    assert (found.state, found.by) == (DriftAlertState.ACKNOWLEDGED, "ann")
    watch.act(name, DriftAlertState.SILENCED, by="ann", until_ns=watch.now_ns + 5 * SECOND)
    watch.crash()
    assert watch.alerts[0].state is DriftAlertState.SILENCED
    watch.now_ns += 6 * SECOND
    watch.take()
    assert watch.alerts[0].state is DriftAlertState.FIRING
    assert watch.act(name, DriftAlertState.RESOLVED, by="eve", space="other") is None
    assert watch.act(name, DriftAlertState.RESOLVED, by="ann", note="mended") is not None
    assert watch.alerts == []
    assert watch.act(name, DriftAlertState.RESOLVED, by="ann") is None
    states = [event.state for event in watch.store.drift_history(SPACE, name)]
    assert states == ["firing", "acknowledged", "silenced", "firing", "resolved"]
    watch.feed(BAD)  # it was not mended: evidence is gathered anew, and alarms again
    assert len(watch.alerts) == 1


def test_what_is_accepted_alarms_no_more(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    (alert,) = watch.alerts
    watch.act(
        alert.alert_id, DriftAlertState.RESOLVED, by="ann", note="harder questions", accept=True
    )
    watch.feed(BAD * 3)
    assert watch.alerts == []


def test_on_trial_nobody_is_notified(tmp_path: Path) -> None:
    watch = Watch(tmp_path, is_shadow=True)
    watch.feed(GOOD)
    watch.feed(BAD)
    assert {alert.state for alert in watch.alerts} == {DriftAlertState.SHADOW}
    (first,) = (alert.alert_id for alert in watch.alerts)
    with pytest.raises(ConfigError, match=f"alert {first} is on trial, and sent to nobody"):
        watch.act(first, DriftAlertState.ACKNOWLEDGED, by="ann")
    with pytest.raises(ConfigError, match="promote it first"):
        watch.act(first, DriftAlertState.SILENCED, by="ann", until_ns=watch.now_ns + 1)
    promoted = watch.act(first, DriftAlertState.FIRING, by="ann", note="it is right")
    assert promoted is not None
    assert (promoted.state, promoted.by) == (DriftAlertState.FIRING, "ann")
    assert watch.reported[-1] == promoted
    with pytest.raises(ConfigError, match="there is nothing to promote"):
        watch.act(first, DriftAlertState.FIRING, by="ann")
    assert watch.act("no such alert", DriftAlertState.FIRING, by="ann") is None
    assert [alert.alert_id for alert in watch.alerts] == [first]
    watch.store.close()


@pytest.mark.parametrize(
    ("alias", "state"),
    [("answers", DriftAlertState.SHADOW), ("others", DriftAlertState.FIRING)],
)
def test_the_alerts_of_one_profile_are_on_trial(
    tmp_path: Path, alias: str, state: DriftAlertState
) -> None:
    watch = Watch(tmp_path, on_trial=[alias])
    watch.feed(GOOD)
    watch.feed(BAD)
    assert {alert.state for alert in watch.alerts} == {state}
    watch.store.close()


def test_the_alert_of_a_version_that_is_gone_ends(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    watch.feed([PASSED] * 20, service_version="2")
    assert len(watch.alerts) == 1
    watch.now_ns += SILENT_NS
    watch.take()
    assert watch.alerts == []
    last = alert_of(watch.store.drift_alerts(SPACE)[0])
    assert last.note == "version 2 runs now"


def test_the_alert_of_a_version_that_newer_ones_pushed_out_ends(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    for number in range(MOST_VERSIONS):
        watch.feed([PASSED], service_version=f"2.{number}")
    assert watch.alerts == []
    last = alert_of(watch.store.drift_alerts(SPACE)[0])
    assert last.note == "version 1 is followed no longer: 20 others came"


def test_backfills_of_a_profile_await_its_activation(watch: Watch) -> None:
    """As `reevaluate --apply` makes them: they raise no alert, and are what a fall falls from."""
    watch.watcher.follow([(SPACE, PROFILE, False)])
    for _ in range(2):
        watch.store_results(GOOD, is_backfill=True, evaluated_ns=START - 86_400 * SECOND)
        watch.take()
    watch.now_ns += FORGOTTEN_NS
    watch.take()
    watch.crash()
    watch.watcher.follow([(SPACE, PROFILE, True)])
    assert (watch.alerts, watch.reported) == ([], [])

    watch.feed(BAD)

    [alert] = watch.alerts
    assert {each.key.task for each in alert.falling} == {"", "t1"}


def test_a_profile_that_is_not_active_is_forgotten(watch: Watch) -> None:
    watch.feed(GOOD)
    watch.feed(BAD)
    watch.watcher.follow([(SPACE, PROFILE, False)])
    watch.now_ns += SILENT_NS
    watch.take()
    assert watch.alerts == []
    watch.now_ns += FORGOTTEN_NS
    watch.take()
    watch.watcher.save()
    watch.crash()
    assert [json.loads(each.body) for each in watch.store.drift_states() if each.name] == []


def test_conversations_that_are_quiet_by_the_clock_are_taken(watch: Watch) -> None:
    watch.store_results([PASSED, FAILED], session_id="s")
    watch.take()
    assert watch.counted() == {}
    watch.now_ns += 61 * SECOND
    watch.take()
    assert watch.counted()["record pass"] == 2


# --- trouble ---

SILENT = Finding(
    space=SPACE, trouble=Trouble.SILENT, subject="answers", message="no result", since_ns=START
)


def test_trouble_is_one_alert_for_each_cause_until_that_is_over(tmp_path: Path) -> None:
    """Also on trial and through a crash: it is no inference that could be wrong."""
    watch = Watch(tmp_path, is_shadow=True)
    watch.findings = [SILENT, replace(SILENT, trouble=Trouble.DEAD_LETTERS, subject="")]

    def look() -> list[tuple[str, str, str]]:
        watch.reported.clear()
        watch.watcher.look()
        watch.watcher.step()
        return sorted((a.alert_id, getattr(a, "trouble", ""), a.state) for a in watch.reported)

    first = look()
    assert sorted(each[1:] for each in first) == [
        ("dead_letters", "firing"),
        ("silent", "firing"),
    ]
    assert len({each[0] for each in first}) == 2
    assert look() == []
    watch.crash()
    assert look() == []
    assert len(watch.watcher.troubles(SPACE)) == 2
    watch.findings = [SILENT]
    ((_, *over),) = look()
    assert over == ["dead_letters", "resolved"]
    assert watch.reported[0].note == "its cause is over"
    watch.store.close()


@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_is_said_in_words(watch: Watch, trouble: Trouble) -> None:
    """Kind: an alert of a new cause opens, and the message about it cannot be written."""
    watch.findings = [replace(SILENT, trouble=trouble)]
    watch.watcher.look()
    watch.watcher.step()
    [alert] = watch.reported
    said = headline(alert)
    assert said == f"answers: {trouble.headline} since 2027-01-15 08:00 UTC"
    assert " " in trouble.headline


def test_people_act_on_trouble(watch: Watch) -> None:
    watch.findings = [SILENT]
    watch.watcher.look()
    (alert,) = watch.watcher.troubles(SPACE)
    found = watch.act(alert.alert_id, DriftAlertState.ACKNOWLEDGED, by="ann", note="on it")
    assert found is not None
    assert found.state is DriftAlertState.ACKNOWLEDGED
    assert watch.act(alert.alert_id, DriftAlertState.RESOLVED, by="ann") is not None
    assert watch.watcher.troubles(SPACE) == []
    watch.now_ns += SECOND
    watch.watcher.look()  # it goes on, and is reported again
    assert [a.alert_id == alert.alert_id for a in watch.watcher.troubles(SPACE)] == [False]


def test_a_saved_run_in_the_profile_proves_a_bad_first_version(watch: Watch) -> None:
    """It is pushed once the first records came; the whole record stands for nothing here."""
    watch.feed([PASSED])
    healthy = Healthy(run=SavedRun(name="run.json", tasks={"t1": {0: 30, 1_000: 270}}))
    pushed = AgentEvalProfile(PROFILE.tasks, AgentEvalConfig(healthy=healthy), "answers")
    watch.watcher.follow([(SPACE, pushed, True)])
    watch.feed(BAD)
    (alert,) = watch.alerts
    assert alert.task == "t1"
    assert alert.opened.against.startswith("the saved run run.json (90.0%, of which 5.0% less")


def test_costs_that_rise_open_an_alert_of_their_own(watch: Watch) -> None:
    """A cent each, later three: the limit is 1.2. All records pass, and each takes a second."""

    def feed(cost: float, numbers: range) -> None:
        chat = {"gen_ai.operation.name": "chat", "gen_ai.usage.cost": cost}
        spans = [
            span(1, trace_id=f"{number:032x}", start_ns=0, end_ns=SECOND, attributes=chat)
            for number in numbers
        ]
        watch.store.append_spans(SPACE, spans, 1).result()
        rows = [
            evaluation(
                f"u{number}", session_id="", service_version="1", profile_uid=PROFILE.uid,
                evaluated_ns=START + number * SECOND, trace_id=f"{number:032x}", reads_spans=True,
            )
            for number in numbers
        ]  # fmt: skip
        watch.store.append_evaluations(rows).result()
        watch.now_ns = START + numbers[-1] * SECOND
        watch.take()

    feed(0.01, range(1, 1_301))
    assert watch.counted() == {
        "record pass": 1300, "record error": 1300, "t1 pass": 1300, "t1 error": 1300,
        "cost 0.012 USD amount": 1100, "cost 0.012 USD error": 1100, "latency 1.2 s amount": 1100,
    }  # fmt: skip
    assert watch.alerts == []
    feed(0.03, range(1_301, 1_401))
    (alert,) = watch.alerts
    assert (alert.task, alert.kind) == ("cost 0.012 USD", Kind.AMOUNT)
    assert headline(alert).startswith(
        "answers: cost 0.012 USD is exceeded more often in version 1 since "
    )
    said = alert.opened.model_copy(
        update={"since_ns": START, "records": 40, "failed": 30, "lower": 0.9, "evidence": 250.0,
                "first_days": False}
    )  # fmt: skip
    assert evidence(said, alert.kind) == (
        "30 of 40 exceeded it since 2027-01-15 08:00 UTC; a healthy agent exceeds it in at most "
        "4 of 40; chance of this while nothing is wrong: 1 in 250"
    )
    assert explained(watch.store, alert) is None
    registry = CollectorRegistry()
    health = HealthWatch(watch.store, watch.watcher.active, 0)
    registry.register(DriftMeasures(watch.watcher, health, AlertMonitor(watch.store)))
    labels = {
        "space": SPACE, "profile": PROFILE.name, "alias": "answers", "task": "cost 0.012 USD",
        "kind": "amount", "service": "", "environment": "",
    }  # fmt: skip
    assert registry.get_sample_value("scouter_task_firing", labels) == 1
    without = AgentEvalProfile(PROFILE.tasks, AgentEvalConfig(amounts=()), "answers")
    watch.watcher.follow([(SPACE, without, True)])
    watch.take()
    assert watch.alerts == []
    assert alert_of(watch.store.drift_alerts(SPACE)[0]).note == (
        "cost 0.012 USD is watched no longer: the profile does not name it, or its limit is "
        "learnt anew"
    )


def test_scores_that_fall_open_an_alert_of_their_own(watch: Watch) -> None:
    """All are 0.8, later all are 0.6; every record passes, as its score is above 0.5."""
    task = TrajectoryTask(
        "t1", "precision", operator=ComparisonOperator.GreaterThan, expected_value=0.5
    )
    watch.profile = AgentEvalProfile([task], alias="answers")
    watch.watcher.follow([(SPACE, watch.profile, True)])

    def feed(score: float, count: int) -> None:
        row = TaskRow(
            task_id="t1", task_type="Trajectory", outcome=PASSED, actual=["search"],
            stated_score=score,
        )  # fmt: skip
        watch.feed([PASSED] * count, tasks=(row,))

    feed(0.8, 1_100)
    feed(0.6, 100)
    (alert,) = watch.alerts
    assert (alert.task, alert.kind, alert.opened.failed) == ("t1", Kind.SCORE, 0)
    assert alert.opened.mean == pytest.approx(0.6)
    assert headline(alert).startswith("answers: task 't1' has lower scores in version 1 since ")
    said = alert.opened.model_copy(
        update={"since_ns": START, "records": 40, "lower": 0.8, "evidence": 250.0, "mean": 0.6,
                "first_days": False}
    )  # fmt: skip
    assert evidence(said, alert.kind) == (
        "mean 0.600 of 40 records since 2027-01-15 08:00 UTC; a healthy agent has at least 0.800; "
        "chance of this while nothing is wrong: 1 in 250"
    )


def test_each_service_and_environment_has_its_own_state(watch: Watch) -> None:
    """Production fell; the test system, whose result comes last, is as it was."""
    places = [{"environment": name, "service_name": "bot"} for name in ("prod", "test")]
    for place in places:
        watch.feed(GOOD, **place)
    watch.feed(BAD, **places[0])
    watch.feed([PASSED] * 50, **places[1])
    found = {
        each.key.agent.environment: each.state.value
        for each in watch.watcher.current_series(SPACE)
        if (each.key.task, each.key.kind) == ("t1", Kind.PASS)
    }
    assert found == {"prod": "fallen", "test": "watched"}
    registry = CollectorRegistry()
    health = HealthWatch(watch.store, watch.watcher.active, 0)
    registry.register(DriftMeasures(watch.watcher, health, AlertMonitor(watch.store)))

    def sample(name: str, environment: str) -> float | None:
        labels = {
            "space": SPACE, "profile": PROFILE.name, "alias": "answers", "task": "t1",
            "kind": "pass", "service": "bot", "environment": environment,
        }  # fmt: skip
        return registry.get_sample_value(f"scouter_task_{name}", labels)

    assert [sample("fallen", each) for each in ("prod", "test")] == [1, 0]
    assert [sample("firing", each) for each in ("prod", "test")] == [1, 0]
    alert = next(each for each in watch.alerts if each.task)
    watch.act(alert.alert_id, DriftAlertState.ACKNOWLEDGED, by="t")
    assert [sample("fallen", each) for each in ("prod", "test")] == [1, 0]
    assert [sample("firing", each) for each in ("prod", "test")] == [0, 0]


def test_environments_with_opposite_changes_explain_nothing_of_each_other(watch: Watch) -> None:
    """Production falls where the tool is new; the test system gets better there, by as much."""
    places = [{"environment": name, "service_name": "bot"} for name in ("prod", "test")]
    watch.feed(GOOD, **places[0], tags={"tool": "old"})
    watch.feed(BAD * 10, **places[1], tags={"tool": "old"})
    of_prod = [("old", PASSED)] * 40 + [("new", PASSED)] * 15 + [("new", FAILED)] * 45
    of_test = [("new", PASSED)] * 30 + [("old", PASSED), ("old", FAILED)] * 5
    mixed = [(0, *each) for each in of_prod] + [(1, *each) for each in of_test]
    for turn in range(3):
        random.Random(turn).shuffle(mixed)
        for at, tool, outcome in mixed:
            watch.now_ns += SECOND
            watch.store_results([outcome], **places[at], tags={"tool": tool})
        watch.take()
    alert = next(each for each in watch.alerts if each.task)
    assert alert.environment == "prod"
    found = explained(watch.store, alert)
    assert found is not None
    # Three of five records since have a tag that is new: it is other traffic that fails more.
    split = found.split
    assert split.traffic.difference + split.within.difference == pytest.approx(-0.35, abs=0.05)
    assert split.traffic.difference < 3 * split.within.difference
    assert found.is_traffic_alone
    assert found.origin.guilty == []
    assert "because other traffic came" in found.sentence
