"""What a check comes to."""

import pytest

from scouter.evaluate.compare.gate_checks import GateCheck, check_gates, count_checks
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.scenario_results import ScenarioEvalResults
from scouter.replay.reports.decision import Policy, Word, decide
from tests.support.replay_results import record, results, scenario

GOOD = results([scenario("paris", {"right": True}), scenario("rome", {"right": True})])
BAD = results([scenario("paris", {"right": False}), scenario("rome", {"right": True})])
RAISED = results([scenario("paris", {}, error="ValueError: no"), scenario("rome", {"right": True})])
UNDECIDED = results(
    [scenario("paris", {"right": "no path 'x'"}), scenario("rome", {"right": True})]
)
BAD_RECORD = results(
    [scenario("rome", {"right": True})], {"answers": [("rome", record("r1", {"has_x": "no 'x'"}))]}
)


def gates(run: ScenarioEvalResults, rate: float) -> tuple[GateCheck, ...]:
    return check_gates(run, Gates(min_pass_rate=rate))


@pytest.mark.parametrize(
    ("run", "word", "code"),
    [
        pytest.param(GOOD, Word.RECORDED, 0, id="all-passed"),
        pytest.param(BAD, Word.RECORDED, 0, id="a-failure-alone-stops-nothing"),
        pytest.param(RAISED, Word.ERRORED, 1, id="agent-raised"),
        pytest.param(UNDECIDED, Word.ERRORED, 1, id="check-errored"),
        pytest.param(BAD_RECORD, Word.ERRORED, 1, id="record-errored"),
    ],
)
def test_without_baseline_and_gates_only_errors_stop(
    run: ScenarioEvalResults, word: Word, code: int
) -> None:
    found = decide(run, None, (), Policy())
    assert (found.word, found.exit_code, bool(found.reasons)) == (word, code, bool(code))
    assert decide(run, None, (), Policy(allow_errors=True)).exit_code == 0


def test_the_words_say_that_nothing_was_held_against_the_run() -> None:
    assert "neither a baseline nor a gate" in decide(BAD, None, (), Policy()).headline


def test_errors_name_scenario_record_and_cause() -> None:
    assert decide(RAISED, None, (), Policy()).reasons == ("scenario 'paris': ValueError: no",)
    assert decide(UNDECIDED, None, (), Policy()).reasons == (
        "a check could not be decided in scenario 'paris'",
    )
    (reason,) = decide(BAD_RECORD, None, (), Policy()).reasons
    assert reason == "answers: 1 of 1 record errored, first 'r1': task 'has_x': no 'x'"


def test_many_errors_are_counted() -> None:
    run = results([scenario(f"s{i}", {}, error="ValueError: no") for i in range(12)])
    found = decide(run, None, (), Policy())
    assert len(found.reasons) == 6
    assert found.reasons[-1] == "7 more scenarios did not run to the end"


def test_attempts_that_raised_are_counted_by_scenario() -> None:
    run = results(
        [
            scenario(f"s{i}", {}, attempt=at, error="ValueError: no" if at else None)
            for i in range(6)
            for at in range(3)
        ],
        repeats=3,
    )
    reasons = decide(run, None, (), Policy()).reasons
    assert len(reasons) == 6
    assert reasons[0] == "scenario 's0', 2 of 3 attempts: ValueError: no"
    assert reasons[-1] == "1 more scenario did not run to the end"


def test_a_gate_stops() -> None:
    met, unmet = gates(GOOD, 1.0), gates(BAD, 0.9)
    assert decide(GOOD, None, met, Policy()).word is Word.PASSED
    found = decide(BAD, None, unmet, Policy())
    assert (found.word, found.exit_code) == (Word.BELOW_GATE, 1)
    assert "50.0% (1 of 2" in found.reasons[0]
    assert "0 of 1 gate met" in found.headline


def test_a_baseline_decides_by_the_threshold() -> None:
    found = decide(BAD, BAD.compare_to(GOOD), (), Policy())
    assert (found.word, found.exit_code) == (Word.REGRESSED, 1)
    assert any("paris" in reason for reason in found.reasons)
    assert decide(GOOD, GOOD.compare_to(GOOD), (), Policy()).exit_code == 0


def test_two_scenarios_are_too_few_for_the_statistics() -> None:
    comparison = BAD.compare_to(GOOD)
    found = decide(BAD, comparison, (), Policy(gate="statistical"))
    assert (found.word, found.exit_code) == (Word.UNDERPOWERED, 1)
    allowed = Policy(gate="statistical", allow_underpowered=True)
    passed = decide(BAD, comparison, (), allowed)
    assert (passed.word, passed.exit_code) == (Word.PASSED, 0)
    assert passed.headline == (
        "Pass rate of all checks 50% (1/2), 100% (2/2) in the baseline. Not enough data to tell, "
        "allowed by --allow-underpowered. By the threshold it regressed, but the statistics decide."
    )
    same = decide(GOOD, GOOD.compare_to(GOOD), (), Policy(gate="statistical")).headline
    assert "allowed" not in same
    assert same.endswith("The statistics decide.")


def test_forty_falls_of_forty_are_enough_for_the_statistics() -> None:
    before = results([scenario(f"s{i}", {"right": True}) for i in range(40)])
    after = results([scenario(f"s{i}", {"right": False}) for i in range(40)])
    found = decide(after, after.compare_to(before), (), Policy(gate="statistical"))
    assert (found.word, found.exit_code) == (Word.REGRESSED, 1)


def test_the_worst_word_wins_and_all_reasons_are_there() -> None:
    run = results(
        [scenario("paris", {}, error="ValueError: no"), scenario("rome", {"right": False})]
    )
    found = decide(run, run.compare_to(GOOD), gates(run, 0.9), Policy())
    assert found.word is Word.REGRESSED
    assert any(reason.startswith("gate ") for reason in found.reasons)
    assert "scenario 'paris': ValueError: no" in found.reasons


def test_a_run_that_judged_nothing_has_no_rate() -> None:
    decision = decide(results([]), None, (), Policy(allow_errors=True))
    assert (decision.word, decision.exit_code) == (Word.UNJUDGED, 1)
    assert decision.reasons[0].startswith("nothing was judged: ")
    assert "%" not in decision.headline


def test_the_headline_counts_checks_and_not_the_mean_of_the_parts() -> None:
    """49 of 50 checks of records and 0 of 1 of scenarios: the mean of the two rates is 49 %."""
    rows = [("s", record(f"r{i}", {"t": i > 0})) for i in range(50)]
    run = results([scenario("s", {"own": False})], {"a": rows})
    assert run.metrics.overall_pass_rate == pytest.approx(0.49)
    assert decide(run, None, (), Policy()).headline.startswith(
        "Pass rate of all checks 96.1% (49/51)."
    )
    (gate,) = gates(run, 0.9)
    assert (gate.name, gate.passed, gate.total) == ("pass rate of all checks", 49, 51)
    comparison = run.compare_to(run)
    assert comparison.baseline_checks == comparison.comparison_checks == (49, 51)


def test_an_attempt_that_raised_without_tasks_is_one_of_the_checks() -> None:
    run = results([scenario("s", {"own": True}), scenario("broken", {}, error="ValueError: no")])
    assert count_checks(run) == (1, 2)
    assert run.compare_to(run).comparison_checks == (1, 2)
