"""Decisions of a comparison: what they are made of, in numbers worked out by hand."""

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stdout
from random import Random

import pytest
import scipy.stats as reference

from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.compare.data import repeats_notes
from scouter.evaluate.compare.rates import CLUSTERED, NO_TEST, PAIRED, UNPAIRED
from scouter.evaluate.compare.rows import (
    WHOLE_CONVERSATIONS,
    WHOLE_RECORDS,
    WHOLE_SCENARIOS,
    ComparisonDecision,
    RateComparison,
)
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.model.ids import uuid7

WORDS = {"P": "passed", "F": "failed", "E": "errored", "S": "skipped"}


def tasks_of(letters: str) -> tuple[EvalTaskResult, ...]:
    """`PFE` is three tasks t0 t1 t2: passed, failed, errored; S is skipped by a gate."""
    return tuple(
        EvalTaskResult.of(
            task_id=f"t{index}",
            task_type="Assertion",
            outcome=WORDS[letter],
            reason={"E": Reason.MISSING_PATH, "S": Reason.GATE}.get(letter),
        )
        for index, letter in enumerate(letters)
    )


def record(letters: str, record_id: str = "", session_id: str | None = None) -> RecordResult:
    tasks = tasks_of(letters)
    session = uuid7() if session_id is None else session_id
    return RecordResult(uuid7(), record_id, session, None, record_outcome(tasks), tasks, 0, 0)


def plain(rows: Sequence[str]) -> EvalResults:
    """Records of conversations of their own, without ids."""
    return EvalResults([record(letters) for letters in rows])


def task(comparison: ComparisonResults | ScenarioComparisonResults, task_id: str) -> RateComparison:
    [row] = [row for row in comparison.rates if row.task_id == task_id]
    return row


def attempts(rows: Sequence[Sequence[str]], alias: str | None = "a") -> ScenarioEvalResults:
    """One row per scenario, one text per attempt; as records of an alias or as own tasks."""
    repeats = max(len(row) for row in rows)
    made = [(f"s{at}", try_, letter) for at, row in enumerate(rows) for try_, letter in
            enumerate(row)]  # fmt: skip
    datasets: dict[str, EvalResults] = {}
    judged: list[ScenarioResult] = []
    if alias is not None:
        datasets[alias] = EvalResults(
            [record(letter) for _, _, letter in made],
            [name for name, _, _ in made],
            [try_ for _, try_, _ in made],
        )
    else:
        judged = [
            ScenarioResult.of(name, "q", tasks_of(letter)).model_copy(update={"attempt": try_})
            for name, try_, letter in made
        ]
    return ScenarioEvalResults(
        dataset_results=datasets,
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of(datasets, judged),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(rows))
        ),
        repeats=repeats,
    )


def test_a_regression_in_words() -> None:
    """12 of 40 fell, 1 rose: p = (1 + 13) / 2^13 = 0.0017, one-sided, by McNemar's exact test."""
    before = plain(["P"] * 39 + ["F"])
    now = plain(["F"] * 12 + ["P"] * 28)
    comparison = now.compare_to(before)
    row = task(comparison, WHOLE_RECORDS)
    assert comparison.decision is ComparisonDecision.REGRESSED
    assert comparison.exit_code == 1
    assert row.regressed
    assert not row.is_cleared
    assert (row.fell, row.rose, row.pairs, row.clusters) == (12, 1, 40, 40)
    assert row.method == PAIRED
    assert row.p_value == pytest.approx(14 / 2**13)
    assert row.adjusted_p == row.p_value
    assert row.difference == pytest.approx(-11 / 40)
    assert row.reason == (
        "39 of 40 before, 28 of 40 now; difference −27.5 points (95 % −44 to −12); p 0.0017"
    )
    assert comparison.decision_reasons[0] == f"records passed: {row.reason}"
    assert len(comparison.decision_reasons) == 1  # the same p is too much for the other rates
    assert comparison.not_cleared == ("task 't0'", "all tasks")


