"""The scenarios on the first screen: those that explain most of what did not pass."""

from scouter.replay.reports.telling import telling
from scouter.replay.reports.view import make_view
from tests.support.replay_results import record, results, scenario


def test_nothing_is_told_of_a_run_that_passed() -> None:
    run = results([scenario("paris", {"right": True})])
    assert telling(make_view(run, None)) == ()


def test_each_check_is_told_once_before_any_is_told_twice() -> None:
    run = results(
        [
            scenario("a", {"right": False}),
            scenario("b", {"right": False}),
            scenario("c", {"right": True}),
            scenario("d", {"right": False}),
        ],
        {"answers": [("c", record("r1", {"cites": False}))]},
    )
    found = telling(make_view(run, None))
    assert [(one.scenario_id, one.check) for one in found] == [
        ("a", "right"),
        ("c", "answers · cites"),
        ("b", "right"),
    ]


def test_it_says_what_was_wanted_and_what_came() -> None:
    run = results([scenario("rome", {"t": at < 1}, attempt=at) for at in range(3)], repeats=3)
    (one,) = telling(make_view(run, None))
    assert (one.attempt, one.passed, one.attempts) == (2, 1, 3)
    assert one.message == "'response' is 'Soon.', expected Paris"
    assert one.was == ""


def test_what_got_worse_comes_first() -> None:
    before = results([scenario("old", {"right": False}), scenario("new", {"right": True})])
    now = results([scenario("old", {"right": False}), scenario("new", {"right": False})])
    found = telling(make_view(now, now.compare_to(before)))
    assert [(one.scenario_id, one.was) for one in found] == [("new", "passed"), ("old", "failed")]
