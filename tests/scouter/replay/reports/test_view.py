"""The one reading of results that all reports share."""

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome
from scouter.replay.reports.view import make_view
from tests.support.replay_results import record, results, scenario


def test_changes_against_the_baseline() -> None:
    before = results(
        [
            scenario("fell", {"t": True}),
            scenario("rose", {"t": False}),
            scenario("more", {"t": False, "u": False}),
            scenario("same", {"t": False}),
            scenario("gone", {"t": True}),
        ]
    )
    after = results(
        [
            scenario("fell", {"t": False}),
            scenario("rose", {"t": True}),
            scenario("more", {"t": True, "u": False}),
            scenario("same", {"t": False}),
            scenario("new", {"t": True}),
        ]
    )
    view = make_view(after, after.compare_to(before))
    assert {s.scenario_id: s.change for s in view.scenarios} == {
        "fell": "regressed",
        "rose": "improved",
        "more": "improved",
        "same": "same",
        "new": "new",
    }
    assert view.missing == ("gone",)
    assert [s.scenario_id for s in view.flips] == ["fell", "more", "rose"]
    assert view.by_urgency[0].scenario_id == "fell"


def test_one_attempt_of_five_that_fails_is_no_improvement() -> None:
    before = results([scenario("s", {"t": True})])
    after = results([scenario("s", {"t": at < 4}, attempt=at) for at in range(5)], repeats=5)
    (view,) = make_view(after, after.compare_to(before)).scenarios
    assert view.change in {"same", "regressed"}
    assert (view.outcome, view.passed, view.is_flaky) == (Outcome.FAILED, 4, True)


def test_a_scenario_without_tasks_is_judged_by_its_records() -> None:
    run = results([], {"a": [("s", record("r1", {"t": True})), ("s", record("r2", {"t": False}))]})
    (view,) = make_view(run, None).scenarios
    assert (view.outcome, view.change) == (Outcome.FAILED, "")
    assert [r.name for r in view.attempts[0].records] == ["r1", "r2"]


def test_a_scenario_without_tasks_changes_by_its_records() -> None:
    def run(**ended: list[bool]) -> ScenarioEvalResults:
        rows = [
            (name, record(f"{name}{at}", {"t": one}))
            for name, values in ended.items()
            for at, one in enumerate(values)
        ]
        return results(
            [scenario("own", {"u": True})], {"a": [*rows, ("own", record("o", {"t": True}))]}
        )

    before = run(fell=[True, False], rose=[False, True], same=[False])
    after = run(fell=[False, True], rose=[True, True], same=[False])
    view = make_view(after, after.compare_to(before))
    assert {s.scenario_id: (s.change, s.baseline_outcome) for s in view.scenarios} == {
        "own": ("same", "passed"),
        "fell": ("regressed", "failed"),
        "rose": ("improved", "failed"),
        "same": ("same", "failed"),
    }


def test_rates_without_a_baseline_are_counted_over_all_attempts() -> None:
    run = results(
        [scenario("s", {"t": at > 0, "u": "no path"}, attempt=at) for at in range(3)],
        {"a": [("s", record("r1", {"t": True}))]},
        repeats=3,
    )
    rows = [(t.alias, t.task_id, t.now.passed, t.now.total) for t in make_view(run, None).tasks]
    assert rows == [("a", "t", 1, 1), ("", "t", 2, 3), ("", "u", 0, 3)]