def test_tasks_that_fell_with_the_whole_are_named_once() -> None:
    """14 of 40 fell and none rose: 2^-14, twice that after Holm for the task and for all tasks."""
    comparison = plain(["F"] * 14 + ["P"] * 26).compare_to(plain(["P"] * 40))
    assert task(comparison, "t0").adjusted_p == pytest.approx(2 / 2**14)
    assert comparison.decision_reasons[1:] == ("with them fell: task 't0'",)


@pytest.mark.parametrize(
    ("records", "limit"), [(20, 13.91), (30, 9.50), (1, 95.0), (5, 45.07), (157, 1.89)]
)
def test_nothing_changed(records: int, limit: float) -> None:
    """The same results twice: 1 - 0.05 ** (1 / n) is the largest fall that is not ruled out."""
    run = plain(["P"] * records)
    comparison = run.compare_to(run)
    assert comparison.decision is ComparisonDecision.NO_REGRESSION
    assert comparison.exit_code == 0
    assert comparison.ruled_out == pytest.approx(limit, abs=0.01)
    assert comparison.ruled_out == pytest.approx(100 * (1 - 0.05 ** (1 / records)))
    assert comparison.decision_reason == f"a fall of more than {limit:.1f} points is ruled out"
    assert not comparison.decision_reasons
    assert not comparison.not_cleared


def test_an_identical_replay_of_twenty_scenarios() -> None:
    comparison = attempts(["P"] * 20, None).compare_to(attempts(["P"] * 20, None))
    assert (comparison.exit_code, str(comparison)) == (
        0, "no regression seen: 20 of 20 scenarios passed, 20 of 20 in the baseline",
    )  # fmt: skip
    assert comparison.decision_reason == "a fall of more than 13.9 points is ruled out"


@pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        pytest.param(
            [*["P"] * 8, "F", "F"], [["P", "F", "P"]] * 9 + [["P", "P", "P"]],
            "21 of 30 attempts passed, 8 of 10 in the baseline", id="more-attempts-now",
        ),
        pytest.param(
            [["P", "P", "F"]] * 2, ["P", "F"],
            "1 of 2 attempts passed, 4 of 6 in the baseline", id="more-attempts-before",
        ),
        pytest.param(
            [["P", "P"], ["P", "F"]], [["P", "F"], ["P", "P"]],
            "1 of 2 scenarios passed (3 of 4 attempts), 1 of 2 in the baseline", id="as-many",
        ),
        pytest.param(
            ["P", "P"], ["P", "F"], "1 of 2 scenarios passed, 2 of 2 in the baseline", id="one-each"
        ),
    ],
)  # fmt: skip
def test_scenarios_of_one_attempt_are_not_compared_with_those_of_three(
    before: Sequence[Sequence[str]], now: Sequence[Sequence[str]], text: str
) -> None:
    """Kind: counts that look like a collapse, as a scenario passes if all its attempts do."""
    comparison = attempts(now, None).compare_to(attempts(before, None))
    assert comparison.passed_text == text
    assert str(comparison) == f"{comparison.decision}: {text}"


def test_a_collapse_of_few_scenarios_with_repeats() -> None:
    """30 of 30 attempts, then 5 of 30, in six scenarios: p is 252^-5, about 1e-12."""
    comparison = attempts([*["FFFFF"] * 5, "PPPPP"], None).compare_to(attempts(["PPPPP"] * 6, None))
    row = task(comparison, WHOLE_SCENARIOS)
    assert row.p_value == pytest.approx(252**-5)
    assert comparison.exit_code == 1
    assert row.reason == (
        "30 of 30 attempts before, 5 of 30 now; difference −83.3 points (95 % −97 to −12); "
        "p < 0.001"
    )
    assert len(comparison.flips) == 5


