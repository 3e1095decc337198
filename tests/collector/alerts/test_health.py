"""A fault that keeps results from being made is found, said once, and ended with its cause."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from collector.alerts.alert import Finding
from collector.alerts.health import CALM_NS, LOOK_NS, SAMPLE_NS, HealthWatch
from collector.alerts.troubles import HOUR_NS, WEEK_NS, usual_if_silent
from collector.metrics import TotalKey, TotalName
from collector.store.rows import EvaluationRow, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, record
from tests.support.store_appends import AppendingStore

HOUR = HOUR_NS
NOW = 2_976 * WEEK_NS
"""The beginning of an hour."""
PATIENCE = 660 * 10**9


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AppendingStore]:
    store = AppendingStore(tmp_path)
    yield store
    store.close()


@pytest.fixture
def health(store: AppendingStore) -> HealthWatch:
    return HealthWatch(store, lambda: {(SPACE, "answers")}, PATIENCE)


def found(health: HealthWatch, now_ns: int) -> list[Finding]:
    health.look(now_ns)
    assert health.findings("other") == []
    return health.findings(SPACE)


def test_nothing_is_found_where_nothing_is_wrong(
    store: AppendingStore, health: HealthWatch
) -> None:
    store.append_records([record(received_ns=NOW)]).result()
    assert found(health, NOW + PATIENCE) == []


def test_a_record_without_an_evaluation(store: AppendingStore, health: HealthWatch) -> None:
    store.append_records([record("u1", received_ns=NOW), record("u2", received_ns=NOW)]).result()
    (first,) = found(health, NOW + PATIENCE + 1)
    assert first.trouble == "not_evaluated"
    assert first.message.startswith("2 records wait for an evaluation")
    assert "scouter results record u1 says why" in first.message
    (again,) = found(health, NOW + PATIENCE + 1 + LOOK_NS)
    assert again == first
    store.append_evaluations([evaluation("u1"), evaluation("u2")]).result()
    assert found(health, NOW + PATIENCE + 1 + LOOK_NS + 1) == [first]  # a minute has not passed
    calm_ns = NOW + PATIENCE + 1 + LOOK_NS + CALM_NS  # behind the last look that found it
    assert found(health, calm_ns - LOOK_NS) == [first]
    assert found(health, calm_ns) == []


def test_each_space_with_a_record_without_an_evaluation(store: AppendingStore) -> None:
    health = HealthWatch(store, set, PATIENCE)
    old = [record(f"u{n}", space=space, received_ns=NOW + n) for n, space in enumerate("baab")]
    store.append_records([*old, record("new", space="c", received_ns=NOW + PATIENCE)]).result()
    said = {each.space: each.message for each in health.look(NOW + PATIENCE + 9)}
    assert sorted(said) == ["a", "b"]
    assert said["a"].startswith("2 records wait")
    assert "results record u1 says why" in said["a"]
    assert "results record u0 says why" in said["b"]


def test_a_judge_that_does_not_answer(store: AppendingStore, health: HealthWatch) -> None:
    store.append_evaluations([evaluation("u1", Outcome.PENDING, evaluated_ns=NOW)]).result()
    assert found(health, NOW + HOUR) == []
    (finding,) = found(health, NOW + HOUR + LOOK_NS)
    assert finding.trouble == "judge_waits"


def test_each_space_with_a_task_that_waits_for_its_judge(store: AppendingStore) -> None:
    """Shop has one old task; bank has two, one of them old; new has a new one."""
    health = HealthWatch(store, set, PATIENCE)
    waiting = [("shop", "s1", 0), ("bank", "b1", HOUR), ("bank", "b2", 1), ("new", "n1", HOUR)]
    store.append_evaluations([
        evaluation(uid, Outcome.PENDING, space=space, evaluated_ns=NOW + after_ns)
        for space, uid, after_ns in waiting
    ]).result()  # fmt: skip
    said = {each.space: each.message for each in health.look(NOW + HOUR + LOOK_NS)}
    assert sorted(said) == ["bank", "shop"]
    assert said["shop"].startswith("1 tasks wait for a judge")
    assert said["bank"].startswith("2 tasks wait for a judge")
    assert "results record s1 says why" in said["shop"]
    assert "results record b2 says why" in said["bank"]


@pytest.mark.parametrize(
    ("name", "label", "count", "received", "trouble"),
    [
        (TotalName.DEAD_LETTERS, "invalid_record", 10, 990, "dead_letters"),
        (TotalName.DEAD_LETTERS, "invalid_record", 10, 991, ""),
        (TotalName.DEAD_LETTERS, "invalid_record", 9, 0, ""),
        (TotalName.DROPPED, "full", 20, 100, "dropped"),
        (TotalName.DROPPED, "overtaken", 1, 1_000, "overtaken"),
        (TotalName.LOST, "span", 1, 1_000, "lost"),
        (TotalName.TASKS, "budget", 1, 100, "judge_budget"),
        (TotalName.TASKS, "failed", 50, 100, ""),
        (TotalName.TASKS, "errored", 50, 100, ""),
        (TotalName.DEAD_LETTERS, "unknown_profile", 1, 1_000, "unknown_profile"),
        (TotalName.DEAD_LETTERS, "unusable_profile", 1, 1_000, "unknown_profile"),
    ],
)
def test_counts_that_grew_within_an_hour(
    store: AppendingStore, health: HealthWatch, name: TotalName, label: str, count: int,
    received: int, trouble: str,
) -> None:  # fmt: skip
    """Ten or more, and one in a hundred; what was there before does not count."""
    note(store, health, name, label, count, received)
    assert [each.trouble for each in found(health, NOW + LOOK_NS)] == [trouble] * bool(trouble)


def note(
    store: AppendingStore, health: HealthWatch, name: TotalName, label: str, count: int,
    received: int,
) -> None:  # fmt: skip
    """Add to counts that were looked at."""
    key, came = TotalKey(name, SPACE, label=label), TotalKey(TotalName.SPANS_RECEIVED, SPACE)
    store.add_totals({key: 1_000}).result()
    assert found(health, NOW) == []
    store.add_totals({key: count, came: received}).result()


def test_what_grew_is_reported_for_an_hour(store: AppendingStore, health: HealthWatch) -> None:
    note(store, health, TotalName.DROPPED, "full", 20, 100)
    found(health, NOW + SAMPLE_NS)
    assert [each.trouble for each in found(health, NOW + HOUR)] == ["dropped"]
    for minute in range(1, 11):  # over once the counts before it are an hour old, and calm
        found(health, NOW + HOUR + LOOK_NS * minute)
    assert found(health, NOW + HOUR + 11 * LOOK_NS) == []


@pytest.mark.parametrize(
    ("lacking", "whole", "is_reported"), [(10, 1_000, 1), (10, 1_001, 0), (9, 9, 0)]
)
def test_traces_that_lacked_spans(
    store: AppendingStore, health: HealthWatch, lacking: int, whole: int, is_reported: int
) -> None:
    """Ten or more, and one in a hundred of the records that were evaluated."""
    assert found(health, NOW) == []
    store.add_totals({
        TotalKey(TotalName.INCOMPLETE, SPACE, alias="answers"): lacking,
        TotalKey(TotalName.RECORDS, SPACE, alias="answers", label="passed"): whole - 1,
        TotalKey(TotalName.RECORDS, SPACE, alias="answers", label="errored"): 1,
    }).result()  # fmt: skip
    assert [each.trouble for each in found(health, NOW + LOOK_NS)] == ["incomplete"] * is_reported


def erred(number: int, at_ns: int, outcome: Outcome = Outcome.ERRORED) -> EvaluationRow:
    task = TaskRow(task_id="t1", task_type="Assertion", outcome=outcome, reason="provider")
    return evaluation(f"e{number}", outcome, evaluated_ns=at_ns, tasks=(task,))


@pytest.mark.parametrize(("errors", "others", "is_reported"), [(10, 10, 1), (10, 11, 0), (9, 0, 0)])
def test_a_task_of_which_half_of_the_results_err(
    store: AppendingStore, health: HealthWatch, errors: int, others: int, is_reported: int
) -> None:
    """Ten or more, and half of those of the hour; a hundred passes before it change nothing."""
    old = [erred(1_000 + n, NOW - HOUR - 1, Outcome.PASSED) for n in range(100)]
    store.append_evaluations(old).result()
    assert found(health, NOW) == []
    rows = [erred(n, NOW + n) for n in range(errors)]
    rows += [erred(100 + n, NOW + n, Outcome.PASSED) for n in range(others)]
    store.append_evaluations(rows).result()
    findings = found(health, NOW + LOOK_NS)
    assert [(each.trouble, each.subject) for each in findings] == [
        ("errored", "answers")
    ] * is_reported
    for each in findings:
        assert each.message == (
            "10 of 20 results of task 't1' erred in the last hour (provider); scouter results "
            "record e9 says why"
        )


def test_a_space_whose_evaluation_is_behind(store: AppendingStore) -> None:
    behind = {SPACE: "900 records and traces are due and wait"}
    health = HealthWatch(store, set, PATIENCE, behind=lambda: behind)
    (finding,) = found(health, NOW)
    assert (finding.space, finding.trouble, finding.message) == (SPACE, "behind", behind[SPACE])
    behind = {}
    assert found(health, NOW + 2 * CALM_NS) == []


def test_errors_that_a_detector_tells_of_are_reported_once(store: AppendingStore) -> None:
    proven = {(SPACE, "answers")}
    health = HealthWatch(store, set, PATIENCE, lambda: proven)
    assert found(health, NOW) == []
    store.append_evaluations([erred(n, NOW) for n in range(20)]).result()
    assert found(health, NOW + LOOK_NS) == []
    proven.clear()  # a person ended that alert, and the errors go on
    assert [each.trouble for each in found(health, NOW + 2 * LOOK_NS)] == ["errored"]


def test_counts_of_the_last_hour_outlast_the_process(store: AppendingStore) -> None:
    """Five letters before a restart and five behind it; two days later they are long ago."""
    key = TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")
    first = HealthWatch(store, set, PATIENCE)
    assert found(first, NOW) == []
    store.add_totals({key: 5}).result()
    assert found(first, NOW + HOUR // 2) == []
    store.add_totals({key: 5}).result()
    second = HealthWatch(store, set, PATIENCE)
    (finding,) = found(second, NOW + HOUR // 2 + LOOK_NS)
    assert finding.trouble == "dead_letters"
    assert finding.since_ns == NOW + HOUR // 2 + LOOK_NS
    third = HealthWatch(store, set, PATIENCE)
    for _ in range(3):  # one that stands by reads it again and again
        third.load()
        assert third.findings() == [finding]
    assert found(third, NOW + HOUR // 2 + 2 * LOOK_NS) == [finding]
    assert found(HealthWatch(store, set, PATIENCE), NOW + 48 * HOUR) == []


def test_a_clock_that_goes_back_stops_no_look(store: AppendingStore, health: HealthWatch) -> None:
    assert found(health, NOW + 48 * HOUR) == []
    key = TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")
    assert found(health, NOW) == []
    store.add_totals({key: 10}).result()
    assert [each.trouble for each in found(health, NOW + LOOK_NS)] == ["dead_letters"]


def test_an_hour_without_any_result_that_mostly_has_some(
    store: AppendingStore, health: HealthWatch
) -> None:
    """The same hour of the four weeks before had 20 results or more in three of them."""
    rows = list[EvaluationRow]()
    for week, count in ((1, 25), (2, 20), (3, 20), (4, 0)):
        at_ns = NOW - week * WEEK_NS - HOUR // 2
        rows += [evaluation(f"u{week}-{n}", evaluated_ns=at_ns) for n in range(count)]
    store.append_evaluations(rows).result()
    (finding,) = found(health, NOW)
    assert (finding.trouble, finding.subject) == ("silent", "answers")
    assert "which mostly has 20" in finding.message  # the median of 25, 20 and 20
    one = evaluation("now", evaluated_ns=NOW + 5)
    rest = [
        evaluation(f"now{n}", evaluated_ns=NOW + 5) for n in range(2)
    ]  # with it more than a tenth
    store.append_evaluations([*rest, replace(one, tasks=(TaskRow(
        task_id="t1", task_type="Assertion", outcome=Outcome.FAILED),))]).result()  # fmt: skip
    assert found(health, NOW + HOUR) == []


@pytest.mark.parametrize(
    ("count", "weeks", "hours", "usual"),
    [
        pytest.param(0, [40, 30, 20], [0] * 24, 30, id="none"),
        pytest.param(0, [40, 30, 19], [0] * 24, None, id="median 30, spread 10: within three"),
        pytest.param(3, [31, 30, 29, 30], [0] * 24, 30, id="a tenth, far below"),
        pytest.param(4, [31, 30, 29, 30], [0] * 24, None, id="more than a tenth"),
        pytest.param(0, [19, 19, 19], [99] * 24, None, id="seldom as many as 20"),
        pytest.param(0, [50, 0, 50, 0], [99] * 24, 50, id="the last zero is before the first"),
        pytest.param(0, [90, 50, 10], [99] * 24, None, id="it varies by as much"),
        pytest.param(0, [50, 50, 0, 0], [99] * 24, 99, id="two weeks: the day before says it"),
        pytest.param(0, [], [20] * 24, 20, id="a day around the clock"),
        pytest.param(0, [], [20] * 23 + [19], None, id="not around the clock"),
        pytest.param(3, [], [20] * 24, None, id="some came"),
    ],
)  # fmt: skip
def test_a_silent_hour(count: int, weeks: list[int], hours: list[int], usual: float | None) -> None:
    """Three spreads are 4.4478 median absolute deviations."""
    weeks = [*weeks, *[0] * (8 - len(weeks))]
    assert usual_if_silent(count, weeks, hours) == usual


def test_silence_for_want_of_evaluation_is_one_finding(
    store: AppendingStore, health: HealthWatch
) -> None:
    rows = [
        evaluation(f"u{hour}-{n}", evaluated_ns=NOW - hour * HOUR - 1)
        for hour in range(1, 25) for n in range(20)
    ]  # fmt: skip
    store.append_evaluations(rows).result()
    store.append_records([record("late", received_ns=NOW - 2 * PATIENCE)]).result()
    assert [each.trouble for each in found(health, NOW)] == ["not_evaluated"]
    store.append_evaluations([evaluation("late", evaluated_ns=NOW)]).result()
    assert {each.trouble for each in found(health, NOW + LOOK_NS)} == {"not_evaluated", "silent"}
