"""The decision of a release check."""

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import GateCheck, check_gates, count_checks
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.results.run import Confirmation
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


def test_the_words_say_that_nothing_was_compared_with_the_run() -> None:
    assert "neither a baseline nor a gate" in decide(BAD, None, (), Policy()).headline


def test_errors_are_counted_and_the_examples_tell_them() -> None:
    """Kind: one failure reported several times. The counts are by scenario, not by attempt."""
    assert decide(RAISED, None, (), Policy()).reasons == (
        "1 of 2 scenarios did not run to the end",
    )
    assert decide(UNDECIDED, None, (), Policy()).reasons == (
        "a check could not be decided in 1 of 2 scenarios",
    )
    assert decide(BAD_RECORD, None, (), Policy()).reasons == ("answers: 1 of 1 record errored",)
    run = results(
        [
            scenario(f"s{i}", {}, attempt=at, error="ValueError: no" if at else None)
            for i in range(6)
            for at in range(3)
        ],
        repeats=3,
    )
    found = decide(run, None, (), Policy())
    assert found.reasons == ("6 of 6 scenarios did not run to the end",)
    assert "--allow-errors" in found.advice[1]


def test_a_gate_stops() -> None:
    met, unmet = gates(GOOD, 1.0), gates(BAD, 0.9)
    assert decide(GOOD, None, met, Policy()).word is Word.PASSED
    found = decide(BAD, None, unmet, Policy())
    assert (found.word, found.exit_code) == (Word.BELOW_GATE, 1)
    assert "50.0% (1 of 2" in found.reasons[0]
    assert found.headline == "1 of 2 scenarios passed."
    assert "; 1 gate met." in decide(GOOD, None, met, Policy()).headline


def many(bad: int, of: int = 20, repeats: int = 1) -> ScenarioEvalResults:
    """So many scenarios, of which the first few fail in every attempt."""
    return results(
        [
            scenario(f"s{i}", {"right": i >= bad}, attempt=at)
            for i in range(of)
            for at in range(repeats)
        ],
        repeats=repeats,
    )


def test_the_same_results_twice() -> None:
    found = decide(many(0), many(0).compare_to(many(0)), (), Policy())
    assert (found.word, found.exit_code, found.reasons) == (Word.NO_REGRESSION, 0, ())
    assert found.headline == (
        "20 of 20 scenarios passed, 20 of 20 in the baseline; a fall of more than 13.9 points is "
        "ruled out."
    )


def test_a_few_flips_stop_nothing() -> None:
    found = decide(many(2), many(2).compare_to(many(0)), (), Policy())
    assert (found.word, found.exit_code, found.advice) == (Word.NO_REGRESSION, 0, ())


def test_a_large_fall_that_may_be_chance() -> None:
    """Three of eight: mid-p 1/16 is above 3.5 %, and 38 points are no small thing."""
    run = many(3, of=8)
    found = decide(run, run.compare_to(many(0, of=8)), (), Policy())
    assert (found.word, found.exit_code, found.is_stopped) == (Word.INCONCLUSIVE, 3, True)
    assert len(found.reasons) == 1
    assert found.advice == (
        "save a new baseline of the version before with --repeats 3, and run the check with "
        "--repeats 3",
    )


def test_falls_that_are_no_chance() -> None:
    found = decide(many(8), many(8).compare_to(many(0)), (), Policy())
    assert (found.word, found.exit_code) == (Word.REGRESSED, 1)
    assert found.reasons[0].startswith("scenarios passed: 20 of 20 before, 12 of 20 now")


@pytest.mark.parametrize("policy", [Policy(), Policy(allow_errors=True, allow_lost=True)])
def test_a_collapse_of_six_scenarios_is_never_let_pass(policy: Policy) -> None:
    """30 of 30 attempts before, 5 of 30 now, whatever is allowed."""
    run = many(5, of=6, repeats=5)
    found = decide(run, run.compare_to(many(0, of=6, repeats=5)), (), policy)
    assert (found.word, found.exit_code) == (Word.REGRESSED, 1)