def test_below_six_conversations_no_interval_is_shown() -> None:
    """5 of 5, then 0 of 5: one line in place of `95 % −100 to +100` and of p-values."""
    comparison = attempts(["F"] * 5, None).compare_to(attempts(["P"] * 5, None))
    assert comparison.decision is ComparisonDecision.REGRESSED  # 1/32
    assert comparison.decision_reason == (
        "scenarios passed: 5 of 5 before, 0 of 5 now; 5 conversations are too few for an interval"
    )
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
    text = out.getvalue()
    assert text.count("5 conversations are too few for an interval") == 2  # reason and table
    assert "to +" not in text
    assert "0.031" not in text


def test_one_task_of_twenty_that_fell_a_little_is_named() -> None:
    """Six of 30 scenarios fail one task once in three tries; p = 1/64 is not enough for Holm.

    As many attempts pass as a whole as before: another task failed there and does not now.
    """
    good = "P" * 20
    before = attempts([[good] * 3] * 24 + [[good, good, "PF" + good[2:]]] * 6, None)
    now = attempts([[good] * 3] * 24 + [[good, good, "FP" + good[2:]]] * 6, None)
    comparison = now.compare_to(before)
    row = task(comparison, "t0")
    assert row.difference == pytest.approx(-6 / 90)
    assert row.p_value == pytest.approx(1 / 2**6)
    assert not row.regressed
    assert not row.is_cleared
    assert comparison.exit_code == 0
    assert comparison.not_cleared == ("task 't0'",)
    assert "task 't0' (−6.7 points, 95 % −14 to −2)" in comparison.decision_reason
    assert comparison.decision_reason.startswith("a fall of more than ")


def test_a_large_fall_that_may_be_chance_is_inconclusive() -> None:
    """3 of 8 flipped, mid-p 1/16 > 0.035: 20 points are never let go without a word."""
    before = attempts(["P"] * 8, None)
    comparison = attempts(["F"] * 3 + ["P"] * 5, None).compare_to(before)
    assert comparison.decision is ComparisonDecision.INCONCLUSIVE
    assert comparison.exit_code == 3
    assert "and run the check with --repeats 3" in comparison.decision_reason
    one = attempts(["F"] + ["P"] * 19, None).compare_to(attempts(["P"] * 20, None))
    assert (one.exit_code, one.flips) == (0, ("s0",))


def test_a_record_that_comes_and_goes_falls_as_often_as_it_rises() -> None:
    """One agent in both runs, which leaves a record of `a` in half of the scenarios only."""

    def leaves(names: Sequence[str]) -> ScenarioEvalResults:
        records = EvalResults([record("P") for _ in names], list(names))
        return attempts(["P"] * 8, None).model_copy(update={"dataset_results": {"a": records}})

    first, second = leaves(["s0", "s1", "s2", "s3"]), leaves(["s4", "s5", "s6", "s7"])
    for before, now in ((first, second), (second, first)):
        whole = now.compare_to(before).rates[0]
        assert (whole.fell, whole.rose) == (4, 4)
        assert whole.p_value is not None
        assert whole.p_value == pytest.approx(0.5), "mid-p of no difference"


def test_what_is_gone_altogether() -> None:
    """A scenario, an alias, a task: the run cannot say that they still pass."""
    before = attempts([["PP"]] * 20, None)
    fewer = attempts([["PP"]] * 19, None).compare_to(before)
    assert fewer.exit_code == 3
    assert fewer.decision_reasons == (
        "cannot clear scenario 's19', which was removed: look at the results of the new run and "
        "pass --accept-changed s19, or save a new baseline",
    )
    assert attempts([["PP"]] * 19, None).compare_to(before, accept_changed=["s19"]).exit_code == 0
    task_gone = attempts(["P"] * 20, None).compare_to(before)
    assert task_gone.exit_code == 1
    assert "gone from the new run: task 't1'" in task_gone.decision_reason
    alias_gone = attempts(["P"] * 20, "b").compare_to(attempts(["P"] * 20, "a"))
    assert "gone from the new run: alias 'a'" in alias_gone.decision_reason
    unjudged = attempts(["P"] * 19 + [""], None).compare_to(attempts(["P"] * 20, None))
    assert "gone from the new run: task (each of scenario 's19')" in unjudged.decision_reason


