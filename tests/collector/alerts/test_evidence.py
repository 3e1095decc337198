"""Tallies of versions and the tasks that fell, by hand, and the examples of an alert."""

from types import SimpleNamespace
from typing import Any

from collector.alerts.alert import DriftAlert, DriftAlertState, Figures
from collector.alerts.evidence import errored_of, falls_of, promise_of, stands_of, tally_of
from collector.store.evaluation_queries import EvaluationQuery
from scouter.client.models.alerts import VersionTally
from scouter.drift.series.group import Group, Pace
from scouter.drift.series.observed import Observed, Place
from scouter.drift.series.series import Agent, Kind, SeriesKey
from scouter.evaluate.outcome import Outcome

PACE = Pace(1, 1)


def group(version: str, before: Group | None, *results: tuple[int, dict[str, Outcome]]) -> Group:
    """A version whose records had these outcomes, each so many times."""
    found = Group("s", "p", Agent("bot", "", version), 0.01, before=before)
    for count, outcomes in results:
        for _ in range(count):
            observed = Observed(
                place=Place(1, 0), space="s", profile_uid="p", agent=found.agent, session="",
                at_ns=1, created_ns=1, evaluation_id="e", outcomes=tuple(outcomes.items()),
            )  # fmt: skip
            list(found.take(observed, 1, PACE))
    return found


def record(task: Outcome, other: Outcome = Outcome.PASSED) -> dict[str, Outcome]:
    """The outcomes of a record; it ends as its task `slow`."""
    return {"": task, "slow": task, "kind": other}


def series(task: str, evidence: float = 0.0, part: str = "", *, has_fallen: bool = False) -> Any:
    """What is looked at of a series of version 2."""
    key = SeriesKey("s", "p", Agent("bot", "", "2"), task, Kind.PASS, part)
    return SimpleNamespace(key=key, evidence=evidence, fall=object() if has_fallen else None)


def test_the_promise_for_all_series_and_slices_of_a_user() -> None:
    """Three series at 1 %, and 1 % for the slices of one version."""
    tasks = [series(name) for name in ("", "a", "b")]
    slices = [series("", part=name) for name in ("tool x", "tool y")]
    assert promise_of(tasks, 0.01, None) == (
        "3 series of tasks and records: on steady traffic a false alert comes with a chance of at "
        "most 3.0% in the life of these versions (1.0% for each series)"
    )
    assert promise_of([*tasks, *slices], 0.01, None) == (
        "3 series of tasks and records, and 2 slices in 1 version: on steady traffic a false alert "
        "comes with a chance of at most 4.0% in the life of these versions (1.0% for each series "
        "and for all slices of a version)"
    )
    assert "at most 1.5 false alerts are to be expected" in promise_of(tasks, 0.5, None)
    assert promise_of([*tasks, *slices], 0.01, 200_000).endswith(
        "at most one false alert in 50,000 conversations or single records of a series, on average"
    )


def test_slices_stand_as_one_series_among_all() -> None:
    """With the slices of one version there are two series: the line of the first is 2 / 0.01."""
    whole, fallen = series("", 1.0), series("", 50 * 200.0, "tool x", has_fallen=True)
    other = series("", 50 * 150.0, "tool y")
    assert stands_of([whole, fallen, other], 0.01) == [False, True, False]
    assert stands_of([whole, series("", 50 * 199.0, "tool x", has_fallen=True)], 0.01) == [
        False, False,
    ]  # fmt: skip
    # Two series with 100 each stand together: 2 * 100 reaches the line.
    two = [series("", 100.0), series("", 50 * 100.0, "tool x", has_fallen=True)]
    assert stands_of(two, 0.01) == [True, True]


def test_what_erred_is_counted_beside_what_failed() -> None:
    second = group(
        "2", None, (10, record(Outcome.PASSED)), (20, record(Outcome.FAILED)),
        (10, record(Outcome.ERRORED)),
    )  # fmt: skip
    assert tally_of(second, "slow") == VersionTally(
        version="2", passed=10, failed=20, errored=10, pass_rate=0.25
    )
    assert tally_of(second, "unknown") is None


def test_the_record_comes_first_then_the_task_that_fell_most() -> None:
    """By Wilson 10 of 40 is 40 % at most and 30 of 40 is 86 %; 40 of 40 is 91 % at least."""
    first = group("1", None, (40, record(Outcome.PASSED)))
    second = group(
        "2", first,
        (10, record(Outcome.PASSED, Outcome.FAILED)), (20, record(Outcome.FAILED)),
        (10, record(Outcome.ERRORED)),
    )  # fmt: skip
    assert [each.task for each in falls_of(second)] == ["", "slow", "kind"]
    assert falls_of(second)[1].before == VersionTally(
        version="1", passed=40, failed=0, errored=0, pass_rate=1.0
    )
    same = group("3", second, (40, record(Outcome.FAILED, Outcome.PASSED)))
    assert [each.task for each in falls_of(same)] == ["", "slow"]
    assert falls_of(first) == ()


def test_intervals_that_touch_prove_nothing() -> None:
    """4 of 5 passed is 38 to 96 %, and 5 of 5 is 57 % at least."""
    first = group("1", None, (5, record(Outcome.PASSED)))
    second = group("2", first, (4, record(Outcome.PASSED)), (1, record(Outcome.FAILED)))
    assert list(falls_of(second)) == []


def test_errored_examples_are_of_the_alerts_own_agent() -> None:
    """The same version may run elsewhere, where other things err."""
    queries: list[EvaluationQuery] = []

    def evaluations(query: EvaluationQuery) -> Any:
        queries.append(query)
        return SimpleNamespace(items=())

    store: Any = SimpleNamespace(evaluations=evaluations)
    figures = Figures(
        since_ns=5, records=9, failed=8, evidence=99.0, healthy=1.0, lower=0.9, against=""
    )
    alert = DriftAlert(
        alert_id="x", space="default", alias="desk", service="bot", environment="staging",
        version="2", state=DriftAlertState.FIRING, opened_ns=7, changed_ns=7, kind=Kind.PASS,
        examples=(), opened=figures,
    )  # fmt: skip
    assert errored_of(store, alert) == []
    (query,) = queries
    assert (query.service_name, query.environment) == ("bot", "staging")
    assert (query.service_version, query.since_ns) == ("2", 5)
