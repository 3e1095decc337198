"""Results of a replay, printed."""

import io
from contextlib import redirect_stdout

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_counts import scenarios_passed
from scouter.replay.reports.view import make_view
from tests.support.replay_results import record, results, scenario


def rows(run: ScenarioEvalResults) -> list[list[str]]:
    """The printed lines, each as its cells."""
    with redirect_stdout(io.StringIO()) as out:
        run.as_table()
    lines = [line.strip() for line in out.getvalue().splitlines()]
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in lines if line]


def test_attempts_of_a_scenario_are_one_row() -> None:
    run = results(
        [
            *(scenario("shaky", {"t": at > 0, "u": True}, attempt=at) for at in range(3)),
            *(scenario("sound", {"t": True}, attempt=at) for at in range(3)),
            *(
                scenario("broken", {"t": "no path"} if at else {"t": False}, attempt=at)
                for at in range(3)
            ),
        ],
        repeats=3,
    )
    found = rows(run)
    query = "What about {}?".format
    assert ["shaky", query("shaky"), "66.7% (2/3)", "83.3% (5/6)", "flaky", "t (1)"] in found
    assert ["sound", query("sound"), "100.0% (3/3)", "100.0% (3/3)", "passed"] in found
    assert ["broken", query("broken"), "0.0% (0/3)", "0.0% (0/3)", "failed", "t (3)"] in found
    assert ["Attempts of each", "3"] in found
    assert ["Scenarios passed", "33.3% (1/3)"] in found
    assert (run.metrics.passed_scenarios, run.metrics.total_scenarios) == (1, 3)


def test_a_scenario_without_tasks_counts_by_its_records() -> None:
    """Kind: counts of one thing that disagree. `mixed` passes its own task, its record does not."""
    run = results(
        [scenario("own", {"t": True}), scenario("mixed", {"t": True})],
        {"a": [("mixed", record("r1", {"x": False})), ("bare", record("r2", {"x": True})),
               ("bad", record("r3", {"x": True, "y": "no path"}))]},
    )  # fmt: skip
    found = rows(run)
    status = {line[0]: line[2:] for line in found if line[1:2] == [f"What about {line[0]}?"]}
    assert status == {
        "own": ["100.0% (1/1)", "100.0% (1/1)", "passed"],
        "mixed": ["0.0% (0/1)", "50.0% (1/2)", "failed", "a · x"],
        "bare": ["100.0% (1/1)", "100.0% (1/1)", "passed"],
        "bad": ["0.0% (0/1)", "50.0% (1/2)", "errored", "a · y"],
    }
    assert ["Scenarios passed", "50.0% (2/4)"] in found
    assert (run.metrics.passed_scenarios, run.metrics.total_scenarios) == (2, 4)
    assert scenarios_passed(run) == (2, 4)
    outcomes = {name: cells[2] for name, cells in status.items() if name != "own"}
    deltas = run.compare_to(run).scenario_deltas
    view = make_view(run, None).scenarios
    assert {e.scenario_id: str(e.comparison_outcome) for e in deltas} == outcomes | {
        "own": "passed"
    }
    assert {e.scenario_id: str(e.outcome) for e in view} == outcomes | {"own": "passed"}


def test_what_there_is_none_of_is_left_out() -> None:
    no_alias = [line[0] for line in rows(results([scenario("s", {"t": True})]))]
    assert not {
        "Workflow pass rate (mean of aliases)",
        "Sub-Agent Pass Rates",
        "Attempts of each",
    } & set(no_alias)
    no_tasks = [line[0] for line in rows(results([], {"a": [("s", record("r", {"t": True}))]}))]
    assert not {"Scenario pass rate", "Scenarios with tasks"} & set(no_tasks)
    nothing = rows(results([]))
    assert nothing[1:] == [
        ["Metric", "Value"],
        nothing[2],
        ["Pass rate of all checks", "-"],
        ["Scenarios run", "0"],
    ]


def test_scenarios_passed_come_first_and_count_records() -> None:
    """Trivial checks pass in all six; one record's failed check fails its scenario."""
    found = rows(
        results(
            [scenario(f"s{i}", {"t": i > 0}) for i in range(6)],
            {"a": [(f"s{i}", record("r", {"x": True, "y": i != 1})) for i in range(6)]},
        )
    )
    assert found[3] == ["Scenarios passed", "66.7% (4/6)"]
    [alias] = [line for line in found if line[0] == "a" and len(line) == 7]
    assert alias[3] == "65% - 99%"  # Wilson of 11 of 12


def test_below_six_conversations_no_interval_is_shown() -> None:
    run = results([], {"a": [(f"s{i}", record("r", {"x": True})) for i in range(5)]})
    found = rows(run)
    assert ["5 conversations are too few for an interval."] in found
    [alias] = [line for line in found if line[0] == "a" and len(line) == 7]
    assert alias[3] == "-"