def test_records_of_scenarios_are_counted_by_attempt() -> None:
    """The results of one alias alone: of two scenarios and two attempts, one attempt is gone.

    By hand: in `s0` 1 of C(4, 2) = 6 choices has both that did not pass; the other says nothing.
    """
    before = attempts([["P", "P"], ["P", "P"]]).dataset_results["a"]
    now = attempts([["F", "F"], ["P", "P"]]).dataset_results["a"]
    row = task(now.compare_to(before), WHOLE_SCENARIOS)
    assert (row.comparison_passed, row.comparison_count) == (2, 4)
    assert row.p_value == pytest.approx(1 / 6)
    short = EvalResults(now.records[2:], ["s1", "s1"], [0, 1])
    row = task(short.compare_to(before), WHOLE_SCENARIOS)
    assert (row.fell, row.p_value) == (2, pytest.approx(1 / 6))


def replay_of(counts: Sequence[int]) -> ScenarioEvalResults:
    """One scenario for each number, which leaves so many records that pass."""
    names = [f"s{at}" for at, count in enumerate(counts) for _ in range(count)]
    found = EvalResults([record("P") for _ in names], names)
    return ScenarioEvalResults(
        dataset_results={"a": found},
        scenario_results=(),
        metrics=EvalMetrics.of({"a": found}, []),
        scenarios=tuple(
            ScenarioInfo(scenario_id=f"s{at}", initial_query="q") for at in range(len(counts))
        ),
    )


def test_records_that_are_missing_did_not_pass() -> None:
    """The second record of each of 20 scenarios is not there any more: 2^-20, times two rates."""
    comparison = replay_of([1] * 20).compare_to(replay_of([2] * 20))
    row = task(comparison, "t0")
    assert row.adjusted_p == pytest.approx(2 / 2**20)
    assert "20 missing now, counted as not passed" in row.reason
    assert comparison.exit_code == 1


def test_records_that_come_and_go_are_no_fall() -> None:
    """As many scenarios leave one more as leave one less, so that chance explains it."""
    before, now = [2] * 20 + [3] * 20, [3] * 20 + [2] * 20
    comparison = replay_of(now).compare_to(replay_of(before))
    row = task(comparison, "t0")
    assert row.p_value == pytest.approx(0.5627, abs=1e-4)  # at most 20 of 40 of a fair coin
    assert comparison.exit_code == 0


def test_holm_over_the_tasks() -> None:
    """t0: 8 falls, p = 1/256; t1: nothing. Times three for two tasks and their sum."""
    comparison = plain(["FP"] * 8 + ["PP"] * 32).compare_to(plain(["PP"] * 40))
    row = task(comparison, "t0")
    assert row.p_value == pytest.approx(1 / 256)
    assert row.adjusted_p == pytest.approx(3 / 256)
    assert "p 0.012 after Holm over 3 rates" in row.reason
    assert not row.regressed  # 0.012 > 0.01
    assert task(comparison, WHOLE_RECORDS).adjusted_p == pytest.approx(1 / 256)
    assert task(comparison, WHOLE_RECORDS).regressed


def test_better() -> None:
    comparison = plain(["P"] * 200).compare_to(plain(["F"] * 30 + ["P"] * 170))
    assert comparison.exit_code == 0
    assert not comparison.regressed
    assert task(comparison, "t0").p_value == 1.0


@pytest.mark.parametrize("letter", ["F", "E", "S"])
def test_errored_and_gate_skipped_did_not_pass(letter: str) -> None:
    comparison = plain([letter] * 10 + ["P"] * 30).compare_to(plain(["P"] * 40))
    row = task(comparison, "t0")
    assert (row.comparison_passed, row.comparison_count, row.fell) == (30, 40, 10)
    assert row.regressed


