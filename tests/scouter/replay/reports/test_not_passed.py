"""Results that did not pass, grouped by task."""

from scouter.replay.reports.not_passed import NotPassed, not_passed
from scouter.replay.reports.view import make_view
from tests.support.replay_results import record, results, scenario


def test_results_of_one_task_are_one_row_with_the_first_of_them() -> None:
    run = results(
        [
            scenario("paris", {"right": True, "fine": True}),
            scenario("rome", {"right": False, "fine": True}),
            scenario("oslo", {"right": "no path 'x'", "fine": True}),
        ],
        {
            "answers": [
                ("rome", record("r1", {"right": False})),
                ("rome", record("r2", {"a": True})),
            ]
        },
    )
    own, other = not_passed(make_view(run, None))
    message = "failed: 'response' is 'Soon.', expected Paris"
    assert own == NotPassed(
        alias="", task_id="right", count=2, total=3, place="rome", message=message
    )
    assert (other.alias, other.count, other.total) == ("answers", 1, 1)
    assert other.place == "rome, record r1"


def test_attempts_are_numbered() -> None:
    run = results([scenario("s", {"t": at < 1}, attempt=at) for at in range(3)], repeats=3)
    (row,) = not_passed(make_view(run, None))
    assert (row.count, row.total, row.place) == (2, 3, "s, attempt 2")