def test_what_has_to_be_ruled_out() -> None:
    comparison = many(0).compare_to(many(0))
    assert decide(many(0), comparison, (), Policy(require_ruled_out=14)).exit_code == 0
    found = decide(many(0), comparison, (), Policy(require_ruled_out=10))
    assert (found.word, found.exit_code) == (Word.INCONCLUSIVE, 3)
    assert found.reasons == (
        "only a fall of more than 13.9 points is ruled out, and --require-ruled-out asks for 10",
    )


def test_what_no_repeats_can_rule_out() -> None:
    """By hand: 1 - 0.05^(1/20) = 0.1391; 0.9^28 = 0.0523 and 0.9^29 = 0.0471."""
    Policy(require_ruled_out=14).check(20)
    Policy(require_ruled_out=10).check(29)
    with pytest.raises(
        ConfigError, match=r"20 scenarios can rule out no fall below 13\.9 points"
    ) as e:
        Policy(require_ruled_out=10).check(20)
    assert "use 29 scenarios, or ask for 14" in str(e.value)
    with pytest.raises(ConfigError, match="points above 0"):
        Policy(require_ruled_out=0).check(20)


def again(run: ScenarioEvalResults, **attempts: str) -> ScenarioEvalResults:
    """The run with attempts at single scenarios: `+` passed, `-` did not."""
    alone = results(
        [
            scenario(name, {"right": sign == "+"}, attempt=at)
            for name, signs in attempts.items()
            for at, sign in enumerate(signs)
        ],
        repeats=max(map(len, attempts.values())),
    )
    confirmations = tuple(
        Confirmation(
            scenario_id=name, asked=len(signs), passed=signs.count("+"), failed=signs.count("-"),
            chance=0.5, is_broken=False,
        )
        for name, signs in attempts.items()
    )  # fmt: skip
    return run.model_copy(update={"reasked": alone, "confirmations": confirmations})


def test_what_asking_again_came_to() -> None:
    """Broken where so many attempts failed in a row; not where one passed."""
    run = again(many(2), s0="-+", s1="+")
    passed = decide(run, run.compare_to(many(0)), (), Policy())
    assert passed.exit_code == 0
    run = again(many(2), s0="+", s1="-" * 14)
    broken = decide(run, run.compare_to(many(0)), (), Policy())
    assert (broken.word, broken.exit_code) == (Word.REGRESSED, 1)
    (reason,) = broken.reasons
    assert reason.startswith(
        "scenario 's1' is broken: it passed 1 of 1 attempts before and none of 15 now; the chance "
        "of that is 1 in "
    )
    run = again(many(6), **dict.fromkeys(("s0", "s1", "s2", "s3", "s4", "s5"), "+"))
    found = decide(run, run.compare_to(many(0)), (), Policy())
    assert found.exit_code == 1, "6 of 20 fell: mid-p 1/128, whatever was repeated"


def test_asking_that_ended_early_is_not_confirmed() -> None:
    run = again(many(1), s0="-")
    [found] = run.confirmations
    run = run.model_copy(
        update={"confirmations": (found.model_copy(update={"is_settled": False}),)}
    )
    decision = decide(run, run.compare_to(many(0)), (), Policy())
    assert (decision.word, decision.exit_code) == (Word.INCONCLUSIVE, 3)
    assert decision.reasons == (
        "not confirmed: 's0' (1) could not be asked again as often as it takes",
    )
    assert decision.advice == ("run the check again",)


def test_rounds_of_the_whole_suite() -> None:
    """Two rounds of one attempt: 30 of 40 pass now, 20 of 20 before."""
    run = many(5, repeats=2).model_copy(update={"rounds": 2})
    decision = decide(run, run.compare_to(many(0)), (), Policy())
    assert decision.exit_code == 1
    assert decision.headline == "30 of 40 attempts passed, 20 of 20 in the baseline."
    assert decision.reasons[0].startswith("scenarios passed: 20 of 20 attempts before, 30 of 40")
    good = many(0, repeats=2).model_copy(update={"rounds": 2})
    assert decide(good, good.compare_to(many(0)), (), Policy()).headline.startswith(
        "40 of 40 attempts passed, 20 of 20 in the baseline; "
    )