def test_missing_records_did_not_pass() -> None:
    """Leaving the ten bad ones out of the run helps nobody."""
    comparison = plain(["P"] * 30).compare_to(plain(["P"] * 40))
    row = task(comparison, "t0")
    assert (row.fell, row.missing, row.pairs) == (10, 10, 40)
    assert row.comparison_pass_rate == 1.0
    assert row.regressed
    assert task(comparison, WHOLE_RECORDS).regressed
    assert "10 missing now, counted as not passed" in row.reason


def test_turns_of_one_conversation_are_no_single_evidence() -> None:
    """40 falls in 4 conversations: p = 1 / 2^4, not 1 / 2^40."""
    before = EvalResults([record("P", f"r{i}", f"c{i // 10}") for i in range(40)])
    now = EvalResults([record("F", f"r{i}", f"c{i // 10}") for i in range(40)])
    comparison = now.compare_to(before)
    row = task(comparison, "t0")
    assert row.method == CLUSTERED
    assert (row.clusters, row.pairs) == (4, 40)
    assert row.p_value == pytest.approx(1 / 2**4)
    assert not row.regressed
    whole = task(comparison, WHOLE_CONVERSATIONS)
    assert (whole.baseline_count, whole.p_value) == (4, pytest.approx(1 / 2**4))
    assert comparison.decision is ComparisonDecision.INCONCLUSIVE


def test_attempts_move_together() -> None:
    """Two of three attempts of one scenario lose all of three turns: 9 results, 6 attempts.

    By hand: of C(6, 3) = 20 choices of the new attempts only the one with both that failed has a
    sum as low, with one of the four that passed: 4 choices. Whole scenarios count half of them.
    """
    before = attempts([["PPP"] * 3], None)
    now = attempts([["FFF", "PPP", "FFF"]], None)
    comparison = now.compare_to(before)
    assert task(comparison, WHOLE_SCENARIOS).p_value == pytest.approx(2 / 20)
    assert task(comparison, "t1").p_value == pytest.approx(4 / 20)


def test_what_was_not_repeated_is_in_no_test() -> None:
    """A task that was skipped for a budget or a sample leaves its attempt out, a lost one not."""

    def run(letters: Sequence[Sequence[str]], reason: Reason) -> ScenarioEvalResults:
        made = attempts(letters, None)
        results = [
            result.model_copy(
                update={
                    "task_results": tuple(
                        item.model_copy(update={"reason": reason})
                        if item.outcome is Outcome.SKIPPED
                        else item
                        for item in result.task_results
                    )
                }
            )
            for result in made.scenario_results
        ]
        return made.model_copy(update={"scenario_results": tuple(results)})

    before = attempts([["P", "P"]] * 6, None)
    sampled = run([["S", "P"]] * 6, Reason.SAMPLED).compare_to(before)
    assert task(sampled, "t0").p_value == 1.0
    assert task(sampled, WHOLE_SCENARIOS).p_value == 1.0
    closed = run([["S", "P"]] * 6, Reason.GATE).compare_to(before)
    assert task(closed, "t0").p_value == pytest.approx(1 / 2**6)


def test_words_for_once_and_more_often() -> None:
    [once] = repeats_notes(1, 3)
    assert once == (
        "each scenario ran once in the baseline and 3 times now; the test takes all of them, "
        "intervals only the first one"
    )
    [more] = repeats_notes(4, 3)
    assert more.endswith("the test takes all of them, intervals only the first 3")


def test_sessions_of_either_run_tell_conversations() -> None:
    """The baseline's sender named no sessions, so that each record has a random one."""
    before = EvalResults([record("P", f"r{i}") for i in range(40)])
    now = EvalResults([record("P", f"r{i}", f"c{i // 10}") for i in range(40)])
    assert task(now.compare_to(before), "t0").clusters == 4


def test_records_that_cannot_be_paired() -> None:
    """Other records: 95 % of 100 before, 60 % of 100 now; the rates can still be compared."""
    before = EvalResults([record("P" if i < 95 else "F", f"a{i}") for i in range(100)])
    now = EvalResults([record("P" if i < 60 else "F", f"b{i}") for i in range(100)])
    comparison = now.compare_to(before)
    row = task(comparison, "t0")
    assert row.method == UNPAIRED
    assert row.difference == pytest.approx(-0.35)
    assert comparison.exit_code == 1
    assert row.reason.startswith("95 of 100 before, 60 of 100 now")
    expected = reference.hypergeom.cdf(60, 200, 155, 100)  # Fisher's exact test, one-sided
    assert row.p_value == pytest.approx(float(expected))
    assert comparison.regressed  # every record of the baseline is missing
    same = EvalResults([record("P", f"b{i}", "one") for i in range(100)]).compare_to(before)
    assert task(same, "t0").method == UNPAIRED


def test_new_tasks_and_aliases_are_not_tested() -> None:
    comparison = plain(["PP"] * 200).compare_to(plain(["P"] * 200))
    row = task(comparison, "t1")
    assert (row.method, row.p_value, row.regressed, row.word) == (NO_TEST, None, False, "")
    assert row.reason == "new: the baseline has no result to compare with"
    assert comparison.exit_code == 0
    empty = plain([]).compare_to(plain([]))
    assert (empty.exit_code, empty.ruled_out) == (3, None)
    assert empty.decision_reasons == ("the runs have nothing in common that could be compared",)
    both = attempts(["P"] * 4, "b").compare_to(attempts(["P"] * 4, "a"))
    assert {row.alias for row in both.rates} == {None, "a", "b"}


# --- repeats ---


@pytest.mark.parametrize("alias", ["a", None])
@pytest.mark.parametrize(
    ("before", "now", "regressed"),
    [
        pytest.param("P", "F", True, id="once each: every flip counts"),
        pytest.param("PPP", "FFF", True, id="a clean flip"),
        pytest.param("PP", "FF", True, id="a clean flip of two"),
        pytest.param("PPF", "FPF", False, id="flaky as before"),
        pytest.param("PPPPP", "PPPPF", False, id="one failure of five"),
        pytest.param("PPPPP", "PPFFF", True, id="more failures than chance"),
        pytest.param("PPFFF", "PPPPP", False, id="better"),
        pytest.param("PPPPP", "F", True, id="fewer attempts now"),
        pytest.param("PPPPP", "P", False, id="fewer attempts now, all pass"),
        pytest.param("P", "PPPFP", False, id="more attempts now"),
        pytest.param("P", "FFFFF", True, id="more attempts now, none passes"),
        pytest.param("PPP", "PPE", True, id="errored now"),
        pytest.param("PPE", "PEP", False, id="errored before, too"),
    ],
)
def test_repeats(before: str, now: str, regressed: bool, alias: str | None) -> None:
    """A scenario regresses beyond its own measured flakiness only; errors always count."""
    stable = "P" * len(before), "P" * len(now)
    comparison = attempts([now, stable[1]], alias).compare_to(attempts([before, stable[0]], alias))
    assert comparison.regressed is regressed
    assert bool(comparison.reasons) is regressed
    if len(before) != len(now):
        assert "only the first" in comparison.notes[0]


def test_repeats_in_words() -> None:
    by_record = attempts(["FFFFP"]).compare_to(attempts(["PPPPP"]))
    assert by_record.reasons[0] == (
        "a: task 't0' passes less often than its flakiness explains in 1 record: "
        "s0 #1 (5 of 5 before, 1 of 5 now)"
    )
    by_scenario = attempts(["FFFFP"], None).compare_to(attempts(["PPPPP"], None))
    assert by_scenario.reasons[0].startswith(
        "scenario 's0': passed in 5 of 5 attempts before, in 1 of 5 now: t0 failed"
    )
    [delta] = by_scenario.scenario_deltas
    assert (delta.baseline_passed_attempts, delta.comparison_passed_attempts) == (5, 1)
    assert (delta.baseline_attempts, delta.comparison_attempts) == (5, 5)
    workflows = by_record.dataset_comparisons["a"].workflow_comparisons
    assert [row.attempt for row in workflows] == [0, 1, 2, 3, 4]
    assert [row.is_regression for row in workflows] == [True, True, True, True, False]