def test_the_worst_word_wins_and_all_reasons_are_there() -> None:
    run = many(8)
    raised = run.model_copy(
        update={
            "scenario_results": (
                scenario("s0", {}, error="ValueError: no"), *run.scenario_results[1:],
            )
        }
    )  # fmt: skip
    found = decide(raised, raised.compare_to(many(0)), gates(raised, 0.9), Policy())
    assert (found.word, found.exit_code) == (Word.REGRESSED, 1)
    assert any(reason.startswith("gate ") for reason in found.reasons)
    assert "1 of 20 scenarios did not run to the end" in found.reasons
    assert [text.split()[0] for text in found.advice] == ["mend", "save", "or"]
    unmet = decide(many(3), many(3).compare_to(many(0)), gates(many(3), 0.9), Policy())
    assert (unmet.word, unmet.exit_code) == (Word.BELOW_GATE, 1)


def test_a_run_that_judged_nothing_has_no_rate() -> None:
    decision = decide(results([]), None, (), Policy(allow_errors=True))
    assert (decision.word, decision.exit_code) == (Word.UNJUDGED, 1)
    assert decision.reasons[0].startswith("nothing was judged: ")
    assert "%" not in decision.headline


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(results([scenario("a", {"x": "no path"})]), id="errored checks"),
        pytest.param(results([scenario("a", {}, error="ValueError: no")]), id="raised"),
        pytest.param(
            results([], {"answers": [("a", record("r", {"x": "no path"}))]}), id="records"
        ),
    ],
)
def test_errors_that_are_allowed_are_no_verdict(run: ScenarioEvalResults) -> None:
    """Kind: a green build that evaluated nothing. Beside one verdict they are failed checks."""
    decision = decide(run, None, (), Policy(allow_errors=True, allow_unjudged=True))
    assert (decision.word, decision.exit_code) == (Word.UNJUDGED, 1)
    again = decide(run, run.compare_to(run), (), Policy(allow_errors=True))
    assert again.exit_code == 1
    assert decide(run, None, (), Policy()).word is Word.ERRORED


def test_checks_of_a_file_that_nobody_ran() -> None:
    """They are in the results, so that a saved run tells of them, and stop it by themselves."""
    run = GOOD.model_copy(update={"left_out": ("rubrics (1 of 2 rows)", "evaluator 'x'")})
    again = ScenarioEvalResults.model_validate_json(run.model_dump_json())
    decision = decide(again, None, (), Policy())
    assert (decision.word, decision.exit_code) == (Word.NOT_JUDGED, 1)
    assert decision.reasons[0].startswith("not judged: rubrics (1 of 2 rows), evaluator 'x': ")
    assert decide(again, None, (), Policy(allow_unjudged=True)).exit_code == 0


def test_gates_count_checks_and_not_the_mean_of_the_parts() -> None:
    """49 of 50 checks of records and 0 of 1 of scenarios: the mean of the two rates is 49 %."""
    rows = [("s", record(f"r{i}", {"t": i > 0})) for i in range(50)]
    run = results([scenario("s", {"own": False})], {"a": rows})
    assert run.metrics.overall_pass_rate == pytest.approx(0.49)
    (gate,) = gates(run, 0.9)
    assert (gate.name, gate.passed, gate.total) == ("pass rate of all checks", 49, 51)
    comparison = run.compare_to(run)
    assert comparison.baseline_checks == comparison.comparison_checks == (49, 51)


def test_an_attempt_that_raised_without_tasks_is_one_of_the_checks() -> None:
    run = results([scenario("s", {"own": True}), scenario("broken", {}, error="ValueError: no")])
    assert count_checks(run) == (1, 2)
    assert run.compare_to(run).comparison_checks == (1, 2)