def test_checks_that_fall_where_no_attempt_passed_before(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One of two tasks fell in each attempt: attempts stay 0 of 4, checks go from 50 % to 0 %."""
    comparison = attempts([["FF"] * 4], None).compare_to(attempts([["PF"] * 4], None))
    [reason] = comparison.reasons
    assert reason.startswith(
        "scenario 's0': passed in 0 of 4 attempts before, in 0 of 4 now; "
        "of its checks 50% before, 0% now: t0 failed"
    )
    comparison.as_table()
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    [row] = [row for row in rows if row[:1] == ["s0"]]
    assert " ".join(row) == "s0 0% 0/4, checks 50.0% 0% 0/4, checks 0.0% -50.0 pp regressed"


def test_many_small_falls_add_up() -> None:
    """Each of 12 scenarios falls within its flakiness, all together beyond chance."""
    comparison = attempts(["PPPFF"] * 12).compare_to(attempts(["PPPPF"] * 12))
    assert not any(
        row.is_regression for row in comparison.dataset_comparisons["a"].workflow_comparisons
    )
    assert comparison.regressed
    assert comparison.reasons == (
        "a: all tasks: 80% before, 60% now, more than flakiness explains (12 of 60 fell, 0 rose)",
        "scenarios passed: 80% before, 60% now, more than flakiness explains "
        "(12 of 60 fell, 0 rose)",
    )
    own = attempts(["PPPFF"] * 12, None).compare_to(attempts(["PPPPF"] * 12, None))
    assert own.reasons == (
        "scenarios passed: 80% before, 60% now, more than flakiness explains "
        "(12 of 60 fell, 0 rose)",
    )


def test_repeats_are_clustered_by_scenario() -> None:
    comparison = attempts(["FF"] * 3).compare_to(attempts(["PP"] * 3))
    row = task(comparison, "t0")
    assert (row.clusters, row.pairs) == (3, 6)
    assert row.p_value == pytest.approx(6**-3)  # one of C(4, 2) choices in each scenario


def test_a_record_that_comes_and_goes() -> None:
    """A second record in two of three attempts, then in another two: flaky, not missing."""

    def run(counts: Sequence[int]) -> ScenarioEvalResults:
        rows = [try_ for try_, count in enumerate(counts) for _ in range(count)]
        results = EvalResults([record("P") for _ in rows], ["s"] * len(rows), rows)
        return ScenarioEvalResults(
            dataset_results={"a": results},
            scenario_results=(),
            metrics=EvalMetrics.of({"a": results}, []),
            scenarios=(ScenarioInfo(scenario_id="s", initial_query="q"),),
            repeats=len(counts),
        )

    assert not run([1, 2, 2]).compare_to(run([2, 2, 1])).regressed
    gone = run([1, 2, 2]).compare_to(run([2, 2, 2]))
    assert gone.reasons == ("a: 1 record of the baseline missing: s #2 (attempt 1)",)


def test_an_attempt_that_raised_is_seen() -> None:
    """The agent raised, so that there are no records and no task results."""
    before = attempts(["P", "P"], None)
    broken = before.scenario_results[0].model_copy(
        update={
            "outcome": Outcome.ERRORED, "passed": False, "pass_rate": 0.0, "task_results": (),
            "error": "ValueError: no such order",
        }
    )  # fmt: skip
    now = before.model_copy(update={"scenario_results": (broken, before.scenario_results[1])})
    comparison = now.compare_to(before)
    assert comparison.regressed_scenarios == ["s0"]
    assert comparison.reasons == (
        "scenario 's0': passed before, errored now: ValueError: no such order",
    )
    row = task(comparison, WHOLE_SCENARIOS)
    assert (row.fell, row.comparison_passed, row.comparison_count) == (1, 1, 2)
    back = before.compare_to(now)
    assert not back.regressed


# --- ids that are others in every run ---


def test_random_record_ids_inside_scenarios_are_matched_by_order() -> None:
    """No id of a scenario is in both runs, so ids say nothing there."""

    def run(letters: str) -> ScenarioEvalResults:
        results = EvalResults([record(x, uuid7()) for x in letters], ["s"] * len(letters))
        return attempts(["P"], None).model_copy(update={"dataset_results": {"a": results}})

    comparison = run("PF").compare_to(run("PP"))
    inner = comparison.dataset_comparisons["a"]
    assert (inner.total_workflows, inner.regressed_workflows) == (2, 1)
    assert not inner.missing_records
    assert comparison.notes == (
        "a: the record ids of s are others in each run; records were matched by their order",
    )


# --- storing and printing ---


def test_equal_rates_differ_by_nothing() -> None:
    """(1 + 3 + 3) / 9 and (3 + 3 + 1) / 9 are the same, and as sums of floats they are not."""
    comparison = attempts([["PPP", "FPP", "FPP"]]).compare_to(attempts([["PPP", "PPF", "PPF"]]))
    [delta] = comparison.scenario_deltas
    assert delta.comparison_pass_rate != delta.baseline_pass_rate
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
    assert re.search(r"(?<![+-])0\.0 pp", out.getvalue().partition("Scenario ID")[2])


def test_tables_fit_into_80_columns() -> None:
    """Figures, words and names up to nine letters; beyond that names fold on a terminal."""
    before = attempts(["PP"] * 40, "retriever")
    comparison = attempts(["FP"] * 12 + ["PP"] * 28, "retriever").compare_to(before)
    with redirect_stdout(io.StringIO()) as out:
        comparison.as_table()
        comparison.dataset_comparisons["retriever"].as_table()
    lines = out.getvalue().splitlines()
    start = lines.index(next(line for line in lines if line.startswith("Rates")))
    table = lines[start : start + 8]
    assert all(len(line.rstrip()) <= 80 for line in table)
    [row] = [line.split() for line in table if line.startswith(" retriever")]
    assert row == ["retriever", "100%", "80/80", "85%", "68/80", "-15.0", "pp", "-25", "to",
                   "-9", "<0.001", "regressed"]  # fmt: skip
    assert out.getvalue().startswith("Regressed:\n  - scenarios passed: 80 of 80 attempts before")


@pytest.mark.parametrize(("scenarios", "tries"), [(20, 1), (20, 3)])
def test_an_unchanged_flaky_agent_is_let_go(scenarios: int, tries: int) -> None:
    """Fixed seed, 100 unchanged runs: 70 % of scenarios pass at 0.99, 20 % at 0.85, 10 % at 0.5.

    At most 5 % are called regressed, plus two standard errors.
    """
    random = Random(scenarios + tries)
    rates = [
        0.99 if at < 0.7 * scenarios else 0.85 if at < 0.9 * scenarios else 0.5
        for at in range(scenarios)
    ]

    def run() -> ScenarioEvalResults:
        return attempts(
            [["P" if random.random() < rate else "F" for _ in range(tries)] for rate in rates], None
        )

    found = [run().compare_to(run()).decision for _ in range(60)]
    assert found.count(ComparisonDecision.REGRESSED) / len(found) <= 0.05 + 0.056


def test_many_tasks_of_turns_under_the_null() -> None:
    """Fixed seed, 30 unchanged runs, 20 scenarios of 3 turns of 8 tasks, one try: few stop.

    Turns of one conversation are alike: half of them share a bad day.
    """
    random = Random(11)

    def run() -> ScenarioEvalResults:
        rows: list[list[str]] = []
        for _ in range(20):
            rate = 0.97 if random.random() < 0.5 else 0.9
            rows.append(["".join("P" if random.random() < rate else "F" for _ in range(24))])
        return attempts(rows, None)

    found = [run().compare_to(run()).decision for _ in range(30)]
    assert found.count(ComparisonDecision.REGRESSED) / len(found) <= 0.05 + 0.08
